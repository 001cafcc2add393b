"""The service's side of a zygote: one process inside that has imported what is usual, and forks sessions."""

import asyncio
import json
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from typing import Any, Final

from cellhouse.kernel import KernelProcess
from cellhouse.sandbox import Sandbox, SandboxProcess, SpawnFailed
from cellhouse.sandbox.base import INSIDE_DIR

START_SECONDS: Final = 30.0  # to be able to fork
FORK_SECONDS: Final = 10.0  # for one fork, an import that is under way included
MESSAGE_BYTES: Final = 64 * 1024  # one datagram, both ways
LOG_BYTES: Final = 4096  # of what it said, the last are kept
NAMES: Final = 64  # modules that it may have something to say about
MAX_PID: Final = 1 << 22


class ZygoteFailed(Exception):
    """No session can be had from this zygote; the message says why. `module` is the one whose import was its end."""

    def __init__(self, message: str, *, module: str = "") -> None:
        super().__init__(message)
        self.module = module


class Zygote:
    """One zygote, from its start to its end. It shares a uid with hostile code: what it says is checked, not believed.

    Made by `start`. `ended` is set when it can fork no more, be it that it died, that it broke the protocol, or that it
    was too slow; it has been killed then.
    """

    def __init__(self, sandbox: Sandbox, modules: Sequence[str]) -> None:
        self.modules: tuple[str, ...] = ()
        self.missing: Mapping[str, str] = {}
        self.ended = asyncio.Event()
        self.settled = asyncio.Event()  # nothing is left to import
        self._sandbox = sandbox
        self._left = list(modules)
        self._importing = ""
        self._why = ""
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._answer: asyncio.Future[int] | None = None
        self._forking = asyncio.Lock()
        self._control: socket.socket | None = None
        self._process: SandboxProcess | None = None
        self._outputs: list[int] = []
        self._said = b""

    async def start(self, python: str, env: Mapping[str, str]) -> None:
        """Start it, and wait until it can fork. ZygoteFailed, or SpawnFailed or SandboxGone as the sandbox has it."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        self._control = ours
        program = self._sandbox.inside_path(INSIDE_DIR / "zygote.py")
        try:
            with theirs:
                # -s: what a session leaves in its home is not to run here, where it could reach all the others.
                self._process = await self._sandbox.spawn(
                    [python, "-s", program, "3", *self._left],
                    env=env,
                    cwd="/",
                    descriptors=(theirs.fileno(),),
                )
            self._process.exited.add_done_callback(lambda _: self._end("it ended"))
            self._outputs = [self._process.stdout_fd, self._process.stderr_fd]
            for descriptor in self._outputs:
                self._loop.add_reader(descriptor, self._listen, descriptor)
            self._loop.add_reader(ours, self._heard)
            async with asyncio.timeout(START_SECONDS):
                await self._ready
        except TimeoutError:
            raise self._end(f"it was not ready within {START_SECONDS:g} s") from None
        except BaseException:
            self._end("its start was given up")
            raise

    async def fork(
        self, env: Mapping[str, str], cwd: str, descriptors: tuple[int, int, int]
    ) -> KernelProcess:
        """A session with these descriptors (its socket, stdout, stderr), which stay the caller's to close.

        ZygoteFailed where there is none; `ended` says whether there can be another. SandboxGone as the sandbox has it.
        Not to be cancelled: what is forked would not be known to anybody.
        """
        async with self._forking:
            if self.ended.is_set() or self._control is None:
                raise ZygoteFailed(self._why or "it has not been started")
            mark = self._sandbox.new_mark()
            request = json.dumps({"type": "fork", "mark": mark, "env": dict(env), "cwd": cwd}).encode()
            self._answer = self._loop.create_future()
            try:
                socket.send_fds(self._control, [request], descriptors, socket.MSG_NOSIGNAL)
                async with asyncio.timeout(FORK_SECONDS):
                    pid = await self._answer
            except TimeoutError:
                raise self._end(f"it did not fork within {FORK_SECONDS:g} s") from None
            except OSError as error:  # it has gone, or reads nothing any more
                raise self._end(f"it can't be asked: {error.strerror}") from None
            finally:
                self._answer = None
            try:
                return await self._sandbox.adopt(pid, mark=mark)
            except SpawnFailed as error:
                raise ZygoteFailed(f"its fork can't be adopted: {error}") from None

    async def close(self) -> None:
        """Kill it and wait until it has ended; sessions live on."""
        self._end("it was closed")
        if self._process is not None:
            # One that is stuck goes with the walls.
            await asyncio.wait([self._process.exited], timeout=FORK_SECONDS)

    async def buried(self) -> None:
        """Wait until a zygote that can fork no more has ended, for what is known of its end; not for long."""
        if self._process is None:
            return
        await asyncio.wait([self._process.exited], timeout=FORK_SECONDS)
        hit = self._process.exited.result().limit_hit if self._process.exited.done() else None
        if hit is not None:
            self._why += f"; it was ended by the runtime's {hit.name} limit of {hit.limit}"

    def failure(self) -> ZygoteFailed:
        """Why it can fork no more."""
        return ZygoteFailed(self._why, module=self._importing)

    def said(self) -> str:
        """The last of what it wrote to its own standard output and error."""
        return self._said.decode("utf-8", "replace").strip()

    # What it says.

    def _heard(self) -> None:
        for _ in range(NAMES):
            if self._control is None:
                return
            try:
                data, _, flags, _ = self._control.recvmsg(MESSAGE_BYTES)
            except BlockingIOError:
                return
            except OSError:
                data, flags = b"", 0
            if not data:
                self._end("it closed its socket")
                return
            try:
                if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
                    raise ValueError("a message that is too large, or has descriptors with it")
                self._take(json.loads(data))
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                self._end(f"it broke the protocol: {error!r:.200}")
                return

    def _take(self, message: Any) -> None:
        kind = message["type"]
        if kind == "importing":
            self._importing = self._left.pop(self._left.index(message["module"]))
        elif kind == "ready":
            self._importing = ""
            modules, missing = message["modules"], message["missing"]
            if not isinstance(modules, list) or not isinstance(missing, dict):
                raise TypeError("modules")
            self.modules = tuple(str(name)[:256] for name in modules[:NAMES])
            self.missing = {str(name)[:256]: str(missing[name])[:1024] for name in list(missing)[:NAMES]}
            if not self._ready.done():
                self._ready.set_result(None)
            if not self._left:
                self.settled.set()
        elif self._answer is None or self._answer.done():
            raise ValueError("an answer to nothing")
        elif kind == "forked":
            pid = message["pid"]
            if type(pid) is not int or not 1 < pid <= MAX_PID:
                raise ValueError("no number of a process")
            self._answer.set_result(pid)
        elif kind == "failed":
            self._answer.set_exception(ZygoteFailed(str(message["error"])[:2048]))
        else:
            raise ValueError("a message of an unknown type")

    def _listen(self, descriptor: int) -> None:
        try:
            data = os.read(descriptor, LOG_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._loop.remove_reader(descriptor)
            self._outputs.remove(descriptor)
            os.close(descriptor)
        self._said = (self._said + data)[-LOG_BYTES:]

    # The end.

    def _end(self, why: str) -> ZygoteFailed:
        """Its end, once; the error to raise for it."""
        if not self.ended.is_set():
            self.ended.set()
            for descriptor in list(self._outputs):
                self._listen(descriptor)
            module = f" while it imported {self._importing}" if self._importing else ""
            said = f"; it said: {self.said()}" if self.said() else ""
            self._why = f"{why}{module}{said}"
            if self._control is not None:
                self._loop.remove_reader(self._control)
                self._control.close()
            self._control = None
            for descriptor in self._outputs:
                self._loop.remove_reader(descriptor)
                os.close(descriptor)
            self._outputs.clear()
            if self._process is not None:
                self._process.signal(signal.SIGKILL, True)
            failure = self.failure()
            for waiting in (self._ready, self._answer):
                if waiting is not None and not waiting.done():
                    waiting.set_exception(failure)
            if self._ready.done():
                self._ready.exception()  # where nobody waits any more, nobody misses it
        return self.failure()
