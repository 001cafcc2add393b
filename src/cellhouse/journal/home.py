"""What all logs of a journal share, and how the file of one begins."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from cellhouse.files import RecordWriter, disk_full_named
from cellhouse.journal.cache import EventCache
from cellhouse.journal.entries import StartRecord
from cellhouse.journal.layout import Layout
from cellhouse.journal.payloads import encode_start
from cellhouse.journal.reserve import Reserve
from cellhouse.model import Clock, FinishedEvent

if TYPE_CHECKING:
    from cellhouse.journal.log import ExecutionLog

# Zeros behind each record of one that runs, so that the mark that the code was sent fits on a full disk.
_PAD = 32
_SHELF_TRIES = 3


class LogState(Enum):
    """OPEN → FINISHED, once; or OPEN → ABANDONED: the journal was closed before the end, its next owner writes it."""

    OPEN = "open"
    FINISHED = "finished"
    ABANDONED = "abandoned"


@dataclass(slots=True)
class LogHome:
    """What all logs of a journal share. It is told when a log has finished, and when one grew after that."""

    layout: Layout
    clock: Clock
    cache: EventCache
    reserve: Reserve
    durable: bool
    spill_bytes: int
    finished: Callable[["ExecutionLog", FinishedEvent], None]
    grew: Callable[["ExecutionLog"], None]
    # Until the journal is closed; then its directory may be another's.
    open: bool = True

    def create_record(self, start: StartRecord) -> RecordWriter:
        """The file of an execution with its start record. Raises DiskFull, FileExistsError."""
        path = self.layout.record(start.uid)
        first = (encode_start(start),)
        for _ in range(_SHELF_TRIES):
            with contextlib.suppress(FileNotFoundError):
                return RecordWriter.create(path, reserve=0, pad=_PAD, first=first)
            # The first on its shelf, or retention removed the empty shelf meanwhile.
            with disk_full_named(str(path)):
                path.parent.mkdir(mode=0o700, exist_ok=True)
        return RecordWriter.create(path, reserve=0, pad=_PAD, first=first)
