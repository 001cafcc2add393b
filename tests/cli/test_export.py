"""`cellhouse export`, from a state directory and from a service."""

import json
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from cellhouse import House
from tests.cli.remote import Commands
from tests.cli.support import Cli
from tests.doors.conftest import fakes
from tests.doors.support import Door, opened
from tests.notebooks.support import note_of, notes
from tests.runtime.support import FakeWorld, Place, event_of, new_place, settings

__all__ = ["fakes"]

CODE = """
import sys, threading, time
from IPython.display import HTML, clear_output, display
import matplotlib.pyplot as plt
print("first"); print("of stderr", file=sys.stderr)
shown = display(HTML("<b>old</b>"), display_id=True)
plt.plot([1, 2]); plt.show()
shown.update(HTML("<script>alert(1)</script><b>new</b>"))
open("made.txt", "w").write("x")
{"the": "value"}
"""


def read(text: str | bytes) -> dict[str, Any]:
    """A notebook that nbformat takes."""
    made: dict[str, Any] = json.loads(text)
    nbformat.validate(made, version=4, version_minor=5)
    assert (made["nbformat"], made["nbformat_minor"]) == (4, 5)
    return made


def recorded_name(cli: Cli, status: int, *args: str) -> tuple[str, Path]:
    """Run code with a real kernel: the session's short name, and the state directory that has it."""
    done = cli("run", "--json", *args)
    assert done.returncode == status, done.stderr
    name = json.loads(done.stdout)["execution"].split("/")
    (journal,) = cli.state.glob("embedded/*/journal")
    return f"{name[1]}/{name[3]}", journal.parent


@pytest.mark.native
def test_what_a_real_kernel_did_is_a_notebook_a_page_and_markdown(cli: Cli) -> None:
    (cli.directory / "cell.py").write_text(CODE)
    session, state = recorded_name(cli, 0, "cell.py")
    done = cli("export", session, "--state-dir", str(state))
    assert (done.returncode, done.stderr) == (0, b"")
    _, cell = read(done.stdout)["cells"]
    assert cell["source"] == CODE
    assert cell["execution_count"] == 1
    out, err, html, figure, value, files = cell["outputs"]
    assert (out["text"], err["text"]) == ("first\n", "of stderr\n")
    assert html["data"]["text/html"] == "<script>alert(1)</script><b>new</b>"
    assert set(figure["data"]) == {"image/png", "text/plain"}
    assert (value["output_type"], value["data"]) == ("execute_result", {"text/plain": "{'the': 'value'}"})
    assert note_of(files) == "files"
    for form, has in (("html", b"<iframe"), ("md", b"![png](data:image/png;base64,")):
        done = cli("export", session, "--state-dir", str(state), "-o", f"it.{form}")
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        text = (cli.directory / f"it.{form}").read_bytes()
        assert has in text
        assert form == "md" or b"<script" not in text  # in Markdown it is in the code


@pytest.mark.native
def test_a_death_of_a_real_kernel_stands_in_its_cell(cli: Cli) -> None:
    session, state = recorded_name(cli, 3, "-c", "print('before')\nimport os\nos.kill(os.getpid(), 11)")
    done = cli("export", session, "--state-dir", str(state))
    _, cell = read(done.stdout)["cells"]
    assert cell["outputs"][0]["text"] == "before\n"
    assert "ended as KERNEL_DIED" in notes(cell["outputs"])[0]
    assert "SIGSEGV" in notes(cell["outputs"])[0]


class Recorded:
    """A state directory in which a fake kernel's executions are on record."""

    def __init__(self, cli: Cli, state: Path, place: Place) -> None:
        self._cli, self.state = cli, state
        self.session = f"{place.runtime.removeprefix('runtimes/')}/main"

    def export(self, *args: str, name: str = "") -> tuple[int, str, str]:
        done = self._cli("export", name or self.session, "--state-dir", str(self.state), *args)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def cells(self, *args: str, name: str = "") -> list[dict[str, Any]]:
        status, out, err = self.export(*args, name=name)
        assert (status, err) == (0, "")
        cells: list[dict[str, Any]] = read(out)["cells"][1:]
        return cells


@pytest.fixture
async def recorded(cli: Cli, fakes: FakeWorld, tmp_path: Path) -> Recorded:
    state = tmp_path / "recorded"
    async with House(settings=settings(state)) as house:
        place = await new_place(house, fakes)
        await place.run("print one\ndisplay <i>x</i>\nvalue 1", execution_id="one")
        await place.run("err two\nraise ValueError bad", execution_id="two")
        handle = await place.start("exit 7", execution_id="three")
        await event_of(handle, "finished")
    return Recorded(cli, state, place)


async def test_a_session_is_a_cell_each_in_order(recorded: Recorded) -> None:
    one, two, three = recorded.cells()
    assert [each["source"] for each in (one, two)] == [
        "print one\ndisplay <i>x</i>\nvalue 1",
        "err two\nraise ValueError bad",
    ]
    assert [each["output_type"] for each in one["outputs"]] == ["stream", "display_data", "execute_result"]
    assert one["outputs"][1]["data"] == {"text/html": "<i>x</i>"}
    assert [each["output_type"] for each in two["outputs"]] == ["stream", "error"]
    assert two["outputs"][1]["ename"] == "ValueError"
    assert "ended as EXITED" in notes(three["outputs"])[0]
    assert len({each["id"] for each in (one, two, three)}) == 3


