"""CodeResult: the runner's view of one execution (contract, section 5). Counts are JSON numbers here."""

from typing import Annotated, Literal

from pydantic import Field

from cellhouse.model.enums import Outcome, SessionState
from cellhouse.model.error_info import ErrorInfo
from cellhouse.model.result import ExecutionError, Notice
from cellhouse.model.wire import Base64, Text, Wire

Count = Annotated[int, Field(ge=0)]


class CodeArtifact(Wire):
    """A file that the code left in the declared output location."""

    name: Text
    # The payload's real length.
    bytes: Count
    uri: Text | None = None
    # The runner's own statement, when it knows.
    media_type: Text | None = None
    # Only where the bytes can be handed over; base64 in JSON.
    data: Base64 | None = None
    # Stamped by whoever put it into an artifact store.
    ref: Text | None = None


class CodeDisplay(Wire):
    """Something that the code displayed besides text: an image, a table, a figure. Described, never inlined."""

    index: Count
    # The kernel's order, without text/plain.
    mime_types: tuple[Text, ...]
    # Of the bundle; absent when it was dropped.
    bytes: Count | None = None
    # Where the code itself finds the bundle, as nbformat JSON.
    path: Text | None = None
    # Stamped by whoever put it into an artifact store.
    ref: Text | None = None
    # Why it was dropped.
    error_info: ErrorInfo | None = None


class CodeTruncated(Wire):
    """What was cut of the streams, and how long they were before, in characters."""

    stdout: Literal[True] | None = None
    stderr: Literal[True] | None = None
    # Of the stream that was cut; the longer where both were.
    of_chars: Count | None = None
    stdout_chars: Count | None = None
    stderr_chars: Count | None = None
    # Of the value of the last expression, which is printed into stdout too.
    result: Literal[True] | None = None
    result_chars: Count | None = None


class CodeResult(Wire):
    """How code ran. A timeout, an interrupt or a death is a result too: not ok, with all output up to then."""

    ok: bool
    # A process's exit status, where there was a process.
    exit_code: int | None = None
    # As on a console: what was printed, and the text of the last expression's value where the runner reports values.
    stdout: Text = ""
    # As on a console: with the traceback, or with what ended the code where nothing was raised.
    stderr: Text = ""
    # Empty: no files. None: this runner does not report files.
    artifacts: tuple[CodeArtifact, ...] | None = None
    # Set if and only if something was cut.
    truncated: CodeTruncated | None = None
    outcome: Outcome | None = None
    outcome_info: ErrorInfo | None = None
    # The text of the last expression's value; empty: it had none. None: this runner does not report values.
    result: Text | None = None
    # What was raised, or what ended the code; its traceback is in stderr.
    error: ExecutionError | None = None
    # Empty: nothing was displayed. None: this runner does not report displays.
    displays: tuple[CodeDisplay, ...] | None = None
    # What became of the variables; None where the runner keeps none.
    session_state: SessionState | None = None
    # What a caller must know besides.
    notices: tuple[Notice, ...] | None = None
    # The resource name of the execution in a house, where there is one: the whole output can be read there.
    execution: Text | None = None
