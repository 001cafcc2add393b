"""Events: exact wire forms, what an event may and may not hold."""

import pytest

from cellhouse.model import (
    Artifact,
    ArtifactEvent,
    ClearedEvent,
    DisplayEvent,
    DisplayUpdatedEvent,
    ErrorEvent,
    ErrorInfo,
    Event,
    ExecuteCodeResult,
    ExecutionState,
    FinishedEvent,
    InputRequestedEvent,
    LateEvent,
    NoticeEvent,
    Outcome,
    QueuedEvent,
    ResultEvent,
    StartedEvent,
    StreamEvent,
    TailFrame,
    parse_event,
)

DONE = ExecuteCodeResult(execution="e", state=ExecutionState.FINISHED, outcome=Outcome.OK)

FORMS: list[tuple[Event, dict[str, object]]] = [
    (QueuedEvent(), {"type": "queued"}),
    (StartedEvent(), {"type": "started"}),
    (StartedEvent(execution_count=0), {"type": "started", "executionCount": 0}),
    (StreamEvent(name="stdout", text=""), {"type": "stream", "name": "stdout", "text": ""}),
    (
        StreamEvent(name="stderr", text="x", source="fd"),
        {"type": "stream", "name": "stderr", "text": "x", "source": "fd"},
    ),
    (
        DisplayEvent(index=0, mime_types=("image/png",), size_bytes=9),
        {"type": "display", "index": 0, "mimeTypes": ["image/png"], "sizeBytes": "9"},
    ),
    (
        DisplayEvent(index=1, mime_types=("a/b",), error_info=ErrorInfo(reason="DISK_FULL")),
        {
            "type": "display",
            "index": 1,
            "mimeTypes": ["a/b"],
            "errorInfo": {"reason": "DISK_FULL", "domain": "cellhouse"},
        },
    ),
    (
        DisplayUpdatedEvent(execution="e", index=0, size_bytes=0),
        {"type": "displayUpdated", "execution": "e", "index": 0, "sizeBytes": "0"},
    ),
    (ClearedEvent(), {"type": "cleared", "wait": False}),
    (ResultEvent(text="1"), {"type": "result", "text": "1"}),
    (ErrorEvent(name="E", value=""), {"type": "error", "name": "E", "value": "", "traceback": []}),
    (
        InputRequestedEvent(prompt="? ", password=True),
        {"type": "inputRequested", "prompt": "? ", "password": True},
    ),
    (ArtifactEvent(name="a", bytes=0), {"type": "artifact", "name": "a", "bytes": "0"}),
    (NoticeEvent(reason="DISK_FULL", text="t"), {"type": "notice", "reason": "DISK_FULL", "text": "t"}),
    (
        FinishedEvent(result=DONE),
        {"type": "finished", "result": {"execution": "e", "state": "FINISHED", "outcome": "OK"}},
    ),
    (LateEvent(name="stdout", text="x"), {"type": "late", "name": "stdout", "text": "x"}),
    (
        LateEvent(mime_types=("a/b",), size_bytes=3),
        {"type": "late", "mimeTypes": ["a/b"], "sizeBytes": "3"},
    ),
]


@pytest.mark.parametrize(("event", "form"), FORMS, ids=lambda value: getattr(value, "type", ""))
def test_an_event_has_exactly_this_form(event: Event, form: dict[str, object]) -> None:
    assert event.to_wire() == form
    stamped = event.stamped(12, "2026-01-02T03:04:05.678Z")
    assert stamped.to_wire() == {"seq": 12, "time": "2026-01-02T03:04:05.678Z", **form}
    assert parse_event(stamped.to_wire()) == stamped
    assert stamped == event.model_copy(update={"seq": 12, "time": "2026-01-02T03:04:05.678Z"})
    assert stamped.model_fields_set == event.model_fields_set | {"seq", "time"}
    assert (event.seq, event.time) == (0, "")
    assert event.seq == 0


def test_every_type_of_the_contract_is_there() -> None:
    assert {event.type for event, _ in FORMS} == {
        "queued",
        "started",
        "stream",
        "display",
        "displayUpdated",
        "cleared",
        "result",
        "error",
        "inputRequested",
        "artifact",
        "notice",
        "finished",
        "late",
    }


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        "",
        [],
        {},
        {"type": "unheard"},
        {"type": None},
        {"type": "tail", "name": "stdout", "text": "x"},
        {"type": "stream", "text": "x"},
        {"type": "stream", "name": "stdin", "text": "x"},
        {"type": "stream", "name": "stdout", "text": "x", "source": "nowhere"},
        {"type": "queued", "seq": -1},
        {"type": "queued", "seq": 1.5},
        {"type": "display", "index": 0, "mimeTypes": ["a/b"]},
        {"type": "display", "index": 0, "mimeTypes": [], "sizeBytes": "1"},
        {
            "type": "display",
            "index": 0,
            "mimeTypes": ["a/b"],
            "sizeBytes": "1",
            "errorInfo": {"reason": "DISK_FULL"},
        },
        {"type": "late"},
        {"type": "late", "name": "stdout"},
        {"type": "late", "text": "x"},
        {"type": "late", "name": "stdout", "text": "x", "mimeTypes": ["a/b"], "sizeBytes": "1"},
        {"type": "late", "mimeTypes": ["a/b"]},
        {"type": "finished"},
        {"type": "finished", "result": {"execution": "e", "state": "FINISHED"}},
        {"type": "notice", "reason": "lower", "text": "x"},
    ],
)
def test_what_is_no_event_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_event(wrong)


def test_a_hostile_document_can_not_go_deep() -> None:
    with pytest.raises(ValueError, match="recursion"):
        parse_event('{"type":"queued","x":' + "[" * 10_000 + "]" * 10_000 + "}")
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert parse_event({"type": "queued", "seq": None, "x": deep}) == QueuedEvent()


def test_an_artifact_event_carries_the_artifact_itself() -> None:
    artifact = Artifact(name="a", bytes=3, sha256="00")
    assert ArtifactEvent.of(artifact).to_wire() == {"type": "artifact", **artifact.to_wire()}


def test_a_tail_frame_has_no_number() -> None:
    frame = TailFrame(name="stdout", text="…", skipped_bytes=2**40)
    assert frame.to_wire() == {"type": "tail", "name": "stdout", "text": "…", "skippedBytes": "1099511627776"}
    assert TailFrame.from_json(frame.to_json()) == frame
