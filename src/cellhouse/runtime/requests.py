"""Creating once: a call that is repeated with its `requestId` gets what the first one made, and never a second one."""

import asyncio
import hashlib
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from cellhouse.model import AlreadyExists, CallReason, RuntimeSpec, check_execution_id

REMEMBERED = 10_000
"""Ids that are remembered at least; those of runtimes that are still there are always."""


@dataclass(frozen=True, slots=True)
class CreateRequest:
    """The caller's id of a creation, and a digest of what was asked for."""

    id: str
    asked: str

    @classmethod
    def of(cls, request_id: str, spec: RuntimeSpec, runtime_id: str | None) -> "CreateRequest":
        """InvalidArgument for what can't be an id."""
        check_execution_id(request_id, "requestId")
        asked = json.dumps([spec.to_wire(), runtime_id], sort_keys=True)
        return cls(request_id, hashlib.sha256(asked.encode()).hexdigest())


@dataclass(slots=True)
class _Creation:
    asked: str
    made: asyncio.Future[str]


class CreateRequests:
    """Which request made which runtime; belongs to one event loop."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, _Creation] = OrderedDict()

    def remember(self, request: CreateRequest, runtime: str) -> None:
        """What a house before this one made."""
        made: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        made.set_result(runtime)
        self._known[request.id] = _Creation(request.asked, made)

    async def once(self, request: CreateRequest, make: Callable[[], Awaitable[str]]) -> str:
        """The runtime's id: made now, being made, or made before. A creation that failed can be asked for again.

        ALREADY_EXISTS where the id was used to ask for something else. A caller that goes away breaks nothing off.
        """
        creation = self._known.get(request.id)
        if creation is None:
            making = asyncio.ensure_future(make())
            creation = self._known[request.id] = _Creation(request.asked, making)
            making.add_done_callback(lambda done: self._made(request.id, done))
        elif creation.asked != request.asked:
            raise AlreadyExists(
                f"requestId {request.id!r} was used to ask for another runtime; use a new id for a new one",
                reason=CallReason.REQUEST_ID_REUSED,
            )
        return await asyncio.shield(creation.made)

    def _made(self, request_id: str, done: asyncio.Future[str]) -> None:
        if done.cancelled() or done.exception() is not None:
            del self._known[request_id]
        # Oldest first, and never one that is still at work: it has to be found.
        for known in list(self._known)[: max(0, len(self._known) - REMEMBERED)]:
            if self._known[known].made.done():
                del self._known[known]
