"""Requests for input that can't be logged are answered by the house, so that the code goes on."""

from pathlib import Path

import pytest

from cellhouse import House
from cellhouse.capture import emit
from cellhouse.model import CaptureLimits, NoticeReason, Outcome
from tests.runtime.support import FakeWorld, new_place, notices, settings


async def test_input_past_every_bound_gets_an_empty_line(
    fakes: FakeWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emit, "INPUTS_BESIDE", 0)
    async with House(settings=settings(tmp_path, capture=CaptureLimits(event_text_bytes=4))) as house:
        result = await (await new_place(house, fakes)).run("ask how many?", allow_stdin=True)
        assert (result.outcome, result.stdout) == (Outcome.OK, "got ''\n")
        assert notices(result) == [NoticeReason.EVENT_TEXT_LIMIT, NoticeReason.INPUT_UNANSWERED]
