"""The end of an execution whose owner died, with all the output that its record holds."""

import codecs
from collections.abc import Callable, Iterator

from cellhouse.files import RecordReader
from cellhouse.journal.entries import StartRecord
from cellhouse.journal.layout import Layout, TextName
from cellhouse.journal.paging import read_spill, spill_size
from cellhouse.journal.payloads import TextKind, decode_event, is_event
from cellhouse.journal.scan import LogFacts
from cellhouse.journal.texts import result_place
from cellhouse.journal.view import PlainText, TextView
from cellhouse.model import (
    Artifact,
    ArtifactEvent,
    CaptureLimits,
    Cleared,
    ClearedEvent,
    DisplayEvent,
    DisplayUpdatedEvent,
    DropReason,
    EndReason,
    ErrorEvent,
    ErrorInfo,
    Event,
    ExecuteCodeResult,
    ExecutionError,
    ExecutionState,
    Notice,
    NoticeEvent,
    NoticeReason,
    Outcome,
    ResultEvent,
    RichOutput,
    SessionState,
    StartedEvent,
    StreamEvent,
    StreamName,
    TextCut,
    Truncation,
)

_STREAMS: tuple[tuple[StreamName, TextKind], ...] = (("stdout", TextKind.STDOUT), ("stderr", TextKind.STDERR))
_CHUNK = 1 << 20
_WHY_CHARS = 200
_UNKNOWN_MIME_TYPE = "application/octet-stream"

# Makes what shows one stream, given its limit in characters. The default shows text as it was sent.
ViewMaker = Callable[[int], TextView]


