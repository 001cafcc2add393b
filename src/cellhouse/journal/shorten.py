"""A result made small enough for the room that there is for it, telling what was left out."""

from typing import Final, NamedTuple

from cellhouse.excerpt import join
from cellhouse.files import MAX_RECORD_BYTES
from cellhouse.model import (
    DropReason,
    ErrorInfo,
    ExecuteCodeResult,
    ExecutionError,
    Notice,
    NoticeReason,
    RichOutput,
    TextCut,
    Truncation,
)

# Tried in this order: characters of each text, entries of each list.
_STEPS = ((1_048_576, 10_000), (65_536, 1_000), (4_096, 200), (1_024, 50), (256, 10), (64, 1), (0, 0))
_METADATA_CHARS = 256
_NOTICE_CHARS = 256


class Cause(NamedTuple):
    """Why a result is shortened: what its notice says, and the reason that stands for rich outputs left out."""

    reason: NoticeReason
    drop: DropReason
    text: str


DISK_FULL: Final = Cause(
    NoticeReason.DISK_FULL,
    DropReason.DISK_FULL,
    "the journal's disk was full when this result was recorded",
)
TOO_LONG: Final = Cause(
    NoticeReason.RESULT_LIMIT,
    DropReason.TOO_MANY_OUTPUTS,
    f"this result was longer than a record of the journal, which takes {MAX_RECORD_BYTES} bytes",
)


def fit_into(result: ExecuteCodeResult, room: int, cause: Cause = DISK_FULL) -> ExecuteCodeResult:
    """The same end with less output, at most `room` bytes of JSON; a notice says so."""
    for chars, entries in _STEPS:
        small = _shortened(result, chars, entries, cause)
        if len(small.to_json().encode()) <= room:
            return small
    raise ValueError(f"a result without any output still has more than {room} bytes; its names are too long")


def _shortened(result: ExecuteCodeResult, chars: int, entries: int, cause: Cause) -> ExecuteCodeResult:
    cut = result.truncation or Truncation()
    stdout, stdout_cut = _text(result.stdout, cut.stdout, chars, f"{result.execution}/stdout")
    stderr, stderr_cut = _text(result.stderr, cut.stderr, chars, f"{result.execution}/stderr")
    value, value_cut = _text(result.result, cut.result, chars, f"{result.execution}/result")
    error, error_cuts = _error(result, cut, chars)
    truncation = Truncation(
        stdout=stdout_cut, stderr=stderr_cut, result=value_cut, value=error_cuts[0], traceback=error_cuts[1]
    )
    artifacts = result.artifacts if result.artifacts is None else result.artifacts[:entries]
    notices = [
        Notice(reason=notice.reason, text=notice.text[:_NOTICE_CHARS])
        for notice in (result.notices or ())[:entries]
    ]
    notices.append(
        Notice(reason=cause.reason, text=f"{cause.text}, so it was shortened further{_told(result, entries)}")
    )
    info = result.outcome_info
    if info is not None:
        kept = {key: text[:_METADATA_CHARS] for key, text in list(info.metadata.items())[: max(entries, 10)]}
        info = ErrorInfo(reason=info.reason, domain=info.domain, metadata=kept)
    return result.model_copy(
        update={
            "stdout": stdout,
            "stderr": stderr,
            "result": value,
            "execution_error": error,
            "output_truncated": truncation.cuts_output,
            "truncation": truncation
            if any(part is not None for part in truncation.__dict__.values())
            else None,
            "rich_outputs": _rich(result.rich_outputs, entries, cause.drop),
            "artifacts": artifacts,
            "notices": tuple(notices),
            "outcome_info": info,
        }
    )


def _told(result: ExecuteCodeResult, entries: int) -> str:
    left_out = [
        f"{len(found or ()) - entries} {what}"
        for found, what in (
            (result.rich_outputs, "rich outputs (the events have them)"),
            (result.artifacts, "files"),
            (result.notices, "notices (the events have them)"),
        )
        if len(found or ()) > entries
    ]
    return f"; left out besides: {', '.join(left_out)}" if left_out else ""


def _text(text: str, cut: TextCut | None, chars: int, pointer: str) -> tuple[str, TextCut | None]:
    """Shorten a text that may have been shortened before: the figures stay those of the whole."""
    if len(text) <= chars:
        return text, cut
    newlines = text.count("\n")
    if cut is None:
        total = TextCut(
            total_bytes=len(text.encode()),
            total_chars=len(text),
            total_lines=newlines + (0 if text.endswith("\n") else 1),
            kept_head_chars=len(text),
            kept_tail_chars=0,
            omitted_chars=0,
            spilled_bytes=0,
        )
        beginning = ending = text
    else:
        total = cut
        # What stands between head and tail is the line that says what is missing; it is made anew.
        beginning = text[: cut.kept_head_chars]
        ending = text[len(text) - cut.kept_tail_chars :] if cut.kept_tail_chars else ""
    shown = total.kept_head_chars + total.kept_tail_chars + total.omitted_chars
    short = join(
        beginning, ending, shown, newlines if cut is None else max(newlines, cut.total_lines), chars, pointer
    )
    return short.text, total.model_copy(
        update={
            "kept_head_chars": short.head_chars,
            "kept_tail_chars": short.tail_chars,
            "omitted_chars": short.omitted_chars,
        }
    )


def _error(
    result: ExecuteCodeResult, cut: Truncation, chars: int
) -> tuple[ExecutionError | None, tuple[TextCut | None, TextCut | None]]:
    error = result.execution_error
    if error is None:
        return None, (cut.value, cut.traceback)
    pointer = f"{result.execution}/traceback"
    value, value_cut = _text(error.value, cut.value, chars, pointer)
    whole = "\n".join(error.traceback)
    if len(whole) <= chars:
        return ExecutionError(name=error.name[:_METADATA_CHARS], value=value, traceback=error.traceback), (
            value_cut,
            cut.traceback,
        )
    short, traceback_cut = _text(whole, None if cut.traceback is None else cut.traceback, chars, pointer)
    return ExecutionError(name=error.name[:_METADATA_CHARS], value=value, traceback=(short,)), (
        value_cut,
        traceback_cut,
    )


def _rich(outputs: tuple[RichOutput, ...], entries: int, drop: DropReason) -> tuple[RichOutput, ...]:
    """The first outputs, and one entry that stands for the rest. Names of MIME types are bounded where they are made."""
    if len(outputs) <= entries:
        return outputs
    kept = outputs[: max(0, entries - 1)]
    info = ErrorInfo(reason=drop, metadata={"omittedOutputs": str(len(outputs) - len(kept))})
    first = outputs[len(kept)]
    return (*kept, RichOutput(index=first.index, mime_types=first.mime_types[:1], error_info=info))
