"""What a house can't be told: each is refused with its field and its rule."""

from pathlib import Path

import pytest

from cellhouse.model import InvalidArgument
from cellhouse.runtime import Settings
from cellhouse.sandbox import UidRange


def settings(**changes: object) -> Settings:
    return Settings(state_dir=Path("/nowhere"), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("field", ["max_runtimes", "max_sessions", "max_executions"])
@pytest.mark.parametrize("value", [0, -1, 1.5, float("nan"), float("inf"), True, None, "64"])
def test_a_number_that_is_none_is_refused(field: str, value: object) -> None:
    with pytest.raises(InvalidArgument, match="it takes a whole number of at least 1") as refused:
        settings(**{field: value})
    assert refused.value.metadata["field"] == field


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("spares", -1, "at least 0"),
        ("durability", "some", "takes 'normal' or 'full'"),
        ("start", "", "takes 'zygote' or 'fresh'"),
        ("isolation", "", "takes the name of a level"),
        ("isolation", None, "takes the name of a level"),
        ("preload", "numpy", "takes names of modules, one by one"),
        ("preload", ("numpy", ""), "takes names of modules, one by one"),
        ("preload", None, "takes names of modules, one by one"),
        ("preload", (5,), "takes names of modules, one by one"),
        ("uids", (60_000, 60_100), "takes a UidRange"),
    ],
)
def test_what_can_t_be_is_refused(field: str, value: object, rule: str) -> None:
    with pytest.raises(InvalidArgument, match=rule) as refused:
        settings(**{field: value})
    assert refused.value.metadata["field"] == field


def test_what_can_be_is_taken() -> None:
    made = settings(spares=0, max_runtimes=1, preload=(), uids=UidRange(2000, 2999), start="fresh")
    assert (made.spares, made.preload, made.uids) == (0, (), UidRange(2000, 2999))
