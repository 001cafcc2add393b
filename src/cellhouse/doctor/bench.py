"""Where things are tried: sandboxes as runtimes have them, and one without walls or limits for the counter-proofs."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Self

from cellhouse.doctor.programs import LIMIT_PROBES, PROBES, Probe
from cellhouse.doctor.running import Answer, NoAnswer, Told, ask, ask_all, read_line, spawned
from cellhouse.environments import Environment
from cellhouse.model import CellhouseError, LimitName, WallLimits
from cellhouse.model.limits import MIB
from cellhouse.runtime import sandbox_spec
from cellhouse.sandbox import Sandbox, SandboxSpec, UidRange, create_sandbox

PROBE_SECONDS: Final = 4
PATIENCE_SECONDS: Final = 2.5
"""How long a program waits for a watcher that looks four times a second."""

LIMITS: Final = WallLimits(
    memory=128 * MIB, cpus=0.1, processes=32, content=16 * MIB, open_files=64, file_size=4 * MIB
)
"""Small ones, so that each is soon run into."""
QUICK: Final = replace(LIMITS, cpus=1.0)
"""The same for all but CPUs, which would slow everything else down."""
ORDER: Final[tuple[LimitName, ...]] = ("openFiles", "fileSize", "content", "processes", "memory")
CPU_TRIES: Final = 3
"""On a machine that is busy with other things, what is not limited may get little too."""

USER_NAMESPACE: Final = Probe(
    "user",
    "walls-of-its-own",
    "make a user namespace and be root in it",
    "checked(LIBC.unshare(0x10000000 | 0x04000000)); checked(LIBC.sethostname(b'probe', 5))",
    ("EPERM",),
)
_WAIT: Final = "import time; print('up', flush=True); time.sleep(60)"

SandboxMaker = Callable[[str, SandboxSpec], Sandbox]


class Bench:
    """An async context manager: entered, everything has been tried without walls."""

    def __init__(
        self,
        environment: Environment,
        directory: Path,
        args: Mapping[str, Any],
        *,
        uids: UidRange | None = None,
        make: SandboxMaker = create_sandbox,
    ) -> None:
        """`args` are what stands on the host: see `targets.standing`; `uids` where runtimes have theirs from."""
        self._environment, self._directory, self._make = environment, directory, make
        self._uids = uids
        self._python = str(environment.python)
        self._args = {**args, "other": ""}
        self._stack = contextlib.AsyncExitStack()
        self._outside: Sandbox | NoAnswer = NoAnswer("a sandbox without walls was not started")
        self._unwalled: dict[str, Told] = {}
        self.user_namespaces: Told = self._outside

    async def __aenter__(self) -> Self:
        try:
            await self._begin()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _begin(self) -> None:
        try:
            outside = await self._stack.enter_async_context(self.sandbox("none", "outside", None))
        except (CellhouseError, OSError) as error:
            self._outside = NoAnswer(f"a sandbox without walls could not be started: {error}")
            self.user_namespaces = self._outside
            return
        self._outside = outside
        other = outside.content / "of-another"
        other.write_text("another's", encoding="ascii")
        self._args["other"] = str(other)
        self._unwalled = await self.tell_all(outside)
        for name in ORDER:
            self._unwalled[name] = await self.told(outside, LIMIT_PROBES[name], **_limited(name, 0.0))
        self.user_namespaces = self._unwalled.pop(USER_NAMESPACE.name)

    @contextlib.asynccontextmanager
    async def sandbox(self, level: str, name: str, limits: WallLimits | None) -> AsyncIterator[Sandbox]:
        """A sandbox as a runtime has it, started. CellhouseError or OSError where it can't be had."""
        spec = sandbox_spec(self._directory / name, self._environment, limits or WallLimits(), self._uids)
        made = self._make(level, spec if limits is not None else replace(spec, limits=None))
        try:
            await made.start()
            yield made
        finally:
            await made.close()

    async def tell_all(self, sandbox: Sandbox) -> dict[str, Told]:
        """What each of `PROBES` says in a sandbox, and `USER_NAMESPACE`."""
        probes = (*PROBES, USER_NAMESPACE)
        return await ask_all(sandbox, self._python, probes, self._given(sandbox), seconds=PROBE_SECONDS)

    async def told(self, sandbox: Sandbox, probe: Probe, **args: Any) -> Told:
        """What one probe says in a sandbox."""
        given = {**self._given(sandbox), **args}
        return await ask(sandbox, self._python, probe, given, seconds=PROBE_SECONDS)

    def _given(self, sandbox: Sandbox) -> dict[str, Any]:
        return {**self._args, "content": sandbox.inside_path(sandbox.content)}

    def unwalled(self, name: str) -> Told:
        """What the probe of this name has said without walls."""
        return self._unwalled.get(name, self._outside if isinstance(self._outside, NoAnswer) else _NOT_TRIED)

    async def limit_told(self, sandbox: Sandbox, name: LimitName, *, watched: bool) -> tuple[Told, Told]:
        """What the probe of a limit says in a sandbox with `QUICK`, and what it has said without."""
        args = _limited(name, PATIENCE_SECONDS if watched else 0.0)
        return await self.told(sandbox, LIMIT_PROBES[name], **args), self.unwalled(name)

    async def cpus_told(self, sandbox: Sandbox) -> tuple[Told, Told]:
        """What the probe of CPU time says in a sandbox with `LIMITS`, and at the same time without."""
        probe, args = LIMIT_PROBES["cpus"], _limited("cpus", 0.0)
        told: tuple[Told, Told] = (_NOT_TRIED, _NOT_TRIED)
        for _ in range(CPU_TRIES):
            if isinstance(self._outside, NoAnswer):
                return await self.told(sandbox, probe, **args), self._outside
            told = await asyncio.gather(
                self.told(sandbox, probe, **args), self.told(self._outside, probe, **args)
            )
            if isinstance(told[1], Answer) and told[1].reached:
                break
        return told

    async def host_uid(self, sandbox: Sandbox) -> int:
        """The uid that a process in the sandbox has on the host. NoAnswer where it can't be had."""
        try:
            async with (
                asyncio.timeout(PROBE_SECONDS),
                spawned(sandbox, self._python, _WAIT, self._args) as process,
            ):
                await read_line(process.stdout_fd)
                return _uid_of(process.pid)
        except TimeoutError:
            raise NoAnswer(f"it was not there after {PROBE_SECONDS:g} s") from None
        except OSError as error:
            raise NoAnswer(f"its number on the host can't be read: {error}") from None


_NOT_TRIED: Final = NoAnswer("it was not tried without walls")


def _uid_of(pid: int) -> int:
    """The effective one, as the host counts (proc_pid_status(5))."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    return next(int(line.split()[2]) for line in status.splitlines() if line.startswith("Uid:"))


def _limited(name: LimitName, patience: float) -> dict[str, Any]:
    return {"limit": LIMITS.value(name), "patience": patience}
