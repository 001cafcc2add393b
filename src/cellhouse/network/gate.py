"""Our side of one bridge: it asks for connections, and is handed one pair of pipes for each.

The bridge writes bytes into a pipe: the first says that it listens, each further one asks for a connection. What it is
handed comes over a socket that takes nothing the other way. Both may be in the hands of hostile code: it can ask for
connections, as any client can.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from typing import Final

from cellhouse.network.pipes import Pipes

BATCH: Final = 32
PAUSE_SECONDS: Final = 0.05
"""So many connections at most are looked at in this time: who asks for more waits, and everybody else does not."""


class Gate:
    def __init__(self, connected: Callable[[Pipes], None], refuse: Callable[[], bytes | None]) -> None:
        """`connected` is called with each connection. Where `refuse` has a text, that is all that a connection gets."""
        self._connected, self._refuse = connected, refuse
        self._loop = asyncio.get_running_loop()
        self._asked, self.theirs_asking = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._asked, False)
        self._handing, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._handing.setblocking(False)
        # Nothing can be sent to us: descriptors in it would be ours to close.
        self._handing.shutdown(socket.SHUT_RD)
        self._theirs: socket.socket | None = theirs
        self.listening: asyncio.Future[bool] = self._loop.create_future()
        """True once the bridge listens; False where it has ended before."""
        self._resume: asyncio.TimerHandle | None = None
        self._loop.add_reader(self._asked, self._on_asked)

    @property
    def descriptors(self) -> tuple[int, int]:
        """What the bridge is to have as 3 and 4. Closed by `handed`."""
        assert self._theirs is not None
        return self.theirs_asking, self._theirs.fileno()

    def handed(self) -> None:
        """The bridge has its own copies, or will never have any."""
        if self._theirs is not None:
            self._theirs.close()
            self._theirs = None
            os.close(self.theirs_asking)

    def _on_asked(self) -> None:
        try:
            asked = os.read(self._asked, BATCH)
        except BlockingIOError:
            return
        if not asked:
            self._loop.remove_reader(self._asked)
            if not self.listening.done():
                self.listening.set_result(False)
            return
        count = len(asked)
        if not self.listening.done():
            self.listening.set_result(True)
            count -= 1
        for _ in range(count):
            self._hand_in()
        if count:
            self._loop.remove_reader(self._asked)
            self._resume = self._loop.call_later(PAUSE_SECONDS * count / BATCH, self._go_on)

    def _go_on(self) -> None:
        self._resume = None
        self._loop.add_reader(self._asked, self._on_asked)

    def _hand_in(self) -> None:
        try:
            ours, theirs = Pipes.pair()
        except OSError:  # no descriptor left: the bridge gives up on this client
            with contextlib.suppress(OSError):
                self._handing.send(b"n")
            return
        refusal = self._refuse()
        if refusal is not None:
            ours.write_at_once(refusal)
        try:
            socket.send_fds(self._handing, [b"c"], theirs)
        except OSError:  # it is gone, or takes nothing
            ours.close()
            return
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        if refusal is not None:
            ours.close()
        else:
            self._connected(ours)

    def close(self) -> None:
        if self._resume is not None:
            self._resume.cancel()
        self.handed()
        if self._asked >= 0:
            self._loop.remove_reader(self._asked)
            os.close(self._asked)
            self._asked = -1
        self._handing.close()
        if not self.listening.done():
            self.listening.set_result(False)
