"""One living keeper as the service has it: its connection, and its process held so that its end is certain."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from cellhouse import __version__
from cellhouse.keepers.frames import OLDEST, PROTOCOL
from cellhouse.keepers.link import Link
from cellhouse.keepers.pieces import LinkLost
from cellhouse.keepers.place import Peer, Place
from cellhouse.model import CallReason, CellhouseError, Unavailable
from cellhouse.runtime.logs import logger
from cellhouse.sandbox.pidfd import pidfd_open, send_signal
from cellhouse.sandbox.privileged.uids import processes_of

_logger = logger()

GREETING_SECONDS: Final = 20.0
GOING_SECONDS: Final = 1.0
"""A keeper that has closed its connection is gone within so long; else it is asked whether it is still there."""
LOOK_SECONDS: Final = 2.0
STOPPED_LOOKS: Final = 5
"""A keeper that is stopped at so many looks in a row, while somebody waits for it, is one that does not answer."""
KILL_SECONDS: Final = 120.0
"""One that is to end and does not is killed after so long. What it does last, taking a /content of 4 GiB off its disk, fits."""


class Living:
    """Belongs to one event loop. `gone` is done when the process has ended."""

    def __init__(self, place: Place, link: Link, peer: Peer, pidfd: int, told: dict[str, Any]) -> None:
        self.place, self.link, self.pid = place, link, peer.pid
        self.build = str(told.get("build", ""))
        self.unfinished = int(told.get("unfinished", 0))
        """Executions that run or wait: as many at most, until more are accepted."""
        self._pidfd = pidfd
        loop = asyncio.get_running_loop()
        self.gone: asyncio.Future[None] = loop.create_future()
        loop.add_reader(pidfd, self._ended)
        self._stopped_looks = 0
        self._looking = loop.call_later(LOOK_SECONDS, self._look)

    @classmethod
    async def reach(cls, place: Place, on_lost: Callable[[Link], None]) -> "Living | None":
        """The keeper that listens in this place; None where there is none.

        UNAVAILABLE where it is one that we can't speak to, or who does not speak.
        """
        sock = await place.connect()
        if sock is None:
            return None
        pidfd = -1
        try:
            peer = Peer.of(sock)
            if not place.is_keeper(peer):
                raise _unreachable(place, f"process {peer.pid} of another user ({peer.uid}) listens there")
            pidfd = pidfd_open(peer.pid)
            _, link = await asyncio.get_running_loop().create_unix_connection(
                lambda: Link(on_lost=on_lost), sock=sock
            )
        except ProcessLookupError:
            sock.close()
            return None
        except BaseException:
            sock.close()
            if pidfd >= 0:
                os.close(pidfd)
            raise
        try:
            told = await _greet(place, link)
            if told is not None:
                return cls(place, link, peer, pidfd, told)
        except BaseException:
            link.abort()
            os.close(pidfd)
            raise
        os.close(pidfd)
        return None

    async def again(self, on_lost: Callable[[Link], None]) -> bool:
        """Connect anew to the same process; whether that worked."""
        with contextlib.suppress(OSError, CellhouseError):
            found = await Living.reach(self.place, on_lost)
            if found is not None:
                same = found.pid == self.pid
                found.let_go()
                if same:
                    self.link, self.unfinished = found.link, found.unfinished
                    return True
                found.link.abort()
        return False

    def _look(self) -> None:
        """Whether it is stopped while somebody waits for it: a stopped process does not end, and does not answer."""
        self._looking = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)
        if not self.link.is_waiting or not _is_stopped(self.pid):
            self._stopped_looks = 0
            return
        self._stopped_looks += 1
        if self._stopped_looks >= STOPPED_LOOKS:
            self.link.give_up(
                Unavailable(
                    f"runtimes/{self.place.runtime}: its keeper (process {self.pid}) is stopped, so nobody answers; continue it "
                    "(SIGCONT), and try the identical call again",
                    reason=CallReason.TRY_AGAIN,
                )
            )

    def _ended(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        if not self.gone.done():
            self.gone.set_result(None)

    async def end(self) -> None:
        """Wait until it has ended, and see to it that it does."""
        done, _ = await asyncio.wait([self.gone], timeout=KILL_SECONDS)
        if not done:
            _logger.error("a keeper that does not end is killed", runtime=self.place.runtime, pid=self.pid)
            self.kill()
            await asyncio.wait([self.gone])

    def kill(self) -> None:
        send_signal(self._pidfd, signal.SIGKILL)

    def let_go(self) -> None:
        """Close what is held of it; the process goes on, if it does."""
        self._looking.cancel()
        if self._pidfd >= 0:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1
        self.gone.cancel()


async def _greet(place: Place, link: Link) -> dict[str, Any] | None:
    """What the keeper says of itself; None where it went away instead."""
    try:
        link.say_hello(protocol=PROTOCOL, oldest=OLDEST, build=__version__)
        async with asyncio.timeout(GREETING_SECONDS):
            told = await link.hello
    except LinkLost:
        return None
    except TimeoutError:
        raise _unreachable(place, f"it did not answer within {GREETING_SECONDS:g} s") from None
    except asyncio.CancelledError:
        if link.hello.cancelled() and not link.alive:
            return None
        raise
    spoken = told.get("protocol")
    if not isinstance(spoken, int) or not OLDEST <= spoken <= PROTOCOL:
        raise _unreachable(
            place,
            f"it is of version {str(told.get('build'))[:40]!a} and speaks protocol {spoken!r}; this service, {__version__}, "
            f"speaks {OLDEST} to {PROTOCOL}. It goes on; start the service of its version to reach it",
        )
    if not _is_count(told.get("unfinished", 0)):
        raise _unreachable(
            place, f"it says that {str(told.get('unfinished'))[:40]!a} executions are unfinished"
        )
    if told.get("runtime") != place.runtime:
        raise _unreachable(place, f"it says that it keeps {str(told.get('runtime'))[:80]!a}")
    link.greeted = True
    return told


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_stopped(pid: int) -> bool:
    """By a signal, or by a tracer."""
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return status.rpartition(b") ")[2][:1] in b"Tt"


async def settled(place: Place) -> None:
    """Until nobody holds the directory of a keeper that can't be reached: one that ends, or hangs and is killed."""
    pid = place.keeper()
    if pid is None or not place.is_held():
        return
    try:
        pidfd = pidfd_open(pid)
    except ProcessLookupError:
        return
    user = place.user()
    if user is not None and pid not in processes_of([user.own]):
        os.close(pidfd)
        raise _unreachable(place, "its directory is held by a process that it is not; end that one")
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    loop.add_reader(pidfd, lambda: None if ended.done() else ended.set_result(None))
    try:
        done, _ = await asyncio.wait([ended], timeout=KILL_SECONDS)
        if not done:
            _logger.error("a keeper that neither listens nor ends is killed", runtime=place.runtime, pid=pid)
            send_signal(pidfd, signal.SIGKILL)
            await asyncio.wait([ended])
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)


def _unreachable(place: Place, why: str) -> Unavailable:
    return Unavailable(
        f"runtimes/{place.runtime}: its keeper can't be spoken to: {why}", reason=CallReason.TRY_AGAIN
    )
