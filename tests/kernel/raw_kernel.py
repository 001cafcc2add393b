"""A kernel that misbehaves: ZMTP and Jupyter messages by hand, on blocking sockets, with no library.

What it has sent is in the reader's socket when `send` returns, so that "before it died" has a plain meaning.
Started as `python raw_kernel.py CONNECTION_FILE ACT`; ACT names one of the functions at the end.
"""

import hashlib
import hmac
import json
import os
import signal
import socket
import sys
import time
from typing import Any

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
CHANNELS = {
    "shell": (1, b"ROUTER"),
    "iopub": (2, b"XPUB"),
    "stdin": (3, b"ROUTER"),
    "control": (4, b"ROUTER"),
}


def frame(body: bytes, flags: int = 0) -> bytes:
    if len(body) < 256:
        return bytes([flags, len(body)]) + body
    return bytes([flags | 2]) + len(body).to_bytes(8, "big") + body


class RawKernel:
    def __init__(self, connection_file: str) -> None:
        with open(connection_file) as file:
            self.info = json.load(file)
        self.sockets: dict[str, socket.socket] = {}
        self.listeners: dict[str, socket.socket] = {}
        self.count = 0
        self.parent: dict[str, Any] = {}

    def path(self, name: str) -> str:
        return f"{self.info['ip']}-{CHANNELS[name][0]}"

    def listen(self, *names: str) -> None:
        for name in names or CHANNELS:
            self.listeners[name] = socket.socket(socket.AF_UNIX)
            self.listeners[name].bind(self.path(name))
            self.listeners[name].listen()

    def accept(self) -> None:
        for name in self.listeners:
            connection, _ = self.listeners[name].accept()
            self.sockets[name] = connection
            kind = CHANNELS[name][1]
            ready = b"\x05READY\x0bSocket-Type" + len(kind).to_bytes(4, "big") + kind
            connection.sendall(GREETING + frame(ready, 4))
            assert self.exactly(connection, 64) == GREETING
            self.frame(connection)
        assert self.frame(self.sockets["iopub"]) == (b"\x01", 0)

    def exactly(self, connection: socket.socket, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = connection.recv(count - len(data))
            if not more:
                sys.exit("the client has gone")
            data += more
        return data

    def frame(self, connection: socket.socket) -> tuple[bytes, int]:
        flags, length = self.exactly(connection, 2)
        if flags & 2:
            length = int.from_bytes(bytes([length]) + self.exactly(connection, 7), "big")
        return self.exactly(connection, length), flags & 1

    def request(self) -> tuple[str, dict[str, Any]]:
        """The next request on shell; replies and outputs are then its children."""
        frames: list[bytes] = []
        more = 1
        while more:
            body, more = self.frame(self.sockets["shell"])
            frames.append(body)
        self.parent = json.loads(frames[2])
        return self.parent["msg_type"], json.loads(frames[5])

    def message(self, msg_type: str, content: dict[str, Any]) -> bytes:
        self.count += 1
        header = {"msg_id": f"raw_{os.getpid()}_{self.count}", "msg_type": msg_type}
        parts = [json.dumps(part).encode() for part in (header, self.parent, {}, content)]
        signature = hmac.new(self.info["key"].encode(), b"".join(parts), hashlib.sha256).hexdigest().encode()
        frames = [b"<IDS|MSG>", signature, *parts]
        return b"".join(frame(body, number < 5) for number, body in enumerate(frames))

    def send(self, channel: str, msg_type: str, content: dict[str, Any]) -> None:
        self.sockets[channel].sendall(self.message(msg_type, content))

    def status(self, state: str) -> None:
        self.send("iopub", "status", {"execution_state": state})

    def stream(self, text: str, name: str = "stdout") -> None:
        self.send("iopub", "stream", {"name": name, "text": text})

    def hello(self) -> dict[str, Any]:
        """Up to the first execute_request."""
        while True:
            msg_type, content = self.request()
            if msg_type == "execute_request":
                return content
            self.status("busy")
            self.send("shell", "kernel_info_reply", {"status": "ok", "implementation": "raw"})
            self.status("idle")

    def finish(self) -> None:
        self.send("shell", "execute_reply", {"status": "ok", "execution_count": 1})
        self.status("idle")

    def begin(self) -> dict[str, Any]:
        self.listen()
        self.accept()
        return self.hello()


def wait_for_ever() -> None:
    while True:
        signal.pause()


# the acts


def normal(kernel: RawKernel) -> None:
    kernel.begin()
    while True:
        kernel.status("busy")
        kernel.stream("hello\n")
        kernel.finish()
        kernel.request()


def mute(kernel: RawKernel) -> None:
    kernel.listen()
    kernel.accept()
    print("I say nothing", file=sys.stderr, flush=True)
    wait_for_ever()


def no_handshake(kernel: RawKernel) -> None:
    kernel.listen()
    wait_for_ever()


def no_sockets(kernel: RawKernel) -> None:
    print("not today", flush=True)
    wait_for_ever()


def hang_up(kernel: RawKernel) -> None:
    """Closes the door on whoever comes, and lives on."""
    kernel.listen()
    kernel.listeners["shell"].accept()[0].close()
    wait_for_ever()


def hang_up_and_die(kernel: RawKernel) -> None:
    kernel.listen()
    connection = kernel.listeners["shell"].accept()[0]
    print("something broke", file=sys.stderr, flush=True)
    connection.close()
    sys.exit(3)


def link(kernel: RawKernel) -> None:
    os.symlink("/dev/null", kernel.path("shell"))
    wait_for_ever()


def link_to_socket(kernel: RawKernel) -> None:
    real = socket.socket(socket.AF_UNIX)
    real.bind(kernel.path("shell") + "x")
    real.listen()
    os.symlink(kernel.path("shell") + "x", kernel.path("shell"))
    wait_for_ever()


def file(kernel: RawKernel) -> None:
    open(kernel.path("shell"), "w").close()
    wait_for_ever()


def directory(kernel: RawKernel) -> None:
    os.mkdir(kernel.path("iopub"))
    kernel.listen("shell")
    connection, _ = kernel.listeners["shell"].accept()
    connection.sendall(GREETING + frame(b"\x05READY", 4))
    wait_for_ever()


def wrong_signature(kernel: RawKernel) -> None:
    kernel.listen()
    kernel.accept()
    kernel.info["key"] = "another"
    kernel.hello()


def noisy_start(kernel: RawKernel) -> None:
    """Writes to its descriptors before, between and after its first replies."""
    print("warning: one", file=sys.stderr, flush=True)
    kernel.listen()
    kernel.accept()
    print("warning: two", file=sys.stderr, flush=True)
    kernel.hello()
    kernel.finish()
    wait_for_ever()


def litter(kernel: RawKernel) -> None:
    """Fills its directory with what has no business there."""
    top = os.path.dirname(kernel.info["ip"])
    os.makedirs(top + "/a/b/c")
    os.symlink("/", top + "/a/root")
    os.mkfifo(top + "/fifo")
    normal(kernel)


def close_iopub(kernel: RawKernel) -> None:
    kernel.begin()
    kernel.stream("before\n")
    kernel.sockets["iopub"].close()
    wait_for_ever()


def close_shell_and_exit(kernel: RawKernel) -> None:
    """A process that ends closes its sockets first, one after the other."""
    kernel.begin()
    kernel.sockets["shell"].close()
    kernel.stream("still here\n")
    os._exit(5)


def garbage(kernel: RawKernel) -> None:
    kernel.begin()
    kernel.sockets["iopub"].sendall(b"\xff" * 64)
    wait_for_ever()


def oversized(kernel: RawKernel) -> None:
    kernel.begin()
    kernel.stream("before\n")
    kernel.sockets["iopub"].sendall(b"\x03" + (129 << 20).to_bytes(8, "big") + b"x" * 1000)
    wait_for_ever()


def oversized_reply(kernel: RawKernel) -> None:
    kernel.begin()
    kernel.sockets["shell"].sendall(b"\x03" + (130 << 20).to_bytes(8, "big") + b"x" * 1000)
    wait_for_ever()


def burst_and_exit(kernel: RawKernel) -> None:
    """COUNT stream messages of 1,000 characters, then text on both descriptors, then the end."""
    kernel.begin()
    for number in range(int(os.environ["COUNT"])):
        kernel.stream(f"{number:06}{'x' * 993}\n")
    os.write(1, b"o" * 30_000)
    os.write(2, b"e" * 30_000)
    os._exit(9)


def orphan(kernel: RawKernel) -> None:
    """Dies while a child holds all of its descriptors and goes on writing to them."""
    kernel.begin()
    kernel.stream("parent\n")
    if os.fork() == 0:
        while True:
            os.write(1, b"child\n")
            time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGSEGV)


