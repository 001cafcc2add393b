"""Native kernels whose other end is tests/kernel/native_peer.py, and what they said taken apart."""

import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from cellhouse.kernel import KernelItem, Trouble
from cellhouse.kernel.life import START_SECONDS
from cellhouse.kernel.native import NativeKernel, SourceLimits
from cellhouse.messages import Message, RawText
from tests.kernel.support import PlainProcess

PEER = Path(__file__).with_name("native_peer.py")
LIMITS = SourceLimits(bundle_bytes=64 << 20, text_chars=1 << 20)


class Natives:
    """Makes native kernels in plain processes, and closes them all."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.made: list[NativeKernel] = []
        self.processes: list[PlainProcess] = []
        self.descriptors: list[int] = []

    def make(
        self,
        first: str = "",
        *,
        argv: Sequence[str] = (),
        start_seconds: float = START_SECONDS,
        isolate: bool = False,
    ) -> NativeKernel:
        """`first` is what the peer runs before all else; `argv` is a program in place of the peer."""

        async def launch(sock: int, stdout: int, stderr: int) -> PlainProcess:
            self.descriptors += [sock, stdout, stderr]
            command = argv or [sys.executable, "-I", "-S", str(PEER), str(sock), first]
            process = PlainProcess(command, {}, self._directory, output=(stdout, stderr), descriptors=[sock])
            self.processes.append(process)
            return process

        kernel = NativeKernel("peer", launch, limits=LIMITS, isolate=isolate, start_seconds=start_seconds)
        self.made.append(kernel)
        return kernel

    async def start(self, first: str = "") -> NativeKernel:
        kernel = self.make(first)
        await kernel.start()
        return kernel

    async def close(self) -> None:
        for kernel in self.made:
            await kernel.close()
        for process in self.processes:
            process.signal(signal.SIGKILL, True)  # what a dead kernel's children are


Short = tuple[str, str, bytes] | tuple[str, str] | KernelItem


def shown(items: Sequence[KernelItem]) -> list[Short]:
    """Text as (name, parent, data), pieces of the same put together; messages as (type, parent); without markup."""
    out: list[Short] = []
    for item in items:
        match item:
            case RawText(name, data, parent):
                last = out[-1] if out else None
                if isinstance(last, tuple) and len(last) == 3 and last[:2] == (name, parent):
                    out[-1] = (name, parent, last[2] + data)
                else:
                    out.append((name, parent, data))
            case Message(msg_type="status"):
                out.append((str(item.content["execution_state"]), item.parent_id))
            case Message():
                out.append((item.msg_type, item.parent_id))
            case _:
                out.append(item)
    return out


def troubles(items: Sequence[KernelItem]) -> list[Trouble]:
    return [item for item in items if isinstance(item, Trouble)]
