"""One execution driven over a live kernel: from the code being sent to its recorded end."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from cellhouse.capture import DisplayRegistry, Recorder
from cellhouse.files import HostileDir
from cellhouse.kernel import Conversation, End, ExecuteRequest, InputAsked, Kernel, KernelItem, Output, Stray
from cellhouse.kernel.conversation import Remark, Step, Tick
from cellhouse.messages import Message, RawText
from cellhouse.model import (
    CaptureLimits,
    Clock,
    EndReason,
    Notice,
    NoticeReason,
    SessionLimits,
    SessionState,
    Usage,
    mint_uid,
)
from cellhouse.runtime.ends import end_after_failure, our_fault
from cellhouse.runtime.execution import Execution
from cellhouse.runtime.files import ContentFiles, Made
from cellhouse.runtime.late import LateRoutes
from cellhouse.runtime.logs import logger
from cellhouse.runtime.outcome import (
    Verdict,
    decide,
    ended_before_the_code,
    names_no_exception,
    never_started,
    only_a_representation_failed,
    was_refused,
)
from cellhouse.runtime.variables import keeping_code, restoring_code, setting_code

_logger = logger()

UNCONFIRMED_SECONDS = 1.0
"""What waits for the kernel's word that the code runs (an interrupt, a request for input) waits no longer than this."""
MAX_EARLY = 64
SILENT_SECONDS = 10.0
"""A request of ours that sets or takes back variables has no business taking longer."""
MAX_EXECUTION_COUNT = 2**31 - 1


