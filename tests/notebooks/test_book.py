"""A notebook from records: what stands where, and what is said of what is missing."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from cellhouse.model import (
    ArtifactEvent,
    ClearedEvent,
    DisplayEvent,
    DisplayUpdatedEvent,
    ErrorEvent,
    ErrorInfo,
    Event,
    ExecutionError,
    ExecutionState,
    InputRequestedEvent,
    Late,
    LateEvent,
    Notice,
    NoticeEvent,
    Outcome,
    QueuedEvent,
    ResultEvent,
    RichOutput,
    SessionState,
    StartedEvent,
    TextCut,
    Truncation,
)
from cellhouse.model.result import Artifact
from cellhouse.notebooks import BookLimits, cell
from tests.notebooks.support import (
    NAME,
    Records,
    book_of,
    cell_of,
    note_of,
    notes,
    out,
    outputs_of,
    result_of,
    rich,
)

HTML = {"output_type": "display_data", "data": {"text/html": "<b>x</b>", "text/plain": "x"}, "metadata": {}}


def display(index: int = 0, *mime_types: str) -> DisplayEvent:
    return DisplayEvent(index=index, mime_types=mime_types or ("text/html",), size_bytes=10)


def cut(total: int) -> TextCut:
    return TextCut(
        total_bytes=total, total_chars=total, total_lines=1, kept_head_chars=1, kept_tail_chars=1, omitted_chars=total - 2, spilled_bytes=total,
    )  # fmt: skip


async def test_a_cell_has_its_code_count_and_times_and_what_became_of_it() -> None:
    result = result_of(
        execution_count=7,
        start_time="2026-01-01T00:00:00Z",
        end_time="2026-01-01T00:00:01Z",
        session_state=SessionState.PRESERVED,
    )
    made = await cell_of(Records([QueuedEvent(), StartedEvent(execution_count=7)], result))
    assert made["source"] == "1 + 1"
    assert made["execution_count"] == 7
    assert made["outputs"] == []
    assert made["metadata"]["execution"] == {
        "iopub.execute_input": "2026-01-01T00:00:00Z", "shell.execute_reply": "2026-01-01T00:00:01Z",
    }  # fmt: skip
    told = made["metadata"]["cellhouse"]
    assert told == {
        "execution": NAME, "state": "FINISHED", "outcome": "OK", "sessionState": "PRESERVED", "codeSha256": "abc",
    }  # fmt: skip


async def test_outputs_stand_in_the_order_of_events_and_text_of_one_stream_is_joined() -> None:
    events: list[Event] = [
        out("a"),
        out("b\n"),
        out("e", "stderr"),
        display(),
        out("c"),
        ErrorEvent(name="E", value="v", traceback=("t",)),
    ]
    found = await outputs_of(
        Records(events, result_of(rich_outputs=(rich(0, "text/html"),)), bundles={0: HTML})
    )
    assert found == [
        {"output_type": "stream", "name": "stdout", "text": "ab\n"},
        {"output_type": "stream", "name": "stderr", "text": "e"},
        HTML,
        {"output_type": "stream", "name": "stdout", "text": "c"},
        {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["t"]},
    ]


async def test_a_progress_bar_is_its_last_line() -> None:
    assert (await outputs_of(Records([out("10%\r"), out("100%\n")])))[0]["text"] == "100%\n"


async def test_each_value_is_a_result_and_its_text_is_not_told_twice() -> None:
    events: list[Event] = [ResultEvent(text="1"), out("1\n", source="result"), ResultEvent(text="2")]
    found = await outputs_of(Records(events))
    assert [(each["output_type"], each["data"]["text/plain"], each["execution_count"]) for each in found] == [
        ("execute_result", "1", 1),
        ("execute_result", "2", 1),
    ]


@pytest.mark.parametrize(
    ("kind", "types"),
    [("execute_result", ["execute_result"]), ("display_data", ["execute_result", "display_data"])],
)
async def test_a_rich_value_is_one_output_and_a_display_behind_a_value_another(
    kind: str, types: list[str]
) -> None:
    records = Records(
        [ResultEvent(text="x"), display()],
        result_of(rich_outputs=(rich(0, "text/html"),)),
        bundles={0: {**HTML, "output_type": kind}},
    )
    assert [each["output_type"] for each in await outputs_of(records)] == types


async def test_a_rich_value_whose_bundle_is_gone_keeps_its_text() -> None:
    records = Records([ResultEvent(text="x"), display()], result_of(rich_outputs=(rich(0, "text/html"),)))
    value, gone = await outputs_of(records)
    assert value["data"] == {"text/plain": "x"}
    assert note_of(gone) == "gone"


async def test_a_bundle_that_is_gone_is_a_note_with_its_types_and_size() -> None:
    records = Records([display()], result_of(rich_outputs=(rich(0, "image/png", "text/html", size=1234),)))
    (found,) = await outputs_of(records)
    assert found["data"]["text/plain"] == (
        "[rich output 0 (image/png, text/html) of 1,234 bytes is not there: its file is gone]"
    )
    assert found["metadata"]["cellhouse"]["sizeBytes"] == 1234


async def test_a_dropped_output_is_a_note_with_its_reason_in_its_place() -> None:
    info = ErrorInfo(reason="OUTPUT_TOO_LARGE", metadata={"limitBytes": "5"})
    entry = RichOutput(index=0, mime_types=("text/html",), error_info=info)
    event = DisplayEvent(index=0, mime_types=("text/html",), error_info=info)
    found = await outputs_of(Records([out("a"), event, out("b")], result_of(rich_outputs=(entry,))))
    assert [each["output_type"] for each in found] == ["stream", "display_data", "stream"]
    assert notes(found) == ["[rich output 0 (text/html) not shown: OUTPUT_TOO_LARGE (limitBytes 5)]"]


async def test_an_update_that_was_not_written_is_a_note() -> None:
    event = DisplayUpdatedEvent(execution=NAME, index=3, error_info=ErrorInfo(reason="DISK_FULL"))
    assert notes(await outputs_of(Records([event]))) == [
        f"[an update of rich output 3 of {NAME} was not written: DISK_FULL]"
    ]


async def test_what_the_code_cleared_is_not_there_and_that_is_said() -> None:
    found = await outputs_of(Records([out("a"), ClearedEvent(), out("b"), ClearedEvent(wait=True), out("c")]))
    assert notes(found) == ["[the code cleared its output 2 times; what it showed before is not here]"]
    assert found[1]["text"] == "c"


async def test_a_long_text_is_its_head_and_tail_with_a_note_between() -> None:
    found = await outputs_of(Records([out("a" * 6), out("b" * 1000), out("z" * 5)]), BookLimits(output=10))
    assert [each.get("text") for each in found] == ["aaaaa", None, "zzzzz"]
    assert "1,001 characters of stdout not shown" in notes(found)[0]
    assert "--output-limit" in notes(found)[0]
    assert f"{NAME}/stdout" in notes(found)[0]


async def test_text_that_is_in_no_event_is_counted_and_its_end_shown() -> None:
    text = "x" * 100_000 + "end"
    result = result_of(output_truncated=True, truncation=Truncation(stdout=cut(len(text))))
    first, omitted, last = await outputs_of(Records([out("x" * 1000)], result, texts={"stdout": text}))
    assert len(first["text"]) == 1000
    assert omitted["metadata"]["cellhouse"]["omitted"] == len(text) - 1000 - len(last["text"])
    assert last["text"].endswith("end")
    assert 0 < len(last["text"]) <= 8_192


async def test_text_that_nobody_kept_is_counted_all_the_same() -> None:
    result = result_of(output_truncated=True, truncation=Truncation(stdout=cut(5_000)))
    (_, omitted) = await outputs_of(Records([out("x" * 10)], result, texts={"stdout": "x" * 10}))
    assert omitted["metadata"]["cellhouse"]["omitted"] == 4_990


async def test_a_bundle_past_a_limit_is_not_even_read() -> None:
    entries = (rich(0, "text/html", size=100), rich(1, "text/html", size=60), rich(2, "text/html", size=60))
    records = Records(
        [display(0), display(1), display(2)],
        result_of(rich_outputs=entries),
        bundles=dict.fromkeys(range(3), HTML),
    )
    found = await outputs_of(records, BookLimits(output=80, total=100))
    assert [note_of(each) for each in found] == ["omitted", "", "omitted"]
    assert "--output-limit" in notes(found)[0]
    assert "--total-limit" in notes(found)[1]
    assert records.read == [1]


async def test_the_total_counts_over_cells_and_each_that_has_no_place_says_so() -> None:
    records = Records([out("x" * 50)])
    made = await book_of(records, BookLimits(total=120), executions=3)
    _, *cells = made["cells"]
    assert [note_of(each["outputs"][0]) for each in cells] == ["", "", "omitted"]
    assert len({each["id"] for each in made["cells"]}) == 4


async def test_code_that_has_no_place_is_a_note() -> None:
    made = await cell_of(Records(code="x" * 100), BookLimits(output=80))
    assert "not shown" in made["source"]
    assert "100 characters of the code not shown" in notes(made["outputs"])[0]


async def test_code_that_is_not_handed_out_is_said_to_be_elsewhere() -> None:
    made = await cell_of(Records(code=None))
    assert NAME in made["source"]
    assert "SHA-256 abc" in notes(made["outputs"])[0]


async def test_further_executions_and_outputs_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    made = await book_of(Records(), BookLimits(cells=2), executions=5)
    assert len(made["cells"]) == 4
    assert made["cells"][-1]["source"].startswith("(3 further executions")
    monkeypatch.setattr("cellhouse.notebooks.outputs.CELL_OUTPUTS", 2)
    found = await outputs_of(Records([out("a"), out("b", "stderr"), out("c"), out("d", "stderr")]))
    assert [each.get("text") for each in found] == ["a", "b", None]
    assert "2 outputs of this execution not shown" in notes(found)[0]


async def test_an_end_has_its_place_in_a_cell_that_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cellhouse.notebooks.outputs.CELL_OUTPUTS", 1)
    error = ExecutionError(name="Killed")
    result = result_of(outcome=Outcome.OUT_OF_MEMORY, execution_error=error)
    found = await outputs_of(Records([out("a"), out("b", "stderr"), out("c")], result))
    assert [each.get("text") or note_of(each) for each in found] == ["a", "omitted", "outcome", ""]


async def test_what_is_said_of_an_execution_is_not_cleared_by_it() -> None:
    found = await outputs_of(
        Records([NoticeEvent(reason="FRESH_KERNEL", text="new"), out("a"), ClearedEvent()])
    )
    assert [note_of(each) for each in found] == ["cleared", "notice"]


async def test_a_session_in_which_nothing_ran_says_so() -> None:
    made = await book_of(Records(), executions=0)
    assert "Nothing is on record" in made["cells"][1]["source"]


@pytest.mark.parametrize("outcome", [each for each in Outcome if each not in ("OK", "ERROR")])
async def test_an_end_that_was_not_the_codes_own_is_a_note_with_its_cause(outcome: Outcome) -> None:
    result = result_of(
        outcome=outcome,
        execution_error=ExecutionError(name="Killed", value="it was killed"),
        outcome_info=ErrorInfo(reason="MEMORY", metadata={"limitBytes": "7"}),
        session_state=SessionState.RESET,
    )
    made = await cell_of(Records([out("before")], result))
    assert made["outputs"][0]["text"] == "before"
    assert notes(made["outputs"]) == [
        f"[ended as {outcome}; it was killed; cause MEMORY (limitBytes 7); variables of the session: RESET]"
    ]
    assert made["metadata"]["cellhouse"]["outcome"] == outcome


async def test_an_error_without_an_event_is_shown_from_the_result() -> None:
    result = result_of(outcome=Outcome.ERROR, execution_error=ExecutionError(name="E", value="v"))
    assert await outputs_of(Records([], result)) == [
        {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["E: v"]}
    ]


async def test_notices_inputs_and_files_are_notes_and_a_notice_stands_once() -> None:
    result = result_of(
        notices=(Notice(reason="FRESH_KERNEL", text="new"), Notice(reason="OUTPUT_LOST", text="2")),
        artifacts=tuple(Artifact(name=f"f{number}", bytes=1) for number in range(22)),
    )
    events: list[Event] = [
        NoticeEvent(reason="OUTPUT_LOST", text="2"), InputRequestedEvent(prompt="name? "), ArtifactEvent(name="f0", bytes=1),
    ]  # fmt: skip
    found = await outputs_of(Records(events, result))
    assert [note_of(each) for each in found] == ["notice", "input", "notice", "files"]
    assert notes(found)[3].endswith("and 2 more]")


async def test_late_output_is_marked_and_what_of_it_is_missing_is_counted() -> None:
    late = [LateEvent(name="stdout", text="more"), LateEvent(mime_types=("image/png",), size_bytes=9)]
    result = result_of(late=Late(stdout_bytes=10, displays=1))
    found = await outputs_of(Records([out("a")], result, late=late))
    assert [each.get("text") or note_of(each) for each in found] == ["a", "late", "more", "late", "late"]
    assert notes(found)[-1] == "[late output that is on record and not here: 6 bytes of stdout]"


async def test_late_output_that_does_not_come_is_waited_for_a_bounded_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Waiting(Records):
        async def events(self, name: str, *, late: bool) -> AsyncGenerator[Any, None]:
            async for event in super().events(name, late=late):
                yield event
            await asyncio.Event().wait()

    monkeypatch.setattr(cell, "LATE_SECONDS", 0.01)
    found = await outputs_of(Waiting([], result_of(late=Late(stderr_bytes=3))))
    assert notes(found) == ["[late output that is on record and not here: 3 bytes of stderr]"]
    # Where there is none on record, or all has come, nobody waits.
    monkeypatch.setattr(cell, "LATE_SECONDS", 1e6)
    assert await outputs_of(Waiting([])) == []
    all_of_it = Waiting([], result_of(late=Late(stdout_bytes=1)), late=[LateEvent(name="stdout", text="x")])
    assert (await outputs_of(all_of_it))[1]["text"] == "x"


async def test_what_still_runs_is_shown_as_far_as_it_is_and_nobody_waits() -> None:
    class Endless(Records):
        async def events(self, name: str, *, late: bool) -> AsyncGenerator[Any, None]:
            async for event in super().events(name, late=late):
                yield event
            await asyncio.Event().wait()

    result = result_of(state=ExecutionState.RUNNING, stdout="so far", rich_outputs=(rich(0, "text/html"),))
    async with asyncio.timeout(10):
        found = await outputs_of(Endless([out("an event")], result, bundles={0: HTML}))
    assert note_of(found[0]) == "state"
    assert found[1]["text"] == "so far"
    assert found[2] == HTML


async def test_a_bundle_that_code_changed_is_said_to_be() -> None:
    entry = rich(0, "text/html")
    now = entry.model_copy(update={"modified": True})
    records = Records([display()], result_of(rich_outputs=(entry,)), bundles={0: HTML}, now={0: now})
    told, shown = await outputs_of(records)
    assert note_of(told) == "modified"
    assert shown == HTML
