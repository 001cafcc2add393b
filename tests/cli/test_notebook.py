"""`cellhouse run NOTEBOOK.ipynb`, with a real kernel and against a service."""

import json
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.cli.remote import Commands
from tests.cli.support import Cli
from tests.doors.conftest import fakes
from tests.doors.support import Door, opened
from tests.notebooks.given import code, file_of, text
from tests.notebooks.support import note_of, notes
from tests.runtime.support import FakeWorld

__all__ = ["fakes"]


def put(cli: Cli, *cells: Any, name: str = "it.ipynb", **fields: Any) -> Path:
    path = cli.directory / name
    path.write_bytes(file_of(*cells, **fields))
    return path


def read(data: str | bytes) -> list[dict[str, Any]]:
    made = json.loads(data)
    nbformat.validate(made, version=4, version_minor=5)
    cells: list[dict[str, Any]] = made["cells"]
    return cells


@pytest.mark.native
def test_a_notebook_is_run_cell_by_cell_and_written(cli: Cli) -> None:
    put(
        cli,
        text("# Title"),
        code("a = 1", "parameters"),
        code("print(a); open('made.txt', 'w').write(a);"),
        code("1/0", "raises-exception"),
        code("raise SystemError", "skip-execution"),
        code("from IPython.display import HTML\nh = display(HTML('<b>old</b>'), display_id=True)"),
        code("h.update(HTML('<b>new</b>')); display('text'); {'a': a}"),
        code("import ipywidgets\nipywidgets.IntSlider(3)"),
    )
    done = cli("run", "it.ipynb", "--output", "out.ipynb", "--parameters", "a=x y", "b=2", "--save", "saved")
    assert done.returncode == 0, done.stderr
    assert b"x y\n" in done.stdout
    told = done.stderr.decode()
    assert "cell 2 (1 of 7): a = 1" in told
    assert "ZeroDivisionError: division by zero" in told
    assert "6 OK, 1 raised, 1 skipped; written to out.ipynb; runtimes/" in told
    title, tagged, injected, printed, raised, skipped, shown, last, widget = read(
        written := (cli.directory / "out.ipynb").read_bytes()
    )
    assert (title["source"], tagged["source"]) == ("# Title", "a = 1")
    assert injected["source"] == "# Parameters\na = 'x y'\nb = 2\n"
    assert (printed["outputs"][0]["text"], printed["execution_count"]) == ("x y\n", 3)
    assert note_of(printed["outputs"][1]) == "files"
    assert raised["outputs"][0]["ename"] == "ZeroDivisionError"
    assert skipped["outputs"] == []
    assert shown["outputs"][0]["data"]["text/html"] == "<b>new</b>"
    assert [each["data"]["text/plain"] for each in last["outputs"]] == ["'text'", "{'a': 'x y'}"]
    model = widget["outputs"][0]["data"]["application/vnd.jupyter.widget-view+json"]["model_id"]
    widgets = json.loads(written)["metadata"]["widgets"]["application/vnd.jupyter.widget-state+json"]
    assert widgets["state"][model]["state"]["value"] == 3
    assert (cli.directory / "saved/cell-004/files/made.txt").read_text() == "x y"
    assert (cli.directory / "saved/cell-007/out-000.html").read_text() == "<b>new</b>"


@pytest.mark.native
def test_a_death_in_the_middle_loses_nothing_and_json_tells_it(cli: Cli) -> None:
    put(
        cli,
        code("x = 1"),
        code("print('before', flush=True)\nimport os\nos.kill(os.getpid(), 11)"),
        code("x"),
    )
    done = cli("run", "it.ipynb", "--json", "-o", "out.ipynb", "--keep-going")
    assert (done.returncode, done.stderr) == (3, b"")
    document = json.loads(done.stdout)
    assert [cell["status"] for cell in document["cells"]] == ["OK", "FAILED", "FAILED"]
    assert [cell["result"]["outcome"] for cell in document["cells"]] == ["OK", "KERNEL_DIED", "ERROR"]
    assert (document["ok"], document["output"]) == (False, "out.ipynb")
    _, died, after = read((cli.directory / "out.ipynb").read_bytes())
    assert died["outputs"][0]["text"] == "before\n"
    assert died["outputs"][-1]["ename"] == "KernelDied"
    assert "FRESH_KERNEL" in notes(after["outputs"])[0]
    assert after["outputs"][-1]["ename"] == "NameError"


