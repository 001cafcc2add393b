"""Tools that run code and wait for it: execute_code, get_execution."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

from mcp import types

from cellhouse.doors.mcp import arguments
from cellhouse.doors.mcp.answers import Links, call, refused, told
from cellhouse.doors.mcp.guest import Context, Guest
from cellhouse.doors.mcp.place import Watched
from cellhouse.doors.mcp.progress import Progress
from cellhouse.doors.mcp.rendering import BUDGET, LISTED, rendered
from cellhouse.doors.mcp.uris import execution_uri, file_uri, output_uri
from cellhouse.model import (
    CellhouseError,
    DeadlineExceeded,
    Event,
    ExecuteCodeRequest,
    ExecuteCodeResult,
    ExecutionName,
    ExecutionState,
    FinishedEvent,
    TailFrame,
)
from cellhouse.runtime.logs import logger

_logger = logger()

WAIT_SECONDS: Final = 50.0
"""What a call waits where it does not say: many clients give up on a tool after a minute."""
FRAME: Final = 700
"""Characters of the text of an error that are not its partial output."""


async def execute_code(guest: Guest, context: Context, given: dict[str, Any]) -> types.CallToolResult:
    asked = arguments.ExecuteCode.read("execute_code", given)
    request = ExecuteCodeRequest(
        code=asked.code,
        session=asked.session,
        runtime=asked.runtime,
        execution_id=asked.execution_id,
        execution_timeout=asked.execution_timeout,
        wait_timeout=asked.wait_timeout or WAIT_SECONDS,
    )
    request.check()
    handing_in = asyncio.ensure_future(guest.place.execute(request))
    key = str(context.request_id)
    if guest.calls is not None:
        guest.calls.begin(key, handing_in)
    try:
        # Shielded: a call that is broken off hands in whole or is refused, and never something in between.
        handle = await asyncio.shield(handing_in)
        result = await _watched(handle, context)
    except DeadlineExceeded as error:
        return _deadline(error, again=bool(asked.execution_id))
    except asyncio.CancelledError:
        handing_in.add_done_callback(_left)
        raise  # remembered by its calls: a cancelling may come just behind
    except BaseException:
        if guest.calls is not None:
            guest.calls.end(key)
        raise
    if guest.calls is not None:
        guest.calls.end(key)
    return finished(result)


def _left(handing_in: asyncio.Task[Watched]) -> None:
    """Nobody waits for it any more; what went wrong is logged, since nobody else will hear of it."""
    if not handing_in.cancelled() and (error := handing_in.exception()) is not None:
        _logger.debug("code was refused when nobody waited any more", error=str(error))


async def _watched(handle: Watched, context: Context) -> ExecuteCodeResult:
    """Its result; what it prints meanwhile goes out as progress, where the caller asked for that."""
    if not wants_progress(context):
        return await handle.result()
    following = asyncio.ensure_future(_followed(handle.live(), context))
    try:
        return await handle.result()
    finally:
        following.cancel()
        await asyncio.wait([following])


async def _followed(events: AsyncIterator[Event | TailFrame], context: Context) -> None:
    async def report(number: float, message: str) -> None:
        await context.session.report_progress(number, None, message)

    try:
        await Progress(report).follow(events)
    except CellhouseError as error:  # the result, or its error, is told all the same
        _logger.info("progress could not be told", reason=error.reason)


def wants_progress(context: Context) -> bool:
    return context.meta is not None and context.meta.get("progress_token") is not None


async def get_execution(guest: Guest, context: Context, given: dict[str, Any]) -> types.CallToolResult:
    asked = arguments.GetExecution.read("get_execution", given)
    name = str(ExecutionName.parse(asked.execution))
    result = await guest.place.get_execution(name)
    if asked.wait_timeout is None or result.state is ExecutionState.FINISHED:
        return finished(result)
    waiting = asyncio.ensure_future(_end(guest.place.watch(name), context))
    await asyncio.wait([waiting], timeout=asked.wait_timeout)
    if not waiting.done():
        waiting.cancel()
        await asyncio.wait([waiting])
        return finished(await guest.place.get_execution(name))
    return finished(waiting.result() or await guest.place.get_execution(name))


async def _end(events: AsyncIterator[Event | TailFrame], context: Context) -> ExecuteCodeResult | None:
    """The result that `finished` has; on the way there its events go out as progress, where that was asked for."""
    found: list[ExecuteCodeResult] = []

    async def until_end() -> AsyncIterator[Event | TailFrame]:
        async for event in events:
            if isinstance(event, FinishedEvent):
                found.append(event.result)
            yield event

    if wants_progress(context):
        await _followed(until_end(), context)
    else:
        async for _ in until_end():
            pass
    return found[0] if found else None


def finished(result: ExecuteCodeResult) -> types.CallToolResult:
    """A result, or a snapshot: the whole of it, its words, and links to what is read elsewhere."""
    return told(result, rendered(result), links_of(result))


def _deadline(error: DeadlineExceeded, *, again: bool) -> types.CallToolResult:
    """The partial output, and how to go on."""
    execution = error.execution or ""
    wait = call("get_execution", execution=execution, waitTimeout=WAIT_SECONDS)
    if again:
        how = f"Call again with the same arguments to go on; they run nothing a second time. Or: {wait}."
    else:
        how = (
            f"To go on: {wait}. Calling execute_code again would run the code a second time, since the call had no executionId; "
            "with one, you call again with the same arguments to go on."
        )
    stop = "interrupt_session ends it."
    head = f"DEADLINE_EXCEEDED: the code did not end within waitTimeout, and runs on. {how} {stop}"
    partial = error.partial_result
    words = head if partial is None else f"{head}\n{rendered(partial, BUDGET - len(head) - 1)}"
    return refused(error, text=words)


def links_of(result: ExecuteCodeResult) -> Links:
    """Rich outputs and files, and the whole result where it is cut; as many as have a line in the words."""
    execution = result.execution
    runtime = execution.partition("/sessions/")[0]
    links = [
        types.ResourceLink(
            uri=output_uri(execution, output.index, output.mime_types[0]),
            name=f"output-{output.index}",
            title=f"Rich output {output.index}",
            mime_type=output.mime_types[0],
            description=f"A rich output, {output.size_bytes} bytes with all its representations.",
        )
        for output in result.rich_outputs[:LISTED]
        if not output.dropped
    ]
    links += [
        types.ResourceLink(
            uri=file_uri(runtime, file.name),
            name=file.name,
            mime_type=file.media_type,
            size=file.bytes,
        )
        for file in (result.artifacts or ())[:LISTED]
        if file.error_info is None
    ]
    if result.output_truncated:
        links.append(
            types.ResourceLink(
                uri=execution_uri(execution),
                name="execution",
                title="The whole result",
                mime_type="application/json",
            )
        )
    return links
