"""The peer: stock ipykernel of the same environment, over zmq ipc, by a client that does as little as one can.

Messages are made and read by jupyter_client's `Session`, sockets are pyzmq's for asyncio. The client keeps counts
and no output. RCVHWM is 0, as is advised against lost output; the kernel is as it ships, its history included.
"""

import asyncio
import json
import os
import secrets
import signal
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zmq
import zmq.asyncio
from jupyter_client.session import Session

START_SECONDS = 60.0
HELLO_SECONDS = 1.0
RECONNECT_MILLISECONDS = 5
"""A socket looks so often whether a kernel that starts listens by now; zmq's own 100 would be the kernel's loss."""
POLL_SECONDS = 1.0
"""How often a client asks whether the process lives: zmq itself says nothing of a death. nbclient asks so often."""

_PORTS = {"shell_port": 1, "iopub_port": 2, "stdin_port": 3, "control_port": 4, "hb_port": 5}


@dataclass(slots=True)
class Seen:
    """What came of one execution."""

    ok: bool = False
    died: bool = False
    text_bytes: int = 0
    text: str = ""
    """The last stream message of up to 1,000 characters."""
    first_text: float = 0.0
    """When the first stream message came, by `time.perf_counter`."""
    displays: int = 0
    updates: int = 0
    html: str = ""


class RawKernel:
    """One kernel and its client."""

    def __init__(self, python: Path, directory: Path) -> None:
        self._python, self._directory = python, directory
        self._key = secrets.token_hex(32).encode()
        self._session = Session(key=self._key)
        self._context = zmq.asyncio.Context()
        self._shell: zmq.asyncio.Socket = self._context.socket(zmq.DEALER)
        self._iopub: zmq.asyncio.Socket = self._context.socket(zmq.SUB)
        self._process: subprocess.Popen[bytes] | None = None
        self._awaited: asyncio.Future[Any] | None = None
        self._looking: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Start it, and wait until it answers and both sockets are heard."""
        self._launch()
        async with asyncio.timeout(START_SECONDS):
            await self._hello()
        self._look_after()

    async def first_result(self, code: str) -> bool:
        """Start it with this code, sent before it listens; wait for the reply and nothing else. Whether that says ok.

        What comes over iopub is not waited for: a subscriber has to be there before it is sent, which takes longer.
        """
        self._launch()
        async with asyncio.timeout(START_SECONDS):
            self._session.send(self._shell, "execute_request", _request(code))
            reply = await self._receive(self._shell, Seen())
        return reply is not None and reply["content"]["status"] == "ok"

    @property
    def pid(self) -> int:
        """Its process, once it has been started."""
        if self._process is None:
            raise RuntimeError("the kernel has not been started")
        return self._process.pid

    def _launch(self) -> None:
        address = self._directory / "k"
        file = self._directory / "connection.json"
        connection = {
            "transport": "ipc",
            "ip": str(address),
            "key": self._key.decode(),
            "signature_scheme": "hmac-sha256",
            **_PORTS,
        }
        file.write_text(json.dumps(connection))
        self._process = subprocess.Popen(
            [self._python, "-m", "ipykernel_launcher", "-f", file],
            cwd=self._directory,
            env={
                **{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
                "IPYTHONDIR": str(self._directory / "ipython"),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for socket in (self._shell, self._iopub):
            socket.linger = 0
            socket.rcvhwm = 0
            socket.reconnect_ivl = RECONNECT_MILLISECONDS
        self._iopub.subscribe(b"")
        self._shell.connect(f"ipc://{address}-{_PORTS['shell_port']}")
        self._iopub.connect(f"ipc://{address}-{_PORTS['iopub_port']}")

    async def _hello(self) -> None:
        """Until something came on both sockets, and then nothing more."""
        heard: set[zmq.asyncio.Socket] = set()
        while len(heard) < 2:
            self._session.send(self._shell, "kernel_info_request", {})
            for socket in (self._shell, self._iopub):
                if await socket.poll(HELLO_SECONDS * 1000):
                    heard.add(socket)
        for socket in (self._shell, self._iopub):
            while await socket.poll(100):
                await socket.recv_multipart()

    async def execute(self, code: str) -> Seen:
        """Send it and read until idle and reply, as a client has to; or until the process is seen to be gone."""
        sent = self._session.send(self._shell, "execute_request", _request(code))
        if sent is None:
            raise RuntimeError("jupyter_client sent nothing")
        msg_id: str = sent["header"]["msg_id"]
        seen = Seen()
        while not seen.died:
            message = await self._receive(self._iopub, seen)
            if message is None or message["parent_header"].get("msg_id") != msg_id:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "status" and content["execution_state"] == "idle":
                break
            _take(seen, kind, content)
        while not seen.died:
            reply = await self._receive(self._shell, seen)
            if reply is not None and reply["parent_header"].get("msg_id") == msg_id:
                seen.ok = reply["content"]["status"] == "ok"
                break
        return seen

    async def first_text(self, code: str) -> float:
        """Seconds from the call to the first text; the execution is awaited to its end."""
        start = time.perf_counter()
        seen = await self.execute(code)
        return seen.first_text - start if seen.first_text else 0.0

    async def _receive(self, socket: zmq.asyncio.Socket, seen: Seen) -> dict[str, Any] | None:
        self._awaited = awaited = asyncio.ensure_future(socket.recv_multipart())
        try:
            received = await awaited
        except asyncio.CancelledError:
            if self._alive():
                raise
            seen.died = True
            return None
        _, frames = self._session.feed_identities(received)
        message: dict[str, Any] = self._session.deserialize(frames)
        return message

    def _alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _look_after(self) -> None:
        """zmq says nothing of a death: a client can but ask now and then whether the process lives."""
        if self._alive():
            self._looking = asyncio.get_running_loop().call_later(POLL_SECONDS, self._look_after)
        elif self._awaited is not None:
            self._awaited.cancel()

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGKILL)
            await asyncio.to_thread(self._process.wait)
        self._shell.close()
        self._iopub.close()
        self._context.term()


def _request(code: str) -> dict[str, Any]:
    return {
        "code": code,
        "silent": False,
        "store_history": True,
        "user_expressions": {},
        "allow_stdin": False,
    }


def _take(seen: Seen, kind: str, content: dict[str, Any]) -> None:
    match kind:
        case "stream":
            seen.first_text = seen.first_text or time.perf_counter()
            text = content["text"]
            seen.text_bytes += len(text) if text.isascii() else len(text.encode())
            if len(text) <= 1000:
                seen.text = text
        case "display_data":
            seen.displays += 1
            seen.html = content["data"].get("text/html", "")
        case "update_display_data":
            seen.updates += 1
            seen.html = content["data"].get("text/html", "")


@asynccontextmanager
async def raw_kernel(python: Path, directory: Path, *, start: bool = True) -> AsyncIterator[RawKernel]:
    """One kernel, started unless that is to be measured, and its end."""
    directory.mkdir()
    kernel = RawKernel(python, directory)
    try:
        if start:
            await kernel.start()
        yield kernel
    finally:
        await kernel.close()
