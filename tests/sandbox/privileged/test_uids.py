"""Uids for runtimes: which can be taken, that nobody else has them, and that they come back."""

import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cellhouse.model import InvalidArgument
from cellhouse.sandbox.privileged import uids
from cellhouse.sandbox.privileged.uids import (
    DEFAULT_UIDS,
    UidLease,
    UidRange,
    UidsFull,
    UidsNotMapped,
    UidsUnavailable,
    used_ids,
)
from tests.sandbox.support import ROOT

FIRST = 59_100  # outside of the usual range, from which other tests take
"""Of a few that no test of a sandbox is at all likely to get, and whose locks lie in a directory of the test's own."""
HOLDER = f"""
import signal, sys
from pathlib import Path
from cellhouse.sandbox.privileged.uids import UidLease, UidRange
lease = UidLease.take(UidRange({FIRST}, {FIRST}), run=Path(sys.argv[1]))
print(lease.identity.uid, flush=True)
signal.pause()
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In place of the maps of this process."""
    path = tmp_path / "map"
    monkeypatch.setattr(uids, "MAPS", (path,))
    return path


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In place of the list of what users were given."""
    path = tmp_path / "subuid"
    monkeypatch.setattr(uids, "SUBORDINATE", (path,))
    return path


@pytest.mark.parametrize(
    ("first", "last", "rule"),
    [
        (999, 2000, "999 is no uid for runtimes; both ends lie between 1000 and 4294967294"),
        (2000, 2**32 - 1, "4294967295 is no uid for runtimes"),
        (3000, 2999, "from 3000 to 2999 there is none"),
        (True, 2000, "True is no uid"),
        (2000.0, 3000, r"2000\.0 is no uid"),
        ("2000", 3000, "'2000' is no uid"),
    ],
)
def test_a_range_that_is_none_is_refused(first: object, last: object, rule: str) -> None:
    with pytest.raises(InvalidArgument, match=rule) as caught:
        UidRange(first, last)  # type: ignore[arg-type]
    assert caught.value.metadata["field"] == "uids"


def test_the_usual_range_is_nobody_s() -> None:
    assert (len(DEFAULT_UIDS), str(DEFAULT_UIDS)) == (478, "60706-61183")
    assert not {entry.pw_uid for entry in pwd.getpwall()} & set(DEFAULT_UIDS)


def test_no_two_hold_the_same(run: Path) -> None:
    wanted = UidRange(FIRST, FIRST + 2)
    leases = [UidLease.take(wanted, run=run) for _ in wanted]
    assert sorted(lease.identity.uid for lease in leases) == list(wanted)
    assert all(lease.identity.uid == lease.identity.gid for lease in leases)
    with pytest.raises(UidsFull, match=r"none of the uids 59100-59102 is free \(3 held by another runtime\)"):
        UidLease.take(wanted, run=run)
    leases[1].give_back()
    leases[1].give_back()
    again = UidLease.take(wanted, run=run)
    assert again.identity == leases[1].identity
    for lease in (*leases, again):
        lease.give_back()
    assert list((run / "uids").iterdir()) == []


@pytest.fixture
def holder(run: Path) -> Iterator["subprocess.Popen[str]"]:
    """Another service of this machine, which has the only uid there is."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(run)],
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == f"{FIRST}\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_another_service_holds_it_until_it_dies(run: Path, holder: "subprocess.Popen[str]") -> None:
    wanted = UidRange(FIRST, FIRST)
    with pytest.raises(UidsFull):
        UidLease.take(wanted, run=run)
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert (run / "uids" / str(FIRST)).exists()  # the name is left, the lock is not
    UidLease.take(wanted, run=run).give_back()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process of another user")
def test_one_that_a_process_runs_under_is_not_taken(run: Path) -> None:
    wanted = UidRange(FIRST, FIRST + 1)
    process = subprocess.Popen(["/bin/sleep", "1000"], user=FIRST, group=FIRST, extra_groups=[], env={})
    try:
        assert FIRST in used_ids()
        lease = UidLease.take(wanted, run=run)
        assert lease.identity.uid == FIRST + 1
        with pytest.raises(UidsFull, match="1 held by another runtime, 1 of a process that runs"):
            UidLease.take(wanted, run=run)
        lease.give_back()
    finally:
        process.kill()
        process.wait()


def test_one_of_an_account_is_not_taken(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uids, "has_account", lambda number: number == FIRST)
    lease = UidLease.take(UidRange(FIRST, FIRST + 1), run=run)
    assert lease.identity.uid == FIRST + 1
    lease.give_back()
    with pytest.raises(UidsFull, match="1 of an account"):
        UidLease.take(UidRange(FIRST, FIRST), run=run)


def test_accounts_are_users_and_groups() -> None:
    assert uids.has_account(0)
    assert not uids.has_account(FIRST)


@pytest.mark.parametrize(
    "lines",
    ["0 1000 1", "0 100000 59000", "0 0 59100\n59101 70000 1000", "59101 0 65536", ""],
)
def test_a_range_that_is_not_all_mapped(run: Path, mapped: Path, lines: str) -> None:
    mapped.write_text(lines)
    with pytest.raises(UidsNotMapped, match=r"59100-59101 are not all mapped .*at least 65,536"):
        UidLease.take(UidRange(FIRST, FIRST + 1), run=run)
    assert not run.exists()


@pytest.mark.parametrize("lines", ["0 0 4294967295", "0 100000 65536", "59101 1 1\n0 0 59101"])
def test_a_range_that_is_mapped(run: Path, mapped: Path, lines: str) -> None:
    mapped.write_text(lines)
    UidLease.take(UidRange(FIRST, FIRST + 1), run=run).give_back()


def test_a_range_that_a_user_was_given(run: Path, given: Path) -> None:
    given.write_text("# nobody\nann:100000:65536\nbob:59000:200\nodd line\n")
    with pytest.raises(UidsUnavailable, match=r"gives 59000-59199 to a user, which overlaps .*another range"):
        UidLease.take(UidRange(FIRST, FIRST), run=run)
    given.write_text("ann:100000:65536\nbob:59000:100\n")
    UidLease.take(UidRange(FIRST, FIRST), run=run).give_back()


@pytest.mark.parametrize("where", ["uids", "."])
def test_a_place_that_others_can_change_is_not_believed(run: Path, where: str) -> None:
    (run / "uids").mkdir(parents=True)
    (run / where).chmod(0o777)
    with pytest.raises(UidsUnavailable, match="no directory that only root can change; remove it"):
        UidLease.take(UidRange(FIRST, FIRST), run=run)


def test_a_place_that_can_not_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UidsUnavailable, match="can't be made: Not a directory"):
        UidLease.take(UidRange(FIRST, FIRST), run=tmp_path / "file")


def test_a_lock_that_is_a_link_is_not_followed(run: Path, tmp_path: Path) -> None:
    (run / "uids").mkdir(parents=True)
    (run / "uids" / str(FIRST)).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        UidLease.take(UidRange(FIRST, FIRST), run=run)
    assert not (tmp_path / "elsewhere").exists()
