"""A supervisor that is no longer ours: whatever it says, the service lives on, and nothing of it is believed."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from cellhouse.model import FailedPrecondition
from cellhouse.sandbox import ProcessExit, SandboxGone, SpawnFailed, create_sandbox
from cellhouse.sandbox.supervised import SupervisedSandbox
from tests.sandbox.support import SECONDS, descriptors, ended, hush, spec, until

# Greets as it should, then does as it is told by the test.
FAKE = """
import array, ctypes, json, os, signal, socket, sys

control = socket.socket(fileno=int(sys.argv[1]))

def say(message, *descriptors):
    data = message if isinstance(message, bytes) else json.dumps(message).encode()
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    control.sendmsg([data], rights)

def hear():
    data, fds, _, _ = socket.recv_fds(control, 70000, 2)
    if not data:
        os._exit(0)
    return json.loads(data), fds

def child(dies_with_us=True):
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        if dies_with_us:
            ctypes.CDLL(None).prctl(1, 9)
            if os.getppid() != parent:
                os._exit(0)
        control.close()
        signal.pause()
        os._exit(0)
    return os.pidfd_open(pid)

me = os.pidfd_open(os.getpid())
exited = {"type": "exited", "cpuSeconds": 0.5, "peakMemoryBytes": 1000}
"""
GREET = "say({'type': 'ready', 'pid': os.getpid()}, me)\nrequest, fds = hear()\nid = request['id']\n"
WAIT = "\nwhile True:\n    hear()\n"


def made(level: str, directory: Path, script: str) -> SupervisedSandbox:
    supervisor = directory / "inside" / "init.py"
    supervisor.parent.mkdir()
    supervisor.write_text(FAKE + script + WAIT)
    sandbox = create_sandbox(level, spec(directory / "state", supervisor=supervisor))
    assert isinstance(sandbox, SupervisedSandbox)
    return sandbox


@pytest.mark.parametrize(
    "says",
    [
        "b'\\x00\\xff garbage'",
        "b'[' * 60000",
        "b'9' * 60000",
        "b'null'",
        "[1]",
        "{}",
        "{'type': 'spawned'}",
        "{'type': 'spawned', 'id': id}",
        "{'type': 'spawned', 'id': 7}, me",
        "{'type': 'spawned', 'id': 'another'}, child()",
        "{'type': 'spawned', 'id': id}, os.open('/dev/null', os.O_RDONLY)",
        "{'type': 'spawned', 'id': id}, *fds",
        "{'type': 'spawned', 'id': id}, control.fileno()",
        "{'type': 'spawned', 'id': id}, me",  # no child of its own
        "{'type': 'spawned', 'id': id}, child(), child()",
        "{'type': 'spawned', 'id': id}, *([me] * 200)",
        "{'type': 'ready', 'pid': 1}, me",
        "{'type': 'failed', 'id': 'another', 'error': 'x'}",
        "{'type': 'failed', 'id': id, 'error': 7}",
        "{'type': 'failed', 'id': id, 'error': 'x'}, me",
        "{'type': 'failed', 'id': id, 'error': 'x' * 20000}",
        "{**exited, 'id': 'another', 'status': 0}",
        "{**exited, 'id': id, 'status': 0}",
        "{'type': 'failed', 'id': id, 'error': 'x' * 70000}",
    ],
)
async def test_what_it_would_never_say_ends_the_sandbox(tmp_path: Path, says: str) -> None:
    sandbox = made("none", tmp_path, f"{GREET}say({says})")
    before = descriptors()
    async with sandbox:
        with pytest.raises(SandboxGone, match="broke the protocol"):
            await sandbox.spawn(["/bin/true"], env={}, cwd="/")
        assert "broke the protocol" in sandbox.lost.result().text
        with pytest.raises(SandboxGone, match="broke the protocol"):
            await sandbox.spawn(["/bin/true"], env={}, cwd="/")
    await until(lambda: descriptors() == before)  # a stranger's descriptors are closed by another thread


@pytest.mark.parametrize(
    "says",
    [
        "{**exited, 'id': id}",
        "{**exited, 'id': id, 'status': 0, 'signal': 9}",
        "{**exited, 'id': id, 'status': 256}",
        "{**exited, 'id': id, 'status': -1}",
        "{**exited, 'id': id, 'status': True}",
        "{**exited, 'id': id, 'status': 1.0}",
        "{**exited, 'id': id, 'signal': 0}",
        "{**exited, 'id': id, 'signal': 1000}",
        "{**exited, 'id': id, 'status': 0, 'cpuSeconds': float('nan')}",
        "{**exited, 'id': id, 'status': 0, 'cpuSeconds': float('inf')}",
        "{**exited, 'id': id, 'status': 0, 'cpuSeconds': 10 ** 400}",
        "{**exited, 'id': id, 'status': 0, 'peakMemoryBytes': 1 << 60}",
        "{**exited, 'id': id, 'status': 0, 'peakMemoryBytes': None}",
        "{**exited, 'id': id, 'status': 0})\nsay({**exited, 'id': id, 'status': 0}",
    ],
)
async def test_an_end_that_can_not_be_ends_the_sandbox(tmp_path: Path, says: str) -> None:
    sandbox = made(
        "none", tmp_path, f"{GREET}say({{'type': 'spawned', 'id': id}}, child())\nhear()\nsay({says})"
    )
    async with sandbox:
        process = await sandbox.spawn(["/bin/true"], env={}, cwd="/")
        with pytest.raises(SandboxGone, match="broke the protocol"):
            await sandbox.spawn(["/bin/true"], env={}, cwd="/")
        how = await ended(process)  # it was killed with all the rest
        assert how.signal is None
        hush(process)


@pytest.mark.parametrize(
    "says",
    [
        "say({'type': 'ready', 'pid': os.getpid()})",
        "say({'type': 'ready', 'pid': os.getpid()}, os.open('/dev/null', os.O_RDONLY))",
        "say({'type': 'ready', 'pid': os.getpid()}, child())",
        "say(b'hello', me)",
        "control.close(); signal.pause()",
        "say({'type': 'spawned', 'id': 'x'}, child())",
    ],
)
async def test_a_greeting_that_is_none_fails_the_start(level: str, tmp_path: Path, says: str) -> None:
    sandbox = made("none", tmp_path, says)
    before = descriptors()
    with pytest.raises(FailedPrecondition, match="supervisor"):
        await sandbox.start()
    await until(lambda: descriptors() == before)


async def test_garbage_from_behind_walls(level: str, tmp_path: Path) -> None:
    async with made(level, tmp_path, f"{GREET}say(b'garbage')") as sandbox:
        with pytest.raises(SandboxGone, match="not JSON"):
            await sandbox.spawn(["/bin/true"], env={}, cwd="/")


async def test_it_can_not_have_the_service_signal_the_service(tmp_path: Path) -> None:
    # Without walls its parent is the service itself.
    sandbox = made(
        "none", tmp_path, GREET + "say({'type': 'spawned', 'id': id}, os.pidfd_open(os.getppid()))"
    )
    async with sandbox:
        with pytest.raises(SandboxGone, match="no child of its own"):
            await sandbox.spawn(["/bin/true"], env={}, cwd="/")


async def test_an_end_that_has_not_come_is_not_believed(level: str, tmp_path: Path) -> None:
    script = """
