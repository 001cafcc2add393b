"""Events on their way to the log: within the budget for their text, then as passing tail frames."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cellhouse.capture.decode import Piece, clean
from cellhouse.capture.notices import Notices
from cellhouse.capture.sink import Sink
from cellhouse.model import (
    CaptureLimits,
    Clock,
    Event,
    InputRequestedEvent,
    Notice,
    NoticeEvent,
    NoticeReason,
    StreamEvent,
    StreamName,
    StreamSource,
    TailFrame,
)

EVENTS: Final = 500_000
"""Events of one execution, however little text is in them."""


PROMPT_CHARS: Final = 4_096
INPUTS_BESIDE: Final = 1_000
"""Requests for input that find room when the text of events has used theirs up: a reader has to know of them."""
PROMPT_CHARS_BESIDE: Final = 256
_PROMPT_CUT: Final = " … (the prompt goes on; it is cut here)"


class _Tail:
    """What of one stream has gone by since its last frame."""

    __slots__ = ("skipped", "text")

    def __init__(self) -> None:
        self.text = ""
        self.skipped = 0


class Emitter:
    """Appends events. A full disk, or a log that fails, never ends an execution: it is said, and events pass by unlogged."""

    __slots__ = (
        "_clock", "_due", "_inputs_left", "_limits", "_sink", "_tails", "_waiting", "events_left", "notices", "text_left", "text_logged",
    )  # fmt: skip

    def __init__(self, sink: Sink, limits: CaptureLimits, clock: Clock) -> None:
        self._sink = sink
        self._limits = limits
        self._clock = clock
        self.notices = Notices(limits, self._say)
        self.events_left = EVENTS
        self.text_left = limits.event_text_bytes
        self.text_logged = True
        self._inputs_left = INPUTS_BESIDE
        self._tails: dict[StreamName, _Tail] = {}
        self._waiting: list[
            StreamName
        ] = []  # streams with text for a frame, the one that waits longest first
        self._due = clock.monotonic()

    # Notices

    def _say(self, notice: Notice) -> None:
        self._append(NoticeEvent(reason=notice.reason, text=notice.text))

    def failed(self, error: OSError) -> None:
        """The log could not be written: said once, in the result at least."""
        self.notices.add(
            NoticeReason.DISK_FULL,
            "the log of this execution could not be written whole: "
            f"{error.strerror or 'unknown error'}; output is counted and in the result, not all of it can be read again",
        )

    # Events

    def note(self, kind: str, payload: Mapping[str, Any]) -> None:
        """A fact for the record that is no event."""
        try:
            self._sink.note(kind, payload)
        except OSError as error:
            self.failed(error)

    def _append(self, event: Event) -> bool:
        try:
            self._sink.append(event)
        except OSError as error:
            self.failed(error)
            return False
        return True

    def always(self, event: Event) -> None:
        """An event of which there can only be a bounded number."""
        self.events_left -= 1
        self._append(event)

    def maybe(self, event: Event, text_bytes: int = 0) -> bool:
        """An event whose number or text is in the hands of the code. False where it was not logged."""
        if text_bytes and not self.text_logged:
            return False
        if text_bytes > self.text_left or self.events_left <= 0:
            self._stop()
            return False
        self.events_left -= 1
        self.text_left -= text_bytes
        logged = self._append(event)
        if text_bytes and not logged:
            self.text_logged = False  # no gap that a reader of the events would not see
        return logged

    def _stop(self) -> None:
        self.text_logged = False
        self.notices.add(
            NoticeReason.EVENT_TEXT_LIMIT,
            f"the log of an execution takes {self._limits.event_text_bytes} bytes of text and {EVENTS} events; "
            "further text is counted and kept for reading, and passes by as tail frames",
        )

    def input_requested(self, prompt: str, password: bool) -> bool:
        """A request for input. False where it was not logged, so that nobody will answer it."""
        event = InputRequestedEvent(prompt=_cut(prompt, PROMPT_CHARS), password=password)
        if self.text_logged and self.maybe(event, max(1, len(event.prompt.encode()))):
            return True
        if not self._inputs_left or self.events_left <= 0:
            return False
        self._inputs_left -= 1
        self.events_left -= 1
        return self._append(InputRequestedEvent(prompt=_cut(prompt, PROMPT_CHARS_BESIDE), password=password))

    def stream(self, name: StreamName, piece: Piece, source: StreamSource | None) -> bool:
        """Text of a stream. False where its event was not logged; then it is in the next tail frame."""
        if len(piece.text) > self._limits.event_chars:
            logged = [self.stream(name, part, source) for part in self._parts(piece.text)]
            return all(logged)
        if self.text_logged:
            event = StreamEvent(name=name, text=piece.text, source=source)
            if self.maybe(event, len(piece.data)):
                return True
        tail = self._tails.setdefault(name, _Tail())
        newest = piece.text[-self._limits.tail_bytes :]
        tail.text = (tail.text + newest)[-self._limits.tail_bytes :]
        tail.skipped += len(piece.data)
        if name not in self._waiting:
            self._waiting.append(name)
        return False

    def _parts(self, text: str) -> Iterator[Piece]:
        size = self._limits.event_chars
        for start in range(0, len(text), size):
            part = text[start : start + size]
            yield Piece(part, part.encode())

    # Tail frames

    def next_due(self) -> float | None:
        return self._due if self._waiting else None

    def run_due(self) -> None:
        """One frame, if it is time."""
        now = self._clock.monotonic()
        if not self._waiting or now < self._due:
            return
        self._due = now + self._limits.tail_seconds
        name = self._waiting.pop(0)
        tail = self._tails.pop(name)
        text = tail.text.encode()[-self._limits.tail_bytes :].decode("utf-8", "ignore")
        frame = TailFrame(name=name, text=text, skipped_bytes=tail.skipped - len(text.encode()))
        try:
            self._sink.tail(frame)
        except OSError as error:
            self.failed(error)


def _cut(prompt: str, most: int) -> str:
    """A prompt that may be no clean text, in bounds; where it is cut it says so."""
    text = clean(prompt[: most + 1])
    return text if len(text) <= most else text[:most] + _PROMPT_CUT
