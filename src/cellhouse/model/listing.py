"""What lists and pages are made of: executions, files, texts, and what may be created in a house."""

from typing import Annotated

from pydantic import Field

from cellhouse.model.enums import ExecutionState, Outcome
from cellhouse.model.resource import Isolation, LimitReport, Runtime, Session
from cellhouse.model.wire import Int32, Int64, Text, Wire, proto3


class RuntimeList(Wire):
    """A page of runtimes, by name; without a token it is the last one."""

    runtimes: tuple[Runtime, ...] = ()
    next_page_token: Annotated[Text, proto3] = ""


class SessionList(Wire):
    """A page of a runtime's sessions, by name; without a token it is the last one."""

    sessions: tuple[Session, ...] = ()
    next_page_token: Annotated[Text, proto3] = ""


class ExecutionSummary(Wire):
    """One execution that is on record: where it stands, and how it ended."""

    execution: Text
    execution_id: Annotated[Text, proto3] = ""
    state: ExecutionState
    outcome: Outcome | None = None
    # SHA-256 of the code's UTF-8.
    code_sha256: Text
    create_time: Text
    end_time: Text | None = None


class ExecutionList(Wire):
    """A page of a session's executions, oldest first; without a token it is the last one."""

    executions: tuple[ExecutionSummary, ...] = ()
    next_page_token: Annotated[Text, proto3] = ""


class SessionLogEntry(Wire):
    """Something that a session's kernel said and that belongs to no execution, or a decision about a runtime's network."""

    time: Text
    # `stdout`, `stderr` or a type of message; `start` and `died` of a kernel; `limit` where no more is kept; a notice.
    # Of a network's log: `network`, `bridge`, `limit`.
    kind: Text
    text: Annotated[Text, proto3] = ""
    # Left out of this text; not kept since there is too much.
    omitted_chars: Int64 | None = None
    omitted_bytes: Int64 | None = None


class SessionLogPage(Wire):
    """A page of a session's own log, or of a runtime's network log, oldest first; without a token it is the last one."""

    entries: tuple[SessionLogEntry, ...] = ()
    next_page_token: Annotated[Text, proto3] = ""


class TextPart(Wire):
    """A page of one whole text. Offsets are bytes of its UTF-8; the next page begins at `nextOffset`."""

    text: Annotated[Text, proto3] = ""
    offset: Int64
    next_offset: Int64
    # What can be read now; more where the execution still runs.
    total_bytes: Int64
    eof: bool


class ExecutionCode(Wire):
    """The code of an execution, as it was handed in."""

    code: Annotated[Text, proto3] = ""


class FileEntry(Wire):
    """One name beneath /content. Bytes that are no UTF-8 are escaped; size only of regular files."""

    name: Text
    kind: Text
    bytes: Int64 | None = None
    mtime: Text | None = None


class FileList(Wire):
    """What is in a directory of /content, by name."""

    files: tuple[FileEntry, ...] = ()
    # Why this is not everything: "entries", "depth", "unreadable". Absent where it is.
    incomplete: tuple[Text, ...] | None = None


class FileWritten(Wire):
    """A file as it was put in place."""

    name: Text
    bytes: Int64
    sha256: Text


class BrokenKernel(Wire):
    """A kernel that is there and can't be used, and why."""

    name: Text
    detail: Text


class EnvironmentOffer(Wire):
    """A kernel environment, and the kernels that can be named in it."""

    name: Text
    available: bool
    # Why not.
    detail: Text | None = None
    kernels: tuple[Text, ...] = ()
    broken_kernels: tuple[BrokenKernel, ...] | None = None


class IsolationOffer(Wire):
    """A level of the walls: what is in force with it here, or why it can't be had."""

    level: Text
    # Whether it is what a runtime gets that doesn't say.
    default: bool
    available: bool
    # Why not.
    detail: Text | None = None
    isolation: Isolation | None = None
    # With their defaults, and how each is held.
    limits: tuple[LimitReport, ...] | None = None
    network_policies: tuple[Text, ...] | None = None


class LimitRange(Wire):
    """What can be asked for of one limit."""

    name: Text
    least: int | float
    default: int | float


class NetworkOffer(Wire):
    """What can be asked for of the network."""

    # Patterns that cover what a policy may name; with `*` for any name or port.
    may_allow: tuple[Text, ...]
    # Addresses that are not public, and that a policy may name all the same.
    private: tuple[Text, ...] = ()
    may_open: bool
    limit_connections: Int32
    limit_bytes: Int64


class RuntimeSpecs(Wire):
    """What may be created here, looked at and not guessed."""

    environments: tuple[EnvironmentOffer, ...]
    isolation: tuple[IsolationOffer, ...]
    limits: tuple[LimitRange, ...]
    start: tuple[Text, ...]
    network: NetworkOffer | None = None
    max_runtimes: int = Field(ge=0)
    runtimes: int = Field(ge=0)
    # Whether the caller who asked may create one.
    may_create: bool
