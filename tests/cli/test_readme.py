"""The README's examples are true: each that is whole is run, and what it prints is what stands there."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.support import Cli
from tests.cli.test_serve import serving

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
    if not line.endswith(" serve")
]
SERVED = re.findall(
    r"^```(sh|python)\n(.*?)^```\n\n```text\n(.*?)^```$",
    TEXT.partition("## As a service\n")[2].partition("\n## ")[0],
    re.MULTILINE | re.DOTALL,
)
URL = "http://127.0.0.1:8765"


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


@pytest.mark.native
def test_what_is_said_of_a_service_one_after_the_other(cli: Cli) -> None:
    """The blocks of the section in their order: curl, Python, the command line, against one service."""
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed, and what the README has of it can't be run")
    programs = Path(sys.executable).parent
    with serving(cli, "--drain-seconds", "0") as (process, client):
        for kind, program, said in SERVED:
            program = program.replace(URL, str(client.base_url).rstrip("/"))
            done = subprocess.run(
                [sys.executable, "-c", program] if kind == "python" else ["sh", "-euc", f"{program}"],
                capture_output=True,
                text=True,
                timeout=100,
                cwd=cli.directory,
                env={**cli.variables(), "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
                check=False,
            )
            if done.returncode:
                process.terminate()
                assert process.stderr is not None
                pytest.fail(f"{program}\n{done.stdout}\n{done.stderr}\n{process.stderr.read()}")
            assert re.fullmatch(_like(said), done.stdout), (program, done.stdout)
        assert client.get("/v1/runtimes").json() == {"runtimes": []}


def test_the_section_on_the_service_has_curl_python_and_the_command_line() -> None:
    assert [kind for kind, _, _ in SERVED] == ["sh", "python", "sh"]
    assert "curl " in SERVED[0][1]
    assert "cellhouse.client" in SERVED[1][1]
    assert "CELLHOUSE_URL" in SERVED[2][1]
    assert all(URL in program for _, program, _ in SERVED)


def test_what_serve_prints_first_is_what_stands_there(cli: Cli) -> None:
    (said,) = re.findall(r"^\$ \.venv/bin/cellhouse serve\n(.*)\n```$", TEXT, re.MULTILINE)
    with serving(cli, "--drain-seconds", "0") as (_, client):  # which checks the words
        port = f":{client.base_url.port}"
    assert said == f"cellhouse: listening on {str(client.base_url).rstrip('/')}".replace(port, ":8765")


def test_every_document_is_linked() -> None:
    documents = {path.name for path in (Path(__file__).parents[2] / "docs").glob("*.md")}
    assert (
        documents - {Path(name).name for name in re.findall(r"\]\((docs/[a-z]+\.md|docs/README\.md)", TEXT)}
        == set()
    )


def test_there_are_examples_of_both_kinds() -> None:
    assert len(PROGRAMS) >= 2
    assert {command.split()[0] for command, _ in COMMANDS} == {"run", "doctor"}
    assert any(said for _, said in PROGRAMS)
