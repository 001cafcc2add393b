"""The native kernel as a child of the tests, without walls, behind its client."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from cellhouse.sandbox.pidfd import pidfd_open
from cellhouse.sandbox.usage import usage
from tests.kernel.support import HowItEnded

SOURCE = Path(__file__).parents[2] / "src" / "cellhouse"
NATIVE_MAIN = SOURCE / "inside" / "kernel.py"
SOCKET_FD = 3
"""Where the kernel finds its socket; its output goes to 1 and 2."""


def is_there() -> bool:
    """Whether this checkout has a native kernel and its client."""
    return NATIVE_MAIN.is_file() and (SOURCE / "kernel" / "native.py").is_file()


class NativeProcess:
    """A `KernelProcess` whose pipes are at somebody else: `stdout_fd` and `stderr_fd` are -1."""

    stdout_fd = -1
    stderr_fd = -1

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: Path,
        *,
        socket_fd: int,
        stdout_fd: int,
        stderr_fd: int,
    ) -> None:
        """The three descriptors are duplicated into the process; they stay the caller's."""
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, stdout_fd, 1),
            (os.POSIX_SPAWN_DUP2, stderr_fd, 2),
            (os.POSIX_SPAWN_DUP2, socket_fd, SOCKET_FD),
        ]
        self.pid = os.posix_spawnp(
            "env",
            ["env", f"--chdir={cwd}", *argv],
            {**os.environ, **env},
            file_actions=actions,
            setsid=True,
        )
        self._loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[HowItEnded] = self._loop.create_future()
        self._pidfd = pidfd_open(self.pid)
        self._loop.add_reader(self._pidfd, self._ended)

    def signal(self, sig: int, group: bool = False) -> None:
        try:
            (os.killpg if group else os.kill)(self.pid, sig)
        except ProcessLookupError:
            return

    def cpu_seconds(self) -> float | None:
        used = None if self.exited.done() else usage(self.pid)
        return None if used is None else used.cpu_seconds

    def _ended(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self.exited.set_result(HowItEnded(code, None) if code >= 0 else HowItEnded(None, -code))
