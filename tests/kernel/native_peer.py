"""The other end of a native kernel: keeps the protocol, and breaks it where the code that it is sent says so.

`python native_peer.py SOCKET_FD CODE`: CODE is run first. Then each execute_request's code is run between busy and
idle, with the names of this module and `peer`, `parent`. Standard library only.
"""

import array
import json
import os
import select
import signal  # noqa: F401 - for the code
import socket
import struct
import subprocess  # noqa: F401 - for the code
import sys
from collections.abc import Mapping
from typing import Any

HEAD = struct.Struct(">IIQ")
MARK = struct.Struct(">QQ")


def dump(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


class Peer:
    def __init__(self, fd: int) -> None:
        self.socket = socket.socket(fileno=fd)
        self.nonce = b""
        self.start: dict[str, Any] = {}
        self.epoch = self.frames = 0
        self.forked = False
        self.descriptors: list[int] = []
        self._received = b""

    # out

    def marker(self, epoch: int, frames: int) -> bytes:
        return b"\x00\x01" + self.nonce + MARK.pack(epoch, frames)

    def mark(self, coming: int = 0) -> None:
        """A marker in both pipes; `coming`: frames that go out before the next text."""
        self.epoch += 1
        for fd in (1, 2):
            write(fd, self.marker(self.epoch, self.frames + coming))

    def frame(
        self,
        msg_type: str,
        content: Mapping[str, Any] | bytes,
        *,
        channel: str = "iopub",
        buffers: tuple[bytes, ...] = (),
        **header: Any,
    ) -> bytes:
        self.frames += 1
        header = {"type": msg_type, "channel": channel, "epoch": self.epoch, "number": self.frames, **header}
        if buffers:
            header["buffers"] = [len(part) for part in buffers]
        body = content if isinstance(content, bytes) else dump(content)
        head = dump(header)
        return HEAD.pack(len(head), len(body), sum(map(len, buffers))) + head + body + b"".join(buffers)

    def say(self, msg_type: str, content: Mapping[str, Any] | bytes, **header: Any) -> None:
        """A frame in its place among the text."""
        self.mark(1)
        self.socket.sendall(self.frame(msg_type, content, **header))

    def status(self, state: str, parent: str) -> None:
        self.say("status", {"execution_state": state}, parent=parent)

    # in

    def _read(self, count: int) -> bytes:
        while len(self._received) < count:
            data, ancillary, _, _ = self.socket.recvmsg(1 << 16, socket.CMSG_SPACE(64))
            for _, _, payload in ancillary:
                self.descriptors.extend(array.array("i", payload))
            if not data:
                os._exit(0)
            self._received += data
        taken, self._received = self._received[:count], self._received[count:]
        return taken

    def request(self) -> tuple[dict[str, Any], dict[str, Any]]:
        head, content, buffers = HEAD.unpack(self._read(HEAD.size))
        assert not buffers
        header = json.loads(self._read(head))
        return header, json.loads(self._read(content))

    # the protocol as it should be

    def begin(self) -> None:
        header, self.start = self.request()
        assert header["type"] == "start"
        self.nonce = bytes.fromhex(self.start["nonce"])
        os.close(self.descriptors.pop(0))  # memory for what is printed; this one prints by hand
        language = {"name": "python", "version": "3.11.0"}
        info = {
            "implementation": "peer",
            "protocol_version": "5.4",
            "language_info": language,
            "banner": "hi",
        }
        self.say("kernel_info_reply", info, channel="shell", parent=header["id"])

    def serve(self, names: dict[str, Any]) -> None:
        while True:
            header, content = self.request()
            self.take_pipes()
            parent = header["id"]
            self.status("busy", parent)
            exec(content["code"], {**names, "peer": self, "parent": parent})
            more = {"forked": True} if self.forked else {}
            self.say("execute_reply", {"status": "ok"}, channel="shell", parent=parent, **more)
            self.status("idle", parent)

    def take_pipes(self) -> None:
        """The service says that children of an earlier request hold the old ones."""
        if self.descriptors:
            for number, fd in enumerate(self.descriptors, start=1):
                os.dup2(fd, number)
                os.close(fd)
            self.descriptors.clear()
            self.forked = False


def wait_for_ever() -> None:
    select.select([], [], [])


def child(code: str) -> int:
    """A process that holds 1 and 2 and nothing else, and does what the code says."""
    pid = os.fork()
    if pid == 0:
        os.closerange(3, 64)
        exec(code, globals())
        os._exit(0)
    return pid


if __name__ == "__main__":
    me = Peer(int(sys.argv[1]))
    exec(sys.argv[2], {**globals(), "peer": me})
    me.begin()
    me.serve(globals())
