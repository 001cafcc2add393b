"""The privileged calls, made by a process that could not do any of it: a broker is asked."""

import os
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cellhouse.model import LimitName, WallLimits
from cellhouse.sandbox.limits.base import Group, kills_in
from cellhouse.sandbox.privileged.seam import NOWHERE, Start
from cellhouse.sandbox.privileged.uids import Identity, UidRange
from cellhouse.sandbox.privileged.wire import BrokerGone, close_all, decode_error, receive, send


class Remote:
    """See `Privileged`. May be used from several threads; `close` by one, when nobody uses it any more."""

    def __init__(self, sock: socket.socket, broker: int) -> None:
        """Takes over the socket. `broker` is the number of the child that serves it."""
        self.no_identity = ""
        self._socket, self._broker = sock, broker
        self._lock = threading.Lock()

    def ask(self, call: str, descriptors: Sequence[int] = (), **arguments: Any) -> tuple[Any, list[int]]:
        """The answer, and the descriptors that came with it. Whatever error the call has; BrokerGone where nobody is there."""
        with self._lock:
            if self._socket.fileno() < 0:
                raise BrokerGone
            send(self._socket, {"call": call, **arguments}, descriptors)
            answer, given = receive(self._socket)
        if "error" in answer:
            close_all(given)
            raise decode_error(answer["error"])
        return answer["ok"], given

    def begin(self, state: Path, *, level: str, uids: UidRange | None, shown: Sequence[Path]) -> None:
        """Say which sandbox it is about, once and first of all, as root.

        `shown` are the paths of the host that a view of this sandbox may show, read-only.
        """
        self.ask(
            "begin",
            state=os.fspath(state),
            level=level,
            uids=uids and [uids.first, uids.last],
            shown=[os.fspath(path) for path in shown],
        )

    def claim(self) -> Identity | None:
        found, _ = self.ask("claim")
        self.no_identity = found["why"]
        return None if found["uid"] is None else Identity(found["uid"], found["uid"])

    @property
    def reader(self) -> int:
        return os.getuid()  # the real one: the effective one is the runtime's

    def make(self, directory: Path) -> None:
        self.ask("make", path=str(directory))

    def give_pipe(self, descriptor: int) -> None:
        self.ask("givePipe", [descriptor])

    def make_group(self, limits: WallLimits) -> Group:
        given = {
            "memory": limits.memory,
            "cpus": limits.cpus,
            "processes": limits.processes,
            "content": limits.content,
            "open_files": limits.open_files,
            "file_size": limits.file_size,
        }
        made, _ = self.ask("makeGroup", limits=given)
        return RemoteGroup(self, made["name"], frozenset(made["held"]))

    def mount_content(self, size: int) -> None:
        self.ask("mountContent", size=size)

    def start(self, start: Start) -> "RemoteStarted":
        outputs = [start.stderr, *([] if start.stdout == NOWHERE else [start.stdout])]
        made, (pidfd,) = self.ask(
            "start",
            [*outputs, *start.descriptors],
            argv=list(start.argv),
            places=list(start.places or start.descriptors),
            view=[[str(seen.host), seen.writable] for seen in start.view],
            limited=bool(start.enter),
        )
        return RemoteStarted(self, made["pid"], pidfd)

    def expose(self, pid: int) -> None:
        self.ask("expose", pid=pid)

    def signal(self, pidfd: int, number: int, *, group: bool = False, pid: int = 0) -> bool:
        done, _ = self.ask("signal", [pidfd], number=int(number), group=group)
        return bool(done)

    def settle(self) -> None:
        self.ask("settle")

    def discard(self) -> None:
        self.ask("discard")

    def give_back(self) -> None:
        self.ask("giveBack")

    # Of the keeper itself, not of its sandbox.

    def claim_own(self) -> int:
        """A uid for this process, which nobody else has. RESOURCE_EXHAUSTED where all are taken."""
        return int(self.ask("claimOwn")[0])

    def see(self, namespace: int) -> None:
        """Have a disk for /content be seen in this mount namespace too. Before the sandbox is made."""
        self.ask("see", [namespace])

    def service(self) -> int | None:
        """The process that may speak to this one."""
        found, _ = self.ask("service")
        return None if found is None else int(found)

    def say_over(self) -> None:
        """This process ends in order: when all has been cleared up, that is to be marked."""
        self.ask("over")

    def close(self) -> None:
        """Let the broker go, and wait until it has cleared up. Calling it again does nothing."""
        with self._lock:
            if self._socket.fileno() >= 0:
                self._socket.close()
                os.waitpid(self._broker, 0)


@dataclass(slots=True)
class RemoteStarted:
    """A child of the broker's, which remembers it until it has told its end."""

    remote: Remote
    pid: int
    pidfd: int
    _status: int | None = None

    def ended(self) -> int | None:
        if self._status is None:
            self._status, _ = self.remote.ask("ended", pid=self.pid)
        return self._status


@dataclass(frozen=True, slots=True)
class RemoteGroup:
    """See `Group`. Who is started within it is put there by the broker; `entrances` only say that there are some."""

    remote: Remote
    name: str
    held: frozenset[LimitName]

    @property
    def entrances(self) -> tuple[Path, ...]:
        return (Path("the broker's"),)

    @property
    def directories(self) -> tuple[Path, ...]:
        return ()

    def seat(self, name: str) -> "RemoteSeat":
        _, (count,) = self.remote.ask("seat", what="make", name=name)
        return RemoteSeat(self.remote, name, count)

    def kills(self) -> int:
        return int(self.remote.ask("group", what="kills")[0])

    def peak(self) -> int | None:
        peak, _ = self.remote.ask("group", what="peak")
        return None if peak is None else int(peak)

    def close(self) -> bool:
        return bool(self.remote.ask("group", what="close")[0])


@dataclass(slots=True)
class RemoteSeat:
    """See `Seat`. Its count is read here, by the file that came when it was made."""

    remote: Remote
    name: str
    count: int

    def enter(self, pid: int) -> None:
        self.remote.ask("seat", what="enter", name=self.name, pid=pid)

    def kills(self) -> int:
        return kills_in(self.count) if self.count >= 0 else 0

    def open_count(self) -> int:
        return os.dup(self.count)

    def leave(self) -> None:
        count, self.count = self.count, -1
        if count >= 0:
            os.close(count)
        self.remote.ask("seat", what="leave", name=self.name)
