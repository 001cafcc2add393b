"""Failures of our own: what breaks in the house ends what it touches, says so, and stops nothing else."""

import asyncio
import errno

import pytest

from cellhouse.model import NoticeReason, Outcome
from cellhouse.runtime.late import LateRoutes
from tests.runtime.kernels import FakeKernel
from tests.runtime.support import Place, notices, within


def broken(*_: object, **__: object) -> None:
    raise OSError(errno.EIO, "the disk is broken")


# Between executions


async def test_what_breaks_between_executions_costs_the_kernel_and_not_the_queue(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await place.run("set x 1")
    first = place.kernel
    with monkeypatch.context() as patch:
        failed = asyncio.Event()

        def fail(*_: object) -> None:
            failed.set()
            broken()

        patch.setattr(LateRoutes, "feed", fail)
        first.raw("late")
        await within(failed.wait())
    result = await place.run("get x")
    assert (result.outcome, notices(result)) == (Outcome.ERROR, [NoticeReason.FRESH_KERNEL])
    assert first.closed
    await within(place.house.restart(place.session()))
    assert (await place.run("print on")).stdout == "on\n"


async def test_a_kernel_that_cannot_be_closed_stops_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await place.run("set x 1")
    close = FakeKernel.close

    async def badly(self: FakeKernel) -> None:
        await close(self)
        broken()

    monkeypatch.setattr(FakeKernel, "close", badly)
    await within(place.house.restart(place.session()))
    assert notices(await place.run("print on")) == [NoticeReason.FRESH_KERNEL]
    await within(place.house.delete_session(place.session()))
