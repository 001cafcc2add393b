"""Live native kernels: everything in its place, each text with its execution, nothing lost."""

import asyncio
import os
from collections.abc import Sequence

import pytest

from cellhouse.kernel import Died, KernelGone, KernelItem, Trouble
from cellhouse.kernel.inbox import HIGH_BYTES
from cellhouse.messages import LongText, Message, RawText
from tests.kernel.native_support import Natives, shown, troubles
from tests.kernel.support import idle_of, items_until, next_item, raw_of, run, until

MIB = 1 << 20


def inside(items: Sequence[KernelItem]) -> list[object]:
    """What came between busy and the reply, without its parent, which must be one and the same."""
    all_of_it = shown(items)
    parents = {item[1] for item in all_of_it if isinstance(item, tuple)}
    assert len(parents) == 1
    (parent,) = parents
    kinds = [item[::2] if len(item) == 3 else item[0] for item in all_of_it if isinstance(item, tuple)]
    assert kinds[0] == "busy"
    assert kinds[-2:] == ["execute_reply", "idle"]
    assert parent
    return list(kinds[1:-2])


# order


async def test_text_and_messages_come_in_the_order_in_which_they_were_made(natives: Natives) -> None:
    kernel = await natives.start()
    items = await run(
        kernel,
        "write(1, b'one'); peer.say('display_data', {}, parent=parent); write(1, b'two'); peer.mark();"
        "write(2, b'three'); peer.mark(); write(1, b'four'); peer.say('x', {}, parent=parent); write(2, b'five')",
    )
    assert inside(items) == [
        ("stdout", b"one"),
        "display_data",
        ("stdout", b"two"),
        ("stderr", b"three"),
        ("stdout", b"four"),
        "x",
        ("stderr", b"five"),
    ]
    assert all(item.printed for item in items if isinstance(item, RawText))


async def test_many_turns_between_text_and_messages(natives: Natives) -> None:
    kernel = await natives.start()
    count = 2000
    items = await run(
        kernel,
        f"for n in range({count}):\n"
        "    write(1 + n % 2, b'%d ' % n)\n"
        "    peer.say('display_data', {'n': n}, parent=parent)",
    )
    expected: list[object] = []
    for number in range(count):
        expected += [(("stdout", "stderr")[number % 2], b"%d " % number), "display_data"]
    assert inside(items) == expected
    assert not troubles(items)


async def test_a_large_message_with_buffers_in_its_place(natives: Natives) -> None:
    kernel = await natives.start()
    items = await run(
        kernel,
        "write(1, b'a'); peer.say('display_data', {'html': 'x' * (3 << 20)}, parent=parent,"
        "buffers=(b'1' * (2 << 20), b'', b'3'), metadata={'m': 1}); write(1, b'b')",
    )
    assert inside(items) == [("stdout", b"a"), "display_data", ("stdout", b"b")]
    (message,) = [item for item in items if isinstance(item, Message) and item.msg_type == "display_data"]
    assert isinstance(message.content["html"], LongText)
    assert [bytes(part) for part in message.buffers] == [b"1" * 2 * MIB, b"", b"3"]
    assert message.metadata == {"m": 1}


async def test_a_hundred_megabytes_of_text_arrive_whole_and_are_held_back(natives: Natives) -> None:
    kernel = await natives.start()
    msg_id = kernel.send(
        "shell",
        "execute_request",
        {"code": "block = bytes(range(256)) * 4096\nfor _ in range(100): write(1, block)"},
    )
    block = bytes(range(256)) * 4096
    got = 0
    last = idle_of(msg_id)
    while True:
        item = await kernel.receive()
        assert kernel._inbox._bytes < 4 * HIGH_BYTES
        if isinstance(item, RawText):
            for start in range(0, len(item.data), MIB):
                piece = item.data[start : start + MIB]
                at = got % MIB
                assert piece == (block + block)[at : at + len(piece)]
                got += len(piece)
        elif item is not None:
            assert not isinstance(item, Died | Trouble)
            if last(item):
                break
    assert got == 100 * MIB


async def test_a_flood_of_messages_is_held_back_and_arrives_whole(natives: Natives) -> None:
    kernel = await natives.start()
    count = 4000
    msg_id = kernel.send(
        "shell",
        "execute_request",
        {"code": f"for n in range({count}): peer.say('n', {{'n': n, 'x': 'x' * 1000}}, parent=parent)"},
    )
    await until(lambda: kernel._inbox.held)
    assert kernel._inbox._bytes < 2 * HIGH_BYTES
    items = await items_until(kernel, idle_of(msg_id))
    numbers = [item.content["n"] for item in items if isinstance(item, Message) and item.msg_type == "n"]
    assert numbers == list(range(count))
    assert not troubles(items)


