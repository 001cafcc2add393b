"""What limits leave on the host when their service dies: groups and a mounted disk; how they are found and removed."""

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from cellhouse.sandbox.limits.base import PREFIX, remove_group
from cellhouse.sandbox.limits.content_disk import settle_disk

GROUPS: Final = "groups.json"
ROUNDS: Final = 200
ROUND_SECONDS: Final = 0.01


def note_groups(state: Path, directories: Iterable[Path]) -> None:
    """Write down which groups there are, for whoever comes after a death of this process."""
    (state / GROUPS).write_text(json.dumps([str(directory) for directory in directories]), encoding="utf-8")


def remove_limit_leftovers(state: Path) -> None:
    """Remove groups, and take what is in /content off its disk. The processes have ended. OSError where a disk resists."""
    noted = state / GROUPS
    try:
        directories = [Path(each) for each in json.loads(noted.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):
        directories = []
    ours = [directory for directory in directories if directory.name.startswith(PREFIX)]
    for _ in range(ROUNDS):
        ours = [directory for directory in ours if not remove_group(directory)]
        if not ours:
            break
        time.sleep(ROUND_SECONDS)  # who was killed a moment ago is not quite out yet
    if not ours:
        noted.unlink(missing_ok=True)
    settle_disk(state)
