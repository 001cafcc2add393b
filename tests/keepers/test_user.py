"""Who a keeper is where the service is root: nobody who could do anything but for its own runtime."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from pathlib import Path

import pytest

from cellhouse.environments import Environment
from cellhouse.keepers import KeptHouse, Template
from cellhouse.keepers.place import Place, User
from cellhouse.model import MIB, CellhouseError, FailedPrecondition, Outcome, RuntimeLimits, RuntimeSpec
from cellhouse.sandbox.privileged.uids import processes_of
from tests.keepers.support import all_events, dense, ended, kill, run, settings, start, within
from tests.keepers.test_deaths import service
from tests.sandbox.support import ROOT, until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root has something to give up")

# As the keeper, or as what runs in its sandbox but outside of all namespaces; tells what could be done.
INTRUDER = """
import ctypes, json, os, sys
uid, own, namespace, wanted = json.loads(sys.argv[1])
if namespace:
    fd = os.open(namespace, os.O_RDONLY)
    assert ctypes.CDLL(None).setns(fd, 0) == 0
from cellhouse.sandbox.privileged import starter
starter.take_on(uid, uid, own)
done = []
for what, argument in wanted:
    try:
        if what == "kill":
            os.kill(argument, 0)
        elif what == "list":
            os.listdir(argument)
        elif what == "write":
            os.close(os.open(argument, os.O_WRONLY))
        else:
            os.close(os.open(argument, os.O_RDONLY))
        done.append([what, argument])
    except OSError:
        pass
print(json.dumps(done))
"""


@dataclass
class Kept:
    house: KeptHouse
    user: User

    @property
    def place(self) -> Place:
        return Place(self.house.state_dir, "here")

    @property
    def broker(self) -> int:
        return broker_of(self.user.pid)


def broker_of(pid: int) -> int:
    """The keeper's only child that is root."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    (found,) = [int(each) for each in children if Path(f"/proc/{each}").stat().st_uid == 0]
    return found


def status(pid: int) -> dict[str, list[str]]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.split() for name, _, value in (line.partition(":") for line in lines)}


