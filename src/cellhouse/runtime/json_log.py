"""The log of a program that runs by itself: on standard error, one JSON object a line, and nothing of anybody's in it.

What a line may have is closed: what we say, names of resources, figures. Code, output and the words of exceptions (which
quote both) are withheld unless content was asked for, and the line says that they were.
"""

import errno
import json
import logging
import os
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import PurePath
from types import TracebackType
from typing import Any, Final

from cellhouse.model import CellhouseError, rfc3339
from cellhouse.runtime.logs import CODE, FIELDS, NAME, Level

CONTENT: Final = frozenset({CODE, "error"})
"""Fields that have something of a caller's in them, or may."""
VALUE_CHARS: Final = 2_000
CONTENT_CHARS: Final = 65_536
FOREIGN_CHARS: Final = 300
FRAMES: Final = 20
CAUSES: Final = 5
WAITING_LINES: Final = 10_000
"""Of a reader of the log that does not keep up; what comes besides is dropped and counted."""
GATHER_SECONDS: Final = 0.02
PIECE_CHARS: Final = 65_536
"""Lines that are written by one call, about."""
CLOSING_SECONDS: Final = 2.0
STDERR: Final = 2

_encode: Final = json.JSONEncoder(separators=(",", ":")).encode


class JsonLines(logging.Formatter):
    """A record as one line. With `content` told, what callers sent is in it, too."""

    def __init__(self, *, content: bool = False) -> None:
        super().__init__()
        self._content = content

    def format(self, record: logging.LogRecord) -> str:
        """`time` (RFC 3339, UTC), `level`, `event`, its fields; `exception`, outermost first; `withheld`, by name."""
        line: dict[str, Any] = {
            "time": rfc3339(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname.lower(),
        }
        fields: Mapping[str, Any] | None = getattr(record, FIELDS, None)
        if fields is None:
            line |= {"event": self._foreign(record), "logger": record.name}
            error = record.exc_info[1] if record.exc_info else None
        else:
            line |= {name: self._value(value) for name, value in fields.items() if self._tells(name)}
            error = fields.get("exc_info")
        if isinstance(error, BaseException):
            line["exception"] = [self._exception(each) for each in _causes(error)]
        if withheld := [name for name in fields or () if name in CONTENT and not self._content]:
            line["withheld"] = withheld
        return _encode(line)

    def _tells(self, name: str) -> bool:
        return name != "exc_info" and (self._content or name not in CONTENT)

    def _foreign(self, record: logging.LogRecord) -> str:
        """Of others who log, the first line: those behind it quote what they failed with."""
        text = record.getMessage()
        return _cut(text, CONTENT_CHARS) if self._content else _cut(text.partition("\n")[0], FOREIGN_CHARS)

    def _value(self, value: Any) -> Any:
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, str | PurePath):
            return _cut(str(value), CONTENT_CHARS if self._content else VALUE_CHARS)
        return type(value).__name__

    def _exception(self, error: BaseException) -> dict[str, Any]:
        """What it is and where it came from; what it says, only where content is told."""
        told: dict[str, Any] = {"type": type(error).__qualname__}
        if isinstance(error, CellhouseError):
            told["reason"] = error.reason
        if isinstance(error, OSError) and error.errno is not None:
            told["errno"] = errno.errorcode.get(error.errno, str(error.errno))
        if self._content:
            told["message"] = _cut(str(error), VALUE_CHARS)
        told["frames"] = list(_frames(error.__traceback__))[-FRAMES:]
        return told


class JsonStderr(logging.Handler):
    """Writes lines to standard error from a thread, so that who reads them slowly holds up nobody else.

    What is no warning waits `GATHER_SECONDS` for more: a thread that is woken for each line costs more than the line.
    """

    def __init__(self, descriptor: int = STDERR) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._condition = threading.Condition()
        self._lines: deque[str] = deque()
        self._dropped = 0
        self._asleep = self._urgent = self._closed = False
        self._thread = threading.Thread(target=self._write_all, name="log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception:
            self.handleError(record)
            return
        with self._condition:
            if len(self._lines) >= WAITING_LINES:
                self._dropped += 1
                return
            self._lines.append(line)
            urgent = record.levelno >= logging.WARNING
            self._urgent = self._urgent or urgent
            if self._asleep or urgent:
                self._asleep = False
                self._condition.notify()

    def close(self) -> None:
        """Write out what waits, for a moment; a reader that has gone away is not waited for."""
        with self._condition:
            closed, self._closed = self._closed, True
            self._condition.notify()
        if not closed:
            self._thread.join(CLOSING_SECONDS)
        super().close()

    def _write_all(self) -> None:
        while lines := self._take():
            try:
                for line in lines:
                    self._write(line)
                if self._dropped and not self._lines:
                    self._write(self.format(self._loss()) + "\n")
            except OSError:
                return  # nobody reads any more; what comes is dropped

    def _take(self) -> list[str]:
        """What has gathered, in pieces to be written at once; nothing at the end."""
        with self._condition:
            while not self._lines and not self._closed:
                self._asleep = True
                self._condition.wait()
            self._asleep = False
            self._condition.wait_for(lambda: self._urgent or self._closed, GATHER_SECONDS)
            self._urgent = False
            pieces = []
            while self._lines:
                size, piece = 0, []
                while self._lines and size < PIECE_CHARS:
                    piece.append(self._lines.popleft())
                    size += len(piece[-1])
                pieces.append("\n".join([*piece, ""]))
            return pieces

    def _loss(self) -> logging.LogRecord:
        assert self.lock is not None
        with self.lock:
            dropped, self._dropped = self._dropped, 0
        text = "lines of this log were dropped: its reader is slow"
        record = logging.LogRecord(NAME, logging.WARNING, "", 0, text, (), None)
        setattr(record, FIELDS, {"event": text, "lines": dropped})
        return record

    def _write(self, line: str) -> None:
        data = line.encode()
        while data:
            data = data[os.write(self._descriptor, data) :]


def json_to_stderr(level: Level, *, content: bool = False) -> None:
    """Have everything of ours from this level on, and warnings of others, written to standard error as lines of JSON."""
    handler = JsonStderr()
    handler.setFormatter(JsonLines(content=content))
    logging.getLogger().addHandler(handler)
    logging.getLogger(NAME).setLevel(level.upper())
    logging.captureWarnings(True)


def _cut(text: str, chars: int) -> str:
    return text if len(text) <= chars else f"{text[:chars]}… ({len(text)} characters)"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The exception, and those behind it."""
    each: BaseException | None = error
    for _ in range(CAUSES):
        if each is None:
            return
        yield each
        each = each.__cause__ or (None if each.__suppress_context__ else each.__context__)


def _frames(trace: TracebackType | None) -> Iterator[str]:
    while trace is not None:
        frame = trace.tb_frame
        yield f"{frame.f_globals.get('__name__', '?')}:{trace.tb_lineno} {frame.f_code.co_qualname}"
        trace = trace.tb_next
