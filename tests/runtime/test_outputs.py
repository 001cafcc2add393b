"""Rich outputs read back from a directory that hostile code writes to: as they are now, or not at all and why."""

import base64
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cellhouse import House
from cellhouse.files import HostileDir
from cellhouse.model import CallReason, DropReason, ExecuteCodeResult, NotFound
from cellhouse.runtime.outputs import MAX_BUNDLE_BYTES
from tests.runtime.support import Place, settings

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()


class Shown:
    """One execution with rich outputs."""

    def __init__(self, place: Place, result: ExecuteCodeResult) -> None:
        self.place, self.name, self.result = place, result.execution, result

    def file(self, index: int = 0) -> Path:
        path = self.result.rich_outputs[index].file_path
        assert path is not None
        return self.place.sandbox.content / path.removeprefix("/content/")

    async def refused(self, index: int = 0) -> NotFound:
        """Why none of the three ways to read it works."""
        house = self.place.house
        with pytest.raises(NotFound) as bundle:
            await house.get_bundle(self.name, index)
        with pytest.raises(NotFound) as data:
            await house.get_output_data(self.name, index, "text/html")
        assert (bundle.value.reason, bundle.value.message) == (data.value.reason, data.value.message)
        return bundle.value


@pytest.fixture
async def shown(place: Place) -> Shown:
    handle = await place.running("display <b>one</b>\nhold")
    bundle = {
        "image/png": PNG,
        "text/plain": "<Figure>",
        "application/json": {"a": [1, None, "ä"]},
        "image/svg+xml": "<svg/>",
        "application/vnd.x+json": [1],
        "text/latex": ["$x$", "$y$"],
        "application/pdf": "§ no base64",
    }
    display = {"data": bundle, "metadata": {}, "transient": {"display_id": "d"}}
    place.kernel.say("display_data", display)
    place.kernel.release.set()
    return Shown(place, await handle)


async def test_as_it_was_written(shown: Shown) -> None:
    house = shown.place.house
    first, second = shown.result.rich_outputs
    assert (first.index, first.mime_types) == (0, ("text/html",))
    assert first.size_bytes == shown.file(0).stat().st_size
    assert await house.get_rich_output(shown.name, 0) == first
    assert await house.get_rich_output(shown.name, 1) == second
    assert await house.get_bundle(shown.name, 0) == {
        "output_type": "display_data",
        "data": {"text/html": "<b>one</b>"},
        "metadata": {},
    }


@pytest.mark.parametrize(
    ("mime_type", "data"),
    [
        ("image/png", b"\x89PNG\r\n\x1a\n"),
        ("text/plain", b"<Figure>"),
        ("application/json", '{"a": [1, null, "ä"]}'.encode()),
        ("image/svg+xml", b"<svg/>"),
        ("application/vnd.x+json", b"[1]"),
        ("text/latex", b"$x$$y$"),
    ],
)
async def test_one_representation(shown: Shown, mime_type: str, data: bytes) -> None:
    output = await shown.place.house.get_output_data(shown.name, 1, mime_type)
    assert (output.mime_type, output.data, output.modified) == (mime_type, data, False)


async def test_a_representation_that_it_has_not(shown: Shown) -> None:
    with pytest.raises(
        NotFound, match=r"it has no representation 'text/html'; it has: .*image/png"
    ) as refused:
        await shown.place.house.get_output_data(shown.name, 1, "text/html")
    assert refused.value.reason == CallReason.NO_SUCH_OUTPUT


@pytest.mark.parametrize("index", [-1, 2, 10**9])
async def test_an_index_that_it_has_not(shown: Shown, index: int) -> None:
    house = shown.place.house
    assert "there are 2 outputs, numbered from 0" in (await shown.refused(index)).message
    with pytest.raises(NotFound) as refused:
        await house.get_rich_output(shown.name, index)
    assert refused.value.reason == CallReason.NO_SUCH_OUTPUT


async def test_changed_by_the_code(shown: Shown) -> None:
    house = shown.place.house
    changed = {"output_type": "display_data", "data": {"text/html": "mine"}, "metadata": {}}
    shown.file().write_text(json.dumps(changed))
    now = await house.get_rich_output(shown.name, 0)
    assert (now.modified, now.size_bytes) == (True, shown.file().stat().st_size)
    assert await house.get_bundle(shown.name, 0) == changed
    output = await house.get_output_data(shown.name, 0, "text/html")
    assert (output.data, output.modified) == (b"mine", True)
    # What was recorded stays.
    assert (await house.get_execution(shown.name)).rich_outputs == shown.result.rich_outputs


