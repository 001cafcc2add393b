"""Live kernels: what they say arrives, what they must not do has an end, and so has everything they hold."""

import os
import signal
from collections.abc import Sequence

import pytest

from cellhouse.kernel import KernelGone, KernelItem, Trouble, life
from cellhouse.kernel.inbox import HIGH_BYTES
from tests.kernel.support import (
    Kernels,
    idle_of,
    items_until,
    next_item,
    raw_kernel,
    raw_of,
    run,
    text_of,
    until,
    until_died,
)

DEADLY = [
    signal.SIGSEGV,
    signal.SIGABRT,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
    signal.SIGKILL,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGXCPU,
    signal.SIGRTMIN + 3,
]


def troubles(items: Sequence[KernelItem]) -> list[Trouble]:
    return [item for item in items if isinstance(item, Trouble)]


# what a kernel says


async def test_a_flood_is_held_back_and_arrives_whole(kernels: Kernels) -> None:
    count = 2 * HIGH_BYTES // 1000
    kernel = await kernels.start(raw_kernel("burst_and_exit", COUNT=str(count)))
    kernel.send("shell", "execute_request", {})
    await until(lambda: kernel._inbox.held)
    assert kernel._inbox._bytes < 2 * HIGH_BYTES
    items, _ = await until_died(kernel)
    lines = text_of(items).splitlines()
    assert [int(line[:6]) for line in lines] == list(range(count))


async def test_a_message_that_was_numbered_and_never_came_is_missed(kernels: Kernels) -> None:
    kernel = await kernels.start(raw_kernel("gap"))
    await run(kernel)
    assert kernel.lost_messages() == 2
    assert kernel.lost_messages(take=True) == 2
    assert kernel.lost_messages() == 0


async def test_usage_is_of_the_process(kernels: Kernels) -> None:
    kernel = await kernels.start(raw_kernel("normal"))
    cpu = kernel.cpu_seconds()
    assert cpu is not None
    assert cpu >= 0
    await kernel.close()
    assert kernel.cpu_seconds() is None


# interrupts


async def test_an_interrupt_by_signal(kernels: Kernels) -> None:
    kernel = await kernels.start(raw_kernel("interrupted"))
    msg_id = kernel.send("shell", "execute_request", {})
    items = await items_until(kernel, lambda item: text_of([item]) == "running\n")
    kernel.interrupt()
    items = await items_until(kernel, idle_of(msg_id))
    assert text_of(items) == "signal"


async def test_an_interrupt_by_message(kernels: Kernels) -> None:
    launch = raw_kernel("interrupted", BY="message")
    kernel = kernels.make(type(launch)(launch.argv, launch.env, interrupt_mode="message"))
    await kernel.start()
    msg_id = kernel.send("shell", "execute_request", {})
    await items_until(kernel, lambda item: text_of([item]) == "running\n")
    kernel.interrupt()
    items = await items_until(kernel, idle_of(msg_id))
    assert text_of(items) == "interrupt_request"


# what a kernel must not do


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life, "CLOSE_GRACE_SECONDS", 0.01)


async def test_iopub_closed_is_a_fatal_trouble(kernels: Kernels, short_grace: None) -> None:
    kernel = await kernels.start(raw_kernel("close_iopub"))
    kernel.send("shell", "execute_request", {})
    items = await items_until(kernel, lambda item: isinstance(item, Trouble))
    (trouble,) = troubles(items)
    assert (trouble.reason, trouble.fatal) == ("CHANNEL_CLOSED", True)
    assert trouble.text == "the kernel closed its iopub channel"
    assert text_of(items) == "before\n"
    kernel.kill()
    _, died = await until_died(kernel)
    assert died.signal == signal.SIGKILL


async def test_bytes_that_are_no_zmtp_are_a_fatal_trouble(kernels: Kernels, short_grace: None) -> None:
    kernel = await kernels.start(raw_kernel("garbage"))
    kernel.send("shell", "execute_request", {})
    trouble = await next_item(kernel)
    while not isinstance(trouble, Trouble):
        trouble = await next_item(kernel)
    assert trouble.fatal
    assert "iopub channel: frame flags 0xff do not exist" in trouble.text


@pytest.mark.parametrize(
    ("act", "channel", "size", "limit"),
    [("oversized", "iopub", 129 << 20, 128 << 20), ("oversized_reply", "shell", 130 << 20, 128 << 20)],
)
async def test_a_frame_above_the_limit_is_a_fatal_trouble_with_its_size(
    kernels: Kernels, act: str, channel: str, size: int, limit: int
) -> None:
    kernel = await kernels.start(raw_kernel(act))
    kernel.send("shell", "execute_request", {})
    items = await items_until(kernel, lambda item: isinstance(item, Trouble))
    (trouble,) = troubles(items)
    assert (trouble.reason, trouble.fatal) == ("MESSAGE_SIZE", True)
    assert trouble.metadata == {"sizeBytes": str(size), "limitBytes": str(limit)}
    assert channel in trouble.text


