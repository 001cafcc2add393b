"""Clients of a service with fake kernels, whose pauses take no time."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from cellhouse.client import AsyncClient, RetryPolicy
from cellhouse.model import Event, ExecuteCodeRequest
from tests.doors.support import Door
from tests.runtime.support import Clock, until, within

PATIENT = RetryPolicy(attempts=10_000, total=1e9, first_contact=1e9)


class Pauses:
    """A clock, and sleeping that only moves it. `slept` are the seconds asked for."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.clock.time += seconds
        await asyncio.sleep(0)

    def sleep_now(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.clock.time += seconds


def options(pauses: Pauses, **more: Any) -> dict[str, Any]:
    """Of a client that waits without waiting."""
    return {"clock": pauses.clock, "sleep": pauses.sleep, "rng": random.Random(3), **more}


@asynccontextmanager
async def client_of(url: str, **more: Any) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(url, **{**options(Pauses(), retry=PATIENT), **more}) as client:
        yield client


def request(door: Door, code: str, session: str = "main", **more: Any) -> ExecuteCodeRequest:
    return ExecuteCodeRequest(code=code, session=f"{door.runtime}/sessions/{session}", **more)


async def listed(events: AsyncIterator[Any]) -> list[Any]:
    return await within(_all(events))


async def _all(events: AsyncIterator[Any]) -> list[Any]:
    return [event async for event in events]


def kinds(events: Iterable[Event]) -> list[str]:
    return [event.type for event in events]


__all__ = [
    "PATIENT", "Clock", "Door", "Pauses", "client_of", "kinds", "listed", "options", "request", "until", "within",
]  # fmt: skip