async def test_draining_brings_in_what_stands_there(natives: Natives) -> None:
    kernel = await natives.start()
    await run(kernel)
    write_late(natives, 1, b"late")
    assert await kernel.receive(0) is None
    kernel.drain()
    assert await kernel.receive(0) == RawText("stdout", b"late", "", True)


async def test_draining_is_bounded_where_somebody_writes_for_ever(natives: Natives) -> None:
    kernel = await natives.start()
    await run(kernel, "child('while True: write(1, b\"child\" * 1000)')")
    kernel.drain()
    assert kernel._inbox._bytes < 4 * MIB


# whose text


def write_late(natives: Natives, number: int, data: bytes) -> None:
    """What a child of the kernel would write to its descriptor 1 or 2."""
    fd = os.open(f"/proc/{natives.processes[0].pid}/fd/{number}", os.O_WRONLY)
    os.write(fd, data)
    os.close(fd)


async def test_what_stands_in_stdout_by_then_comes_before_what_stderr_has(natives: Natives) -> None:
    kernel = await natives.start()
    await run(kernel)
    write_late(natives, 1, b"first")
    write_late(natives, 2, b"second")
    kernel._pipe_readable(kernel._pairs[0].stderr)
    assert shown([await next_item(kernel), await next_item(kernel)]) == [
        ("stdout", "", b"first"),
        ("stderr", "", b"second"),
    ]


async def test_an_idle_of_something_else_ends_nothing(natives: Natives) -> None:
    kernel = await natives.start()
    items = await run(kernel, "peer.status('idle', 'other'); write(1, b'x')")
    parent = items[0].parent_id if isinstance(items[0], Message) else ""
    assert text_by(items, parent) == {"stdout": b"x"}


async def test_text_between_executions_is_nobodys(natives: Natives) -> None:
    kernel = await natives.start()
    await run(kernel)
    write_late(natives, 1, b"late")
    assert await next_item(kernel) == RawText("stdout", b"late", "", True)


ORPHAN = """
peer.forked = True
r, peer.go = os.pipe()
if os.fork() == 0:
    peer.socket.close()
    os.close(peer.go)
    os.read(r, 1)  # until the kernel closes its end
    write(1, b'orphan')
    write(2, b'ORPHAN')
    os._exit(0)
os.close(r)
write(1, b'parent')
"""


async def test_children_that_outlive_an_execution_write_for_it_and_not_for_the_next(natives: Natives) -> None:
    kernel = await natives.start()
    first = kernel.send("shell", "execute_request", {"code": ORPHAN})
    items = await items_until(kernel, idle_of(first))
    assert ("stdout", first, b"parent") in shown(items)
    code = "write(1, b'mine '); os.close(peer.go); os.wait(); write(1, b'too')"
    second = kernel.send("shell", "execute_request", {"code": code})
    items = await items_until(kernel, idle_of(second))
    while len(text_by(items, first)) < 2:
        items.append(await next_item(kernel))
    assert text_by(items, first) == {"stdout": b"orphan", "stderr": b"ORPHAN"}
    assert text_by(items, second) == {"stdout": b"mine too"}
    await until(lambda: not kernel._pairs[0].open)
    assert not troubles(items)


def text_by(items: Sequence[KernelItem], parent: str) -> dict[str, bytes]:
    of_it = [item for item in items if isinstance(item, RawText) and item.parent_id == parent]
    return {name: raw_of(of_it, name) for name in ("stdout", "stderr") if raw_of(of_it, name)}


async def test_late_text_of_such_children_is_of_their_execution(natives: Natives) -> None:
    kernel = await natives.start()
    first = kernel.send(
        "shell",
        "execute_request",
        {"code": "if os.fork() == 0:\n    peer.socket.close(); signal.pause()\npeer.forked = True"},
    )
    await items_until(kernel, idle_of(first))
    write_late(natives, 1, b"late")
    assert await next_item(kernel) == RawText("stdout", b"late", first, True)


