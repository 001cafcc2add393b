"""An ExecuteCodeResult in words for a model: within a budget, each cut told, with the call that reads the rest."""

from typing import Final

from cellhouse.doors.mcp.answers import amount, call, one_line
from cellhouse.excerpt import join
from cellhouse.model import (
    Artifact,
    ErrorInfo,
    ExecuteCodeResult,
    ExecutionState,
    Outcome,
    RichOutput,
    SessionState,
    TextCut,
    plain_text,
)

BUDGET: Final = 8_000
"""Characters in all."""
LISTED: Final = 12
"""Rich outputs and files that get a line of their own, each."""
LINE_CHARS: Final = 120
NOTICES: Final = 5
NOTICE_CHARS: Final = 200
MESSAGE_CHARS: Final = 800
FRAME_CHARS: Final = 1_000
LEAST: Final = 1_200
"""Characters that the texts get together at least."""
CUT_CHARS: Final = 80
"""Room for the line of what is missing, besides the call that reads it."""
TEXTS: Final = ("stdout", "stderr", "result")

_VARIABLES: Final = {
    SessionState.PRESERVED: "The session's variables are preserved.",
    SessionState.RESTORED: "The session's variables were restored from a checkpoint.",
    SessionState.RESET: "The session's variables are lost: the next execution gets a fresh kernel.",
    SessionState.GONE: "The session is gone, and its variables with it.",
}
_LABELS: Final = {"stdout": "stdout", "stderr": "stderr", "result": "value"}


def rendered(result: ExecuteCodeResult, budget: int = BUDGET) -> str:
    """The whole result for a model, in at most `budget` characters."""
    before = _state(result)
    after = [*_error(result), *_rich(result), *_files(result), *_late(result), *_notices(result)]
    if result.state is ExecutionState.FINISHED and not _said_something(result):
        after.append("Nothing was printed, and there is no value.")
    after.append(f"execution: {result.execution}")
    rest = "\n".join(after)
    fixed = sum(len(line) + 1 for line in before) + len(rest)
    texts = _texts(result, budget - fixed)
    whole = plain_text("\n".join([*before, *texts, rest]))
    # Only names of the utmost length bring it here.
    return _limited(whole, budget, call("get_execution", execution=result.execution))


def _said_something(result: ExecuteCodeResult) -> bool:
    return bool(
        result.stdout or result.stderr or result.result or result.execution_error or result.rich_outputs
    )


def _state(result: ExecuteCodeResult) -> list[str]:
    """Where it stands, where that is not simply OK."""
    if result.state is ExecutionState.QUEUED:
        return ["It waits for its turn: the session still runs what came before."]
    if result.state is ExecutionState.RUNNING:
        return ["It still runs. This is its output up to now."]
    if result.outcome is Outcome.OK:
        return []
    words = f"outcome: {result.outcome}"
    if result.outcome_info is not None and result.outcome_info.reason != "CODE_RAISED":
        words += f" ({_info(result.outcome_info)})"
    fate = _VARIABLES[result.session_state] if result.session_state is not None else ""
    return [f"{words}. {fate}".rstrip()]


def _info(info: ErrorInfo) -> str:
    figures = ", ".join(f"{key} {one_line(value, 80)}" for key, value in sorted(info.metadata.items())[:8])
    return f"{info.reason}: {figures}" if figures else info.reason


def _texts(result: ExecuteCodeResult, room: int) -> list[str]:
    """stdout, stderr and the value: the small ones whole, the others with what the small ones leave."""
    there = [(name, getattr(result, name)) for name in TEXTS if getattr(result, name)]
    shares: dict[str, int] = {}
    left = max(room, LEAST)
    for waiting, (name, text) in enumerate(sorted(there, key=lambda item: len(item[1]))):
        needed = len(text) + len(_LABELS[name]) + 3
        share = left // (len(there) - waiting)
        shares[name] = min(needed, share)
        left -= shares[name]
    return [f"{_LABELS[name]}:\n{_fitted(result, name, text, shares[name])}" for name, text in there]


