"""A caller inside: who it is, its house, and answers as the models themselves write them."""

from dataclasses import dataclass
from typing import Any

import pydantic_core
from starlette.requests import Request
from starlette.responses import Response

from cellhouse.doors.bodies import json_object
from cellhouse.doors.callers import Caller, Scope
from cellhouse.doors.limits import DoorLimits
from cellhouse.doors.problems import JSON
from cellhouse.doors.tenants import Tenant
from cellhouse.keepers import AnyHouse
from cellhouse.model import Wire


@dataclass(frozen=True, slots=True)
class Visit:
    """One request that the gate has let in, by a caller who may do what it asks for."""

    request: Request
    caller: Caller
    tenant: Tenant
    limits: DoorLimits

    @property
    def house(self) -> AnyHouse:
        return self.tenant.house

    async def json(self) -> dict[str, Any]:
        """The body, which is a JSON object."""
        limits = self.limits
        with self.tenant.body() as take:
            return await json_object(
                self.request, limit=limits.body_bytes, seconds=limits.body_seconds, take=take
            )


def enter(request: Request, scope: Scope) -> Visit:
    """PERMISSION_DENIED where the caller lacks the scope."""
    state = request.scope["state"]
    caller: Caller = state["caller"]
    caller.require(scope)
    return Visit(request, caller, state["tenant"], request.app.state.limits)


def told(document: Wire, headers: dict[str, str] | None = None) -> Response:
    """A document as it writes itself: what is absent in it stays absent."""
    return Response(pydantic_core.to_json(document.to_wire()), media_type=JSON, headers=headers)


def told_of(document: dict[str, Any], headers: dict[str, str] | None = None) -> Response:
    """JSON that is no model's."""
    return Response(pydantic_core.to_json(document), media_type=JSON, headers=headers)