say({'type': 'spawned', 'id': id}, child())
say({**exited, 'id': id, 'status': 0})
request, _ = hear()
say({'type': 'failed', 'id': request['id'], 'error': 'as told'})
"""
    async with made(level, tmp_path, GREET + script) as sandbox:
        process = await sandbox.spawn(["/bin/true"], env={}, cwd="/")
        with pytest.raises(SpawnFailed, match="as told"):
            await sandbox.spawn(["/bin/true"], env={}, cwd="/")
        assert not process.exited.done()
        process.signal(signal.SIGKILL)
        assert (await ended(process)).exit_status == 0  # it explains ends, and this is its word
        hush(process)


async def test_an_end_that_is_never_explained_is_told_as_unknown(level: str, tmp_path: Path) -> None:
    script = "say({'type': 'spawned', 'id': id}, child())\nid = hear()[0]['id']\nsay({'type': 'failed', 'id': id, 'error': 'x'})"
    async with made(level, tmp_path, GREET + script) as sandbox:
        process = await sandbox.spawn(["/bin/true"], env={}, cwd="/")
        process.signal(signal.SIGKILL)
        assert await ended(process) == ProcessExit()
        hush(process)
        with pytest.raises(SpawnFailed):
            await sandbox.spawn(["/bin/true"], env={}, cwd="/")


async def test_an_explanation_that_comes_late_does_no_harm(level: str, tmp_path: Path) -> None:
    script = """
