"""Where the journal keeps what: the names in its directory."""

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

TextName = Literal["stdout", "stderr", "result", "traceback"]
TEXT_NAMES: tuple[TextName, ...] = get_args(TextName)
_RECORD = ".rec"
# A uid begins with twelve hex digits of milliseconds.
_SHELF_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths below one journal directory. Directories are 0700, files 0600."""

    directory: Path

    @property
    def lock(self) -> Path:
        return self.directory / "lock"

    @property
    def index(self) -> Path:
        return self.directory / "index.sqlite"

    @property
    def tombstones(self) -> Path:
        return self.directory / "tombstones.rec"

    @property
    def executions(self) -> Path:
        return self.directory / "executions"

    @property
    def reserve(self) -> Path:
        return self.directory / "reserve"

    def shelf(self, uid: str) -> Path:
        """The directory of a record: one for every four and a half hours, by the time that a uid begins with."""
        return Path(f"{self.directory}/executions/{uid[:_SHELF_DIGITS]}")

    def record(self, uid: str) -> Path:
        return Path(f"{self.directory}/executions/{uid[:_SHELF_DIGITS]}/{uid}{_RECORD}")

    def text(self, uid: str, name: TextName) -> Path:
        return Path(f"{self.directory}/executions/{uid[:_SHELF_DIGITS]}/{uid}.{name}")

    def create(self) -> None:
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.executions.mkdir(mode=0o700, exist_ok=True)

    def uids(self) -> Iterator[str]:
        """The uid of every record file, in no order."""
        with os.scandir(self.executions) as shelves:
            for shelf in shelves:
                if not shelf.is_dir(follow_symlinks=False):
                    continue
                with os.scandir(shelf.path) as files:
                    for file in files:
                        uid, dot, suffix = file.name.partition(".")
                        if (
                            dot + suffix == _RECORD
                            and uid[:_SHELF_DIGITS] == shelf.name
                            and file.is_file(follow_symlinks=False)
                        ):
                            yield uid

    def size(self, uid: str) -> int:
        """Bytes of a record and the texts beside it; 0 where nothing is there."""
        paths = (self.record(uid), *(self.text(uid, name) for name in TEXT_NAMES))
        return sum(path.stat().st_size for path in paths if path.exists())

    def remove(self, uid: str) -> None:
        """The texts first: what is left of a removal that broke off is still found by its record."""
        for name in TEXT_NAMES:
            self.text(uid, name).unlink(missing_ok=True)
        self.record(uid).unlink(missing_ok=True)

    def remove_empty_shelves(self, uids: Iterable[str]) -> None:
        """Of records that were removed."""
        for shelf in {self.shelf(uid) for uid in uids}:
            # Another record may stand there, or have come meanwhile.
            with contextlib.suppress(OSError):
                shelf.rmdir()