def intrude(user: User, wanted: list[tuple[str, str | int]], *, keeper: bool) -> list[list[str | int]]:
    """What of this can be done."""
    namespace = f"/proc/{user.pid}/ns/mnt" if keeper else ""
    own = user.own if keeper else None
    ran = subprocess.run(
        [sys.executable, "-c", INTRUDER, json.dumps([user.uid, own, namespace, wanted])],
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    done: list[list[str | int]] = json.loads(ran.stdout)
    return done


def gone(user: User, state: Path) -> bool:
    """Nothing of the two users runs, and nothing is mounted."""
    return not processes_of([user.own, user.uid]) and str(state) not in Path("/proc/self/mounts").read_text()


def let_go(mine: "Kept") -> bool:
    """Nobody has anything to do in its directory any more."""
    return gone(mine.user, mine.house.state_dir) and not (mine.place.directory / "keeper.sock").exists()


@pytest.fixture
async def mine(kept: KeptHouse) -> Kept:
    user = Place(kept.state_dir, "here").user()
    assert user is not None
    return Kept(kept, user)


async def test_it_is_neither_root_nor_what_runs_inside_and_can_do_nothing_besides(mine: Kept) -> None:
    house, user = mine.house, mine.user
    await house.create_runtime(runtime_id="other")
    found = status(user.pid)
    assert found["Uid"] == found["Gid"] == list(map(str, (user.own, user.uid, user.own, user.uid)))
    assert 0 not in (user.own, user.uid)
    assert user.own != user.uid
    assert found["Groups"] == []
    assert {name: found[name] for name in found if name.startswith("Cap")} == {
        name: ["0" * 16] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
    }
    assert found["NoNewPrivs"] == ["1"]
    isolation = (await house.get_runtime("runtimes/here")).isolation
    assert isolation is not None
    (uid,) = [each for each in isolation.layers if each.name == "uid"]
    assert f"uid {user.uid} and gid {user.uid}" in uid.detail
    assert uid.detail.endswith(f"read by uid {user.own}")

    state, other = house.state_dir, Place(house.state_dir, "other").user()
    assert other is not None
    tokens = state / "tokens"
    tokens.mkdir(mode=0o700)
    secret = tokens / "tokens.json"
    secret.write_text("{}")
    secret.chmod(0o644)
    closed: list[tuple[str, str | int]] = [
        ("list", str(tokens)),
        ("read", str(secret)),
        ("read", str(state / "journal" / "lock")),
        ("list", str(state / "keepers" / "other")),
        ("read", str(state / "keepers" / "other" / "keeper.json")),
        ("read", str(mine.place.directory / "keeper.json")),
        ("read", str(mine.place.directory / "mint.key")),
        ("write", str(mine.place.directory / "user.json")),
        ("write", str(mine.place.directory / "request.json")),
        ("read", "/etc/shadow"),
        ("kill", os.getpid()),
        ("kill", mine.broker),
        ("kill", other.pid),
        ("read", f"/proc/{other.pid}/mem"),
        ("read", f"/proc/{mine.broker}/mem"),
    ]
    own: list[tuple[str, str | int]] = [("list", str(mine.place.directory / "journal"))]
    assert intrude(user, closed + own, keeper=True) == [list(each) for each in own]
    # What runs inside, were there no namespaces at all: its keeper and its keeper's files are another's.
    closed += [
        *own,
        ("list", str(mine.place.directory)),
        ("kill", user.pid),
        ("read", f"/proc/{user.pid}/mem"),
        ("read", f"/proc/{user.pid}/environ"),
        ("list", f"/proc/{user.pid}/fd"),
        ("list", f"/proc/{user.pid}/root"),
    ]
    assert intrude(user, closed, keeper=False) == []


async def test_it_can_do_all_that_a_runtime_can(mine: Kept) -> None:
    house, session = mine.house, "runtimes/small/sessions/main"
    # Where the machine is short of memory, what runs inside goes before its keeper and the broker.
    exposed = int((await run(house, "print(open('/proc/self/oom_score_adj').read())")).stdout)
    for pid in (os.getpid(), mine.user.pid, mine.broker):
        assert int(Path(f"/proc/{pid}/oom_score_adj").read_text()) <= exposed - 500
    assert (await run(house, "import os; os.getuid(), open('/content/a', 'w').write('x')")).result.endswith(
        "1)"
    )
    await house.put_file("runtimes/here", "b", [b"put"])
    assert (await run(house, "open('b').read()")).result == "'put'"
    limits = (await house.get_runtime("runtimes/here")).limits
    held = {each.name: each.enforcement.value for each in limits or ()}
    assert {"exact"} == {held[name] for name in ("openFiles", "fileSize", "processes")}
    await house.create_runtime(RuntimeSpec(limits=RuntimeLimits(content=32 * MIB)), runtime_id="small")
    full = await run(house, "open('c', 'wb').write(bytes(64 << 20))", session)
    assert full.outcome is Outcome.ERROR or held["content"] != "exact"
    await house.delete_runtime("runtimes/small")
    with house.open_content("runtimes/here") as content:
        assert content.read("a", 10) == b"x"
    await house.delete_runtime("runtimes/here")
    await ended(mine.user.pid)
    assert mine.place.is_over
    assert gone(mine.user, house.state_dir)


@pytest.mark.parametrize(
    "order",
    [
        pytest.param(order, id=" ".join(order), marks=() if order[0] == "broker" else pytest.mark.slow)
        for order in permutations(("broker", "keeper", "service"))
    ],
)
async def test_whoever_is_killed_first_all_is_cleared_up(
    template: Template, environment: Environment, tmp_path: Path, order: tuple[str, ...]
) -> None:
    state = tmp_path / "state"
    code = "print('so far', flush=True); import time; time.sleep(600)"
    session = "runtimes/here/sessions/main"
    async with service(state, environment) as first:
        await first.ask(make="here")
        name = (await first.ask(run=code, session=session, id="e"))["name"]
        await first.ask(printed=name, text="so far")
        place = Place(state, "here")
        user = place.user()
        assert user is not None
        pids = {"keeper": user.pid, "broker": broker_of(user.pid), "service": first.process.pid}
        for victim in order:
            with contextlib.suppress(ProcessLookupError):  # its end followed from another's
                os.kill(pids[victim], signal.SIGKILL)
    for pid in pids.values():
        await ended(pid)
    async with KeptHouse(settings(state, environment), template=template) as house:
        handle = await start(house, code, execution_id="e")
        assert handle.attached
        result = await within(handle.result())
        assert (result.outcome, result.stdout) == (Outcome.RUNTIME_LOST, "so far\n")
        assert dense(await all_events(handle))
        with house.open_content("runtimes/here") as content:
            assert content.scan(100).entries == []
    assert gone(user, state)
    assert sorted(path.name for path in (place.directory / "runtimes" / "here").iterdir()) == [
        "content",
        "runtime.json",
    ]


@pytest.mark.parametrize(
    "planted",
    [
        "runtimes/here is a link",
        *(
            pytest.param(planted, marks=pytest.mark.slow)
            for planted in ("journal is a link", "lock is a fifo", "records are links", "over is forged")
        ),
    ],
)
async def test_what_a_keeper_left_leads_root_nowhere(mine: Kept, tmp_path: Path, planted: str) -> None:
    """Whatever it has put there by then, another's files are neither read nor changed, and the service goes on."""
    house, user, directory = mine.house, mine.user, mine.place.directory
    assert (await run(house, "print('recorded')", execution_id="e")).outcome is Outcome.OK
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "content").mkdir(parents=True)
    (elsewhere / "content" / "secret").write_text("secret")
    (elsewhere / "lock").write_text(json.dumps({"pid": os.getpid()}))
    before = {path: path.stat().st_mtime_ns for path in elsewhere.rglob("*")}
    match planted:
        case "journal is a link":
            (directory / "journal").rename(directory / "was")
            (directory / "journal").symlink_to(elsewhere)
        case "lock is a fifo":
            (directory / "journal" / "lock").unlink()
            os.mkfifo(directory / "journal" / "lock")
        case "records are links":
            records = [path for path in (directory / "journal").rglob("*") if path.is_file()]
            for path in records:
                if path.name != "lock":
                    path.unlink()
                    path.symlink_to(elsewhere / "content" / "secret")
        case "runtimes/here is a link":
            kill(user.pid)
            await ended(user.pid)
            await until(partial(let_go, mine))
            shutil.rmtree(directory / "runtimes" / "here")
            (directory / "runtimes" / "here").symlink_to(elsewhere)
        case _:
            (directory / "over").touch()
            os.chown(directory / "over", user.uid, user.uid)
    if planted != "runtimes/here is a link":
        kill(user.pid)
    await ended(user.pid)
    for asked in (
        house.get_execution("runtimes/here/sessions/main/executions/e"),
        house.get_runtime("runtimes/here"),
        house.list_files("runtimes/here"),
    ):
        with contextlib.suppress(CellhouseError, OSError):
            assert "secret" not in str(await within(asked))
    await house.create_runtime(runtime_id="next")
    assert (await run(house, "1", session="runtimes/next/sessions/main")).result == "1"
    assert {path: path.stat().st_mtime_ns for path in elsewhere.rglob("*")} == before
    assert all(path.stat().st_uid == 0 for path in before)


async def test_what_only_root_can_read_is_told_with_the_remedy(
    template: Template, environment: Environment, tmp_path: Path
) -> None:
    closed = tmp_path / "environments"
    closed.mkdir(mode=0o700)
    (closed / environment.name).symlink_to(environment.prefix)
    own = settings(tmp_path / "state", environment, environments=(closed,))
    async with KeptHouse(own, template=template) as house:
        with pytest.raises(FailedPrecondition, match=r"can't read .*chmod -R a\+rX"):
            await house.create_runtime(RuntimeSpec(environment=environment.name))
        assert not list((tmp_path / "state" / "keepers").iterdir())
