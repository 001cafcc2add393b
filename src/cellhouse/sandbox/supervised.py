"""What all backends share: a supervisor inside, started by a command, reached over a channel, and never believed."""

import asyncio
import errno
import os
import signal
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from cellhouse.model import (
    Enforcement,
    FailedPrecondition,
    Internal,
    Isolation,
    IsolationLayer,
    LimitReport,
)
from cellhouse.sandbox.base import (
    ABSENT,
    IN_FORCE,
    SandboxGone,
    SandboxLoss,
    SandboxSpec,
    require_layers,
    unavailable,
)
from cellhouse.sandbox.channel import Channel
from cellhouse.sandbox.conversation import Conversation
from cellhouse.sandbox.launcher import Launch, Launcher
from cellhouse.sandbox.leftovers import RUN
from cellhouse.sandbox.limits import LimitKeeper
from cellhouse.sandbox.privileged import Here, Identity, Privileged

START_SECONDS: Final = 30.0  # for the supervisor to say that it is there
LOSS_SECONDS: Final = 0.1  # from the supervisor's end to that of the launcher, which says more about it
CLOSE_SECONDS: Final = 6.0  # for everything to end by itself, before the rest is killed
KILL_SECONDS: Final = 5.0  # for what was killed to be gone


T = TypeVar("T")


