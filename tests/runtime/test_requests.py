"""Creating once: repeats, failures, other wishes under the same id, and how long that is remembered."""

import asyncio

import pytest

from cellhouse.model import AlreadyExists, CallReason, InvalidArgument, RuntimeSpec
from cellhouse.runtime import requests
from cellhouse.runtime.requests import CreateRequest, CreateRequests
from tests.runtime.support import within


def request(name: str = "one", **spec: float) -> CreateRequest:
    return CreateRequest.of(name, RuntimeSpec(**spec), None)  # type: ignore[arg-type]


class Maker:
    """Makes ids, one after the other, once it is let."""

    def __init__(self) -> None:
        self.may = asyncio.Event()
        self.made: list[str] = []
        self.failure: Exception | None = None

    async def __call__(self) -> str:
        await self.may.wait()
        if self.failure is not None:
            raise self.failure
        self.made.append(f"rt-{len(self.made)}")
        return self.made[-1]


async def test_all_who_ask_at_once_get_the_one_that_is_made() -> None:
    known, maker = CreateRequests(), Maker()
    calls = [asyncio.ensure_future(known.once(request(), maker)) for _ in range(5)]
    await asyncio.sleep(0)
    calls[0].cancel()  # whoever goes away breaks nothing off
    maker.may.set()
    assert await within(asyncio.gather(*calls[1:])) == ["rt-0"] * 4
    assert await within(known.once(request(), maker)) == "rt-0"
    assert maker.made == ["rt-0"]


async def test_one_that_failed_can_be_asked_for_again() -> None:
    known, maker = CreateRequests(), Maker()
    maker.may.set()
    maker.failure = ValueError("no")
    with pytest.raises(ValueError, match="no"):
        await within(known.once(request(), maker))
    maker.failure = None
    assert await within(known.once(request(), maker)) == "rt-0"


async def test_the_same_id_for_something_else_is_refused() -> None:
    known, maker = CreateRequests(), Maker()
    maker.may.set()
    await within(known.once(request(), maker))
    with pytest.raises(AlreadyExists) as refused:
        await within(known.once(request(idle_seconds=5.0), maker))
    assert refused.value.reason == CallReason.REQUEST_ID_REUSED


async def test_the_oldest_are_forgotten_and_none_that_is_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "REMEMBERED", 2)
    known, slow, quick = CreateRequests(), Maker(), Maker()
    quick.may.set()
    first = asyncio.ensure_future(known.once(request("slow"), slow))
    await asyncio.sleep(0)
    for number in range(4):
        await within(known.once(request(f"r{number}"), quick))
    again = asyncio.ensure_future(known.once(request("slow"), quick))
    slow.may.set()
    assert await within(first) == await within(again) == "rt-0"
    assert await within(known.once(request("r3"), slow)) == "rt-3"
    assert await within(known.once(request("r0"), quick)) == "rt-4"


async def test_what_an_earlier_house_made_is_remembered() -> None:
    known, maker = CreateRequests(), Maker()
    known.remember(request(), "rt-old")
    assert await within(known.once(request(), maker)) == "rt-old"


@pytest.mark.parametrize("name", ["", "a b", "a/b", "x" * 129])
def test_what_can_be_no_id_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match="requestId"):
        request(name)
