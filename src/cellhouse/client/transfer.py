"""Files of /content there and back: by pieces, checked by their SHA-256, read on where a connection broke."""

import base64
import binascii
import hashlib
import os
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from cellhouse.client.calls import file_path
from cellhouse.client.core import Attempts, Call, Core
from cellhouse.client.errors import ClientReason, ResponseError, TransportError
from cellhouse.client.outgoing import AsyncSource, Outgoing, Progress
from cellhouse.client.steps import Flow, Reply, give, pause, read, shut, work
from cellhouse.model import CallReason, CellhouseError, FailedPrecondition, FileWritten, InvalidArgument

T = TypeVar("T")

OCTETS: Final = "application/octet-stream"
VERSIONS: Final = 8
"""Of a file that changes while it is read are begun, at most."""
_TOTAL: Final = "totalBytes"
_CONTENT_RANGE: Final = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18})")


@dataclass(frozen=True, slots=True)
class FilePart:
    """Some bytes of a file, and how many it has."""

    data: bytes
    total: int


class Sink(Protocol):
    """Where the pieces of a download go."""

    def write(self, piece: bytes) -> Flow[None]: ...

    def restart(self) -> Flow[None]:
        """Forget everything: the file has changed since. FAILED_PRECONDITION where that can't be."""
        ...


