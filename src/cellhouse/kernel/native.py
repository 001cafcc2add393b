"""The native Python kernel: frames over one socket, text down two pipes, put in order by markers."""

import asyncio
import os
import secrets
import socket
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cellhouse.kernel.base import KernelGone, KernelProcess, KernelStartFailed, Trouble
from cellhouse.kernel.frames import Frame, FrameDecoder, FrameError, pack
from cellhouse.kernel.life import DEATH_SECONDS, MAX_UNSENT_BYTES, START_SECONDS, KernelLife, kernel_info
from cellhouse.kernel.marks import NONCE_BYTES
from cellhouse.kernel.outbox import Outbox, close_all
from cellhouse.kernel.pairs import LARGE_BYTES, NAMES, STDERR, Pair, Pipe
from cellhouse.kernel.printed import PrintedMemory
from cellhouse.kernel.weave import Weave
from cellhouse.messages import Message, RawText

READ_BYTES = 65_536
"""What a pipe holds, unless it was made to hold more: one read empties it."""
PACE_BYTES = 16_384
PACE_SECONDS = 0.001
"""Text that comes in less than so much at once, and sooner than that after the last, is given that time to gather."""
DRAIN_BYTES = 2 << 20
LAST_BYTES = 16 << 20
"""What is read of the socket of a process that has ended; others may hold its other end."""
DRAIN_OLD_BYTES = READ_BYTES
PROGRESS_BYTES = 1 << 16
MAX_OLD_PAIRS = 32
_CHANNELS = ("shell", "control", "stdin")

Launch = Callable[[int, int, int], Awaitable[KernelProcess]]
"""Starts the process with the descriptors (socket, stdout, stderr): it sends or duplicates them, and closes none."""


@dataclass(frozen=True, slots=True)
class SourceLimits:
    """What the kernel itself does not send: a bundle of more bytes, a text of more characters."""

    bundle_bytes: int
    text_chars: int