class Run:
    """Sends, records, times, and decides. Made for one execution and used once."""

    def __init__(
        self,
        execution: Execution,
        kernel: Kernel,
        *,
        content: HostileDir,
        files: ContentFiles,
        displays: DisplayRegistry,
        late: LateRoutes,
        limits: SessionLimits,
        capture: CaptureLimits,
        clock: Clock,
        python: bool,
        on_verdict: Callable[[Verdict], None],
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """`on_verdict` is told of the end just before anyone else can see it. `variables` are set before, and stay."""
        request = execution.request
        self._execution, self._kernel = execution, kernel
        self._late, self._limits, self._python = late, limits, python
        self._on_verdict = on_verdict
        self._variables = variables or {}
        self._files = files
        self._conversation = Conversation(
            kernel,
            ExecuteRequest(
                request.code,
                execution.uid,
                store_history=request.store_history,
                allow_stdin=request.allow_stdin,
            ),
            input_seconds=limits.input_wait,
            settle_seconds=limits.settle_seconds,
            exit_seconds=limits.exit_seconds,
        )
        self._recorder = Recorder(
            uid=execution.uid,
            execution=str(execution.name),
            limits=capture,
            output_limit=request.output_limit or capture.inline_chars,
            sink=execution.log,
            content=content,
            displays=displays,
            clock=clock,
        )
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._timers: list[asyncio.TimerHandle] = []
        self._interrupt_waits = False
        self._over = False
        self._early: list[RawText | InputAsked] = []

    async def to_its_end(self) -> Verdict:
        """Run it and write its end; never raises for what the kernel or the code did."""
        try:
            return await self._to_its_end()
        except Exception as error:
            verdict = our_fault(self._execution, error)
            self._on_verdict(verdict)
            self._kernel.kill()
            end_after_failure(self._execution, error, verdict)
            return verdict
        finally:
            self._files.drop(self._execution.uid)
            self._stop_timers()
            if self._execution.settled:
                self._late.add(self._execution.uid, self._recorder.late(), self._execution.log)

    async def _to_its_end(self) -> Verdict:
        execution = self._execution
        for code in self._preparing():
            preparing = await self._silently(code)
            if preparing.died is not None or not _went_well(preparing):
                return self._never_sent(preparing)
        await self._files.begin(execution.uid)
        cpu_before = self._kernel.cpu_seconds()
        execution.begin(self._recorder, self._conversation)
        self._start_timers()
        end = None
        async for step in self._conversation.steps():
            end = self._take(step) or end
            self._conversation.wake_at = self._next_due()
        assert end is not None, "a conversation ends with an End"
        self._stop_timers()
        if not end.sent:
            return self._never_sent(end)
        if not was_refused(end, execution.asked):
            self._confirm(None)
        self._take_reply(end)
        verdict = decide(
            end,
            execution.asked,
            first_error=self._recorder.first_error,
            shown=self._shown(end),
            python=self._python,
        )
        usage = self._usage(end, cpu_before)
        if execution.request.environment and not verdict.kernel_lost:
            verdict = await self._restore_variables(verdict)
        made = await self._made_files()
        if self._kernel.distrusted and not verdict.kernel_lost:
            verdict = replace(verdict, session_state=SessionState.RESET, kernel_lost=True)
        self._on_verdict(verdict)
        execution.freeze(verdict, made=made, usage=usage)
        return verdict

    def _preparing(self) -> Iterator[str]:
        """What the kernel has to be told before the code."""
        if self._variables:
            yield keeping_code(self._variables)
        if self._execution.request.environment:
            yield setting_code(self._execution.request.environment)

    def _never_sent(self, end: End) -> Verdict:
        """The kernel ended before it was given the code, or could not be made ready for it."""
        if end.died is None:
            text = "the environment variables that this execution is to have could not be set in the kernel"
            verdict = never_started(EndReason.KERNEL_ABORTED, text, SessionState.PRESERVED)
        else:
            verdict = ended_before_the_code(end, self._execution.asked)
        self._on_verdict(verdict)
        self._execution.freeze(verdict)
        self._execution.log.seal()
        return verdict

    async def _restore_variables(self, verdict: Verdict) -> Verdict:
        """They hold for one execution only: a kernel that can't be brought back is not used again."""
        restoring = await self._silently(restoring_code())
        if restoring.died is None and _went_well(restoring):
            return verdict
        text = "the variables of `environment` could not be taken back, so the kernel was given up"
        notice = Notice(reason=NoticeReason.OPTION_NOT_SUPPORTED, text=text)
        return replace(
            verdict, session_state=SessionState.RESET, kernel_lost=True, notices=(*verdict.notices, notice)
        )

    def _next_due(self) -> float | None:
        """When the recorder has something to do, in the loop's time; its own is that of the house's clock."""
        due = self._recorder.next_due()
        return None if due is None else self._loop.time() + max(0.0, due - self._clock.monotonic())

    # steps

    def _take(self, step: Step) -> End | None:
        execution = self._execution
        match step:
            case Output(Message() as message):
                if message.msg_type == "execute_input":
                    self._confirm(_count(message.content.get("execution_count")))
                    self._deliver()
                else:
                    self._confirm(None)
                    self._recorder.feed(message)
            case Output(RawText() as text):
                self._take_raw(text)
            case Stray(item):
                self._late.feed(item)
            case InputAsked():
                self._take_input_request(step)
            case Remark(reason, text):
                execution.notice(reason, text)
            case Tick():
                self._recorder.run_due()
            case End():
                return step
        return None

    def _take_raw(self, text: RawText) -> None:
        """Text of the process itself may overtake the kernel's word that the code runs; `started` comes first."""
        if self._execution.started.is_set():
            self._recorder.feed_raw(text)
            return
        self._early.append(text)
        if len(self._early) >= MAX_EARLY:
            self._confirm(None)

    def _confirm(self, execution_count: int | None) -> None:
        self._execution.confirm(execution_count)
        early, self._early = self._early, []
        for item in early:
            if isinstance(item, InputAsked):
                self._append_input_request(item)
            else:
                self._recorder.feed_raw(item)

    def _take_reply(self, end: End) -> None:
        reply = end.reply or {}
        self._recorder.feed_payload(reply.get("payload"))
        if reply.get("status") == "error" and not only_a_representation_failed(reply, self._shown(end)):
            self._recorder.feed_reply_error(reply)

    def _shown(self, end: End) -> bool:
        """Whether the value was shown as plain text; asked only where the reply names no exception."""
        return names_no_exception(end.reply) and bool(self._recorder.captured().result)

    def _take_input_request(self, asked: InputAsked) -> None:
        """It comes on a channel of its own, so it too may overtake the kernel's word that the code runs."""
        if self._execution.started.is_set():
            self._append_input_request(asked)
            return
        self._early.append(asked)
        self._timers.append(self._loop.call_later(UNCONFIRMED_SECONDS, self._confirm, None))

    def _append_input_request(self, asked: InputAsked) -> None:
        if not self._recorder.input_requested(asked.prompt, asked.password):
            self._conversation.provide_input("")

    async def _silently(self, code: str) -> End:
        """A request of ours, of which nobody hears; what others say meanwhile goes its way.

        One that does not end within `SILENT_SECONDS` costs the kernel: the code before it may have seen to that.
        """
        end = None
        request = ExecuteRequest(code, mint_uid(), silent=True, store_history=False)
        limit = self._loop.call_later(SILENT_SECONDS, self._kernel.kill)
        try:
            async for step in Conversation(self._kernel, request).steps():
                match step:
                    case Stray(item) | Output(item):
                        self._take_meanwhile(item)
                    case Remark(reason, text):
                        self._execution.notice(reason, text)
                    case End():
                        end = step
        finally:
            limit.cancel()
        assert end is not None, "a conversation ends with an End"
        return end

    def _take_meanwhile(self, item: KernelItem) -> None:
        """What this execution's own background work says still belongs to it; the rest goes to who it names."""
        parent = item.parent_id if isinstance(item, Message | RawText) else ""
        if parent != self._execution.uid or not self._execution.started.is_set():
            self._late.feed(item)
        elif isinstance(item, RawText):
            self._recorder.feed_raw(item)
        elif isinstance(item, Message):
            self._recorder.feed(item)

    # time and interrupts

    def interrupt(self) -> None:
        """Deliver an interrupt that was asked for, once the kernel runs the code (before, it would be ignored)."""
        if self._over:
            return
        if self._execution.started.is_set():
            self._kernel.interrupt()
        elif not self._interrupt_waits:
            self._interrupt_waits = True
            self._timers.append(self._loop.call_later(UNCONFIRMED_SECONDS, self._deliver))

    def _deliver(self) -> None:
        if self._interrupt_waits and not self._over:
            self._interrupt_waits = False
            self._kernel.interrupt()

    def _start_timers(self) -> None:
        if self._execution.asked.interrupt:
            self.interrupt()
        seconds = self._execution.request.execution_timeout
        if seconds is not None:
            self._timers.append(self._loop.call_later(seconds, self._timed_out))

    def _stop_timers(self) -> None:
        """The code has ended: what was asked of it comes too late, and must not reach what comes next."""
        self._over = True
        for timer in self._timers:
            timer.cancel()

    def _timed_out(self) -> None:
        self._execution.asked.timed_out = True
        self.interrupt()
        self._timers.append(self._loop.call_later(self._limits.interrupt_grace, self._kill))

    def _kill(self) -> None:
        self._execution.asked.killed = True
        self._kernel.kill()

    # what is told at the end

    async def _made_files(self) -> Made | None:
        """The files it made; with a notice where some are missing, None where nothing can be said at all."""
        execution = self._execution
        made = await self._files.end(
            execution.uid, origin=str(execution.name), patterns=execution.request.mint or ()
        )
        if (omitted := made.omitted) is not None:
            self._recorder.notice(
                NoticeReason.FILES_NOT_LISTED,
                f"{omitted.files} more files ({omitted.bytes} bytes) were made or changed than the "
                f"{len(made.artifacts)} that are listed, which is the limit (artifacts)",
            )
        if made.cut:
            self._recorder.notice(
                NoticeReason.FILES_NOT_LISTED,
                f"files that were made may be missing from the list: {made.cut}",
            )
        return None if made.cut and not made.artifacts else made

    def _usage(self, end: End, cpu_before: float | None) -> Usage:
        wall = self._execution.wall()
        cpu_after, peak = (
            (end.died.cpu_seconds, end.died.peak_memory_bytes)
            if end.died is not None
            else (self._kernel.cpu_seconds(), None)
        )
        cpu = cpu_after - cpu_before if cpu_after is not None and cpu_before is not None else None
        return Usage(
            wall_seconds=wall.wall_seconds if wall else None,
            cpu_seconds=max(0.0, cpu) if cpu is not None else None,
            peak_memory_bytes=peak,
        )


def _went_well(end: End) -> bool:
    return (end.reply or {}).get("status") == "ok"


def _count(value: object) -> int | None:
    """A kernel's In[N], where it is one."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_EXECUTION_COUNT:
        return value
    return None