async def test_a_kernel_that_takes_nothing_is_gone(kernels: Kernels) -> None:
    kernel = await kernels.start(raw_kernel("deaf"))
    await run(kernel)
    for _ in range(9):  # 4 MiB each; what may wait is 32
        kernel.send("shell", "execute_request", {"code": "x" * (4 << 20)})
    with pytest.raises(KernelGone, match="does not read its shell channel"):
        kernel.send("shell", "execute_request", {})


async def test_an_unknown_channel_is_closed(kernels: Kernels) -> None:
    kernel = await kernels.start(raw_kernel("normal"))
    with pytest.raises(KernelGone, match="channel heartbeat of kernel 'raw' is closed"):
        kernel.send("heartbeat", "x", {})


# death


@pytest.mark.parametrize(
    "number", DEADLY, ids=lambda number: signal.Signals(number).name if number < 32 else "SIGRTMIN+3"
)
async def test_death_by_each_signal_comes_after_everything_before_it(kernels: Kernels, number: int) -> None:
    kernel = await kernels.start(raw_kernel("by_signal", SIGNAL=str(int(number))))
    kernel.send("shell", "execute_request", {})
    items, died = await until_died(kernel)
    assert text_of(items) == "before\n"
    assert not troubles(items)
    assert (died.exit_status, died.signal) == (None, number)


@pytest.mark.parametrize("count", [1, 100, 1000])
async def test_everything_that_left_the_process_comes_before_its_death(kernels: Kernels, count: int) -> None:
    kernel = await kernels.start(raw_kernel("burst_and_exit", COUNT=str(count)))
    kernel.send("shell", "execute_request", {})
    items, died = await until_died(kernel)
    assert [int(line[:6]) for line in text_of(items).splitlines()] == list(range(count))
    assert raw_of(items, "stdout") == b"o" * 30_000
    assert raw_of(items, "stderr") == b"e" * 30_000
    assert (died.exit_status, died.signal) == (9, None)
    assert not troubles(items)


async def test_everything_is_there_also_where_the_death_is_seen_first(kernels: Kernels) -> None:
    """The loop is busy while the process writes and ends: its end and its words are then ready at once."""
    kernel = await kernels.start(raw_kernel("burst_and_exit", COUNT="20"))
    kernel.send("shell", "execute_request", {})
    os.waitid(os.P_PID, kernels.processes[0].pid, os.WEXITED | os.WNOWAIT)
    items, _ = await until_died(kernel)
    assert [int(line[:6]) for line in text_of(items).splitlines()] == list(range(20))
    assert raw_of(items, "stdout") == b"o" * 30_000
    assert raw_of(items, "stderr") == b"e" * 30_000


async def test_a_death_is_told_also_where_a_child_lives_on_with_all_it_held(kernels: Kernels) -> None:
    kernel = await kernels.start(raw_kernel("orphan"))
    kernel.send("shell", "execute_request", {})
    items, died = await until_died(kernel)
    assert died.signal == signal.SIGSEGV
    assert text_of(items) == "parent\n"
    assert await kernel.receive(0) is None


async def test_channels_that_close_before_the_process_ends_are_no_trouble(kernels: Kernels) -> None:
    kernel = await kernels.start(raw_kernel("close_shell_and_exit"))
    kernel.send("shell", "execute_request", {})
    items, died = await until_died(kernel)
    assert died.exit_status == 5
    assert text_of(items) == "still here\n"
    assert not troubles(items)


async def test_after_its_death_nothing_follows_and_nothing_is_taken(kernels: Kernels) -> None:
    kernel = await kernels.start(raw_kernel("normal"))
    kernel.kill()
    await until_died(kernel)
    assert await kernel.receive(0) is None
    for channel in ("shell", "control", "stdin"):
        with pytest.raises(KernelGone):
            kernel.send(channel, "x", {})
    kernel.interrupt()
    kernel.kill()
    kernel.drain()
    assert kernel.cpu_seconds() is None


async def test_closing_one_that_never_started_is_nothing(kernels: Kernels) -> None:
    kernel = kernels.make(raw_kernel("normal"))
    await kernel.close()
    kernel.kill()
    kernel.interrupt()
    assert kernel.cpu_seconds() is None
