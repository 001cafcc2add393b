"""What the kernels of all kinds have in common: a process that is started, watched, ended and buried."""

import asyncio
import signal
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from cellhouse.files import FileError
from cellhouse.kernel.base import Died, KernelInfo, KernelItem, KernelProcess, KernelStartFailed, Trouble
from cellhouse.kernel.inbox import Inbox
from cellhouse.messages import Message, RawText

START_SECONDS = 60.0
LOG_CHARS = 8192
MAX_UNSENT_BYTES = 32 << 20
CLOSE_GRACE_SECONDS = 2.0
DEATH_SECONDS = 0.2
"""The end of a process is known by then: until then, garbage may be what others write with a dead kernel's descriptors."""
STUCK_SECONDS = 5.0


class KernelLife(ABC):
    """The life of one kernel's process, and the inbox that its channels fill. Half of a `Kernel`."""

    def __init__(
        self, name: str, *, start_seconds: float, walls_gone: Callable[[], Awaitable[str]] | None
    ) -> None:
        self.info = KernelInfo()
        self._name = name
        self._start_seconds = start_seconds
        self._walls_gone = walls_gone
        self._inbox = Inbox(on_high=self._hold, on_low=self._release)
        self._process: KernelProcess | None = None
        self._closed = False
        self._closer: asyncio.Task[None] | None = None
        self._burial: asyncio.Task[None] | None = None
        self._stuck: asyncio.TimerHandle | None = None
        self._given_up = False
        self._closing: asyncio.TimerHandle | None = None
        self._log = ""
        self._complaint = ""

    @property
    def distrusted(self) -> str:
        return ""

    # what each kind does in its own way

    @abstractmethod
    async def _start(self) -> None:
        """Start the process, await its first answer, set `info`."""

    @abstractmethod
    def _hold(self) -> None:
        """Stop reading."""

    @abstractmethod
    def _release(self) -> None:
        """Go on reading."""

    @abstractmethod
    def drain(self) -> None:
        """Bring in what already stands in the process's pipes."""

    @abstractmethod
    def _take_last(self) -> None:
        """The process has ended: bring in what it left, and give back every descriptor."""

    @abstractmethod
    async def _give_back(self) -> None:
        """Give back every descriptor, socket and file. What was given back before is no fault."""

    # start

    async def start(self) -> None:
        try:
            async with asyncio.timeout(self._start_seconds):
                await self._start()
        except TimeoutError:
            log = self._log_tail()
            await self.close()
            raise KernelStartFailed(
                f"kernel {self._name!r} did not answer within {self._start_seconds:g} s{self._complaint}",
                log=log,
            ) from None
        except (OSError, FileError) as error:
            await self.close()
            raise KernelStartFailed(f"kernel {self._name!r} could not be started: {error}") from None
        except BaseException:
            await self.close()
            raise

    async def _heard_at_start(self, item: KernelItem) -> None:
        """What comes besides the answer that is awaited. Raises KernelStartFailed where none will come."""
        match item:
            case RawText():
                self._remember(item)
            case Trouble(fatal=False):
                self._complaint = f"; {item.text}"
            case Trouble() | Died():
                await self._dying()
                raise KernelStartFailed(
                    f"kernel {self._name!r} failed while starting: {item}", log=self._log_tail()
                )

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
            f"kernel {self._name!r} ended with {how} before it answered",
            log=log,
            exit_status=end.exit_status,
            signal=end.signal,
        )

    def _watch(self, process: KernelProcess) -> None:
        self._process = process
        process.exited.add_done_callback(lambda _: self._exited())

    # life

    async def receive(self, timeout: float | None = None) -> KernelItem | None:
        return await self._inbox.get(timeout)

    def wake(self) -> None:
        self._inbox.wake()

    def cpu_seconds(self) -> float | None:
        return self._process.cpu_seconds() if self._process is not None else None

    def _interrupt_group(self) -> None:
        """The group, as a terminal's Ctrl-C would: the children of a cell are interrupted too."""
        if self._process is not None:
            self._process.signal(signal.SIGINT, True)

    def _channel_closed(
        self, text: str, error: Exception | None, *, oversized: int = 0, limit: int = 0
    ) -> None:
        """What a broken channel means; `text` names it. Soon for a message that is too large."""
        if oversized:
            metadata = {"sizeBytes": str(oversized), "limitBytes": str(limit)}
            self._tell_unless_it_ends(
                Trouble("MESSAGE_SIZE", text, fatal=True, metadata=metadata), DEATH_SECONDS
            )
            return
        why = f": {error}" if error else ""
        # A process that ends by itself closes its sockets first.
        self._tell_unless_it_ends(Trouble("CHANNEL_CLOSED", f"{text}{why}", fatal=True), CLOSE_GRACE_SECONDS)

    def _tell_unless_it_ends(self, trouble: Trouble, seconds: float) -> None:
        """The process's own end is the better word, where it comes within so long."""
        loop = asyncio.get_running_loop()
        if self._closing is not None:
            if self._closing.when() <= loop.time() + seconds:
                return
            self._closing.cancel()
        self._closing = loop.call_later(seconds, self._tell, trouble)

    def _tell(self, trouble: Trouble) -> None:
        if not self._closed and self._process is not None and not self._process.exited.done():
            self._inbox.put(trouble, 0)

    # death

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

    def _exited(self) -> None:
        """Everything that left the process comes first, then `Died`, then nothing: what a child that inherited
        a descriptor writes later is not awaited."""
        if self._closed or self._given_up:
            return
        assert self._process is not None
        self._take_last()
        end = self._process.exited.result()
        died = Died(
            end.exit_status, end.signal, end.cpu_seconds, end.peak_memory_bytes, limit_hit=end.limit_hit
        )
        explained = end.exit_status is not None or end.signal is not None or end.limit_hit is not None
        if self._walls_gone is not None and not explained:
            self._burial = asyncio.get_running_loop().create_task(self._bury(died, self._walls_gone))
        else:
            self._inbox.put(died, 0)

    async def _bury(self, died: Died, walls_gone: Callable[[], Awaitable[str]]) -> None:
        """Nobody could say how it ended: perhaps it went with its walls."""
        self._inbox.put(replace(died, walls_gone=await walls_gone()), 0)

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
        await self._give_back()


def kernel_info(reply: Message) -> KernelInfo:
    """What a kernel_info_reply says, each part at most 1,024 characters."""

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
