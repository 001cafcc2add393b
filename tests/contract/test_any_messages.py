"""Whatever a kernel says, in whatever order, and however it ends: what must hold for every execution holds."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from cellhouse.kernel import Kernel
from cellhouse.model import Outcome
from tests.contract.rig import Rig
from tests.kernel.fake import FakeKernel

TEXT = st.text(
    alphabet=st.one_of(
        st.characters(), st.sampled_from("\r\n\b\t\x1b[31mKAé€😀"), st.sampled_from(["\ud800", "\udfff"])
    ),
    max_size=40,
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
MIME = st.sampled_from(
    ["text/plain", "text/html", "image/png", "application/json", "application/x+json", "", "odd"]
)
DATA = st.dictionaries(MIME, ANYTHING, max_size=3)
IDS = st.sampled_from(["", "one", "two"])

SAYING = st.one_of(
    st.tuples(st.just("stream"), TEXT, st.sampled_from(["stdout", "stderr"])),
    st.tuples(st.just("raw"), st.binary(max_size=20), st.sampled_from(["stdout", "stderr"])),
    st.tuples(st.just("display"), DATA, IDS),
    st.tuples(st.just("update"), DATA, IDS),
    st.tuples(st.just("value"), DATA),
    st.tuples(st.just("clear")),
    st.tuples(st.just("clear_later")),
    st.tuples(st.just("error"), TEXT, TEXT),
    st.tuples(st.just("stray"), TEXT, st.sampled_from(["", "nobody"])),
    st.tuples(
        st.just("say"),
        st.sampled_from(["stream", "display_data", "execute_result", "update_display_data", "error", "odd"]),
        st.dictionaries(st.sampled_from(["name", "text", "data", "transient", "ename", "wait"]), ANYTHING),
    ),
)
END = st.sampled_from(
    ["ok", "error", "aborted", "exit", "signal", "lost", "trouble", "no reply", "no idle", "idle first"]
)


def _say(k: FakeKernel, saying: tuple[Any, ...]) -> None:
    match saying:
        case ("clear",):
            k.clear()
        case ("clear_later",):
            k.clear(wait=True)
        case ("stray", text, parent):
            k.stream(text, parent=parent)
        case (word, *arguments):
            getattr(k, word)(*arguments)


def _end(k: FakeKernel, end: str) -> None:
    match end:
        case "ok":
            k.done()
        case "error":
            k.reply_error("E", "v", ["E: v"])
            k.idle()
        case "aborted":
            k.reply("aborted")
            k.idle()
        case "exit":
            k.die(exit_status=1)
        case "signal":
            k.die(signal=11)
        case "lost":
            k.die()
        case "trouble":
            k.trouble("MESSAGE_SIZE", "too large", fatal=True, sizeBytes="2", limitBytes="1")
        case "no reply":
            k.idle()
        case "no idle":
            k.reply()
        case "idle first":
            k.idle()
            k.reply()


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as made:
        yield made


def test_any_messages_and_any_end(runner: asyncio.Runner, tmp_path: Path) -> None:
    async def make() -> Kernel:
        return FakeKernel(rig.play)

    rig = Rig(tmp_path, "fake", make)
    runner.run(rig.open())

    @settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(sayings=st.lists(SAYING, max_size=12), end=END, echoed=st.booleans())
    def any_of_them(sayings: list[tuple[Any, ...]], end: str, echoed: bool) -> None:
        def act(k: FakeKernel) -> None:
            if echoed and end != "aborted":
                k.echo()
            for saying in sayings if end != "aborted" else []:
                _say(k, saying)
            _end(k, end)

        async def run() -> None:
            with rig.limits(settle_seconds=0.01):
                told = await rig.run("", act)  # which holds it against everything
            expected = {
                "exit": Outcome.EXITED,
                "signal": Outcome.KERNEL_DIED,
                "lost": Outcome.KERNEL_DIED,
                "trouble": Outcome.RESOURCE_KILLED,
                "error": Outcome.ERROR,
                "no reply": Outcome.ERROR,
                "aborted": Outcome.NEVER_STARTED,
            }
            assert told.result.outcome is expected.get(end, Outcome.OK)

        runner.run(run())

    any_of_them()
    runner.run(rig.close())
