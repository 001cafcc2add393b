"""Live native kernels: everything in its place, nothing lost, and an end to whatever a kernel must not do."""

import asyncio
import gc
import os
import signal
from collections.abc import Sequence

import pytest

from cellhouse.kernel import Died, KernelGone, KernelItem, Trouble, life
from cellhouse.kernel.inbox import HIGH_BYTES
from cellhouse.messages import LongText, Message, RawText
from tests.kernel.native_support import Natives, shown
from tests.kernel.support import idle_of, items_until, next_item, raw_of, run, until, until_died

MIB = 1 << 20


def troubles(items: Sequence[KernelItem]) -> list[Trouble]:
    return [item for item in items if isinstance(item, Trouble)]


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
    kernel._stderr_readable(kernel._pairs[0].stderr)
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
        "for _ in range(50): socket.send_fds(peer.socket, [peer.frame('x', {}, parent=parent)], [0] * 200)",
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


# what a kernel must not do


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life, "CLOSE_GRACE_SECONDS", 0.01)


async def trouble_of(natives: Natives, code: str) -> tuple[Trouble, list[KernelItem]]:
    kernel = await natives.start()
    kernel.send("shell", "execute_request", {"code": f"write(1, b'before'); {code}; wait_for_ever()"})
    items = await items_until(kernel, lambda item: isinstance(item, Trouble) and item.fatal)
    kernel.kill()
    rest, died = await until_died(kernel)
    assert died.signal == signal.SIGKILL
    assert raw_of([*items, *rest]) == b"before"
    (trouble,) = troubles(items)
    return trouble, items


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("peer.socket.close()", ""),
        ("peer.socket.shutdown(socket.SHUT_WR)", ""),
        (
            "peer.socket.sendall(peer.frame('x', {})[:-1]); peer.socket.close()",
            ": the stream ended inside a frame",
        ),
        ("peer.socket.sendall(HEAD.pack(2, 2, 0) + b'{{{}')", ": a frame's header that is not JSON"),
        ("peer.socket.sendall(peer.frame('x', {}, epoch='7'))", ": a frame whose epoch"),
        ("peer.socket.sendall(peer.frame('x', {}, channel='control'))", ": a frame on no channel"),
    ],
)
async def test_a_stream_that_can_not_be_followed_is_a_fatal_trouble(
    natives: Natives, short_grace: None, code: str, said: str
) -> None:
    trouble, _ = await trouble_of(natives, code)
    assert trouble.reason == "CHANNEL_CLOSED"
    assert trouble.text.startswith(f"the kernel closed its channel{said}")


@pytest.mark.parametrize(
    ("lengths", "size", "limit"),
    [
        ((10, 128 * MIB + 1, 0), 128 * MIB + 1, 128 * MIB),
        ((10, 0, 1 << 63), 1 << 63, 128 * MIB),
        ((65_537, 0, 0), 65_537, 65_536),
    ],
)
async def test_a_frame_above_the_limit_is_a_fatal_trouble_with_its_size(
    natives: Natives, lengths: tuple[int, int, int], size: int, limit: int
) -> None:
    trouble, _ = await trouble_of(natives, f"peer.socket.sendall(HEAD.pack(*{lengths}))")
    assert trouble.reason == "MESSAGE_SIZE"
    assert trouble.metadata == {"sizeBytes": str(size), "limitBytes": str(limit)}
    assert "the kernel sent a " in trouble.text


async def test_content_that_can_not_be_read_is_a_defect(natives: Natives) -> None:
    kernel = await natives.start()
    items = await run(kernel, "peer.say('display_data', b'{\"a\":', parent=parent)")
    (message,) = [item for item in items if isinstance(item, Message) and item.msg_type == "display_data"]
    assert "not JSON" in message.defect
    assert message.content == {}


@pytest.mark.parametrize(
    "forge",
    [
        "write(1, peer.marker(1 << 63, 0) + b'x')",
        "write(2, peer.marker(0, 1 << 63) + b'x')",
        "peer.socket.sendall(peer.frame('forged', {}, epoch=1 << 63, parent=parent))",
        "write(1, peer.marker(99, 0) + b'x'); write(2, peer.marker(98, 0) + b'y')",
    ],
)
async def test_what_does_not_fit_together_costs_order_once_and_nothing_else(
    natives: Natives, monkeypatch: pytest.MonkeyPatch, forge: str
) -> None:
    monkeypatch.setattr("cellhouse.kernel.weave.STALL_SECONDS", 0.05)
    kernel = await natives.start()
    items = await run(kernel, f"{forge}; write(1, b'text')")
    while not troubles(items) or b"text" not in raw_of(items):
        items.append(await next_item(kernel))
    items += await run(kernel, f"{forge}; write(1, b'more')")
    assert raw_of(items).endswith(b"more")
    (trouble,) = troubles(items)
    assert (trouble.reason, trouble.fatal) == ("OUTPUT_DISORDERED", False)


