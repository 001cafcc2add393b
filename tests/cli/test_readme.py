"""The README's examples are true: each that is whole is run, and what it prints is what stands there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.support import Cli

TEXT = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
PROGRAMS = [
    (text, BLOCKS[number + 1][1] if BLOCKS[number + 1][0] == "text" else None)
    for number, (kind, text) in enumerate(BLOCKS)
    if kind == "python" and "asyncio.run(" in text
]
COMMANDS = [
    (line.removeprefix("$ .venv/bin/cellhouse "), said)
    for kind, text in BLOCKS
    if kind == "console"
    for line, said in re.findall(r"^(\$ \.venv/bin/cellhouse .*)\n((?:[^$].*\n|\n)*)", text, re.MULTILINE)
]


def _like(said: str) -> str:
    """A pattern in which … stands for anything."""
    return re.escape(said).replace("…", r"[\s\S]*?")


@pytest.mark.native
@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_a_program(cli: Cli, number: int) -> None:
    program, said = PROGRAMS[number]
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=100,
        cwd=cli.directory,
        env=cli.variables(),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert re.fullmatch(_like(said), done.stdout) if said is not None else done.stdout, done.stdout


@pytest.mark.native
@pytest.mark.parametrize("number", range(len(COMMANDS)))
def test_a_command(cli: Cli, number: int) -> None:
    command, said = COMMANDS[number]
    program = Path(sys.executable).parent / "cellhouse"
    if command.startswith("doctor"):
        command = (
            f"doctor --seconds 60{command.removeprefix('doctor')}"  # beside other tests all takes longer
        )
    done = subprocess.run(
        ["sh", "-c", f"'{program}' {command} 2>&1"],
        capture_output=True,
        text=True,
        timeout=100,
        cwd=cli.directory,
        env={**cli.variables(), "PATH": os.environ["PATH"]},
        check=False,
    )
    lines = "\n".join(line.rstrip() for line in done.stdout.splitlines()) + "\n"
    assert re.match(_like(said), lines), lines


def test_there_are_examples_of_both_kinds() -> None:
    assert len(PROGRAMS) >= 2
    assert {command.split()[0] for command, _ in COMMANDS} == {"run", "doctor"}
    assert any(said for _, said in PROGRAMS)
