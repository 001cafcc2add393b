"""Where text and messages go whose execution has ended: to that one where they name it, else to the session's log."""

from pathlib import Path
from typing import Any

import pytest

from cellhouse import House
from cellhouse.messages import Message, RawText
from cellhouse.model import Late, SystemClock
from cellhouse.runtime import ExecutionHandle
from cellhouse.runtime.late import NAMES, LateRoutes
from cellhouse.runtime.run import MAX_EARLY
from cellhouse.runtime.session_log import SessionLog, read_session_log
from tests.runtime.kernels import FakeKernel
from tests.runtime.support import Place, event_of, events_of, kinds, settings, within


def text(words: str, parent: str = "", name: Any = "stdout") -> RawText:
    return RawText(name, words.encode(), parent_id=parent, printed=True)


def uid(place: Place, handle: ExecutionHandle) -> str:
    return place.house._log(handle.name).uid


async def late(place: Place, handle: ExecutionHandle) -> Late | None:
    return (await place.house.get_execution(str(handle.name))).late


def session_log(place: Place) -> list[str]:
    return [entry["text"] for entry in place.house.session_log(place.session())]


async def ended(place: Place, code: str = "print x") -> ExecutionHandle:
    handle = await place.start(code)
    await within(handle)
    return handle


# After the end


async def test_late_text_that_names_its_execution(place: Place) -> None:
    handle = await ended(place)
    place.kernel.put(text("from a child\n", uid(place, handle)))
    place.kernel.put(text("é", uid(place, handle), "stderr"))
    event = await event_of(handle, "late")
    assert event.to_wire()["text"] == "from a child\n"
    assert (await place.run("print y")).stdout == "y\n"
    assert await late(place, handle) == Late(stdout_bytes=13, stderr_bytes=2, displays=0)
    assert session_log(place) == []


async def test_late_text_while_another_runs(place: Place) -> None:
    first = await ended(place)
    second = await place.running("hold")
    place.kernel.put(text("of the first\n", uid(place, first)))
    place.kernel.put(text("of the second\n", uid(place, second)))
    place.kernel.put(text("of nobody known\n", "nobody"))
    place.kernel.release.set()
    result = await within(second)
    assert (result.stdout, result.notices) == ("of the second\n", None)
    assert await late(place, first) == Late(stdout_bytes=13, stderr_bytes=0, displays=0)
    assert session_log(place) == ["of nobody known\n"]


async def test_late_text_is_there_in_the_next_house(place: Place) -> None:
    """Nothing of it waits in a descriptor that stays open."""
    handle = await ended(place)
    place.kernel.put(text("late\n", uid(place, handle)))
    await event_of(handle, "late")
    await place.house.close()
    async with House(settings=settings(place.house.state_dir)) as house:
        told = (await house.get_execution(str(handle.name))).late
        assert told == Late(stdout_bytes=5, stderr_bytes=0, displays=0)


async def test_late_text_behind_a_restart_goes_to_the_session(place: Place) -> None:
    handle = await ended(place)
    await within(place.house.restart(place.session()))
    await place.run("print y")
    place.kernel.put(text("who was it?\n", uid(place, handle)))
    await place.run("print z")
    assert await late(place, handle) is None
    assert session_log(place)[-1:] == ["who was it?\n"]


# Before the code, and between it and its end


async def test_early_text_of_the_execution_stands_behind_its_start(place: Place) -> None:
    """What overtakes the kernel's word that the code runs waits for that."""
    kernel = await _hesitating(place)
    handle = await place.start("print x")
    await within(kernel.asked.wait())
    kernel.put(text("early\n", uid(place, handle)))
    kernel.hesitate.set()
    assert (await within(handle)).stdout == "early\nx\n"
    assert kinds(await events_of(handle)) == ["queued", "started", "stream", "stream", "finished"]


async def test_early_text_of_another_goes_there_at_once(place: Place) -> None:
    first = await ended(place)
    kernel = await _hesitating(place)
    second = await place.start("print x")
    await within(kernel.asked.wait())
    for _ in range(MAX_EARLY + 1):
        kernel.put(text("of the first\n", uid(place, first)))
    await event_of(first, "late")
    assert kinds(place.house._log(second.name).read(0)) == ["queued"]
    kernel.hesitate.set()
    assert (await within(second)).stdout == "x\n"
    assert await late(place, first) == Late(stdout_bytes=13 * (MAX_EARLY + 1), stderr_bytes=0, displays=0)


async def test_so_much_early_text_tells_that_the_code_runs(place: Place) -> None:
    kernel = await _hesitating(place)
    handle = await place.start("print x")
    await within(kernel.asked.wait())
    for _ in range(MAX_EARLY):
        kernel.put(text("early\n", uid(place, handle)))
    await event_of(handle, "started")
    kernel.hesitate.set()
    assert (await within(handle)).stdout == "early\n" * MAX_EARLY + "x\n"


async def _hesitating(place: Place) -> FakeKernel:
    """The kernel of a session that has run something, which begins with nothing new for now."""
    await place.run("print before")
    kernel = place.kernel
    kernel.asked.clear()
    kernel.hesitate.clear()
    return kernel


async def test_text_while_variables_are_taken_back_goes_to_whom_it_names(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own background work still belongs to it; others' never does; what came of the request itself is nobody's."""
    first = await ended(place)
    texts: list[RawText] = []
    send = FakeKernel.send

    def say(self: FakeKernel, channel: str, msg_type: str, content: Any, *, msg_id: str = "") -> str:
        made = send(self, channel, msg_type, content, msg_id=msg_id)
        if content.get("silent"):
            for item in texts:
                self.put(item)
            self.put(text("of the request\n", msg_id))
        return made

    monkeypatch.setattr(FakeKernel, "send", say)
    second = await place.running("hold", environment={"A": "1"})
    texts += [
        text("of the second\n", uid(place, second)),
        text("of the first\n", uid(place, first)),
        text("?\n"),
    ]
    place.kernel.release.set()
    assert (await within(second)).stdout == "of the second\n"
    assert await late(place, first) == Late(stdout_bytes=13, stderr_bytes=0, displays=0)
    assert await late(place, second) is None
    log = session_log(place)
    assert log.count("of the request\n") == 2
    assert log.count("?\n") == 1
    assert len(log) == 3


# Of nobody


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["text/html", "image/png"], "text/html, image/png"),
        (["a/b"] * 100_000, ", ".join(["a/b"] * NAMES)),
        (["x" * 1_000_000, 3, ["a/b"], 10**5_000], "x" * 256),
        ("text/html", ""),
        (None, ""),
    ],
)
def test_a_display_of_nobody_that_was_dropped(tmp_path: Path, names: Any, told: str) -> None:
    log = SessionLog(tmp_path / "s.jsonl", SystemClock())
    content = {"kind": [], "mimeTypes": names, "sizeBytes": 10**5_000}
    LateRoutes(log).feed(Message("iopub", "display_dropped", "m", "nobody", content, {}, (), 1))
    (entry,) = read_session_log(log.path)
    assert entry["kind"] == "display_dropped"
    assert entry["text"] == f"{told}: dropped by the kernel as too large"
