"""The privileged calls, served in this process: root's where it is root, else what a plain user can do of them."""

import contextlib
import os
import secrets
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cellhouse.model import CallReason, FailedPrecondition, ResourceExhausted, WallLimits
from cellhouse.sandbox.leftovers import remove_leftovers
from cellhouse.sandbox.limits.base import PREFIX, Group, GroupMaker, GroupUnavailable
from cellhouse.sandbox.limits.cgroup_v1 import GroupV1
from cellhouse.sandbox.limits.cgroup_v2 import GroupV2
from cellhouse.sandbox.limits.content_disk import CONTENT, discard_disk, mount_disk
from cellhouse.sandbox.limits.leftovers import note_groups
from cellhouse.sandbox.pidfd import pidfd_open, send_signal
from cellhouse.sandbox.privileged.command import command_of
from cellhouse.sandbox.privileged.giving import give_tree, make_private
from cellhouse.sandbox.privileged.seam import Start
from cellhouse.sandbox.privileged.uids import (
    DEFAULT_UIDS,
    Identity,
    UidLease,
    UidRange,
    UidsFull,
    UidsNotMapped,
    UidsUnavailable,
)

EXPOSED: Final = 500
"""How much sooner (`oom_score_adj`) sessions are ended for the want of memory than this service and the walls."""
MOST_EXPOSED: Final = 1000
MAKERS: tuple[GroupMaker, ...] = (GroupV2, GroupV1)


class StartedHere:
    """A child of this process."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid = process.pid
        try:
            self.pidfd = pidfd_open(self.pid)
        except BaseException:
            process.kill()
            process.wait()
            raise

    def ended(self) -> int | None:
        return self._process.poll()


class Here:
    """See `Privileged`. `state` is the sandbox's own directory on the host; `uids` what was configured, if anything was."""

    def __init__(
        self, state: Path, *, level: str, uids: UidRange | None, makers: Sequence[GroupMaker] | None = None
    ) -> None:
        self.no_identity = ""
        self._state, self._level, self._uids = state, level, uids
        self._makers = MAKERS if makers is None else makers
        self._lease: UidLease | None = None

    def claim(self) -> Identity | None:
        if self._lease is not None:
            return self._lease.identity
        try:
            if os.geteuid() != 0:
                raise UidsNotMapped("only a service that is started by root can give each runtime a uid")
            self._lease = UidLease.take(self._uids or DEFAULT_UIDS)
        except UidsNotMapped as error:
            if self._uids is not None:
                raise self._refused(error) from error
            self.no_identity = str(error)
            return None
        except UidsFull as error:
            raise ResourceExhausted(
                f"isolation {self._level!r}: a runtime has to have a uid of its own, and {error}",
                reason=CallReason.QUOTA_EXCEEDED,
                limit="uids",
            ) from error
        except UidsUnavailable as error:
            raise self._refused(error) from error
        return self._lease.identity

    def _refused(self, error: UidsUnavailable) -> FailedPrecondition:
        return FailedPrecondition(
            f"isolation {self._level!r}: a uid for each runtime can't be had: {error}",
            reason=CallReason.ISOLATION_UNAVAILABLE,
            metadata={"isolation": self._level, "layer": "uid"},
        )

    @property
    def reader(self) -> int:
        return os.geteuid()

    def make(self, directory: Path) -> None:
        make_private(directory)
        if self._lease is not None and directory != self._state:
            give_tree(directory, self._lease.identity)

    def give_pipe(self, descriptor: int) -> None:
        if self._lease is not None and stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            os.fchown(descriptor, self._lease.identity.uid, self._lease.identity.gid)

    def make_group(self, limits: WallLimits) -> Group:
        why = []
        for make in self._makers:
            try:
                group = make(f"{PREFIX}{secrets.token_hex(8)}", limits)
            except GroupUnavailable as error:
                why.append(str(error))
            else:
                note_groups(self._state, group.directories)
                return group
        raise GroupUnavailable("; ".join(why))

    def mount_content(self, size: int) -> None:
        mount_disk(self._state, size)

    def start(self, start: Start) -> StartedHere:
        # Nothing of the service's environment, which /proc shows inside; a session of its own, since a Ctrl-C is for
        # the service to deal with.
        process = subprocess.Popen(
            command_of(
                start.argv,
                interpreter=sys.executable,
                identity=start.identity,
                view=start.view,
                enter=start.enter,
                placing=list(zip(start.descriptors, start.places, strict=True)) if start.places else (),
            ),
            stdin=subprocess.DEVNULL,
            stdout=start.stdout,
            stderr=start.stderr,
            cwd=start.cwd,
            env={},
            pass_fds=start.descriptors,
            start_new_session=True,
        )
        return StartedHere(process)

    def expose(self, pid: int) -> None:
        # The supervisor's stays as it is: lowered, it would be lower in what it starts too, which could keep that.
        with contextlib.suppress(OSError):  # it has ended, or looks like another user's
            Path(f"/proc/{pid}/oom_score_adj").write_text(
                str(min(MOST_EXPOSED, _own_score() + EXPOSED)), encoding="ascii"
            )

    def signal(self, pidfd: int, number: int, *, group: bool = False, pid: int = 0) -> bool:
        return send_signal(pidfd, number, group=group, pid=pid)

    def settle(self) -> None:
        remove_leftovers(self._state)

    def discard(self) -> None:
        discard_disk(self._state)
        with contextlib.suppress(FileNotFoundError):
            (self._state / CONTENT).rmdir()
        remove_leftovers(self._state)

    def give_back(self) -> None:
        if self._lease is not None:
            self._lease.give_back()
            self._lease = None


def _own_score() -> int:
    return int(Path("/proc/self/oom_score_adj").read_text(encoding="ascii"))
