"""What a session's kernel said that belongs to no execution: kept, bounded, never given to another one."""

import contextlib
import json
import os
from collections.abc import Collection
from pathlib import Path

from cellhouse.model import Clock, rfc3339

MAX_BYTES = 1 << 20
MAX_TEXT = 65_536


class SessionLog:
    """Lines of JSON `{time, kind, text}`; past `MAX_BYTES` a last one says so, and the rest is counted and not kept."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self.omitted_bytes = 0
        self._full = False
        self._clock = clock

    def write(self, kind: str, text: str) -> None:
        line = self._line(kind, text)
        try:
            self._append(line)
        except OSError:  # a full disk: what can't be kept is counted
            self.omitted_bytes += len(line)

    def _line(self, kind: str, text: str) -> bytes:
        text = text.encode("utf-8", "backslashreplace").decode()
        entry = {"time": rfc3339(self._clock.now()), "kind": kind, "text": text[:MAX_TEXT]}
        if len(text) > MAX_TEXT:
            entry["omittedChars"] = str(len(text) - MAX_TEXT)
        return json.dumps(entry, ensure_ascii=False).encode() + b"\n"

    def _append(self, line: bytes) -> None:
        if self._full:
            self.omitted_bytes += len(line)
            return
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(fd).st_size
            if size + len(line) > MAX_BYTES:
                self._full = True
                self.omitted_bytes += len(line)
                line = self._line(
                    "limit", f"the log of a session takes {MAX_BYTES} bytes; what follows is not kept"
                )
            if os.write(fd, line) < len(line):
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


def _entry(line: bytes) -> dict[str, str] | None:
    """None for a line that was torn when the machine went down."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None
