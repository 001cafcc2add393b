"""The outermost process of a sandbox, on the host: what put the walls up, and what it had to say."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cellhouse.sandbox.base import SandboxLoss
from cellhouse.sandbox.pidfd import children_of, parent_of, pidfd_open
from cellhouse.sandbox.privileged import Identity, Privileged, Seen, Start

STDERR_BYTES: Final = 8192  # of what is said on standard error, the last are kept
STDERR_READS: Final = 16  # at once: a pipe holds no more, and who goes on writing is not waited for


@dataclass(slots=True)
class Launch:
    """How to start it: see `Start`. `descriptors` are the launcher's to close."""

    argv: Sequence[str]
    cwd: Path
    descriptors: list[int] = field(default_factory=list)
    enter: Sequence[Path] = ()
    identity: Identity | None = None
    view: Sequence[Seen] = ()


class Launcher:
    """Started at once, in the calling thread: PR_SET_PDEATHSIG ends it with that thread."""

    def __init__(
        self, launch: Launch, privileged: Privileged, *, control: int, on_end: Callable[[], None]
    ) -> None:
        """OSError where the program can't be started. `on_end` is called by the loop once it has ended."""
        self.ended = asyncio.Event()
        self._on_end = on_end
        self._privileged = privileged
        self._loop = asyncio.get_running_loop()
        self._said = b""
        self._stderr, theirs = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._stderr, False)
        try:
            self._process = privileged.start(
                Start(
                    argv=launch.argv,
                    cwd=launch.cwd,
                    stderr=theirs,
                    descriptors=(control, *launch.descriptors),
                    enter=launch.enter,
                    identity=launch.identity,
                    view=launch.view,
                )
            )
        except BaseException:
            os.close(self._stderr)
            raise
        finally:
            for descriptor in (theirs, *launch.descriptors):
                os.close(descriptor)
        self.pid, self._pidfd = self._process.pid, self._process.pidfd
        self._loop.add_reader(self._pidfd, self._ended)
        self._loop.add_reader(self._stderr, self._listen)

    def _ended(self) -> None:
        self._loop.remove_reader(self._pidfd)
        self._process.ended()  # nobody has to wait for it any more
        self.ended.set()
        self._on_end()

    def _listen(self) -> None:
        if not self._read():
            self._loop.remove_reader(self._stderr)

    def _read(self) -> bool:
        """Take in what is there; False at its end."""
        try:
            data = os.read(self._stderr, STDERR_BYTES)
        except BlockingIOError:
            return True
        self._said = (self._said + data)[-STDERR_BYTES:]
        return bool(data)

    def said(self) -> str:
        """The last of what was said on standard error."""
        if self._stderr >= 0:
            for _ in range(STDERR_READS):
                if not self._read():
                    break
        return self._said.decode("utf-8", "replace").strip()

    def loss(self, text: str) -> SandboxLoss:
        """The loss of the sandbox, told with all that is known of this process's end."""
        code = self._process.ended()
        if code is None:
            return SandboxLoss(f"the sandbox was lost: {text}")
        how = f"by signal {-code}" if code < 0 else f"with exit status {code}"
        said = self.said()
        return SandboxLoss(
            f"the sandbox was lost: {text} {how}" + (f"; it said: {said}" if said else ""),
            exit_status=code if code >= 0 else None,
            signal=-code if code < 0 else None,
        )

    def kill(self) -> None:
        if not self.ended.is_set():
            self._privileged.signal(self._pidfd, signal.SIGKILL)

    def kill_child(self) -> None:
        """Kill what it has started, so that it sees that end and ends too; itself where it has started nothing yet.

        Killed itself, it would leave a child that is not dead yet to the host's first process.
        """
        found = [] if self.ended.is_set() else children_of(self.pid)
        for pid in found:
            with contextlib.suppress(OSError):  # ended meanwhile
                pidfd = pidfd_open(pid)
                try:
                    if parent_of(pid) == self.pid:
                        self._privileged.signal(pidfd, signal.SIGKILL)
                finally:
                    os.close(pidfd)
        if not found:
            self.kill()

    def release(self) -> None:
        """Give the descriptors back; the process has ended."""
        for descriptor in (self._pidfd, self._stderr):
            if descriptor >= 0:
                self._loop.remove_reader(descriptor)
                os.close(descriptor)
        self._pidfd = self._stderr = -1
        self._process.ended()
