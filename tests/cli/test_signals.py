"""Whoever ends `cellhouse run` ends the code in it first: an end on record, no sandbox left, and the signal's status."""

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cellhouse.model import ExecuteCodeResult
from tests.cli.support import Cli

SECONDS = 30.0
READY = "print('ready', flush=True)\nimport time\n"
HEEDLESS = (
    "import signal, time\nsignal.signal(signal.SIGINT, lambda *a: print('heard', flush=True))\n"
    "print('ready', flush=True)\nwhile True: time.sleep(0.01)"
)


def _started(cli: Cli, *args: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        cli.command("run", *args), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=cli.variables()
    )


def _files(cli: Cli, where: str) -> Iterator[Path]:
    return (path for path in cli.state.glob(f"embedded/*/{where}/**/*") if path.is_file())


def _until(condition: Callable[[], object]) -> None:
    """Wait for what a process that says nothing does."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it has not come to that"
        time.sleep(0.002)


def _nothing_left(cli: Cli) -> None:
    """No mount, no image of a disk, a runtime that was closed, and a journal in which everything has ended."""
    assert str(cli.state) not in Path("/proc/self/mountinfo").read_text()
    (state,) = (cli.state / "embedded").iterdir()
    (runtime,) = (state / "runtimes").iterdir()
    assert json.loads((runtime / "runtime.json").read_text())["state"] == "closed"
    assert {entry.name for entry in runtime.iterdir()} <= {"content", "runtime.json"}
    verified = cli("journal", "verify", "--state-dir", str(state))
    assert verified.returncode == 0, verified.stdout
    assert json.loads(verified.stdout)["unfinished"] == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_code_is_interrupted_and_its_end_is_shown_and_recorded(cli: Cli, number: signal.Signals) -> None:
    with _started(cli, "-c", READY + "time.sleep(60)") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert b"KeyboardInterrupt" in output
    assert b"INTERRUPTED" in errors
    assert b"Traceback" not in errors
    _nothing_left(cli)


def test_with_json_the_result_comes_all_the_same(cli: Cli) -> None:
    with _started(cli, "--json", "-c", "print('be' + 'fore')\nimport time\ntime.sleep(60)") as process:
        _until(lambda: any(b"before" in path.read_bytes() for path in _files(cli, "journal")))
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert errors == b""
    result = ExecuteCodeResult.from_json(output)
    assert result.outcome == "INTERRUPTED"
    assert result.stdout == "before\n"
    _nothing_left(cli)


def test_code_that_heeds_no_interrupt_is_ended_by_the_second_signal(cli: Cli) -> None:
    with _started(cli, "-c", HEEDLESS) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == b"heard\n"
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert b"SESSION_DELETED" in errors
    _nothing_left(cli)


def test_code_that_heeds_no_interrupt_is_ended_after_some_seconds(cli: Cli) -> None:
    with _started(cli, "-c", HEEDLESS) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert b"SESSION_DELETED" in errors


def test_a_hangup_that_is_ignored_stays_ignored(cli: Cli) -> None:
    with subprocess.Popen(
        ["nohup", *cli.command("run", "-c", READY + "time.sleep(0.5)\nprint('through')")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        env=cli.variables(),
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGHUP)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert output == b"through\n"


def test_before_the_code_has_begun_nothing_of_it_is_left(cli: Cli) -> None:
    with _started(cli, "-c", "print('ran')") as process:
        _until(lambda: list(_files(cli, "runtimes")))
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert b"Traceback" not in errors
    assert str(cli.state) not in Path("/proc/self/mountinfo").read_text()
    (state,) = (cli.state / "embedded").iterdir()
    assert not list(state.glob("runtimes/*/content.img"))
    verified = cli("journal", "verify", "--state-dir", str(state))
    assert json.loads(verified.stdout)["unfinished"] == 0
