"""Where state lives on disk: the root, and the directories that embedded houses make of their own."""

import contextlib
import fcntl
import os
import secrets
from pathlib import Path

from cellhouse.model import Clock
from cellhouse.runtime.store import remove_tree

KEEP_SECONDS = 7 * 86_400.0
_EMBEDDED = "embedded"


def state_root() -> Path:
    """`CELLHOUSE_STATE_DIR`, else `cellhouse` in the XDG state directory, else in ~/.local/state."""
    if named := os.environ.get("CELLHOUSE_STATE_DIR"):
        return Path(named).absolute()
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "cellhouse"


def own_state_dir(clock: Clock, root: Path | None = None) -> Path:
    """A new directory for one embedded house below `root` (`state_root()`); those of houses that ended long ago are removed."""
    parent = (root or state_root()) / _EMBEDDED
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _prune(parent, clock.now().timestamp() - KEEP_SECONDS)
    stamp = clock.now().strftime("%Y%m%dt%H%M%S")
    made = parent / f"{stamp}-{secrets.token_hex(4)}"
    made.mkdir(mode=0o700)
    return made


def _prune(parent: Path, older_than: float) -> None:
    for entry in os.scandir(parent):
        if entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_mtime < older_than:
            path = Path(entry.path)
            if not _owned(path):
                with contextlib.suppress(OSError):  # what resists is tried again by the next house
                    remove_tree(path)


def _owned(state_dir: Path) -> bool:
    """Whether a living house holds it, by the journal's lock."""
    try:
        fd = os.open(state_dir / "journal" / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    else:
        return False
    finally:
        os.close(fd)
