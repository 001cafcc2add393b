"""Inputs: put where the code finds them by their names, from bytes, files and the store."""

import json
import os
from pathlib import Path

import pytest

from cellhouse import House
from cellhouse.model import CellhouseError, NotFound, NoticeReason, mint_artifact_id
from tests.runtime.support import FakeWorld, Place, new_place, notices


def told(place: Place) -> list[dict[str, str]]:
    """What the kernel was told of, each time."""
    found = []
    for code in place.kernel.silent_codes:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CELLHOUSE_INPUTS", "")
            exec(code)
            found.append(json.loads(os.environ["CELLHOUSE_INPUTS"]))
    return found


def content(place: Place) -> Path:
    return place.sandbox.content


async def test_bytes_files_and_artifacts(house: House, place: Place, tmp_path: Path) -> None:
    (tmp_path / "local.txt").write_bytes(b"local")
    stored = await house.artifacts.put([b"st", b"ored"])
    staged = await house.stage_inputs(
        place.runtime, {"a.bin": b"bytes", "b/..": tmp_path / "local.txt", "c": stored.ref}
    )
    base = str(content(place))
    assert staged == {
        "a.bin": f"{base}/inputs/a.bin",
        "b/..": f"{base}/inputs/b%2F..",
        "c": f"{base}/inputs/c",
    }
    assert [Path(path).read_bytes() for path in staged.values()] == [b"bytes", b"local", b"stored"]


async def test_a_kernel_is_told_once_of_all_that_was_staged_so_far(house: House, place: Place) -> None:
    await place.run("print x")
    assert told(place) == []
    first = await house.stage_inputs(place.runtime, {"a": b"1"})
    await place.run("print x")
    await place.run("print x")
    assert told(place) == [first]
    second = await house.stage_inputs(place.runtime, {"b": b"2", "a": b"3"})
    await place.run("print x")
    assert told(place) == [first, {**first, **second}]
    assert Path(first["a"]).read_bytes() == b"3"


async def test_every_kernel_is_told(house: House, place: Place) -> None:
    staged = await house.stage_inputs(place.runtime, {"a": b"1"})
    await place.run("print x")
    assert told(place) == [staged]
    await house.restart(place.session())
    await place.run("print x")
    assert told(place) == [staged]
    await place.run("print x", "other")
    assert told(place) == [staged]


async def test_what_runs_is_not_interrupted_and_the_next_one_sees_it(house: House, place: Place) -> None:
    running = await place.running("hold")
    staged = await house.stage_inputs(place.runtime, {"a": b"1"})
    place.kernel.release.set()
    await running
    assert told(place) == []
    await place.run("print x")
    assert told(place) == [staged]


async def test_another_language_is_told_what_it_lacks(house: House, fakes: FakeWorld) -> None:
    place = await new_place(house, fakes, kernel="other")
    await house.stage_inputs(place.runtime, {"a": b"1"})
    assert notices(await place.run("print x")) == []
    await house.stage_inputs(place.runtime, {"b": b"1"})
    assert notices(await place.run("print x")) == [NoticeReason.OPTION_NOT_SUPPORTED]
    assert notices(await place.run("print x")) == []
    assert place.kernel.silent_codes == []


async def test_inputs_are_not_what_the_code_made(house: House, place: Place) -> None:
    await house.stage_inputs(place.runtime, {"a": b"1"})
    assert (await place.run("print x")).artifacts == ()
    result = await place.run("write inputs/a 2")
    assert [each.name for each in result.artifacts or ()] == ["inputs/a"]


@pytest.mark.parametrize(
    "inputs",
    [
        {"": b"x"},
        {"a": "no ref"},
        {"a": 7},
        {"a": None},
        {"a": Path("/does/not/exist")},
        {"a": Path("/")},
        [],
    ],
)
async def test_what_cannot_be_staged(house: House, place: Place, inputs: object) -> None:
    with pytest.raises(CellhouseError) as refused:
        await house.stage_inputs(place.runtime, inputs)  # type: ignore[arg-type]
    assert refused.value.status == "INVALID_ARGUMENT"
    assert [path for path in content(place).rglob("*") if path.is_file()] == []


async def test_nothing_is_staged_where_one_of_them_can_not_be_one(house: House, place: Place) -> None:
    with pytest.raises(CellhouseError):
        await house.stage_inputs(place.runtime, {"a": b"good", "b": 7})  # type: ignore[dict-item]
    assert list(content(place).iterdir()) == []


async def test_an_artifact_of_nobody_is_not_found(house: House, place: Place) -> None:
    with pytest.raises(NotFound) as refused:
        await house.stage_inputs(place.runtime, {"a": mint_artifact_id()})
    assert refused.value.reason == "NO_SUCH_ARTIFACT"
    with pytest.raises(NotFound) as refused:
        await house.stage_inputs("runtimes/none", {"a": b"x"})
    assert refused.value.reason == "NO_SUCH_RUNTIME"


async def test_too_many_are_refused_before_they_are_written(house: House, place: Place) -> None:
    many = {f"{'x' * 60}{number}": b"" for number in range(600)}
    with pytest.raises(CellhouseError) as refused:
        await house.stage_inputs(place.runtime, many)
    assert refused.value.metadata["limit"] == "CELLHOUSE_INPUTS"
    staged = len(list((content(place) / "inputs").iterdir()))
    await place.run("print x")
    (names,) = told(place)
    assert len(names) == staged < 600