async def test_the_pairs_are_bounded_and_then_text_is_nobodys(
    natives: Natives, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cellhouse.kernel.native.MAX_OLD_PAIRS", 2)
    kernel = await natives.start()
    leave = "if os.fork() == 0:\n    peer.socket.close(); signal.pause()\npeer.forked = True; write(1, b'x')"
    seen = []
    for _ in range(4):
        msg_id = kernel.send("shell", "execute_request", {"code": leave})
        items = await items_until(kernel, idle_of(msg_id))
        (text,) = [item for item in items if isinstance(item, RawText)]
        seen.append(text.parent_id == msg_id)
    assert seen == [True, True, True, False]
    assert len(kernel._pairs) == 3


async def test_pipes_whose_children_are_gone_make_room(
    natives: Natives, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cellhouse.kernel.native.MAX_OLD_PAIRS", 1)
    kernel = await natives.start()
    for _ in range(4):
        await run(kernel, "peer.forked = True")
        items = await run(kernel, "write(1, b'x')")
        assert inside(items) == [("stdout", b"x")]
        await until(lambda: not any(pair.open for pair in kernel._pairs[:-1]))
    assert len(kernel._pairs) <= 2


async def test_without_descriptors_left_text_is_nobodys(
    natives: Natives, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = await natives.start()
    await run(kernel, "peer.forked = True")

    def none_left() -> tuple[int, int]:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pipe", none_left)
        msg_id = kernel.send("shell", "execute_request", {"code": "write(1, b'x'); peer.forked = False"})
    items = await items_until(kernel, idle_of(msg_id))
    assert [item.parent_id for item in items if isinstance(item, RawText)] == [""]


# requests


async def test_a_large_request_arrives_whole(natives: Natives) -> None:
    kernel = await natives.start()
    code = "write(1, b'%d' % len(parent))\n#" + "x" * (8 * MIB)
    assert inside(await run(kernel, code)) == [("stdout", b"32")]
    assert kernel._outbox is not None
    assert kernel._outbox.unsent == 0


async def test_requests_that_wait_are_sent_in_order_with_their_pipes(natives: Natives) -> None:
    kernel = await natives.start()
    await run(kernel, "peer.forked = True")
    filler = kernel.send("shell", "execute_request", {"code": "#" + "x" * MIB})
    last = kernel.send("shell", "execute_request", {"code": "write(1, b'last')"})
    items = await items_until(kernel, idle_of(last))
    assert {item.parent_id for item in items if isinstance(item, Message)} == {filler, last}
    assert raw_of(items) == b"last"


async def test_a_kernel_that_takes_nothing_is_gone(natives: Natives) -> None:
    kernel = await natives.start()
    kernel.send("shell", "execute_request", {"code": "wait_for_ever()"})
    for _ in range(9):  # 4 MiB each; what may wait is 32
        kernel.send("shell", "execute_request", {"code": "x" * (4 * MIB)})
    with pytest.raises(KernelGone, match="kernel 'peer' does not read its stdin channel"):
        kernel.send("stdin", "input_reply", {})


async def test_an_unknown_channel_is_closed(natives: Natives) -> None:
    kernel = await natives.start()
    with pytest.raises(KernelGone, match="channel iopub of kernel 'peer' is closed"):
        kernel.send("iopub", "x", {})


async def test_descriptors_that_a_kernel_sends_never_arrive(natives: Natives) -> None:
    kernel = await natives.start()
    before = len(os.listdir("/proc/self/fd"))
    items = await run(
        kernel,
        "for _ in range(50): socket.send_fds(peer.socket, [peer.frame('x', {}, parent=parent, epoch=0)], [0] * 200)",
    )
    assert inside(items) == ["x"] * 50
    assert len(os.listdir("/proc/self/fd")) == before


async def test_an_interrupt_reaches_the_group(natives: Natives) -> None:
    kernel = await natives.start()
    code = (
        "signal.signal(signal.SIGINT, lambda *_: None)\n"
        "pid = child('signal.signal(signal.SIGINT, signal.SIG_DFL); write(1, b\"running\"); signal.pause()')\n"
        "write(2, str(os.waitpid(pid, 0)[1]).encode())"
    )
    msg_id = kernel.send("shell", "execute_request", {"code": code})
    await items_until(kernel, lambda item: isinstance(item, RawText))
    kernel.interrupt()
    items = await items_until(kernel, idle_of(msg_id))
    assert raw_of(items, "stderr") == b"2"
    assert not kernel.interrupting
    assert kernel.lost_messages(take=True) == 0


async def test_usage_is_of_the_process(natives: Natives) -> None:
    kernel = await natives.start()
    assert (kernel.cpu_seconds() or 0) >= 0
    await kernel.close()
    assert kernel.cpu_seconds() is None


async def test_who_reads_is_woken(natives: Natives) -> None:
    kernel = await natives.start()
    reading = asyncio.create_task(kernel.receive())
    await asyncio.sleep(0)
    kernel.wake()
    assert await reading is None