async def test_told_of_the_very_bytes_that_are_handed_over(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The code changes the file while it is read."""
    read = HostileDir.read

    def read_and_change(self: HostileDir, rel: str | bytes, limit: int) -> bytes:
        raw = read(self, rel, limit)
        shown.file().write_text('{"data": {"text/html": "mine"}}')
        return raw

    monkeypatch.setattr(HostileDir, "read", read_and_change)
    output = await shown.place.house.get_output_data(shown.name, 0, "text/html")
    assert (output.data, output.modified) == (b"<b>one</b>", False)


def removed(path: Path) -> None:
    path.unlink()


def made_a_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


def made_a_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def made_a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def made_huge(path: Path) -> None:
    os.truncate(path, MAX_BUNDLE_BYTES + 1)


def moved_below_a_link(path: Path) -> None:
    elsewhere = path.parent.rename(path.parent.with_name("elsewhere"))
    path.parent.symlink_to(elsewhere)


@pytest.mark.parametrize(
    "change", [removed, made_a_link, made_a_fifo, made_a_directory, made_huge, moved_below_a_link]
)
async def test_gone_or_made_unreadable_by_the_code(shown: Shown, change: Callable[[Path], None]) -> None:
    change(shown.file())
    refused = await shown.refused()
    assert (refused.reason, refused.http) == (CallReason.NO_SUCH_OUTPUT, 404)
    assert "its file is gone or no longer readable" in refused.message
    assert "root:" not in refused.message
    with pytest.raises(NotFound):
        await shown.place.house.get_rich_output(shown.name, 0)


@pytest.mark.parametrize("text", ["", "no JSON", "[1]", "[" * 100_000, '{"data": ', "\xff"])
async def test_made_no_output_any_more(shown: Shown, text: str) -> None:
    shown.file().write_text(text, "latin-1")
    refused = await shown.refused()
    assert "its file is no JSON object any more" in refused.message
    assert (await shown.place.house.get_rich_output(shown.name, 0)).modified is True


@pytest.mark.parametrize("data", [None, [], "x", 3, {"image/png": 3}])
async def test_made_an_output_of_another_shape(shown: Shown, data: Any) -> None:
    shown.file().write_text(json.dumps({"data": data}))
    with pytest.raises(NotFound, match="has no representation") as refused:
        await shown.place.house.get_output_data(shown.name, 0, "text/html")
    assert refused.value.reason == CallReason.NO_SUCH_OUTPUT


@pytest.mark.parametrize(("value", "data"), [(None, b"None"), ({"a": 1}, b"{'a': 1}"), (["a", 1], b"a1")])
async def test_made_no_text_any_more(shown: Shown, value: Any, data: bytes) -> None:
    shown.file().write_text(json.dumps({"data": {"text/html": value}}))
    output = await shown.place.house.get_output_data(shown.name, 0, "text/html")
    assert (output.data, output.modified) == (data, True)


async def test_what_is_no_base64_is_handed_over_as_it_is(shown: Shown) -> None:
    shown.file(1).write_text(json.dumps({"data": {"application/pdf": "% no base64 \ud800"}}))
    output = await shown.place.house.get_output_data(shown.name, 1, "application/pdf")
    assert output.data == b"% no base64 \\ud800"


async def test_cleared(place: Place) -> None:
    handle = await place.running("display <b>\nhold")
    place.kernel.say("clear_output", {"wait": False})
    place.kernel.release.set()
    shown = Shown(place, await handle)
    (output,) = shown.result.rich_outputs
    assert output.error_info is not None
    assert output.error_info.reason == DropReason.OUTPUT_CLEARED
    assert await place.house.get_rich_output(shown.name, 0) == output
    assert "it was dropped: OUTPUT_CLEARED" in (await shown.refused()).message


async def test_updated_by_a_later_execution(shown: Shown) -> None:
    place = shown.place
    later = await place.running("hold")
    update = {"data": {"text/html": "new"}, "metadata": {}, "transient": {"display_id": "d"}}
    place.kernel.say("update_display_data", update)
    place.kernel.release.set()
    await later
    now = await place.house.get_rich_output(shown.name, 1)
    assert (now.revision, now.modified) == (1, None)
    assert now.size_bytes == shown.file(1).stat().st_size
    assert (await place.house.get_output_data(shown.name, 1, "text/html")).data == b"new"
    assert not (await place.house.get_output_data(shown.name, 1, "text/html")).modified
    assert (await place.house.get_execution(shown.name)).rich_outputs == shown.result.rich_outputs


async def test_in_the_next_house_and_after_a_deletion(shown: Shown) -> None:
    place = shown.place
    await place.house.close()
    async with House(settings=settings(place.house.state_dir)) as house:
        assert (await house.get_bundle(shown.name, 0))["data"] == {"text/html": "<b>one</b>"}
        await house.delete_runtime(place.runtime)
        for call in (
            house.get_bundle(shown.name, 0),
            house.get_output_data(shown.name, 0, "text/html"),
            house.get_rich_output(shown.name, 0),
        ):
            with pytest.raises(NotFound) as refused:
                await call
            assert refused.value.reason == CallReason.RUNTIME_DELETED
        assert await house.get_execution(shown.name) == shown.result


async def test_of_a_runtime_that_was_deleted(shown: Shown) -> None:
    await shown.place.house.delete_runtime(shown.place.runtime)
    assert (await shown.refused()).reason == CallReason.RUNTIME_DELETED
