"""What the tests of kernels share: a process without walls, kernels to start in it, their items collected."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cellhouse.environments import Environment
from cellhouse.kernel import Died, JupyterKernel, Kernel, KernelItem, Launch
from cellhouse.kernel.life import START_SECONDS
from cellhouse.messages import Message, RawText
from cellhouse.model import LimitHit
from cellhouse.sandbox.pidfd import pidfd_open
from cellhouse.sandbox.usage import usage
from tests.kernel.peer import SECONDS

IPYKERNEL_MAIN = Path(__file__).parents[2] / "src" / "cellhouse" / "inside" / "ipykernel_main.py"
RAW_KERNEL = Path(__file__).with_name("raw_kernel.py")


@dataclass(frozen=True)
class HowItEnded:
    exit_status: int | None = None
    signal: int | None = None
    cpu_seconds: float | None = None
    peak_memory_bytes: int | None = None
    limit_hit: LimitHit | None = None


class PlainProcess:
    """A `KernelProcess` that is a child of the tests."""

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: Path,
        *,
        output: tuple[int, int] | None = None,
        descriptors: Sequence[int] = (),
    ) -> None:
        """`output`: write ends that become 1 and 2, in place of pipes of ours; it gets `descriptors` as they are."""
        self.stdout_fd = self.stderr_fd = -1
        out, err = output or self._pipes()
        try:
            self._child = subprocess.Popen(
                argv,
                env={**os.environ, **env},
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                pass_fds=descriptors,
                start_new_session=True,
            )
        except BaseException:
            if output is None:
                os.close(self.stdout_fd)
                os.close(self.stderr_fd)
            raise
        finally:
            if output is None:
                os.close(out)
                os.close(err)
        self.pid = self._child.pid
        self._loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[HowItEnded] = self._loop.create_future()
        self._pidfd = pidfd_open(self.pid)
        self._loop.add_reader(self._pidfd, self._ended)

    def _pipes(self) -> tuple[int, int]:
        self.stdout_fd, out = os.pipe()
        self.stderr_fd, err = os.pipe()
        os.set_blocking(self.stdout_fd, False)
        os.set_blocking(self.stderr_fd, False)
        return out, err

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
        code = self._child.wait()
        self.exited.set_result(HowItEnded(code, None) if code >= 0 else HowItEnded(None, -code))


class Kernels:
    """Makes kernels in plain processes, each in a directory of its own, and closes them all."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.made: list[JupyterKernel] = []
        self.processes: list[PlainProcess] = []

    def make(self, launch: Launch, *, start_seconds: float = START_SECONDS) -> JupyterKernel:
        kernel_dir = self.kernel_dir(len(self.made) + 1)
        kernel = JupyterKernel(
            launch,
            host_dir=kernel_dir,
            inside_dir=str(kernel_dir),
            spawn=self._spawn,
            start_seconds=start_seconds,
        )
        self.made.append(kernel)
        return kernel

    async def start(self, launch: Launch) -> JupyterKernel:
        kernel = self.make(launch)
        await kernel.start()
        return kernel

    def kernel_dir(self, number: int) -> Path:
        return self._directory / f"k{number}"

    async def close(self) -> None:
        for kernel in self.made:
            await kernel.close()
        for process in self.processes:
            process.signal(signal.SIGKILL, True)  # what a dead kernel's children are

    async def _spawn(self, argv: Sequence[str], env: Mapping[str, str]) -> PlainProcess:
        own = {name: str(self._directory) for name in ("HOME", "TMPDIR", "IPYTHONDIR")}
        process = PlainProcess(argv, {**own, **env}, self._directory)
        self.processes.append(process)
        return process


def ipykernel(environment: Environment, **changes: str) -> Launch:
    """The reference kernel as the house starts it."""
    argv = [str(environment.python), str(IPYKERNEL_MAIN), "-f", "{connection_file}"]
    return Launch(argv=argv, env=changes, name="ipykernel")


def raw_kernel(act: str, **env: str) -> Launch:
    """A kernel of a few lines that misbehaves as `act` says; see raw_kernel.py."""
    return Launch(
        argv=[sys.executable, "-I", "-S", str(RAW_KERNEL), "{connection_file}", act], env=env, name="raw"
    )


async def until(condition: Callable[[], object]) -> None:
    """Wait for what is told by no event."""
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)


async def next_item(kernel: Kernel) -> KernelItem:
    async with asyncio.timeout(SECONDS):
        while True:
            item = await kernel.receive()
            if item is not None:
                return item


async def items_until(kernel: Kernel, last: Callable[[KernelItem], bool]) -> list[KernelItem]:
    """Everything up to and with the first item that `last` is true of."""
    items = []
    async with asyncio.timeout(SECONDS):
        while True:
            item = await kernel.receive()
            if item is not None:
                items.append(item)
                if last(item):
                    return items


def idle_of(msg_id: str) -> Callable[[KernelItem], bool]:
    """Whether an item is the idle status that ends this request."""
    return lambda item: (
        isinstance(item, Message)
        and item.msg_type == "status"
        and item.parent_id == msg_id
        and item.content["execution_state"] == "idle"
    )


async def run(kernel: Kernel, code: str = "") -> list[KernelItem]:
    """Ask for one execution; everything up to its idle."""
    msg_id = kernel.send("shell", "execute_request", {"code": code, "silent": False})
    return await items_until(kernel, idle_of(msg_id))


async def until_died(kernel: Kernel) -> tuple[list[KernelItem], Died]:
    """What came before the death, and the death."""
    *items, died = await items_until(kernel, lambda item: isinstance(item, Died))
    assert isinstance(died, Died)
    return items, died


def text_of(items: Sequence[KernelItem], name: str = "stdout") -> str:
    """What was printed by stream messages."""
    return "".join(
        str(item.content["text"])
        for item in items
        if isinstance(item, Message) and item.msg_type == "stream" and item.content["name"] == name
    )


def raw_of(items: Sequence[KernelItem], name: str = "stdout") -> bytes:
    """What was written to a descriptor."""
    return b"".join(item.data for item in items if isinstance(item, RawText) and item.name == name)
