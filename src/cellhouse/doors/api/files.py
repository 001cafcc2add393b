"""Files of /content: listing, reading, writing whole, removing."""

import mimetypes
from collections.abc import AsyncGenerator
from typing import Annotated, Final

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from cellhouse.doors.api.runtimes import AllowMissing
from cellhouse.doors.bodies import announced_sha256, chunks_of, repr_digest, wants_digest
from cellhouse.doors.callers import Scope
from cellhouse.doors.documents import answers, data
from cellhouse.doors.inert import INERT, OCTETS, attachment, content_type
from cellhouse.doors.ranges import asked_part, matches
from cellhouse.doors.segments import FILE, RUNTIME
from cellhouse.doors.sending import ByteStream
from cellhouse.doors.visit import enter, told, told_of
from cellhouse.model import InvalidArgument, NotFound
from cellhouse.runtime import ContentFile

BLOCK: Final = 256 << 10

router = APIRouter(prefix=f"{RUNTIME}/files", tags=["files"], default_response_class=Response)


@router.get("", responses=answers("FileList", "The names in a directory of /content, at most 10,000."))
async def list_files(
    request: Request,
    runtime: str,
    path: Annotated[str, Query(description="A directory; empty is /content itself.")] = "",
    recursive: Annotated[bool, Query(description="What is below it, too.")] = False,
) -> Response:
    visit = enter(request, Scope.READ)
    return told(await visit.house.list_files(f"runtimes/{runtime}", path, recursive=recursive))


@router.get(
    f"/{{path:{FILE}}}",
    responses={
        **data("The file.", partial=True),
        304: {"description": "The caller has this version already (If-None-Match)."},
    },
)
async def read_file(request: Request, runtime: str, path: str) -> Response:
    visit = enter(request, Scope.READ)
    file = visit.house.open_file(f"runtimes/{runtime}", path)
    try:
        etag = f'"{file.version}"'
        headers = {**INERT, "ETag": etag, "Content-Disposition": attachment(path.rpartition("/")[2])}
        if matches(request.headers, etag):
            file.close()
            return Response(status_code=304, headers=headers)
        part = asked_part(request.headers, file.size, etag)
        if wants_digest(request.headers):
            headers["Repr-Digest"] = repr_digest(await file.sha256())
    except BaseException:
        file.close()
        raise
    return ByteStream(
        _blocks(file, part.start, part.end),
        length=part.end - part.start,
        status=part.status,
        headers={**headers, **part.headers()},
        media_type=content_type(mimetypes.guess_type(path)[0] or OCTETS),
        stall_seconds=visit.limits.stall_seconds,
        on_end=file.close,
    )


@router.put(
    f"/{{path:{FILE}}}",
    responses=answers("FileWritten", "The file is in place, whole; what stood there is replaced."),
    openapi_extra={"requestBody": {"required": True, "content": {OCTETS: {"schema": {}}}}},
)
async def write_file(request: Request, runtime: str, path: str) -> Response:
    visit = enter(request, Scope.EXECUTE)
    if "content-range" in request.headers:
        raise InvalidArgument.of_field(
            "Content-Range", "a file is written whole, never a part of it; send all of it, without this field"
        )
    limit = visit.limits.file_bytes
    written = await visit.house.receive_file(
        f"runtimes/{runtime}",
        path,
        chunks_of(request, limit=limit, name="file_bytes", seconds=visit.limits.body_seconds),
        limit=limit,
        sha256=announced_sha256(request.headers),
    )
    return told(written)


@router.delete(f"/{{path:{FILE}}}", responses=answers("Empty", "There is no such file any more."))
async def delete_file(
    request: Request, runtime: str, path: str, allow_missing: AllowMissing = False
) -> Response:
    visit = enter(request, Scope.EXECUTE)
    try:
        await visit.house.delete_file(f"runtimes/{runtime}", path)
    except NotFound:
        if not allow_missing:
            raise
    return told_of({})


async def _blocks(file: ContentFile, start: int, end: int) -> AsyncGenerator[bytes, None]:
    """These bytes of it, fewer where it was cut off meanwhile."""
    while start < end and (block := await file.read(start, min(BLOCK, end - start))):
        yield block
        start += len(block)
