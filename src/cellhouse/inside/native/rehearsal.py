"""A session to nobody, in the process that sessions are forked from: what it has imported and grown used to, they have."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable

from .bundles import Bundles
from .children import Children
from .execution import Executions
from .interrupts import Interrupts
from .link import Link
from .pipes import Pipe
from .questions import Questions
from .shell import ZMQInteractiveShell
from .streams import REGION_BYTES, Streams

TIMES = 10
"""CPython settles into its quick ways after some eight calls; what it notes then stands in memory that forks share."""
CELLS = (
    "1 + 1",
    "x = 'text'\nx",
    "print('text')",
    "raise ValueError('x')",
    "def f():\n    return 1 / 0\nf()",
    "display({'text/html': 'x'}, raw=True)",
)
ONCE = ("import asyncio\nawait asyncio.sleep(0)", "x =", "f?", "import sys\nprint('x', file=sys.stderr)")


def rehearse(shell: ZMQInteractiveShell) -> None:
    """Run some cells as a session would; nothing is left of it but what is quicker afterwards. Starts no thread."""
    ours, theirs = socket.socketpair()
    nowhere = os.open(os.devnull, os.O_RDWR)
    kept = [os.dup(number) for number in (1, 2)]
    streams = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
    sys.stdout.flush()
    sys.stderr.flush()
    sink = shell.sink
    before = (sink.link, sink.bundles, sink.streams)
    loop = asyncio.new_event_loop()
    try:
        for number in (1, 2):
            os.dup2(nowhere, number)
        _run(shell, ours, theirs, loop)
    finally:
        sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__ = streams  # type: ignore[misc]
        for number, descriptor in zip((1, 2), kept):
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.close(nowhere)
        ours.close()
        theirs.close()
        asyncio.set_event_loop(None)
        loop.close()
        sink.link, sink.bundles, sink.streams = before
        _forget(shell)


def _run(
    shell: ZMQInteractiveShell, ours: socket.socket, theirs: socket.socket, loop: asyncio.AbstractEventLoop
) -> None:
    interrupts = Interrupts()
    link = Link(theirs, [Pipe(number, interrupts) for number in (1, 2)], interrupts)
    memory = os.memfd_create("cellhouse-rehearsal", os.MFD_CLOEXEC)
    os.ftruncate(memory, 2 * REGION_BYTES)
    streams = Streams(interrupts, link.pipes, memory)
    os.close(memory)
    streams.attach(link)
    link.flush = streams.flush
    link.start(b"\0\1" + bytes(16))
    shell.sink.link, shell.sink.bundles, shell.sink.streams = link, Bundles(link), streams
    executions = Executions(
        shell,
        link,
        streams,
        Questions(link, lambda: streams.current),
        Children(streams.hand_on, streams.in_fork),
        loop,
        after=loop.stop,
        ours=_call,
    )
    ours.setblocking(False)
    asyncio.set_event_loop(loop)
    for code in (*CELLS * TIMES, *ONCE):
        executions.run({"id": "rehearsal"}, {"code": code, "store_history": True})
        if executions.busy:
            loop.run_forever()
        _drain(ours)
    for pipe in link.pipes:
        pipe.close()


def _call(work: Callable[[], None]) -> None:
    work()


def _drain(sock: socket.socket) -> None:
    while True:
        try:
            sock.recv(1 << 16)
        except BlockingIOError:
            return


def _forget(shell: ZMQInteractiveShell) -> None:
    shell.payload_manager.clear_payload()
    shell.reset(new_session=True)
    shell.history_manager.reset()
    shell.execution_count = 1
    shell.last_report = shell.failure = None
