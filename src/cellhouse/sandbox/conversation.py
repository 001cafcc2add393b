"""The conversation with the supervisor: what is asked of it, what it answers, and what of that is believed."""

import asyncio
import os
import secrets
import signal
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cellhouse.model import InvalidArgument
from cellhouse.sandbox.base import SandboxGone, SpawnFailed
from cellhouse.sandbox.channel import Channel, ChannelClosed, discard
from cellhouse.sandbox.launcher import Launcher
from cellhouse.sandbox.limits import LimitKeeper
from cellhouse.sandbox.pidfd import has_ended, parent_of, pid_of
from cellhouse.sandbox.privileged import Identity, Privileged
from cellhouse.sandbox.process import SandboxProcess
from cellhouse.sandbox.protocol import (
    SPAWN_DESCRIPTORS,
    TOKEN,
    Exited,
    Failed,
    ProtocolError,
    Ready,
    Spawned,
    decode,
    encode_adopt,
    encode_spawn,
)

SPAWN_SECONDS: Final = 30.0  # for it to start one process, or say why not


@dataclass(slots=True)
class _Request:
    answer: asyncio.Future[SandboxProcess]
    stdout_fd: int
    stderr_fd: int


class Conversation(ABC):
    """The half of a sandbox that talks; the other half begins it and ends it."""

    def __init__(self, privileged: Privileged) -> None:
        self._privileged = privileged
        # Begins the mark of every process of this sandbox, and of no other's.
        self.mark = secrets.token_hex(8)
        self._keeper: LimitKeeper | None = None
        self._ready: asyncio.Future[None] | None = None
        self._channel: Channel | None = None
        self._launcher: Launcher | None = None
        self._init_pidfd = -1
        self._init_pid = 0
        self._spawned = 0
        self._identity: Identity | None = None
        self._requests: dict[str, _Request] = {}
        self._processes: dict[str, SandboxProcess] = {}

    @abstractmethod
    def environment(self) -> dict[str, str]:
        """The variables that every process inside gets."""

    @abstractmethod
    def is_supervisor(self, pid: int, launcher: int) -> bool:
        """Whether the process that calls itself the supervisor can be the one that was started."""

    @abstractmethod
    def _is_there(self) -> bool:
        """Whether it has been started, and has not ended."""

    @abstractmethod
    def _gone(self) -> str:
        """Why it is not there."""

    @abstractmethod
    def _ending(self, text: str) -> None:
        """The supervisor has closed the channel, or ended."""

    @abstractmethod
    def _lose(self, text: str) -> None:
        """The sandbox is no more, unasked."""

    @abstractmethod
    def _on_init_end(self) -> None:
        """The supervisor's process has ended."""

    # What is asked of it.

    async def spawn(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        output: tuple[int, int] | None = None,
        descriptors: Sequence[int] = (),
    ) -> SandboxProcess:
        self._check_there()
        if len(descriptors) > SPAWN_DESCRIPTORS - 2:
            raise InvalidArgument.of_field(
                "descriptors", f"{len(descriptors)} are too many: a process takes {SPAWN_DESCRIPTORS - 2}"
            )
        for descriptor in output or ():
            self._privileged.give_pipe(descriptor)
        process_id = self.new_mark()
        data = encode_spawn(process_id, argv, {**self.environment(), **env, TOKEN: process_id}, cwd)
        if output is not None:
            return await self._ask(process_id, data, (*output, *descriptors), to=f"start {argv[0]}")
        try:
            (stdout, stdout_end), (stderr, stderr_end) = _pipes(2)
        except OSError as error:
            raise SpawnFailed(f"{argv[0]}: there can't be a pipe for its output: {error.strerror}") from error
        for descriptor in (stdout_end, stderr_end):
            self._privileged.give_pipe(descriptor)
        return await self._ask(
            process_id,
            data,
            (stdout_end, stderr_end, *descriptors),
            to=f"start {argv[0]}",
            ours=(stdout, stderr),
            theirs=(stdout_end, stderr_end),
        )

    def new_mark(self) -> str:
        self._spawned += 1
        return f"{self.mark}-{self._spawned:08}"

    async def adopt(self, pid_inside: int, *, mark: str) -> SandboxProcess:
        self._check_there()
        return await self._ask(mark, encode_adopt(mark, pid_inside), (), to=f"adopt process {pid_inside}")

    def _check_there(self) -> None:
        if self._channel is None or not self._is_there():
            raise SandboxGone(self._gone())

    async def _ask(
        self,
        process_id: str,
        data: bytes,
        descriptors: Sequence[int],
        *,
        to: str,
        ours: tuple[int, int] = (-1, -1),
        theirs: Sequence[int] = (),
    ) -> SandboxProcess:
        """Send a request for a process and wait for the answer. `ours` becomes the process's, `theirs` is closed."""
        assert self._channel is not None
        request = _Request(asyncio.get_running_loop().create_future(), *ours)
        try:
            async with asyncio.timeout(SPAWN_SECONDS):
                self._requests[process_id] = request
                try:
                    await self._channel.send(data, descriptors)
                except BaseException:
                    self._requests.pop(process_id, None)  # not sent, so no answer comes
                    raise
                finally:
                    for descriptor in theirs:
                        os.close(descriptor)
                return await request.answer
        except BaseException as error:
            self._abandon(request)
            match error:
                case TimeoutError():
                    self._lose(f"its supervisor did not {to} within {SPAWN_SECONDS:g} s")
                    raise SandboxGone(self._gone()) from None
                case ChannelClosed():
                    raise SandboxGone(self._gone()) from None
                case OSError():
                    raise SpawnFailed(
                        f"could not {to}: the request can't be sent: {error.strerror}"
                    ) from error
            raise

    def _abandon(self, request: _Request) -> None:
        """Nobody waits for this process any more. Where the answer is still to come, it is undone then."""
        answer = request.answer
        if not answer.cancel() and not answer.cancelled() and answer.exception() is None:
            answer.result().signal(signal.SIGKILL, group=True)
        for descriptor in (request.stdout_fd, request.stderr_fd):
            if descriptor >= 0:
                os.close(descriptor)

    # What the supervisor says.

    def _on_message(self) -> None:
        assert self._channel is not None
        try:
            for data, descriptor in self._channel.received():
                try:
                    self._take(data, descriptor)
                except ProtocolError:
                    discard([] if descriptor is None else [descriptor])
                    raise
        except ProtocolError as error:
            self._lose(f"its supervisor broke the protocol with {error}")
        except ChannelClosed:
            self._ending("its supervisor closed the channel")

    def _take(self, data: bytes, descriptor: int | None) -> None:
        """Take one message in, and its descriptor over; with a ProtocolError that is still the caller's."""
        match decode(data), descriptor:
            case Ready(), int():
                self._take_ready(descriptor)
            case Spawned(id=process_id), int():
                self._take_spawned(process_id, descriptor)
            case Failed(id=process_id, error=error), None:
                request = self._requests.pop(process_id, None)
                if request is None:
                    raise ProtocolError("a failure of what nobody asked for")
                if not request.answer.done():
                    request.answer.set_exception(SpawnFailed(error))
            case Exited(id=process_id, how=how), None:
                process = self._processes.get(process_id)
                if process is None or process.explained:
                    raise ProtocolError("the end of what was never started, or a second end")
                process.explain(how)
                self._forget(process_id)
            case _:
                raise ProtocolError("a message with a descriptor that is not due, or without the one that is")

    def _take_ready(self, descriptor: int) -> None:
        assert self._launcher is not None
        assert self._ready is not None
        if self._init_pidfd >= 0:
            raise ProtocolError("a second greeting")
        pid = pid_of(descriptor)
        if pid is None or pid == 0 or (pid > 0 and not self.is_supervisor(pid, self._launcher.pid)):
            raise ProtocolError("a greeting with a descriptor that is no pidfd of itself")
        self._init_pidfd, self._init_pid = descriptor, pid
        asyncio.get_running_loop().add_reader(descriptor, self._on_init_end)
        if not self._ready.done():
            self._ready.set_result(None)

    def _take_spawned(self, process_id: str, descriptor: int) -> None:
        request = self._requests.get(process_id)
        if request is None:
            raise ProtocolError("a process that nobody asked for")
        pid = pid_of(descriptor)
        if pid is None:
            raise ProtocolError("a descriptor that is no pidfd")
        # A supervisor starts only children of its own. A pidfd of anything else, of this service even, is one that must
        # not be signalled; one of a process that has ended can do no harm, and its number may be another's by now.
        if pid <= 0 or parent_of(pid) != self._init_pid:
            if not has_ended(descriptor):
                raise ProtocolError("a pidfd that is of no child of its own")
            pid = 0
        del self._requests[process_id]
        if pid:
            self._privileged.expose(pid)
        abandoned = request.answer.done()
        process = SandboxProcess(
            pid=pid,
            pidfd=descriptor,
            stdout_fd=-1 if abandoned else request.stdout_fd,
            stderr_fd=-1 if abandoned else request.stderr_fd,
        )
        self._processes[process_id] = process
        if self._keeper is not None:
            self._keeper.take(process)
        process.exited.add_done_callback(lambda _: self._forget(process_id))
        if abandoned:
            process.signal(signal.SIGKILL, group=True)
        else:
            request.answer.set_result(process)

    def _forget(self, process_id: str) -> None:
        """A process is remembered until it has ended and its end was explained, in whichever order."""
        process = self._processes.get(process_id)
        if process is not None and process.explained and process.exited.done():
            del self._processes[process_id]


def _pipes(count: int) -> list[tuple[int, int]]:
    """Pipes whose reading ends do not block; none where not all can be had."""
    made: list[tuple[int, int]] = []
    try:
        for _ in range(count):
            made.append(os.pipe2(os.O_CLOEXEC))
            os.set_blocking(made[-1][0], False)
    except OSError:
        for ends in made:
            for descriptor in ends:
                os.close(descriptor)
        raise
    return made
