"""Starts the kernels that are compared, and has one of them record a group of cells."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from signal import SIGKILL
from typing import Any

from cellhouse.environments import Environment
from cellhouse.kernel import Kernel
from tests.kernel.support import Kernels, ipykernel
from tests.kernels.cell import Cell
from tests.kernels.native import NATIVE_MAIN, SOCKET_FD, NativeProcess
from tests.kernels.recording import Recorder, Recording

BUNDLE_BYTES = 64 << 20
TEXT_CHARS = 8 << 20


@asynccontextmanager
async def running(kind: str, environment: Environment, directory: Path) -> AsyncIterator[Kernel]:
    """A started kernel, `ipykernel` or `native`, whose home, temporary and working directory is `directory`."""
    if kind == "ipykernel":
        kernels = Kernels(directory)
        try:
            yield await kernels.start(ipykernel(environment))
        finally:
            await kernels.close()
        return
    processes: list[NativeProcess] = []
    kernel = _native(environment, directory, processes)
    try:
        await kernel.start()
        yield kernel
    finally:
        await kernel.close()
        for process in processes:
            process.signal(SIGKILL, True)  # what a dead kernel's children are


def _native(environment: Environment, directory: Path, processes: list[NativeProcess]) -> Kernel:
    module: Any = import_module("cellhouse.kernel.native")

    async def launch(socket_fd: int, stdout_fd: int, stderr_fd: int) -> NativeProcess:
        own = {name: str(directory) for name in ("HOME", "TMPDIR", "IPYTHONDIR")}
        argv = [str(environment.python), str(NATIVE_MAIN), str(SOCKET_FD)]
        process = NativeProcess(
            argv, own, directory, socket_fd=socket_fd, stdout_fd=stdout_fd, stderr_fd=stderr_fd
        )
        processes.append(process)
        return process

    limits = module.SourceLimits(bundle_bytes=BUNDLE_BYTES, text_chars=TEXT_CHARS)
    kernel: Kernel = module.NativeKernel("native", launch, limits=limits)
    return kernel


async def record(
    kind: str, cells: Sequence[Cell], environment: Environment, directory: Path
) -> dict[str, list[Recording]]:
    """What this kernel tells of each of the cells. They share a kernel but for those that must not, and those that
    come after one that did not live on."""
    made: dict[str, list[Recording]] = {}
    together = [cell for cell in cells if not cell.alone]
    number = 0
    while together:
        number += 1
        place = _place(directory, number)
        async with running(kind, environment, place) as kernel:
            recorder = Recorder(kernel, place)
            while together and recorder.alive:
                await recorder.run(together.pop(0))
            made |= recorder.recordings()
    for cell in cells:
        if cell.alone:
            number += 1
            place = _place(directory, number)
            async with running(kind, environment, place) as kernel:
                recorder = Recorder(kernel, place)
                await recorder.run(cell)
                made |= recorder.recordings()
    return made


def _place(directory: Path, number: int) -> Path:
    place = directory / f"{number:03}"
    place.mkdir(parents=True)
    return place
