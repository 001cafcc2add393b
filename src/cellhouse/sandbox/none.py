"""No walls: the supervisor and all that it starts are ordinary processes of this user. Must be asked for by name."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Final

from cellhouse.model import Isolation, IsolationLayer
from cellhouse.sandbox.base import ABSENT, LAYERS, SandboxSpec, make_private
from cellhouse.sandbox.launcher import Launch
from cellhouse.sandbox.leftovers import HOME, TMP, make_short
from cellhouse.sandbox.privileged import Privileged
from cellhouse.sandbox.protocol import TOKEN
from cellhouse.sandbox.supervised import SupervisedSandbox

RUN_PATH_BYTES: Final = (
    48  # of runtime_dir; a socket's whole path must fit 107, and kernels add names of their own
)
ENVIRON_BYTES: Final = 1024 * 1024  # of a process's environment searched for the mark
SWEEP_ROUNDS: Final = 200
SWEEP_SECONDS: Final = 0.01


class NoneSandbox(SupervisedSandbox):
    """Isolation "none". What it does keep: a private directory, a small environment, and that nothing lives on."""

    level = "none"
    own_users = False

    def __init__(self, spec: SandboxSpec, privileged: Privileged | None = None) -> None:
        super().__init__(spec, privileged)
        self._home = spec.state / HOME
        self._tmp = spec.state / TMP

    async def prepare(self, control: int) -> Launch:
        for directory in (self._home, self._tmp):
            make_private(directory)
        if len(os.fsencode(self.runtime_dir)) > RUN_PATH_BYTES:
            self.runtime_dir = make_short(self.runtime_dir)
        make_private(self.runtime_dir)
        supervisor = [str(self.spec.python), "-I", "-S", "-B", str(self.spec.supervisor), str(control)]
        return Launch(supervisor, cwd=self.content)

    def describe(self) -> Isolation:
        why = dict.fromkeys(LAYERS, "isolation 'none' was asked for")
        if os.geteuid() == 0:
            why["uid"] += "; code is root, and so is what reads what it says"
        return Isolation(
            level=self.level,
            layers=tuple(IsolationLayer(name=name, status=ABSENT, detail=why[name]) for name in LAYERS),
        )

    def environment(self) -> dict[str, str]:
        return {
            "PATH": f"{self.spec.python.parent}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self._home),
            "LANG": "C.UTF-8",
            "TMPDIR": str(self._tmp),
        }

    def is_supervisor(self, pid: int, launcher: int) -> bool:
        return pid == launcher

    def inside_path(self, host: Path) -> str:
        return str(host)

    def end_inside(self) -> None:
        """Left to the supervisor: only while it lives does it know all that is below it."""

    async def clean(self) -> None:
        # The supervisor leaves nothing alive, unless it was killed itself. Twice nothing: a process that is about to
        # turn into another program has no environment for a moment.
        mark, quiet = f"{TOKEN}={self.mark}-".encode(), 0
        for _ in range(SWEEP_ROUNDS):
            quiet = 0 if await asyncio.to_thread(_kill_marked, mark) else quiet + 1
            if quiet == 2:
                break
            await asyncio.sleep(SWEEP_SECONDS)
        await super().clean()


def _kill_marked(mark: bytes) -> int:
    """Kill every process whose environment carries the mark; how many there were."""
    found = 0
    for directory in Path("/proc").iterdir():
        if not directory.name.isdigit():
            continue
        try:
            with (directory / "environ").open("rb") as file:
                environ = file.read(ENVIRON_BYTES)
            if environ.startswith(mark) or b"\0" + mark in environ:
                os.kill(int(directory.name), signal.SIGKILL)
                found += 1
        except OSError:
            continue  # another user's, or it has ended
    return found