async def test_the_beginning_of_a_marker_at_the_end_of_text_is_text(
    natives: Natives, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cellhouse.kernel.weave.STALL_SECONDS", 0.05)
    kernel = await natives.start()
    msg_id = kernel.send("shell", "execute_request", {"code": "write(1, b'a\\0'); wait_for_ever()"})
    items = await items_until(kernel, lambda item: isinstance(item, RawText) and item.data == b"\0")
    assert raw_of(items) == b"a\0"
    assert not troubles(items)
    assert [item.parent_id for item in items if isinstance(item, RawText)] == [msg_id] * 2


async def test_what_waits_for_its_place_is_bounded(natives: Natives, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text behind a marker that the other pipe never gets: the writer is held back, for a while."""
    monkeypatch.setattr("cellhouse.kernel.weave.STALL_SECONDS", 3600.0)
    kernel = await natives.start()
    kernel.send(
        "shell", "execute_request", {"code": "write(1, peer.marker(99, 0)); write(1, bytes(50 << 20))"}
    )
    stdout = kernel._pairs[0].stdout
    await until(lambda: stdout.held and not stdout.watched)
    assert stdout.held < MIB
    kernel.drain()
    assert stdout.held < MIB
    assert kernel._weave.deadline() is not None
    kernel._hold()
    assert kernel._weave.deadline() is None
    kernel._release()
    assert kernel._weave.deadline() is not None


# death


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGTERM])
async def test_death_by_a_signal_comes_after_everything_before_it(natives: Natives, number: int) -> None:
    kernel = await natives.start()
    kernel.send(
        "shell",
        "execute_request",
        {
            "code": f"peer.say('x', {{}}, parent=parent); write(2, b'last'); os.kill(os.getpid(), {int(number)})"
        },
    )
    items, died = await until_died(kernel)
    assert [item[0] for item in shown(items) if isinstance(item, tuple)] == ["busy", "x", "stderr"]
    assert (died.exit_status, died.signal) == (None, number)
    assert not troubles(items)


async def test_everything_is_there_also_where_the_death_is_seen_first(natives: Natives) -> None:
    """The loop is busy while the process writes and ends: its end and its words are then ready at once."""
    kernel = await natives.start()
    code = (
        "for n in range(20):\n    write(1, b'%d ' % n); peer.say('n', {'n': n}, parent=parent)\n"
        "write(1, b'o' * 30_000); write(2, b'e' * 30_000); os._exit(9)"
    )
    kernel.send("shell", "execute_request", {"code": code})
    os.waitid(os.P_PID, natives.processes[0].pid, os.WEXITED | os.WNOWAIT)
    items, died = await until_died(kernel)
    expected: list[object] = ["busy"]
    for number in range(20):
        expected += [b"%d " % number, "n"]
    got = [item[-1] if len(item) == 3 else item[0] for item in shown(items) if isinstance(item, tuple)]
    assert got == [*expected, b"o" * 30_000, b"e" * 30_000]
    assert died.exit_status == 9
    assert not troubles(items)


async def test_a_death_between_a_marker_and_its_message_loses_nothing(natives: Natives) -> None:
    kernel = await natives.start()
    kernel.send(
        "shell", "execute_request", {"code": "peer.mark(1); write(1, b'out'); write(2, b'err'); os._exit(1)"}
    )
    items, _ = await until_died(kernel)
    assert (raw_of(items), raw_of(items, "stderr")) == (b"out", b"err")
    assert not troubles(items)


async def test_a_message_that_was_cut_by_death_is_no_trouble(natives: Natives) -> None:
    kernel = await natives.start()
    code = "peer.socket.sendall(peer.frame('x', {'a': 'b' * (1 << 20)})[:200_000]); os._exit(4)"
    kernel.send("shell", "execute_request", {"code": code})
    items, died = await until_died(kernel)
    assert died.exit_status == 4
    assert not troubles(items)


async def test_a_death_is_told_also_where_a_child_lives_on_with_all_it_held(natives: Natives) -> None:
    kernel = await natives.start()
    code = (
        "write(1, b'parent')\n"
        "if os.fork() == 0:\n"
        "    while True: write(1, b'child' * 1000); write(2, b'child' * 1000)\n"
        "os.kill(os.getpid(), signal.SIGSEGV)"
    )
    kernel.send("shell", "execute_request", {"code": code})
    items, died = await until_died(kernel)
    assert died.signal == signal.SIGSEGV
    assert raw_of(items).startswith(b"parent")
    assert await kernel.receive(0) is None


async def test_a_stream_that_closes_before_the_process_ends_is_no_trouble(natives: Natives) -> None:
    kernel = await natives.start()
    kernel.send(
        "shell", "execute_request", {"code": "peer.socket.close(); write(1, b'still here'); os._exit(5)"}
    )
    items, died = await until_died(kernel)
    assert died.exit_status == 5
    assert raw_of(items) == b"still here"
    assert not troubles(items)


async def test_after_its_death_nothing_follows_and_nothing_is_taken(natives: Natives) -> None:
    kernel = await natives.start()
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


async def test_one_that_can_not_be_killed_is_given_up(
    natives: Natives, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(life, "STUCK_SECONDS", 0.01)
    kernel = await natives.start()
    process = natives.processes[0]
    with monkeypatch.context() as patch:
        patch.setattr(process, "signal", lambda *_: None)
        kernel.kill()
        _, died = await until_died(kernel)
    assert (died.exit_status, died.signal) == (None, None)


async def test_what_was_not_sent_is_forgotten_with_its_descriptors(natives: Natives) -> None:
    kernel = await natives.start()
    await run(kernel, "peer.forked = True")
    kernel.send("shell", "execute_request", {"code": "wait_for_ever()"})
    kernel._pairs[-1].holders.add("somebody")
    kernel.send("shell", "comm_msg", {"data": "x" * (4 * MIB)})
    kernel.send("shell", "execute_request", {"code": ""})
    assert kernel._outbox is not None
    assert kernel._outbox.unsent > MIB
    await kernel.close()
    gc.collect()  # conftest looks for what is left


async def test_who_reads_is_woken(natives: Natives) -> None:
    kernel = await natives.start()
    reading = asyncio.create_task(kernel.receive())
    await asyncio.sleep(0)
    kernel.wake()
    assert await reading is None
