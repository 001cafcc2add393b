"""Using an environment: one that `cellhouse env` made is not removed while somebody does."""

import fcntl
import os
from types import TracebackType
from typing import Final, Self

from cellhouse.environments.prefix import UNFINISHED, Environment
from cellhouse.model import CallReason, NotFound

USE: Final = ".cellhouse-in-use"
"""Whoever uses a prefix holds this file of it locked, shared; whoever removes it, alone."""


class Use:
    """From `of` to `close`. Others than `cellhouse env` have no such file, and look after themselves."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @classmethod
    def of(cls, environment: Environment) -> Self:
        """Raises NotFound where it is just being removed."""
        try:
            fd = os.open(environment.prefix / USE, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            if environment.prefix.is_dir() and not (environment.prefix / UNFINISHED).exists():
                return cls(-1)
            raise _removed(environment) from None
        use = cls(fd)
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            if (environment.prefix / UNFINISHED).exists() or not os.fstat(fd).st_nlink:
                raise _removed(environment)
        except BlockingIOError:
            use.close()
            raise _removed(environment) from None
        except BaseException:
            use.close()
            raise
        return use

    def close(self) -> None:
        """May be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _removed(environment: Environment) -> NotFound:
    return NotFound(
        f"environment {environment.name!r} is being removed; name another, or make it anew",
        reason=CallReason.NO_SUCH_ENVIRONMENT,
        metadata={"environment": environment.name},
    )