class Transfer:
    """Uploads and downloads of one client."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def put(
        self, runtime: str, path: str, source: AsyncSource, progress: Progress | None
    ) -> Flow[FileWritten]:
        """Write a file of /content whole; what stands there is replaced once everything has arrived.

        A source that can be read only once is sent once. ResponseError, DIGEST_MISMATCH, where something else arrived.
        """
        body = yield from work(lambda: Outgoing(source, progress))
        call = Call("PUT", f"/v1/{file_path(runtime, path)}")
        written = yield from self.send(call, body, FileWritten.from_wire)
        check_arrived(path, body, written.bytes, written.sha256)
        return written

    def send(self, call: Call, body: Outgoing, make: Callable[[Any], T]) -> Flow[T]:
        """Send a body by pieces, and give what the answer is made into."""
        headers = {"content-type": OCTETS, **call.headers}
        if body.total is not None:
            headers["content-length"] = str(body.total)
        why = "" if body.replayable else "its source can be read only once; give bytes, a Path or a list"
        call = replace(
            call,
            headers=headers,
            body=body,
            read_seconds=self._core.timeouts.start,
            not_repeatable=call.not_repeatable or why,
        )
        try:
            return (yield from self._core.document(call, make))
        except TransportError as error:
            if error.may_have_arrived and body.total != body.size:
                error.add_note(
                    f"It broke off after {body.size} bytes of {body.total or 'as many as there are'}. A service does that too "
                    "where a file is far above its limit (limits.file_bytes)."
                )
            raise

    def get(self, runtime: str, path: str, target: Path, progress: Progress | None) -> Flow[FileWritten]:
        """Write a file of /content to `target`, which is replaced once everything is there and its digest is right."""
        return (yield from self.to_file(file_path(runtime, path), path, target, progress))

    def to_file(self, resource: str, name: str, target: Path, progress: Progress | None) -> Flow[FileWritten]:
        """The same of any resource that tells its digest; `name` is what it is called in messages."""
        partial = yield from work(lambda: Partial(target))
        try:
            whole = Whole(name, progress)
            yield from self._download(resource, name, ToFile(partial), whole)
            yield from work(partial.put_in_place)
        finally:
            yield from work(partial.discard)
        return FileWritten(name=name, bytes=whole.size, sha256=whole.sha256)

    def part(self, runtime: str, path: str, offset: int, limit: int) -> Flow[FilePart]:
        """At most `limit` bytes from `offset` on; none where that is past the end."""
        if offset < 0 or limit < 1:
            raise InvalidArgument.of_field(
                "offset",
                f"{offset} and {limit} are no part of a file; offset takes 0 or more, limit 1 or more",
            )
        core = self._core
        call = Call(
            "GET",
            f"/v1/{file_path(runtime, path)}",
            headers={"accept": "*/*", "range": f"bytes={offset}-{offset + limit - 1}"},
            read_seconds=core.timeouts.read,
        )

        def take(reply: Reply) -> Flow[FilePart]:
            found = _CONTENT_RANGE.fullmatch(reply.headers.get("content-range", ""))
            if reply.status != 206 or found is None or int(found[1]) != offset:
                yield from shut(reply)
                raise core.malformed(call.request(), "it is not the part that was asked for")
            return FilePart((yield from core.whole(reply, limit, "limit")), int(found[3]))

        try:
            return (yield from core.ask(call, take))
        except CellhouseError as error:
            if error.reason != CallReason.RANGE_NOT_SATISFIABLE:
                raise
            total = error.metadata.get(_TOTAL, "")
            return FilePart(b"", int(total) if total.isdecimal() and len(total) < 19 else 0)

    def pieces(self, runtime: str, path: str, progress: Progress | None) -> Flow[None]:
        """Gives the pieces of a file. Its digest is judged at the end: what came before is not yet known to be right."""
        return self.pieces_of(file_path(runtime, path), path, progress)

    def pieces_of(self, resource: str, name: str, progress: Progress | None) -> Flow[None]:
        """The same of any resource that tells its digest."""
        return self._download(resource, name, ToIterator(name), Whole(name, progress))

    def _download(self, resource: str, path: str, sink: Sink, whole: "Whole") -> Flow[None]:
        core, attempts = self._core, self._core.attempts()
        while True:
            call = Call(
                "GET",
                f"/v1/{resource}",
                headers={"accept": "*/*", **whole.wanted()},
                read_seconds=core.timeouts.start,
            )
            reply = yield from core.open(call, attempts)
            try:
                if (yield from self._take(reply, sink, whole, attempts)):
                    whole.check()
                    return
                error = TransportError(
                    f"{path[:200]!a} broke off after {whole.size} bytes of {whole.total}",
                    reason=ClientReason.CONNECTION_LOST,
                    may_have_arrived=True,
                )
            except TransportError as lost:
                error = lost
            finally:
                yield from shut(reply)
            yield from pause(attempts.wait_after(error))

    def _take(self, reply: Reply, sink: Sink, whole: "Whole", attempts: Attempts) -> Flow[bool]:
        """Whether all of it is there now."""
        core = self._core
        core.check_plain(reply)
        if reply.status == 200 and "range" in reply.request.headers:
            yield from sink.restart()
            whole.forget()
            return False
        try:
            if whole.begins_anew(reply):
                whole.begin(reply)
        except ValueError as error:
            raise core.malformed(reply.request, f"{error}") from None
        while whole.size < whole.total and (piece := (yield from read(reply))):
            if whole.size + len(piece) > whole.total:
                raise core.malformed(reply.request, f"there are more bytes than the {whole.total} announced")
            yield from sink.write(piece)
            whole.add(piece)
            attempts.progress()
        return whole.size == whole.total


def check_arrived(name: str, body: Outgoing, size: int, sha256: str) -> None:
    """ResponseError, DIGEST_MISMATCH, where something else arrived than was sent."""
    if (sha256, size) != (body.sha256, body.size):
        raise ResponseError(
            f"{name[:200]!a}: {body.size} bytes with SHA-256 {body.sha256} were sent, {size} with "
            f"{sha256} are there; something in between changes what passes. Remove it, and send it again",
            reason=ClientReason.DIGEST_MISMATCH,
            metadata={"sentSha256": body.sha256, "writtenSha256": sha256},
        )


class Whole:
    """What is known of the file that is coming, and how much of it has."""

    def __init__(self, path: str, progress: Progress | None) -> None:
        self._path, self._progress = path, progress
        self.size, self.total = 0, 0
        self._etag = self._announced = ""
        self._versions = 1
        self._hash = hashlib.sha256()

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def wanted(self) -> dict[str, str]:
        """The headers that ask for what is missing, of this version; else for all, and its digest."""
        if self.size and self._etag:
            return {"range": f"bytes={self.size}-", "if-range": self._etag}
        return {"want-repr-digest": "sha-256=10"}

    def begins_anew(self, reply: Reply) -> bool:
        """False where this reply goes on where the last one broke off. ValueError where it does neither."""
        if reply.status == 200:
            return True
        found = _CONTENT_RANGE.fullmatch(reply.headers.get("content-range", ""))
        if reply.status != 206 or not self.size or found is None:
            raise ValueError("it is neither the file nor the part that was asked for")
        first, last, total = map(int, found.groups())
        etag = reply.headers.get("etag", self._etag)
        if (first, last + 1, total) != (self.size, self.total, self.total) or etag != self._etag:
            raise ValueError("it is another part than was asked for")
        return False

    def begin(self, reply: Reply) -> None:
        """From the beginning, with what the head of a reply says. ValueError."""
        length = reply.headers.get("content-length", "")
        if not (length.isdigit() and len(length) < 19):
            raise ValueError("it does not say how long the file is")
        etag = reply.headers.get("etag", "")
        self._announced = _sha256_of(reply)
        if not self._announced:
            raise ValueError("it does not tell the file's digest")
        self.size, self.total, self._hash = 0, int(length), hashlib.sha256()
        self._etag = (
            "" if etag.startswith("W/") else etag
        )  # a weak one tells nothing of bytes (RFC 9110, 13.1.5)

    def forget(self) -> None:
        """There is another version now. FAILED_PRECONDITION where that happens again and again."""
        self._versions += 1
        if self._versions > VERSIONS:
            raise self._changed(f"{self._versions} versions of it were seen", {})
        self.size, self.total, self._etag = 0, 0, ""

    def add(self, piece: bytes) -> None:
        self.size += len(piece)
        self._hash.update(piece)
        if self._progress is not None:
            self._progress(self.size, self.total)

    def check(self) -> None:
        """FAILED_PRECONDITION where what came is not what was announced."""
        if self.sha256 != self._announced:
            raise self._changed(
                "its SHA-256 is not what was announced",
                {"announcedSha256": self._announced, "sha256": self.sha256},
            )

    def _changed(self, what: str, metadata: dict[str, str]) -> FailedPrecondition:
        return FailedPrecondition(
            f"{self._path[:200]!a} changed while it was read: {what}; read it again when nobody writes it",
            reason=CallReason.FILE_CHANGES,
            metadata=metadata,
        )


def _sha256_of(reply: Reply) -> str:
    """In hex, from Repr-Digest (RFC 9530); empty where it is not said."""
    for member in reply.headers.get("repr-digest", "").split(","):
        algorithm, _, value = member.strip().partition("=")
        if algorithm.lower() == "sha-256" and value.startswith(":") and value.endswith(":"):
            try:
                digest = base64.b64decode(value[1:-1], validate=True)
            except binascii.Error:
                return ""
            return digest.hex() if len(digest) == 32 else ""
    return ""


class Partial:
    """A file that is being written beside its target, and takes its place at the end or is gone."""

    def __init__(self, target: Path) -> None:
        self._target = target
        fd, name = tempfile.mkstemp(prefix=f".{target.name[:64]}.", suffix=".part", dir=target.parent)
        self._path: Path | None = Path(name)
        self._file = os.fdopen(fd, "wb")

    def write(self, piece: bytes) -> None:
        self._file.write(piece)

    def truncate(self) -> None:
        self._file.seek(0)
        self._file.truncate()

    def put_in_place(self) -> None:
        """With the permissions that a new file would have had here."""
        assert self._path is not None
        self._file.flush()
        os.fchmod(self._file.fileno(), 0o666 & ~_umask())
        os.fsync(self._file.fileno())
        self._file.close()
        self._path.replace(self._target)
        self._path = None

    def discard(self) -> None:
        """Remove it, where it is still there."""
        self._file.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            self._path = None


def _umask() -> int:
    """Read, and not set for a moment: other threads make files too."""
    found = re.search(r"^Umask:\s*([0-7]+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(found[1], 8) if found is not None else 0o077


class ToFile:
    """A sink on the disk."""

    def __init__(self, partial: Partial) -> None:
        self._partial = partial

    def write(self, piece: bytes) -> Flow[None]:
        return work(lambda: self._partial.write(piece))

    def restart(self) -> Flow[None]:
        return work(self._partial.truncate)


class ToIterator:
    """A sink that hands everything on at once, and so can take nothing back."""

    def __init__(self, path: str) -> None:
        self._path = path

    def write(self, piece: bytes) -> Flow[None]:
        return give(piece)

    def restart(self) -> Flow[None]:
        raise FailedPrecondition(
            f"{self._path[:200]!a} changed while it was read, and a part of what it was has been handed on; read it again",
            reason=CallReason.FILE_CHANGES,
        )
