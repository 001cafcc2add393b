"""The recorder of one execution: takes the kernel's messages, from started to frozen, and tells what was captured."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cellhouse.capture.bundle import Bundle
from cellhouse.capture.decode import ByteDecoder, TextCleaner, clean, cleaned
from cellhouse.capture.displays import (
    SHOWINGS,
    Display,
    DisplayRegistry,
    Origin,
    Showing,
    bundle_note,
    display_id_of,
)
from cellhouse.capture.emit import Emitter
from cellhouse.capture.late import LateRecorder
from cellhouse.capture.ledger import Ledger
from cellhouse.capture.mime import InvalidValue, chunks_of, text_of
from cellhouse.capture.printer import Printer
from cellhouse.capture.sink import Sink
from cellhouse.capture.store import BundleStore, Drop
from cellhouse.capture.text import SLOT_CHARS
from cellhouse.capture.updates import Updates
from cellhouse.files import HostileDir, Written
from cellhouse.messages import LongText, Message, RawText
from cellhouse.model import (
    CaptureLimits,
    Cleared,
    Clock,
    DisplayEvent,
    DisplayUpdatedEvent,
    DropReason,
    ExecutionError,
    Notice,
    NoticeReason,
    RichOutput,
    StreamName,
    StreamSource,
    Truncation,
)

_SHOWN_CHARS: Final = 64
_NEXT_INPUT_CHARS: Final = 512

UPDATED: Final[StreamSource] = "display"


@dataclass(frozen=True, slots=True)
class Captured:
    """What an execution has put out so far; after `settle`, for good."""

    stdout: str
    stderr: str
    result: str
    output_truncated: bool
    truncation: Truncation | None
    cleared: Cleared | None
    rich_outputs: tuple[RichOutput, ...]
    rich_outputs_dropped: bool
    notices: tuple[Notice, ...]


class Recorder:
    """Fed by the runtime with what the kernel and its process send while the execution runs.

    Nothing that a kernel sends raises: it becomes output, a dropped output or a notice. A failing log or a full disk
    does not raise either, and is said in a notice.
    """

    def __init__(
        self,
        *,
        uid: str,
        execution: str,
        limits: CaptureLimits,
        output_limit: int,
        sink: Sink,
        content: HostileDir,
        displays: DisplayRegistry,
        clock: Clock,
    ) -> None:
        """`output_limit` is in characters, each of stdout, stderr and result; 0 asks for the default of `limits`."""
        self._limits = limits
        self._clock = clock
        self._sink = sink
        self._store = BundleStore(content)
        self._displays = displays
        self._emitter = Emitter(sink, limits, clock)
        self._printer = Printer(
            execution, limits, output_limit or limits.inline_chars, sink, self._emitter, self._cleared
        )
        self._ledger = Ledger(uid, limits, self._store, self._bundle_written)
        self._origin = Origin(uid, execution, sink, self._ledger)
        self._showings: dict[Showing, None] = {}  # in order
        self._updates = Updates(limits, clock, self._write_update)
        self._cleaners: dict[StreamName, TextCleaner] = {}
        self._decoders: dict[StreamName, ByteDecoder] = {}
        self._settled = False
        self._handlers: dict[str, Callable[[Message], None]] = {
            "stream": self._stream,
            "display_data": self._display_data,
            "execute_result": self._execute_result,
            "update_display_data": self._update_display_data,
            "clear_output": self._clear_output,
            "error": self._error,
        }

    # What is fed

    def feed(self, message: Message) -> None:
        """A message of iopub whose parent is this execution. Status, input echoes and comm traffic are no output."""
        self._check_open()
        if message.channel != "iopub":
            return
        handler = self._handlers.get(message.msg_type)
        if handler is None:
            return
        if message.defect:
            self._malformed(message.msg_type, message.defect)
            return
        handler(message)

    def feed_raw(self, raw: RawText) -> None:
        """Bytes that the kernel's process wrote to its own descriptors 1 and 2."""
        self._check_open()
        decoder = self._decoders.setdefault(raw.name, ByteDecoder())
        self._printer.print(raw.name, decoder.feed(raw.data), "fd")

    def feed_payload(self, payload: Any) -> None:
        """The payload of an execute reply (Jupyter messaging 5.4, deprecated there and still in use)."""
        self._check_open()
        for item in payload if isinstance(payload, list | tuple) else ():
            if isinstance(item, Mapping):
                self._payload_item(item)

    def feed_reply_error(self, content: Mapping[str, Any]) -> None:
        """The content of an execute reply with status error: it counts where iopub told of no error."""
        self._check_open()
        self._printer.reply_error(content)

    def notice(self, reason: str, text: str) -> None:
        """What a caller must know besides: as an event now, and in the result. Each once."""
        self._emitter.notices.add(reason, text)

    def _check_open(self) -> None:
        if self._settled:
            raise RuntimeError("the recorder is settled; feed what is late to its late()")

    # Due work

    def next_due(self) -> float | None:
        """When `run_due` has something to do, on the monotonic clock; None while nothing waits."""
        due = [
            moment for moment in (self._updates.next_due(), self._emitter.next_due()) if moment is not None
        ]
        return min(due, default=None)

    def run_due(self) -> None:
        """Writes gathered updates and sends a tail frame, as far as they are due."""
        self._updates.run_due()
        self._emitter.run_due()

    # The end

    def settle(self, *, reply_error: bool) -> None:
        """No more will come. `reply_error`: the execute reply said error, so the first error is the execution's own."""
        self._check_open()
        for name, cleaner in self._cleaners.items():
            self._printer.print(name, cleaner.finish())
        for name, decoder in self._decoders.items():
            self._printer.print(name, decoder.finish(), "fd")
        self._updates.flush()
        self._printer.settle(reply_error=reply_error)
        for showing in self._showings:
            showing.freeze()
        self._showings.clear()
        self._origin.freeze()
        self._settled = True

    @property
    def first_error(self) -> ExecutionError | None:
        """The first exception that iopub told of, else the reply's own; bounded and plain."""
        report = self._printer.first_error
        return None if report is None else report.error

    def captured(self) -> Captured:
        """What there is now; before `settle` a snapshot."""
        stdout, stderr, result, truncation = self._printer.texts()
        outputs = self._ledger.outputs()
        return Captured(
            stdout=stdout,
            stderr=stderr,
            result=result,
            output_truncated=truncation is not None and truncation.cuts_output,
            truncation=truncation,
            cleared=self._printer.cleared(),
            rich_outputs=outputs,
            rich_outputs_dropped=bool(outputs),
            notices=tuple(self._emitter.notices.said),
        )

    def late(self) -> LateRecorder:
        """What takes the output of background work from now on."""
        if not self._settled:
            raise RuntimeError("the recorder is not settled; output still belongs to the result")
        return LateRecorder(
            sink=self._sink,
            text_left=self._emitter.text_left if self._emitter.text_logged else 0,
            events_left=self._emitter.events_left,
            limits=self._limits,
            store=self._store,
            displays=self._displays,
        )

    # Messages

    def _malformed(self, kind: str, why: str) -> None:
        self._emitter.notices.add(
            NoticeReason.MALFORMED_MESSAGE,
            f"a message of type {clean(kind)[:_SHOWN_CHARS]} from the kernel could not be used: {why}",
            caused=True,
        )

    def _stream(self, message: Message) -> None:
        name, text = message.content.get("name"), message.content.get("text")
        try:
            chunks = chunks_of(text_of(text))
        except InvalidValue as error:
            self._malformed("stream", f"its text is {error}")
            return
        if name != "stdout" and name != "stderr":
            self._malformed("stream", "its name is neither stdout nor stderr; its text is in stdout")
        stream: StreamName = "stderr" if name == "stderr" else "stdout"
        cleaner = self._cleaners.setdefault(stream, TextCleaner())
        for chunk in chunks:
            self._printer.print(stream, cleaner.feed(chunk))

    def _display_data(self, message: Message) -> None:
        bundle = Bundle(message.content, "display_data", self._limits)
        display_id = display_id_of(message.content)
        if bundle.rich:
            self._printer.output()
            self._add_rich(bundle, display_id)
        elif bundle.plain is not None:
            self._print_display(bundle.plain, display_id, "display")
        else:
            self._nothing_shown("display_data", bundle)

    def _execute_result(self, message: Message) -> None:
        bundle = Bundle(message.content, "execute_result", self._limits)
        display_id = display_id_of(message.content)
        if not bundle.rich and bundle.plain is None:
            self._nothing_shown("execute_result", bundle)
            return
        self._printer.show_value(bundle.plain if bundle.plain is not None else "")
        if bundle.rich:
            self._add_rich(bundle, display_id)
        elif display_id is not None:
            self._show(display_id, slot=None)

    def _nothing_shown(self, kind: str, bundle: Bundle) -> None:
        if bundle.faults:
            self._malformed(kind, bundle.cause)

    def _clear_output(self, message: Message) -> None:
        self._printer.clear(wait=message.content.get("wait") is True)

    def _error(self, message: Message) -> None:
        self._printer.show_error(message.content, message.size)

    def _payload_item(self, item: Mapping[str, Any]) -> None:
        source = item.get("source")
        if source == "page":
            bundle = Bundle(item, "display_data", self._limits)
            if bundle.plain is not None:
                self._printer.print("stdout", cleaned(bundle.plain), "pager")
            elif bundle.rich:
                self._printer.output()
                self._add_rich(bundle, None)
        elif source == "set_next_input":
            text = item.get("text")
            shown = clean(text)[:_NEXT_INPUT_CHARS] if isinstance(text, str) else ""
            if isinstance(text, LongText) or (isinstance(text, str) and len(text) > _NEXT_INPUT_CHARS):
                shown += " …"
            self.notice(NoticeReason.SET_NEXT_INPUT, f"the code proposes as next input: {shown}")

    # Displays

    def _show(self, display_id: str | None, *, index: int = -1, slot: int | None = None) -> None:
        if display_id is None:
            return
        display = self._displays.get(display_id)
        showing = Showing(display, self._origin, index=index, slot=slot)
        display.show(showing)
        display.last_write = self._clock.monotonic()
        self._showings[showing] = None

    def _print_display(self, text: str | LongText, display_id: str | None, source: StreamSource) -> None:
        """A display that has only text: printed with a line end, in a slot if it may be updated."""
        if display_id is None or isinstance(text, LongText) or len(text) > SLOT_CHARS:
            self._printer.print("stdout", cleaned(text, "\n"), source)
            self._show(display_id)
        else:
            self._show(display_id, slot=self._printer.print_in_slot(clean(text), source))

    def _add_rich(self, bundle: Bundle, display_id: str | None) -> None:
        index = self._ledger.add(bundle)
        if index is None:
            return
        error_info = self._ledger.error_info(index)
        self._emitter.always(
            DisplayEvent(
                index=index,
                mime_types=self._ledger.mime_types(index),
                size_bytes=self._ledger.size(index),
                error_info=error_info,
            )
        )
        self._told(self._ledger.drop(index))
        if bundle.valid and bundle.faults:
            self._emitter.notices.add(
                DropReason.INVALID_OUTPUT, f"left out of rich output {index}: {bundle.cause}", caused=True
            )
        self._show(display_id, index=index)

    def _bundle_written(self, index: int, written: Written, revision: int) -> None:
        self._emitter.note("bundle", bundle_note(index, written, revision))

    def _told(self, drop: Drop | None) -> None:
        """A disk that is full is more than one output's matter."""
        if drop is None or drop.reason not in (DropReason.DISK_FULL, DropReason.WRITE_FAILED):
            return
        cause = dict(drop.metadata).get("cause", "")
        self.notice(
            drop.reason,
            f"rich outputs could not be written to the content directory ({cause}); they are listed with the reason",
        )

    def _cleared(self) -> None:
        """The code cleared what is shown: nothing of it can be updated any more."""
        self._ledger.clear()
        for showing in self._showings:
            if showing in showing.display.showings:
                showing.display.showings.remove(showing)
        self._showings.clear()

    # Updates

    def _update_display_data(self, message: Message) -> None:
        display_id = display_id_of(message.content)
        if display_id is None:
            self._malformed("update_display_data", "it has no transient.display_id")
            return
        bundle = Bundle(message.content, "display_data", self._limits)
        display = self._displays.find(display_id)
        if display is None:
            self._emitter.notices.add(
                NoticeReason.UNKNOWN_DISPLAY,
                f"an update of display id {clean(display_id)[:_SHOWN_CHARS]!r} was ignored: nothing shows that id",
                caused=True,
            )
            return
        if display.crowded:
            self._emitter.notices.add(
                NoticeReason.UNKNOWN_DISPLAY,
                f"display id {clean(display_id)[:_SHOWN_CHARS]!r} is shown more than {SHOWINGS} times; "
                "the last of them were updated",
                caused=True,
            )
        if bundle.rich:
            if any(showing.rich for showing in display.showings):
                self._updates.put(display, bundle)
            else:
                self._printer.output()
                self._add_rich(bundle, display_id)
        elif bundle.plain is not None:
            self._update_text(display, display_id, bundle.plain)
        else:
            self._nothing_shown("update_display_data", bundle)

    def _update_text(self, display: Display, display_id: str, text: str | LongText) -> None:
        """In place where this execution printed it; what an earlier one printed is recorded, so it is printed anew."""
        own = [showing for showing in display.showings if showing.origin is self._origin and not showing.rich]
        taken = [False] * len(own)
        if isinstance(text, str):
            taken = self._printer.replace([showing.slot for showing in own], clean(text))
            if own and all(taken):
                self._printer.count_line(clean(text), UPDATED)
                return
        for showing, took in zip(own, taken, strict=True):
            if not took:
                display.showings.remove(showing)
                del self._showings[showing]
        self._print_display(text, display_id, UPDATED)

    def _write_update(self, display: Display, bundle: Bundle) -> None:
        """Every rich output that shows the display shows the bundle."""
        for showing in display.showings:
            if not showing.rich:
                continue
            origin = showing.origin
            try:
                result = showing.rewrite(bundle, self._store, self._limits)
            except OSError as error:
                self._emitter.failed(error)
                continue
            self._emitter.maybe(
                DisplayUpdatedEvent(
                    execution=origin.execution,
                    index=showing.index,
                    size_bytes=None if isinstance(result, Drop) else result,
                    error_info=result.error_info(bundle.size) if isinstance(result, Drop) else None,
                )
            )
            if isinstance(result, Drop):
                self._told(result)
                if origin is not self._origin:
                    self._emitter.notices.add(
                        result.reason,
                        f"an update of rich output {showing.index} of {origin.execution} could not be written; "
                        "it shows its older state",
                        caused=True,
                    )