async def test_one_execution_is_one_cell_under_the_same_id(recorded: Recorded) -> None:
    (cell,) = recorded.cells(name=f"{recorded.session}/two")
    assert cell["source"].startswith("err two")
    assert cell["id"] == recorded.cells()[1]["id"]


async def test_exporting_twice_gives_the_same_bytes_and_changes_nothing(recorded: Recorded) -> None:
    assert recorded.export() == recorded.export()


async def test_bundles_that_are_gone_are_notes(recorded: Recorded) -> None:
    for bundle in recorded.state.glob("runtimes/*/content/.dsm_outputs/*/out-*.json"):
        bundle.unlink()
    gone = recorded.cells()[0]["outputs"][1]
    assert note_of(gone) == "gone"
    assert gone["metadata"]["cellhouse"]["mimeTypes"] == ["text/html"]


async def test_limits_are_options(recorded: Recorded) -> None:
    (cell,) = recorded.cells("--total-limit", "5", name=f"{recorded.session}/one")
    # The code and the HTML have no place; "one" with its line end and the value have.
    assert [note_of(each) for each in cell["outputs"]] == ["omitted", "", "omitted", ""]


async def test_a_file_is_put_in_place_whole_and_readable_as_others_are(
    recorded: Recorded, tmp_path: Path
) -> None:
    target = tmp_path / "out.ipynb"
    target.write_text("older")
    assert recorded.export("-o", str(target)) == (0, "", "")
    read(target.read_bytes())
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(target.stat().st_mode) == 0o666 & ~mask
    assert list(tmp_path.glob(".out*")) == []


async def test_what_can_not_be_written_is_named(recorded: Recorded, tmp_path: Path) -> None:
    status, out, err = recorded.export("-o", str(tmp_path / "none" / "x.ipynb"))
    assert (status, out) == (2, "")
    assert f"there is no directory {tmp_path / 'none'}; make it first" in err
    status, _, err = recorded.export("-o", str(tmp_path))
    assert status == 2
    assert "is a directory; give the name of a file" in err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("x/y", "--format", "pdf"), "--format 'pdf': takes ipynb, html, md"),
        (("x", "--format", "md"), "RUNTIME/SESSION or RUNTIME/SESSION/EXECUTION"),
        (("x/y", "--total-limit", "much"), "--total-limit 'much': takes a number of bytes"),
        (("x/y", "--output-limit", "0"), "--output-limit '0': takes at least 2 bytes"),
        (("x/y", "--active"), "--active is for html and md"),
        (("x/y", "-o", ""), "--output: it is empty"),
    ],
)
def test_what_is_wrong_is_usage(cli: Cli, args: tuple[str, ...], said: str) -> None:
    done = cli("export", *args)
    assert (done.returncode, done.stdout) == (2, b"")
    assert said in done.stderr.decode()


async def test_what_is_not_there_is_named(recorded: Recorded, tmp_path: Path) -> None:
    for name, said in (
        ("none/main", "nothing is on record of"),
        (f"{recorded.session}/nope", "there is no execution"),
    ):
        status, out, err = recorded.export(name=name)
        assert (status, out) == (2, "")
        assert said in err
    recorded.state = tmp_path
    assert recorded.export()[0] == 2


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


async def test_a_service_gives_all_that_is_on_record(run: Commands, door: Door) -> None:
    await door.run("print one\ndisplay <i>x</i>", executionId="one")
    ended = await run("export", "here/main")
    assert (ended.status, ended.err) == (0, "")
    _, cell = read(ended.out)["cells"]
    assert cell["source"] == "print one\ndisplay <i>x</i>"
    assert [each["output_type"] for each in cell["outputs"]] == ["stream", "display_data"]
    assert cell["outputs"][1]["data"] == {"text/html": "<i>x</i>"}


async def test_what_runs_in_a_service_is_exported_as_it_stands(run: Commands, door: Door) -> None:
    await door.start("print so far\nhold", executionId="one")
    ended = await run("export", "here/main/one")
    _, cell = read(ended.out)["cells"]
    assert note_of(cell["outputs"][0]) == "state"
    assert cell["metadata"]["cellhouse"]["state"] == "RUNNING"
    door.kernel.release.set()


async def test_late_output_of_a_living_runtime_is_there_and_nobody_waits_for_more(
    run: Commands, door: Door
) -> None:
    await door.run("print one", executionId="one")
    events = door.path("/executions/one")
    parent = door.kernel._parent
    door.kernel.print("later\n", parent=parent)
    async with door.client.stream(
        "GET", f"{events}/events?follow=late&after=1", headers={"accept": "application/x-ndjson"}
    ) as lines:
        async for line in lines.aiter_lines():
            if json.loads(line)["type"] == "late":
                break
    ended = await run("export", "here/main/one")
    _, cell = read(ended.out)["cells"]
    assert [each.get("text") or note_of(each) for each in cell["outputs"]] == [
        "one\n",
        "late",
        "later\n",
    ]


async def test_a_session_that_never_was_and_a_service_that_is_not_there_are_named(
    run: Commands, door: Door
) -> None:
    ended = await run("export", "here/none")
    assert (ended.status, ended.out) == (2, "")
    ended = await run("export", "here/main", "--url", "http://127.0.0.1:1")
    assert (ended.status, ended.out) == (3, "")
    await door.client.post("/v1/runtimes/here/sessions", json={"sessionId": "empty"})
    ended = await run("export", "here/empty")
    assert "Nothing is on record" in read(ended.out)["cells"][1]["source"]
