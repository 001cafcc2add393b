"""What a session's kernel said that belongs to no execution: kept, bounded, never given to another one."""

import contextlib
import json
import os
from collections.abc import Collection, Sequence
from pathlib import Path

from cellhouse.model import Clock, SessionLogEntry, SessionLogPage, rfc3339
from cellhouse.runtime.paging import page_by_place

MAX_BYTES = 1 << 20
MAX_TEXT = 65_536


class SessionLog:
    """Lines of JSON `{time, kind, text}`, each with what was left out of it; past `MAX_BYTES` comes a last one.

    That one, of kind `limit`, counts in `omittedBytes` what is not kept.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self.omitted_bytes = 0
        self._limit_at: int | None = None
        self._clock = clock

    def write(self, kind: str, text: str, *, omitted_chars: int = 0) -> None:
        """`omitted_chars` were left out by the caller already."""
        text = text.encode("utf-8", "backslashreplace").decode()
        omitted_chars += max(0, len(text) - MAX_TEXT)
        more = {"omittedChars": str(omitted_chars)} if omitted_chars else {}
        line = self._line(kind, text[:MAX_TEXT], **more)
        try:
            self._append(line)
        except OSError:  # a full disk: what can't be kept is counted
            if self._limit_at is None:
                self.omitted_bytes += len(line)

    def _line(self, kind: str, text: str, **more: str) -> bytes:
        entry = {"time": rfc3339(self._clock.now()), "kind": kind, "text": text, **more}
        return json.dumps(entry, ensure_ascii=False).encode() + b"\n"

    def _append(self, line: bytes) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(fd).st_size
            if self._limit_at is None and size + len(line) > MAX_BYTES:
                self._limit_at = size
            if self._limit_at is not None:
                self.omitted_bytes += len(line)
                text = f"this log takes {MAX_BYTES} bytes; what follows is not kept"
                line = self._line("limit", text, omittedBytes=str(self.omitted_bytes))
                os.pwrite(fd, line, self._limit_at)  # over the last count, which was no longer
            elif os.pwrite(fd, line, size) < len(line):
                os.ftruncate(fd, size)  # half a line is none
                self.omitted_bytes += len(line)
        finally:
            os.close(fd)


def evict_session_logs(directory: Path, older_than: float, keep: Collection[str]) -> None:
    """Remove the logs of runtimes that nobody knows any more and that wrote nothing since, as a POSIX time."""
    with contextlib.suppress(FileNotFoundError):
        for runtime in directory.iterdir():
            logs = list(runtime.iterdir())
            if runtime.name in keep or any(log.stat().st_mtime >= older_than for log in logs):
                continue
            for log in logs:
                log.unlink()
            runtime.rmdir()


def read_session_log(path: Path) -> list[dict[str, str]]:
    """The entries of a session's log; empty where it has none."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return []
    return [entry for line in raw.splitlines() if (entry := _entry(line)) is not None]


def page_of_session_log(
    name: str, entries: Sequence[dict[str, str]], page_size: int, page_token: str
) -> SessionLogPage:
    """A page of a log that was read. `name` is the log's own: a token for another one is none."""
    page, token = page_by_place(name, entries, page_size, page_token)
    return SessionLogPage(
        entries=tuple(SessionLogEntry.from_wire(entry) for entry in page), next_page_token=token
    )


def _entry(line: bytes) -> dict[str, str] | None:
    """None for a line that was torn when the machine went down."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None
