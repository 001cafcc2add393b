"""Handing artifacts over: who may not write a store puts them by in one of its own, whose contents the store's owner believes in nothing.

Beside each blob stands a note that says what it is. A ref is sealed with a key that only the two have, so that nobody can hand
over under a ref that is another's.
"""

import hmac
import os
import stat
import string
from collections.abc import AsyncGenerator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from cellhouse.artifacts.checks import KIND_FILE, Facts
from cellhouse.files import FileError, HostileDir, disk_full_named, write_atomic
from cellhouse.files.threads import in_thread
from cellhouse.model import (
    ExecutionName,
    InvalidArgument,
    StoredArtifact,
    check_artifact_id,
    mint_artifact_id,
    parse_rfc3339,
    rfc3339,
)

KEY_BYTES: Final = 32
NOTE_BYTES: Final = 32 << 10
NOTES: Final = "notes"
BLOCK: Final = 1 << 20
_SUFFIX: Final = ".json"
_BASE62: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase
_SEAL: Final = 8
_GONE: Final = (FileError, FileNotFoundError, NotADirectoryError)


def mint_sealed(key: bytes) -> str:
    """A ref like every other to who has not the key: 83 random bits, and 47 that the key makes of them."""
    drawn = mint_artifact_id()[:-_SEAL]
    return drawn + _seal(key, drawn)


def is_sealed(ref: str, key: bytes) -> bool:
    return hmac.compare_digest(ref[-_SEAL:], _seal(key, ref[:-_SEAL]))


def _seal(key: bytes, drawn: str) -> str:
    number = int.from_bytes(hmac.digest(key, drawn.encode(), "sha256")) % len(_BASE62) ** _SEAL
    digits = []
    for _ in range(_SEAL):
        number, digit = divmod(number, len(_BASE62))
        digits.append(_BASE62[digit])
    return "".join(digits)


def blob_path(ref: str) -> str:
    """Where the bytes of an artifact are, in the directory of its store."""
    return f"blobs/{ref[4:6]}/{ref}"


def note_path(ref: str) -> str:
    return f"{NOTES}/{ref}{_SUFFIX}"


def write_note(directory: Path, artifact: StoredArtifact, *, durable: bool) -> None:
    """It is there before anybody is told the ref."""
    path = directory / note_path(artifact.ref)
    with disk_full_named("the artifact store"):
        path.parent.mkdir(mode=0o700, exist_ok=True)
    write_atomic(path, artifact.to_json().encode(), durable)


class Unfit(Exception):
    """What was handed over is not taken. `reason` is told as that of an eviction, `what` as far as anything is known of it."""

    def __init__(self, reason: str, why: str, what: StoredArtifact | None = None) -> None:
        super().__init__(why)
        self.reason, self.what = reason, what


class HandedOver:
    """What stands in such a directory. Blocks, so it is called in threads. A context manager.

    Whoever writes there may change everything at any moment: names are looked up without following a link, nothing but
    regular files of one name, which are nobody's of ours, is read.
    """

    def __init__(self, directory: HostileDir) -> None:
        """Takes it over."""
        self._held = directory

    @classmethod
    def open(cls, parent: Path, name: str) -> "HandedOver | None":
        """None where there is no such directory, or something else has its name."""
        try:
            with HostileDir.open(parent) as held:
                return cls(held.subdir(name))
        except _GONE:
            return None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close()

    def refs(self, most: int) -> list[str]:
        """Those that a note tells of, the oldest first; of at most so many names."""
        try:
            with self._held.subdir(NOTES) as notes:
                found = notes.scan(most, depth=1).entries
        except _GONE:
            return []
        files = [entry for entry in found if not stat.S_ISDIR(entry.stat.st_mode)]
        names = [entry.name for entry in sorted(files, key=lambda each: each.stat.st_mtime_ns)]
        refs = [name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX)]
        return [ref for ref in refs if _is_ref(ref)]

    def told(self, ref: str, runtime: str) -> StoredArtifact | None:
        """What its note says, with everything checked that does not need its bytes. None where there is none; Unfit."""
        try:
            raw = self._held.read(note_path(ref), NOTE_BYTES)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except FileError as error:
            raise Unfit("INVALID", f"its note: {error}") from error
        try:
            told = StoredArtifact.from_json(raw)
            created = parse_rfc3339(told.create_time)
            facts = Facts(
                KIND_FILE, told.media_type, told.label, told.origin or "", sha256=told.sha256.lower()
            )
            origin = ExecutionName.parse(facts.origin)
        except (ValueError, OverflowError, RecursionError, InvalidArgument) as error:
            raise Unfit("INVALID", f"its note: {error}") from error
        if told.ref != ref or origin.runtime != runtime or told.bytes < 0 or not facts.sha256:
            raise Unfit("INVALID", "its note is that of something else")
        return StoredArtifact(
            ref=ref,
            kind=facts.kind,
            media_type=facts.media_type,
            bytes=told.bytes,
            sha256=facts.sha256,
            label=facts.label,
            origin=facts.origin,
            create_time=rfc3339(created),
        )

    async def pieces(self, told: StoredArtifact) -> AsyncGenerator[bytes, None]:
        """As many bytes as the note says. Unfit where there are others."""
        fd = await in_thread(self._open, told)
        try:
            at = 0
            while block := await in_thread(os.pread, fd, min(BLOCK, told.bytes + 1 - at), at):
                at += len(block)
                if at > told.bytes:
                    break
                yield block
        finally:
            await in_thread(os.close, fd)
        if at != told.bytes:
            raise Unfit("DAMAGED", f"its file has not the {told.bytes} bytes that its note says", told)

    def _open(self, told: StoredArtifact) -> int:
        try:
            fd = self._held.open_read(blob_path(told.ref))
        except _GONE as error:
            raise Unfit("DAMAGED", f"its file: {error}", told) from error
        seen = os.fstat(fd)
        if seen.st_uid == os.geteuid() or seen.st_nlink != 1:
            os.close(fd)
            raise Unfit("DAMAGED", "its file is another's, or has several names", told)
        return fd

    def remove(self, ref: str) -> None:
        """The note last, so that what is not gone is found again."""
        for path in (blob_path(ref), note_path(ref)):
            above, _, name = path.rpartition("/")
            try:
                with self._held.subdir(above) as held:
                    if not stat.S_ISDIR(held.stat(name).st_mode):
                        os.unlink(name, dir_fd=held.fileno())
            except _GONE:
                continue


def _is_ref(text: str) -> bool:
    try:
        check_artifact_id(text)
    except InvalidArgument:
        return False
    return True
