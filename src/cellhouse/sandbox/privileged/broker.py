"""The privileged calls, served by a small process that stays root for one that has ceased to be.

`fork_broker` is called by root while it has one thread and has read nothing of anybody's, and `begin` on what it returns
says which sandbox it is for, while it is root still; then that is used in place of `Here`, also after this process has become
somebody else for good. The broker knows one sandbox: its directory, its uid, its groups, what it started. It believes nothing that it is asked: each request is checked for its shape, and for
being about that sandbox. When nobody is there to ask any more, it ends what it started, clears up, and ends.

While it serves, the sandbox's own directory is root's, in one where root's names stay (sticky): so nothing that is done there
by root can be led elsewhere. It is its uid's again when everything has been cleared up.
"""

import contextlib
import os
import signal
import socket
import struct
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from cellhouse.model import CallReason, ResourceExhausted, WallLimits
from cellhouse.sandbox.limits.base import Group, Seat
from cellhouse.sandbox.limits.content_disk import CONTENT, DiskUnavailable
from cellhouse.sandbox.pidfd import pid_of
from cellhouse.sandbox.privileged.command import View, place_of
from cellhouse.sandbox.privileged.here import Here
from cellhouse.sandbox.privileged.remote import Remote
from cellhouse.sandbox.privileged.seam import NOWHERE, Privileged, Seen, Start, Started
from cellhouse.sandbox.privileged.sight import show
from cellhouse.sandbox.privileged.uids import (
    DEFAULT_UIDS,
    Identity,
    UidLease,
    UidRange,
    UidsFull,
    processes_of,
)
from cellhouse.sandbox.privileged.wire import BrokerGone, Refused, close_all, encode_error, receive, send

OWN: Final = ("content", "run")
"""Of a sandbox's directory, what is given to its uid, and what its view may let it write."""
SEATS: Final = 4096
STARTED: Final = 64
ARGUMENTS: Final = 1024
PLACES: Final = range(3, 1024)
END_SECONDS: Final = 5.0
RECORD: Final = "runtime.json"
"""What may be there of a sandbox's directory before it is made: whose it is, written by its keeper and read by no root."""
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREDENTIALS: Final = struct.Struct("3i")
LIMITS: Final = ("memory", "cpus", "processes", "content", "open_files", "file_size")


def fork_broker(
    *,
    service: Callable[[], int | None] = lambda: None,
    over: Callable[[], None] = lambda: None,
    keep: int = -1,
) -> Remote:
    """To be done early: what this process changes in its memory before the fork is the broker's own afterwards.

    `service` says which process may speak to the keeper; `over` is done when that has ended in order and all is cleared up. `keep` is a descriptor that is closed with the broker's end.

    RuntimeError where this process has several threads: a fork has but one, and whatever the others held stays held.
    """
    if threading.active_count() != 1:
        raise RuntimeError("a broker is forked before there are threads")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        ours.close()
        _be_broker(theirs, service, over, keep)
    theirs.close()
    return Remote(ours, pid)


def _be_broker(
    sock: socket.socket, service: Callable[[], int | None], over: Callable[[], None], kept: int
) -> NoReturn:
    status = 1
    try:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # it ends with its peer, when it has cleared up
        os.chdir("/")
        keep = (0, 1, 2, sock.fileno(), kept)
        for name in os.listdir("/proc/self/fd"):
            if int(name) not in keep:
                with contextlib.suppress(OSError):  # the listing's own
                    os.close(int(name))
        with contextlib.suppress(BrokerGone):  # nobody has anything for it to do
            _begun(sock, service, over).serve(sock)
        status = 0
    except BaseException:
        traceback.print_exc()  # there is nobody left to tell but whoever reads standard error
    finally:
        os._exit(status)


def _begun(sock: socket.socket, service: Callable[[], int | None], over: Callable[[], None]) -> "Broker":
    """The one request that is believed: who forked this process is root, and has read nothing yet."""
    request, descriptors = receive(sock)
    close_all(descriptors)
    state, uids = Path(request["state"]), request["uids"] and UidRange(*request["uids"])
    broker = Broker(
        Here(state, level=request["level"], uids=uids),
        state=state,
        shown=[Path(each) for each in request["shown"]],
        uids=uids,
        service=service,
        over=over,
    )
    send(sock, {"ok": None})
    return broker


