"""Native kernels that do what they must not, and native kernels that end: told once, and nothing lost before it."""

import gc
import os
import signal

import pytest

from cellhouse.kernel import KernelGone, KernelItem, Trouble, life
from cellhouse.messages import Message, RawText
from tests.kernel.native_support import Natives, shown, troubles
from tests.kernel.support import items_until, next_item, raw_of, run, until, until_died

MIB = 1 << 20


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
        "write(1, peer.marker(1 << 40, 0) + b'x')",
        "write(2, peer.marker(peer.epoch + 1, 1 << 40) + b'x')",
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
        "shell",
        "execute_request",
        {"code": "write(1, peer.marker(peer.epoch + 1, 0)); write(1, bytes(50 << 20))"},
    )
    stdout = kernel._pairs[0].stdout
    await until(lambda: stdout.held and not stdout.watched)
    assert stdout.held < 2 * MIB
    kernel.drain()
    assert stdout.held < 2 * MIB
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


@pytest.mark.parametrize(
    "garbage",
    ["HEAD.pack(65_537, 0, 0)", "peer.frame('x', {}, epoch='7')", "peer.frame('x', {}) * 2"],
    ids=["size", "header", "number"],
)
async def test_a_death_is_the_better_word_than_garbage_that_is_seen_before_it(
    natives: Natives, monkeypatch: pytest.MonkeyPatch, garbage: str
) -> None:
    """Whoever holds a dead kernel's descriptors can write before its end is known."""
    monkeypatch.setattr("cellhouse.kernel.native.DEATH_SECONDS", 3600.0)
    monkeypatch.setattr(life, "DEATH_SECONDS", 3600.0)
    monkeypatch.setattr(life, "CLOSE_GRACE_SECONDS", 3600.0)
    kernel = await natives.start()
    code = f"write(1, b'text'); peer.socket.sendall({garbage}); wait_for_ever()"
    kernel.send("shell", "execute_request", {"code": code})
    await until(lambda: kernel._closing is not None)
    os.kill(natives.processes[0].pid, signal.SIGTERM)
    items, died = await until_died(kernel)
    assert died.signal == signal.SIGTERM
    assert raw_of(items) == b"text"
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


async def test_who_is_said_to_have_started_processes_is_who_was_asked(natives: Natives) -> None:
    """Names that a forger makes up would be without end."""
    kernel = await natives.start()
    forge = "[peer.say('execute_reply', {}, channel='shell', parent=f'made-up-{n}', forked=True) for n in range(50)]"
    await run(kernel, forge)
    assert kernel._pairs[-1].holders == set()
    await run(kernel, "peer.forked = True")
    assert len(kernel._pairs[-1].holders) == 1


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
