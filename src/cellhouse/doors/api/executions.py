"""Executing code, and what becomes of it: the result, the events, cancelling, input."""

from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from cellhouse.doors.api.runtimes import PageSize, PageToken
from cellhouse.doors.bodies import text_field
from cellhouse.doors.callers import Scope
from cellhouse.doors.documents import answers, errors, json_body, ref, streams, takes
from cellhouse.doors.segments import EXECUTION, RUNTIME, SESSION
from cellhouse.doors.sending import unless_gone
from cellhouse.doors.streams import Deadline, EventStream, Form, asked_form, last_event_id
from cellhouse.doors.visit import Visit, enter, told, told_of
from cellhouse.model import (
    CallReason,
    ExecuteCodeRequest,
    ExecutionCode,
    ExecutionList,
    ExecutionSummary,
    InvalidArgument,
)
from cellhouse.runtime import ExecutionHandle

NAMED = "Cellhouse-Execution"
"""Names the execution in the head of every response to executeCode."""
ATTACHED = "Cellhouse-Attached"
"""Says in the head of a stream whether the execution was there before this call."""

router = APIRouter(prefix=RUNTIME, tags=["executions"], default_response_class=Response)
_ONE = SESSION + EXECUTION

_EXECUTED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The result; or events as they come, the last one `finished`.",
        "content": {**json_body(ref("ExecuteCodeResult")), **streams("")[200]["content"]},
    },
    **errors(),
}
_CODE = takes(ref("ExecuteCodeRequest"))


@router.post(f"{SESSION}:executeCode", responses=_EXECUTED, openapi_extra=_CODE)
async def execute_in_session(request: Request, runtime: str, session: str) -> Response:
    return await _execute(enter(request, Scope.EXECUTE), "session", f"runtimes/{runtime}/sessions/{session}")


@router.post(":executeCode", responses=_EXECUTED, openapi_extra=_CODE)
async def execute_in_runtime(request: Request, runtime: str) -> Response:
    return await _execute(enter(request, Scope.EXECUTE), "runtime", f"runtimes/{runtime}")


async def _execute(visit: Visit, target: str, name: str) -> Response:
    form = asked_form(visit.request.headers.get("accept"), Form.JSON)
    body = await visit.json()
    for field in ("session", "runtime"):
        if body.get(field) not in (None, "", name if field == target else None):
            raise InvalidArgument.of_field(
                field,
                f"the path names {name}, and the body another target; leave it out of the body",
                reason=CallReason.INVALID_TARGET,
            )
    request = ExecuteCodeRequest.from_wire({**body, "session": None, "runtime": None, target: name})
    if form is Form.JSON:
        handle = await visit.tenant.execute(request, visit.caller)
        result = await unless_gone(handle.result(), visit.request.receive)
        return told(result, {NAMED: result.execution})
    slot = visit.tenant.open_stream()  # before anything runs that could not be shown
    try:
        handle = await visit.tenant.execute(request, visit.caller)
        return EventStream(
            handle.follower(
                after=_resumed(visit, handle), tails=True, page_bytes=visit.limits.stream_page_bytes
            ),
            form,
            slot,
            visit.limits,
            deadline=Deadline(handle.wait_timeout, handle.deadline),
            headers={NAMED: str(handle.name), ATTACHED: "true" if handle.attached else "false"},
        )
    except BaseException:
        slot.close()
        raise


def _resumed(visit: Visit, handle: ExecutionHandle) -> int:
    """Where a repeated call reads on; what has just begun is read from its beginning."""
    last = last_event_id(visit.request.headers.get("last-event-id"))
    return last or 0 if handle.attached else 0


@router.get(f"{SESSION}/executions", responses=answers("ExecutionList", "A page, oldest first."))
async def list_executions(
    request: Request, runtime: str, session: str, page_size: PageSize = 0, page_token: PageToken = ""
) -> Response:
    visit = enter(request, Scope.READ)
    name = f"runtimes/{runtime}/sessions/{session}"
    page = await visit.house.list_executions(name, page_size=page_size, page_token=page_token)
    if not page.entries and not page_token:
        await visit.house.get_session(name)  # one that never was is not the same as one in which nothing ran
    return told(
        ExecutionList(
            executions=tuple(
                ExecutionSummary(
                    execution=entry.name,
                    execution_id=entry.execution_id,
                    state=entry.state,
                    outcome=entry.outcome,
                    code_sha256=entry.code_sha256,
                    create_time=entry.created,
                    end_time=entry.ended or None,
                )
                for entry in page.entries
            ),
            next_page_token=page.next_page_token,
        )
    )


@router.post(f"{_ONE}:cancel", responses=answers("Empty", "It is being interrupted, or had ended."))
async def cancel(request: Request, runtime: str, session: str, execution: str) -> Response:
    visit = enter(request, Scope.EXECUTE)
    await visit.house.cancel(_name(runtime, session, execution))
    return told_of({})


@router.post(
    f"{_ONE}:provideInput",
    responses=answers("Empty", "The code has its input."),
    openapi_extra=takes(ref("ProvideInputRequest")),
)
async def provide_input(request: Request, runtime: str, session: str, execution: str) -> Response:
    visit = enter(request, Scope.EXECUTE)
    value = text_field(await visit.json(), "value")
    if value is None:
        raise InvalidArgument.of_field("value", 'it is missing; send {"value": "…"}')
    await visit.house.provide_input(_name(runtime, session, execution), value)
    return told_of({})


@router.get(_ONE, responses=answers("ExecuteCodeResult", "The snapshot while it runs, the result after."))
async def get_execution(request: Request, runtime: str, session: str, execution: str) -> Response:
    visit = enter(request, Scope.READ)
    return told(await visit.house.get_execution(_name(runtime, session, execution)))


@router.get(f"{_ONE}/code", responses=answers("ExecutionCode", "The code, as it was handed in."))
async def get_code(request: Request, runtime: str, session: str, execution: str) -> Response:
    visit = enter(request, Scope.READ)
    return told(ExecutionCode(code=await visit.house.get_code(_name(runtime, session, execution))))


@router.get(
    f"{_ONE}/events",
    responses={
        **streams("Its events, live."),
        204: {"description": "It has finished, and there are no more."},
    },
)
async def events(
    request: Request,
    runtime: str,
    session: str,
    execution: str,
    after: Annotated[
        int, Query(ge=0, le=2**53 - 1, description="Events above this number; Last-Event-ID goes before it.")
    ] = 0,
    follow: Annotated[str, Query(pattern="^(late)?$", description="`late`: go on after `finished`.")] = "",
) -> Response:
    visit = enter(request, Scope.READ)
    form = asked_form(visit.request.headers.get("accept"), Form.SSE)
    if form is Form.JSON:
        form = Form.NDJSON
    last = last_event_id(request.headers.get("last-event-id"))
    follower = await visit.house.follower(
        _name(runtime, session, execution),
        after=after if last is None else last,
        late=follow == "late",
        tails=True,
        page_bytes=visit.limits.stream_page_bytes,
    )
    if follower.done:
        return Response(status_code=204)  # by which an EventSource knows that it need not come again
    return EventStream(follower, form, visit.tenant.open_stream(), visit.limits)


def _name(runtime: str, session: str, execution: str) -> str:
    return f"runtimes/{runtime}/sessions/{session}/executions/{execution}"
