"""What the native kernel relies on in CPython's text files, event loop and tracebacks beyond their documentation.

Each body runs in the environment's own Python: 3.9 and later, nothing of this file, one fork each.
"""

from typing import Any

from tests.inside.versions.interpreter import inside
from tests.inside.versions.served import Inside

# --- CPython: streams ---


@inside
def test_print_takes_the_write_of_the_instance(k: Inside) -> None:
    """An attribute `write` of one text file is what print and tracebacks call, until it is taken away again."""
    import io
    import sys
    import traceback

    class Stream(io.TextIOWrapper):
        """A class of ours: the built-in one takes no attributes in its instances' place."""

    stream = Stream(io.BytesIO(), encoding="utf-8", write_through=True)
    seen: Any = []
    stream.__dict__["write"] = lambda text: len(seen.append(text) or text)
    print("a", "b", file=stream)
    stream.write("c")
    kept = sys.stderr
    sys.stderr = stream
    try:
        traceback.print_exception(ValueError, ValueError("e"), None)
    finally:
        sys.stderr = kept
    assert "".join(seen) == "a b\ncValueError: e\n", seen
    assert io.TextIOWrapper.write(stream, "plain") == 5
    del stream.__dict__["write"]
    print("line", file=stream)
    buffer: Any = stream.buffer
    assert buffer.getvalue() == b"plainline\n"


@inside
def test_a_text_file_over_memory_keeps_nothing_to_itself(k: Inside) -> None:
    """A mmap of ours with what a buffer has; `_CHUNK_SIZE` of one: what is printed is in memory when print returns."""
    import io
    import mmap

    class Memory(mmap.mmap):
        closed = False

        def readable(self) -> bool:
            return False

        def writable(self) -> bool:
            return True

        def seekable(self) -> bool:
            return False

    made: Any = Memory(-1, 65_536)
    made.seek(64)
    file = io.TextIOWrapper(made, encoding="utf-8", errors="backslashreplace")
    file._CHUNK_SIZE = 1  # type: ignore[attr-defined]
    print("ä", "\ud800", end="", file=file)
    text = "ä \\ud800".encode()
    assert made[64 : made.tell()] == text
    file.write("x" * 10_000)
    assert made.tell() == 64 + len(text) + 10_000
    assert made[made.tell() : made.tell() + 10] == bytes(10)


@inside
def test_a_stream_that_was_closed_or_detached_is_known_for_it(k: Inside) -> None:
    """`closed` tells after close, and raises ValueError after detach."""
    import io

    closed, detached, whole = (io.TextIOWrapper(io.BytesIO()) for _ in range(3))
    closed.close()
    detached.detach()
    assert "detached" in k.raised(ValueError, lambda: detached.closed)
    unusable = k.native("streams")._unusable
    found = [unusable(stream) for stream in (closed, detached, whole, None, object())]
    assert found == [True, True, False, True, True]


# --- CPython: asyncio ---


@inside
def test_the_loop_tells_what_is_left_to_do(k: Inside) -> None:
    """_selector, _ready and _scheduled; two descriptors are the loop's and ours."""
    import asyncio
    import os
    import socket

    loop = asyncio.new_event_loop()
    executions_class = k.native("execution").Executions
    executions = executions_class.__new__(executions_class)
    executions._loop = loop
    ours, _theirs = socket.socketpair()
    loop.add_reader(ours, int)
    assert len(loop._selector.get_map()) == 2  # type: ignore[attr-defined]
    assert not executions._others()
    handle = loop.call_later(100, int)
    assert executions._others()
    handle.cancel()
    loop._scheduled.clear()  # type: ignore[attr-defined]
    assert not executions._others()
    loop.call_soon(loop.stop)
    assert executions._others()
    loop.run_forever()
    assert not executions._others()
    read, _write = os.pipe()
    loop.add_reader(read, int)
    assert executions._others()
    loop.remove_reader(read)

    async def forever() -> None:
        await asyncio.Event().wait()

    task = loop.create_task(forever())
    assert executions._others()
    task.cancel()
    loop.run_until_complete(asyncio.wait([task]))
    assert not executions._others()


@inside
def test_the_loop_outlives_interrupts_and_current_tasks_are_told(k: Inside) -> None:
    """run_forever after KeyboardInterrupt, and asyncio.current_task(loop) from a signal handler."""
    import asyncio

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)

    def interrupted() -> None:
        raise KeyboardInterrupt

    seen = []

    async def work() -> None:
        seen.append(asyncio.current_task(loop))

    task = loop.create_task(work())
    assert task.get_loop() is loop
    loop.call_soon(interrupted)
    for _ in range(2):
        try:
            loop.call_soon(loop.stop)
            loop.run_forever()
        except KeyboardInterrupt:
            seen.append(None)
    assert task in seen
    assert None in seen
    assert asyncio.current_task(loop) is None


@inside
def test_a_traceback_can_be_made_anew(k: Inside) -> None:
    """types.TracebackType takes its four arguments, also for a line that is None."""
    import sys
    import types

    try:
        exec(compile("1 / 0", k.native("tracebacks")._HERE + "x.py", "exec"), {})
    except ZeroDivisionError:
        _, error, trace = sys.exc_info()
    assert isinstance(trace, types.TracebackType)
    assert trace.tb_next is not None
    kept = k.native("tracebacks").without_ours(error, trace)
    assert kept.tb_next is None
    assert kept.tb_frame.f_code.co_name == "test_a_traceback_can_be_made_anew"


@inside
def test_a_signal_to_the_main_thread_is_one_that_our_handler_gets(k: Inside) -> None:
    """What the helper thread does to deliver an interrupt that was put off."""
    interrupts = k.native("interrupts").Interrupts()
    interrupts.begin()
    interrupts.running = True
    with_in = []
    try:
        interrupts.enter()
        interrupts.pending = True
        assert interrupts.again()
        for _ in range(100):
            pass
        with_in.append(interrupts.pending)
        interrupts.__exit__()
    except KeyboardInterrupt:
        with_in.append("raised")
    assert with_in == [True, "raised"]
    assert not interrupts.pending
