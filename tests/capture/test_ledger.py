"""The ledger: dense, every drop with its reason and figures, budgets, clearing, and its size in memory."""

import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from cellhouse.capture.bundle import Bundle
from cellhouse.capture.ledger import DROPS, Ledger
from cellhouse.capture.store import BundleStore
from cellhouse.files import DiskFull, HostileDir, PathEscapes, Written
from cellhouse.model import CaptureLimits, RichOutput
from tests.capture.rig import UID

GOOD = {"text/html": "<b>0</b>", "text/plain": "x"}


class Made:
    def __init__(self, path: Path, **limits: Any) -> None:
        self.path = path
        self.limits = CaptureLimits(**limits)
        self.content = HostileDir.open(path)
        self.notes: list[tuple[int, int, int]] = []
        self.store = BundleStore(self.content)
        self.ledger = Ledger(UID, self.limits, self.store, self._noted)

    def _noted(self, index: int, written: Written, revision: int) -> None:
        self.notes.append((index, written.size, revision))

    def bundle(self, data: Any = None) -> Bundle:
        return Bundle({"data": GOOD if data is None else data}, "display_data", self.limits)

    def add(self, data: Any = None) -> int | None:
        return self.ledger.add(self.bundle(data))

    def reasons(self) -> list[str | None]:
        outputs = self.ledger.outputs()
        assert [output.index for output in outputs] == list(range(len(outputs)))
        return [str(output.error_info.reason) if output.error_info else None for output in outputs]

    def files(self) -> list[str]:
        return sorted(file.name for file in (self.path / ".dsm_outputs" / UID).iterdir())

    def metadata(self, index: int) -> dict[str, str]:
        info = self.ledger.error_info(index)
        assert info is not None
        return info.metadata


@pytest.fixture
def make(tmp_path: Path) -> Any:
    made: list[Made] = []

    def factory(**limits: Any) -> Made:
        made.append(Made(tmp_path, **limits))
        return made[-1]

    yield factory
    for each in made:
        each.content.close()


def test_a_written_output_tells_its_path_and_size(make: Any) -> None:
    made = make()
    assert made.add() == 0
    size = (made.path / ".dsm_outputs" / UID / "out-000.json").stat().st_size
    path = f"/content/.dsm_outputs/{UID}/out-000.json"
    assert made.ledger.outputs() == (
        RichOutput(index=0, mime_types=("text/html",), size_bytes=size, file_path=path),
    )
    assert made.notes == [(0, size, 0)]


def test_index_above_999_grows_a_digit(make: Any) -> None:
    made = make()
    for _ in range(1_001):
        made.add()
    assert made.ledger.outputs()[1_000].file_path.endswith("/out-1000.json")
    assert "out-1000.json" in made.files()


def test_too_large(make: Any) -> None:
    made = make(bundle_bytes=100)
    made.add({"text/html": "x" * 100})
    made.add({"text/html": "x"})
    assert made.reasons() == ["OUTPUT_TOO_LARGE", None]
    size = made.bundle({"text/html": "x" * 100}).size
    assert made.metadata(0) == {"sizeBytes": str(size), "limitBytes": "100"}
    assert made.files() == ["out-001.json"]


def test_budget_of_all_bundles_counts_what_is_there(make: Any) -> None:
    made = make(bundles_bytes=3 * Bundle({"data": GOOD}, "display_data", CaptureLimits()).size)
    for _ in range(4):
        made.add()
    assert made.reasons() == [None, None, None, "OUTPUT_BUDGET_EXCEEDED"]
    assert set(made.metadata(3)) == {"sizeBytes", "limitBytes"}
    made.ledger.clear()
    made.add()
    assert made.reasons() == ["OUTPUT_CLEARED"] * 4 + [None]


def test_only_so_many_causes_are_remembered(make: Any) -> None:
    made = make()
    for number in range(DROPS + 50):
        made.add({"text/html": "x", f"{number}": "no MIME type", "a/b": number})
        made.add({f"{number}": "no MIME type"})
    outputs = made.ledger.outputs()
    causes = [output.error_info.metadata.get("cause") for output in outputs if output.error_info]
    assert None not in causes[:DROPS]
    assert causes[DROPS:] == [None] * 50


def test_number_of_written_outputs(make: Any) -> None:
    made = make(written_outputs=2)
    for _ in range(3):
        made.add()
    assert made.reasons() == [None, None, "TOO_MANY_OUTPUTS"]
    assert made.metadata(2)["limitOutputs"] == "2"


