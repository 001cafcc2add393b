"""Kernels that start, and all the ways in which one doesn't."""

import asyncio
import stat
from pathlib import Path

import pytest

from cellhouse.kernel import KernelStartFailed, Launch, life
from cellhouse.messages import RawText
from tests.kernel.support import (
    Kernels,
    PlainProcess,
    next_item,
    raw_kernel,
    run,
    text_of,
    until,
    until_died,
)


async def failure(kernels: Kernels, launch: Launch, *, seconds: float = 60.0) -> KernelStartFailed:
    """How the start failed; by then nothing of it is left."""
    kernel = kernels.make(launch, start_seconds=seconds)
    with pytest.raises(KernelStartFailed) as caught:
        await kernel.start()
    assert all(process.exited.done() for process in kernels.processes)
    assert not kernels.kernel_dir(1).exists()
    return caught.value


async def test_its_directory_is_private_and_goes_with_it(kernels: Kernels) -> None:
    kernel = await kernels.start(raw_kernel("normal"))
    directory = kernels.kernel_dir(1)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE((directory / "connection.json").stat().st_mode) & 0o077 == 0
    await kernel.close()
    assert not directory.exists()
    await kernel.close()


async def test_whatever_a_kernel_left_in_its_directory_goes_with_it(kernels: Kernels) -> None:
    kernel = await kernels.start(raw_kernel("litter"))
    await kernel.close()
    assert not kernels.kernel_dir(1).exists()


async def test_two_kernels_never_meet(kernels: Kernels) -> None:
    first = await kernels.start(raw_kernel("normal"))
    second = await kernels.start(raw_kernel("normal"))
    assert text_of(await run(second)) == text_of(await run(first)) == "hello\n"


async def test_a_program_that_is_not_there(kernels: Kernels, tmp_path: Path) -> None:
    error = await failure(kernels, Launch([str(tmp_path / "none"), "{connection_file}"], {}, name="gone"))
    assert "kernel 'gone' could not be started" in str(error)
    assert "No such file" in str(error)


async def test_a_directory_that_is_there_already(kernels: Kernels) -> None:
    kernels.kernel_dir(1).mkdir()
    with pytest.raises(KernelStartFailed, match=r"could not be started: .*exists"):
        await kernels.make(raw_kernel("normal")).start()


async def test_one_that_dies_at_once_gives_its_log_and_status(kernels: Kernels) -> None:
    argv = ["/bin/sh", "-c", "echo to stdout; echo to stderr >&2; exit 7"]
    error = await failure(kernels, Launch(argv, {}, name="sh"))
    assert str(error) == "kernel 'sh' ended with status 7 before it answered"
    assert (error.exit_status, error.signal) == (7, None)
    assert "to stdout\n" in error.log
    assert "to stderr\n" in error.log


async def test_one_that_is_killed_at_once_gives_its_signal(kernels: Kernels) -> None:
    error = await failure(kernels, Launch(["/bin/sh", "-c", "kill -ABRT $$"], {}, name="sh"))
    assert str(error) == "kernel 'sh' ended with signal 6 before it answered"
    assert (error.exit_status, error.signal) == (None, 6)


async def test_an_interpreter_without_ipykernel_says_so_in_its_log(kernels: Kernels) -> None:
    argv = [str(Path("/proc/self/exe").resolve()), "-I", "-S", "-m", "ipykernel_launcher"]
    error = await failure(kernels, Launch(argv, {}))
    assert "No module named ipykernel_launcher" in error.log


async def test_the_log_keeps_its_end(kernels: Kernels) -> None:
    script = "i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done; exit 1"
    error = await failure(kernels, Launch(["/bin/sh", "-c", script], {}))
    assert len(error.log) == 8192
    assert error.log.endswith("line 2999\n")


@pytest.mark.parametrize(
    ("act", "said"),
    [("mute", "I say nothing"), ("no_handshake", ""), ("no_sockets", "not today")],
)
async def test_one_that_never_answers(kernels: Kernels, act: str, said: str) -> None:
    error = await failure(kernels, raw_kernel(act), seconds=0.7)
    assert str(error) == "kernel 'raw' did not answer within 0.7 s"
    assert said in error.log
    assert (error.exit_status, error.signal) == (None, None)


async def test_one_that_signs_with_another_key_never_answers_and_that_is_said(kernels: Kernels) -> None:
    error = await failure(kernels, raw_kernel("wrong_signature"), seconds=0.7)
    assert "did not answer within 0.7 s" in str(error)
    assert "wrong signature" in str(error)


async def test_one_that_hangs_up_and_lives_on(kernels: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life, "CLOSE_GRACE_SECONDS", 0.01)
    error = await failure(kernels, raw_kernel("hang_up"))
    assert str(error) == "kernel 'raw', channel shell: the peer closed the connection"


async def test_one_that_hangs_up_because_it_dies(kernels: Kernels) -> None:
    error = await failure(kernels, raw_kernel("hang_up_and_die"))
    assert str(error) == "kernel 'raw' ended with status 3 before it answered"
    assert "something broke" in error.log


@pytest.mark.parametrize(
    ("act", "name"),
    [("link", "s-1"), ("link_to_socket", "s-1"), ("file", "s-1"), ("directory", "s-2")],
)
async def test_something_else_where_a_socket_belongs(kernels: Kernels, act: str, name: str) -> None:
    """A link above all: the client of a kernel must not be led elsewhere."""
    error = await failure(kernels, raw_kernel(act))
    assert str(error) == f"kernel 'raw' put something else where its socket {name} belongs"


async def test_a_start_that_is_cancelled_leaves_nothing(kernels: Kernels) -> None:
    starting = asyncio.create_task(kernels.make(raw_kernel("mute")).start())
    await until((kernels.kernel_dir(1) / "s-4").exists)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert kernels.processes[0].exited.done()
    assert not kernels.kernel_dir(1).exists()


async def test_what_it_wrote_while_starting_costs_no_message(kernels: Kernels) -> None:
    """Text between its first messages once made the client throw those away, and ask again a second later."""
    kernel = await kernels.start(raw_kernel("noisy_start"))
    assert kernel.info.implementation == "raw"


async def test_a_kernel_that_dies_right_after_its_start_is_a_death(kernels: Kernels) -> None:
    kernel = await kernels.start(raw_kernel("normal"))
    assert isinstance(kernels.processes[0], PlainProcess)
    kernels.processes[0].signal(15)
    _, died = await until_died(kernel)
    assert (died.exit_status, died.signal) == (None, 15)


async def test_raw_text_is_an_item(kernels: Kernels) -> None:
    kernel = await kernels.start(raw_kernel("burst_and_exit", COUNT="0"))
    kernel.send("shell", "execute_request", {})
    item = await next_item(kernel)
    while not isinstance(item, RawText):
        item = await next_item(kernel)
    assert set(item.data) in ({ord("o")}, {ord("e")})
