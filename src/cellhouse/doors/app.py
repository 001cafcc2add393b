"""The application behind the gate: routes, errors in one shape, the OpenAPI document."""

from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from cellhouse import __version__
from cellhouse.doors import metrics as metrics_text
from cellhouse.doors.api import ROUTERS
from cellhouse.doors.callers import LOCAL_TENANT, Authenticator, Scope
from cellhouse.doors.documents import IDS, answers, components, data
from cellhouse.doors.gate import Gate
from cellhouse.doors.limits import DoorLimits
from cellhouse.doors.mcp.http import PATH as MCP_PATH, McpDoor
from cellhouse.doors.metrics import Metrics
from cellhouse.doors.origins import Origins
from cellhouse.doors.page import HEADERS, docs_page
from cellhouse.doors.problems import ClientGone, on_error, on_gone, on_http, on_invalid, on_unexpected
from cellhouse.doors.tenants import Tenants
from cellhouse.doors.visit import enter, told_of
from cellhouse.model import CallReason, CellhouseError, Unavailable

TITLE = "Cellhouse"
DESCRIPTION = "Runs code in live Jupyter kernels inside sandboxes, and tells the truth about what happened."

_service = APIRouter(tags=["service"], default_response_class=Response)


@_service.get("/healthz", responses=answers("Empty", "The process answers."))
async def healthz() -> Response:
    return told_of({"status": "ok"})


@_service.get("/readyz", responses=answers("Empty", "It takes new work."))
async def readyz(request: Request) -> Response:
    if request.app.state.tenants.draining:
        raise Unavailable("the service is about to stop", reason=CallReason.SHUTTING_DOWN)
    return told_of({"status": "ready"})


@_service.get("/metrics", responses=data("Counters, in the text format of Prometheus.", "text/plain"))
async def metrics(request: Request) -> Response:
    visit = enter(request, Scope.ADMIN)
    whose = None if visit.caller.tenant == LOCAL_TENANT else visit.tenant
    return Response(
        await request.app.state.metrics.text(whose), headers={"Content-Type": metrics_text.CONTENT_TYPE}
    )


@_service.get("/docs", include_in_schema=False)
async def docs(request: Request) -> Response:
    return HTMLResponse(docs_page(request.app.openapi()), headers=HEADERS)


def make_app(
    tenants: Tenants,
    authenticator: Authenticator,
    *,
    origins: Origins,
    limits: DoorLimits,
    mcp: McpDoor | None = None,
) -> Gate:
    """The whole service as one ASGI application. Opening and closing the tenants, and `mcp`, is the caller's."""
    counted = Metrics(tenants)
    return Gate(
        make_api(tenants, limits, counted, mcp),
        tenants=tenants,
        authenticator=authenticator,
        origins=origins,
        limits=limits,
        metrics=counted,
    )


def make_api(tenants: Tenants, limits: DoorLimits, counted: Metrics, mcp: McpDoor | None = None) -> FastAPI:
    """What is behind the gate."""
    app = FastAPI(
        title=TITLE,
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers={
            CellhouseError: on_error,
            HTTPException: on_http,
            RequestValidationError: on_invalid,
            ClientGone: on_gone,
            Exception: on_unexpected,
        },
    )
    app.state.tenants, app.state.limits, app.state.metrics = tenants, limits, counted
    routers = (*ROUTERS, _service)
    for router in routers:
        app.include_router(router)
    if mcp is not None:
        app.router.routes.append(Route(MCP_PATH, endpoint=mcp))
    app.state.table = tuple(route for router in routers for route in router.routes)
    app.openapi = lambda: openapi(app)  # type: ignore[method-assign]
    return app


def openapi(app: FastAPI) -> dict[str, Any]:
    """The document (OpenAPI 3.1): paths from the routes, schemas from the models. Made once."""
    if app.openapi_schema is None:
        made = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            routes=app.routes,
            openapi_version="3.1.0",
        )
        made["components"] = {"schemas": dict(sorted(components().items()))}
        for methods in made["paths"].values():
            for call in methods.values():
                for parameter in call.get("parameters", ()):
                    if parameter["in"] == "path" and parameter["name"] in IDS:
                        parameter["schema"] = IDS[parameter["name"]]
        app.openapi_schema = made
    return app.openapi_schema
