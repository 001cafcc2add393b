"""What a session's kernel said that belongs to no execution: kept, bounded, never given to another one."""

import json
import os
from pathlib import Path

from cellhouse.model import Clock, rfc3339

MAX_BYTES = 1 << 20
MAX_TEXT = 65_536


class SessionLog:
    """Lines of JSON `{time, kind, text}`; past `MAX_BYTES` the rest is counted and not kept."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self.omitted_bytes = 0
        self._clock = clock

    def write(self, kind: str, text: str) -> None:
        text = text.encode("utf-8", "backslashreplace").decode()
        entry = {"time": rfc3339(self._clock.now()), "kind": kind, "text": text[:MAX_TEXT]}
        if len(text) > MAX_TEXT:
            entry["omittedChars"] = str(len(text) - MAX_TEXT)
        line = json.dumps(entry, ensure_ascii=False).encode() + b"\n"
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                if os.fstat(fd).st_size + len(line) > MAX_BYTES:
                    self.omitted_bytes += len(line)
                else:
                    os.write(fd, line)
            finally:
                os.close(fd)
        except OSError:  # a full disk: what can't be kept is counted
            self.omitted_bytes += len(line)


def read_session_log(path: Path) -> list[dict[str, str]]:
    """The entries of a session's log; empty where it has none."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in raw.splitlines() if line]
