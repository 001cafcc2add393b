"""The service's own log: structured, and through the standard library's `logging`, so that whoever embeds us decides.

As for any library, nothing is printed unless asked for: the logger `cellhouse` has a handler that does nothing, and what
it is told goes on to the handlers of whoever configures `logging`. `to_stderr` is for a program of ours, and
`runtime.json_log` for one that runs by itself.
"""

import logging
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, Final, Literal

import structlog

NAME: Final = "cellhouse"
FIELDS: Final = "cellhouse_fields"
"""The attribute of a `logging.LogRecord` of ours that has the fields one by one, `event` among them."""

CODE: Final = "code"
"""The field for what somebody had executed. It is in no line of text."""

Level = Literal["debug", "info", "warning", "error"]

logging.getLogger(NAME).addHandler(logging.NullHandler())

_TEXT: Final = structlog.processors.KeyValueRenderer(key_order=["event"])


def logger() -> structlog.stdlib.BoundLogger:
    """A logger of key-value lines under the name `cellhouse`."""
    bound: structlog.stdlib.BoundLogger = structlog.wrap_logger(
        logging.getLogger(NAME),
        wrapper_class=structlog.stdlib.BoundLogger,
        processors=[structlog.stdlib.filter_by_level, _hand_on],
    )
    return bound


class _Line:
    """The text of a line, made where somebody reads it."""

    __slots__ = ("_fields", "_log", "_method")

    def __init__(self, log: Any, method: str, fields: dict[str, Any]) -> None:
        self._log, self._method, self._fields = log, method, fields

    def __str__(self) -> str:
        said = {name: value for name, value in self._fields.items() if name != CODE}
        with_error = structlog.processors.format_exc_info(self._log, self._method, said)
        return str(_TEXT(self._log, self._method, with_error))


def _hand_on(
    log: Any, method: str, fields: MutableMapping[str, Any]
) -> tuple[tuple[_Line], Mapping[str, Mapping[str, Any]]]:
    """A line for who knows nothing of us; beside it the fields, and the exception itself, for who does."""
    if fields.get("exc_info") is True:
        fields["exc_info"] = sys.exc_info()[1]
    kept = dict(fields)
    return (_Line(log, method, kept),), {"extra": {FIELDS: kept}}


def to_stderr(level: Level) -> None:
    """Have everything from this level on written to standard error, with its time: for a program, not a library."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    log = logging.getLogger(NAME)
    log.addHandler(handler)
    log.setLevel(level.upper())