class Recovery:
    """Reads a record twice: to see what there is, then to put it together. Memory is bounded by the result's limits."""

    def __init__(
        self,
        start: StartRecord,
        facts: LogFacts,
        reader: RecordReader,
        layout: Layout,
        limits: CaptureLimits,
        view: ViewMaker = PlainText,
    ) -> None:
        self._start = start
        self._facts = facts
        self._reader = reader
        self._layout = layout
        self._limits = limits
        self._new_view = view
        self._views: dict[StreamName, TextView] = {name: view(limits.inline_chars) for name, _ in _STREAMS}
        self._cleared: dict[StreamName, int] | None = None
        self._rich: dict[int, RichOutput] = {}
        self._artifacts: list[Artifact] | None = None
        self._notices: list[Notice] = []
        self._execution_count = 0
        self._started = ""
        self._last_time = ""
        self._stderr_ends_line = True
        # What the first reading finds out: whether the last value, and the first error, are in the streams already.
        self._value_printed = False
        self._error_printed = False

    def result(self, *, may_have_run: bool) -> ExecuteCodeResult:
        """What to freeze: RUNTIME_LOST, or NEVER_STARTED where the code was certainly not sent."""
        self._look()
        errors = 0
        for event in self._events():
            if isinstance(event, ErrorEvent):
                errors += 1
                if errors > 1 or self._error_printed:
                    continue
            self._take(event)
        for name, kind in _STREAMS:
            self._take_unlogged(name, self._facts.text_bytes.get(kind, 0))
        return self._document(may_have_run)

    def without_output(self, *, may_have_run: bool, why: str) -> ExecuteCodeResult:
        """The same end where the output on record can't be put together; what is there can still be read."""
        self._value_printed = True
        self._notice(
            NoticeReason.OUTPUT_LOST,
            f"the output on record could not be put together: {why[:_WHY_CHARS]}; the events have what can be read",
        )
        return self._document(may_have_run)

    def _events(self) -> Iterator[Event]:
        for _, payload in self._reader.records():
            if is_event(payload):
                try:
                    yield decode_event(payload)
                except ValueError:
                    self._notice(
                        NoticeReason.OUTPUT_LOST, "an event of this record could not be read and is left out"
                    )

    def _look(self) -> None:
        """An earlier value and a secondary error are printed as streams with that source, right after it was shown."""
        errors, own = 0, False
        for event in self._events():
            match event:
                case ErrorEvent():
                    own, errors = errors > 0, errors + 1
                case StreamEvent(source="error"):
                    self._error_printed |= not own
                case StreamEvent(source="result"):
                    self._value_printed = True
                case ResultEvent():
                    self._value_printed, own = False, False
                case NoticeEvent():
                    continue
                case _:
                    own = False

    # Events

    def _take(self, event: Event) -> None:
        self._last_time = event.time
        match event:
            case StartedEvent():
                self._execution_count = event.execution_count or 0
                self._started = event.time
            case StreamEvent():
                self._print(event.name, event.text)
            case ErrorEvent():
                # Its reply never came, so it is output as every error that did not end an execution.
                lines = event.traceback or (f"{event.name}: {event.value}",)
                self._print("stderr", ("" if self._stderr_ends_line else "\n") + "\n".join(lines) + "\n")
            case DisplayEvent():
                self._show(event)
            case DisplayUpdatedEvent():
                self._update(event)
            case ClearedEvent():
                self._clear()
            case ArtifactEvent():
                self._artifacts = self._artifacts or []
                if len(self._artifacts) < self._limits.artifacts:
                    self._artifacts.append(
                        Artifact(**{name: getattr(event, name) for name in Artifact.model_fields})
                    )
            case NoticeEvent():
                self._notice(event.reason, event.text)
            case _:
                # Values are taken from where the last one stands; the rest says nothing of output.
                return

    def _print(self, name: StreamName, text: str) -> None:
        self._views[name].write(text)
        if name == "stderr" and text:
            self._stderr_ends_line = text.endswith("\n")

    def _show(self, event: DisplayEvent) -> None:
        if event.index >= self._limits.rich_entries:
            return
        self._rich[event.index] = self._output(
            event.index, event.mime_types, event.size_bytes, event.error_info
        )

    def _update(self, event: DisplayUpdatedEvent) -> None:
        known = self._rich.get(event.index)
        if known is not None and event.execution == self._start.name:
            self._rich[event.index] = self._output(
                event.index, known.mime_types, event.size_bytes, event.error_info
            )

    def _output(
        self, index: int, mime_types: tuple[str, ...], size: int | None, error_info: ErrorInfo | None
    ) -> RichOutput:
        if error_info is not None:
            return RichOutput(index=index, mime_types=mime_types, error_info=error_info)
        # The contract's path of a bundle (RichOutput.filePath); whether the file is still there is another matter.
        path = f"/content/.dsm_outputs/{self._start.uid}/out-{index:03d}.json"
        return RichOutput(index=index, mime_types=mime_types, size_bytes=size or 0, file_path=path)

    def _clear(self) -> None:
        self._cleared = self._cleared or {}
        for name, view in self._views.items():
            self._cleared[name] = self._cleared.get(name, 0) + view.clear()
        self._stderr_ends_line = True
        gone = ErrorInfo(reason=DropReason.OUTPUT_CLEARED)
        for index, output in self._rich.items():
            self._rich[index] = RichOutput(index=index, mime_types=output.mime_types, error_info=gone)

    def _notice(self, reason: str, text: str) -> None:
        notice = Notice(reason=reason, text=text)
        if notice not in self._notices and len(self._notices) < self._limits.notices:
            self._notices.append(notice)

    # Texts beside the record

    def _take_unlogged(self, name: StreamName, logged: int) -> None:
        """What was printed after the events stopped taking text stands in the file beside the record only."""
        path = self._layout.text(self._start.uid, name)
        self._pour(self._views[name], name, logged, spill_size(path) - logged)

    def _pour(self, view: TextView, name: TextName, offset: int, size: int) -> None:
        path = self._layout.text(self._start.uid, name)
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while size > 0 and (part := read_spill(path, offset, min(size, _CHUNK))):
            offset, size = offset + len(part), size - len(part)
            view.write(decoder.decode(part))
        view.write(decoder.decode(b"", final=True))

    def _value(self) -> tuple[str, TextCut | None]:
        if self._value_printed:
            return "", None
        payload, place = result_place(self._reader)
        view = self._new_view(self._limits.inline_chars)
        if place is not None and spill_size(self._layout.text(self._start.uid, "result")) >= sum(place):
            self._pour(view, "result", *place)
        elif payload is not None:
            event = decode_event(payload)
            view.write(event.text if isinstance(event, ResultEvent) else "")
        return view.render(f"{self._start.name}/result")

    # The result

    def _document(self, may_have_run: bool) -> ExecuteCodeResult:
        start = self._start
        texts: dict[TextName, tuple[str, TextCut | None]] = {
            "stdout": self._views["stdout"].render(f"{start.name}/stdout"),
            "stderr": self._views["stderr"].render(f"{start.name}/stderr"),
            "result": self._value(),
        }
        cuts = {name: self._with_spill(name, cut) for name, (_, cut) in texts.items()}
        truncation = Truncation(stdout=cuts["stdout"], stderr=cuts["stderr"], result=cuts["result"])
        outputs = self._outputs()
        if self._facts.damaged:
            self._notices.append(
                Notice(
                    reason=NoticeReason.OUTPUT_LOST,
                    text=f"the record is damaged behind byte {self._facts.end}; what it said after that is lost",
                )
            )
        metadata = {"mayHaveRun": "true" if may_have_run else "false"}
        if self._last_time:
            metadata["lastEventTime"] = self._last_time
        return ExecuteCodeResult(
            execution_id=start.execution_id,
            session=start.session,
            execution_count=self._execution_count,
            stdout=texts["stdout"][0],
            stderr=texts["stderr"][0],
            result=texts["result"][0],
            execution_error=_error(may_have_run),
            output_truncated=truncation.cuts_output,
            rich_outputs_dropped=bool(outputs),
            rich_outputs=outputs,
            execution=start.name,
            state=ExecutionState.FINISHED,
            outcome=Outcome.RUNTIME_LOST if may_have_run else Outcome.NEVER_STARTED,
            outcome_info=ErrorInfo(reason=EndReason.OWNER_DIED, metadata=metadata),
            session_state=SessionState.GONE,
            truncation=truncation if truncation.cuts_output else None,
            cleared=None
            if self._cleared is None
            else Cleared(stdout_chars=self._cleared["stdout"], stderr_chars=self._cleared["stderr"]),
            artifacts=None if self._artifacts is None else tuple(self._artifacts),
            notices=tuple(self._notices) or None,
            # No end time: nobody saw the end.
            start_time=self._started or None,
        )

    def _with_spill(self, name: TextName, cut: TextCut | None) -> TextCut | None:
        if cut is None:
            return None
        return cut.model_copy(
            update={"spilled_bytes": max(0, spill_size(self._layout.text(self._start.uid, name)))}
        )

    def _outputs(self) -> tuple[RichOutput, ...]:
        """Dense: an output whose event never reached the record keeps its place."""
        lost = ErrorInfo(reason=DropReason.WRITE_FAILED, metadata={"cause": "its event is not in the record"})
        return tuple(
            self._rich.get(index)
            or RichOutput(index=index, mime_types=(_UNKNOWN_MIME_TYPE,), error_info=lost)
            for index in range(max(self._rich, default=-1) + 1)
        )


def _error(may_have_run: bool) -> ExecutionError:
    if may_have_run:
        return ExecutionError(
            name="RuntimeLost",
            value="the process that ran this execution died before it ended: the code may have run, in part or whole, "
            "and what it printed until then is here; run it anew under another executionId if that is safe",
        )
    return ExecutionError(
        name="NeverStarted",
        value="the process that held this execution died before the code was sent: nothing of it ran; "
        "run it under another executionId",
    )
