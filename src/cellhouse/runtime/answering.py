"""What callers see of a failure: an error of the contract, section 6, and never one of the machine's."""

import contextlib
import functools
import inspect
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

from cellhouse.files import DiskFull, takes_nothing
from cellhouse.model import CallReason, Internal, ResourceExhausted
from cellhouse.runtime.logs import logger

_logger = logger()

Method = TypeVar("Method", bound=Callable[..., Any])


class NotOpened(RuntimeError):
    """A house is used that nobody has opened: an error of the program that does so, and none of a call."""


@contextlib.contextmanager
def answered(call: str) -> Iterator[None]:
    """Turn what the machine or a mistake of ours raises in here into RESOURCE_EXHAUSTED or INTERNAL, with an id."""
    try:
        yield
    except NotOpened:
        raise
    except (OSError, RuntimeError, sqlite3.Error) as error:
        if isinstance(error, OSError) and takes_nothing(error):
            full = DiskFull(str(error.filename), error.errno or 0)
            raise ResourceExhausted(
                f"{call}: a disk of the service is {full.state}; nothing recorded is lost, {full.remedy}",
                reason=CallReason.SERVER_DISK_FULL,
                limit="disk",
                server=True,
            ) from error
        told = Internal(f"{call}: the service failed ({type(error).__name__}); the id is in its log")
        _logger.exception("a call failed in the house", call=call, error_id=told.error_id)
        raise told from error


def answering(method: Method) -> Method:
    """For a method, or a coroutine method, that callers use."""
    call = method.__name__
    if inspect.iscoroutinefunction(method):

        @functools.wraps(method)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            with answered(call):
                return await method(*args, **kwargs)

        return cast("Method", awaited)

    @functools.wraps(method)
    def called(*args: Any, **kwargs: Any) -> Any:
        with answered(call):
            return method(*args, **kwargs)

    return cast("Method", called)
