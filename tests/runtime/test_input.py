"""Requests for input that can't be logged are answered by the house, so that the code goes on."""

from pathlib import Path

import pytest

from cellhouse import House
from cellhouse.capture import emit
from cellhouse.model import CaptureLimits, InputRequestedEvent, NoticeReason, Outcome
from cellhouse.runtime import run
from tests.runtime.support import (
    FakeWorld,
    Place,
    event_of,
    events_of,
    kinds,
    new_place,
    notices,
    settings,
    within,
)


async def test_input_past_every_bound_gets_an_empty_line(
    fakes: FakeWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emit, "INPUTS_BESIDE", 0)
    async with House(settings=settings(tmp_path, capture=CaptureLimits(event_text_bytes=4))) as house:
        result = await (await new_place(house, fakes)).run("ask how many?", allow_stdin=True)
        assert (result.outcome, result.stdout) == (Outcome.OK, "got ''\n")
        assert notices(result) == [NoticeReason.EVENT_TEXT_LIMIT, NoticeReason.INPUT_UNANSWERED]


@pytest.mark.parametrize("word_comes", [True, False])
async def test_a_request_that_overtakes_the_word_that_the_code_runs_stands_behind_it(
    place: Place, monkeypatch: pytest.MonkeyPatch, word_comes: bool
) -> None:
    """It comes on a channel of its own, so nothing orders the two; where the word never comes, time is enough."""
    monkeypatch.setattr(run, "UNCONFIRMED_SECONDS", 3600.0 if word_comes else 0.01)
    await place.run("print before")
    kernel = place.kernel
    kernel.asked.clear()
    kernel.hesitate.clear()
    handle = await place.start("print x", allow_stdin=True)
    await within(kernel.asked.wait())
    uid = place.house._log(handle.name).uid
    kernel.say("input_request", {"prompt": "? ", "password": False}, channel="stdin", parent=uid)
    if word_comes:
        kernel.hesitate.set()
    asked = await event_of(handle, "inputRequested")
    assert isinstance(asked, InputRequestedEvent)
    assert asked.prompt == "? "
    kernel.hesitate.set()
    assert (await within(handle)).stdout == "x\n"
    assert kinds(await events_of(handle)) == ["queued", "started", "inputRequested", "stream", "finished"]