def _fitted(result: ExecuteCodeResult, name: str, text: str, share: int) -> str:
    room = share - len(_LABELS[name]) - 3
    text = text.removesuffix("\n") if len(text) > room else text
    if len(text) <= room:
        return text.removesuffix("\n")
    cut: TextCut | None = getattr(result.truncation, name, None) if result.truncation is not None else None
    chars, lines = len(text), text.count("\n")
    if cut is not None:  # it was shortened before, and the line that said so is in the middle that goes
        chars = max(cut.omitted_chars + len(text), len(text))
        lines = max(cut.total_lines, lines)
    limit = max(room - CUT_CHARS - len(_pointer(result, name, len(text))), 2)
    # In bytes of what is shown, which is never more than of the raw text up to there: nothing is passed over.
    shown = join(text, text, chars, lines, limit, "")
    offset = len(text[: shown.head_chars].encode("utf-8", "replace"))
    return join(text, text, chars, lines, limit, _pointer(result, name, offset)).text


def _pointer(result: ExecuteCodeResult, name: str, offset: int) -> str:
    return call("read_output", execution=result.execution, stream=name, offset=offset)


def _error(result: ExecuteCodeResult) -> list[str]:
    error = result.execution_error
    if error is None:
        return []
    whole = call("read_output", execution=result.execution, stream="traceback")
    message = _limited(error.value, MESSAGE_CHARS, whole)
    lines = [f"{one_line(error.name, 200)}: {message}" if message else one_line(error.name, 200)]
    frames = [
        frame for frame in error.traceback if not frame.startswith(f"{error.name}: ") and frame != error.name
    ]
    if frames:
        lines.insert(0, _limited(frames[-1].rstrip("\n"), FRAME_CHARS, whole))
        lines.insert(0, f"error, its last frame (all of the traceback: {whole}):")
    return lines


def _limited(text: str, limit: int, pointer: str) -> str:
    if len(text) <= limit:
        return text
    room = max(limit - CUT_CHARS - len(pointer), 2)
    return join(text, text, len(text), text.count("\n"), room, pointer).text


def _rich(result: ExecuteCodeResult) -> list[str]:
    outputs = result.rich_outputs
    if not outputs:
        return []
    lines = [
        f"rich outputs ({call('read_rich_output', execution=result.execution, index=outputs[0].index)}):"
    ]
    lines += [_one(output) for output in outputs[:LISTED]]
    if len(outputs) > LISTED:
        lines.append(f"… {amount(len(outputs) - LISTED, 'rich output')} more, with the indexes after these …")
    return lines


def _one(output: RichOutput) -> str:
    types = one_line(", ".join(output.mime_types), 80)
    if output.error_info is not None:
        return one_line(f"[{output.index}] {types}: dropped, {_info(output.error_info)}", LINE_CHARS)
    return f"[{output.index}] {types}, {amount(output.size_bytes, 'byte')}"


def _files(result: ExecuteCodeResult) -> list[str]:
    files = result.artifacts
    if not files:
        return []
    runtime = result.execution.partition("/sessions/")[0]
    lines = [f"files made or changed ({call('list_files', runtime=runtime)}):"]
    lines += [_file(file) for file in files[:LISTED]]
    if len(files) > LISTED:
        lines.append(f"… {amount(len(files) - LISTED, 'file')} more …")
    return lines


def _file(file: Artifact) -> str:
    name = one_line(file.name, 90)
    if file.error_info is not None:
        return one_line(f"{name}: {_info(file.error_info)}", LINE_CHARS)
    size = "" if file.bytes is None else f", {amount(file.bytes, 'byte')}"
    return f"{name}{size}"


def _late(result: ExecuteCodeResult) -> list[str]:
    late = result.late
    if late is None:
        return []
    printed = amount(late.stdout_bytes + late.stderr_bytes, "byte")
    shown = amount(late.displays, "output")
    return [f"After its end, background work of it printed {printed} and displayed {shown}."]


def _notices(result: ExecuteCodeResult) -> list[str]:
    notices = result.notices or ()
    lines = [f"notice {each.reason}: {one_line(each.text, NOTICE_CHARS)}" for each in notices[:NOTICES]]
    if len(notices) > NOTICES:
        lines.append(f"… {amount(len(notices) - NOTICES, 'notice')} more …")
    return lines
