"""What the recorder is tested with: a log in memory, a clock that is moved by hand, and messages as kernels send them."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cellhouse.capture import Captured, DisplayRegistry, Recorder
from cellhouse.files import DiskFull, HostileDir
from cellhouse.messages import LongText, Message
from cellhouse.model import CaptureLimits, Event, TailFrame

UID = "0" * 31 + "1"
NAME = "runtimes/rt/sessions/s/executions/e1"
PNG = "iVBORw0KGgo="


class FakeClock:
    def __init__(self) -> None:
        self.time = 1_000.0

    def now(self) -> datetime:
        return datetime(2031, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return self.time


class FakeSpill:
    def __init__(self, limit: int | None = None) -> None:
        self.data = bytearray()
        self.limit = limit
        self.full = False

    @property
    def bytes_kept(self) -> int:
        return len(self.data)

    def write(self, data: bytes) -> int:
        if self.full:
            raise DiskFull("spill")
        if self.limit is not None:
            data = data[: max(0, self.limit - len(self.data))]
        self.data += data
        return len(data)


class FakeSink:
    """A log that can be filled up."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.tails: list[TailFrame] = []
        self.spills: dict[str, FakeSpill] = {}
        self.spill_bytes: int | None = None  # of each
        self.notes: list[tuple[str, dict[str, Any]]] = []
        self.full = False
        self.evicted = False

    def append(self, event: Event) -> Event:
        if self.full:
            raise DiskFull("record")
        event = event.stamped(len(self.events) + 1, "2031-01-01T00:00:00.000Z")
        self.events.append(event)
        return event

    def tail(self, frame: TailFrame) -> None:
        self.tails.append(frame)

    def spill(self, name: str) -> FakeSpill:
        return self.spills.setdefault(name, FakeSpill(self.spill_bytes))

    def note(self, kind: str, payload: Mapping[str, Any]) -> None:
        if self.full:
            raise DiskFull("record")
        if self.evicted:
            raise FileNotFoundError("record")
        self.notes.append((kind, dict(payload)))

    def types(self) -> list[str]:
        return [event.type for event in self.events]

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        return [event.to_wire() for event in self.events if event.type == kind]

    def raw(self, name: str) -> str:
        """A stream's raw text as the journal pages it: from the spill, else from the events."""
        if name in self.spills:
            return self.spills[name].data.decode()
        return "".join(event["text"] for event in self.of_type("stream") if event["name"] == name)


class Rig:
    """One kernel and its content directory."""

    def __init__(self, path: Path, limits: CaptureLimits) -> None:
        self.path = path
        self.limits = limits
        self.clock = FakeClock()
        self.content = HostileDir.open(path)
        self.displays = DisplayRegistry(limits.display_ids)
        self.sink = FakeSink()
        self.recorder = self.new(UID, NAME, self.sink)

    def new(self, uid: str, name: str, sink: FakeSink, output_limit: int = 0) -> Recorder:
        return Recorder(
            uid=uid,
            execution=name,
            limits=self.limits,
            output_limit=output_limit,
            sink=sink,
            content=self.content,
            displays=self.displays,
            clock=self.clock,
        )

    def next_execution(self) -> None:
        """Settles this one and starts another in the same kernel."""
        self.recorder.settle(reply_error=False)
        self.sink = FakeSink()
        self.recorder = self.new("0" * 31 + "2", NAME[:-1] + "2", self.sink)

    def feed(self, *messages: Message) -> None:
        for message in messages:
            self.recorder.feed(message)

    def bundle(self, index: int, uid: str = UID) -> dict[str, Any]:
        made = json.loads(self.file(index, uid).read_text())
        assert isinstance(made, dict)
        return made

    def file(self, index: int, uid: str = UID) -> Path:
        return self.path / ".dsm_outputs" / uid / f"out-{index:03d}.json"


@contextmanager
def rig(path: Path, **limits: Any) -> Iterator[Rig]:
    made = Rig(path, CaptureLimits(**limits))
    try:
        yield made
    finally:
        made.content.close()


def settled(made: Rig, *, reply_error: bool = False) -> Captured:
    made.recorder.settle(reply_error=reply_error)
    return made.recorder.captured()


def reasons(captured: Captured) -> list[str | None]:
    outputs = captured.rich_outputs
    assert [output.index for output in outputs] == list(range(len(outputs)))
    return [str(output.error_info.reason) if output.error_info else None for output in outputs]


def noticed(captured: Captured) -> list[str]:
    return [notice.reason for notice in captured.notices]


def message(msg_type: str, content: Mapping[str, Any] | None = None, **fields: Any) -> Message:
    return Message(
        channel=fields.get("channel", "iopub"),
        msg_type=msg_type,
        msg_id="m",
        parent_id="p",
        content=content or {},
        metadata={},
        buffers=(),
        size=fields.get("size", 100),
        defect=fields.get("defect", ""),
    )


def out(text: Any, name: Any = "stdout") -> Message:
    return message("stream", {"name": name, "text": text})


def err(text: str) -> Message:
    return out(text, "stderr")


def display(data: Any, display_id: Any = None, kind: str = "display_data", **more: Any) -> Message:
    transient = {} if display_id is None else {"display_id": display_id}
    return message(kind, {"data": data, "metadata": {}, "transient": transient, **more})


def dropped(*mime_types: Any, kind: Any = "display_data", display_id: Any = None, **more: Any) -> Message:
    """A display that a native kernel did not send, for its size."""
    transient = {} if display_id is None else {"display_id": display_id}
    content = {
        "kind": kind,
        "reason": "OUTPUT_TOO_LARGE",
        "mimeTypes": list(mime_types),
        "sizeBytes": 5_000,
        "limitBytes": 1_000,
        "transient": transient,
    }
    return message("display_dropped", content | more)


def update(data: Any, display_id: Any) -> Message:
    return display(data, display_id, "update_display_data")


def text_display(text: Any, display_id: Any = None) -> Message:
    return display({"text/plain": text}, display_id)


def html(text: Any, display_id: Any = None) -> Message:
    return display({"text/html": text, "text/plain": "<HTML>"}, display_id)


def value(text: Any, **data: Any) -> Message:
    return display({"text/plain": text, **data}, kind="execute_result", execution_count=3)


def error(name: str = "ValueError", text: str = "bad", frames: Any = ()) -> Message:
    frames = list(frames) or [f"\x1b[31mframe of {name}\x1b[0m", f"{name}: {text}"]
    return message("error", {"ename": name, "evalue": text, "traceback": frames})


def clear(wait: bool = False) -> Message:
    return message("clear_output", {"wait": wait})


def long(text: str) -> LongText:
    return LongText(memoryview(json.dumps(text, ensure_ascii=False).encode()[1:-1]))
