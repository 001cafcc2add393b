"""A kernel over real zmq sockets whose requests are programs for itself: it says just what they tell it to say.

Started with a connection file like any other. The code of an execute_request is Python, with `k`, a kernel that has the
same words as tests/kernel/fake.py; what it does not say is not said, replies and idles included.
"""

import hashlib
import hmac
import json
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import Any

import zmq


class HostileKernel:
    def __init__(self, connection_file: str) -> None:
        with open(connection_file) as file:
            self.info: dict[str, Any] = json.load(file)
        self.context = zmq.Context()
        kinds = {"shell": zmq.ROUTER, "iopub": zmq.XPUB, "stdin": zmq.ROUTER, "control": zmq.ROUTER}
        self.sockets = {name: self.bind(name, kind) for name, kind in kinds.items()}
        self.parent: dict[str, Any] = {}
        self.identity = b""
        self.number = 0
        self.count = 0

    def bind(self, name: str, kind: int) -> "zmq.Socket[bytes]":
        socket = self.context.socket(kind)
        if kind == zmq.XPUB:
            socket.setsockopt(zmq.XPUB_NODROP, 1)
        socket.bind(f"ipc://{self.info['ip']}-{self.info[f'{name}_port']}")
        return socket

    # words

    def say(
        self,
        msg_type: str,
        content: object,
        *,
        channel: str = "iopub",
        parent: str | None = None,
        key: bytes | None = None,
        buffers: Sequence[bytes] = (),
    ) -> None:
        """Send a message. `content` may be its bytes; `key` signs it with another key."""
        self.number += 1
        header = {"msg_id": f"hostile_{os.getpid()}_{self.number}", "msg_type": msg_type}
        parent_header = self.parent if parent is None else {"msg_id": parent}
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        parts = [json.dumps(header).encode(), json.dumps(parent_header).encode(), b"{}", body]
        signing = self.info["key"].encode() if key is None else key
        signature = hmac.new(signing, b"".join(parts), hashlib.sha256).hexdigest().encode()
        self.send(channel, [b"<IDS|MSG>", signature, *parts, *buffers])

    def send(self, channel: str, frames: Sequence[bytes]) -> None:
        routing = [] if channel == "iopub" else [self.identity]
        self.sockets[channel].send_multipart([*routing, *frames])

    def busy(self) -> None:
        self.say("status", {"execution_state": "busy"})

    def idle(self, *, parent: str | None = None) -> None:
        self.say("status", {"execution_state": "idle"}, parent=parent)

    def echo(self, code: str = "") -> None:
        self.count += 1
        self.say("execute_input", {"code": code, "execution_count": self.count})

    def stream(self, text: object, name: str = "stdout", *, parent: str | None = None) -> None:
        self.say("stream", {"name": name, "text": text}, parent=parent)

    def raw(self, text: str, name: str = "stdout") -> None:
        os.write(2 if name == "stderr" else 1, text.encode())

    def display(self, data: object, display_id: str = "", *, parent: str | None = None) -> None:
        transient = {"display_id": display_id} if display_id else {}
        self.say("display_data", {"data": data, "metadata": {}, "transient": transient}, parent=parent)

    def value(self, data: object) -> None:
        self.say("execute_result", {"data": data, "metadata": {}, "execution_count": self.count})

    def error(self, name: object, value: object) -> None:
        self.say("error", {"ename": name, "evalue": value, "traceback": [f"{name}: {value}"]})

    def reply(self, status: object = "ok", *, parent: str | None = None, **content: Any) -> None:
        body = {"status": status, "execution_count": self.count, **content}
        self.say("execute_reply", body, channel="shell", parent=parent)

    def reply_error(self, name: str, value: str) -> None:
        self.reply("error", ename=name, evalue=value, traceback=[f"{name}: {value}"])

    def done(self, **content: Any) -> None:
        self.reply(**content)
        self.idle()

    def close_iopub(self) -> None:
        self.sockets["iopub"].close(linger=1000)

    # life

    def serve(self) -> None:
        while True:
            self.identity, *frames = self.sockets["shell"].recv_multipart()
            self.parent, content = json.loads(frames[2]), json.loads(frames[5])
            if self.parent["msg_type"] == "execute_request":
                exec(content["code"], {"k": self, "__name__": "request"})
            elif self.parent["msg_type"] == "kernel_info_request":
                self.busy()
                language = {"name": "python", "version": "0"}
                self.say(
                    "kernel_info_reply",
                    {"status": "ok", "implementation": "hostile", "language_info": language},
                    channel="shell",
                )
                self.idle()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        HostileKernel(sys.argv[1]).serve()
    except BaseException:
        traceback.print_exc()
        os._exit(70)
