"""The outputs of one cell, from the events of its execution, in their order."""

from dataclasses import dataclass, field
from typing import Final, Literal

from cellhouse.excerpt import Excerpt
from cellhouse.model import (
    ClearedEvent,
    DisplayEvent,
    DisplayUpdatedEvent,
    ErrorEvent,
    Event,
    InputRequestedEvent,
    LateEvent,
    NoticeEvent,
    ResultEvent,
    StreamEvent,
    StreamName,
    TailFrame,
)
from cellhouse.notebooks.limits import CELL_OUTPUTS
from cellhouse.notebooks.notes import NotebookOutput, cause_of, note, types_of

TOLD_ALREADY: Final = ("result", "error")
"""Sources of text that has an event of its own, as a value or as an error."""
DISPLAYS: Final = ("display", "displayUpdate")
"""Sources of text that was displayed, and has a line end behind it that is not its own."""


@dataclass(slots=True)
class Printed:
    """Text of one stream with nothing else in between."""

    name: StreamName
    text: Excerpt


@dataclass(slots=True)
class Shown:
    """A display that has only text."""

    text: Excerpt
    open: bool
    """Whether its text may go on in the next event."""


@dataclass(slots=True)
class Value:
    text: str


@dataclass(slots=True)
class Displayed:
    """A rich output; `value` is the plain text of the same value, where it may be one."""

    index: int
    event: DisplayEvent | None  # None: a snapshot told of it
    value: Value | None


@dataclass(slots=True)
class Raised:
    event: ErrorEvent


@dataclass(slots=True)
class Said:
    output: NotebookOutput


Item = Printed | Shown | Value | Displayed | Raised | Said


@dataclass(slots=True)
class Outputs:
    """Takes events one by one. Of a text no more is held than is shown."""

    output_limit: int
    execution: str
    items: list[Item] = field(default_factory=list)
    notices: set[tuple[str, str]] = field(default_factory=set)
    logged: dict[StreamName, int] = field(default_factory=lambda: {"stdout": 0, "stderr": 0})
    """Bytes of each stream's text that came as events."""
    late: dict[str, int] = field(default_factory=lambda: {"stdout": 0, "stderr": 0, "displays": 0})
    clears: int = 0
    crowded_out: int = 0
    crowded_at: int = 0
    _late_began: bool = False

    def add(self, event: Event | TailFrame) -> None:
        match event:
            case StreamEvent(name=name, text=text, source=source):
                self.logged[name] += len(text.encode())
                if source in DISPLAYS:
                    self._show(text)
                elif source not in TOLD_ALREADY:
                    self.print(name, text)
            case ResultEvent(text=text):
                self._put(Value(text))
            case DisplayEvent(index=index):
                last = self.items[-1] if self.items else None
                value = self.items.pop() if isinstance(last, Value) else None
                self._put(Displayed(index, event, value if isinstance(value, Value) else None))
            case DisplayUpdatedEvent(execution=execution, index=index, error_info=info) if info is not None:
                what = f"an update of rich output {index} of {execution} was not written: {cause_of(info)}"
                self._put_note(note("update", what, reason=info.reason))
            case ErrorEvent():
                self._put(Raised(event))
            case ClearedEvent():
                self._cleared()
            case InputRequestedEvent(prompt=prompt):
                self._put_note(note("input", f"the code asked for input: {prompt}"))
            case NoticeEvent(reason=reason, text=text):
                if self._put_note(note("notice", f"notice {reason}: {text}", reason=reason)):
                    self.notices.add((reason, text))
            case LateEvent():
                self._late(event)
            case _:
                pass

    def _late(self, event: LateEvent) -> None:
        if not self._late_began:
            self._late_began = True
            self._put_note(note("late", "late: from here on, what background work put out after the end"))
        if event.name is not None and event.text is not None:
            self.late[event.name] += len(event.text.encode())
            self.print(event.name, event.text)
        else:
            self.late["displays"] += 1
            size = event.size_bytes or 0
            types = types_of(event.mime_types or ())
            self._put_note(
                note(
                    "late", f"late rich output ({types}, {size:,} bytes), which was not kept", sizeBytes=size
                )
            )

    def print(self, name: StreamName, text: str) -> None:
        """Text of a stream, joined with what stands before it where that is of the same stream."""
        last = self.items[-1] if self.items else None
        if self.crowded_out or not isinstance(last, Printed) or last.name != name:
            last = Printed(name, self._excerpt())
            if not self._put(last):
                return
        last.text.add(text)

    def _show(self, text: str) -> None:
        last = self.items[-1] if self.items else None
        if self.crowded_out or not isinstance(last, Shown) or not last.open:
            last = Shown(self._excerpt(), True)
            if not self._put(last):
                return
        last.open = not text.endswith("\n")
        last.text.add(text if last.open else text[:-1])

    def _excerpt(self) -> Excerpt:
        return Excerpt(self.output_limit - self.output_limit // 2, self.output_limit // 2)

    def say(self, output: NotebookOutput) -> None:
        """A note of which there are few: it has its place in every cell."""
        self.items.append(Said(output))

    def _put_note(self, output: NotebookOutput) -> bool:
        return self._put(Said(output))

    def _put(self, item: Item) -> bool:
        # What comes behind what is left out is left out too, for it would stand where it never stood.
        if self.crowded_out or len(self.items) >= CELL_OUTPUTS:
            self.crowded_out += 1
            if self.crowded_out == 1:
                self.crowded_at = len(self.items)
            return False
        self.items.append(item)
        return True

    def _cleared(self) -> None:
        """What the code showed is gone; what is said of it by others stays."""
        self.items = [item for item in self.items if isinstance(item, Said)]
        self.crowded_out = 0
        self.clears += 1

    @property
    def raised(self) -> bool:
        return any(isinstance(item, Raised) for item in self.items)


def stream_output(name: Literal["stdout", "stderr"], text: str) -> NotebookOutput:
    return {"output_type": "stream", "name": name, "text": text}


def display_output(text: str) -> NotebookOutput:
    return {"output_type": "display_data", "data": {"text/plain": text}, "metadata": {}}


def error_output(name: str, value: str, traceback: tuple[str, ...]) -> NotebookOutput:
    """An exception; one without frames is shown by its name and value."""
    lines = list(traceback) or [f"{name}: {value}" if value else name]
    return {"output_type": "error", "ename": name, "evalue": value, "traceback": lines}
