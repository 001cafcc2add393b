"""The token that `serve` keeps for the account it runs as: `tokens/local` in the state directory."""

import os
import stat
from pathlib import Path
from typing import Final

from cellhouse.model import FailedPrecondition

TOKEN_BYTES: Final = 4_096
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def local_token_path() -> Path:
    """Where it lies: below CELLHOUSE_STATE_DIR, else in the XDG state directory, else in ~/.local/state."""
    if named := os.environ.get("CELLHOUSE_STATE_DIR"):
        state = Path(named).absolute()
    else:
        base = os.environ.get("XDG_STATE_HOME")
        state = (Path(base) if base else Path.home() / ".local" / "state") / "cellhouse"
    return state / "tokens" / "local"


def local_token() -> str | None:
    """Its text; None where there is none. FAILED_PRECONDITION where others could have read or written it."""
    path = local_token_path()
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    except OSError as error:
        raise _unsafe(path, error.strerror or f"{error}") from None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & _OTHERS:
            raise _unsafe(path, "it is no file that only this account can read and write")
        text = os.read(fd, TOKEN_BYTES + 1).decode("ascii", "replace").strip()
    finally:
        os.close(fd)
    return text or None


def _unsafe(path: Path, what: str) -> FailedPrecondition:
    return FailedPrecondition(
        f"{path}: {what}; remove it, or give a token in CELLHOUSE_TOKEN",
        reason="TOKENS_UNSAFE",
        metadata={"path": str(path)},
    )
