"""Everything that an execution prints: its two streams, its values and errors at their place, and the clearing of them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from cellhouse.capture.decode import Piece, pieces
from cellhouse.capture.emit import Emitter
from cellhouse.capture.sink import Sink
from cellhouse.capture.spill import Keeping, Spill
from cellhouse.capture.terminal import fold
from cellhouse.capture.text import SLOT_CHARS, TextStream
from cellhouse.capture.traceback import ErrorReport, ErrorText
from cellhouse.capture.value import EVENT_BYTES, Value
from cellhouse.messages import LongText
from cellhouse.model import (
    CaptureLimits,
    Cleared,
    ClearedEvent,
    ErrorEvent,
    NoticeReason,
    ResultEvent,
    StreamName,
    StreamSource,
    Truncation,
)

HELD_ERROR_BYTES: Final = 1024 * 1024
"""A message of the first error up to here is held, so that it can be printed whole if the code goes on."""


class _FirstError:
    """The first error, until the reply says whether it is the execution's own; its place in stderr is kept."""

    __slots__ = ("fresh_line", "place", "report", "whole")

    def __init__(
        self, report: ErrorReport, whole: ErrorText | None, place: int | None, fresh_line: bool
    ) -> None:
        self.report = report
        self.whole = whole
        self.place = place
        self.fresh_line = fresh_line

    def text(self) -> Iterator[Piece]:
        if not self.fresh_line:
            yield Piece("\n", b"\n")
        if self.whole is not None:
            yield from self.whole.text()
            return
        error = self.report.error
        lines = error.traceback or (f"{error.name}: {error.value}",)
        yield from pieces("\n".join(lines) + "\n")