class NativeKernel(KernelLife):
    """A `Kernel` that is made for this service: nothing it sends gets lost, and all text is in its place.

    What an execution prints comes as `RawText` with its `parent_id`. Where children of an execution outlive it, the next
    one gets pipes of its own, so that nobody's text is taken for another's.
    """

    def __init__(
        self,
        name: str,
        launch: Launch,
        *,
        limits: SourceLimits,
        isolate: bool = False,
        start_seconds: float = START_SECONDS,
        walls_gone: Callable[[], Awaitable[str]] | None = None,
        writer: tuple[int, int] | None = None,
    ) -> None:
        """`walls_gone` says, after a moment, what is known of walls that went; empty where they stand.

        `writer` are the uid and gid of what is launched, where they are not ours.
        """
        super().__init__(name, start_seconds=start_seconds, walls_gone=walls_gone)
        self._launch, self._limits, self._isolate = launch, limits, isolate
        self._writer = writer
        self._nonce = secrets.token_bytes(NONCE_BYTES)
        self._weave: Weave[Pipe, Frame] = Weave(
            self._nonce,
            on_text=self._text,
            on_frame=self._frame,
            on_disorder=self._disorder,
        )
        self._decoder = FrameDecoder(self._came)
        self._socket: socket.socket | None = None
        self._socket_watched = False
        self._deaf = False
        self._pairs: list[Pair] = []
        self._held = False
        self._all_watched = False
        self._timer: asyncio.TimerHandle | None = None
        self._progress = 0
        self._running = ""
        self._asked = ""
        self._frames = 0
        self._taken_over = self._looked = False
        self._outbox: Outbox | None = None
        self._printed: PrintedMemory | None = None

    # start

    async def _start(self) -> None:
        self._loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket = ours
        ours.setblocking(False)
        self._outbox = Outbox(ours)
        write_ends: tuple[int, ...] = ()
        try:
            write_ends = stdout, stderr = self._new_pair()
            self._watch(await self._launch(theirs.fileno(), stdout, stderr))
            self._printed = PrintedMemory()
        finally:
            theirs.close()
            close_all(write_ends)
        self._read_what_may_be_read()
        content = {
            "nonce": self._nonce.hex(),
            "limits": {"bundleBytes": self._limits.bundle_bytes, "textChars": self._limits.text_chars},
            "isolate": self._isolate,
        }
        try:
            asked = self._start_frame(content)
        except KernelGone as error:
            await self._dying()
            raise KernelStartFailed(
                f"kernel {self._name!r} failed while starting: {error}", log=self._log_tail()
            ) from None
        while True:
            item = await self._inbox.get(None)
            match item:
                case Message(channel="shell", msg_type="kernel_info_reply", parent_id=parent) if (
                    parent == asked
                ):
                    self.info = kernel_info(item)
                    return
                case None:
                    continue
                case _:
                    await self._heard_at_start(item)

    def _start_frame(self, content: Mapping[str, Any]) -> str:
        """The first one brings the memory along."""
        assert self._printed is not None
        assert self._outbox is not None
        asked = uuid.uuid4().hex
        try:
            self._outbox.send(pack("start", asked, content), (os.dup(self._printed.fd),))
        except OSError as error:
            raise KernelGone(f"kernel {self._name!r} takes nothing: {error}") from None
        return asked

    def _new_pair(self) -> tuple[int, int]:
        """Make two pipes; the write ends, which are the caller's to close. Raises OSError."""
        pair = Pair(self._writer)
        for pipe in pair.pipes:
            self._weave.join(pipe)
        if self._pairs:
            self._pairs[-1].old = True
        self._pairs.append(pair)
        self._all_watched = False
        return pair.write_ends

    # what goes out

    def send(self, channel: str, msg_type: str, content: Mapping[str, Any], *, msg_id: str = "") -> str:
        if channel not in _CHANNELS or self._outbox is None:
            raise KernelGone(f"channel {channel} of kernel {self._name!r} is closed")
        if self._outbox.unsent > MAX_UNSENT_BYTES:
            raise KernelGone(f"kernel {self._name!r} does not read its {channel} channel")
        msg_id = msg_id or uuid.uuid4().hex
        data = pack(msg_type, msg_id, content)
        descriptors: tuple[int, ...] = ()
        if msg_type == "execute_request" and self._pairs[-1].holders:
            descriptors = self._pipes_of_its_own()
        try:
            self._outbox.send(data, descriptors)
        except OSError as error:
            raise KernelGone(f"kernel {self._name!r} takes nothing more: {error}") from None
        if msg_type == "execute_request":
            self._asked = msg_id
        return msg_id

    def _pipes_of_its_own(self) -> tuple[int, ...]:
        """Children of an earlier execution hold the pipes: the next one gets others, as far as there may be more."""
        self._pairs = [pair for pair in self._pairs if pair.open or not pair.old]
        if len(self._pairs) > MAX_OLD_PAIRS:
            return ()
        try:
            descriptors = self._new_pair()
        except OSError:  # no descriptors left: nobody knows then whose text it is
            return ()
        self._read_what_may_be_read()
        return descriptors

    def interrupt(self) -> None:
        self._interrupt_group()

    @property
    def interrupting(self) -> bool:
        return False

    def lost_messages(self, *, take: bool = False) -> int:
        return 0  # a stream loses nothing

    # what comes in

    def _read_socket(self) -> int:
        """One read; the bytes that came."""
        if self._socket is None or self._deaf:
            return 0
        try:
            # Not recvmsg: what cannot take descriptors cannot be flooded with them.
            count = self._socket.recv_into(self._decoder.space())
        except BlockingIOError:
            return 0
        except OSError:
            count = 0
        if not count:
            torn = FrameError("the stream ended inside a frame") if self._decoder.begun else None
            self._stream_ended(torn)
            return 0
        try:
            self._decoder.took(count)
        except FrameError as error:
            self._stream_ended(error)
            return 0
        self._progress += count
        if self._progress >= PROGRESS_BYTES:
            self._progress = 0
            if self._decoder.begun:
                self._weave.progress(self._loop.time())
        return count

    def _read_pipe(self, pipe: Pipe) -> int:
        """One read, which empties it; the bytes that came."""
        if pipe.fd < 0:
            return 0
        data = pipe.read(LARGE_BYTES if pipe.large else READ_BYTES)
        if data is None:
            return 0
        if not data:
            self._close_pipe(pipe)
            self._weave.end(pipe, self._loop.time())
            return 0
        if pipe.stream == STDERR and pipe.pair.stdout.wants:
            # Whatever was written to stdout before these bytes stands there by now, and not before they were read.
            self._read_pipe(pipe.pair.stdout)
        self._weave.text(pipe, data, self._loop.time())
        self._look_who_runs()
        return len(data)

    def _socket_readable(self) -> None:
        self._read_socket()
        if self._weave.frames_wait:
            self._read_marks()
        if self._weave.waits or not self._all_watched:
            self._read_what_may_be_read()

    def _pipe_readable(self, pipe: Pipe) -> None:
        count = self._read_pipe(pipe)
        if count == READ_BYTES and not pipe.large:
            pipe.enlarge()
        soon = self._loop.time() - pipe.read_at < PACE_SECONDS
        if 0 < count < PACE_BYTES and soon and pipe.frames == self._frames:
            # It comes in dribbles, each of which would wake this process, where no frame does: let some gather first.
            pipe.resting = True
            self._watch_pipe(pipe, False)
            self._loop.call_later(PACE_SECONDS, self._rested, pipe)
        pipe.read_at, pipe.frames = self._loop.time(), self._frames
        if self._weave.waits or not self._all_watched:
            self._read_what_may_be_read()

    def _rested(self, pipe: Pipe) -> None:
        pipe.resting = False
        self._read_what_may_be_read()

    def _read_marks(self) -> None:
        """What a frame waits for was written before it was sent: one read empties a pipe."""
        for pipe in self._pairs[-1].pipes:
            if pipe.wants:
                self._read_pipe(pipe)

    def _came(self, frame: Frame) -> None:
        if self._taken_over:
            return
        self._frames += 1
        if frame.number != self._frames:
            self._forged()  # the kernel counts what it sends
            return
        if self._weave.disordered and not self._held:
            self._read_marks()  # what was printed before must not come after the end of its execution
        self._weave.frame(frame, frame.epoch, frame.size, self._loop.time())

    def _frame(self, frame: Frame) -> None:
        """A frame whose turn it is."""
        message = frame.message()
        if frame.msg_type == "status" and frame.channel == "iopub":
            state = message.content.get("execution_state")
            if state == "busy":
                self._running = frame.parent
            elif state == "idle":
                self._running = "" if frame.parent == self._running else self._running
                self._asked = "" if frame.parent == self._asked else self._asked
        elif (
            (frame.forked and frame.msg_type == "execute_reply" and frame.channel == "shell")
            and frame.parent == self._asked  # the names that a forger makes up would be without end
        ):
            self._pairs[-1].holders.add(frame.parent)
        self._inbox.put(message, frame.size)

    def _text(self, pipe: Pipe, data: bytes) -> None:
        """Text whose turn it is."""
        owner = pipe.pair.owner(self._running)
        self._inbox.put(RawText(NAMES[pipe.stream], data, owner, True), len(data))

    def _disorder(self, marks: bool) -> None:
        """A kernel whose stream did not fit together once has no further execution (`distrusted`)."""
        text = (
            "text and messages of the kernel did not fit together: from here on their order may be wrong, and the session "
            "gets a fresh kernel after this execution"
        )
        self._inbox.put(Trouble("OUTPUT_DISORDERED", text), 0)
        while marks and self._read_socket():
            continue  # what was sent before that mark was written stands there, and goes first

    def _look_who_runs(self) -> None:
        """After order was given up. Where an execution was sent and is not known to run, nobody can tell who prints."""
        if self._weave.given_up and not self._looked:
            self._looked = True
            if self._asked and not self._running:
                self._forged()

    def _forged(self) -> None:
        if not self._taken_over:
            self._taken_over = True
            text = (
                "what came from the kernel's process was not all the kernel's own: its code has taken it over"
            )
            self._tell_unless_it_ends(Trouble("KERNEL_LOST", text, fatal=True), DEATH_SECONDS)

    @property
    def distrusted(self) -> str:
        if self._weave.given_up or self._taken_over:
            return "text and messages of the last one did not fit together"
        return ""

    def _stream_ended(self, error: FrameError | None) -> None:
        # It stays open: a kernel that found it closed would end by itself, and be taken for one that wanted to.
        self._deaf = True
        self._read_what_may_be_read()
        if error is not None and error.oversized:
            text = f"the kernel sent {error}"
            self._channel_closed(text, error, oversized=error.oversized, limit=error.limit)
        else:
            self._channel_closed("the kernel closed its channel", error)

    def drain(self) -> None:
        """Bring in what already stands in the pipes and in the socket."""
        for pair in tuple(self._pairs):
            for pipe in pair.pipes:
                left = DRAIN_OLD_BYTES if pair.old else DRAIN_BYTES
                while left > 0 and pipe.wants and (count := self._read_pipe(pipe)):
                    left -= count
        left = DRAIN_BYTES
        while left > 0 and self._weave.wants_frames and (count := self._read_socket()):
            left -= count
            if self._weave.frames_wait:
                self._read_marks()
        if self._weave.waits or not self._all_watched:
            self._read_what_may_be_read()

    # when to read

    def _hold(self) -> None:
        self._held = True
        self._weave.hold(self._loop.time())
        self._read_what_may_be_read()

    def _release(self) -> None:
        self._held = False
        self._weave.release(self._loop.time())
        self._read_what_may_be_read()

    def _read_what_may_be_read(self) -> None:
        """Watch what is to be read now, and nothing else; see to it that nothing waits for ever."""
        watched = True
        if self._socket is not None:
            wanted = not (self._held or self._deaf) and self._weave.wants_frames
            watched = wanted or self._deaf
            if wanted != self._socket_watched:
                self._socket_watched = wanted
                if wanted:
                    self._loop.add_reader(self._socket, self._socket_readable)
                else:
                    self._loop.remove_reader(self._socket)
        for pair in self._pairs:
            for pipe in pair.pipes:
                if pipe.fd >= 0:
                    wanted = not (self._held or pipe.resting) and pipe.wants
                    watched = watched and (wanted or pipe.resting)
                    if wanted != pipe.watched:
                        self._watch_pipe(pipe, wanted)
        self._all_watched = watched
        if self._timer is None and not self._closed:
            when = self._weave.deadline()
            if when is not None:
                self._timer = self._loop.call_at(when, self._stalled)

    def _watch_pipe(self, pipe: Pipe, wanted: bool) -> None:
        pipe.watched = wanted
        if wanted:
            self._loop.add_reader(pipe.fd, self._pipe_readable, pipe)
        else:
            self._loop.remove_reader(pipe.fd)

    def _stalled(self) -> None:
        self._timer = None
        when = self._weave.deadline()
        if when is not None and self._loop.time() >= when and not self._held:
            # The loop itself may have been held up: what stands there by now is looked at first.
            self.drain()
            self._weave.expire(self._loop.time())
            self._look_who_runs()
        self._read_what_may_be_read()

    # the end

    def _take_last(self) -> None:
        for pair in tuple(self._pairs):
            for pipe in pair.pipes:
                self._drain_pipe(pipe, DRAIN_OLD_BYTES if pair.old else DRAIN_BYTES)
        left = LAST_BYTES
        while left > 0 and (count := self._read_socket()):
            left -= count
        self._weave.finish()
        if self._printed is not None:
            for pipe in self._pairs[-1].pipes:
                if unsent := self._printed.left(pipe.stream, *self._weave.seen[pipe.stream]):
                    self._text(pipe, unsent)
        self._let_go()

    def _drain_pipe(self, pipe: Pipe, left: int) -> None:
        while left > 0 and (count := self._read_pipe(pipe)):
            left -= count

    async def _give_back(self) -> None:
        self._let_go()

    def _let_go(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._close_socket()
        if self._printed is not None:
            self._printed.close()
        for pair in self._pairs:
            for pipe in pair.pipes:
                self._close_pipe(pipe)

    def _close_socket(self) -> None:
        if self._socket is None:
            return
        if self._outbox is not None:
            self._outbox.close()
        if self._socket_watched:
            self._loop.remove_reader(self._socket)
        self._socket_watched = False
        self._socket.close()
        self._socket = self._outbox = None

    def _close_pipe(self, pipe: Pipe) -> None:
        if pipe.fd < 0:
            return
        if pipe.watched:
            self._watch_pipe(pipe, False)
        os.close(pipe.fd)
        pipe.fd = -1
