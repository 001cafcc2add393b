"""What one kernel tells of one cell, in normal form."""

import asyncio
import uuid
from codecs import getincrementaldecoder
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cellhouse.kernel import (
    Conversation,
    End,
    ExecuteRequest,
    InputAsked,
    Kernel,
    Output,
    Stray,
)
from cellhouse.kernel.conversation import Remark, Step, Tick
from cellhouse.messages import LongText, Message, RawText, text_chunks
from tests.kernels.cell import Cell
from tests.kernels.normal import ANSI, Normal

CELL_SECONDS = 20.0
"""A cell that has not ended by then is interrupted, and its kernel killed as much later again."""

Item = tuple[Any, ...]
"""A kind and what belongs to it. Text is `("text", stdout, stderr)`: all of it between two other items."""


@dataclass(frozen=True, slots=True)
class Recording:
    """`raw`: whether some of the text came by the process's own descriptors (a kernel may have no order for it)."""

    items: tuple[Item, ...]
    raw: bool = False
    ended: bool = True
    seconds: float = 0.0


@dataclass
class _Heard:
    """What came for one execution, as it came."""

    cell: Cell
    code: str
    came: list[Message | RawText | Item] = field(default_factory=list)
    ended: bool = True
    seconds: float = 0.0


class Recorder:
    """Runs cells on one kernel. What comes late for an earlier cell belongs to that cell, whenever it came.

    So the recordings are asked for at the end, by `recordings()`: one list for each cell, with those of the cells
    before it first.
    """

    def __init__(self, kernel: Kernel, directory: Path) -> None:
        self.kernel = kernel
        self.alive = True
        self._directory = directory
        self._heard: dict[str, _Heard] = {}
        self._cells: dict[str, list[str]] = {}
        self._count = 0

    async def run(self, cell: Cell) -> None:
        for number, code in enumerate([*cell.before, cell.code]):
            if self.alive:
                last = number == len(cell.before)
                await self._run_code(cell, code, _Answers(cell.answers if last else ()), main=last)

    def recordings(self) -> dict[str, list[Recording]]:
        return {
            name: [_recording(self._heard[msg_id], Normal(self._directory)) for msg_id in msg_ids]
            for name, msg_ids in self._cells.items()
        }

    async def _run_code(self, cell: Cell, code: str, answers: "_Answers", *, main: bool) -> None:
        msg_id = uuid.uuid4().hex
        self._cells.setdefault(cell.name, []).append(msg_id)
        heard = self._heard[msg_id] = _Heard(cell, code)
        request = ExecuteRequest(
            code,
            msg_id,
            silent=main and cell.silent,
            store_history=cell.store_history or not main,
            allow_stdin=cell.allow_stdin,
        )
        conversation = Conversation(self.kernel, request)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        conversation.wake_at = begun + CELL_SECONDS
        async for step in conversation.steps():
            if isinstance(step, Tick):
                self._end_it(heard)
                conversation.wake_at = loop.time() + CELL_SECONDS
            elif isinstance(step, InputAsked):
                heard.came.append(("input", step.prompt, step.password))
                conversation.provide_input(next(answers))
            else:
                self._take(step, heard)
        heard.seconds = loop.time() - begun

    def _end_it(self, heard: _Heard) -> None:
        if heard.ended:
            heard.ended = False
            heard.came.append(("never ended",))
            self.kernel.interrupt()
        else:
            self.kernel.kill()

    def _take(self, step: Step, heard: _Heard) -> None:
        match step:
            case Output(item):
                heard.came.append(item)
            case Stray(Message() as message):
                # For what is known of nobody, the cell in which it came is as good as any.
                self._heard.get(message.parent_id, heard).came.append(message)
            case Stray(RawText() as text):
                self._heard.get(text.parent_id, heard).came.append(text)
            case Remark(reason):
                if reason != "UNATTRIBUTED_OUTPUT":
                    heard.came.append(("remark", reason))
            case End():
                heard.came.extend(self._end(step))

    def _end(self, end: End) -> Iterator[Item]:
        if end.reply is not None:
            yield ("reply", end.reply, self._counted(end.reply))
        if end.trouble is not None:
            yield ("trouble", end.trouble.reason)
        if end.died is not None:
            self.alive = False
            yield ("died", end.died.exit_status, end.died.signal)
        elif not end.idle:
            yield ("no idle",)

    def _counted(self, reply: Mapping[str, Any]) -> Any:
        """How far the count went: what it is depends on the cells before, which may have gone wrong."""
        count = reply.get("execution_count")
        if not isinstance(count, int):
            return count
        before, self._count = self._count, count
        return count - before