@pytest.mark.native
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 3), (signal.SIGTERM, 143)])
def test_a_signal_interrupts_the_cell_and_the_notebook_is_written(
    cli: Cli, number: signal.Signals, status: int
) -> None:
    put(
        cli,
        code("print('here', flush=True)\nimport time\nwhile True: time.sleep(0.1)"),
        code("print('never')"),
    )
    process = subprocess.Popen(
        cli.command("run", "it.ipynb", "-o", "out.ipynb", "--keep-going"),
        cwd=cli.directory,
        env=cli.variables(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"here\n"
    process.send_signal(number)
    _, told = process.communicate(timeout=60)
    assert process.returncode == status, told
    first, second = read((cli.directory / "out.ipynb").read_bytes())
    assert first["outputs"][0]["text"] == "here\n"
    assert "KeyboardInterrupt" in [each.get("ename") for each in first["outputs"]]
    assert note_of(second["outputs"][0]) == "notRun"


@pytest.mark.native
def test_a_cell_that_takes_too_long_fails_and_standard_output_has_only_the_notebook(cli: Cli) -> None:
    put(cli, code("print(1)"), code("import time\nwhile True: time.sleep(0.1)"), code("print(2)"))
    done = cli("run", "it.ipynb", "-o", "-", "--timeout", "0.5")
    assert done.returncode == 3
    first, second, third = read(done.stdout)
    assert first["outputs"][0]["text"] == "1\n"
    assert second["metadata"]["cellhouse"]["outcome"] == "TIMED_OUT"
    assert note_of(third["outputs"][0]) == "notRun"


@pytest.mark.parametrize(
    ("content", "args", "said"),
    [
        (file_of(code(7)), (), "cell 1 (code): `source` has a number in it"),
        (b"", ("-o", "none/x.ipynb"), "there is no directory none; make it first"),
        (
            file_of(metadata={"kernelspec": {"name": "ir", "display_name": "R", "language": "R"}}),
            (),
            "it.ipynb: its kernelspec names 'ir': ",
        ),
    ],
)
def test_what_is_wrong_is_usage(cli: Cli, content: bytes, args: tuple[str, ...], said: str) -> None:
    (cli.directory / "it.ipynb").write_bytes(content)
    done = cli("run", "it.ipynb", *args)
    assert (done.returncode, done.stdout) == (2, b"")
    assert said in done.stderr.decode()
    assert not (cli.directory / "none").exists()


def test_options_of_a_notebook_are_for_notebooks(cli: Cli) -> None:
    done = cli("run", "-c", "1", "--keep-going")
    assert done.returncode == 2
    assert "are for a notebook" in done.stderr.decode()


@pytest.fixture
async def door(fakes: FakeWorld, tmp_path: Path) -> AsyncIterator[Door]:
    async with opened(fakes, tmp_path / "state") as made:
        await made.make(runtimeId="here")
        yield made


@pytest.fixture
def run(door: Door, quick: list[str], tmp_path: Path) -> Commands:
    directory = tmp_path / "cwd"
    directory.mkdir()
    return Commands(door, directory, quick)


async def test_a_service_runs_it_in_a_session_that_is_there(run: Commands, tmp_path: Path) -> None:
    notebook = tmp_path / "it.ipynb"
    notebook.write_bytes(
        file_of(code("print one\ndisplay <i>x</i>"), code("raise ValueError bad"), code("print two"))
    )
    target = tmp_path / "out.ipynb"
    ended = await run("run", str(notebook), "-o", str(target), "--session", "here/main")
    assert ended.status == 1, ended.err
    first, second, third = read(target.read_bytes())
    assert first["outputs"][0]["text"] == "one\n"
    assert first["outputs"][1]["data"] == {"text/html": "<i>x</i>"}
    assert second["outputs"][0]["ename"] == "ValueError"
    assert note_of(third["outputs"][0]) == "notRun"
    assert (await run("run", "--session", "here/main", "-c", "print still")).out == "still\n"
