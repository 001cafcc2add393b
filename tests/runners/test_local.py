"""LocalCodeRunner: children with all that they start, their output whole or its cuts stated, and what they may see."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cellhouse.model import CallReason, FailedPrecondition, InvalidArgument, NoticeReason, Outcome
from cellhouse.runners import CodeSession, LocalCodeRunner
from tests.runtime.support import until, within

# Prints its number, ignores interrupts, leaves the group, and holds the pipes.
ESCAPED = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(1000)"], start_new_session=True)
print(child.pid, flush=True)
"""


@pytest.fixture
async def session() -> AsyncIterator[CodeSession]:
    async with LocalCodeRunner(max_output_chars=1_000) as runner:
        yield await runner.start(key="k")


def lives(pid: int) -> bool:
    try:
        return b") Z " not in Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False


async def test_nothing_of_a_call_is_left_for_the_next(session: CodeSession, world: Any) -> None:
    first = await session.execute("open('f', 'w').write('x'); import os; print(os.getcwd())")
    assert first.ok
    assert not Path(first.stdout.strip()).exists()
    assert (await session.execute("import os; print(os.listdir())")).stdout == "['main.py']\n"
    assert list(world.temporary.iterdir()) == []


async def test_a_child_that_left_the_group_and_holds_the_pipes_ends_too(session: CodeSession) -> None:
    result = await within(session.execute(ESCAPED))
    assert result.ok
    assert not lives(int(result.stdout))
    assert [notice.reason for notice in result.notices or ()] == [NoticeReason.PROCESSES_LEFT]


async def test_a_time_limit_ends_grandchildren_as_well(session: CodeSession) -> None:
    result = await within(session.execute(ESCAPED + "while True: pass", timeout=0.5))
    assert (result.ok, result.outcome) == (False, Outcome.TIMED_OUT)
    assert not lives(int(result.stdout))
    assert result.stderr.endswith("TimedOut: the code ran longer than 0.5 s and was interrupted\n")


async def test_what_ignores_the_interrupt_is_killed(
    session: CodeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cellhouse.runners.local.INTERRUPT_GRACE", 0.1)
    code = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print('deaf', flush=True); time.sleep(100)"
    result = await within(session.execute(code, timeout=0.5))
    assert result.stdout == "deaf\n"
    assert result.exit_code == -9
    assert result.outcome_info is not None
    assert result.outcome_info.metadata == {"limitSeconds": "0.5", "endedBy": "kill"}


async def test_a_caller_that_goes_away_ends_the_child(session: CodeSession, world: Any) -> None:
    call = asyncio.ensure_future(session.execute("import time; open('here', 'w'); time.sleep(1000)"))
    await until(lambda: list(world.temporary.glob("*/here")))
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await within(call)
    assert list(world.temporary.iterdir()) == []


async def test_a_stop_ends_what_runs_and_keeps_its_output(session: CodeSession, world: Any) -> None:
    code = "import time; print('before', flush=True); open('here', 'w'); time.sleep(1000)"
    call = asyncio.ensure_future(session.execute(code))
    await until(lambda: list(world.temporary.glob("*/here")))
    await within(session.stop())
    result = await within(call)
    assert (result.outcome, result.stdout) == (Outcome.SESSION_DELETED, "before\n")
    assert "it was stopped" in result.stderr


async def test_a_death_by_a_signal_is_named(session: CodeSession) -> None:
    result = await session.execute(
        "import os, signal; print('x', flush=True); os.kill(os.getpid(), signal.SIGSEGV)"
    )
    assert (result.ok, result.exit_code, result.stdout) == (False, -11, "x\n")
    assert result.outcome is Outcome.KERNEL_DIED
    assert "ended by SIGSEGV" in result.stderr


async def test_a_program_that_talks_for_ever_is_counted_and_not_killed_for_it(session: CodeSession) -> None:
    result = await session.execute("import sys\nfor n in range(300_000): sys.stdout.write('0123456789')")
    assert result.ok
    assert result.truncated is not None
    assert result.truncated.of_chars == 3_000_000
    assert "not shown; they were not kept" in result.stdout


async def test_characters_are_split_nowhere_and_stray_bytes_are_replaced(session: CodeSession) -> None:
    code = (
        "import os, time\n"
        "for part in (b'\\xf0\\x9f', b'\\x98\\x80|', b'\\xff|', b'\\xc3'):\n"
        "    os.write(1, part); time.sleep(0.01)\n"
    )
    assert (await session.execute(code)).stdout == "😀|\ufffd|\ufffd"


async def test_only_allowed_variables_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "s3cret")
    monkeypatch.setenv("WANTED", "yes")
    code = "import os; print(os.environ.get('SECRET_TOKEN'), os.environ.get('WANTED'), os.environ['HOME'] == os.getcwd())"
    async with LocalCodeRunner(environment=("PATH", "WANTED")) as runner:
        result = await (await runner.start(key="k")).execute(code)
    assert result.stdout == "None yes True\n"


async def test_there_is_no_input(session: CodeSession) -> None:
    result = await session.execute("input()")
    assert "EOFError" in result.stderr


async def test_descriptors_of_this_process_are_not_the_child_s(session: CodeSession, tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(descriptor, True)
    try:
        result = await session.execute("import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:3])")
        opened = await session.execute(f"import os; os.fstat({descriptor})")
    finally:
        os.close(descriptor)
    assert result.stdout == "[0, 1, 2]\n"
    assert not opened.ok


async def test_what_is_not_there_is_said_before_anything_runs(
    session: CodeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FailedPrecondition, match="stages no inputs"):
        await session.stage({"a": b"x"})
    for code, timeout in (
        ("\ud800", None),
        (5, None),
        ("1", 0),
        ("1", float("nan")),
        ("1", True),
        ("1", "5"),
    ):
        with pytest.raises(InvalidArgument):
            await session.execute(code, timeout=timeout)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="python, node, bash"):
        LocalCodeRunner("cobol")
    for chars in (0, -1, True, "5", 2**40):
        with pytest.raises(InvalidArgument, match="max_output_chars"):
            LocalCodeRunner(max_output_chars=chars)  # type: ignore[arg-type]
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(FailedPrecondition, match="no 'node' on the PATH") as missing:
        LocalCodeRunner("node")
    assert missing.value.reason == CallReason.RUNNER_UNSUITABLE
