"""One execution as a code cell."""

import asyncio
import hashlib
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from cellhouse.excerpt import Excerpt
from cellhouse.model import (
    ExecuteCodeResult,
    ExecutionState,
    FinishedEvent,
    NotFound,
    RichOutput,
    StreamName,
)
from cellhouse.notebooks.bundles import output_of
from cellhouse.notebooks.limits import CELL_OUTPUTS, Room
from cellhouse.notebooks.notes import (
    MARK,
    NotebookOutput,
    cause_of,
    end_note,
    files_note,
    left_out,
    note,
    types_of,
)
from cellhouse.notebooks.outputs import (
    Displayed,
    Item,
    Outputs,
    Printed,
    Raised,
    Said,
    Shown,
    Value,
    display_output,
    error_output,
    stream_output,
)
from cellhouse.notebooks.source import Asked, Source, StreamText
from cellhouse.notebooks.text import clean, folded

LATE_SECONDS: Final = 10.0
"""What is on record of late output comes at once; who waits longer for it would wait for what is not there."""
TAIL_BYTES: Final = 8_192
"""Shown of a text whose end is in no event."""
_STREAMS: Final[tuple[StreamText, ...]] = ("stdout", "stderr")


def cell_id(name: str) -> str:
    """The same for an execution in every notebook."""
    return hashlib.sha256(name.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Ran:
    """The outputs of an execution, its In[N] where it has one, and what the cell's metadata get."""

    outputs: list[NotebookOutput]
    count: int | None
    metadata: dict[str, Any]


class CellMaker:
    """Makes the cell of one execution, within what room is left."""

    def __init__(self, source: Source, asked: Asked, room: Room) -> None:
        self._source, self._asked, self._room = source, asked, room
        self._name = asked.name
        self._outputs = Outputs(room.limits.output, asked.name)

    async def make(self) -> dict[str, Any]:
        code = await self._code()
        ran = await self.ran()
        return {
            "cell_type": "code",
            "id": cell_id(self._name),
            "metadata": ran.metadata,
            "source": code,
            "execution_count": ran.count,
            "outputs": ran.outputs,
        }

    async def ran(self) -> Ran:
        """What the execution adds to a cell whose code is there already."""
        result = await self._source.get_execution(self._name)
        if result.state is ExecutionState.FINISHED:
            await self._read(result)
            await self._past_the_log(result)
            self._end(result)
        else:
            self._so_far(result)
        count = result.execution_count or None
        shown = [output for item in self._first() for output in await self._shown(item, result, count)]
        return Ran(shown, count, _metadata(result, self._asked.code_sha256))

    # Code

    async def _code(self) -> str:
        code = await self._source.get_code(self._name)
        if code is None:
            digest = f", SHA-256 {self._asked.code_sha256}" if self._asked.code_sha256 else ""
            self._outputs.say(
                note(
                    "code",
                    f"the code is not here{digest}: a service does not hand it out; an export from its state directory has it",
                )
            )
            return f"# (the code of {self._name} is not here)"
        if why := self._room.refuses(len(code)):
            self._outputs.say(left_out("the code", len(code), "characters", why))
            return f"# (the code of {self._name} is not shown)"
        self._room.take(len(code))
        if (shown := clean(code)) != code:
            self._outputs.say(note("code", "lone surrogates in the code are written out as \\udXXX above"))
        return shown

    # Events

    async def _read(self, result: ExecuteCodeResult) -> None:
        late = result.late
        async with aclosing(self._source.events(self._name, late=late is not None)) as events:
            async for event in events:
                self._outputs.add(event)
                if isinstance(event, FinishedEvent):
                    break
            if late is not None:
                try:
                    async with asyncio.timeout(LATE_SECONDS):
                        while self._late_missing(result):
                            self._outputs.add(await anext(events))
                except (StopAsyncIteration, TimeoutError):
                    pass  # what is missing is told of below
        if missing := self._late_missing(result):
            self._outputs.say(note("late", f"late output that is on record and not here: {missing}"))

    def _late_missing(self, result: ExecuteCodeResult) -> str:
        late, have = result.late, self._outputs.late
        if late is None:
            return ""
        wanted = {"stdout": late.stdout_bytes, "stderr": late.stderr_bytes, "displays": late.displays}
        units = {"stdout": "bytes of stdout", "stderr": "bytes of stderr", "displays": "rich outputs"}
        return ", ".join(
            f"{count - have[what]:,} {units[what]}" for what, count in wanted.items() if count > have[what]
        )

    async def _past_the_log(self, result: ExecuteCodeResult) -> None:
        """Text that was too much for events: how much, and its end."""
        cut, reasons = result.truncation, {notice.reason for notice in result.notices or ()}
        for name in _STREAMS:
            text_cut = None if cut is None else cut.stdout if name == "stdout" else cut.stderr
            if text_cut is None and not reasons & {"EVENT_TEXT_LIMIT", "DISK_FULL"}:
                continue
            logged = self._outputs.logged[name]
            there = (await self._source.read_text(self._name, name, offset=0, limit=1)).total_bytes
            total = max(there, text_cut.total_bytes if text_cut is not None else 0)
            if total <= logged:
                continue
            tail = await self._source.read_text(
                self._name, name, offset=max(logged, there - TAIL_BYTES), limit=TAIL_BYTES
            )
            text = tail.text if there > logged else ""
            omitted = total - logged - len(text.encode())
            if omitted > 0:
                why = f"it is in no event; read {self._name}/{name} from byte {logged}"
                self._outputs.say(left_out(name, omitted, "bytes", why))
            if text:
                self._outputs.print(name, text)

    def _end(self, result: ExecuteCodeResult) -> None:
        outputs, error = self._outputs, result.execution_error
        if result.outcome is not None and result.outcome not in ("OK", "ERROR"):
            outputs.say(end_note(result))
        if error is not None and not outputs.raised:
            outputs.items.append(
                Said(error_output(clean(error.name), clean(error.value), tuple(map(clean, error.traceback))))
            )
        for notice in result.notices or ():
            if (notice.reason, notice.text) not in outputs.notices:
                outputs.say(note("notice", f"notice {notice.reason}: {notice.text}", reason=notice.reason))
        if (files := files_note(result)) is not None:
            outputs.say(files)

    def _so_far(self, result: ExecuteCodeResult) -> None:
        """What a snapshot tells of an execution that has not ended; nobody waits for it here."""
        outputs = self._outputs
        outputs.say(
            note(
                "state",
                f"{result.state}: what follows is what there was when this was exported, each text by itself",
                state=f"{result.state}",
            )
        )
        for name, text in (("stdout", result.stdout), ("stderr", result.stderr)):
            if text:
                outputs.print("stdout" if name == "stdout" else "stderr", text)
        if result.result:
            outputs.items.append(Value(result.result))
        for entry in result.rich_outputs:
            outputs.items.append(Displayed(entry.index, None, None))

    # Outputs

    def _first(self) -> list[Item]:
        """The items, with what is to be said of them all around them."""
        outputs = self._outputs
        items = list(outputs.items)
        if outputs.crowded_out:
            why = f"a cell takes {CELL_OUTPUTS:,}; read the events of {outputs.execution}"
            more = left_out("this execution", outputs.crowded_out, "outputs", why)
            items.insert(outputs.crowded_at, Said(more))
        if outputs.clears:
            text = f"the code cleared its output {outputs.clears:,} times; what it showed before is not here"
            items.insert(0, Said(note("cleared", text, clears=outputs.clears)))
        return items

    async def _shown(self, item: Item, result: ExecuteCodeResult, count: int | None) -> list[NotebookOutput]:
        match item:
            case Said(output=output):
                return [output]
            case Printed():
                return self._printed(item)
            case Shown(text=text):
                return self._long(text, "stdout", display_output)
            case Value(text=text):
                return self._value(text, count)
            case Raised(event=event):
                size = len(event.value) + sum(map(len, event.traceback))
                if why := self._room.refuses(size):
                    return [left_out(f"the error {event.name}", size, "characters", why)]
                self._room.take(size)
                return [error_output(event.name, event.value, event.traceback)]
            case Displayed():
                return await self._displayed(item, result, count)

    def _long(
        self, text: Excerpt, name: StreamName, part: Callable[[str], NotebookOutput]
    ) -> list[NotebookOutput]:
        """A text as outputs of one kind: whole, or its head and its tail with a note between."""
        size = len(text.head()) + len(text.tail())
        if size > self._room.left:
            why = f"the limit of all is {self._room.limits.total}, and cellhouse export --total-limit gives more"
            return [left_out(name, text.chars, "characters", why)]
        self._room.take(size)
        if text.whole:
            return [part(text.head() + text.tail())]
        why = (
            f"the limit of one output is {self._room.limits.output}, and cellhouse export --output-limit gives more; "
            f"or read {self._name}/{name}"
        )
        return [part(text.head()), left_out(name, text.chars - size, "characters", why), part(text.tail())]

    def _printed(self, item: Printed) -> list[NotebookOutput]:
        outputs = self._long(item.text, item.name, lambda text: stream_output(item.name, folded(text)))
        return [output for output in outputs if output.get("text") != ""]

    def _value(self, text: str, count: int | None) -> list[NotebookOutput]:
        if why := self._room.refuses(len(text)):
            return [left_out("a value", len(text), "characters", why)]
        self._room.take(len(text))
        return [
            {
                "output_type": "execute_result",
                "execution_count": count,
                "data": {"text/plain": text},
                "metadata": {},
            }
        ]

    async def _displayed(
        self, item: Displayed, result: ExecuteCodeResult, count: int | None
    ) -> list[NotebookOutput]:
        entry = self._entry(item, result)
        outputs = await self._bundle(entry, count)
        shown = next((output for output in outputs if MARK not in output["metadata"]), None)
        if item.value is not None and (shown is None or shown["output_type"] != "execute_result"):
            return [*self._value(item.value.text, count), *outputs]
        return outputs

    @staticmethod
    def _entry(item: Displayed, result: ExecuteCodeResult) -> RichOutput:
        """As it stood at the end; an event tells how it began."""
        if item.index < len(result.rich_outputs):
            return result.rich_outputs[item.index]
        assert item.event is not None
        event = item.event
        path = None if event.error_info is not None else ""
        return RichOutput(
            index=item.index,
            mime_types=event.mime_types,
            size_bytes=event.size_bytes or 0,
            file_path=path,
            error_info=event.error_info,
        )

    async def _bundle(self, entry: RichOutput, count: int | None) -> list[NotebookOutput]:
        """One at a time, and none that has no place here."""
        what = f"rich output {entry.index} ({types_of(entry.mime_types)})"
        figures: dict[str, object] = {"index": entry.index, "mimeTypes": list(entry.mime_types)}
        if entry.error_info is not None:
            info = entry.error_info
            return [note("dropped", f"{what} not shown: {cause_of(info)}", reason=info.reason, **figures)]
        try:
            now = await self._source.get_rich_output(self._name, entry.index)
            if why := self._room.refuses(now.size_bytes):
                size = now.size_bytes
                return [
                    note("omitted", f"{what} of {size:,} bytes not shown: {why}", sizeBytes=size, **figures)
                ]
            output, faults = output_of(await self._source.get_bundle(self._name, entry.index), count)
        except NotFound as error:
            size = entry.size_bytes
            return [
                note(
                    "gone",
                    f"{what} of {size:,} bytes is not there: {error.message}",
                    sizeBytes=size,
                    **figures,
                )
            ]
        self._room.take(now.size_bytes)
        told = []
        if now.modified:
            told.append(
                note("modified", f"{what}: code changed its file since; this is what it holds now", **figures)
            )
        if faults:
            told.append(note("invalid", f"{what}: left out: {'; '.join(faults)}", **figures))
        return told if output is None else [*told, output]


def _metadata(result: ExecuteCodeResult, code_sha256: str) -> dict[str, Any]:
    """What the result tells besides; and when it ran, where JupyterLab looks for it."""
    ours: dict[str, Any] = {"execution": result.execution, "state": f"{result.state}"}
    if code_sha256:
        ours["codeSha256"] = code_sha256
    if result.execution_id:
        ours["executionId"] = result.execution_id
    if result.outcome is not None:
        ours["outcome"] = f"{result.outcome}"
    wire = result.to_wire()
    ours |= {
        key: wire[key]
        for key in ("outcomeInfo", "sessionState", "truncation", "cleared", "usage", "late")
        if key in wire
    }
    times = {
        key: time
        for key, time in (
            ("iopub.execute_input", result.start_time),
            ("shell.execute_reply", result.end_time),
        )
        if time
    }
    return {MARK: ours, **({"execution": times} if times else {})}
