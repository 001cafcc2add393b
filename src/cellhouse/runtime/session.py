"""One session: a live kernel and the queue before it, worked off by one task."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from cellhouse.capture import DisplayRegistry
from cellhouse.files import HostileDir
from cellhouse.kernel import Died, Kernel, KernelItem, KernelStartFailed, Trouble
from cellhouse.model import (
    INPUTS_VARIABLE,
    CallReason,
    CaptureLimits,
    Clock,
    EndReason,
    ExecutionName,
    FailedPrecondition,
    InvalidArgument,
    Late,
    NoticeReason,
    ResourceExhausted,
    Session as SessionDocument,
    SessionLimits,
    SessionName,
    SessionState,
    SessionStatus,
    mint_uid,
    rfc3339,
)
from cellhouse.runtime.ends import because, end_after_failure, end_unstarted, ending_reason, log_of
from cellhouse.runtime.execution import Execution, Stage
from cellhouse.runtime.files import ContentFiles
from cellhouse.runtime.inputs import Inputs
from cellhouse.runtime.late import LateRoutes
from cellhouse.runtime.logs import logger
from cellhouse.runtime.outcome import Ending, Verdict, how_it_died, never_started
from cellhouse.runtime.run import Run
from cellhouse.runtime.session_log import SessionLog

_logger = logger()

INPUT_CHARS = 1 << 20
CATCH_UP_ITEMS = 4096

KernelMaker = Callable[[], Coroutine[Any, Any, Kernel]]
"""Makes and starts one kernel; raises KernelStartFailed, and leaves nothing then."""


class Session:
    """Runs executions one at a time, in order of arrival, and reads the kernel between them.

    A kernel is started for the first execution, and anew for the first one submitted after a loss; that
    one's result says so.
    """

    def __init__(
        self,
        name: SessionName,
        *,
        make_kernel: KernelMaker,
        content: HostileDir,
        files: ContentFiles,
        session_log: SessionLog,
        limits: SessionLimits,
        capture: CaptureLimits,
        clock: Clock,
        kernel_name: str = "",
        language: str = "python",
        fresh_because: str = "",
        inputs: Inputs | None = None,
    ) -> None:
        """`fresh_because`: what its first execution has to be told of a namespace that is empty."""
        self.name = name
        self.language = language
        self.limits, self.capture, self.clock = limits, capture, clock
        self.content, self._files = content, files
        self.log = session_log
        self.late = LateRoutes(session_log)
        self.displays = DisplayRegistry(capture.display_ids)
        self.created = rfc3339(clock.now())
        self.execution_count = 0
        self.last_used = clock.monotonic()
        self._kernel_name = kernel_name
        self._make_kernel = make_kernel
        self._queue: deque[Execution] = deque()
        self._behind: frozenset[str] = frozenset()
        self._current: Execution | None = None
        self._active: Run | None = None
        self._kernel: Kernel | None = None
        self._starting: asyncio.Task[Kernel] | None = None
        self._wake = asyncio.Event()
        self._fresh_because = fresh_because
        self._inputs = inputs or Inputs("/content")
        self._inputs_told = 0
        self._reset_because = ""
        self._reset_done = asyncio.Event()
        self._closing: Ending | None = None
        self._closing_text = ""
        self._worker = asyncio.get_running_loop().create_task(self._work(), name=f"session {name}")

    # what others see

    @property
    def busy(self) -> bool:
        return self._current is not None or bool(self._queue)

    @property
    def status(self) -> SessionStatus:
        if self._closing is not None:
            return SessionStatus.DEAD
        if self._starting is not None:
            return SessionStatus.STARTING
        return SessionStatus.BUSY if self.busy else SessionStatus.IDLE

    @property
    def has_kernel(self) -> bool:
        return self._kernel is not None

    def describe(self, expire_time: str | None = None) -> SessionDocument:
        return SessionDocument(
            name=str(self.name),
            status=self.status,
            kernel=self._kernel_name or None,
            language=self.language or None,
            execution=str(self._current.name) if self._current else None,
            queued=len(self._queue),
            execution_count=self.execution_count,
            create_time=self.created,
            expire_time=expire_time,
        )

    def execution_named(self, name: ExecutionName) -> Execution | None:
        """The running or queued execution of this name."""
        for execution in (self._current, *self._queue):
            if execution is not None and execution.name == name:
                return execution
        return None

    def late_output(self, uid: str) -> Late | None:
        return self.late.late(uid)

    # what others ask

    def check_room(self) -> None:
        """ResourceExhausted where the queue is full: called before anything is written of a new execution."""
        if len(self._queue) >= self.limits.queue:
            raise ResourceExhausted(
                f"{self.name}: its queue holds {self.limits.queue} executions, which is the limit (queue); "
                "wait for some to finish, or use another session",
                reason=CallReason.QUEUE_FULL,
                limit="queue",
            )

    def submit(self, execution: Execution) -> None:
        """Take its place in the queue; a session that is ending ends it at once."""
        self._queue.append(execution)
        if self._closing is not None:
            self._flush_queue(ending_reason(self._closing), self._closing_text, SessionState.GONE)
        self._rouse()

    def interrupt(self) -> bool:
        """Interrupt what runs; False where nothing does."""
        if self._current is None:
            return False
        self._current.asked.interrupt = True
        if self._active is not None:
            self._active.interrupt()
        return True

    def cancel(self, execution: Execution) -> None:
        """Interrupt it where it runs; end it as never started where it waits."""
        if execution is self._current:
            self.interrupt()
        elif execution in self._queue:
            self._queue.remove(execution)
            self._end_unstarted(
                execution, EndReason.CANCELLED, "cancelled while queued", SessionState.PRESERVED
            )

    def provide_input(self, execution: Execution, value: str) -> None:
        if len(value) > INPUT_CHARS:
            raise InvalidArgument.of_field(
                "value",
                f"{len(value)} characters are over the limit of {INPUT_CHARS} for a line of input; put them into a file",
            )
        conversation = execution.conversation
        if conversation is None or execution.stage is Stage.FINISHED or not conversation.provide_input(value):
            raise FailedPrecondition(
                f"{execution.name} is not waiting for input; an `inputRequested` event says when it does",
                reason=CallReason.NOT_WAITING_FOR_INPUT,
            )

    async def restart(self) -> None:
        """End what runs and what waits; the next execution gets a fresh kernel."""
        if self._closing is not None:
            await asyncio.wait([self._worker])
            return
        self._reset_because = "the session was restarted by a caller"
        self._reset_done.clear()
        self._rouse()
        self._flush_queue(EndReason.SESSION_RESET, self._reset_because, SessionState.RESET)
        self._end_current(Ending.RESTART, "")
        await self._reset_done.wait()

    async def close(self, ending: Ending, text: str) -> None:
        """End everything; the session is gone afterwards. May be called twice."""
        if self._closing is None:
            self._closing, self._closing_text = ending, text
            self._rouse()
            self._flush_queue(ending_reason(ending), text, SessionState.GONE)
            self._end_current(ending, text)
        await asyncio.wait([self._worker])

    # the worker

    async def _work(self) -> None:
        try:
            while self._closing is None:
                try:
                    await self._work_once()
                except Exception:
                    # One thing that could not be taken in must not end the session's queue.
                    _logger.exception("a session failed between executions", session=str(self.name))
                    await self._lose_kernel("the service failed between executions")
        finally:
            if self._closing is None:
                self._closing, self._closing_text = Ending.RUNTIME_LOST, "the session's task was ended"
            self._flush_queue(ending_reason(self._closing), self._closing_text, SessionState.GONE)
            await self._lose_kernel("")
            self._reset_done.set()

    async def _work_once(self) -> None:
        if self._reset_because:
            await self._lose_kernel(self._reset_because)
            self._reset_because = ""
            self._reset_done.set()
        elif self._queue:
            await self._run(self._queue.popleft())
        elif self._kernel is not None:
            await self._listen(self._kernel)
        else:
            self._wake.clear()
            await self._wake.wait()

    async def _listen(self, kernel: Kernel) -> None:
        item = await kernel.receive()
        if item is not None:
            await self._heard(item)

    async def _catch_up(self, kernel: Kernel) -> None:
        """A kernel may have died a moment ago: then what was submitted after the last end gets a fresh one."""
        for _ in range(CATCH_UP_ITEMS):
            item = await kernel.receive(0)
            if item is None or self._kernel is None:
                return
            await self._heard(item)

    async def _heard(self, item: KernelItem) -> None:
        self.late.feed(item)
        if isinstance(item, Died) or (isinstance(item, Trouble) and item.fatal):
            how = item.text if isinstance(item, Trouble) else how_it_died(item)
            await self._lose_kernel(f"the kernel was lost between executions: {how}")

    async def _run(self, execution: Execution) -> None:
        self._current = execution
        try:
            kernel = await self._ensure_kernel(execution)
            if kernel is None or self._ended_meanwhile(execution):
                return
            self._tell_of_fresh_kernel(execution)
            inputs = self._untold_inputs(execution)
            self._active = Run(
                execution,
                kernel,
                content=self.content,
                files=self._files,
                displays=self.displays,
                late=self.late,
                limits=self.limits,
                capture=self.capture,
                clock=self.clock,
                python=self.language == "python",
                on_verdict=self._verdict_given,
                variables=inputs,
            )
            told = self._inputs.version
            verdict = await self._active.to_its_end()
            self._inputs_told = told
            if not execution.settled:
                execution.seal()
            self.execution_count = execution.execution_count or self.execution_count
            if verdict.kernel_lost:
                await self._lose_kernel(kernel.distrusted or because(verdict))
        except Exception as error:
            # One execution whose end could not be written must not take the session with it.
            if execution.stage is not Stage.FINISHED:
                self._behind = frozenset(waiting.uid for waiting in self._queue)
            end_after_failure(execution, error)
            how = "the service failed while the last execution ran"
            await self._lose_kernel(how)
            self._end_behind(how)
        finally:
            self._current = self._active = None
            self.last_used = self.clock.monotonic()

    async def _ensure_kernel(self, execution: Execution) -> Kernel | None:
        """The live kernel, started where there is none; None where it could not be had and the end is written."""
        if self._kernel is not None:
            await self._catch_up(self._kernel)
        if self._kernel is not None and self._kernel.distrusted:
            await self._lose_kernel(self._kernel.distrusted)
        if self._kernel is not None:
            return self._kernel
        if self._ended_meanwhile(execution):
            return None
        if execution.uid in self._behind:
            self._queue.appendleft(execution)
            self._end_behind(self._fresh_because)
            return None
        # A kernel of another language has those that were there when it was started; it can't be told of others.
        self._inputs_told = 0 if self.language == "python" else self._inputs.version
        self._starting = asyncio.get_running_loop().create_task(self._make_kernel())
        try:
            self._kernel = await self._starting
        except asyncio.CancelledError:
            if execution.asked.ending is None:
                raise
            self._end_by(execution)
            return None
        except KernelStartFailed as error:
            self.log.write("start", f"{error}\n{error.log}")
            text = f"{error}{log_of(error)}"
            metadata = {"log": error.log[-4096:]} if error.log else {}
            self._end_unstarted(
                execution, EndReason.KERNEL_START_FAILED, text, SessionState.RESET, **metadata
            )
            self._flush_queue(EndReason.KERNEL_START_FAILED, text, SessionState.RESET, **metadata)
            return None
        except Exception as error:
            error_id = mint_uid()
            _logger.exception("a kernel could not be made", session=str(self.name), error_id=error_id)
            text = f"the service failed while it started a kernel ({type(error).__name__}); errorId {error_id} is in its log"
            self._end_unstarted(execution, EndReason.KERNEL_START_FAILED, text, SessionState.RESET)
            return None
        finally:
            self._starting = None
        return self._kernel

    def _ended_meanwhile(self, execution: Execution) -> bool:
        """Whether somebody ended it while its kernel was started; then its code is not sent."""
        if execution.asked.ending is not None:
            self._end_by(execution)
        elif execution.asked.interrupt:
            text = "cancelled before its code was sent"
            self._end_unstarted(execution, EndReason.CANCELLED, text, SessionState.PRESERVED)
        else:
            return False
        return True

    def _untold_inputs(self, execution: Execution) -> dict[str, str]:
        """The variable that this kernel lacks, of what was staged since it was told last."""
        if self._inputs_told == self._inputs.version:
            return {}
        if self.language == "python":
            return self._inputs.environment()
        execution.notice(
            NoticeReason.OPTION_NOT_SUPPORTED,
            f"{INPUTS_VARIABLE} can't be set in a {self.language or 'foreign'} kernel that runs already: it lacks what was staged "
            "since; restart the session, or use the paths",
        )
        return {}

    def _tell_of_fresh_kernel(self, execution: Execution) -> None:
        if self._fresh_because:
            execution.notice(
                NoticeReason.FRESH_KERNEL,
                f"this is a fresh kernel with no variables of earlier executions: {self._fresh_because}",
            )
            self._fresh_because = ""

    async def _lose_kernel(self, because: str) -> None:
        """Whatever its end throws at us, it is not used again."""
        kernel, self._kernel = self._kernel, None
        if kernel is not None:
            self._fresh_because = because
        try:
            self.late.clear()
            self.displays = DisplayRegistry(self.capture.display_ids)
            if kernel is not None:
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.shield(kernel.close())
        except Exception:
            _logger.exception("a kernel could not be closed well", session=str(self.name))

    # ends

    def _verdict_given(self, verdict: Verdict) -> None:
        """Whoever sees this end may submit anew at once: only what waits now ends with the lost kernel."""
        self._behind = frozenset(execution.uid for execution in self._queue)
        if not verdict.kernel_lost or self._closing is not None:
            return
        gone = verdict.session_state is SessionState.GONE
        reason = EndReason.RUNTIME_LOST if gone else EndReason.SESSION_RESET
        self._flush_queue(reason, because(verdict), SessionState.GONE if gone else SessionState.RESET)

    def _end_behind(self, text: str) -> None:
        """The kernel was lost after an end had been decided: what waited then had counted on that kernel."""
        behind = [execution for execution in self._queue if execution.uid in self._behind]
        for execution in behind:
            self._queue.remove(execution)
            self._end_unstarted(execution, EndReason.SESSION_RESET, text, SessionState.RESET)

    def _end_current(self, ending: Ending, text: str) -> None:
        if self._current is None:
            return
        self._current.asked.ending = ending
        self._current.asked.ending_text = text
        if self._starting is not None:
            self._starting.cancel()
        elif self._kernel is not None:
            self._kernel.kill()

    def _end_by(self, execution: Execution) -> None:
        ending = execution.asked.ending or Ending.RUNTIME_LOST
        state = SessionState.RESET if ending is Ending.RESTART else SessionState.GONE
        text = execution.asked.ending_text or "ended before it started"
        self._end_unstarted(execution, ending_reason(ending), text, state)

    def _flush_queue(self, reason: str, text: str, state: SessionState, **metadata: str) -> None:
        while self._queue:
            self._end_unstarted(self._queue.popleft(), reason, text, state, **metadata)

    def _end_unstarted(
        self, execution: Execution, reason: str, text: str, state: SessionState, **metadata: str
    ) -> None:
        end_unstarted(execution, never_started(reason, text, state, **metadata))

    def _rouse(self) -> None:
        self._wake.set()
        if self._kernel is not None and self._current is None:
            self._kernel.wake()