class _Answers(Iterator[str]):
    """The answers of a cell; where they don't suffice, the end of input."""

    def __init__(self, answers: Sequence[str]) -> None:
        self._answers = iter(answers)

    def __next__(self) -> str:
        return next(self._answers, "\x04")


def _recording(heard: _Heard, normal: Normal) -> Recording:
    items: list[Item] = []
    texts = {"stdout": "", "stderr": ""}
    decoders = {name: getincrementaldecoder("utf-8")("replace") for name in texts}
    raw = False

    def end_of_text() -> None:
        if any(texts.values()):
            items.append(("text", normal.text(texts["stdout"]), normal.text(texts["stderr"])))
            texts.update(stdout="", stderr="")

    for came in heard.came:
        if isinstance(came, RawText):
            texts[came.name] += decoders[came.name].decode(came.data)
            raw = True
            continue
        if isinstance(came, Message) and came.msg_type == "stream":
            name = came.content.get("name")
            if name in texts:
                texts[name] += _text(came.content.get("text"))
                continue
        end_of_text()
        items.append(_message(came, heard, normal) if isinstance(came, Message) else _other(came, normal))
    for name, decoder in decoders.items():
        texts[name] += decoder.decode(b"", final=True)
    end_of_text()
    return Recording(tuple(items), raw, heard.ended, heard.seconds)


def _text(value: Any) -> str:
    return "".join(text_chunks(value)) if isinstance(value, str | LongText) else repr(value)


def _message(message: Message, heard: _Heard, normal: Normal) -> Item:
    content, kind = message.content, message.msg_type
    if message.defect:
        return (kind, "defect", message.defect)
    match kind:
        case "display_data" | "execute_result" | "update_display_data":
            transient = content.get("transient")
            return (
                kind,
                normal.bundle(content.get("data")),
                normal.value(content.get("metadata")),
                normal.value(transient) if transient else None,
            )
        case "error":
            return (
                kind,
                normal.value(content.get("ename")),
                normal.value(content.get("evalue")),
                _traceback(content.get("traceback"), heard.cell, normal),
            )
        case "execute_input":
            return (kind,)
        case "comm_open" | "comm_msg" | "comm_close":
            return (
                kind,
                normal.identity(_text(content.get("comm_id"))),
                content.get("target_name"),
                _shape(content.get("data")),
                len(message.buffers),
            )
        case _:
            return (kind, normal.value(content))


def _shape(data: Any) -> Any:
    """What a comm says: its method, and which parts of the state it holds."""
    if not isinstance(data, Mapping):
        return type(data).__name__
    state = data.get("state")
    return dict.fromkeys(data) | {
        "method": data.get("method"),
        "state": sorted(state) if isinstance(state, Mapping) else None,
    }


def _traceback(lines: Any, cell: Cell, normal: Normal) -> Any:
    """Where it went, as far as that is in cells, and what it says in the end."""
    if not isinstance(lines, Sequence) or isinstance(lines, str):
        return repr(lines)
    text = normal.text(ANSI.sub("", "\n".join(_text(line) for line in lines)))
    if cell.whole_traceback:
        return text.splitlines()
    *above, last = text.rstrip("\n").splitlines()
    return [*_frames(above), last]


def _frames(lines: Sequence[str]) -> Iterator[str]:
    """The frames that are in cells: header and line, as often as one follows itself only once."""
    before = header = ""
    for line in lines:
        if line.startswith("Cell In"):
            header = line
        elif header and line.startswith("--"):
            _, number, code = line.split(maxsplit=2)
            frame = f"{header}: {number} {code}"
            if frame != before:
                yield frame
            before, header = frame, ""


def _other(item: Item, normal: Normal) -> Item:
    match item:
        case ("reply", reply, counted):
            parts: dict[str, Any] = {"status": reply.get("status"), "counted": counted}
            for name in ("ename", "evalue", "payload", "user_expressions"):
                if reply.get(name):
                    parts[name] = _payload(reply[name], normal)
            return ("reply", parts)
        case ("input", prompt, password):
            return ("input", normal.text(prompt), password)
        case _:
            return item


def _payload(value: Any, normal: Normal) -> Any:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return normal.value(value)
    return [normal.value(part) for part in value]
