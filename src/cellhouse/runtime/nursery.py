"""Keeps one zygote of a runtime alive, and sessions that are forked before anybody asks for one."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cellhouse.kernel import Kernel, KernelProcess, KernelStartFailed, NativeLaunch
from cellhouse.runtime.logs import logger
from cellhouse.runtime.turns import Turns
from cellhouse.runtime.zygote import FORK_SECONDS, Zygote, ZygoteFailed
from cellhouse.sandbox import Sandbox, SandboxGone, SpawnFailed

FAILURES: Final = 3  # zygotes, one after the other, that no session came from: then there is no further one
QUIET_SECONDS: Final = (
    0.1  # that a session which was handed out has the machine for itself, before its successor is made
)

_logger = logger()


@dataclass(frozen=True, slots=True)
class _Spare:
    kernel: Kernel
    process: KernelProcess


class Nursery:
    """Belongs to one runtime, and is closed before its sandbox.

    A zygote that dies or hangs is replaced at once; one that an import has killed, without that module. Where several
    in a row are good for nothing, it stays at that, and every session is started fresh.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        *,
        python: str,
        env: Mapping[str, str],
        cwd: str,
        preload: Sequence[str],
        spares: int,
        make_kernel: Callable[[NativeLaunch], Kernel],
        turns: Turns,
    ) -> None:
        """`make_kernel` makes a kernel, not started yet, of something that launches its process.

        A zygote that nobody waits for is started when it is its turn.
        """
        self._sandbox = sandbox
        self._python, self._env, self._cwd = python, env, cwd
        self._preload = list(preload)
        self._wanted = spares
        self._make_kernel = make_kernel
        self._turns = turns
        self._awaited = asyncio.Event()
        self._spares: list[_Spare] = []
        self._failures = 0
        self._zygote: Zygote | None = None
        self._current: asyncio.Future[Zygote] | None = None
        self._beginning: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._forks: set[asyncio.Task[KernelProcess]] = set()
        self._closed = False
        self._breeding = asyncio.Lock()

    def begin_soon(self) -> None:
        """Start the zygote when there has been a moment's quiet; nobody has to wait for it."""
        self.put_off()
        if self._current is None and not self._closed:
            self._beginning = asyncio.get_running_loop().call_later(QUIET_SECONDS, self._begin)

    def put_off(self) -> None:
        """Don't start it yet, unless it has been: something else is worth more just now."""
        if self._beginning is not None:
            self._beginning.cancel()
            self._beginning = None

    def begin(self) -> None:
        """Start the zygote now, unless it has been."""
        self._awaited.set()
        self._begin()

    def _begin(self) -> None:
        self.put_off()
        if self._current is None and not self._closed:
            self._current = asyncio.get_running_loop().create_future()
            self._run(self._keep())

    @property
    def ready(self) -> bool:
        """Whether a session can be had without waiting for a zygote."""
        return self._current is not None and self._current.done() and self._current.exception() is None

    @property
    def ahead(self) -> int:
        """How many sessions that nobody has asked for yet are there."""
        return sum(not spare.process.exited.done() for spare in self._spares)

    async def take(self) -> Kernel | None:
        """A session that is there already; None where there is none. A dead one is thrown away."""
        while self._spares:
            spare = self._spares.pop(0)
            if not spare.process.exited.done():
                self._failures = 0
                asyncio.get_running_loop().call_later(QUIET_SECONDS, self._more)
                return spare.kernel
            await spare.kernel.close()
        return None

    async def fork(self, sock: int, stdout: int, stderr: int) -> KernelProcess:
        """A session from the zygote, which is waited for where it is still starting.

        ZygoteFailed where there is none; SandboxGone as the sandbox has it. Cancelled, it leaves no process.
        """
        self.begin()
        process = await self._fork_whatever_happens(sock, stdout, stderr)
        self._failures = 0
        asyncio.get_running_loop().call_later(QUIET_SECONDS, self._more)
        return process

    async def _fork_whatever_happens(self, *descriptors: int) -> KernelProcess:
        """What has been asked of the zygote is seen through, and undone where nobody wants it any more."""
        # Copies: who gives up closes its own, whose numbers then are another's.
        task = asyncio.get_running_loop().create_task(self._fork([os.dup(each) for each in descriptors]))
        self._forks.add(task)
        task.add_done_callback(self._forks.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_undo)
            raise

    async def _fork(self, descriptors: Sequence[int]) -> KernelProcess:
        try:
            if self._current is None:
                raise ZygoteFailed("it has not been started")
            try:
                async with asyncio.timeout(FORK_SECONDS):
                    zygote = await asyncio.shield(self._current)
            except TimeoutError:
                raise ZygoteFailed(f"it was not ready within {FORK_SECONDS:g} s") from None
            sock, stdout, stderr = descriptors
            return await zygote.fork(self._env, self._cwd, (sock, stdout, stderr))
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    async def close(self) -> None:
        """End the zygote and the spares, and wait for that; sessions that were handed out are none of it."""
        self._closed = True
        self.put_off()
        if self._current is not None:
            self._settle(ZygoteFailed("the runtime was closed"))
        for task in self._tasks:
            task.cancel()
        zygote = self._zygote
        await asyncio.gather(
            *([zygote.close()] if zygote is not None else []),
            *(spare.kernel.close() for spare in self._spares),
        )
        self._spares.clear()
        if waiting := [*self._tasks, *self._forks]:
            await asyncio.wait(waiting)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # The zygote.

    async def _keep(self) -> None:
        while not self._closed:
            zygote = self._zygote = Zygote(self._sandbox, self._preload)
            try:
                async with self._turns.turn(self._awaited):  # importing takes a processor for a second or two
                    await zygote.start(self._python, self._env)
            except SandboxGone as error:
                self._settle(ZygoteFailed(str(error)))
                return
            except (ZygoteFailed, SpawnFailed, OSError) as error:
                if not self._goes_on(error):
                    return
                continue
            if self._current is not None and not self._current.done():
                self._current.set_result(zygote)
            self._run(self._fill(zygote))
            await zygote.ended.wait()
            self._current = asyncio.get_running_loop().create_future()
            await zygote.buried()
            failure = zygote.failure()
            if not self._goes_on(failure):
                return

    def _goes_on(self, error: Exception) -> bool:
        """Whether there is to be another zygote after this failure of one."""
        if self._closed or self._sandbox.lost.done():
            self._settle(ZygoteFailed(str(error)))
            return False
        self._failures += 1
        module = getattr(error, "module", "")
        if module in self._preload:
            self._preload.remove(module)
        _logger.warning("a zygote failed", error=str(error), failures=self._failures)
        if self._failures < FAILURES:
            return True
        self._settle(ZygoteFailed(f"{self._failures} zygotes failed, the last: {error}"))
        return False

    def _settle(self, error: ZygoteFailed) -> None:
        """From here on there is no zygote."""
        if self._current is None or self._current.done():
            self._current = asyncio.get_running_loop().create_future()
        self._current.set_exception(error)
        self._current.exception()  # it may be that nobody asks

    # Spares.

    def _more(self) -> None:
        if self._zygote is not None and not self._closed:
            self._run(self._fill(self._zygote))

    async def _fill(self, zygote: Zygote) -> None:
        """Fork ahead what is to be there, once the zygote has imported everything."""
        settled = asyncio.ensure_future(zygote.settled.wait())
        ended = asyncio.ensure_future(zygote.ended.wait())
        try:
            await asyncio.wait((settled, ended), return_when=asyncio.FIRST_COMPLETED)
        finally:
            settled.cancel()
            ended.cancel()
        async with self._breeding:
            while len(self._spares) < self._wanted and not self._closed and not zygote.ended.is_set():
                try:
                    self._spares.append(await self._breed(zygote))
                except (KernelStartFailed, SandboxGone) as error:
                    _logger.warning("a session could not be forked ahead", error=str(error))
                    return

    async def _breed(self, zygote: Zygote) -> _Spare:
        made: list[KernelProcess] = []

        async def launch(sock: int, stdout: int, stderr: int) -> KernelProcess:
            try:
                made.append(await self._fork_whatever_happens(sock, stdout, stderr))
            except ZygoteFailed as error:
                raise KernelStartFailed(str(error)) from None
            return made[0]

        kernel = self._make_kernel(launch)
        await kernel.start()
        spare = _Spare(kernel, made[0])
        spare.process.exited.add_done_callback(lambda _: self._bury(spare))
        return spare

    def _bury(self, spare: _Spare) -> None:
        if spare in self._spares:
            self._spares.remove(spare)
            self._run(spare.kernel.close())


def _undo(task: "asyncio.Task[KernelProcess]") -> None:
    if not task.cancelled() and task.exception() is None:
        task.result().signal(signal.SIGKILL, group=True)
