"""How much a directory that hostile code fills takes of the disk, asked of a program that no tree is too deep for."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

from cellhouse.sandbox.limits.content_disk import PATH

SECONDS: Final = 30.0
TRIES: Final = 5
SAID_CHARS: Final = 300


class Unmeasurable(Exception):
    """How much it is can't be told; the message says why."""


def can_measure() -> bool:
    return shutil.which("du", path=PATH) is not None


def disk_use(directory: Path) -> int:
    """Bytes on the disk, links not followed, other disks not entered. Unmeasurable where a part can't be looked into."""
    program = shutil.which("du", path=PATH)
    if program is None:
        raise Unmeasurable("there is no du here")
    said = ""
    for _ in range(TRIES):
        # A file that goes while it is counted is no error: what du says about it stands on standard error, and it counts
        # on. Where a directory goes under it, it may give up; that is no hiding yet.
        try:
            done = subprocess.run(
                [program, "-s", "-x", "-B1", "--", str(directory)],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                env={"PATH": PATH, "LC_ALL": "C"},
                timeout=SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Unmeasurable(f"du: {error}") from error
        if b"Permission denied" in done.stderr:
            raise Unmeasurable("a directory in /content can't be looked into; give it the mode 0700 at least")
        number = done.stdout.split(b"\t")[0]
        if number.isdigit():
            return int(number)
        said = done.stderr.decode("utf-8", "replace").strip()[-SAID_CHARS:]
    raise Unmeasurable(f"du did not say, {TRIES} times over: {said or 'nothing'}")
