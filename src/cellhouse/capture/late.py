"""What background work puts out after the end: late events within what is left of the budget, and counts."""

from collections.abc import Iterable, Mapping
from typing import Any

from cellhouse.capture.bundle import Bundle
from cellhouse.capture.decode import ByteDecoder, Piece, TextCleaner, cleaned
from cellhouse.capture.displays import DisplayRegistry, display_id_of
from cellhouse.capture.dropped import DroppedBundle
from cellhouse.capture.mime import InvalidValue, chunks_of, text_of
from cellhouse.capture.sink import Sink
from cellhouse.capture.store import BundleStore
from cellhouse.capture.traceback import ErrorText
from cellhouse.messages import Message, RawText
from cellhouse.model import CaptureLimits, Late, LateEvent, StreamName


class LateRecorder:
    """Takes what belongs to an execution that has ended. Small: thousands may be held.

    The result is frozen, so displays are described and not kept, and clearing clears nothing; but an update of a
    display still rewrites its bundle. Like the recorder, nothing that is fed raises.
    """

    __slots__ = (
        "_cleaners", "_decoders", "_displays", "_events_left", "_full", "_limits", "_shown", "_sink", "_store", "_text",
        "_text_left",
    )  # fmt: skip

    def __init__(
        self,
        *,
        sink: Sink,
        text_left: int,
        events_left: int,
        limits: CaptureLimits,
        store: BundleStore,
        displays: DisplayRegistry,
    ) -> None:
        self._sink = sink
        self._text_left = text_left
        self._events_left = events_left
        self._limits = limits
        self._store = store
        self._displays = displays
        self._text: dict[StreamName, int] = {}
        self._shown = 0
        self._full = False
        self._cleaners: dict[StreamName, TextCleaner] | None = None
        self._decoders: dict[StreamName, ByteDecoder] | None = None

    @property
    def late(self) -> Late | None:
        """How much there was; None where there was nothing."""
        if not self._text and not self._shown:
            return None
        return Late(
            stdout_bytes=self._text.get("stdout", 0),
            stderr_bytes=self._text.get("stderr", 0),
            displays=self._shown,
        )

    def feed(self, message: Message) -> None:
        """A message of iopub whose parent is the execution."""
        if message.channel != "iopub" or message.defect:
            return
        kind, content = message.msg_type, message.content
        if kind == "stream":
            self._stream(message)
        elif kind in ("display_data", "execute_result"):
            self._display(Bundle(content, "display_data", self._limits))
        elif kind == "update_display_data":
            self._update(content)
        elif kind == "display_dropped":
            self._dropped(content)
        elif kind == "error":
            self._print("stderr", ErrorText(content, self._limits).text())

    def feed_raw(self, raw: RawText) -> None:
        """Bytes that the process wrote to its descriptors 1 and 2, where their origin is known to be the execution."""
        if self._decoders is None:
            self._decoders = {}
        decoder = self._decoders.setdefault(raw.name, ByteDecoder())
        self._print(raw.name, decoder.feed(raw.data))

    def _stream(self, message: Message) -> None:
        name: StreamName = "stderr" if message.content.get("name") == "stderr" else "stdout"
        if self._cleaners is None:
            self._cleaners = {}
        cleaner = self._cleaners.setdefault(name, TextCleaner())
        try:
            chunks = chunks_of(text_of(message.content.get("text")))
        except InvalidValue:
            return
        for chunk in chunks:
            self._print(name, cleaner.feed(chunk))

    def _dropped(self, content: Mapping[str, Any]) -> None:
        kind = content.get("kind")
        if kind == "update_display_data":
            self._update(content, dropped=True)
        elif kind in ("display_data", "execute_result"):
            self._display(DroppedBundle(content, self._limits))

    def _update(self, content: Mapping[str, Any], *, dropped: bool = False) -> None:
        display_id = display_id_of(content)
        display = None if display_id is None else self._displays.find(display_id)
        if display is None:
            return
        limits = self._limits
        bundle = DroppedBundle(content, limits) if dropped else Bundle(content, "display_data", limits)
        for showing in display.showings:
            if showing.rich and bundle.rich:
                showing.rewrite(bundle, self._store, self._limits, self._failed)
        self._display(bundle)

    def _display(self, bundle: Bundle) -> None:
        if bundle.rich:
            self._shown += 1
            self._append(LateEvent(mime_types=bundle.mime_types, size_bytes=bundle.size))
        elif bundle.plain is not None:
            self._print("stdout", cleaned(bundle.plain, "\n"))

    def _print(self, name: StreamName, text: Iterable[Piece]) -> None:
        for piece in text:
            self._text[name] = self._text.get(name, 0) + len(piece.data)
            self._append(LateEvent(name=name, text=piece.text), len(piece.data))

    def _append(self, event: LateEvent, text_bytes: int = 0) -> None:
        """Past the budget, or where the log fails, output is counted only; the last event says so where it can."""
        if self._full:
            return
        if text_bytes > self._text_left or self._events_left <= 1:
            self._full = True
            event = LateEvent(name="stdout", text="… further late output is counted, not logged …\n")
        self._text_left -= text_bytes
        self._events_left -= 1
        try:
            self._sink.append(event)
        except OSError as error:
            self._failed(error)

    def _failed(self, _: OSError) -> None:
        """Nobody can be told after the end: from now on output is only counted."""
        self._full = True
