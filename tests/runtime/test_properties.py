"""Executions beside and behind each other, over a kernel that says anything to any of them: each is told whole."""

import asyncio
import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings as hypothesis_settings, strategies as st

from cellhouse import House
from cellhouse.journal import Journal
from cellhouse.kernel import Trouble
from cellhouse.messages import RawText
from cellhouse.model import (
    CaptureLimits,
    DisplayEvent,
    Event,
    ExecuteCodeResult,
    ExecutionState,
    FinishedEvent,
    LateEvent,
    Outcome,
    RetentionLimits,
    SessionLimits,
    StreamEvent,
    SystemClock,
    TailFrame,
)
from cellhouse.runtime import ExecutionHandle
from tests.kernel.fake import FakeKernel, Sent
from tests.runtime.support import FakeWorld, new_place, settings, within

MEMORY = Path("/dev/shm")
"""Many journals are opened and closed: on a disk, waiting for it would be most of the time."""

TEXT = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        ["line\n", "\r", "\b", "\x1b[A", "\x1b[31m", "x" * 60 + "\n", "ä€😀" * 20, "\n" * 30, "\ud800"]
    ),
)
# Whose it is: of this execution, of an earlier one, of nobody.
PARENTS = st.sampled_from(["this", "this", "this", "earlier", "nobody"])
KINDS = st.sampled_from(
    [
        "stream",
        "stderr",
        "display",
        "plain",
        "value",
        "update",
        "dropped",
        "clear",
        "error",
        "raw",
        "printed",
        "odd",
    ]
)
TAGGED = ("stream", "stderr", "printed")
SAYINGS = st.lists(st.tuples(KINDS, TEXT, PARENTS), max_size=8)
ENDS = st.sampled_from(
    ["ok", "ok", "ok", "error", "no reply", "no idle", "exit", "signal", "trouble", "wait"]
)
ACTS = st.sampled_from(["", "", "", "cancel", "restart"])


@dataclass
class Part:
    """What the kernel says during one execution, how it ends it, and what a caller does meanwhile."""

    sayings: list[tuple[str, str, str]]
    end: str
    act: str = ""


PARTS = st.lists(st.builds(Part, SAYINGS, ENDS, ACTS), min_size=1, max_size=4)


@dataclass
class Play:
    """The scripts of all executions, by the code that stands for each."""

    parts: list[Part]
    earlier: list[tuple[str, str]] = field(default_factory=list)

    async def __call__(self, k: FakeKernel, request: Sent) -> None:
        part = self.parts[int(request.content["code"])]
        k.busy()
        k.echo()
        here, earlier = (
            (request.msg_id, str(request.content["code"])),
            (self.earlier or [("?", "nobody")])[-1],
        )
        for kind, text, whose in part.sayings:
            parent, owner = {"this": here, "earlier": earlier, "nobody": ("", "nobody")}[whose]
            tagged = f"⟦{owner}⟧{text.replace('⟦', '')}" if kind in TAGGED else text
            self._say(k, kind, tagged, parent)
        self.earlier.append(here)
        match part.end:
            case "ok":
                k.done()
            case "error":
                k.raises("E", "v")
            case "no reply":
                k.idle()
            case "no idle":
                k.reply()
            case "exit":
                k.die(exit_status=3)
            case "signal":
                k.die(signal=11)
            case "trouble":
                k.put(Trouble("MESSAGE_SIZE", "too large", fatal=True))
            case "wait":
                await k.interrupted.wait()
                k.interrupted.clear()
                k.raises("KeyboardInterrupt", "")

    def _say(self, k: FakeKernel, kind: str, text: str, parent: str) -> None:
        data = {"metadata": {}, "transient": {"display_id": "d"}}
        match kind:
            case "stream" | "stderr":
                k.stream(text, "stdout" if kind == "stream" else "stderr", parent=parent)
            case "display":
                k.say("display_data", {"data": {"text/html": text}, **data}, parent=parent)
            case "plain":
                k.say("display_data", {"data": {"text/plain": text}, **data}, parent=parent)
            case "value":
                k.say("execute_result", {"data": {"text/plain": text}, **data}, parent=parent)
            case "update":
                k.say("update_display_data", {"data": {"text/html": text}, **data}, parent=parent)
            case "dropped":
                kinds = ("display_data", "execute_result", "update_display_data")
                told = {
                    "kind": kinds[len(text) % 3],
                    "reason": "OUTPUT_TOO_LARGE",
                    "mimeTypes": ["text/html", text],
                }
                k.say("display_dropped", {**told, "sizeBytes": 9, "limitBytes": 8, **data}, parent=parent)
            case "printed":
                raw = text.encode("utf-8", "surrogatepass")
                k.put(RawText("stdout", raw, parent_id=parent or "nobody", printed=True))
            case "clear":
                k.say("clear_output", {"wait": bool(text)}, parent=parent)
            case "error":
                k.say("error", {"ename": "E", "evalue": text, "traceback": [text]}, parent=parent)
            case "raw":
                k.raw(text.encode("utf-8", "surrogatepass"))
            case _:
                k.say("stream", {"name": 3, "text": [text]}, parent=parent)


