"""Inputs of a runtime: staged by their bytes, or from the artifact store."""

import base64
import binascii
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from cellhouse.doors.bodies import announced_sha256, chunks_of
from cellhouse.doors.callers import Scope
from cellhouse.doors.documents import answers, ref, takes
from cellhouse.doors.inert import OCTETS
from cellhouse.doors.segments import FILE, RUNTIME
from cellhouse.doors.visit import enter, told
from cellhouse.model import InvalidArgument, StagedInput, StagedInputs

router = APIRouter(prefix=RUNTIME, tags=["inputs"], default_response_class=Response)


@router.post(
    ":stageInputs",
    responses=answers("StagedInputs", "Where each stands; every later execution finds them by their names."),
    openapi_extra=takes(ref("StageInputsRequest")),
)
async def stage_inputs(request: Request, runtime: str) -> Response:
    visit = enter(request, Scope.EXECUTE)
    given = (await visit.json()).get("inputs")
    if not isinstance(given, dict):
        raise InvalidArgument.of_field(
            "inputs", 'send {"inputs": {NAME: {"data": BASE64} or {"ref": "art_…"}}}'
        )
    inputs = {name: _input(name, each) for name, each in given.items()}
    staged = await visit.house.stage_inputs(f"runtimes/{runtime}", inputs)
    return told(StagedInputs(paths=dict(staged)))


@router.put(
    f"/inputs/{{name:{FILE}}}",
    responses=answers("StagedInputs", "Where it stands; every later execution finds it by its name."),
    openapi_extra={"requestBody": {"required": True, "content": {OCTETS: {"schema": {}}}}},
)
async def stage_input(request: Request, runtime: str, name: str) -> Response:
    visit = enter(request, Scope.EXECUTE)
    limit = visit.limits.file_bytes
    path = await visit.house.stage_input(
        f"runtimes/{runtime}",
        name,
        chunks_of(request, limit=limit, name="file_bytes", seconds=visit.limits.body_seconds),
        limit=limit,
        sha256=announced_sha256(request.headers),
    )
    return told(StagedInputs(paths={name: path}))


def _input(name: str, value: Any) -> StagedInput:
    """What a document says of one input. Never a path: that would be a file of the service's machine."""
    field = f"inputs[{name[:80]!a}]"
    if not isinstance(value, dict) or ("data" in value) == ("ref" in value):
        raise InvalidArgument.of_field(field, "it takes exactly one of data (base64) and ref (an artifact's)")
    text = value.get("data", value.get("ref"))
    if not isinstance(text, str):
        raise InvalidArgument.of_field(field, f"it is a {type(text).__name__}; it takes a string")
    if "ref" in value:
        return text
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidArgument.of_field(
            field, "data takes base64 (RFC 4648, section 4, with padding)"
        ) from None