class Printer:
    """Knows where in the folded text things stand; what is rich is not its business."""

    def __init__(
        self,
        execution: str,
        limits: CaptureLimits,
        output_limit: int,
        sink: Sink,
        emitter: Emitter,
        cleared: Callable[[], None],
    ) -> None:
        self._execution = execution
        self._limits = limits
        self._output_limit = output_limit
        self._emitter = emitter
        self._on_clear = cleared
        self._keeping = Keeping(sink, self._spill_limit_reached, emitter.failed)
        self._streams: dict[StreamName, TextStream] = {
            "stdout": TextStream(output_limit, Spill("stdout", self._keeping)),
            "stderr": TextStream(output_limit, Spill("stderr", self._keeping)),
        }
        self._value: Value | None = None
        self._error: _FirstError | None = None
        self._error_cleared = False
        self._error_is_own = False
        self._clear_waits = False
        self._was_cleared = False

    def _pointer(self, name: str) -> str:
        return f"{self._execution}/{name}"

    def _spill_limit_reached(self) -> None:
        self._emitter.notices.add(
            NoticeReason.SPILL_LIMIT,
            f"{self._limits.spill_bytes} bytes of text of this execution are kept for reading, which is the limit; "
            "further text is counted, not kept",
        )

    # Text

    def output(self) -> None:
        """Something is about to be shown: a clear that waited for that takes effect."""
        if self._clear_waits:
            self._clear_waits = False
            self._clear(wait=True)

    def print(self, name: StreamName, text: Iterable[Piece], source: StreamSource | None = None) -> None:
        """Text at the end of a stream."""
        stream = self._streams[name]
        for piece in text:
            self._before(name)
            stream.write(piece)
            self._log(name, piece, source)

    def print_in_slot(self, text: str, source: StreamSource) -> int | None:
        """A line of clean text in stdout that can be replaced later, by its slot. None: printed for good."""
        self._before("stdout")
        stdout = self._streams["stdout"]
        slot = stdout.reserve(fold(text)) if len(text) <= SLOT_CHARS else None
        if slot is None:
            self.print("stdout", pieces(text + "\n"), source)
            return None
        stdout.end_slot()
        self._count("stdout", pieces(text + "\n"), source)
        return slot

    def keep_place(self) -> int | None:
        """A place in stdout for a line that may come later."""
        self._before("stdout")
        return self._streams["stdout"].keep_place()

    def replace(self, slot: int | None, text: str) -> bool:
        """Puts other text into a slot of stdout, if there is one that can take it. It is not counted yet."""
        return slot is not None and len(text) <= SLOT_CHARS and self._streams["stdout"].fill(slot, fold(text))

    def count_line(self, text: str, source: StreamSource) -> None:
        """A line of stdout that slots show."""
        self._count("stdout", pieces(text + "\n"), source)

    def _before(self, name: StreamName) -> None:
        self.output()
        value = self._value
        if name == "stdout" and value is not None and not value.placed:
            value.placed = True
            value.place = self._streams["stdout"].keep_place()

    def _count(self, name: StreamName, text: Iterable[Piece], source: StreamSource | None) -> None:
        """Text that a slot shows."""
        for piece in text:
            self._streams[name].count(piece)
            self._log(name, piece, source)

    def _log(self, name: StreamName, piece: Piece, source: StreamSource | None) -> None:
        if not self._emitter.stream(name, piece, source):
            self._streams[name].spill.begin()

    def _fill(self, name: StreamName, slot: int | None, text: list[Piece], source: StreamSource) -> None:
        """Text for a place that was kept; printed at the end where that can't be."""
        stream = self._streams[name]
        whole = "".join([piece.text for piece in text])
        if slot is not None and len(whole) <= SLOT_CHARS and stream.fill(slot, fold(whole)):
            self._count(name, text, source)
        else:
            self.print(name, text, source)

    # Values

    def show_value(self, text: str | LongText) -> None:
        """A value of an expression. The one before counts as printed."""
        self.output()
        self._print_earlier_value()
        spill = Spill("result", self._keeping, hold=EVENT_BYTES)
        value = self._value = Value(text, self._output_limit, spill, self._pointer("result"))
        event_text = value.event_text()
        if not self._emitter.maybe(ResultEvent(text=event_text), len(event_text.encode())):
            spill.begin()
        if spill.kept:
            # Where in the whole text beside the log this value stands: there may have been others before it.
            self._emitter.note("result", {"offset": spill.offset, "sizeBytes": spill.kept})

    def _print_earlier_value(self) -> None:
        value, self._value = self._value, None
        if value is None:
            return
        if value.placed:
            self._fill("stdout", value.place, list(value.printed()), "result")
        else:
            self.print("stdout", value.printed(), "result")

    # Errors

    def show_error(self, content: Mapping[str, Any], size: int) -> None:
        """An `error` message. The first waits for the reply; any other is output, at once."""
        self.output()
        text = ErrorText(content, self._limits)
        stderr = self._streams["stderr"]
        fresh_line = stderr.at_line_start
        if self._error is None:
            report = text.report(self._pointer("traceback"), self._keep_traceback)
            place = stderr.keep_place()
            self._error = _FirstError(report, text if size <= HELD_ERROR_BYTES else None, place, fresh_line)
            self._log_error(report)
            return
        self._log_error(text.report(self._pointer("stderr"), lambda _: 0))
        if not fresh_line:
            self.print("stderr", pieces("\n"), "error")
        self.print("stderr", text.text(), "error")

    def reply_error(self, content: Mapping[str, Any]) -> None:
        """The error that an execute reply tells: the execution's own, where no message told of one."""
        if self._error is None:
            report = ErrorText(content, self._limits).report(self._pointer("traceback"), self._keep_traceback)
            self._error = _FirstError(report, None, None, True)

    def _log_error(self, report: ErrorReport) -> None:
        error = report.error
        event = ErrorEvent(name=error.name, value=error.value, traceback=error.traceback)
        self._emitter.maybe(event, report.text_bytes)

    def _keep_traceback(self, whole: Iterator[Piece]) -> int:
        spill = Spill("traceback", self._keeping, hold=0)
        for piece in whole:
            spill.write(piece.data)
        return spill.kept

    @property
    def first_error(self) -> ErrorReport | None:
        return None if self._error is None else self._error.report

    def settle(self, *, reply_error: bool) -> None:
        """The reply is known: the first error is the execution's own, or was output."""
        self._error_is_own = reply_error
        error = self._error
        if error is None or reply_error:
            return
        if self._error_cleared:
            self._streams["stderr"].cleared_chars += sum(len(piece.text) for piece in error.text())
            return
        self._fill("stderr", error.place, list(error.text()), "error")

    # Clearing

    def clear(self, *, wait: bool) -> None:
        """`clear_output`: at once, or when something else is shown."""
        self._clear_waits = wait
        if not wait:
            self._clear(wait=False)

    def _clear(self, *, wait: bool) -> None:
        for stream in self._streams.values():
            stream.clear()
        self._value = None
        self._error_cleared = self._error is not None
        self._was_cleared = True
        self._on_clear()
        self._emitter.maybe(ClearedEvent(wait=wait))

    # Results

    def texts(self) -> tuple[str, str, str, Truncation | None]:
        """stdout, stderr and result as shown, and what was shortened."""
        out, err = self._streams["stdout"], self._streams["stderr"]
        shown_out = out.render(self._pointer("stdout"))
        shown_err = err.render(self._pointer("stderr"))
        value = self._value
        shown_value = None if value is None else value.render()
        report = self._error.report if self._error is not None and self._error_is_own else None
        cuts = {
            "stdout": out.cut(shown_out),
            "stderr": err.cut(shown_err),
            "result": None if value is None or shown_value is None else value.cut(shown_value),
            "value": None if report is None else report.value_cut,
            "traceback": None if report is None else report.traceback_cut,
        }
        return (
            shown_out.text,
            shown_err.text,
            "" if shown_value is None else shown_value.text,
            Truncation(**cuts) if any(cuts.values()) else None,
        )

    def cleared(self) -> Cleared | None:
        """What the code cleared; None where it never did."""
        if not self._was_cleared:
            return None
        return Cleared(
            stdout_chars=self._streams["stdout"].cleared_chars,
            stderr_chars=self._streams["stderr"].cleared_chars,
        )