async def play(house: House, world: FakeWorld, parts: list[Part]) -> list[ExecutionHandle]:
    """Hand in all of them at once, do what callers do, and wait for the ends."""
    script = Play(parts)
    place = await new_place(house, world)
    place.launcher.make = lambda: FakeKernel(script)
    handles = [await place.start(str(number)) for number in range(len(parts))]
    for part, handle in zip(parts, handles, strict=True):
        if part.act == "restart":
            await within(house.restart(place.session()))
        elif part.act == "cancel" or part.end == "wait":
            await handle.cancel()
    for handle in handles:
        await within(handle)
    await within(house.delete_session(place.session()))  # nothing late comes any more
    return handles


def check(code: str, events: list[Event], result: ExecuteCodeResult, printed: dict[str, str]) -> None:
    """What must hold for any execution. `printed`: its whole text as it can be read."""
    texts = [event.text for event in events if isinstance(event, StreamEvent | LateEvent)]
    assert set(re.findall("⟦(.*?)⟧", "".join(text or "" for text in texts))) <= {code}
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    kinds = [event.type for event in events]
    assert kinds[0] == "queued"
    assert kinds.count("finished") == 1
    end = kinds.index("finished")
    assert set(kinds[end + 1 :]) <= {"late"}
    assert "late" not in kinds[:end]
    assert kinds.count("started") == (result.outcome is not Outcome.NEVER_STARTED)
    if "started" in kinds:
        assert set(kinds[1 : kinds.index("started")]) <= {"notice"}

    finished = events[end]
    assert isinstance(finished, FinishedEvent)
    assert finished.result == result.model_copy(update={"late": None})
    assert result.state is ExecutionState.FINISHED
    assert ExecuteCodeResult.from_json(result.to_json()) == result
    assert (result.execution_error is None) is (result.outcome is Outcome.OK)

    displays = [event for event in events if isinstance(event, DisplayEvent)]
    assert [output.index for output in result.rich_outputs] == list(range(len(displays)))
    assert [event.index for event in displays] == list(range(len(displays)))
    for name in ("stdout", "stderr"):
        logged = "".join(e.text for e in events if isinstance(e, StreamEvent) and e.name == name)
        assert printed[name] == logged
        cut = getattr(result.truncation, name, None)
        if cut is not None:
            assert (cut.total_chars, cut.total_bytes) == (len(logged), len(logged.encode()))
            assert cut.kept_head_chars + cut.kept_tail_chars <= 100
            assert f"{cut.omitted_chars} characters (" in getattr(result, name)


async def opened(directory: Path, record: Path, size: int, start: str) -> ExecuteCodeResult | None:
    """What a journal makes of the first bytes of a record file."""
    shelf = directory / "journal" / "executions" / record.parent.name
    shelf.mkdir(parents=True)
    (shelf / record.name).write_bytes(record.read_bytes()[:size])
    journal = await Journal.open(directory / "journal", clock=SystemClock(), retention=RetentionLimits())
    try:
        log = journal.get(start)
        if log is None:
            return None
        events = log.read(0)
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert [event.type for event in events].count("finished") == 1
        return log.finished
    finally:
        await journal.close()


@pytest.mark.timeout(300)
def test_any_executions_are_told_whole() -> None:
    limits = {
        "session": SessionLimits(settle_seconds=0.01, exit_seconds=0.01),
        "capture": CaptureLimits(inline_chars=100),
    }

    @hypothesis_settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(parts=PARTS, cuts=st.lists(st.floats(0, 1), min_size=2, max_size=2))
    def any_of_them(parts: list[Part], cuts: list[float]) -> None:
        async def run(directory: Path) -> None:
            world = FakeWorld()
            with pytest.MonkeyPatch.context() as patch:
                world.install(patch)
                async with House(settings=settings(directory / "state", **limits)) as house:
                    handles = await play(house, world, parts)
                    results = []
                    for number, handle in enumerate(handles):
                        name = str(handle.name)
                        followed = [event async for event in house.events(name, late=True)]
                        events = [event for event in followed if not isinstance(event, TailFrame)]
                        results.append(await house.get_execution(name))
                        texts = {n: house.read_text(name, n).text for n in ("stdout", "stderr")}
                        check(str(number), events, results[-1], texts)
                    assert len({result.execution for result in results}) == len(parts)
            records = sorted((directory / "state" / "journal" / "executions").glob("*/*.rec"))
            assert len(records) == len(parts)
            for number, (cut, record) in enumerate(zip(cuts, records, strict=False)):
                size = round(cut * record.stat().st_size)
                found = await opened(directory / f"cut{number}", record, size, results[number].execution)
                if size == record.stat().st_size:
                    assert found == results[number].model_copy(update={"late": None})
                elif found is not None and found != results[number].model_copy(update={"late": None}):
                    assert found.outcome in (Outcome.RUNTIME_LOST, Outcome.NEVER_STARTED)

        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as directory:
            asyncio.run(run(Path(directory)))

    any_of_them()
