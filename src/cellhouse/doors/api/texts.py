"""The whole texts of an execution: all of one, a byte range, or a page by offset and limit."""

from collections.abc import AsyncGenerator
from typing import Annotated, Final

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from cellhouse.doors.callers import Scope
from cellhouse.doors.documents import data, json_body, ref
from cellhouse.doors.inert import INERT
from cellhouse.doors.ranges import asked_part
from cellhouse.doors.segments import EXECUTION, RUNTIME, SESSION
from cellhouse.doors.sending import ByteStream
from cellhouse.doors.visit import enter, told
from cellhouse.house import TextName
from cellhouse.keepers import AnyHouse
from cellhouse.model import TextPart

PAGE_BYTES: Final = 1 << 20
"""Read at once of a text that is streamed."""
DEFAULT_LIMIT: Final = 65_536

router = APIRouter(
    prefix=RUNTIME + SESSION + EXECUTION,
    tags=["executions"],
    default_response_class=Response,
)

Offset = Annotated[
    int | None,
    Query(ge=0, le=2**63 - 1, description="Give a page as JSON, from this byte of the UTF-8 on."),
]
Limit = Annotated[
    int | None, Query(ge=1, le=2**63 - 1, description="Give a page as JSON, of about so many bytes.")
]

_ANSWERS = data("The whole text as it was sent, in UTF-8.", "text/plain", partial=True)
_ANSWERS[200]["content"] |= json_body(ref("TextPart"))


@router.get("/stdout", responses=_ANSWERS)
async def stdout(
    request: Request, runtime: str, session: str, execution: str, offset: Offset = None, limit: Limit = None
) -> Response:
    return await _text(
        request, f"{runtime}/sessions/{session}/executions/{execution}", "stdout", offset, limit
    )


@router.get("/stderr", responses=_ANSWERS)
async def stderr(
    request: Request, runtime: str, session: str, execution: str, offset: Offset = None, limit: Limit = None
) -> Response:
    return await _text(
        request, f"{runtime}/sessions/{session}/executions/{execution}", "stderr", offset, limit
    )


@router.get("/result", responses=_ANSWERS)
async def result(
    request: Request, runtime: str, session: str, execution: str, offset: Offset = None, limit: Limit = None
) -> Response:
    return await _text(
        request, f"{runtime}/sessions/{session}/executions/{execution}", "result", offset, limit
    )


@router.get("/traceback", responses=_ANSWERS)
async def traceback(
    request: Request, runtime: str, session: str, execution: str, offset: Offset = None, limit: Limit = None
) -> Response:
    return await _text(
        request, f"{runtime}/sessions/{session}/executions/{execution}", "traceback", offset, limit
    )


async def _text(
    request: Request, name: str, which: TextName, offset: int | None, limit: int | None
) -> Response:
    visit = enter(request, Scope.READ)
    name = f"runtimes/{name}"
    if offset is not None or limit is not None:
        page = await visit.house.read_text(name, which, offset=offset or 0, limit=limit or DEFAULT_LIMIT)
        return told(
            TextPart(
                text=page.text,
                offset=page.offset,
                next_offset=page.next_offset,
                total_bytes=page.total_bytes,
                eof=page.eof,
            )
        )
    total = (await visit.house.read_text(name, which, limit=1)).total_bytes
    part = asked_part(request.headers, total)
    return ByteStream(
        text_bytes(visit.house, name, which, part.start, part.end),
        length=part.end - part.start,
        status=part.status,
        headers={**INERT, **part.headers()},
        media_type="text/plain; charset=utf-8",
        stall_seconds=visit.limits.stall_seconds,
    )


async def text_bytes(
    house: AnyHouse, name: str, which: TextName, start: int, end: int
) -> AsyncGenerator[bytes, None]:
    """These bytes of a text, also where they begin or end inside a character."""
    while start < end:
        page = await house.read_text(name, which, offset=start, limit=PAGE_BYTES)
        piece = page.text.encode()[start - page.offset :][: end - start]
        if not piece:
            return
        yield piece
        start += len(piece)