def test_the_last_entry_stands_for_the_rest(make: Any) -> None:
    made = make(rich_entries=3)
    assert [made.add() for _ in range(5)] == [0, 1, 2, None, None]
    assert made.reasons() == [None, None, "TOO_MANY_OUTPUTS"]
    assert made.metadata(2) == {"omittedOutputs": "3", "limitOutputs": "3"}
    assert made.files() == ["out-000.json", "out-001.json"]
    made.ledger.clear()
    made.ledger.update(2, made.bundle())
    made.add()
    assert made.reasons() == ["OUTPUT_CLEARED", "OUTPUT_CLEARED", "TOO_MANY_OUTPUTS"]
    assert made.metadata(2)["omittedOutputs"] == "4"


def test_exactly_as_many_entries_as_there_may_be(make: Any) -> None:
    made = make(rich_entries=2)
    made.add()
    made.add()
    assert made.reasons() == [None, None]


def test_invalid(make: Any) -> None:
    made = make()
    made.add({"image/png": "§"})
    assert made.reasons() == ["INVALID_OUTPUT"]
    assert made.metadata(0) == {"cause": "image/png: not base64"}
    assert made.ledger.outputs()[0].mime_types == ("image/png",)


def test_clearing_removes_files_and_keeps_places(make: Any) -> None:
    made = make()
    made.add()
    made.add({"image/png": "§"})
    made.ledger.clear()
    made.add()
    made.ledger.clear()
    made.add()
    assert made.reasons() == ["OUTPUT_CLEARED"] * 3 + [None]
    assert made.files() == ["out-003.json"]
    assert made.ledger.written == 1
    assert made.metadata(0) == {}


def test_an_update_rewrites_in_place(make: Any) -> None:
    made = make()
    made.add()
    made.ledger.update(0, made.bundle({"text/latex": "$x$"}))
    assert made.reasons() == [None]
    assert made.ledger.outputs()[0].mime_types == ("text/latex",)
    assert made.files() == ["out-000.json"]
    assert [(index, revision) for index, _, revision in made.notes] == [(0, 0), (0, 1)]
    assert made.ledger.written_bytes == made.notes[-1][1]


def test_an_update_that_is_dropped_drops_the_output_and_a_later_one_brings_it_back(make: Any) -> None:
    made = make(bundle_bytes=200)
    made.add()
    made.ledger.update(0, made.bundle({"text/html": "x" * 200}))
    assert made.reasons() == ["OUTPUT_TOO_LARGE"]
    assert made.files() == []
    assert (made.ledger.written, made.ledger.written_bytes) == (0, 0)
    made.ledger.update(0, made.bundle())
    assert made.reasons() == [None]
    assert made.ledger.written == 1


@pytest.mark.parametrize(
    ("error", "reason", "cause"),
    [
        (DiskFull("out-000.json"), "DISK_FULL", "ENOSPC"),
        (OSError(5, "Input/output error"), "WRITE_FAILED", "EIO"),
        (PathEscapes("a link"), "WRITE_FAILED", "PathEscapes"),
    ],
)
def test_a_write_that_fails_is_a_drop(
    make: Any, monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str, cause: str
) -> None:
    made = make()

    def fail(*_: object, **__: object) -> Written:
        raise error

    monkeypatch.setattr(HostileDir, "create", fail)
    made.add()
    assert made.reasons() == [reason]
    assert made.metadata(0)["cause"] == cause


def test_a_link_planted_in_the_way_is_never_followed(make: Any, tmp_path: Path) -> None:
    made = make()
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.mkdir()
    (tmp_path / ".dsm_outputs").symlink_to(outside)
    made.add()
    assert made.reasons() == ["WRITE_FAILED"]
    assert list(outside.iterdir()) == []


def test_a_directory_that_the_code_removed_is_made_again(make: Any) -> None:
    made = make()
    made.add()
    (made.path / ".dsm_outputs" / UID / "out-000.json").unlink()
    (made.path / ".dsm_outputs" / UID).rmdir()
    made.add()
    assert made.reasons() == [None, None]
    assert made.files() == ["out-001.json"]
    made.ledger.clear()
    assert made.ledger.written == 0


def test_hostile_names_are_bounded_in_memory(make: Any) -> None:
    made = make(written_outputs=1)
    tracemalloc.start()
    for i in range(600):
        made.add({f"text/{i:05}-{j}" + "x" * 200: "" for j in range(64)})
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert used < 12 * 1024 * 1024
    assert made.reasons()[-1] == "INVALID_OUTPUT"
    assert all(output.mime_types for output in made.ledger.outputs())


def test_fifty_thousand_entries_take_few_bytes(make: Any) -> None:
    made = make(written_outputs=1, bundle_bytes=100)
    bundles = [made.bundle({"text/html": "x" * i}) for i in range(1_000)]
    tracemalloc.start()
    for i in range(50_000):
        made.ledger.add(bundles[i % 1_000])
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert used < 20 * 1024 * 1024
    assert len(made.ledger) == 50_000
