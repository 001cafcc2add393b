"""Sessions of a runtime: creating, listing, interrupting, restarting, deleting."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from cellhouse.doors.api.runtimes import AllowMissing, PageSize, PageToken
from cellhouse.doors.bodies import text_field
from cellhouse.doors.callers import Scope
from cellhouse.doors.documents import answers, ref, takes
from cellhouse.doors.segments import RUNTIME, SESSION
from cellhouse.doors.visit import enter, told, told_of
from cellhouse.model import NotFound

router = APIRouter(prefix=RUNTIME, tags=["sessions"], default_response_class=Response)


@router.post(
    "/sessions",
    responses=answers("Session", "The new session."),
    openapi_extra=takes(ref("CreateSessionRequest"), required=False),
)
async def create_session(request: Request, runtime: str) -> Response:
    visit = enter(request, Scope.EXECUTE)
    session = text_field(await visit.json(), "sessionId")
    return told(await visit.house.create_session(f"runtimes/{runtime}", session_id=session))


@router.get("/sessions", responses=answers("SessionList", "A page of its sessions, by name."))
async def list_sessions(
    request: Request, runtime: str, page_size: PageSize = 0, page_token: PageToken = ""
) -> Response:
    visit = enter(request, Scope.READ)
    page = await visit.house.page_sessions(f"runtimes/{runtime}", page_size=page_size, page_token=page_token)
    return told(page)


@router.post(
    f"{SESSION}:interrupt",
    responses=answers("InterruptResponse", "Whether anything ran there to be interrupted."),
)
async def interrupt(request: Request, runtime: str, session: str) -> Response:
    visit = enter(request, Scope.EXECUTE)
    return told_of({"interrupted": await visit.house.interrupt(f"runtimes/{runtime}/sessions/{session}")})


@router.post(
    f"{SESSION}:restart",
    responses=answers("Session", "What ran and waited there has ended; the next code gets a fresh kernel."),
)
async def restart(request: Request, runtime: str, session: str) -> Response:
    visit = enter(request, Scope.EXECUTE)
    name = f"runtimes/{runtime}/sessions/{session}"
    await visit.house.restart(name)
    return told(await visit.house.get_session(name))


@router.get(
    f"{SESSION}/log",
    responses=answers("SessionLogPage", "What its kernels said that belongs to no execution, oldest first."),
)
async def session_log(
    request: Request, runtime: str, session: str, page_size: PageSize = 0, page_token: PageToken = ""
) -> Response:
    visit = enter(request, Scope.READ)
    name = f"runtimes/{runtime}/sessions/{session}"
    return told(await visit.house.page_session_log(name, page_size=page_size, page_token=page_token))


@router.get(SESSION, responses=answers("Session", "The session, as it is now."))
async def get_session(request: Request, runtime: str, session: str) -> Response:
    visit = enter(request, Scope.READ)
    return told(await visit.house.get_session(f"runtimes/{runtime}/sessions/{session}"))


@router.delete(SESSION, responses=answers("Empty", "What ran there was aborted; files of /content stay."))
async def delete_session(
    request: Request, runtime: str, session: str, allow_missing: AllowMissing = False
) -> Response:
    visit = enter(request, Scope.EXECUTE)
    try:
        await visit.house.delete_session(f"runtimes/{runtime}/sessions/{session}")
    except NotFound:
        if not allow_missing:
            raise
    return told_of({})
