"""ExecuteCodeResult and what it is made of (contract, section 3)."""

from typing import Annotated, Self

from pydantic import ConfigDict, Field, model_validator

from cellhouse.model.enums import ExecutionState, Outcome, SessionState
from cellhouse.model.error_info import ErrorInfo, Reason
from cellhouse.model.wire import Int32, Int64, Text, Wire, proto3

Seconds = Annotated[float, Field(ge=0)]


class ExecutionError(Wire):
    """Why an execution is not OK. Raised: the exception itself; not raised: a name and value that say so."""

    name: Annotated[Text, proto3] = ""
    value: Annotated[Text, proto3] = ""
    # One formatted frame an entry, no ANSI codes; empty where nothing was raised.
    traceback: Annotated[tuple[Text, ...], proto3] = ()


def is_successful_exit(name: str, value: str) -> bool:
    """Whether an error is the code's `sys.exit()` without an error: with nothing, None, 0 or False."""
    return name == "SystemExit" and value in ("", "0", "None", "False")


class RichOutput(Wire):
    """One displayed bundle: what it is, how big, and where it lies or why it doesn't."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["filePath"]}, {"required": ["errorInfo"]}]},
    )

    index: Annotated[Int32, proto3] = 0
    # The kernel's order, without text/plain; not empty even when the output was dropped.
    mime_types: Annotated[tuple[Text, ...], Field(min_length=1)]
    # Bytes of the bundle on disk; 0, and so absent, when dropped.
    size_bytes: Annotated[Int64, proto3] = 0
    file_path: Text | None = None
    error_info: ErrorInfo | None = None
    # How often the bundle was rewritten since the result was recorded.
    revision: Int32 | None = None
    # True where the file is no longer what was written.
    modified: bool | None = None

    @model_validator(mode="after")
    def _one_of_path_and_error(self) -> Self:
        if (self.file_path is None) == (self.error_info is None):
            raise ValueError(
                "exactly one of filePath and errorInfo must be set: an output was written or dropped"
            )
        if self.error_info is not None and self.size_bytes:
            raise ValueError(
                "sizeBytes must be absent where errorInfo is set: a dropped output has no bundle"
            )
        return self

    @property
    def dropped(self) -> bool:
        return self.error_info is not None


class TextCut(Wire):
    """The figures of a text that was shortened. Totals and spill are of the raw text as it was sent."""

    total_bytes: Int64
    total_chars: Int64
    total_lines: Int64
    kept_head_chars: Int64
    kept_tail_chars: Int64
    omitted_chars: Int64
    spilled_bytes: Int64


class Truncation(Wire):
    """What was shortened; an entry is there if and only if that text was."""

    stdout: TextCut | None = None
    stderr: TextCut | None = None
    result: TextCut | None = None
    # executionError's own two texts; they don't count for outputTruncated.
    value: TextCut | None = None
    traceback: TextCut | None = None

    @property
    def cuts_output(self) -> bool:
        """Whether it is one of stdout, stderr and result that was shortened."""
        return not (self.stdout is None and self.stderr is None and self.result is None)


class Cleared(Wire):
    """How much text the code itself cleared."""

    stdout_chars: Int64 = 0
    stderr_chars: Int64 = 0


class Usage(Wire):
    """What the execution used; each is absent where it was not measured."""

    wall_seconds: Seconds | None = None
    cpu_seconds: Seconds | None = None
    peak_memory_bytes: Int64 | None = None


class Late(Wire):
    """How much output background work produced after `finished`."""

    stdout_bytes: Int64 = 0
    stderr_bytes: Int64 = 0
    displays: Int32 = 0


class Notice(Wire):
    """Something that a caller must know besides. The reason is one of NoticeReason, or a newer one."""

    reason: Reason
    text: Text


class Artifact(Wire):
    """A file that the code made or changed; with what is the matter with it, where something is."""

    # Relative to /content. Bytes that are no UTF-8 are escaped.
    name: Text
    # As they were read; where they were not, the size that was seen. Absent where it is no regular file.
    bytes: Int64 | None = None
    # Of the content where it tells, else of the name.
    media_type: Text | None = None
    sha256: Text | None = None
    mtime: Text | None = None
    uri: Text | None = None
    # Stamped by whoever put it into an artifact store.
    ref: Text | None = None
    # "background": changed between executions; "shared": while several ran, one of which did it. Absent: by this one.
    attribution: Text | None = None
    # True where somebody had it open for writing when it was read: more may be to come.
    open: bool | None = None
    # The name that the same file had before, where it only got another.
    renamed_from: Text | None = None
    error_info: ErrorInfo | None = None


class ArtifactsOmitted(Wire):
    """Files that were made or changed and are not listed, and why."""

    files: Int64
    bytes: Int64
    error_info: ErrorInfo


class ExecuteCodeResult(Wire):
    """One execution, told whole: its end, its output, what was cut and where the rest is."""

    execution_id: Annotated[Text, proto3] = ""
    session: Annotated[Text, proto3] = ""
    execution_count: Annotated[Int32, proto3] = 0
    stdout: Annotated[Text, proto3] = ""
    stderr: Annotated[Text, proto3] = ""
    result: Annotated[Text, proto3] = ""
    execution_error: ExecutionError | None = None
    output_truncated: Annotated[bool, proto3] = False
    # Deprecated. Despite its name: whether there was any rich output.
    rich_outputs_dropped: Annotated[bool, proto3] = False
    rich_outputs: Annotated[tuple[RichOutput, ...], proto3] = ()

    # From here on explicit presence: None is not known or not reported, an empty list was observed.
    execution: Text
    state: ExecutionState
    outcome: Outcome | None = None
    outcome_info: ErrorInfo | None = None
    session_state: SessionState | None = None
    truncation: Truncation | None = None
    cleared: Cleared | None = None
    artifacts: tuple[Artifact, ...] | None = None
    artifacts_omitted: ArtifactsOmitted | None = None
    usage: Usage | None = None
    late: Late | None = None
    notices: tuple[Notice, ...] | None = None
    start_time: Text | None = None
    end_time: Text | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        finished = self.state is ExecutionState.FINISHED
        if finished is (self.outcome is None):
            raise ValueError("outcome must be set if and only if state is FINISHED")
        if (self.execution_error is not None) is not (finished and self.outcome is not Outcome.OK):
            raise ValueError("executionError must be set if and only if there is an outcome and it is not OK")
        if self.output_truncated is not (self.truncation is not None and self.truncation.cuts_output):
            raise ValueError(
                "outputTruncated must be true if and only if truncation has stdout, stderr or result"
            )
        if self.rich_outputs_dropped is not bool(self.rich_outputs):
            raise ValueError("richOutputsDropped must be true if and only if there is a rich output")
        return self

    @property
    def ok(self) -> bool:
        """Whether it ran to its end without raising."""
        return self.outcome is Outcome.OK