say({'type': 'spawned', 'id': id}, child())
request, _ = hear()
say({**exited, 'id': id, 'status': 0})
say({'type': 'failed', 'id': request['id'], 'error': 'as told'})
"""
    async with made(level, tmp_path, GREET + script) as sandbox:
        process = await sandbox.spawn(["/bin/true"], env={}, cwd="/")
        process.signal(signal.SIGKILL)
        assert await ended(process) == ProcessExit()
        hush(process)
        with pytest.raises(SpawnFailed, match="as told"):
            await sandbox.spawn(["/bin/true"], env={}, cwd="/")
        assert not sandbox.lost.done()


async def test_a_process_that_has_ended_and_gone_before_it_is_told_of(level: str, tmp_path: Path) -> None:
    script = """
pid = os.fork()
if pid == 0:
    os._exit(5)
pidfd = os.pidfd_open(pid)
os.waitpid(pid, 0)
say({'type': 'spawned', 'id': id}, pidfd)
say({**exited, 'id': id, 'status': 5})
"""
    async with made(level, tmp_path, GREET + script) as sandbox:
        process = await sandbox.spawn(["/bin/true"], env={}, cwd="/")
        assert (await ended(process)).exit_status == 5
        assert process.pid == 0
        assert process.usage() is None
        hush(process)


async def test_a_supervisor_that_never_answers_loses_the_sandbox(
    level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cellhouse.sandbox.conversation.SPAWN_SECONDS", 0.05)
    async with made(level, tmp_path, GREET) as sandbox:
        with pytest.raises(SandboxGone, match=r"did not start /bin/true within 0\.05 s"):
            await sandbox.spawn(["/bin/true"], env={}, cwd="/")
        assert sandbox.lost.done()


async def test_requests_wait_for_a_supervisor_that_is_slow_to_read(level: str, tmp_path: Path) -> None:
    script = """
first = [id]
os.read(os.open("/dev/zero", os.O_RDONLY), 1)
while len(first) < 30:
    first.append(hear()[0]["id"])
for id in first:
    say({'type': 'failed', 'id': id, 'error': 'as told'})
"""
    async with made(level, tmp_path, GREET + script) as sandbox:
        large = ["/bin/true", "x" * 60_000]  # thirty of these are more than a socket holds
        spawning = [asyncio.create_task(sandbox.spawn(large, env={}, cwd="/")) for _ in range(30)]
        async with asyncio.timeout(SECONDS):
            results = await asyncio.gather(*spawning, return_exceptions=True)
        assert [str(result) for result in results] == ["as told"] * 30


async def test_closing_while_requests_wait(level: str, tmp_path: Path) -> None:
    sandbox = made(level, tmp_path, GREET + "signal.sigwait([signal.SIGUSR1])")
    before = descriptors()
    async with sandbox:
        large = ["/bin/true", "x" * 60_000]
        spawning = [asyncio.create_task(sandbox.spawn(large, env={}, cwd="/")) for _ in range(30)]
        await asyncio.sleep(0)
        if level == "none":  # it doesn't hear of the end either; what is left to do is to kill it
            os.kill(sandbox._init_pid, signal.SIGKILL)
    async with asyncio.timeout(SECONDS):
        results = await asyncio.gather(*spawning, return_exceptions=True)
    assert all(isinstance(result, SandboxGone) for result in results)
    assert descriptors() == before


async def test_a_supervisor_that_will_not_end_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cellhouse.sandbox.supervised.CLOSE_SECONDS", 0.05)
    script = "say({'type': 'spawned', 'id': id}, child(dies_with_us=False))\nwhile True: signal.pause()"
    async with made("none", tmp_path, GREET + script) as sandbox:
        process = await sandbox.spawn(["/bin/true"], env={}, cwd="/")
    assert process.exited.done()
    hush(process)


async def test_words_that_are_no_text_are_made_text(level: str, tmp_path: Path) -> None:
    script = "say(json.dumps({'type': 'failed', 'id': id, 'error': 'a\\ud800b'}).encode())"
    async with made(level, tmp_path, GREET + script) as sandbox:
        with pytest.raises(SpawnFailed) as caught:
            await sandbox.spawn(["/bin/true"], env={}, cwd="/")
        assert str(caught.value) == "a\\ud800b"


async def test_a_flood_of_words_on_standard_error_is_bounded(level: str, tmp_path: Path) -> None:
    script = "os.write(2, b'x' * 60_000 + b'the end')\nsys.exit(1)"
    with pytest.raises(FailedPrecondition, match="the end") as caught:
        await made(level, tmp_path, script).start()
    assert len(str(caught.value)) < 10_000
