"""Any kernel that a kernelspec describes, over its own protocol on private unix sockets."""

import asyncio
import contextlib
import os
import secrets
import signal
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from cellhouse.files import FileError
from cellhouse.kernel.base import (
    Died,
    KernelGone,
    KernelInfo,
    KernelItem,
    KernelProcess,
    KernelStartFailed,
    Trouble,
)
from cellhouse.kernel.inbox import Inbox
from cellhouse.kernel.loss import LossDetector
from cellhouse.kernel.pipes import PipeReader
from cellhouse.kernel.place import MeetingPlace, NotASocket
from cellhouse.kernel.wire import BadMessage, Wire
from cellhouse.kernel.zmtp import Frame, SocketType, ZmtpConnection, ZmtpError
from cellhouse.messages import Message, RawText
from cellhouse.model import MESSAGE_BYTES

CONTROL_BYTES = 16 << 20
"""One message on stdin or control: prompts and replies to interrupts have no business being larger."""
START_SECONDS = 60.0
LOG_CHARS = 8192
MAX_UNSENT_BYTES = 32 << 20
CLOSE_GRACE_SECONDS = 2.0
STUCK_SECONDS = 5.0
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


class JupyterKernel:
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
        self.info = KernelInfo()
        self._launch = launch
        self._place = MeetingPlace(host_dir, inside_dir)
        self._spawn = spawn
        self._walls_gone = walls_gone
        self._start_seconds = start_seconds
        self._wire = Wire(key=secrets.token_hex(32).encode(), session=uuid.uuid4().hex)
        self._identity = self._wire.session.encode()
        self._inbox = Inbox(on_high=self._hold, on_low=self._release)
        self._loss = LossDetector()
        self._connections: dict[str, ZmtpConnection] = {}
        self._open: set[str] = set()
        self._pipes: list[PipeReader] = []
        self._process: KernelProcess | None = None
        self._closed = False
        self._closer: asyncio.Task[None] | None = None
        self._interrupts = 0
        self._burial: asyncio.Task[None] | None = None
        self._stuck: asyncio.TimerHandle | None = None
        self._given_up = False
        self._closing: asyncio.TimerHandle | None = None
        self._log = ""
        self._complaint = ""

    # life

    async def start(self) -> None:
        try:
            async with asyncio.timeout(self._start_seconds):
                await self._start()
        except TimeoutError:
            log = self._log_tail()
            await self.close()
            raise KernelStartFailed(
                f"kernel {self._launch.name!r} did not answer within {self._start_seconds:g} s{self._complaint}",
                log=log,
            ) from None
        except (OSError, FileError) as error:
            await self.close()
            raise KernelStartFailed(f"kernel {self._launch.name!r} could not be started: {error}") from None
        except BaseException:
            await self.close()
            raise

    async def _start(self) -> None:
        connection_file = self._place.make(_PORTS, self._wire.key.decode(), self._launch.name)
        values = {"connection_file": connection_file, "resource_dir": self._launch.resource_dir}
        argv = [_fill(part, values) for part in self._launch.argv]
        self._process = await self._spawn(argv, self._launch.env)
        self._pipes = [
            PipeReader(self._process.stdout_fd, "stdout", self._raw),
            PipeReader(self._process.stderr_fd, "stderr", self._raw),
        ]
        self._process.exited.add_done_callback(lambda _: self._exited())
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
                on_closed=lambda error: self._channel_closed(name, error),
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
                    case RawText():
                        self._remember(item)
                    case Trouble(fatal=False):
                        self._complaint = f"; {item.text}"
                    case Trouble() | Died():
                        await self._dying()
                        raise KernelStartFailed(
                            f"kernel {self._launch.name!r} failed while starting: {item}",
                            log=self._log_tail(),
                        )
        self.info = _kernel_info(reply)

    def _remember(self, text: RawText) -> None:
        self._log = (self._log + text.data.decode("utf-8", "replace"))[-LOG_CHARS:]

    def _log_tail(self) -> str:
        """The end of what the process wrote so far; empties the inbox, so only for a start that failed."""
        self.drain()
        while (item := self._inbox.get_nowait()) is not None:
            if isinstance(item, RawText):
                self._remember(item)
        return self._log

    async def _dying(self) -> None:
        """Where a channel breaks because the process ends, that end is the better word."""
        if self._process is not None:
            await asyncio.wait([self._process.exited], timeout=CLOSE_GRACE_SECONDS)
            self._check_alive()

    def _check_alive(self) -> None:
        if self._process is None or not self._process.exited.done():
            return
        end = self._process.exited.result()
        how = f"status {end.exit_status}" if end.signal is None else f"signal {end.signal}"
        log = self._log_tail()
        raise KernelStartFailed(
            f"kernel {self._launch.name!r} ended with {how} before it answered",
            log=log,
            exit_status=end.exit_status,
            signal=end.signal,
        )

    async def close(self) -> None:
        if self._closer is None:
            self._closer = asyncio.get_running_loop().create_task(self._close())
        # Whoever gives up waiting must not leave half of it undone.
        await asyncio.shield(self._closer)

    async def _close(self) -> None:
        self._closed = True
        if self._closing is not None:
            self._closing.cancel()
        if self._burial is not None:
            self._burial.cancel()
        if self._stuck is not None:
            self._stuck.cancel()
        if self._process is not None:
            self._process.signal(signal.SIGKILL, True)
            # One that is stuck goes with the walls: nobody may be made to wait for it.
            await asyncio.wait([self._process.exited], timeout=STUCK_SECONDS)
        for connection in self._connections.values():
            connection.abort()
        for pipe in self._pipes:
            pipe.close()
        if self._connections:
            await asyncio.sleep(0)  # lets the loop close the sockets of aborted transports
        self._place.remove()

    # traffic

    async def receive(self, timeout: float | None = None) -> KernelItem | None:
        return await self._inbox.get(timeout)

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

    def wake(self) -> None:
        self._inbox.wake()

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
        elif self._process is not None:
            # The group, as a terminal's Ctrl-C would: the children of a cell are interrupted too.
            self._process.signal(signal.SIGINT, True)

    @property
    def interrupting(self) -> bool:
        return self._interrupts > 0

    def kill(self) -> None:
        if self._process is None:
            return
        self._process.signal(signal.SIGKILL, True)
        if self._stuck is None:
            self._stuck = asyncio.get_running_loop().call_later(STUCK_SECONDS, self._give_up)

    def _give_up(self) -> None:
        """A process that does not end by SIGKILL (one that is traced, say) is as good as dead to its readers."""
        if not self._closed and self._process is not None and not self._process.exited.done():
            self._given_up = True
            self._inbox.put(Died(None, None), 0)

    def cpu_seconds(self) -> float | None:
        return self._process.cpu_seconds() if self._process is not None else None

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

    def _channel_closed(self, name: str, error: ZmtpError | None) -> None:
        self._open.discard(name)
        if self._closed or (self._process is not None and self._process.exited.done()):
            return
        if error is not None and error.oversized:
            metadata = {"sizeBytes": str(error.oversized), "limitBytes": str(_CHANNELS[name][1])}
            text = f"the kernel sent {error} on {name}"
            self._inbox.put(Trouble("MESSAGE_SIZE", text, fatal=True, metadata=metadata), 0)
            return
        why = f": {error}" if error else ""
        trouble = Trouble("CHANNEL_CLOSED", f"the kernel closed its {name} channel{why}", fatal=True)
        # A process that ends by itself closes its sockets first: its own end is then the better word.
        self._closing = asyncio.get_running_loop().call_later(CLOSE_GRACE_SECONDS, self._tell_closed, trouble)

    def _tell_closed(self, trouble: Trouble) -> None:
        if not self._closed and self._process is not None and not self._process.exited.done():
            self._inbox.put(trouble, 0)

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

    # death

    def _exited(self) -> None:
        """Everything that left the process comes first, then `Died`, then nothing: what a child that inherited
        a descriptor writes later is not awaited."""
        if self._closed or self._given_up:
            return
        assert self._process is not None
        for connection in self._connections.values():
            connection.drain()
        self.drain()
        self._open.clear()
        for connection in self._connections.values():
            connection.abort()
        for pipe in self._pipes:
            pipe.close()
        end = self._process.exited.result()
        died = Died(end.exit_status, end.signal, end.cpu_seconds, end.peak_memory_bytes)
        if self._walls_gone is not None and end.exit_status is None and end.signal is None:
            self._burial = asyncio.get_running_loop().create_task(self._bury(died, self._walls_gone))
        else:
            self._inbox.put(died, 0)

    async def _bury(self, died: Died, walls_gone: Callable[[], Awaitable[str]]) -> None:
        """Nobody could say how it ended: perhaps it went with its walls."""
        self._inbox.put(replace(died, walls_gone=await walls_gone()), 0)


def _fill(part: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        part = part.replace("{" + name + "}", value)
    return part


def _kernel_info(reply: Message) -> KernelInfo:
    def text(source: object, key: str) -> str:
        value = source.get(key, "") if isinstance(source, Mapping) else ""
        return value[:1024] if isinstance(value, str) else ""

    language = reply.content.get("language_info")
    return KernelInfo(
        implementation=text(reply.content, "implementation"),
        language=text(language, "name"),
        language_version=text(language, "version"),
        protocol_version=text(reply.content, "protocol_version"),
        banner=text(reply.content, "banner"),
    )
