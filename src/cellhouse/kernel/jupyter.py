"""Any kernel that a kernelspec describes, over its own protocol on private unix sockets."""

import asyncio
import contextlib
import os
import secrets
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cellhouse.kernel.base import KernelGone, KernelProcess, KernelStartFailed, Trouble
from cellhouse.kernel.life import MAX_UNSENT_BYTES, START_SECONDS, KernelLife, kernel_info
from cellhouse.kernel.loss import LossDetector
from cellhouse.kernel.pipes import PipeReader
from cellhouse.kernel.place import MeetingPlace, NotASocket
from cellhouse.kernel.wire import BadMessage, Wire
from cellhouse.kernel.zmtp import Frame, SocketType, ZmtpConnection, ZmtpError
from cellhouse.messages import Message, RawText
from cellhouse.model import MESSAGE_BYTES

CONTROL_BYTES = 16 << 20
"""One message on stdin or control: prompts and replies to interrupts have no business being larger."""
_POLL_SECONDS = 0.003
_RETRY_SECONDS = 0.05

_CHANNELS: Mapping[str, tuple[SocketType, int]] = {
    # channel: (our socket's type, largest message); the order gives the socket's number
    "shell": ("DEALER", MESSAGE_BYTES),
    "iopub": ("SUB", MESSAGE_BYTES),
    "stdin": ("DEALER", CONTROL_BYTES),
    "control": ("DEALER", CONTROL_BYTES),
}
_PORTS = {name: number for number, name in enumerate([*_CHANNELS, "hb"], start=1)}


@dataclass(frozen=True, slots=True)
class Launch:
    """How one kernel is started. `argv` may hold `{connection_file}` and `{resource_dir}`."""

    argv: Sequence[str]
    env: Mapping[str, str]
    interrupt_mode: Literal["signal", "message"] = "signal"
    resource_dir: str = ""
    name: str = "kernel"


Spawn = Callable[[Sequence[str], Mapping[str, str]], Awaitable[KernelProcess]]


