"""The recorder of one execution: takes the kernel's messages, from started to frozen, and tells what was captured."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cellhouse.capture.bundle import Bundle
from cellhouse.capture.decode import ByteDecoder, TextCleaner, clean, cleaned
from cellhouse.capture.displays import DisplayRegistry, display_id_of
from cellhouse.capture.dropped import DroppedBundle
from cellhouse.capture.emit import Emitter
from cellhouse.capture.late import LateRecorder
from cellhouse.capture.mime import InvalidValue, chunks_of, text_of
from cellhouse.capture.outputs import Outputs
from cellhouse.capture.printer import Printer
from cellhouse.capture.sink import Sink
from cellhouse.capture.store import BundleStore
from cellhouse.files import HostileDir
from cellhouse.messages import LongText, Message, RawText
from cellhouse.model import (
    CaptureLimits,
    Cleared,
    Clock,
    DropReason,
    ExecutionError,
    Notice,
    NoticeReason,
    RichOutput,
    StreamName,
    StreamSource,
    Truncation,
)

_KIND_CHARS: Final = 64
_NEXT_INPUT_CHARS: Final = 512


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
        self._sink = sink
        self._store = BundleStore(content)
        self._displays = displays
        self._emitter = Emitter(sink, limits, clock)
        self._printer = Printer(
            execution, limits, output_limit or limits.inline_chars, sink, self._emitter, self._cleared
        )
        self._outputs = Outputs(
            uid=uid,
            execution=execution,
            limits=limits,
            sink=sink,
            store=self._store,
            displays=displays,
            clock=clock,
            emitter=self._emitter,
            printer=self._printer,
        )
        self._cleaners: dict[StreamName, TextCleaner] = {}
        self._decoders: dict[tuple[StreamName, StreamSource | None], ByteDecoder] = {}
        self._settled = False
        self._handlers: dict[str, Callable[[Message], None]] = {
            "stream": self._stream,
            "display_data": self._display_data,
            "execute_result": self._execute_result,
            "update_display_data": self._update_display_data,
            "display_dropped": self._display_dropped,
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
        """Bytes that the kernel's process wrote to its own descriptors 1 and 2; marked so, unless all its text is there."""
        self._check_open()
        source: StreamSource | None = None if raw.printed else "fd"
        decoder = self._decoders.get((raw.name, source))
        if decoder is None:
            decoder = self._decoders[raw.name, source] = ByteDecoder()
        self._printer.print(raw.name, decoder.feed(raw.data), source)

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

    def input_requested(self, prompt: str, password: bool) -> bool:
        """The code waits for a line of input. False where that could not be logged: then answer it at once."""
        logged = self._emitter.input_requested(prompt, password)
        if not logged:
            self.notice(
                NoticeReason.INPUT_UNANSWERED,
                "input was asked for that could not be logged; it got an empty line",
            )
        return logged

    def notice(self, reason: str, text: str) -> None:
        """What a caller must know besides: as an event now, and in the result. Each once."""
        self._emitter.notices.add(reason, text)

    def _check_open(self) -> None:
        if self._settled:
            raise RuntimeError("the recorder is settled; feed what is late to its late()")

    # Due work

    def next_due(self) -> float | None:
        """When `run_due` has something to do, on the monotonic clock; None while nothing waits."""
        update, frame = self._outputs.next_due(), self._emitter.next_due()
        if update is None or frame is None:
            return frame if update is None else update
        return min(update, frame)

    def run_due(self) -> None:
        """Writes gathered updates and sends a tail frame, as far as they are due."""
        self._outputs.run_due()
        self._emitter.run_due()

    # The end

    def settle(self, *, reply_error: bool) -> None:
        """No more will come. `reply_error`: the execute reply said error, so the first error is the execution's own."""
        self._check_open()
        for name, cleaner in self._cleaners.items():
            self._printer.print(name, cleaner.finish())
        for (name, source), decoder in self._decoders.items():
            self._printer.print(name, decoder.finish(), source)
        self._outputs.freeze()
        self._printer.settle(reply_error=reply_error)
        self._settled = True

    @property
    def first_error(self) -> ExecutionError | None:
        """The first exception that iopub told of, else the reply's own; bounded and plain."""
        report = self._printer.first_error
        return None if report is None else report.error

    def captured(self) -> Captured:
        """What there is now; before `settle` a snapshot."""
        stdout, stderr, result, truncation = self._printer.texts()
        outputs = self._outputs.ledger()
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
            f"a message of type {clean(kind)[:_KIND_CHARS]} from the kernel could not be used: {why}",
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
        self._display(Bundle(message.content, "display_data", self._limits), display_id_of(message.content))

    def _display(self, bundle: Bundle, display_id: str | None) -> None:
        if bundle.rich:
            self._outputs.add(bundle, display_id)
        elif bundle.plain is not None:
            self._outputs.print(bundle.plain, display_id, "display")
        else:
            self._nothing_shown("display_data", bundle, display_id)

    def _execute_result(self, message: Message) -> None:
        self._value(Bundle(message.content, "execute_result", self._limits), display_id_of(message.content))

    def _value(self, bundle: Bundle, display_id: str | None) -> None:
        if not bundle.rich and bundle.plain is None:
            self._nothing_shown("execute_result", bundle, display_id)
            return
        self._printer.show_value(bundle.plain if bundle.plain is not None else "")
        if bundle.rich:
            self._outputs.add(bundle, display_id)
        else:
            self._outputs.show(display_id)

    def _update_display_data(self, message: Message) -> None:
        display_id = display_id_of(message.content)
        if display_id is None:
            self._malformed("update_display_data", "it has no transient.display_id")
            return
        bundle = Bundle(message.content, "display_data", self._limits)
        if bundle.rich or bundle.plain is not None:
            self._outputs.update(bundle, display_id)
        else:
            self._nothing_shown("update_display_data", bundle)

    def _display_dropped(self, message: Message) -> None:
        """A native kernel drops what is too large at once: it ends as what is dropped here."""
        content = message.content
        bundle, display_id = DroppedBundle(content, self._limits), display_id_of(content)
        kind = content.get("kind")
        if kind not in ("display_data", "execute_result", "update_display_data"):
            self._malformed("display_dropped", "its kind is none of a display")
            return
        if kind == "update_display_data" and display_id is None:
            self._malformed(kind, "it has no transient.display_id")
            return
        if not bundle.rich:
            if bundle.faults:
                self._malformed("display_dropped", bundle.cause)
            else:
                done = "dropped" if bundle.plain is None else "shortened"
                text = f"a text of {bundle.size} bytes was {done} by the kernel; it lets {bundle.dropped_above} bytes through"
                self._emitter.notices.add(DropReason.OUTPUT_TOO_LARGE, text, caused=True)
            if bundle.plain is None:
                return
        if kind == "display_data":
            self._display(bundle, display_id)
        elif kind == "execute_result":
            self._value(bundle, display_id)
        elif display_id is not None:
            self._outputs.update(bundle, display_id)

    def _nothing_shown(self, kind: str, bundle: Bundle, display_id: str | None = None) -> None:
        if bundle.faults:
            self._malformed(kind, bundle.cause)
        else:
            self._outputs.keep_place(display_id)

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
                self._outputs.add(bundle, None)
        elif source == "set_next_input":
            text = item.get("text")
            shown = clean(text)[:_NEXT_INPUT_CHARS] if isinstance(text, str) else ""
            if isinstance(text, LongText) or (isinstance(text, str) and len(text) > _NEXT_INPUT_CHARS):
                shown += " …"
            self.notice(NoticeReason.SET_NEXT_INPUT, f"the code proposes as next input: {shown}")

    def _cleared(self) -> None:
        self._outputs.clear()
