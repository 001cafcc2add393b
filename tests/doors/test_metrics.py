"""What /metrics says: figures that are right, of executions whoever waited for them, and labels of closed sets only."""

import asyncio
from pathlib import Path
from urllib.parse import quote

from prometheus_client.parser import text_string_to_metric_families

from cellhouse.model import CaptureLimits, DropReason, Outcome
from tests.doors.support import Door, house_of, opened, until, within
from tests.runtime.support import FakeWorld

HOSTILE = 'x"} 1\ncellhouse_runtimes 99\n#'

LABELS = {
    "decision": {"allowed", "refused"},
    "outcome": {str(outcome) for outcome in Outcome},
    "reason": {str(reason) for reason in DropReason} | {"OTHER"},
    "text": {"stdout", "stderr", "result"},
    "fate": {"shown", "kept", "lost"},
}


class Figures:
    """The samples of one reading, by name and labels."""

    def __init__(self, text: str) -> None:
        self.families = list(text_string_to_metric_families(text))
        self.samples = {
            (sample.name, *(f"{key}={value}" for key, value in sorted(sample.labels.items()))): sample.value
            for family in self.families
            for sample in family.samples
        }

    def __getitem__(self, key: str | tuple[str, ...]) -> float:
        name, *labels = (key,) if isinstance(key, str) else key
        return self.samples[name, *sorted(labels)]


async def _figures(door: Door) -> Figures:
    response = await within(door.client.get("/metrics"))
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/plain; version=")
    return Figures(response.text)


async def _ended(door: Door, count: int) -> Figures:
    """Once so many executions have been seen to end, which is a moment after their callers heard of it."""

    async def all_seen() -> Figures:
        while True:
            found = await _figures(door)
            if sum(v for k, v in found.samples.items() if k[0] == "cellhouse_executions_total") == count:
                return found

    return await within(all_seen())


async def test_executions_are_counted_by_their_outcome_and_a_repeat_is_not_a_second_one(door: Door) -> None:
    await door.run("print a", executionId="one")
    await door.run("print a", executionId="one")
    await door.run("raise ValueError no")
    await door.run("exit 3")
    found = await _ended(door, 3)
    assert found["cellhouse_executions_accepted_total"] == 3
    assert found["cellhouse_executions_attached_total"] == 1
    by_outcome = {name: found["cellhouse_executions_total", f"outcome={name}"] for name in Outcome}
    assert {name: count for name, count in by_outcome.items() if count} == {"OK": 1, "ERROR": 1, "EXITED": 1}


async def test_one_whose_caller_went_away_is_counted_with_its_times(door: Door) -> None:
    await door.start("hold")
    running = await _figures(door)
    assert running["cellhouse_executions_unfinished"] == 1
    assert running["cellhouse_executions_accepted_total"] == 1
    assert running["cellhouse_executions_total", "outcome=OK"] == 0
    door.kernel.release.set()
    found = await _ended(door, 1)
    assert found["cellhouse_execution_run_seconds_count", "outcome=OK"] == 1
    assert 0 < found["cellhouse_execution_run_seconds_sum", "outcome=OK"] < 60
    assert found["cellhouse_execution_queue_seconds_count"] == 1
    assert 0 <= found["cellhouse_execution_queue_seconds_sum"] < 60
    assert found["cellhouse_executions_unfinished"] == 0


async def test_one_that_never_started_has_no_times(door: Door) -> None:
    await door.start("hold")
    waiting = asyncio.ensure_future(door.run("print a", executionId="queued"))
    house = house_of(door.service)
    await until(lambda: len(house.unfinished) == 2)
    (name,) = (each for each in house.unfinished if each.endswith("queued"))
    await within(door.client.post(f"/v1/{name}:cancel"))
    assert (await within(waiting))["outcome"] == "NEVER_STARTED"
    door.kernel.release.set()
    found = await _ended(door, 2)
    assert found["cellhouse_executions_total", "outcome=NEVER_STARTED"] == 1
    assert found["cellhouse_execution_queue_seconds_count"] == 1
    assert ("cellhouse_execution_run_seconds_count", "outcome=NEVER_STARTED") not in found.samples