class SupervisedSandbox(Conversation):
    """A `Sandbox` but for its walls: a backend says how the supervisor is started and what is in force."""

    level: str
    own_users: bool
    """Whether what runs inside is in a user namespace of its own, without capabilities."""

    def __init__(self, spec: SandboxSpec, privileged: Privileged | None = None) -> None:
        """`privileged` is who does what this process can't, or is not to."""
        super().__init__(privileged or Here(spec.state, level=self.level, uids=spec.uids))
        self.spec = spec
        self.content = spec.state / "content"
        self.runtime_dir = spec.state / RUN
        self._report: Isolation | None = None
        self._lost: asyncio.Future[SandboxLoss] | None = None
        self._init_ended = asyncio.Event()
        self._losing: asyncio.TimerHandle | None = None
        self._closing: asyncio.Task[None] | None = None
        self._underway: set[asyncio.Future[Any]] = set()

    # What a backend adds.

    @abstractmethod
    async def prepare(self, control: int) -> Launch:
        """Make what the walls need and say how to start the supervisor with `control`; sets nothing going yet."""

    @abstractmethod
    def describe(self) -> Isolation:
        """What is in force, once `prepare` has been through."""

    @abstractmethod
    def inside_path(self, host: Path) -> str:
        """See `Sandbox.inside_path`."""

    def remedy(self, said: str) -> str:
        """What to do about a supervisor that did not start, from what was said; "" where nothing is known."""
        return ""

    def end_inside(self) -> None:
        """Bring everything inside to its end, now that the channel to the supervisor is closed. Doesn't wait for it."""
        self._privileged.signal(self._init_pidfd, signal.SIGKILL)

    def end_unready(self, launcher: Launcher) -> None:
        """The same before the supervisor has said that it is there, so that it has started nothing."""
        launcher.kill()

    async def clean(self) -> None:
        """Remove what was made, once the supervisor is dead."""
        await asyncio.to_thread(self._privileged.settle)

    # The interface.

    @property
    def report(self) -> Isolation:
        if self._report is None:
            raise SandboxGone("the sandbox has not been started, so there is no isolation to report")
        return self._report

    @property
    def limits(self) -> tuple[LimitReport, ...]:
        return self._keeper.reports if self._keeper is not None else ()

    @property
    def lost(self) -> asyncio.Future[SandboxLoss]:
        if self._lost is None:
            raise SandboxGone("the sandbox has not been started, so it can't be lost")
        return self._lost

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        if self._lost is not None or self._closing is not None:
            raise SandboxGone("a sandbox is started once; make a new one")
        loop = asyncio.get_running_loop()
        self._lost, self._ready = loop.create_future(), loop.create_future()
        try:
            launcher = await self._launch()
            try:
                async with asyncio.timeout(START_SECONDS):
                    await self._ready
            except TimeoutError:
                loss = SandboxLoss(
                    f"its supervisor, run by {self.spec.python}, was not there after {START_SECONDS:g} s"
                )
                raise self._start_error(loss, launcher.said()) from None
            self._report = self._with_limits(self.describe())
            require_layers(self.spec, self._report)
            if self._keeper is not None:
                self._keeper.begin(launcher.pid, self._init_pid)
        except BaseException as error:
            closed_meanwhile = isinstance(error, OSError) and self._is_closing()
            await self.close()
            if self._ready.done() and not self._ready.cancelled():
                self._ready.exception()  # told already, by this error or a more telling one
            if closed_meanwhile:  # what it was making was taken away under it
                raise SandboxGone("the sandbox was closed while it started") from error
            raise

    def _with_limits(self, report: Isolation) -> Isolation:
        """A backend's report, with what is known of the limits. Where there are no walls, they make none."""
        if self._keeper is None or not any(layer.status == IN_FORCE for layer in report.layers):
            return report
        held = self._keeper.reports
        text = ", ".join(f"{each.name} {each.enforcement}" for each in held)
        status = ABSENT if any(each.enforcement is Enforcement.NONE for each in held) else IN_FORCE
        layer = IsolationLayer(name="limits", status=status, detail=text)
        layers = tuple(layer if each.name == layer.name else each for each in report.layers)
        return Isolation(level=report.level, layers=layers)

    def _is_there(self) -> bool:
        return self._report is not None and self._closing is None and not self.lost.done()

    def _is_closing(self) -> bool:
        return self._closing is not None

    async def _launch(self) -> Launcher:
        for directory in (self.spec.state, self.content):
            await self.in_thread(partial(self._privileged.make, directory))
        self._channel, theirs = Channel.pair()
        with theirs:
            launch = await self.prepare(theirs.fileno())
            if self._closing is None:
                await self._limit(launch)
            if self._is_closing():
                for descriptor in launch.descriptors:
                    os.close(descriptor)
                raise SandboxGone("the sandbox was closed while it started")
            try:
                self._launcher = Launcher(
                    launch, self._privileged, control=theirs.fileno(), on_end=self._on_launcher_end
                )
            except OSError as error:
                raise unavailable(
                    f"isolation {self.level!r}: {launch.argv[0]} can't be started: {error.strerror}",
                    level=self.level,
                ) from error
        asyncio.get_running_loop().add_reader(self._channel.fileno(), self._on_message)
        return self._launcher

    async def claim(self) -> Identity | None:
        """Who the processes inside are on the host; None where they are this service."""
        self._identity = await self.in_thread(self._privileged.claim)
        return self._identity

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Have it done in a thread. Seen through also where nobody waits any more: `close` waits before it gives back."""
        if self._is_closing():
            raise SandboxGone("the sandbox was closed while it started")
        doing = asyncio.ensure_future(asyncio.to_thread(work))
        self._underway.add(doing)
        return await asyncio.shield(doing)

    async def _limit(self, launch: Launch) -> None:
        if self.spec.limits is None:
            return
        try:
            self._keeper = LimitKeeper(
                self.spec.limits,
                state=self.spec.state,
                content=self.content,
                own_users=self.own_users,
                maker=self._privileged,
                own_uid=self._identity is not None,
            )
            await self._keeper.prepare()
        except BaseException:
            for descriptor in launch.descriptors:
                os.close(descriptor)
            raise
        launch.argv = [*launch.argv, self._keeper.argument]
        launch.enter = self._keeper.entrances

    async def close(self) -> None:
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
            self._closing.add_done_callback(_heard)
        await asyncio.shield(self._closing)

    # The end.

    def _on_init_end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._init_pidfd)
        self._init_ended.set()
        self._ending("its supervisor ended")

    def _on_launcher_end(self) -> None:
        if self._channel is not None and self._channel.fileno() >= 0:
            self._on_message()  # what was said before the end is about what ended before it
        self._lose("its outermost process ended")

    def _ending(self, text: str) -> None:
        """The supervisor has gone: its launcher goes too, and knows more."""
        loop = asyncio.get_running_loop()
        if self._channel is not None and self._channel.fileno() >= 0:
            loop.remove_reader(self._channel.fileno())
        if self._closing is None and self._losing is None:
            self._losing = loop.call_later(LOSS_SECONDS, self._lose, text)

    def _lose(self, text: str) -> None:
        """The sandbox is no more, unasked: everything of it is ended, and whoever waits for it is told."""
        if self._losing is not None:
            self._losing.cancel()
        if self._closing is not None or self._launcher is None or self._lost is None or self._lost.done():
            return
        loss = self._launcher.loss(text)
        if self._keeper is not None and (hit := self._keeper.lose()) is not None:
            why = f"the memory limit of {hit.limit} bytes ended it"
            loss = replace(loss, text=f"{loss.text}; {why}", limit_hit=hit)
        self._hang_up()
        self._end_inside()
        for process in self._processes.values():
            process.signal(signal.SIGKILL, group=True)
        if self._ready is not None and not self._ready.done():
            self._ready.set_exception(self._start_error(loss, self._launcher.said()))
            return
        self._lost.set_result(loss)
        self._refuse(loss.text)

    def _start_error(self, loss: SandboxLoss, said: str) -> FailedPrecondition:
        text = f"isolation {self.level!r} can't be had: {loss.text}"
        if said and said not in text:
            text += f"; it said: {said}"
        if remedy := self.remedy(said):
            text += f". {remedy}"
        return unavailable(text, level=self.level)

    def _hang_up(self) -> None:
        if self._channel is not None and self._channel.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._channel.fileno())
            self._channel.close()
        # No word comes any more about what has ended or is about to.
        for process in list(self._processes.values()):
            process.explain(None)

    def _refuse(self, text: str) -> None:
        for request in self._requests.values():
            if not request.answer.done():
                request.answer.set_exception(SandboxGone(text))
        self._requests.clear()

    def _end_inside(self) -> None:
        if self._init_pidfd >= 0:
            self.end_inside()
        elif self._launcher is not None:
            self.end_unready(self._launcher)

    async def _close(self) -> None:
        if self._losing is not None:
            self._losing.cancel()
        self._refuse("the sandbox was closed")
        if self._ready is not None and not self._ready.done():
            self._ready.set_exception(SandboxGone("the sandbox was closed while it started"))
        self._hang_up()
        try:
            self._end_inside()
            await self._await_end()
        finally:
            if self._launcher is not None:
                self._launcher.release()
            if self._init_pidfd >= 0:
                asyncio.get_running_loop().remove_reader(self._init_pidfd)
                os.close(self._init_pidfd)
                self._init_pidfd = -1
            if self._lost is not None:
                self._lost.cancel()
            if self._keeper is not None:
                await self._keeper.close()
        if self._underway:
            for done in (await asyncio.wait(self._underway))[0]:
                if not done.cancelled():
                    done.exception()  # told already, where anybody waited for it
        try:
            await self.clean()
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise  # something resists: its uid stays taken for as long as this process lives
            self._privileged.give_back()  # nothing lives there any more; what it left has no room off its disk
            raise
        self._privileged.give_back()

    async def _await_end(self) -> None:
        for seconds in (CLOSE_SECONDS, KILL_SECONDS):
            try:
                async with asyncio.timeout(seconds):
                    if self._launcher is not None:
                        await self._launcher.ended.wait()
                    if self._init_pidfd >= 0:
                        await self._init_ended.wait()
                    for process in list(self._processes.values()):
                        await process.wait()
                return
            except TimeoutError:
                if self._init_pidfd >= 0:
                    self._privileged.signal(self._init_pidfd, signal.SIGKILL)
                if self._launcher is not None:
                    self._launcher.kill()
                for process in self._processes.values():
                    process.signal(signal.SIGKILL, group=True)
        raise Internal(
            f"sandbox {self.spec.state}: a process in it can't be ended; the kernel of the host holds on to it"
        )

    def _gone(self) -> str:
        if self._closing is not None:
            return "the sandbox was closed"
        if self._report is None:
            return "the sandbox has not been started"
        if self._lost is not None and self._lost.done():
            return self._lost.result().text
        return "the sandbox was lost: its supervisor closed the channel"


def _heard(closing: "asyncio.Task[None]") -> None:
    """What went wrong is told to whoever waits for the end; who gave up waiting is told nothing more."""
    if not closing.cancelled():
        closing.exception()
