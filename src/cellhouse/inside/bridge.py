"""The way out of a sandbox that may reach something: takes connections on 127.0.0.1, and carries their bytes outside.

Run as ``python -I -S bridge.py PORT``, with two descriptors: into 3, a pipe, it writes one byte once it listens, and
one for each connection; through 4, a SOCK_SEQPACKET socket, it is handed two pipes for each, one to write to and one to
read from. It decides nothing and holds no secret: whoever ends it, or takes its place, has what any client has.

One thread, nothing that waits, and for each connection at most 64 KiB on their way in each direction.
"""

from __future__ import annotations

import array
import collections
import os
import resource
import selectors
import socket
import sys
import time

TYPE_CHECKING = False  # typing is not imported: it is a tenth of the time that a start takes
if TYPE_CHECKING:
    from collections.abc import Callable

ASKING, HANDED = 3, 4
CHUNK = 65536
MOST = 256  # connections, those that wait among them; further ones stay with the kernel
SPARE_FILES = 16
BACKLOG = 1024
LINGER_SECONDS = 2.0  # for a client to take the last of what it was sent, and to end
PORT_TAKEN = 3  # the exit status where somebody else listens


class Relay:
    """One connection: the client's socket, and the pipes. Each is -1 or None once it has ended."""

    def __init__(self, bridge: Bridge, client: socket.socket, up: int, down: int) -> None:
        self.bridge, self.client, self.up, self.down = bridge, client, up, down
        self.upward = self.downward = b""
        self.client_ended = False
        self.ending = 0.0  # when to give up on a client that has been sent everything
        for descriptor in (up, down):
            os.set_blocking(descriptor, False)
        self.watch()

    def watch(self) -> None:
        """Have the selector look at what can go on: nothing is read before what was read has been written."""
        client = 0
        if not self.client_ended and not self.upward:
            client |= selectors.EVENT_READ
        if self.downward:
            client |= selectors.EVENT_WRITE
        self.bridge.watch(self.client.fileno(), client, self.on_client)
        if self.up >= 0:
            self.bridge.watch(self.up, selectors.EVENT_WRITE if self.upward else 0, self.on_up)
        if self.down >= 0:
            self.bridge.watch(self.down, 0 if self.downward else selectors.EVENT_READ, self.on_down)

    def on_client(self, events: int) -> None:
        if events & selectors.EVENT_WRITE and self.downward:
            self.write_client()
        if events & selectors.EVENT_READ and not self.upward and not self.client_ended:
            try:
                data = self.client.recv(CHUNK)
            except BlockingIOError:
                return
            if not data:
                self.client_ended = True
                self.end_up()
            elif self.up >= 0:
                self.upward = data
                self.write_up()
            # Else nobody takes it any more; read all the same, for a client is deaf to the answer until it has sent.

    def on_up(self, events: int) -> None:
        self.write_up()

    def on_down(self, events: int) -> None:
        if self.down < 0 or self.downward:
            return
        try:
            self.downward = os.read(self.down, CHUNK)
        except BlockingIOError:
            return
        if self.downward:
            self.write_client()
        else:
            self.bridge.forget(self.down)
            self.down = -1
            self.client.shutdown(socket.SHUT_WR)
            self.ending = time.monotonic() + LINGER_SECONDS

    def write_client(self) -> None:
        try:
            self.downward = self.downward[self.client.send(self.downward) :]
        except BlockingIOError:
            pass

    def write_up(self) -> None:
        if self.up < 0:
            return
        try:
            self.upward = self.upward[os.write(self.up, self.upward) :]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            self.upward = b""
            self.end_up()

    def end_up(self) -> None:
        if self.up >= 0 and not self.upward:
            self.bridge.forget(self.up)
            self.up = -1

    def over(self, now: float) -> bool:
        """Whether nothing more can come of it."""
        return self.down < 0 and not self.downward and (self.client_ended or now > self.ending)

    def close(self) -> None:
        self.bridge.forget(self.client.fileno(), close=False)
        self.client.close()
        for descriptor in (self.up, self.down):
            if descriptor >= 0:
                self.bridge.forget(descriptor)
        self.up = self.down = -1