class JupyterKernel(KernelLife):
    """A kernel process behind four ZMTP connections, each to a socket in a directory of this kernel alone.

    `host_dir` is that directory as the service sees it (made here, removed by `close`), `inside_dir` the
    same place as the kernel sees it. Sockets are reached through O_PATH descriptors that never follow a
    link, so a kernel can't lead its client elsewhere.
    """

    def __init__(
        self,
        launch: Launch,
        *,
        host_dir: Path,
        inside_dir: str,
        spawn: Spawn,
        start_seconds: float = START_SECONDS,
        walls_gone: Callable[[], Awaitable[str]] | None = None,
    ) -> None:
        """`walls_gone` says, after a moment, what is known of walls that went; empty where they stand."""
        super().__init__(launch.name, start_seconds=start_seconds, walls_gone=walls_gone)
        self._launch = launch
        self._place = MeetingPlace(host_dir, inside_dir)
        self._spawn = spawn
        self._wire = Wire(key=secrets.token_hex(32).encode(), session=uuid.uuid4().hex)
        self._identity = self._wire.session.encode()
        self._loss = LossDetector()
        self._connections: dict[str, ZmtpConnection] = {}
        self._open: set[str] = set()
        self._pipes: list[PipeReader] = []
        self._interrupts = 0

    # life

    async def _start(self) -> None:
        connection_file = self._place.make(_PORTS, self._wire.key.decode(), self._launch.name)
        values = {"connection_file": connection_file, "resource_dir": self._launch.resource_dir}
        argv = [_fill(part, values) for part in self._launch.argv]
        process = await self._spawn(argv, self._launch.env)
        self._pipes = [
            PipeReader(process.stdout_fd, "stdout", self._raw),
            PipeReader(process.stderr_fd, "stderr", self._raw),
        ]
        self._watch(process)
        for name in _CHANNELS:
            await self._connect(name)
        await self._say_hello()

    async def _connect(self, name: str) -> None:
        socket_type, limit = _CHANNELS[name]
        while True:
            self._check_alive()
            try:
                fd = self._place.open_socket(_PORTS[name])
            except NotASocket as error:
                raise KernelStartFailed(
                    f"kernel {self._launch.name!r} {error}", log=self._log_tail()
                ) from None
            if fd is not None:
                try:
                    connection = await self._dial(fd, name, socket_type, limit)
                    await connection.ready()
                except OSError:  # bound, but not yet listening
                    connection = None
                except ZmtpError as error:
                    await self._dying()
                    raise KernelStartFailed(
                        f"kernel {self._launch.name!r}, channel {name}: {error}", log=self._log_tail()
                    ) from None
                finally:
                    os.close(fd)
                if connection is not None:
                    return
            await asyncio.sleep(_POLL_SECONDS)

    async def _dial(self, fd: int, name: str, socket_type: SocketType, limit: int) -> ZmtpConnection:
        def make() -> ZmtpConnection:
            return ZmtpConnection(
                socket_type,
                identity=self._identity if socket_type == "DEALER" else b"",
                max_message=limit,
                on_message=lambda frames, size: self._message(name, frames, size),
                on_closed=lambda error: self._connection_closed(name, error),
            )

        loop = asyncio.get_running_loop()
        _, connection = await loop.create_unix_connection(make, f"/proc/self/fd/{fd}")
        self._connections[name] = connection
        self._open.add(name)
        return connection

    async def _say_hello(self) -> None:
        """Ask for kernel_info until both the reply and some iopub message came: the subscription holds then."""
        reply: Message | None = None
        heard = False
        while reply is None or not heard:
            self._check_alive()
            self.send("shell", "kernel_info_request", {})
            until = asyncio.get_running_loop().time() + _RETRY_SECONDS * (1 if reply else 20)
            while reply is None or not heard:
                left = until - asyncio.get_running_loop().time()
                item = await self._inbox.get(left) if left > 0 else None
                if item is None:
                    break
                match item:
                    case Message(channel="iopub"):
                        heard = True
                    case Message(channel="shell", msg_type="kernel_info_reply"):
                        reply = item
                    case _:
                        await self._heard_at_start(item)
        self.info = kernel_info(reply)

    async def _give_back(self) -> None:
        for connection in self._connections.values():
            connection.abort()
        for pipe in self._pipes:
            pipe.close()
        if self._connections:
            await asyncio.sleep(0)  # lets the loop close the sockets of aborted transports
        self._place.remove()

    # traffic

    def send(self, channel: str, msg_type: str, content: Mapping[str, Any], *, msg_id: str = "") -> str:
        connection = self._connections.get(channel)
        if connection is None or channel not in self._open:
            raise KernelGone(f"channel {channel} of kernel {self._launch.name!r} is closed")
        if connection.unsent > MAX_UNSENT_BYTES:
            raise KernelGone(f"kernel {self._launch.name!r} does not read its {channel} channel")
        msg_id = msg_id or uuid.uuid4().hex
        try:
            connection.send(self._wire.pack(msg_type, content, msg_id=msg_id))
        except ZmtpError as error:
            raise KernelGone(str(error)) from None
        return msg_id

    def drain(self) -> None:
        for pipe in self._pipes:
            pipe.drain()

    def lost_messages(self, *, take: bool = False) -> int:
        return self._loss.take() if take else self._loss.suspected

    def interrupt(self) -> None:
        if self._launch.interrupt_mode == "message":
            with contextlib.suppress(KernelGone):  # its death is told by itself
                self.send("control", "interrupt_request", {})
                self._interrupts += 1
        else:
            self._interrupt_group()

    @property
    def interrupting(self) -> bool:
        return self._interrupts > 0

    def _message(self, name: str, frames: list[Frame], size: int) -> None:
        assert name in ("shell", "iopub", "stdin", "control")
        try:
            message = self._wire.unpack(name, frames, size)  # type: ignore[arg-type]
        except BadMessage as error:
            self._inbox.put(Trouble("MALFORMED_MESSAGE", f"dropped a message on {name}: {error}"), 0)
            return
        self._loss.see(message.msg_id)
        if message.msg_type == "interrupt_reply" and name == "control":
            self._interrupts = max(0, self._interrupts - 1)
        self._inbox.put(message, size)

    def _raw(self, text: RawText) -> None:
        self._inbox.put(text, len(text.data))

    def _connection_closed(self, name: str, error: ZmtpError | None) -> None:
        self._open.discard(name)
        if error is not None and error.oversized:
            text, limit = f"the kernel sent {error} on {name}", _CHANNELS[name][1]
            self._channel_closed(text, error, oversized=error.oversized, limit=limit)
        else:
            self._channel_closed(f"the kernel closed its {name} channel", error)

    def _hold(self) -> None:
        for name in self._open:
            self._connections[name].pause()
        for pipe in self._pipes:
            pipe.pause()

    def _release(self) -> None:
        for name in self._open:
            self._connections[name].resume()
        for pipe in self._pipes:
            pipe.resume()

    def _take_last(self) -> None:
        for connection in self._connections.values():
            connection.drain()
        self.drain()
        self._open.clear()
        for connection in self._connections.values():
            connection.abort()
        for pipe in self._pipes:
            pipe.close()


def _fill(part: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        part = part.replace("{" + name + "}", value)
    return part
