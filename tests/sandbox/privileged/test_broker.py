"""A broker: serves a sandbox for one that is not root, believes nothing, clears up when nobody is there any more."""

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cellhouse.model import MIB, InvalidArgument, WallLimits
from cellhouse.sandbox.limits.base import GroupUnavailable
from cellhouse.sandbox.limits.content_disk import DiskUnavailable
from cellhouse.sandbox.pidfd import pidfd_open
from cellhouse.sandbox.privileged import Here, Start, UidRange, uids
from cellhouse.sandbox.privileged.broker import Broker, fork_broker
from cellhouse.sandbox.privileged.remote import Remote
from cellhouse.sandbox.privileged.seam import Seen
from cellhouse.sandbox.privileged.uids import used_ids
from cellhouse.sandbox.privileged.wire import MESSAGE_BYTES, BrokerGone, Refused, receive, send
from tests.sandbox.support import PREFIXES, ROOT
from tests.sandbox.test_unprivileged import opened

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be what a broker is")

SECONDS = 60
UIDS = UidRange(59_900, 59_929)  # outside of the usual range, from which other tests take
LIMITS = WallLimits(memory=256 * MIB, content=32 * MIB, processes=48, cpus=0.5)

# A keeper as it is to be: the broker is forked first, then root is given up for good, then hostile code is run.
KEEPER = f"""
import asyncio, json, os, sys
from pathlib import Path
from cellhouse.model import WallLimits
from cellhouse.sandbox import UidRange
from cellhouse.sandbox.bubblewrap import BubblewrapSandbox, shown
from cellhouse.sandbox.privileged.broker import fork_broker
from tests.sandbox.support import run, run_python, spec

limits = WallLimits(memory=256 << 20, content=32 << 20, processes=48, cpus=0.5)
wanted = spec(Path(sys.argv[1]), limits=limits, uids=UidRange({UIDS.first}, {UIDS.last}))
remote = fork_broker()
remote.begin(wanted.state, level="bubblewrap", uids=wanted.uids, shown=shown(wanted))
identity = remote.claim()
os.setgroups([])
os.setresgid(identity.gid, identity.gid, identity.gid)
os.setresuid(identity.uid, identity.uid, identity.uid)

async def main():
    try:
        os.seteuid(0)
    except PermissionError:
        print(json.dumps({{"root": False, "uid": identity.uid}}))
    async with BubblewrapSandbox(wanted, remote) as sandbox:
        held = {{each.name: each.enforcement.value for each in sandbox.limits}}
        layers = [layer.name for layer in sandbox.report.layers if layer.status == "in force"]
        done = await run_python(sandbox, "open('file', 'w').write('kept'); print('well'); open('/dev/stderr', 'w').write('err')")
        hog = await run_python(sandbox, "x = bytearray(1 << 30)")
        hit = hog.how.limit_hit
        full = await run(sandbox, "/bin/sh", "-c", "for i in 1 2; do head -c 20m /dev/zero > $i; done")
        print(json.dumps({{
            "held": held, "layers": layers, "out": done.out, "err": done.err, "hit": hit and [hit.name, hit.limit],
            "full": full.err, "owner": (sandbox.content / "file").stat().st_uid,
        }}), flush=True)
        if len(sys.argv) > 2:
            sleeping = await sandbox.spawn(["/bin/sleep", "1000"], env={{}}, cwd="/")
            print(json.dumps({{"sleeps": True}}), flush=True)
            await asyncio.Event().wait()
    remote.close()

asyncio.run(main())
"""


def keeper(directory: Path, *arguments: str) -> "subprocess.Popen[str]":
    script = f"""
{opened(tuple(dict.fromkeys((*(path.resolve() for path in PREFIXES), ROOT))), directory)}
cd '{ROOT}'
exec "$@"
"""
    return subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", script, "sh", sys.executable, "-c", KEEPER, str(directory / "state"), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip


@pytest.fixture
def place() -> Iterator[Path]:
    """Where a keeper that is nobody can go."""
    directory = Path("/tmp") / f"keeper-{os.getpid()}"
    directory.mkdir(mode=0o755)
    yield directory
    shutil.rmtree(directory)


