"""What a service sees of the executions that it accepts: each is counted and logged by name when it ends, whoever waits."""

import asyncio
import logging
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Histogram

from cellhouse.capture.spill import HOLD_BYTES
from cellhouse.doors.callers import Caller
from cellhouse.model import (
    CellhouseError,
    DropReason,
    ErrorInfo,
    ExecuteCodeRequest,
    ExecuteCodeResult,
    FinishedEvent,
    Outcome,
    StartedEvent,
    TextCut,
)
from cellhouse.runtime import ExecutionHandle
from cellhouse.runtime.logs import NAME, logger

_logger = logger()

STARTED_SECONDS: Final = 1.0
"""What has not ended by then gets a line of its own when it starts; of what has, start and end are told together."""
FIRST_BYTES: Final = 4_096
SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
CODE_CHARS: Final = 65_536
"""Of it goes into the log, where that has code at all."""
TEXTS: Final = ("stdout", "stderr", "result")
FATES: Final = ("shown", "kept", "lost")
_REASONS: Final = frozenset(reason.value for reason in DropReason)
_OTHER: Final = "OTHER"


class Executions:
    """Counts into a registry of its own. Labels are of closed sets: nothing that a caller or code makes up is one."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, registry=registry)

        self._accepted = counter("cellhouse_executions_accepted", "Executions that were accepted.")
        self._attached = counter(
            "cellhouse_executions_attached", "Calls that attached to an execution that was there."
        )
        self._ended = counter("cellhouse_executions", "Executions that ended.", "outcome")
        self._queue = Histogram(
            "cellhouse_execution_queue_seconds",
            "From being accepted to the code's start, a kernel's start included.",
            buckets=SECONDS,
            registry=registry,
        )
        self._run = Histogram(
            "cellhouse_execution_run_seconds",
            "From the code's start to its end.",
            ("outcome",),
            buckets=SECONDS,
            registry=registry,
        )
        self._text = counter("cellhouse_text_bytes", "Bytes of text by what became of them.", "text", "fate")
        self._rich = counter("cellhouse_rich_outputs", "Rich outputs that were kept.")
        self._rich_bytes = counter("cellhouse_rich_output_bytes", "Bytes of the bundles that were kept.")
        self._dropped = counter("cellhouse_rich_outputs_dropped", "Rich outputs that were dropped.", "reason")
        for outcome in Outcome:
            self._ended.labels(outcome)
        for text in TEXTS:
            for fate in FATES:
                self._text.labels(text, fate)
        for reason in DropReason:
            self._dropped.labels(reason)
        self._watching: set[asyncio.Task[None]] = set()

    def accepted(
        self, handle: ExecutionHandle, request: ExecuteCodeRequest, caller: Caller, since: float
    ) -> None:
        """See one through to its end. `since`: when it was handed in, in seconds of the wall clock."""
        if handle.attached:
            self._attached.inc()
            return
        self._accepted.inc()
        execution = str(handle.name)
        _logger.info(
            "execution accepted",
            execution=execution,
            tenant=caller.tenant,
            principal=caller.principal,
            code=request.code[:CODE_CHARS],
        )
        task = asyncio.get_running_loop().create_task(self._see(handle, since), name=f"see {execution}")
        self._watching.add(task)
        task.add_done_callback(self._watching.discard)

    async def close(self) -> None:
        """No end is seen any more. Those that are on record by now have been."""
        await asyncio.sleep(0)
        for task in self._watching:
            task.cancel()
        if self._watching:
            await asyncio.wait(self._watching)

    async def _see(self, handle: ExecutionHandle, since: float) -> None:
        execution = str(handle.name)
        ending = asyncio.ensure_future(handle.ended())
        starting: asyncio.Future[StartedEvent | None] | None = None
        told = False
        try:
            done, _ = await asyncio.wait([ending], timeout=STARTED_SECONDS)
            if not done and logging.getLogger(NAME).isEnabledFor(logging.INFO):
                starting = asyncio.ensure_future(_started(handle))
                await asyncio.wait([ending, starting], return_when=asyncio.FIRST_COMPLETED)
                if starting.done() and starting.exception() is None:
                    event = starting.result()
                    if told := event is not None:
                        _tell_start(execution, event.time, since)
            self._finished(await ending, since, told=told)
        except CellhouseError as error:
            # The house was closed under it, or left to the next service: its end is that one's to tell.
            _logger.info("execution left", execution=execution, reason=error.reason)
        except asyncio.CancelledError:
            _logger.info("execution left", execution=execution, reason=None)
            raise
        except Exception:
            _logger.exception("the end of an execution could not be seen", execution=execution)
        finally:
            begun = [each for each in (ending, starting) if each is not None and not each.done()]
            for each in begun:
                each.cancel()
            if begun:
                await asyncio.gather(*begun, return_exceptions=True)

    def _finished(self, result: ExecuteCodeResult, since: float, *, told: bool) -> None:
        outcome = str(result.outcome)
        self._ended.labels(outcome).inc()
        queued = None
        if result.start_time is not None:
            if not told:
                _tell_start(result.execution, result.start_time, since)
            queued = _seconds(result.start_time, since)
            self._queue.observe(queued)
        ran = result.usage.wall_seconds if result.usage is not None else None
        if ran is not None:
            self._run.labels(outcome).observe(ran)
        texts = dict(_texts(result))
        for (text, fate), count in texts.items():
            self._text.labels(text, fate).inc(count)
        self._count_rich(result)
        info = result.outcome_info
        _logger.info(
            "execution finished",
            execution=result.execution,
            outcome=outcome,
            reason=info.reason if info is not None else None,
            session_state=str(result.session_state),
            queue_seconds=queued,
            run_seconds=None if ran is None else round(ran, 6),
            text_bytes=sum(texts.values()),
            rich_outputs=len(result.rich_outputs),
        )

    def _count_rich(self, result: ExecuteCodeResult) -> None:
        for output in result.rich_outputs:
            if output.error_info is None:
                self._rich.inc()
                self._rich_bytes.inc(output.size_bytes or 0)
            else:
                reason = output.error_info.reason
                self._dropped.labels(reason if reason in _REASONS else _OTHER).inc(
                    _stands_for(output.error_info)
                )


async def _started(handle: ExecutionHandle) -> StartedEvent | None:
    """Its start, once there is one; None where it ends without."""
    follower = handle.follower(page_bytes=FIRST_BYTES)
    try:
        while (page := follower.take()) is not None:
            for event in page:
                if isinstance(event, StartedEvent):
                    return event
                if isinstance(event, FinishedEvent):
                    return None
            if not page:
                await follower.wait()
        return None
    finally:
        follower.close()


def _tell_start(execution: str, started: str | None, since: float) -> None:
    queued = None if started is None else _seconds(started, since)
    _logger.info("execution started", execution=execution, start_time=started, queue_seconds=queued)


def _seconds(started: str, since: float) -> float:
    return round(max(0.0, datetime.fromisoformat(started).timestamp() - since), 6)


def _stands_for(info: ErrorInfo) -> int:
    """How many outputs an entry stands for: the last one of too many stands for the rest."""
    omitted = info.metadata.get("omittedOutputs", "")
    return max(1, int(omitted)) if omitted.isdecimal() and len(omitted) < 16 else 1


def _texts(result: ExecuteCodeResult) -> Iterator[tuple[tuple[str, str], int]]:
    """How many bytes of each text are in the result, are kept to be read by pages only, and were counted and not kept."""
    cuts: Any = result.truncation
    for name in TEXTS:
        shown = len(getattr(result, name).encode("utf-8", "replace"))
        cut: TextCut | None = getattr(cuts, name, None)
        kept = lost = 0
        if cut is not None:
            # A short text is not spilled: its events hold it.
            there = cut.spilled_bytes if cut.total_bytes > HOLD_BYTES else cut.total_bytes
            kept = max(0, there - shown)
            lost = max(0, cut.total_bytes - max(there, shown))
        yield (name, "shown"), shown
        yield (name, "kept"), kept
        yield (name, "lost"), lost
