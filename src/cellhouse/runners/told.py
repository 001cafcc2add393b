"""What a house tells of an execution, as a runner tells it."""

from collections.abc import Mapping
from typing import Final

from cellhouse.model import (
    CodeArtifact,
    CodeDisplay,
    CodeResult,
    CodeTruncated,
    EndReason,
    ExecuteCodeResult,
    ExecutionError,
    Notice,
    NoticeReason,
    Outcome,
    TextCut,
)

_FILES_TOLD: Final = 20
"""Files named in the notice of those that can't be handed over."""


def code_result(
    told: ExecuteCodeResult, *, data: Mapping[str, bytes] | None = None, notices: tuple[Notice, ...] = ()
) -> CodeResult:
    """The runner's view of a finished execution. `data` are bytes of artifacts by name, where they are handed over."""
    cuts = told.truncation
    stdout = _Stream(told.stdout, cuts.stdout if cuts else None)
    stdout.line(told.result, cuts.result if cuts else None)
    stderr = _Stream(told.stderr, cuts.stderr if cuts else None)
    error = told.execution_error
    if error is not None and not (quiet := _is_successful_exit(told)):
        stderr.line("\n".join(error.traceback), cuts.traceback if cuts else None)
        if not error.traceback:
            stderr.line(f"{error.name}: {error.value}", cuts.value if cuts else None)
        if (why := _why(told)) is not None:
            stderr.line(why, None)
    artifacts, unread = _artifacts(told, data or {})
    all_notices = (*(told.notices or ()), *notices, *unread)
    return CodeResult(
        ok=told.outcome is Outcome.OK or (error is not None and quiet),
        exit_code=_exit_status(told),
        stdout=stdout.text,
        stderr=stderr.text,
        artifacts=artifacts,
        truncated=_truncated(stdout, stderr, cuts.result if cuts else None),
        outcome=told.outcome,
        outcome_info=told.outcome_info,
        result=told.result,
        error=None if error is None else ExecutionError(name=error.name, value=error.value),
        displays=_displays(told),
        session_state=told.session_state,
        notices=all_notices or None,
        execution=told.execution,
    )


class _Stream:
    """Text as it is shown, and how long it was before it was cut."""

    def __init__(self, text: str, cut: TextCut | None) -> None:
        self.text = text
        self.chars = len(text) if cut is None else cut.total_chars
        self.is_cut = cut is not None

    def line(self, text: str, cut: TextCut | None) -> None:
        """What a console would print behind it, on lines of its own."""
        if not text:
            return
        before = "" if not self.text or self.text.endswith("\n") else "\n"
        after = "" if text.endswith("\n") else "\n"
        self.text += f"{before}{text}{after}"
        self.chars += len(before) + (len(text) if cut is None else cut.total_chars) + len(after)
        self.is_cut = self.is_cut or cut is not None


def _truncated(stdout: _Stream, stderr: _Stream, result: TextCut | None) -> CodeTruncated | None:
    if not stdout.is_cut and not stderr.is_cut:
        return None
    return CodeTruncated(
        stdout=True if stdout.is_cut else None,
        stderr=True if stderr.is_cut else None,
        of_chars=max(stream.chars for stream in (stdout, stderr) if stream.is_cut),
        stdout_chars=stdout.chars if stdout.is_cut else None,
        stderr_chars=stderr.chars if stderr.is_cut else None,
        result=True if result is not None else None,
        result_chars=result.total_chars if result is not None else None,
    )


def _is_successful_exit(told: ExecuteCodeResult) -> bool:
    """An exit that is no error: `sys.exit()` with nothing, None, 0 or False; a process that ended with status 0."""
    error = told.execution_error
    if error is None:
        return False
    if told.outcome is Outcome.ERROR:
        return error.name == "SystemExit" and error.value in ("", "0", "None", "False")
    return told.outcome is Outcome.EXITED and _exit_status(told) == 0


def _exit_status(told: ExecuteCodeResult) -> int | None:
    """Of the kernel's process, where that ended by exit; in any other case no process did."""
    if told.outcome is not Outcome.EXITED or told.outcome_info is None:
        return None
    status = told.outcome_info.metadata.get("exitStatus", "")
    return int(status) if status.removeprefix("-").isdigit() else None


def _why(told: ExecuteCodeResult) -> str | None:
    """The cause, where the exception that the code ended with does not name it."""
    info = told.outcome_info
    if told.outcome is Outcome.TIMED_OUT and info is not None and info.reason == EndReason.EXECUTION_TIMEOUT:
        limit, by = info.metadata.get("limitSeconds"), info.metadata.get("endedBy")
        how = {"interrupt": "interrupted", "kill": "killed"}.get(by or "", "ended")
        return f"TimedOut: the code ran longer than {limit} s and was {how}"
    if told.outcome is Outcome.INTERRUPTED:
        return "Interrupted: the code was interrupted because somebody asked for it"
    return None


def _artifacts(
    told: ExecuteCodeResult, data: Mapping[str, bytes]
) -> tuple[tuple[CodeArtifact, ...] | None, tuple[Notice, ...]]:
    """None where the house did not report files; what has no length is told of in a notice."""
    if told.artifacts is None:
        return None, ()
    found: list[CodeArtifact] = []
    unread: list[str] = []
    for artifact in told.artifacts:
        if artifact.bytes is None:
            why = artifact.error_info.reason if artifact.error_info is not None else "its length is not known"
            unread.append(f"{artifact.name} ({why})")
            continue
        if artifact.error_info is not None:
            unread.append(f"{artifact.name} ({artifact.error_info.reason})")
        found.append(
            CodeArtifact(
                name=artifact.name,
                bytes=artifact.bytes,
                uri=artifact.uri,
                media_type=artifact.media_type,
                data=data.get(artifact.name),
                ref=artifact.ref,
            )
        )
    notices = []
    if unread:
        notices.append(f"files that can't be handed over: {_names(unread)}")
    if others := [f"{each.name} ({each.attribution})" for each in told.artifacts if each.attribution]:
        notices.append(f"files that perhaps other work of this session made or changed: {_names(others)}")
    if (omitted := told.artifacts_omitted) is not None:
        notices.append(
            f"{omitted.files} more files of {omitted.bytes} bytes were made or changed and are not listed: "
            f"{omitted.error_info.reason}"
        )
    return tuple(found), tuple(Notice(reason=NoticeReason.FILES_NOT_LISTED, text=text) for text in notices)


def _names(names: list[str]) -> str:
    more = f" and {len(names) - _FILES_TOLD} more" if len(names) > _FILES_TOLD else ""
    return f"{', '.join(names[:_FILES_TOLD])}{more}"


def _displays(told: ExecuteCodeResult) -> tuple[CodeDisplay, ...]:
    return tuple(
        CodeDisplay(
            index=output.index,
            mime_types=output.mime_types,
            bytes=None if output.dropped else output.size_bytes,
            path=output.file_path,
            error_info=output.error_info,
        )
        for output in told.rich_outputs
    )
