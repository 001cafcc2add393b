"""Records for a notebook, made up: no journal and no kernel behind them."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import nbformat

from cellhouse.model import (
    CallReason,
    Event,
    ExecuteCodeResult,
    ExecutionState,
    FinishedEvent,
    NotFound,
    Outcome,
    RichOutput,
    StreamEvent,
    TailFrame,
    TextPart,
)
from cellhouse.notebooks import Asked, BookLimits, notebook
from cellhouse.notebooks.source import StreamText

SESSION = "runtimes/here/sessions/main"
NAME = f"{SESSION}/executions/one"


def result_of(**fields: Any) -> ExecuteCodeResult:
    fields = {"state": ExecutionState.FINISHED, "outcome": Outcome.OK, "execution_count": 1, **fields}
    if fields["state"] is not ExecutionState.FINISHED:
        fields["outcome"] = None
    return ExecuteCodeResult(
        execution=NAME, session=SESSION, rich_outputs_dropped=bool(fields.get("rich_outputs")), **fields
    )


def rich(index: int, *mime_types: str, size: int = 10) -> RichOutput:
    return RichOutput(index=index, mime_types=mime_types, size_bytes=size, file_path=f"/content/{index}.json")


@dataclass
class Records:
    """One execution, as a source."""

    events_: Sequence[Event] = ()
    result: ExecuteCodeResult = field(default_factory=result_of)
    code: str | None = "1 + 1"
    bundles: dict[int, dict[str, Any]] = field(default_factory=dict)
    now: dict[int, RichOutput] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    late: Sequence[Event] = ()
    read: list[int] = field(default_factory=list)
    """Indices of the bundles that were read."""
    asked_late: bool = False

    async def get_code(self, name: str) -> str | None:
        return self.code

    async def get_execution(self, name: str) -> ExecuteCodeResult:
        return self.result

    async def events(self, name: str, *, late: bool) -> AsyncGenerator[Event | TailFrame, None]:
        self.asked_late = late
        for event in (*self.events_, FinishedEvent(result=self.result)):
            yield event
        for event in self.late if late else ():
            yield event

    async def get_rich_output(self, name: str, index: int) -> RichOutput:
        self._there(index)
        return self.now.get(index, self.result.rich_outputs[index])

    async def get_bundle(self, name: str, index: int) -> dict[str, Any]:
        self._there(index)
        self.read.append(index)
        return self.bundles[index]

    def _there(self, index: int) -> None:
        if index not in self.bundles:
            raise NotFound("its file is gone", reason=CallReason.NO_SUCH_OUTPUT)

    async def read_text(self, name: str, which: StreamText, *, offset: int, limit: int) -> TextPart:
        whole = self.texts.get(which, "").encode()
        part = whole[offset : offset + limit]
        end = offset + len(part)
        return TextPart(
            text=part.decode(), offset=offset, next_offset=end, total_bytes=len(whole), eof=end == len(whole)
        )


async def book_of(records: Records, limits: BookLimits | None = None, executions: int = 1) -> dict[str, Any]:
    """The notebook, held against nbformat's schema."""

    async def asked() -> AsyncIterator[Asked]:
        for number in range(executions):
            yield Asked(f"{NAME}{number or ''}", "abc")

    made = await notebook(records, SESSION, asked(), limits)
    nbformat.validate(made, version=4, version_minor=5)
    return made


async def cell_of(records: Records, limits: BookLimits | None = None) -> dict[str, Any]:
    cell: dict[str, Any] = (await book_of(records, limits))["cells"][1]
    return cell


async def outputs_of(records: Records, limits: BookLimits | None = None) -> list[dict[str, Any]]:
    outputs: list[dict[str, Any]] = (await cell_of(records, limits))["outputs"]
    return outputs


def out(text: str, name: str = "stdout", **fields: Any) -> StreamEvent:
    return StreamEvent(name="stderr" if name == "stderr" else "stdout", text=text, **fields)


def note_of(output: dict[str, Any]) -> str:
    """What kind of note it is; "" where it is none."""
    return str(output.get("metadata", {}).get("cellhouse", {}).get("note", ""))


def notes(outputs: Iterable[dict[str, Any]]) -> list[str]:
    """The texts of the notes."""
    return [each["data"]["text/plain"] for each in outputs if note_of(each)]