needs_mounts = pytest.mark.skipif(
    not all(map(shutil.which, ("unshare", "mount"))), reason="needs unshare and mount"
)


@needs_mounts
def test_a_process_that_is_not_root_has_all_that_root_can_give(place: Path) -> None:
    running = keeper(place)
    out, err = running.communicate(timeout=SECONDS)
    assert running.returncode == 0, err
    who, told = map(json.loads, out.splitlines())
    assert who["root"] is False
    assert who["uid"] in UIDS
    assert (told["out"], told["err"], told["owner"]) == ("well\n", "err", who["uid"])
    assert {"mount", "pid", "network", "user", "ipc", "uid"} <= set(told["layers"])
    exact = {name for name, how in told["held"].items() if how == "exact"}
    assert {"openFiles", "fileSize", "processes"} <= exact
    if "memory" in exact:
        assert told["hit"] == ["memory", 256 * MIB]
    if "content" in exact:
        assert "No space left on device" in told["full"]
    assert who["uid"] not in used_ids()
    assert not Path("/run/cellhouse/uids", str(who["uid"])).exists()
    assert sorted(path.name for path in (place / "state").iterdir()) == ["content"]
    assert (place / "state" / "content" / "file").read_text() == "kept"


@needs_mounts
def test_a_keeper_that_is_killed_leaves_nothing(place: Path) -> None:
    running = keeper(place, "sleep")
    assert running.stdout is not None
    assert running.stderr is not None
    who = json.loads(running.stdout.readline())
    running.stdout.readline()
    assert running.stdout.readline() == '{"sleeps": true}\n', running.stderr.read()
    assert who["uid"] in used_ids()
    running.kill()
    running.wait()
    # The broker holds the other end of its standard error, and closes it when it has cleared up.
    running.stderr.read()
    running.stdout.close()
    running.stderr.close()
    assert who["uid"] not in used_ids()
    assert not Path("/run/cellhouse/uids", str(who["uid"])).exists()
    assert sorted(path.name for path in (place / "state").iterdir()) == ["content"]
    assert (place / "state" / "content" / "file").read_text() == "kept"


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[Remote]:
    """Somebody to ask, in a thread: what is refused is refused wherever it runs."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    state = tmp_path / "state"
    here = Here(state, level="bubblewrap", uids=UIDS)
    broker = Broker(here, state=state, shown=[Path("/usr/share")])
    serving = threading.Thread(target=broker.serve, args=(theirs,))
    serving.start()
    made = Remote(ours, 0)
    made.make(state)
    made.make(state / "content")
    made.claim()
    yield made
    ours.close()
    serving.join()
    theirs.close()


def asked(remote: Remote, call: str, descriptors: tuple[int, ...] = (), **arguments: Any) -> str:
    """Why it is refused."""
    with pytest.raises(Refused) as refused:
        remote.ask(call, descriptors, **arguments)
    return str(refused.value)


def limits(**changes: object) -> dict[str, object]:
    usual = {"memory": 256 * MIB, "cpus": 0.5, "processes": 48, "content": 32 * MIB, "open_files": 100}
    return {**usual, "file_size": None, **changes}


def test_a_directory_in_which_something_stands_is_not_taken(tmp_path: Path) -> None:
    """Root would take a disk, or notes about groups, for its own."""
    state = tmp_path / "state"
    state.mkdir()
    broker = Broker(Here(state, level="bubblewrap", uids=UIDS), state=state, shown=[])
    for name in ("content.img", "groups.json", "content"):
        (state / name).symlink_to(tmp_path)
        with pytest.raises(Refused, match="already"):
            broker._make({"path": str(state)}, [])
        (state / name).unlink()
    (tmp_path / "elsewhere").mkdir(mode=0o755)
    state.rmdir()
    state.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotADirectoryError):
        broker._make({"path": str(state)}, [])
    assert (tmp_path / "elsewhere").stat().st_mode & 0o777 == 0o755


def test_a_directory_that_was_let_go_is_nobody_s_but_its_uid_s(remote: Remote, tmp_path: Path) -> None:
    identity = remote.claim()
    assert identity is not None
    assert (tmp_path / "state").stat().st_uid == 0
    remote.settle()
    assert (tmp_path / "state").stat().st_uid == identity.uid
    (tmp_path / "state" / "groups.json").write_text('["/sys/fs/cgroup/cellhouse-forged"]')
    state = str(tmp_path / "state")
    for call, arguments in (
        ("make", {"path": state}),
        ("make", {"path": f"{state}/content"}),
        ("makeGroup", {"limits": limits()}),
        ("mountContent", {"size": 1 << 20}),
    ):
        assert "over" in asked(remote, call, **arguments)
    remote.settle()
    assert (tmp_path / "state" / "groups.json").exists()


START: dict[str, Any] = {"argv": ["/bin/true"], "places": [], "view": [], "limited": False}


@pytest.mark.parametrize(
    ("call", "arguments", "why"),
    [
        ("dance", {}, "does not know"),
        (None, {}, "does not know"),
        (["claim"], {}, "does not know"),
        ("make", {"path": "/etc"}, "none of this sandbox's directories"),
        ("make", {"path": 5}, "none of this sandbox's directories"),
        ("makeGroup", {}, "limits that are not"),
        ("makeGroup", {"limits": {"memory": 1}}, "limits that are not"),
        ("group", {"what": "kills"}, "a group that there is not"),
        ("seat", {"what": "make", "name": "s1"}, "a group that there is not"),
        ("mountContent", {"size": 0}, "no number from 1"),
        ("mountContent", {"size": "1"}, "no number from 1"),
        ("ended", {"pid": 1}, "no number from 2"),
        ("ended", {"pid": 4_000_000}, "not started here"),
        ("expose", {"pid": os.getpid()}, "none of this sandbox's"),
        ("signal", {"number": 9}, "with 0 descriptors; it takes 1"),
    ],
)
def test_what_is_none_of_its_business_is_refused(
    remote: Remote, call: Any, arguments: dict[str, Any], why: str
) -> None:
    assert why in asked(remote, call, **arguments)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"argv": []}, "arguments that are no texts"),
        ({"argv": "/bin/true"}, "arguments that are no texts"),
        ({"argv": ["/bin/true", 5]}, "arguments that are no texts"),
        ({"argv": ["/bin/\0true"]}, "arguments that are no texts"),
        ({"argv": ["x"] * 2000}, "arguments that are no texts"),
        ({"places": [2]}, "places that are no numbers"),
        ({"places": [4, 4]}, "places that are no numbers"),
        ({"places": [5]}, "descriptors that are not"),
        ({"view": {}}, "a view that is no list"),
        ({"view": [["/usr/share"]]}, "no path"),
        ({"view": [["/root", False]]}, "is not to be shown"),
        ({"view": [["/usr/share/../../root", False]]}, "is not to be shown"),
        ({"view": [["/usr/share", 1]]}, "is not to be shown"),
        ({"view": [["/usr/share", True]]}, "lets it write"),
        ({"view": [["/usr/share", False], ["/usr/share", False]]}, "twice"),
    ],
)
def test_what_is_no_start_is_refused(remote: Remote, change: dict[str, Any], why: str) -> None:
    with Path("/dev/null").open("wb") as null:
        assert why in asked(remote, "start", (null.fileno(),), **{**START, **change})


def test_what_it_starts_is_the_runtime_s_uid_and_sees_what_is_shown(remote: Remote, tmp_path: Path) -> None:
    identity = remote.claim()
    assert identity is not None
    out, given = os.pipe()
    view = [Seen(Path("/usr/share"), Path("/run/cellhouse/view/0"))]
    code = "id -u; id -G; ls /run/cellhouse/view; ls -d /run/cellhouse/view/0/doc; echo more >&9"
    started = remote.start(
        Start(
            argv=["/bin/sh", "-c", code],
            cwd=Path("/"),
            stdout=given,
            stderr=given,
            descriptors=[given],
            places=[9],
            identity=identity,
            view=view,
        )
    )
    os.close(given)
    with open(out, encoding="utf-8") as file:
        said = file.read()
    assert said == f"{identity.uid}\n{identity.gid}\n0\n/run/cellhouse/view/0/doc\nmore\n"
    poll = select.poll()
    poll.register(started.pidfd, select.POLLIN)
    assert poll.poll(1000 * SECONDS)
    os.close(started.pidfd)
    assert started.ended() == 0


def test_nobody_else_is_signalled(remote: Remote) -> None:
    stranger = subprocess.Popen(["/bin/sleep", "1000"], env={})
    pidfd = pidfd_open(stranger.pid)
    try:
        with pytest.raises(Refused, match="none of this sandbox's"):
            remote.signal(pidfd, signal.SIGKILL)
        assert stranger.poll() is None
        with Path("/dev/null").open("rb") as null, pytest.raises(Refused, match="no process"):
            remote.signal(null.fileno(), signal.SIGKILL)
        with pytest.raises(Refused, match="no number from 0"):
            remote.signal(pidfd, 1000)
    finally:
        stranger.kill()
        stranger.wait()
    assert remote.signal(pidfd, signal.SIGKILL) is False
    os.close(pidfd)


def test_groups_and_seats(remote: Remote) -> None:
    try:
        group = remote.make_group(LIMITS)
    except GroupUnavailable as error:
        pytest.skip(str(error))
    assert group.held
    with pytest.raises(Refused, match="a second group"):
        remote.make_group(LIMITS)
    assert group.kills() == 0
    if "memory" in group.held:
        seat = group.seat("s1")
        assert seat.kills() == 0
        with pytest.raises(Refused, match="none of this sandbox's"):
            seat.enter(os.getpid())
        for name in ("../x", "s", "sx", "s1/..", "", "s" + "1" * 20):
            assert "takes an s and a number" in asked(remote, "seat", what="make", name=name)
        assert "that there is not" in asked(remote, "seat", what="make", name="s1")
        assert "that there is not" in asked(remote, "seat", what="enter", name="s2", pid=5)
        seat.leave()
    assert group.close()


def test_errors_come_back_as_what_they_are(remote: Remote, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="5 is no limit") as refused:
        remote.ask("makeGroup", limits=limits(memory=5))
    assert refused.value.metadata["field"] == "memory"
    (tmp_path / "state" / "content" / "file").touch()
    with pytest.raises(DiskUnavailable, match="not empty"):
        remote.mount_content(32 * MIB)
    (tmp_path / "state" / "run").symlink_to("/etc")
    with pytest.raises(OSError, match="must be a real one"):
        remote.make(tmp_path / "state" / "run")
    (tmp_path / "state" / "run").unlink()


def test_what_is_no_message_is_refused_and_the_next_is_answered(remote: Remote) -> None:
    sock = remote._socket
    for data in (
        b"garbage",
        b"[" * 60_000,
        b"[]",
        b'{"version": 2, "call": "claim"}',
        b"x" * (MESSAGE_BYTES + 1),
    ):
        sock.send(data)
        answer, _ = receive(sock)
        assert answer["error"]["kind"] == "Refused"
    assert remote.claim() is not None
    with pytest.raises(Refused, match="it takes at most"):
        send(sock, {"call": "x" * MESSAGE_BYTES})
    with pytest.raises(Refused, match="it takes at most"):
        send(sock, {"call": "claim"}, [0] * 40)


def test_where_there_is_no_uid_nothing_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "map").write_text("0 1000 1")
    monkeypatch.setattr(uids, "MAPS", (tmp_path / "map",))
    broker = Broker(
        Here(tmp_path / "state", level="bubblewrap", uids=None), state=tmp_path / "state", shown=[]
    )
    with pytest.raises(Refused, match="a uid that there is not"):
        broker._call({"call": "start", **START}, [0])


def test_nobody_there_is_told(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.close()
    with ours, pytest.raises(BrokerGone):
        Remote(ours, 0).claim()


def test_a_broker_is_not_forked_where_there_are_threads(tmp_path: Path) -> None:
    ending = threading.Event()
    thread = threading.Thread(target=ending.wait)
    thread.start()
    try:
        with pytest.raises(RuntimeError, match="before there are threads"):
            fork_broker()
    finally:
        ending.set()
        thread.join()
