"""CodeResult: the runner's view of one execution (contract, section 5). Counts are JSON numbers here."""

from typing import Annotated, Literal

from pydantic import Field

from cellhouse.model.enums import Outcome
from cellhouse.model.error_info import ErrorInfo
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


class CodeTruncated(Wire):
    """What was cut of the two streams, and how long they were before, in characters."""

    stdout: Literal[True] | None = None
    stderr: Literal[True] | None = None
    # Of the stream that was cut; the longer where both were.
    of_chars: Count | None = None
    stdout_chars: Count | None = None
    stderr_chars: Count | None = None


class CodeResult(Wire):
    """How code ran. A timeout, an interrupt or a death is a result too: not ok, with all output up to then."""

    ok: bool
    # A process's exit status, where there was a process.
    exit_code: int | None = None
    stdout: Text = ""
    stderr: Text = ""
    # Empty: no files. None: this runner does not report files.
    artifacts: tuple[CodeArtifact, ...] | None = None
    # Set if and only if something was cut.
    truncated: CodeTruncated | None = None
    outcome: Outcome | None = None
    outcome_info: ErrorInfo | None = None
