"""The service's own log: structured, and through the standard library's `logging`, so that whoever embeds us decides.

As for any library, nothing is printed unless asked for: the logger `cellhouse` has a handler that does nothing, and what
it is told goes on to the handlers of whoever configures `logging`. `to_stderr` is for a program of ours.
"""

import logging
from typing import Final, Literal

import structlog

NAME: Final = "cellhouse"

Level = Literal["debug", "info", "warning", "error"]

logging.getLogger(NAME).addHandler(logging.NullHandler())


def logger() -> structlog.stdlib.BoundLogger:
    """A logger of key-value lines under the name `cellhouse`."""
    bound: structlog.stdlib.BoundLogger = structlog.wrap_logger(
        logging.getLogger(NAME),
        wrapper_class=structlog.stdlib.BoundLogger,
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(key_order=["event"]),
        ],
    )
    return bound


def to_stderr(level: Level) -> None:
    """Have everything from this level on written to standard error, with its time: for a program, not a library."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    log = logging.getLogger(NAME)
    log.addHandler(handler)
    log.setLevel(level.upper())
