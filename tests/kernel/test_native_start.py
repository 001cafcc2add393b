"""Native kernels that start, and all the ways in which one doesn't."""

import asyncio
import os
import signal

import pytest

from cellhouse.kernel import KernelInfo, KernelStartFailed, NativeKernel, life
from tests.kernel.native_support import LIMITS, Natives, shown
from tests.kernel.support import PlainProcess, run, until, until_died


async def failure(natives: Natives, first: str = "", *, seconds: float = 60.0) -> KernelStartFailed:
    """How the start failed; by then nothing of it is left."""
    kernel = natives.make(first, start_seconds=seconds)
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(KernelStartFailed) as caught:
        await kernel.start()
    assert all(process.exited.done() for process in natives.processes)
    assert set(os.listdir("/proc/self/fd")) <= before
    return caught.value


async def test_it_says_what_it_is(natives: Natives) -> None:
    kernel = await natives.start()
    assert kernel.info == KernelInfo("peer", "python", "3.11.0", "5.4", "hi")


async def test_it_is_told_the_nonce_and_the_limits(natives: Natives) -> None:
    kernel = natives.make(isolate=True)
    await kernel.start()
    items = await run(kernel, "write(1, repr(sorted(peer.start.items())).encode())")
    (text,) = [item[2] for item in shown(items) if isinstance(item, tuple) and len(item) == 3]
    limits = {"bundleBytes": LIMITS.bundle_bytes, "textChars": LIMITS.text_chars}
    assert text.decode() == repr([("isolate", True), ("limits", limits), ("nonce", kernel._nonce.hex())])


async def test_it_gets_the_write_ends_and_nobody_else_keeps_them(natives: Natives) -> None:
    kernel = await natives.start()
    read_ends = {
        fd: os.readlink(f"/proc/self/fd/{fd}") for fd in (pipe.fd for pipe in kernel._pairs[0].pipes)
    }
    theirs = {os.readlink(f"/proc/{natives.processes[0].pid}/fd/{fd}") for fd in (1, 2)}
    assert theirs == set(read_ends.values())
    ours = {int(fd) for fd in os.listdir("/proc/self/fd") if _target(fd) in theirs}
    assert ours == set(read_ends)


def _target(fd: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except FileNotFoundError:  # the one that the listing was read through
        return ""


async def test_what_it_wrote_while_starting_is_its_log_and_nobodys_output(natives: Natives) -> None:
    kernel = await natives.start("print('warning', flush=True)")
    items = await run(kernel, "write(1, b'output')")
    assert [item[2] for item in shown(items) if isinstance(item, tuple) and len(item) == 3] == [b"output"]


async def test_a_program_that_is_not_there(natives: Natives) -> None:
    with pytest.raises(KernelStartFailed, match=r"kernel 'peer' could not be started: .*No such file"):
        await natives.make(argv=["/none"]).start()


async def test_one_that_dies_at_once_gives_its_log_and_status(natives: Natives) -> None:
    error = await failure(natives, "os.write(1, b'to stdout'); os.write(2, b'to stderr'); os._exit(7)")
    assert str(error) == "kernel 'peer' ended with status 7 before it answered"
    assert (error.exit_status, error.signal) == (7, None)
    assert "to stdout" in error.log
    assert "to stderr" in error.log


async def test_one_that_is_killed_at_once_gives_its_signal(natives: Natives) -> None:
    error = await failure(natives, "os.kill(os.getpid(), signal.SIGABRT)")
    assert str(error) == "kernel 'peer' ended with signal 6 before it answered"
    assert (error.exit_status, error.signal) == (None, 6)


async def test_one_that_never_answers(natives: Natives) -> None:
    error = await failure(natives, "os.write(1, b'I say nothing'); wait_for_ever()", seconds=0.7)
    assert str(error) == "kernel 'peer' did not answer within 0.7 s"
    assert "I say nothing" in error.log


async def test_the_log_keeps_its_end(natives: Natives) -> None:
    error = await failure(natives, "write(2, b'line\\n' * 3000 + b'the last one'); os._exit(1)")
    assert len(error.log) == 8192
    assert error.log.endswith("line\nthe last one")


@pytest.mark.parametrize(
    ("first", "said"),
    [
        ("peer.socket.close()", "the kernel closed its channel"),
        ("peer.socket.sendall(bytes(100))", "a frame's header that is not JSON"),
        ("peer.socket.sendall(b'\\xff' * 100)", "a header of 4294967295 bytes, limit 65536"),
    ],
)
async def test_one_that_can_not_be_understood(
    natives: Natives, monkeypatch: pytest.MonkeyPatch, first: str, said: str
) -> None:
    monkeypatch.setattr(life, "CLOSE_GRACE_SECONDS", 0.01)
    error = await failure(natives, f"{first}; wait_for_ever()")
    assert "kernel 'peer' failed while starting" in str(error)
    assert said in str(error)


async def test_one_that_takes_no_start_because_it_dies(natives: Natives) -> None:
    """It closed the socket before the start was sent: its end is the better word."""

    async def launch(sock: int, stdout: int, stderr: int) -> PlainProcess:
        os.close(os.dup(sock))
        command = ["/bin/sh", "-c", "echo no python here; exit 3"]
        process = PlainProcess(command, {}, natives._directory, output=(stdout, stderr))
        natives.processes.append(process)
        return process

    kernel = NativeKernel("sh", launch, limits=LIMITS)
    natives.made.append(kernel)
    with pytest.raises(KernelStartFailed, match="kernel 'sh' ended with status 3") as caught:
        await kernel.start()
    assert caught.value.log == "no python here\n"


async def test_one_whose_launch_fails_leaves_nothing(natives: Natives) -> None:
    async def launch(sock: int, stdout: int, stderr: int) -> PlainProcess:
        raise KernelStartFailed("no walls")

    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(KernelStartFailed, match="no walls"):
        await NativeKernel("x", launch, limits=LIMITS).start()
    assert set(os.listdir("/proc/self/fd")) <= before


async def test_a_start_that_is_cancelled_leaves_nothing(natives: Natives) -> None:
    starting = asyncio.create_task(natives.make("wait_for_ever()").start())
    await until(lambda: natives.processes)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert natives.processes[0].exited.done()


async def test_a_kernel_that_dies_right_after_its_start_is_a_death(natives: Natives) -> None:
    kernel = await natives.start()
    natives.processes[0].signal(signal.SIGTERM)
    _, died = await until_died(kernel)
    assert (died.exit_status, died.signal) == (None, signal.SIGTERM)


async def test_closing_one_that_never_started_is_nothing(natives: Natives) -> None:
    kernel = natives.make()
    kernel.drain()
    await kernel.close()
    kernel.kill()
    kernel.interrupt()
    assert kernel.cpu_seconds() is None
    assert await kernel.receive(0) is None


async def test_a_reply_to_somebody_else_is_no_answer(natives: Natives) -> None:
    first = (
        "peer.socket.sendall(peer.frame('kernel_info_reply', {'banner': 'no'}, channel='shell', parent='x'))"
    )
    kernel = await natives.start(first)
    assert kernel.info.banner == "hi"