class Bridge:
    def __init__(self, port: int) -> None:
        self.selector = selectors.DefaultSelector()
        self.handed = socket.socket(fileno=HANDED)
        self.handed.setblocking(False)
        os.set_blocking(ASKING, False)
        self.listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", port))
        self.listener.listen(BACKLOG)
        self.listener.setblocking(False)
        self.waiting: collections.deque[socket.socket] = collections.deque()
        self.relays: set[Relay] = set()
        self.unasked = 1  # bytes that are still to be written; the first says that we listen
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self.most = max(1, min(MOST, (files - SPARE_FILES) // 3))
        self.watch(HANDED, selectors.EVENT_READ, self.on_handed)

    def watch(self, descriptor: int, events: int, call: Callable[[int], None]) -> None:
        key = self.selector.get_map().get(descriptor)
        if not events:
            if key is not None:
                self.selector.unregister(descriptor)
        elif key is None:
            self.selector.register(descriptor, events, call)
        elif key.events != events:
            self.selector.modify(descriptor, events, call)

    def forget(self, descriptor: int, close: bool = True) -> None:
        if self.selector.get_map().get(descriptor) is not None:
            self.selector.unregister(descriptor)
        if close:
            os.close(descriptor)

    def on_client(self, events: int) -> None:
        try:
            client, _ = self.listener.accept()
        except OSError:  # it has gone again, or the machine has no descriptor left
            time.sleep(0.01)
            return
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.waiting.append(client)
        self.unasked += 1

    def on_asking(self, events: int) -> None:
        try:
            self.unasked -= os.write(ASKING, b"c" * self.unasked)
        except BlockingIOError:
            return
        except BrokenPipeError:
            raise SystemExit(0) from None  # the runtime has ended

    def on_handed(self, events: int) -> None:
        space = socket.CMSG_SPACE(2 * array.array("i").itemsize)
        try:
            data, ancillary, _, _ = self.handed.recvmsg(16, space, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return
        if not data:
            raise SystemExit(0)  # the runtime has ended
        descriptors = array.array("i")
        for level, kind, payload in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                descriptors.frombytes(payload[: len(payload) - len(payload) % descriptors.itemsize])
        client = self.waiting.popleft() if self.waiting else None
        if client is None or len(descriptors) != 2:
            for descriptor in descriptors:
                os.close(descriptor)
            if client is not None:
                client.close()
            return
        self.relays.add(Relay(self, client, *descriptors))

    def run(self) -> None:
        while True:
            room = len(self.waiting) + len(self.relays) < self.most
            self.watch(self.listener.fileno(), selectors.EVENT_READ if room else 0, self.on_client)
            self.watch(ASKING, selectors.EVENT_WRITE if self.unasked else 0, self.on_asking)
            lingering = any(relay.ending for relay in self.relays)
            touched = set()
            for key, ready in self.selector.select(0.2 if lingering else None):
                call = key.data
                relay = getattr(call, "__self__", None)
                if not isinstance(relay, Relay):
                    call(ready)
                    continue
                if relay in self.relays:
                    self.step(relay, call, ready)
                    touched.add(relay)
            now = time.monotonic()
            for relay in list(self.relays if lingering else touched):
                if relay.over(now):
                    self.end(relay)

    def step(self, relay: Relay, call: Callable[[int], None], ready: int) -> None:
        try:
            call(ready)
            relay.watch()
        except OSError:  # the client has gone
            self.end(relay)

    def end(self, relay: Relay) -> None:
        if relay in self.relays:
            self.relays.remove(relay)
            relay.close()


def main() -> None:
    try:
        bridge = Bridge(int(sys.argv[1]))
    except OSError:
        raise SystemExit(PORT_TAKEN) from None
    bridge.run()


if __name__ == "__main__":
    main()