def by_signal(kernel: RawKernel) -> None:
    kernel.begin()
    kernel.stream("before\n")
    number = int(os.environ["SIGNAL"])
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)  # whatever the tests were started with
    os.kill(os.getpid(), number)
    wait_for_ever()


def interrupted(kernel: RawKernel) -> None:
    """Answers an interrupt by signal, or one by message on control, with what it got."""
    hits: list[str] = []
    signal.signal(signal.SIGINT, lambda *_: hits.append("signal"))
    kernel.begin()
    kernel.stream("running\n")
    if os.environ.get("BY") == "message":
        frames: list[bytes] = []
        more = 1
        while more:
            body, more = kernel.frame(kernel.sockets["control"])
            frames.append(body)
        hits.append(json.loads(frames[2])["msg_type"])
    while not hits:
        time.sleep(0.001)
    kernel.stream(hits[0])
    kernel.finish()
    wait_for_ever()


def deaf(kernel: RawKernel) -> None:
    """Takes nothing after its first request."""
    kernel.begin()
    kernel.finish()
    wait_for_ever()


def gap(kernel: RawKernel) -> None:
    """Numbers a message that it does not send."""
    kernel.begin()
    kernel.stream("one\n")
    kernel.count += 2
    kernel.stream("two\n")
    kernel.finish()
    wait_for_ever()


if __name__ == "__main__":
    globals()[sys.argv[2]](RawKernel(sys.argv[1]))
