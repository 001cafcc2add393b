"""The service's side of a zygote: what it is told, what it forks, and that it is not believed."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cellhouse.kernel import KernelProcess
from cellhouse.runtime import zygote as zygote_module
from cellhouse.runtime.zygote import Zygote, ZygoteFailed
from cellhouse.sandbox import Sandbox
from tests.runtime.support import until, within
from tests.runtime.zygotes import Ends, open_sandbox, stand_in
from tests.sandbox.support import PYTHON


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    return stand_in(tmp_path, monkeypatch)


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[Sandbox]:
    async with open_sandbox(tmp_path / "state") as made:
        yield made


async def started(sandbox: Sandbox, env: dict[str, str], *modules: str) -> Zygote:
    made = Zygote(sandbox, modules)
    await within(made.start(str(PYTHON), env))
    return made


async def fork(zygote: Zygote, sandbox: Sandbox) -> tuple[KernelProcess, Ends]:
    ends = Ends()
    try:
        process = await within(zygote.fork({"MINE": "1"}, str(sandbox.content), ends.given))
    except BaseException:
        ends.ours.close()
        raise
    finally:
        ends.give()
    return process, ends


async def test_it_tells_what_it_has_and_what_not(sandbox: Sandbox, env: dict[str, str]) -> None:
    zygote = await started(sandbox, env, "well", "nowhere", "raises", "leaves", "talks")
    await within(zygote.settled.wait())
    assert zygote.modules == ("well", "talks")
    assert {name: why.partition(":")[0] for name, why in zygote.missing.items()} == {
        "nowhere": "ModuleNotFoundError",
        "raises": "ValueError",
        "leaves": "SystemExit",
    }
    await until(zygote.said)
    assert zygote.said() == "hello from an import"
    await zygote.close()


async def test_its_sessions_have_what_it_has_and_outlive_it(sandbox: Sandbox, env: dict[str, str]) -> None:
    zygote = await started(sandbox, env, "well")
    await within(zygote.settled.wait())
    first, ends = await fork(zygote, sandbox)
    second, others = await fork(zygote, sandbox)
    assert "well" in await within(ends.modules())
    await zygote.close()
    assert zygote.ended.is_set()
    assert "well" in await within(others.modules())
    ends.ours.close()
    assert (await within(first.exited)).exit_status == 7
    second.signal(signal.SIGTERM, True)
    assert (await within(second.exited)).signal == signal.SIGTERM
    others.ours.close()
    with pytest.raises(ZygoteFailed, match="it was closed"):
        await fork(zygote, sandbox)


@pytest.mark.parametrize(
    ("module", "why"),
    [
        ("dies", "it closed its socket while it imported dies; it said: no more"),
        ("threads", "2 threads run in it"),
    ],
)
async def test_an_import_that_ends_it_is_named(
    sandbox: Sandbox, env: dict[str, str], module: str, why: str
) -> None:
    zygote = await started(sandbox, env, "well", module)
    await within(zygote.ended.wait())
    failure = zygote.failure()
    assert failure.module == module
    if module == "dies":
        assert str(failure) in (why, why.replace("it closed its socket", "it ended"))
    else:
        assert why in str(failure)
    await zygote.close()


async def test_one_that_hangs_is_given_up(
    sandbox: Sandbox, env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    zygote = await started(sandbox, env, "hangs")
    await until(lambda: zygote._importing)
    monkeypatch.setattr(zygote_module, "FORK_SECONDS", 0.05)
    with pytest.raises(ZygoteFailed, match=r"did not fork within 0\.05 s while it imported hangs") as caught:
        await fork(zygote, sandbox)
    assert caught.value.module == "hangs"
    assert zygote.ended.is_set()
    monkeypatch.undo()
    await zygote.close()


async def test_a_fork_that_fails_is_no_end(sandbox: Sandbox, env: dict[str, str]) -> None:
    zygote = await started(sandbox, env)
    ends = Ends()
    with pytest.raises(ZygoteFailed, match="FileNotFoundError"):
        await within(zygote.fork({}, "/no/such/directory", ends.given))
    ends.give()
    ends.ours.close()
    process, ends = await fork(zygote, sandbox)
    ends.ours.close()
    await within(process.exited)
    await zygote.close()


FAKE = """
import json, os, signal, socket, sys
control = socket.socket(fileno=int(sys.argv[1]))
def say(message, *descriptors):
    data = message if isinstance(message, bytes) else json.dumps(message).encode()
    socket.send_fds(control, [data], descriptors) if descriptors else control.send(data)
ready = {"type": "ready", "modules": [], "missing": {}}
"""


@pytest.mark.parametrize(
    "says",
    [
        "b'garbage'",
        "b'[' * 60000",
        "b'x' * 70000",
        "[]",
        "{}",
        "{'type': 'dance'}",
        "{'type': 'ready'}",
        "{'type': 'ready', 'modules': 3, 'missing': {}}",
        "{'type': 'importing', 'module': 'unheard of'}",
        "{'type': 'forked', 'pid': 1}",
        "ready, 0",
    ],
)
async def test_what_it_would_never_say_is_its_end(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str
) -> None:
    env = stand_in(tmp_path, monkeypatch, program=f"{FAKE}say({says})\nsignal.pause()")
    with pytest.raises(ZygoteFailed, match="broke the protocol"):
        await started(sandbox, env)


@pytest.mark.parametrize("pid", ["1", "0", "-1", "True", "1 << 40", "'7'", "None"])
async def test_a_number_that_is_none_is_its_end(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pid: str
) -> None:
    script = f"say(ready)\ncontrol.recv(9999)\nsay({{'type': 'forked', 'pid': {pid}}})\nsignal.pause()"
    env = stand_in(tmp_path, monkeypatch, program=FAKE + script)
    zygote = await started(sandbox, env)
    with pytest.raises(ZygoteFailed, match="broke the protocol"):
        await fork(zygote, sandbox)
    await zygote.close()


async def test_the_number_of_anothers_child_is_not_adopted(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = (
        f"say(ready)\ncontrol.recv(9999)\nsay({{'type': 'forked', 'pid': {os.getpid()}}})\nsignal.pause()"
    )
    env = stand_in(tmp_path, monkeypatch, program=FAKE + script)
    zygote = await started(sandbox, env)
    with pytest.raises(ZygoteFailed, match="can't be adopted"):
        await fork(zygote, sandbox)
    assert not zygote.ended.is_set()
    await zygote.close()


async def test_a_start_that_is_given_up_leaves_nothing(sandbox: Sandbox, env: dict[str, str]) -> None:
    zygote = Zygote(sandbox, ())
    starting = asyncio.ensure_future(zygote.start(str(PYTHON), env))
    await until(lambda: zygote._process is not None)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await zygote.close()


async def test_one_that_can_not_be_started_says_so(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = stand_in(tmp_path, monkeypatch, program="import sys; sys.exit('no such luck')")
    with pytest.raises(ZygoteFailed, match=r"no such luck|it ended|closed its socket"):
        await started(sandbox, env)
