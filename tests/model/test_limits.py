"""The limits' defaults are those of the contract, and no limit is nothing."""

from dataclasses import FrozenInstanceError

import pytest

from cellhouse.model import (
    MESSAGE_BYTES,
    CaptureLimits,
    InvalidArgument,
    RetentionLimits,
    SessionLimits,
    WallLimits,
)


def test_the_defaults_are_those_of_the_contract() -> None:
    capture, session, retention = CaptureLimits(), SessionLimits(), RetentionLimits()
    assert capture.inline_chars == 65_536
    assert (capture.error_value_chars, capture.traceback_chars) == (8_192, 32_768)
    assert (capture.spill_bytes, capture.event_text_bytes) == (2**30, 8 * 2**20)
    assert (capture.tail_bytes, capture.tail_seconds) == (4_096, 1.0)
    assert (capture.bundle_bytes, capture.bundles_bytes) == (64 * 2**20, 2**30)
    assert (capture.written_outputs, capture.rich_entries) == (25_000, 50_000)
    assert MESSAGE_BYTES == 128 * 2**20
    assert (session.queue, session.code_bytes, session.wait_timeout) == (64, 4 * 2**20, 600)
    assert (session.idle_seconds, session.input_wait) == (1_800, 300)
    assert (session.interrupt_grace, session.settle_seconds, session.exit_seconds) == (5, 5, 5)
    assert (retention.age_seconds, retention.bytes) == (7 * 86_400, 10 * 2**30)
    assert (retention.tombstone_age_seconds, retention.tombstones) == (30 * 86_400, 1_000_000)


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), True, None, "64"])
def test_a_limit_is_a_finite_number_above_zero(value: object) -> None:
    with pytest.raises(InvalidArgument, match="queue") as caught:
        SessionLimits(queue=value)  # type: ignore[arg-type]
    assert caught.value.metadata == {"field": "queue"}
    with pytest.raises(InvalidArgument):
        CaptureLimits(bundle_bytes=value)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument):
        RetentionLimits(bytes=value)  # type: ignore[arg-type]


def test_limits_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        SessionLimits().queue = 1  # type: ignore[misc]


def test_a_runtime_is_limited_as_the_contract_says() -> None:
    limits = WallLimits()
    assert (limits.memory, limits.cpus, limits.processes) == (2 * 2**30, 2, 256)
    assert (limits.content, limits.open_files, limits.one_file) == (4 * 2**30, 1_024, 4 * 2**30)
    assert limits.named == limits.exact == frozenset()
    assert limits.value("openFiles") == 1_024


@pytest.mark.parametrize("field", ["memory", "cpus", "processes", "content", "open_files", "file_size"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), True])
def test_no_wall_is_nothing(field: str, value: object) -> None:
    with pytest.raises(InvalidArgument) as refused:
        WallLimits(**{field: value})  # type: ignore[arg-type]
    assert refused.value.metadata["field"] == field
