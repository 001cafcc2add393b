"""The command line by which a program comes into its groups, its view of the host and its uid."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cellhouse.model import CallReason, FailedPrecondition
from cellhouse.sandbox.privileged.seam import Seen
from cellhouse.sandbox.privileged.uids import RUN, Identity, UidsUnavailable, private_place

STARTER: Final = Path(__file__).with_name("starter.py")
STARTER_SAYS: Final = "cellhouse starter:"
"""Begins whatever it has to say."""
VIEW: Final = "view"
# Goes into every group by itself, before there is anything of it that could stay outside.
ENTER: Final = 'while [ "$1" != -- ]; do echo 0 > "$1" || exit 125; shift; done; shift; exec "$@"'


def place_of(number: int) -> Path:
    """Where the thing with this number stands in a view."""
    return RUN / VIEW / str(number)


def command_of(
    argv: Sequence[str],
    *,
    interpreter: str,
    identity: Identity | None = None,
    view: Sequence[Seen] = (),
    enter: Sequence[Path] = (),
    placing: Sequence[tuple[int, int]] = (),
) -> list[str]:
    """See `Start`. To be run by this process itself. FailedPrecondition where a view has no place to be put up."""
    if identity is not None:
        try:
            place = private_place(RUN / VIEW)
        except UidsUnavailable as error:
            raise FailedPrecondition(
                f"the place for a view of the host can't be had: {error}",
                reason=CallReason.ISOLATION_UNAVAILABLE,
            ) from error
        plan = {
            "parent": os.getpid(),
            "uid": identity.uid,
            "gid": identity.gid,
            "enter": [str(path) for path in enter],
            "place": str(place),
            "placing": placing,
            "view": [[str(seen.host), seen.place.name, seen.writable] for seen in view],
        }
        return [interpreter, "-I", "-S", "-B", str(STARTER), json.dumps(plan), *argv]
    if enter:
        return ["/bin/sh", "-c", ENTER, "sh", *map(str, enter), "--", *argv]
    return list(argv)


def starter_remedy(said: str) -> str:
    """What to do about a starter that failed with these words."""
    if "view:" in said or "uid:" in said:
        return (
            "As root, the service makes mounts and changes its uid before it starts anything; give its container "
            "CAP_SYS_ADMIN, CAP_SETUID, CAP_SETGID and CAP_SETPCAP, or start the service as a plain user"
        )
    return "Look at what it names, or start the service as a plain user"


class View:
    """What a program sees of the host besides what everybody can see: each path at a place of its own.

    Without an identity there is none: whatever this service reaches, the program reaches under the same name.
    """

    def __init__(self, *, needed: bool) -> None:
        self.seen: list[Seen] = []
        self._needed = needed

    def place(self, host: Path, *, writable: bool = False) -> Path:
        """Where the path is to be found by the program."""
        if not self._needed:
            return host
        for seen in self.seen:
            if (seen.host, seen.writable) == (host, writable):
                return seen.place
        self.seen.append(Seen(host, place_of(len(self.seen)), writable))
        return self.seen[-1].place
