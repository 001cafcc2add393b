"""Promise 7: the walls are the ones you asked for."""

import json
import os
import socket
from pathlib import Path

import pytest

from cellhouse import House, Settings
from cellhouse.environments import Environment
from cellhouse.model import CallReason, FailedPrecondition, RuntimeSpec
from cellhouse.sandbox import bubblewrap
from cellhouse.sandbox.base import IN_FORCE, unavailable
from tests.promises.support import Caller

pytestmark = pytest.mark.asyncio(loop_scope="module")

LOOK = """
import json, os, socket
def reachable(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        return True
    except OSError:
        return False
def writable(path):
    try:
        open(os.path.join(path, "x"), "w").close()
        return True
    except OSError:
        return False
print(json.dumps({{
    "reachable": reachable({port}),
    "secret file": os.path.exists({secret!r}),
    "state": os.path.exists({state!r}),
    "secret variable": "CELLHOUSE_TEST_SECRET" in os.environ,
    "processes": sorted(int(name) for name in os.listdir("/proc") if name.isdigit()),
    "host process": os.path.exists("/proc/{pid}"),
    "writable": [path for path in ("/", "/usr", "/etc", "/bin", {prefix!r}) if writable(path)],
    "content": os.getcwd(),
    "uid": os.getuid(),
    "interfaces": [line.split(":")[0].strip() for line in open("/proc/net/dev").read().splitlines()[2:]],
}}))
"""


async def test_what_is_inside_sees_nothing_of_the_host(
    caller: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: Environment
) -> None:
    (tmp_path / "secret").write_text("precious")
    monkeypatch.setenv("CELLHOUSE_TEST_SECRET", "precious")
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = LOOK.format(
            port=server.getsockname()[1],
            secret=str(tmp_path / "secret"),
            state=str(caller.house.state_dir),
            pid=os.getpid(),
            prefix=str(environment.prefix),
        )
        result = await caller.in_session("fresh").run(code)
    assert result.execution_error is None, result.execution_error
    seen = json.loads(result.stdout)
    assert seen["reachable"] is False
    assert seen["secret file"] is seen["state"] is seen["secret variable"] is False
    assert os.getpid() not in seen["processes"]
    assert max(seen["processes"]) < 1000
    assert seen["writable"] == []
    assert (seen["content"], seen["interfaces"]) == ("/content", ["lo"])
    await caller.house.delete_session(caller.in_session("fresh").session)


async def test_a_runtime_says_which_walls_stand(caller: Caller) -> None:
    isolation = caller.house.get_runtime(caller.runtime).isolation
    assert isolation is not None
    assert isolation.level == "bubblewrap"
    standing = {layer.name for layer in isolation.layers if layer.status == IN_FORCE}
    assert {"mount", "pid", "network", "user", "ipc"} <= standing
    # And of each that does not stand, why.
    assert all(layer.detail for layer in isolation.layers if layer.status != IN_FORCE)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a runtime a uid")
@pytest.mark.parametrize("kernel", ["native", "python3"])
async def test_run_by_root_each_runtime_is_somebody_else_on_the_host(caller: Caller, kernel: str) -> None:
    uids = set()
    runtimes = [await caller.house.create_runtime(RuntimeSpec(kernel=kernel)) for _ in range(2)]
    for runtime in runtimes:
        assert runtime.isolation is not None
        layer = next(layer for layer in runtime.isolation.layers if layer.name == "uid")
        assert layer.status == IN_FORCE
        there = Caller(caller.house, runtime.name, f"{runtime.name}/sessions/main")
        await caller.house.put_file(runtime.name, "given", [b"given"])
        result = await there.run(
            "import os; open('mine', 'w').close(); print(open('given').read()); os.unlink('given'); "
            "n = open('/dev/stdout', 'w').write('again\\n')"
        )
        assert result.execution_error is None, result.execution_error
        assert sorted(result.stdout.split()) == ["again", "given"]
        uid = (caller.house.state_dir / runtime.name / "content" / "mine").stat().st_uid
        assert layer.detail.startswith(f"uid {uid} and gid {uid} of the host are this runtime's alone")
        uids.add(uid)
    for runtime in runtimes:
        await caller.house.delete_runtime(runtime.name)
    assert len(uids - {0}) == 2


@pytest.mark.parametrize("level", ["microvm", "Bubblewrap", "no-such"])
async def test_walls_that_can_not_be_had_are_refused(caller: Caller, level: str) -> None:
    before = [runtime.name for runtime in caller.house.list_runtimes()]
    with pytest.raises(FailedPrecondition) as refused:
        await caller.house.create_runtime(RuntimeSpec(isolation=level))
    error = refused.value
    assert (error.reason, error.metadata["isolation"]) == (CallReason.ISOLATION_UNAVAILABLE, level)
    assert level in error.message
    assert [runtime.name for runtime in caller.house.list_runtimes()] == before


async def test_nothing_falls_back_to_less(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default walls can't be had here, say: then there is no runtime, and none without walls in its stead."""

    def nowhere(_: object) -> None:
        raise unavailable("isolation 'bubblewrap': there is no bwrap here; install it", level="bubblewrap")

    monkeypatch.setattr(bubblewrap, "find_bwrap", nowhere)
    for spec in (RuntimeSpec(), RuntimeSpec(isolation="bubblewrap")):
        with pytest.raises(FailedPrecondition, match="there is no bwrap here; install it"):
            await caller.house.create_runtime(spec)
    # Without walls it has to be asked for by name, and says what it is.
    runtime = await caller.house.create_runtime(RuntimeSpec(isolation="none"))
    assert runtime.isolation is not None
    assert runtime.isolation.level == "none"
    assert [layer.name for layer in runtime.isolation.layers if layer.status == IN_FORCE] == []
    await caller.house.delete_runtime(runtime.name)


async def test_runtimes_see_nothing_of_each_other(caller: Caller) -> None:
    other = await caller.house.create_runtime()
    await caller.run("open('mine.txt', 'w').write('mine')")
    theirs = Caller(caller.house, other.name, f"{other.name}/sessions/main")
    seen = await theirs.run("import os; sorted(os.listdir('/content')), os.path.exists('/content/mine.txt')")
    assert seen.result == "([], False)"
    await caller.house.delete_runtime(other.name)
    await caller.run("import os; os.unlink('mine.txt')")


async def test_a_runtime_tells_each_limit_and_its_network_policy_as_they_are(
    environment: Environment, tmp_path: Path
) -> None:
    settings = Settings(state_dir=tmp_path / "state", environments=(environment.prefix.parent,))
    async with House(settings=settings) as house:
        walled = await house.create_runtime(RuntimeSpec())
        bare = await house.create_runtime(RuntimeSpec(isolation="none"))
    assert (walled.network_policy, bare.network_policy) == ("none", "host")
    assert [limit.name for limit in walled.limits or ()] == [
        "memory",
        "cpus",
        "processes",
        "content",
        "openFiles",
        "fileSize",
    ]
    assert [limit.value for limit in walled.limits or ()] == [
        2 * 2**30,
        min(2, len(os.sched_getaffinity(0))),
        256,
        4 * 2**30,
        1_024,
        4 * 2**30,
    ]
    held = {limit.name: str(limit.enforcement) for limit in walled.limits or ()}
    assert held["openFiles"] == held["fileSize"] == "exact"
    assert "none" not in (held["memory"], held["processes"], held["content"])
    assert all(limit.detail for limit in walled.limits or ())
