"""A rig whose kernels are native ones, in plain processes without walls."""

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from cellhouse.environments import Environment
from cellhouse.kernel import Kernel
from cellhouse.kernel.native import NativeKernel, SourceLimits
from cellhouse.model import CaptureLimits
from tests.contract.rig import Rig
from tests.kernels.native import NATIVE_MAIN, SOCKET_FD, NativeProcess

LIMITS = SourceLimits(bundle_bytes=CaptureLimits().bundle_bytes, text_chars=32 << 20)


class NativeKernels:
    """Starts native kernels, and ends them all with what they left."""

    def __init__(self, environment: Environment, directory: Path) -> None:
        self._environment, self._directory = environment, directory
        # A name that is short: sockets of multiprocessing stand below it.
        self._temporary = tempfile.TemporaryDirectory(prefix="rig-", ignore_cleanup_errors=True)
        self._made: list[NativeKernel] = []
        self._processes: list[NativeProcess] = []

    async def start(self, limits: SourceLimits = LIMITS) -> NativeKernel:
        kernel = NativeKernel("native", self._launch, limits=limits)
        self._made.append(kernel)
        await kernel.start()
        return kernel

    async def _launch(self, socket_fd: int, stdout_fd: int, stderr_fd: int) -> NativeProcess:
        process = NativeProcess(
            [str(self._environment.python), str(NATIVE_MAIN), str(SOCKET_FD)],
            {
                **{name: str(self._directory) for name in ("HOME", "IPYTHONDIR")},
                "TMPDIR": self._temporary.name,
            },
            self._directory,
            socket_fd=socket_fd,
            stdout_fd=stdout_fd,
            stderr_fd=stderr_fd,
        )
        self._processes.append(process)
        return process

    async def close(self) -> None:
        for kernel in self._made:
            await kernel.close()
        for process in self._processes:
            process.signal(9, True)  # what a dead kernel's children are
        self._temporary.cleanup()


@asynccontextmanager
async def native_rig(directory: Path, environment: Environment) -> AsyncIterator[Rig]:
    kernels = NativeKernels(environment, directory)

    async def make() -> Kernel:
        return await kernels.start()

    rig = Rig(directory, "native", make)
    await rig.open()
    yield rig
    await rig.close()
    await kernels.close()
