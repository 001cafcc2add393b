"""How a kernel that a kernelspec describes is started inside a sandbox."""

import asyncio
import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from cellhouse.environments import Environment, KernelSpec
from cellhouse.kernel import JupyterKernel, Kernel, KernelProcess, KernelStartFailed, Launch
from cellhouse.sandbox import Sandbox, SandboxGone, SpawnFailed
from cellhouse.sandbox.base import INSIDE_DIR

_REFERENCE_KERNEL = ("-m", "ipykernel_launcher")
WALLS_SECONDS = 1.0
_VARIABLE = re.compile(r"\$\{(\w+)\}")


async def walls_gone(sandbox: Sandbox) -> str:
    """Why the sandbox went, where it did; it may take a moment longer to show than the end of what was inside."""
    lost = sandbox.lost
    await asyncio.wait([lost], timeout=WALLS_SECONDS)
    return lost.result().text if lost.done() and not lost.cancelled() else ""


class KernelLauncher:
    """Makes the kernels of one runtime that a kernelspec describes, each in a directory of its own below /run/cellhouse."""

    def __init__(
        self,
        sandbox: Sandbox,
        environment: Environment,
        spec: KernelSpec,
        *,
        variables: Mapping[str, str],
        start_seconds: float,
    ) -> None:
        self._sandbox, self._spec = sandbox, spec
        self._environment = environment
        self._variables = variables
        self._start_seconds = start_seconds
        self._number = 0

    async def __call__(self) -> Kernel:
        self._number += 1
        # A name that code inside can't take first.
        host_dir = self._sandbox.runtime_dir / f"k{self._number}-{secrets.token_hex(4)}"
        kernel = JupyterKernel(
            self._launch(),
            host_dir=host_dir,
            inside_dir=self._sandbox.inside_path(host_dir),
            spawn=self._spawn,
            walls_gone=lambda: walls_gone(self._sandbox),
            start_seconds=self._start_seconds,
        )
        await kernel.start()
        return kernel

    def _launch(self) -> Launch:
        spec = self._spec
        argv = list(spec.argv)
        if tuple(argv[1:3]) == _REFERENCE_KERNEL:
            # The same kernel, started by our own main: it drops no message and keeps no printed text for ever.
            argv[1:3] = [self._sandbox.inside_path(INSIDE_DIR / "ipykernel_main.py")]
        known: Mapping[str, str] = {"PATH": f"{self._environment.python.parent}:/usr/bin:/bin"}
        env = {name: _VARIABLE.sub(lambda m: known.get(m[1], ""), value) for name, value in spec.env.items()}
        return Launch(
            argv=argv,
            env={**env, **self._variables},
            interrupt_mode=spec.interrupt_mode,
            resource_dir=str(spec.resource_dir),
            name=spec.name,
        )

    async def _spawn(self, argv: Sequence[str], env: Mapping[str, str]) -> KernelProcess:
        content: Path = self._sandbox.content
        try:
            return await self._sandbox.spawn(argv, env=env, cwd=self._sandbox.inside_path(content))
        except (SpawnFailed, SandboxGone) as error:
            raise KernelStartFailed(f"kernel {self._spec.name!r} could not be started: {error}") from None
