"""Rich outputs: what one is with its bundle, and one representation of it as bytes that no browser runs."""

import hashlib
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from cellhouse.doors.callers import Scope
from cellhouse.doors.documents import answers, data
from cellhouse.doors.inert import INERT, content_type
from cellhouse.doors.ranges import asked_part, matches
from cellhouse.doors.segments import EXECUTION, RUNTIME, SESSION
from cellhouse.doors.visit import enter, told_of

MODIFIED = "Cellhouse-Modified"
"""In the head of data whose file the code has changed since it was written."""

router = APIRouter(
    prefix=f"{RUNTIME}{SESSION}{EXECUTION}/richOutputs",
    tags=["richOutputs"],
    default_response_class=Response,
)

Index = Annotated[int, Path(ge=0, le=2**31 - 1, description="From 0, in the order of emission.")]


@router.get(
    "/{index}",
    responses=answers("RichOutput", "The output as it is now, with its bundle: an nbformat output."),
)
async def rich_output(
    request: Request,
    runtime: str,
    session: str,
    execution: str,
    index: Index,
    view: Annotated[Literal["full", "basic"], Query(description="`basic` leaves the bundle out.")] = "full",
) -> Response:
    visit = enter(request, Scope.READ)
    name = f"runtimes/{runtime}/sessions/{session}/executions/{execution}"
    document = (await visit.house.get_rich_output(name, index)).to_wire()
    if view == "full" and "errorInfo" not in document:
        document["bundle"] = await visit.house.get_bundle(name, index)
    return told_of(document)


@router.get(
    "/{index}/data",
    responses={
        **data("One representation, decoded.", partial=True),
        304: {"description": "The caller has this version already (If-None-Match)."},
    },
)
async def output_data(
    request: Request,
    runtime: str,
    session: str,
    execution: str,
    index: Index,
    mime_type: Annotated[str, Query(alias="mimeType", min_length=1, description="One of its mimeTypes.")],
) -> Response:
    visit = enter(request, Scope.READ)
    name = f"runtimes/{runtime}/sessions/{session}/executions/{execution}"
    found = await visit.house.get_output_data(name, index, mime_type)
    etag = f'"{hashlib.sha256(found.data).hexdigest()}"'
    headers = {**INERT, "ETag": etag}
    if found.modified:
        headers[MODIFIED] = "true"
    if matches(request.headers, etag):
        return Response(status_code=304, headers=headers)
    part = asked_part(request.headers, len(found.data), etag)
    return Response(
        found.data[part.start : part.end],
        status_code=part.status,
        headers={**headers, **part.headers(), "Content-Type": content_type(found.mime_type)},
    )
