"""Runtimes: what may be created, creating, listing, keeping, deleting."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from cellhouse.doors.bodies import text_field
from cellhouse.doors.callers import Scope
from cellhouse.doors.documents import answers, ref, takes
from cellhouse.doors.segments import RUNTIME
from cellhouse.doors.visit import enter, told, told_of
from cellhouse.model import NotFound, RuntimeSpec

router = APIRouter(tags=["runtimes"], default_response_class=Response)

PageSize = Annotated[int, Query(alias="pageSize", ge=0, description="At most so many; 0 is the default.")]
PageToken = Annotated[str, Query(alias="pageToken", description="nextPageToken of the page before.")]
AllowMissing = Annotated[bool, Query(alias="allowMissing", description="Nothing to delete is no error.")]


@router.get("/v1/runtimeSpecs", responses=answers("RuntimeSpecs", "What may be created here."))
async def runtime_specs(request: Request) -> Response:
    visit = enter(request, Scope.READ)
    specs = await visit.house.runtime_specs()
    if Scope.EXECUTE not in visit.caller.scopes:
        specs = specs.model_copy(update={"may_create": False})
    return told(specs)


@router.post(
    "/v1/runtimes",
    responses=answers("Runtime", "The runtime, ready; with a requestId, the one that it made first."),
    openapi_extra=takes(ref("CreateRuntimeRequest"), required=False),
)
async def create_runtime(request: Request) -> Response:
    visit = enter(request, Scope.EXECUTE)
    body = await visit.json()
    spec = body.get("runtime")
    made = await visit.house.create_runtime(
        RuntimeSpec() if spec is None else RuntimeSpec.from_wire(spec),
        runtime_id=text_field(body, "runtimeId"),
        request_id=text_field(body, "requestId"),
    )
    return told(made)


@router.get("/v1/runtimes", responses=answers("RuntimeList", "A page of the runtimes that live, by name."))
async def list_runtimes(request: Request, page_size: PageSize = 0, page_token: PageToken = "") -> Response:
    visit = enter(request, Scope.READ)
    return told(await visit.house.page_runtimes(page_size=page_size, page_token=page_token))


@router.post(f"{RUNTIME}:keepAlive", responses=answers("Runtime", "With its new expireTime."))
async def keep_alive(request: Request, runtime: str) -> Response:
    visit = enter(request, Scope.EXECUTE)
    return told(await visit.house.keep_alive(f"runtimes/{runtime}"))


@router.get(
    f"{RUNTIME}/networkLog",
    responses=answers(
        "SessionLogPage", "Each decision about its network, oldest first; of one that is gone, too."
    ),
)
async def network_log(
    request: Request, runtime: str, page_size: PageSize = 0, page_token: PageToken = ""
) -> Response:
    visit = enter(request, Scope.READ)
    name = f"runtimes/{runtime}"
    return told(await visit.house.page_network_log(name, page_size=page_size, page_token=page_token))


@router.get(RUNTIME, responses=answers("Runtime", "The runtime, as it is now."))
async def get_runtime(request: Request, runtime: str) -> Response:
    visit = enter(request, Scope.READ)
    return told(await visit.house.get_runtime(f"runtimes/{runtime}"))


@router.delete(RUNTIME, responses=answers("Empty", "It has ended, and its files are gone."))
async def delete_runtime(request: Request, runtime: str, allow_missing: AllowMissing = False) -> Response:
    visit = enter(request, Scope.EXECUTE)
    try:
        await visit.house.delete_runtime(f"runtimes/{runtime}")
    except NotFound:
        if not allow_missing:
            raise
    return told_of({})
