"""Every limit, with its name and its default (contract, section 3)."""

import math
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal

from cellhouse.model.errors import InvalidArgument

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB

# One message of a kernel. Native kernels drop a bigger one at the source; others lose their kernel.
MESSAGE_BYTES: Final = 128 * MIB
# The most that a caller may ask for as outputLimit: a result has to stay one document, and one record of the journal.
OUTPUT_LIMIT_MAX: Final = 4 * MIB


def _positive(limits: Any) -> None:
    for each in fields(limits):
        value = getattr(limits, each.name)
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not math.isfinite(value)
            or value <= 0
        ):
            raise InvalidArgument.of_field(
                each.name, f"{value!r} is no limit; it takes a finite number above 0"
            )


@dataclass(frozen=True, slots=True)
class CaptureLimits:
    """What is kept of the output of one execution."""

    # Characters of each of stdout, stderr and result in the result itself.
    inline_chars: int = 65_536
    error_value_chars: int = 8_192
    # All frames of a traceback together; the first and the last are kept.
    traceback_chars: int = 32_768
    # Whole text kept for paging; past it counted, not kept.
    spill_bytes: int = GIB
    # Text logged as events; past it a notice, then unnumbered tail frames.
    event_text_bytes: int = 8 * MIB
    # Text of one event: longer text is several events.
    event_chars: int = 65_536
    bundle_bytes: int = 64 * MIB
    bundles_bytes: int = GIB
    written_outputs: int = 25_000
    rich_entries: int = 50_000
    tail_bytes: int = 4_096
    tail_seconds: float = 1.0
    # Least time between two writes of one display that is updated again and again.
    update_seconds: float = 0.05
    notices: int = 100
    # Text of one notice.
    notice_chars: int = 1_024
    # MIME types named of one output, and characters of each.
    mime_types: int = 64
    mime_type_chars: int = 256
    # Display ids remembered for one kernel.
    display_ids: int = 10_000
    # Files named in `artifacts`; the rest is counted.
    artifacts: int = 1_000
    # Bytes of files that are read for one execution, for their SHA-256; and that are put into the artifact store.
    artifact_bytes: int = 256 * MIB
    minted_bytes: int = GIB
    # How long files may be read before an end is told.
    artifact_seconds: float = 30.0
    # Names in /content that are compared.
    content_entries: int = 20_000

    def __post_init__(self) -> None:
        _positive(self)


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """How long things may take in a session, and how much may wait there."""

    queue: int = 64
    code_bytes: int = 4 * MIB
    # Variables of a request, and bytes of them all.
    environment_variables: int = 256
    environment_bytes: int = 128 * KIB
    # How long a call waits when it doesn't say.
    wait_timeout: float = 600.0
    idle_seconds: float = 1_800.0
    # How long input may stay unanswered before the code gets EOFError.
    input_wait: float = 300.0
    # From an interrupt to the kill, where executionTimeout or a cancel has to end the code.
    interrupt_grace: float = 5.0
    # How long idle is awaited after a reply, and a reply after idle.
    settle_seconds: float = 5.0
    # How long the end of the process is awaited after `quit()`.
    exit_seconds: float = 5.0
    start_seconds: float = 60.0

    def __post_init__(self) -> None:
        _positive(self)


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """How long records are remembered."""

    age_seconds: float = 7 * 86_400.0
    bytes: int = 10 * GIB
    tombstone_age_seconds: float = 30 * 86_400.0
    tombstones: int = 1_000_000

    def __post_init__(self) -> None:
        _positive(self)


@dataclass(frozen=True, slots=True)
class ArtifactLimits:
    """What an artifact store keeps of one tenant's; what is more goes, oldest first, and is recorded as evicted."""

    age_seconds: float = 30 * 86_400.0
    bytes: int = 20 * GIB
    count: int = 100_000
    # Bytes of one artifact.
    artifact_bytes: int = 4 * GIB

    def __post_init__(self) -> None:
        _positive(self)


LimitName = Literal["memory", "cpus", "processes", "content", "openFiles", "fileSize"]

LEAST_MEMORY: Final = 64 * MIB
LEAST_PROCESSES: Final = 16
LEAST_CONTENT: Final = 16 * MIB
LEAST_OPEN_FILES: Final = 64
LEAST_CPUS: Final = 0.01
"""Below these not even a kernel can start."""


@dataclass(frozen=True, slots=True)
class WallLimits:
    """What one runtime may use: all its processes together, but for open files and file size, which are each one's.

    `named` are the limits that the caller asked for, which have to be held; `exact` those that must be held exactly.
    """

    # Bytes.
    memory: int = 2 * GIB
    # Seconds of CPU in one second.
    cpus: float = 2.0
    # Tasks: threads count, as they do for the kernel of the host.
    processes: int = 256
    # Bytes of /content, on the disk.
    content: int = 4 * GIB
    open_files: int = 1_024
    # Bytes of one file; None is as much as /content.
    file_size: int | None = None
    named: frozenset[LimitName] = field(default=frozenset(), compare=False)
    exact: frozenset[LimitName] = field(default=frozenset(), compare=False)

    def __post_init__(self) -> None:
        for name, value, least in (
            ("memory", self.memory, LEAST_MEMORY),
            ("cpus", self.cpus, LEAST_CPUS),
            ("processes", self.processes, LEAST_PROCESSES),
            ("content", self.content, LEAST_CONTENT),
            ("open_files", self.open_files, LEAST_OPEN_FILES),
            ("file_size", self.one_file, 1),
        ):
            whole = isinstance(value, int) or (name == "cpus" and isinstance(value, float))
            if isinstance(value, bool) or not whole or not math.isfinite(value) or value < least:
                raise InvalidArgument.of_field(name, f"{value!r} is no limit; it takes at least {least}")

    @property
    def one_file(self) -> int:
        """Bytes that one file may have."""
        return self.content if self.file_size is None else self.file_size

    def value(self, name: LimitName) -> int | float:
        """The limit with this wire name."""
        values: dict[LimitName, int | float] = {
            "memory": self.memory,
            "cpus": self.cpus,
            "processes": self.processes,
            "content": self.content,
            "openFiles": self.open_files,
            "fileSize": self.one_file,
        }
        return values[name]


@dataclass(frozen=True, slots=True)
class LimitHit:
    """That a process was ended because a limit of its runtime was exceeded, and by how much.

    `limit` and `peak` are bytes, or tasks for `processes`; `peak` is None where it was not measured. `walls`: what was
    ended for it is the runtime's walls, and the process with them.
    """

    name: LimitName
    limit: int
    peak: int | None = None
    detail: str = ""
    walls: bool = False
