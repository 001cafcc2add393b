"""The events of an execution, numbered 1, 2, 3, … (contract, section 4)."""

import functools
from typing import Annotated, Any, Literal, Self

import pydantic_core
from pydantic import ConfigDict, Field, TypeAdapter, model_validator

from cellhouse.model.error_info import ErrorInfo, Reason
from cellhouse.model.result import Artifact, ExecuteCodeResult
from cellhouse.model.wire import Int32, Int64, Text, Wire, proto3, read_leniently, wire_schema

# Number of an event in its log: a JSON number.
Sequence = Annotated[int, Field(strict=True, ge=0, le=2**53 - 1)]

_STAMP = frozenset({"seq", "time"})
_set = object.__setattr__  # past the frozen model's own

StreamName = Literal["stdout", "stderr"]
# Where printed text came from, when it was not the stream itself: descriptors 1 and 2, a pager, a display
# that has only text, an update of such a display, an earlier expression's value, a secondary error.
StreamSource = Literal["fd", "pager", "display", "displayUpdate", "result", "error"]


class Numbered(Wire):
    """What every event has: its number and its time. Both are 0 and empty until the log has stamped it."""

    seq: Annotated[Sequence, proto3] = 0
    time: Annotated[Text, proto3] = ""

    def stamped(self, seq: int, time: str) -> Self:
        """The same event with its number and time. Each event is copied so: hence not by the slower model_copy."""
        made = object.__new__(type(self))
        _set(made, "__dict__", {**self.__dict__, "seq": seq, "time": time})
        _set(made, "__pydantic_fields_set__", self.__pydantic_fields_set__ | _STAMP)
        _set(made, "__pydantic_extra__", None)
        _set(made, "__pydantic_private__", None)
        return made


class QueuedEvent(Numbered):
    """The execution was accepted and waits its turn."""

    type: Literal["queued"] = "queued"


class StartedEvent(Numbered):
    """The code runs. The kernel's In[N], where it has said it."""

    type: Literal["started"] = "started"
    execution_count: Int32 | None = None


class StreamEvent(Numbered):
    """Text as it was printed, raw."""

    type: Literal["stream"] = "stream"
    name: StreamName
    text: Text
    source: StreamSource | None = None


class DisplayEvent(Numbered):
    """A rich output was written (sizeBytes) or dropped (errorInfo)."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["sizeBytes"]}, {"required": ["errorInfo"]}]},
    )

    type: Literal["display"] = "display"
    index: Int32
    mime_types: Annotated[tuple[Text, ...], Field(min_length=1)]
    size_bytes: Int64 | None = None
    error_info: ErrorInfo | None = None

    @model_validator(mode="after")
    def _one_of_size_and_error(self) -> Self:
        if (self.size_bytes is None) == (self.error_info is None):
            raise ValueError(
                "exactly one of sizeBytes and errorInfo must be set: an output was written or dropped"
            )
        return self


class DisplayUpdatedEvent(Numbered):
    """The bundle of an output, of this or an earlier execution, was rewritten."""

    type: Literal["displayUpdated"] = "displayUpdated"
    execution: Text
    index: Int32
    size_bytes: Int64 | None = None
    error_info: ErrorInfo | None = None


class ClearedEvent(Numbered):
    """The code cleared its output; with `wait`, once the next output came."""

    type: Literal["cleared"] = "cleared"
    wait: bool = False


class ResultEvent(Numbered):
    """The text of a displayed value; the last one is the result."""

    type: Literal["result"] = "result"
    text: Text


class ErrorEvent(Numbered):
    """An exception as the kernel reported it."""

    type: Literal["error"] = "error"
    name: Text
    value: Text
    traceback: tuple[Text, ...] = ()


class InputRequestedEvent(Numbered):
    """The code waits for a line of input."""

    type: Literal["inputRequested"] = "inputRequested"
    prompt: Text
    password: bool = False


class ArtifactEvent(Artifact, Numbered):
    """A file that the code made or changed."""

    type: Literal["artifact"] = "artifact"

    @classmethod
    def of(cls, artifact: Artifact) -> Self:
        return cls(**artifact.__dict__)


class NoticeEvent(Numbered):
    """Something that a caller must know besides."""

    type: Literal["notice"] = "notice"
    reason: Reason
    text: Text


class FinishedEvent(Numbered):
    """The end, exactly once; it freezes the result."""

    type: Literal["finished"] = "finished"
    result: ExecuteCodeResult


class LateEvent(Numbered):
    """Output of background work after the end: text, or a rich output that is described and not kept."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": ["name", "text"]}, {"required": ["mimeTypes", "sizeBytes"]}],
        },
    )

    type: Literal["late"] = "late"
    name: StreamName | None = None
    text: Text | None = None
    mime_types: tuple[Text, ...] | None = None
    size_bytes: Int64 | None = None

    @model_validator(mode="after")
    def _text_or_display(self) -> Self:
        text = (self.name is not None, self.text is not None)
        display = (self.mime_types is not None, self.size_bytes is not None)
        if (text, display) not in (((True, True), (False, False)), ((False, False), (True, True))):
            raise ValueError("a late event has either name and text, or mimeTypes and sizeBytes")
        return self


class TailFrame(Wire):
    """The newest text of a stream that is past what is logged. It has no number and is never kept."""

    type: Literal["tail"] = "tail"
    name: StreamName
    text: Text
    # What was said between the last frame and this one, and is not in either.
    skipped_bytes: Int64 = 0


Event = Annotated[
    QueuedEvent
    | StartedEvent
    | StreamEvent
    | DisplayEvent
    | DisplayUpdatedEvent
    | ClearedEvent
    | ResultEvent
    | ErrorEvent
    | InputRequestedEvent
    | ArtifactEvent
    | NoticeEvent
    | FinishedEvent
    | LateEvent,
    Field(discriminator="type"),
]


@functools.cache
def _adapter() -> TypeAdapter[Event]:
    return TypeAdapter(Event)


def parse_event(obj: Any) -> Event:
    """Reads an event from a JSON-ready object or JSON text. ValueError where it is none."""
    if isinstance(obj, str | bytes):
        obj = pydantic_core.from_json(obj, allow_inf_nan=False)
    return read_leniently(_adapter().validate_python, obj)


def event_json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of any event."""
    return wire_schema(Event)