async def test_bytes_of_text_are_counted_by_what_became_of_them(fakes: FakeWorld, tmp_path: Path) -> None:
    async with opened(fakes, tmp_path / "state") as door:
        await door.make(runtimeId="here")
        await door.run("err é")
        result = await door.run(f"print {'x' * 5_000}", outputLimit=1_000)
        assert result["outputTruncated"]
        found = await _ended(door, 2)
    shown = len(result["stdout"].encode())
    assert found["cellhouse_text_bytes_total", "text=stderr", "fate=shown"] == len("é\n".encode())
    assert found["cellhouse_text_bytes_total", "text=stdout", "fate=shown"] == shown
    assert found["cellhouse_text_bytes_total", "text=stdout", "fate=kept"] == 5_001 - shown
    assert found["cellhouse_text_bytes_total", "text=stdout", "fate=lost"] == 0


async def test_bytes_past_what_is_kept_for_paging_are_counted_as_lost(
    fakes: FakeWorld, tmp_path: Path
) -> None:
    async with opened(
        fakes, tmp_path / "state", changes={"capture": CaptureLimits(spill_bytes=2_000)}
    ) as door:
        await door.make(runtimeId="here")
        result = await door.run(f"print {'x' * 300_000}", outputLimit=1_000)
        found = await _ended(door, 1)
    shown = len(result["stdout"].encode())
    assert int(result["truncation"]["stdout"]["spilledBytes"]) == 2_000
    assert found["cellhouse_text_bytes_total", "text=stdout", "fate=kept"] == 2_000 - shown
    assert found["cellhouse_text_bytes_total", "text=stdout", "fate=lost"] == 298_001


async def test_rich_outputs_are_counted_and_the_dropped_by_their_reason(
    fakes: FakeWorld, tmp_path: Path
) -> None:
    changes = {"capture": CaptureLimits(bundle_bytes=1_000)}
    async with opened(fakes, tmp_path / "state", changes=changes) as door:
        await door.make(runtimeId="here")
        result = await door.run(f"display <b>\ndisplay {'x' * 5_000}")
        found = await _ended(door, 1)
    kept, dropped = result["richOutputs"]
    assert found["cellhouse_rich_outputs_total"] == 1
    assert found["cellhouse_rich_output_bytes_total"] == int(kept["sizeBytes"])
    assert dropped["errorInfo"]["reason"] == "OUTPUT_TOO_LARGE"
    assert found["cellhouse_rich_outputs_dropped_total", "reason=OUTPUT_TOO_LARGE"] == 1


async def test_runtimes_kernels_and_memory_are_what_there_is_now(door: Door) -> None:
    found = await _figures(door)
    assert (found["cellhouse_runtimes"], found["cellhouse_kernels"], found["cellhouse_pool_kernels"]) == (
        1,
        0,
        0,
    )
    await door.run("print a", session="one")
    await door.run("print a", session="two")
    found = await _figures(door)
    assert found["cellhouse_kernels"] == 2
    assert found["process_resident_memory_bytes"] > 2**20
    await within(door.client.delete(door.path(session="one")))
    assert (await _figures(door))["cellhouse_kernels"] == 1


async def test_what_hostile_callers_and_code_name_is_no_label(door: Door) -> None:
    await within(door.client.get(f"/v1/{quote(HOSTILE)}/hostile"))
    await within(door.client.request("BREW", "/v1/runtimes"))
    await door.run(f"raise {HOSTILE.splitlines()[0]} no", executionId="hostile-id")
    await door.run("display <b>", session="hostile-session")
    found = await _ended(door, 2)
    text = str(found.samples)
    assert "hostile" not in text
    assert "BREW" not in text
    assert found["cellhouse_runtimes"] == 1
    for family in found.families:
        for sample in family.samples:
            assert set(sample.labels) <= {*LABELS, "method", "route", "code", "le"}, family.name
            for label, closed in LABELS.items():
                assert sample.labels.get(label, next(iter(closed))) in closed


async def test_the_documentation_lists_every_figure_there_is(door: Door) -> None:
    """Name, type, labels, of the table in docs/service.md."""
    documented = (Path(__file__).parents[2] / "docs" / "service.md").read_text("utf-8")
    await door.run("display <b>")
    found = await _ended(door, 1)
    for family in found.families:
        if not family.name.startswith("process_") and not family.name.endswith("_created"):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            row = next((line for line in documented.splitlines() if line.startswith(f"| `{name}` ")), None)
            assert row is not None, f"{name} is not in docs/service.md"
            assert f"| {family.type} |" in row
            for label in {label for sample in family.samples for label in sample.labels} - {"le"}:
                assert f"`{label}`" in row, row
