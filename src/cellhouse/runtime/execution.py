"""One execution on its way from queued to frozen."""

import asyncio
from enum import Enum

from cellhouse.capture import Captured, Recorder
from cellhouse.files import DiskFull
from cellhouse.journal import ExecutionLog
from cellhouse.kernel import Conversation
from cellhouse.model import (
    ArtifactEvent,
    Clock,
    ExecuteCodeRequest,
    ExecuteCodeResult,
    ExecutionName,
    ExecutionState,
    Notice,
    NoticeReason,
    QueuedEvent,
    StartedEvent,
    Usage,
    rfc3339,
)
from cellhouse.runtime.files import Made
from cellhouse.runtime.logs import logger
from cellhouse.runtime.outcome import Asked, Verdict

_logger = logger()


class Stage(Enum):
    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    FINISHED = "finished"


_NEXT = {
    Stage.QUEUED: {Stage.STARTING, Stage.FINISHED},
    Stage.STARTING: {Stage.RUNNING, Stage.FINISHED},
    Stage.RUNNING: {Stage.FINISHED},
    Stage.FINISHED: frozenset(),
}


class Execution:
    """State and record of one execution. Its session drives it; anyone may ask for a snapshot."""

    def __init__(
        self, name: ExecutionName, request: ExecuteCodeRequest, log: ExecutionLog, clock: Clock
    ) -> None:
        self.name = name
        self.request = request
        self.log = log
        self.asked = Asked(timeout_seconds=request.execution_timeout)
        self.conversation: Conversation | None = None
        self.recorder: Recorder | None = None
        self.stage = Stage.QUEUED
        self.result: ExecuteCodeResult | None = None
        self.finished = asyncio.Event()
        self.started = asyncio.Event()
        self.settled = False
        self.execution_count = 0
        self.failure: OSError | None = None
        self._clock = clock
        self._notices: list[Notice] = []
        self._start_time: str | None = None
        self._start_monotonic = 0.0
        try:
            log.append(QueuedEvent())
        except DiskFull:  # it is on record, with room for its end, so it can run
            self.notice(NoticeReason.DISK_FULL, "the journal's disk is full: events are missing from the log")
        except (
            OSError
        ) as error:  # as it is on record, it has to have an end, and whoever asked must learn of it
            self.failure = error

    @property
    def uid(self) -> str:
        return self.log.uid

    def notice(self, reason: str, text: str) -> None:
        """Something a caller must know besides; before the code has started it waits for the start."""
        if self.recorder is not None:
            self.recorder.notice(reason, text)
        else:
            self._notices.append(Notice(reason=reason, text=text))

    def begin(self, recorder: Recorder, conversation: Conversation) -> None:
        """The code is about to be sent: from here on it may have run."""
        self._move(Stage.STARTING)
        self.recorder, self.conversation = recorder, conversation
        self._start_time = rfc3339(self._clock.now())
        self._start_monotonic = self._clock.monotonic()
        waiting, self._notices = self._notices, []
        for notice in waiting:
            recorder.notice(notice.reason, notice.text)
        self.log.mark_sent()

    def confirm(self, execution_count: int | None) -> None:
        """The kernel runs it."""
        if self.stage is Stage.RUNNING and not self.execution_count:
            self.execution_count = execution_count or 0  # its output overtook the kernel's word
        if self.stage is not Stage.STARTING:
            return
        self._move(Stage.RUNNING)
        self.execution_count = execution_count or 0
        try:
            self.log.append(StartedEvent(execution_count=execution_count))
        except DiskFull:
            self.notice(NoticeReason.DISK_FULL, "the journal's disk is full: events are missing from the log")
        self.started.set()

    def freeze(
        self, verdict: Verdict, *, made: Made | None = None, usage: Usage | None = None
    ) -> ExecuteCodeResult:
        """Decide the end and write it; exactly once. Where that failed it can be tried anew: nothing is written by then."""
        self._check_next(Stage.FINISHED)
        for notice in verdict.notices:
            self.notice(notice.reason, notice.text)
        captured = self._captured(verdict)
        for artifact in made.artifacts if made is not None else ():
            try:
                self.log.append(ArtifactEvent.of(artifact))
            except DiskFull:
                break  # the result lists them all the same
        result = self._document(captured, ExecutionState.FINISHED, verdict, made, usage)
        self.result = self.log.finish(result).result
        self.stage = Stage.FINISHED
        self.started.set()
        self.finished.set()
        return self.result

    def freeze_without_output(self, verdict: Verdict) -> None:
        """The end alone, where not even what was captured can be put together."""
        self.recorder = None
        self._notices = [
            *verdict.notices,
            Notice(reason=NoticeReason.OUTPUT_LOST, text="its output is in the events only"),
        ]
        self.freeze(verdict)

    def _captured(self, verdict: Verdict) -> Captured | None:
        if self.recorder is None:
            return None
        if not self.settled:
            self.recorder.settle(reply_error=verdict.reply_error)
            self.settled = True
        return self.recorder.captured()

    def seal(self) -> None:
        """Nothing late will come: its readers are let go. Its end is on record, or never will be by us."""
        try:
            self.log.seal()
        except OSError:
            _logger.exception("a log could not be closed well", execution=str(self.name))
            self.log.seal()  # what could not be closed is gone by now

    def let_go(self) -> None:
        """Nothing more will be done for it; who waits looks into the log."""
        self.started.set()
        self.finished.set()

    def snapshot(self) -> ExecuteCodeResult:
        """The result once there is one, before that what there is so far."""
        if self.result is not None:
            return self.result
        state = ExecutionState.QUEUED if self.stage is Stage.QUEUED else ExecutionState.RUNNING
        return self._document(
            self.recorder.captured() if self.recorder else None, state, None, None, self.wall()
        )

    def wall(self) -> Usage | None:
        if self._start_time is None:
            return None
        return Usage(wall_seconds=max(0.0, self._clock.monotonic() - self._start_monotonic))

    def _check_next(self, stage: Stage) -> None:
        if stage not in _NEXT[self.stage]:
            raise RuntimeError(f"{self.name} cannot go from {self.stage.value} to {stage.value}")

    def _move(self, stage: Stage) -> None:
        self._check_next(stage)
        self.stage = stage

    def _document(
        self,
        captured: Captured | None,
        state: ExecutionState,
        verdict: Verdict | None,
        made: Made | None,
        usage: Usage | None,
    ) -> ExecuteCodeResult:
        notices = captured.notices if captured is not None else tuple(self._notices)
        return ExecuteCodeResult(
            execution_id=self.request.execution_id,
            session=str(self.name.session_name),
            execution_count=self.execution_count,
            stdout=captured.stdout if captured else "",
            stderr=captured.stderr if captured else "",
            result=captured.result if captured else "",
            execution_error=verdict.error if verdict else None,
            output_truncated=captured.output_truncated if captured else False,
            rich_outputs_dropped=captured.rich_outputs_dropped if captured else False,
            rich_outputs=captured.rich_outputs if captured else (),
            execution=str(self.name),
            state=state,
            outcome=verdict.outcome if verdict else None,
            outcome_info=verdict.info if verdict else None,
            session_state=verdict.session_state if verdict else None,
            truncation=captured.truncation if captured else None,
            cleared=captured.cleared if captured else None,
            artifacts=tuple(made.artifacts) if made is not None else None,
            artifacts_omitted=made.omitted if made is not None else None,
            usage=usage,
            notices=notices or None,
            start_time=self._start_time,
            end_time=rfc3339(self._clock.now()) if verdict else None,
        )