class Broker:
    """Serves one peer, about one sandbox."""

    def __init__(
        self,
        privileged: Privileged,
        *,
        state: Path,
        shown: Sequence[Path],
        uids: UidRange | None = None,
        service: Callable[[], int | None] = lambda: None,
        over: Callable[[], None] = lambda: None,
    ) -> None:
        self._privileged, self._state, self._uids = privileged, state, uids
        self._service, self._mark_over = service, over
        self._shown = {*shown, *(state / name for name in OWN)}
        self._identity: Identity | None = None
        self._own: UidLease | None = None
        self._namespace = -1
        self._taken = self._settled = self._over = False
        self._peer = 0
        self._group: Group | None = None
        self._seats: dict[str, Seat] = {}
        self._started: dict[int, Started] = {}
        self._disk = False

    def serve(self, sock: socket.socket) -> None:
        """Until the peer has gone; then everything of the sandbox is ended and cleared up."""
        self._peer = _peer_of(sock)
        try:
            while True:
                try:
                    request, descriptors = receive(sock)
                except Refused as error:
                    send(sock, {"error": encode_error(error)})
                    continue
                self._answer(sock, request, descriptors)
        except BrokerGone:
            self._end()

    def _answer(self, sock: socket.socket, request: dict[str, Any], descriptors: list[int]) -> None:
        try:
            try:
                value, given = self._call(request, descriptors)
            except Exception as error:
                send(sock, {"error": encode_error(error)})
                return
            try:
                send(sock, {"ok": value}, given)
            finally:
                close_all(given)
        finally:
            close_all(descriptors)

    def _call(self, request: dict[str, Any], descriptors: list[int]) -> tuple[Any, list[int]]:
        calls: dict[str, tuple[Callable[[dict[str, Any], list[int]], Any], int]] = {
            "claim": (self._claim, 0),
            "claimOwn": (self._claim_own, 0),
            "see": (self._see, 1),
            "service": (lambda *_: self._service(), 0),
            "over": (self._say_over, 0),
            "make": (self._make, 0),
            "givePipe": (self._give_pipe, 1),
            "makeGroup": (self._make_group, 0),
            "group": (self._ask_group, 0),
            "mountContent": (self._mount_content, 0),
            "ended": (self._ended, 0),
            "expose": (self._expose, 0),
            "signal": (self._signal, 1),
            "settle": (lambda *_: self._settle(self._privileged.settle), 0),
            "discard": (lambda *_: self._settle(self._privileged.discard), 0),
            "giveBack": (lambda *_: None, 0),  # who asks is it still: given back at the end
        }
        name = request.get("call")
        if name == "start":
            return self._start(request, descriptors)
        if name == "seat" and not descriptors:
            return self._ask_seat(request)
        if not isinstance(name, str) or name not in calls:
            raise Refused("a call that a broker does not know")
        call, takes = calls[name]
        if len(descriptors) != takes:
            raise Refused(f"{name} with {len(descriptors)} descriptors; it takes {takes}")
        return call(request, descriptors), []

    # Who it is, what is its own.

    def _claim(self, request: dict[str, Any], _: list[int]) -> Any:
        self._identity = self._privileged.claim()
        uid = None if self._identity is None else self._identity.uid
        return {"uid": uid, "why": self._privileged.no_identity}

    def _claim_own(self, request: dict[str, Any], _: list[int]) -> int:
        """A uid for who asks, who is to be neither root nor what runs in the sandbox."""
        if self._own is None:
            try:
                self._own = UidLease.take(self._uids or DEFAULT_UIDS)
            except UidsFull as error:
                raise ResourceExhausted(
                    f"a keeper has to have a uid of its own, and {error}",
                    reason=CallReason.QUOTA_EXCEEDED,
                    limit="uids",
                ) from error
        return self._own.identity.uid

    def _see(self, request: dict[str, Any], descriptors: list[int]) -> None:
        """The mount namespace of who asks, in which a disk for /content is to be seen too."""
        if self._namespace >= 0 or self._taken:
            raise Refused("another mount namespace")
        self._namespace = os.dup(descriptors[0])

    def _say_over(self, request: dict[str, Any], _: list[int]) -> None:
        self._over = True

    def _uid(self) -> int:
        if self._identity is None:
            raise Refused("a call about processes of a uid that there is not")
        return self._identity.uid

    def _make(self, request: dict[str, Any], _: list[int]) -> None:
        path = request.get("path")
        if path == str(self._state):
            self._take()
            return
        for directory in (self._state / name for name in OWN):
            if path == str(directory):
                self._check_taken()
                self._privileged.make(directory)
                return
        raise Refused(f"to make {path!r:.300}, which is none of this sandbox's directories")

    def _take(self) -> None:
        """Make the sandbox's directory, or take what is there; from then on nobody but root can change its names."""
        if self._settled:
            raise Refused("a sandbox that is over")
        self._state.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            self._state.mkdir(mode=0o700)
        held = os.open(self._state, _DIRECTORY)
        try:
            os.fchown(held, 0, 0)
            os.fchmod(held, 0o711)
            if not self._taken and (found := set(os.listdir(held)) - {RECORD}):
                raise Refused(f"a sandbox's directory in which there is {min(found)!r:.100} already")
        finally:
            os.close(held)
        self._taken = True

    def _check_taken(self) -> None:
        if not self._taken or self._settled:
            raise Refused("what is done in a sandbox's directory, which it has not been made or is over")

    def _settle(self, work: Callable[[], None]) -> None:
        """Clear up, and let go of the directory. Done once: then it is not root's any more."""
        if not self._taken or self._settled:
            return
        work()
        self._settled = True
        self._let_go()

    def _let_go(self) -> None:
        held = os.open(self._state, _DIRECTORY)
        try:
            if self._identity is not None:
                who = (self._identity.uid, self._identity.gid)
                with contextlib.suppress(FileNotFoundError):
                    os.chown(CONTENT, *who, dir_fd=held, follow_symlinks=False)
                os.fchown(held, *who)
            os.fchmod(held, 0o700)
        finally:
            os.close(held)

    def _give_pipe(self, request: dict[str, Any], descriptors: list[int]) -> None:
        self._privileged.give_pipe(descriptors[0])

    def _process(self, pid: int) -> int:
        """A process of the sandbox: its uid's, in all four ways."""
        try:
            status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
        except OSError as error:
            raise ProcessLookupError(error.errno, "it has ended") from None
        uids = next((line.split()[1:] for line in status.splitlines() if line.startswith("Uid:")), [])
        if uids != [str(self._uid())] * 4:
            raise Refused(f"process {pid}, which is none of this sandbox's")
        return pid

    # Limits.

    def _make_group(self, request: dict[str, Any], _: list[int]) -> Any:
        self._check_taken()
        if self._group is not None:
            raise Refused("a second group")
        given = request.get("limits")
        if not isinstance(given, dict) or set(given) != set(LIMITS):
            raise Refused(f"limits that are not {', '.join(LIMITS)}")
        self._group = self._privileged.make_group(WallLimits(**given))
        return {"name": self._group.name, "held": sorted(self._group.held)}

    def _ask_group(self, request: dict[str, Any], _: list[int]) -> Any:
        if self._group is None:
            raise Refused("a question about a group that there is not")
        match request.get("what"):
            case "kills":
                return self._group.kills()
            case "peak":
                return self._group.peak()
            case "close":
                return self._group.close()
        raise Refused("a question that no group answers")

    def _ask_seat(self, request: dict[str, Any]) -> tuple[Any, list[int]]:
        """Who makes one gets the file with its count, which is read before and after every execution."""
        if self._group is None:
            raise Refused("a seat in a group that there is not")
        name = _text(request, "name")
        if not (name[:1] == "s" and name[1:].isascii() and name[1:].isdigit() and len(name) <= 12):
            raise Refused(f"a seat called {name!r}; it takes an s and a number")
        match request.get("what"):
            case "make" if name not in self._seats:
                if len(self._seats) >= SEATS:
                    raise Refused(f"more than {SEATS} seats")
                self._seats[name] = self._group.seat(name)
                return None, [self._seats[name].open_count()]
            case "enter" if name in self._seats:
                self._seats[name].enter(self._process(_number(request, "pid", 2, 1 << 22)))
                return None, []
            case "leave" if name in self._seats:
                self._seats.pop(name).leave()
                return None, []
        raise Refused(f"a seat {name!r} that there is not, or is already, or is asked what it does not know")

    def _mount_content(self, request: dict[str, Any], _: list[int]) -> None:
        self._check_taken()
        if self._disk:
            raise Refused("a second disk")
        self._privileged.mount_content(_number(request, "size", 1, 1 << 50))
        self._disk = True
        if self._namespace >= 0:
            try:
                show(self._state / CONTENT, self._namespace)
            except OSError as error:
                self._privileged.discard()
                raise DiskUnavailable(str(error)) from error

    # Processes.

    def _start(self, request: dict[str, Any], descriptors: list[int]) -> tuple[Any, list[int]]:
        self._uid()
        self._check_taken()
        if len(self._started) >= STARTED:
            raise Refused(f"more than {STARTED} programs at once")
        argv = request.get("argv")
        if (
            not isinstance(argv, list)
            or not 0 < len(argv) <= ARGUMENTS
            or not all(isinstance(each, str) and "\0" not in each for each in argv)
        ):
            raise Refused("arguments that are no texts")
        places = request.get("places")
        if (
            not isinstance(places, list)
            or not all(type(each) is int and each in PLACES for each in places)
            or len(set(places)) != len(places)
        ):
            raise Refused(f"places that are no numbers from {PLACES.start} to {PLACES.stop - 1}, each once")
        outputs = len(descriptors) - len(places)
        if outputs not in (1, 2):
            raise Refused(
                "descriptors that are not standard error, perhaps standard output, and one for each place"
            )
        started = self._privileged.start(
            Start(
                argv=argv,
                cwd=Path("/"),
                stderr=descriptors[0],
                stdout=descriptors[1] if outputs == 2 else NOWHERE,
                descriptors=descriptors[outputs:],
                places=places,
                # Not asked for: a sandbox is within its limits, and is who it is.
                enter=self._group.entrances
                if self._group is not None and request.get("limited") is True
                else (),
                identity=self._identity,
                view=self._view(request.get("view")),
            )
        )
        self._started[started.pid] = started
        return {"pid": started.pid}, [os.dup(started.pidfd)]

    def _view(self, given: Any) -> list[Seen]:
        if not isinstance(given, list):
            raise Refused("a view that is no list")
        view = View(needed=True)
        for number, entry in enumerate(given):
            if not isinstance(entry, list) or len(entry) != 2 or not isinstance(entry[0], str):
                raise Refused("a view of something that is no path")
            path, writable = Path(entry[0]), entry[1]
            if path not in self._shown or type(writable) is not bool:
                raise Refused(f"a view of {str(path)!r}, which is not to be shown to this sandbox")
            if writable and path not in {self._state / name for name in OWN}:
                raise Refused(f"a view that lets it write {str(path)!r}")
            if view.place(path, writable=writable) != place_of(number):
                raise Refused(f"a view that shows {str(path)!r} twice")
        return view.seen

    def _ended(self, request: dict[str, Any], _: list[int]) -> int | None:
        pid = _number(request, "pid", 2, 1 << 22)
        started = self._started.get(pid)
        if started is None:
            raise Refused(f"process {pid}, which was not started here")
        status = started.ended()
        if status is not None:
            os.close(self._started.pop(pid).pidfd)
        return status

    def _expose(self, request: dict[str, Any], _: list[int]) -> None:
        self._privileged.expose(self._process(_number(request, "pid", 2, 1 << 22)))

    def _signal(self, request: dict[str, Any], descriptors: list[int]) -> bool:
        number, group = _number(request, "number", 0, signal.NSIG - 1), request.get("group") is True
        pid = pid_of(descriptors[0])
        if pid is None:
            raise Refused("a signal for something that is no process")
        if pid <= 0:
            return False
        try:
            # What has just been started may not be anybody else yet.
            if pid not in self._started:
                self._process(pid)
        except ProcessLookupError:
            return False
        return self._privileged.signal(descriptors[0], number, group=group, pid=pid)

    # The end.

    def _end(self) -> None:
        for started in self._started.values():
            self._privileged.signal(started.pidfd, signal.SIGKILL)
        self._end_all()
        if self._group is not None:
            self._group.close()
        if self._namespace >= 0:
            os.close(self._namespace)
        self._settle(self._privileged.settle)
        self._privileged.give_back()
        if self._own is not None:
            self._own.give_back()
        if self._over:
            self._mark_over()

    def _end_all(self) -> None:
        """Until nothing runs that is the sandbox's or its keeper's; they belong to nobody else, so none is spared.

        But for who asked, where that is there still: it waits for us.
        """
        uids = {lease.uid for lease in (self._identity, self._own and self._own.identity) if lease}
        deadline = time.monotonic() + END_SECONDS
        while time.monotonic() < deadline:
            alive = [started for started in self._started.values() if started.ended() is None]
            left = [pid for pid in processes_of(uids) if pid != self._peer]
            if not alive and not left:
                return
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.005)


def _text(request: dict[str, Any], key: str) -> str:
    value = request.get(key)
    if not isinstance(value, str) or len(value) > 64:
        raise Refused(f"a {key} that is no short text")
    return value


def _number(request: dict[str, Any], key: str, low: int, high: int) -> int:
    value = request.get(key)
    if type(value) is not int or not low <= value <= high:
        raise Refused(f"a {key} that is no number from {low} to {high}")
    return value


def _peer_of(sock: socket.socket) -> int:
    pid, _, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return int(pid)
