"""The artifact store: putting, listing, looking up, reading, deleting; always as the caller's tenant sees it."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Final

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from cellhouse.artifacts import BoundStore
from cellhouse.doors.api.runtimes import AllowMissing, PageSize, PageToken
from cellhouse.doors.bodies import announced_sha256, chunks_of, repr_digest
from cellhouse.doors.callers import Scope
from cellhouse.doors.documents import answers, data
from cellhouse.doors.inert import INERT, OCTETS, attachment, content_type
from cellhouse.doors.ranges import asked_part, matches
from cellhouse.doors.segments import ARTIFACT
from cellhouse.doors.sending import ByteStream
from cellhouse.doors.visit import enter, told, told_of
from cellhouse.model import NotFound

router = APIRouter(prefix="/v1/artifacts", tags=["artifacts"], default_response_class=Response)

_DEFAULT_KIND: Final = "file"

Kind = Annotated[str, Query(description="What it is for, in a word: file, input, or one of your own.")]
Label = Annotated[str, Query(description="For people, such as the name of the file.")]
Origin = Annotated[str, Query(description="Name of the execution that made it.")]
Parents = Annotated[list[str] | None, Query(description="Refs that it was made from.")]
Ttl = Annotated[
    float | None,
    Query(gt=0, allow_inf_nan=False, description="Seconds until it expires, where that is to be sooner."),
]


@router.post(
    "",
    responses=answers("StoredArtifact", "It is kept under its new ref."),
    openapi_extra={"requestBody": {"required": True, "content": {"*/*": {"schema": {}}}}},
)
async def put(
    request: Request,
    kind: Kind = _DEFAULT_KIND,
    label: Label = "",
    origin: Origin = "",
    parents: Parents = None,
    ttl: Ttl = None,
) -> Response:
    visit = enter(request, Scope.EXECUTE)
    stored = await visit.house.artifacts.put(
        chunks_of(
            request,
            limit=visit.limits.file_bytes,
            name="file_bytes",
            seconds=visit.limits.body_seconds,
        ),
        kind=kind,
        media_type=request.headers.get("content-type", OCTETS),
        label=label,
        origin=origin,
        parents=parents or (),
        ttl=ttl,
        sha256=announced_sha256(request.headers),
    )
    return told(stored)


@router.get("", responses=answers("ArtifactList", "A page, newest first."))
async def list_artifacts(
    request: Request,
    kind: Annotated[str, Query(description="Of this kind only.")] = "",
    origin: Annotated[str, Query(description="Of this execution only.")] = "",
    page_size: PageSize = 0,
    page_token: PageToken = "",
) -> Response:
    visit = enter(request, Scope.READ)
    artifacts = visit.house.artifacts
    return told(await artifacts.list(kind=kind, origin=origin, page_size=page_size, page_token=page_token))


@router.get(
    ":evictions",
    responses=answers("ArtifactEvictionList", "A page of what retention took away, newest first."),
)
async def evictions(request: Request, page_size: PageSize = 0, page_token: PageToken = "") -> Response:
    visit = enter(request, Scope.READ)
    return told(await visit.house.artifacts.evictions(page_size=page_size, page_token=page_token))


@router.get(ARTIFACT, responses=answers("StoredArtifact", "What is known of it."))
async def head(request: Request, artifact: str) -> Response:
    visit = enter(request, Scope.READ)
    return told(await visit.house.artifacts.head(artifact))


@router.get(
    f"{ARTIFACT}/data",
    responses={
        **data("Its bytes; the connection is cut where they are not what was put.", partial=True),
        304: {"description": "The caller has it already (If-None-Match)."},
    },
)
async def read(request: Request, artifact: str) -> Response:
    visit = enter(request, Scope.READ)
    artifacts = visit.house.artifacts
    known = await artifacts.head(artifact)
    etag = f'"{known.sha256}"'
    headers = {
        **INERT,
        "ETag": etag,
        "Repr-Digest": repr_digest(known.sha256),
        "Content-Disposition": attachment(known.label.rpartition("/")[2] or known.ref),
    }
    if matches(request.headers, etag):
        return Response(status_code=304, headers=headers)
    part = asked_part(request.headers, known.bytes, etag)
    return ByteStream(
        _pieces(artifacts, artifact, part.start, part.end),
        length=part.end - part.start,
        status=part.status,
        headers={**headers, **part.headers()},
        media_type=content_type(known.media_type.partition(";")[0].strip()),
        stall_seconds=visit.limits.stall_seconds,
    )


@router.delete(ARTIFACT, responses=answers("Empty", "There is no such artifact any more."))
async def delete(request: Request, artifact: str, allow_missing: AllowMissing = False) -> Response:
    visit = enter(request, Scope.EXECUTE)
    try:
        await visit.house.artifacts.delete(artifact)
    except NotFound:
        if not allow_missing:
            raise
    return told_of({})


async def _pieces(artifacts: BoundStore, ref: str, start: int, end: int) -> AsyncGenerator[bytes, None]:
    """Opened only when the first is asked for: nothing is to be closed where nobody ever does."""
    async with await artifacts.get(ref, start=start, end=end) as reading:
        async with aclosing(aiter(reading)) as pieces:  # type: ignore[type-var]
            async for piece in pieces:
                yield piece
