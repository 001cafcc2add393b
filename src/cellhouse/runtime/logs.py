"""The service's own log: structured, and through the standard library's `logging`, so that whoever embeds us decides.

Unconfigured, `logging` writes warnings and errors to stderr; stdout is never ours.
"""

import logging

import structlog

NAME = "cellhouse"


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
