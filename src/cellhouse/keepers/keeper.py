"""A keeper: a process with a house of its own and one runtime in it, which goes on whatever becomes of the service."""

import asyncio
import contextlib
import ctypes
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial
from logging.handlers import RotatingFileHandler
from typing import Any, Final, NoReturn

import pydantic_core

from cellhouse import __version__
from cellhouse.artifacts import LocalStore
from cellhouse.house import House
from cellhouse.keepers.calls import CLOSE, METHODS, Accepted, encode_page
from cellhouse.keepers.frames import OLDEST, PROTOCOL
from cellhouse.keepers.link import Asked, Link
from cellhouse.keepers.pieces import WINDOW
from cellhouse.keepers.place import ARTIFACTS, BACKLOG, Peer, Place
from cellhouse.keepers.rights import Errand, Rights, failure, take_up
from cellhouse.model import CallReason, Unavailable
from cellhouse.runtime import Settings
from cellhouse.runtime.logs import NAME as LOGGER, logger
from cellhouse.runtime.loops import run

_logger = logger()

PR_SET_NAME: Final = 15
M_ARENA_MAX: Final = -8
NAME: Final = b"cellhouse-keep"
LOG_BYTES: Final = 1 << 20
"""Of a keeper's log; there is one before it, of the same size."""
AHEAD_CHARS: Final = 16_384
AHEAD_OUTPUTS: Final = 20
GREETING_SECONDS: Final = 10.0
"""Who connects says who it is within so long."""
ALONE_SECONDS: Final = 30.0
"""A keeper that nobody asked for a runtime ends after so long: who had it forked has died in between."""


class Keeper:
    """Serves one house to whoever owns the service's state directory. Ends when its runtime has.

    One that only reads what a dead one left ends with the connection of whoever reads it.
    """

    def __init__(
        self,
        place: Place,
        listener: socket.socket,
        settings: Settings,
        rights: Rights,
        *,
        reading: bool = False,
        artifacts: LocalStore | None = None,
    ) -> None:
        """`artifacts` is where one mints that may not write the tenant's store; closed by this."""
        self._place, self._listener, self._rights, self._reading = place, listener, rights, reading
        self._links: set[Link] = set()
        self._stop = asyncio.Event()
        self._artifacts = artifacts
        self._house = House(settings=settings, privileged=rights.remote, artifacts=artifacts)
        self._created = self._closing = False

    async def run(self) -> None:
        """Until the runtime is over, or SIGTERM."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._stop.set)
        async with self._house:
            server = await loop.create_unix_server(self._link, sock=self._listener)
            try:
                await self._until_over()
            finally:
                self._closing = True
                server.close()
                self._place.forget_socket()
                await self._settled()
        if self._artifacts is not None:
            await self._artifacts.close()
        # Whoever is connected reads on in the journal, which is free now.
        if (remote := self._rights.remote) is not None:
            remote.say_over()
            remote.close()
        elif not self._rights.is_own:
            self._place.mark_over()
        for link in list(self._links):
            link.close()

    async def _until_over(self) -> None:
        ends = [self._stop.wait(), self._alone()]
        if not self._reading:
            ends.append(self._house.emptied())
        waiting = [asyncio.ensure_future(each) for each in ends]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()
            await asyncio.wait(waiting)

    async def _alone(self) -> None:
        """Until it is clear that nobody will ask for anything here; for ever where somebody did."""
        await asyncio.sleep(ALONE_SECONDS)
        if self._created or (self._reading and any(link.greeted for link in self._links)):
            await asyncio.get_running_loop().create_future()

    async def _settled(self) -> None:
        """What changes something is answered before we go; what only waits is answered by the journal."""
        changing = [
            asked.task
            for link in self._links
            for asked in link.asked
            if asked.task is not None and not asked.breakable and asked.method != CLOSE
        ]
        if changing:
            await asyncio.wait(changing)

    # Connections

    def _link(self) -> Link:
        link = Link(answer=self._answer, on_hello=self._hello, on_lost=self._lost)
        self._links.add(link)
        asyncio.get_running_loop().call_later(GREETING_SECONDS, self._check_greeted, link)
        return link

    def _lost(self, link: Link) -> None:
        self._links.discard(link)
        if self._reading and link.greeted:
            self._stop.set()

    @staticmethod
    def _check_greeted(link: Link) -> None:
        if not link.greeted:
            link.abort()

    def _hello(self, link: Link, told: dict[str, Any]) -> None:
        peer = link.peer()
        if not self._is_the_service(peer):
            _logger.error("refused who does not own the state directory", pid=peer.pid, uid=peer.uid)
            link.abort()
            return
        speaks = told.get("protocol")
        newest = speaks if isinstance(speaks, int) else 0
        oldest = told.get("oldest", newest)
        spoken = min(newest, PROTOCOL)
        link.greeted = spoken >= OLDEST and isinstance(oldest, int) and spoken >= oldest
        link.say_hello(
            protocol=spoken if link.greeted else PROTOCOL,
            oldest=OLDEST,
            build=__version__,
            runtime=self._place.runtime,
            pid=os.getpid(),
            unfinished=len(self._house.unfinished),
            runtimes=len(self._house.list_runtimes()),
        )
        if not link.greeted:
            link.close()

    def _is_the_service(self, peer: Peer) -> bool:
        if self._rights.held is not None:
            return peer.uid == 0  # it is for nobody else that anything is read here
        remote = self._rights.remote
        owner = self._place.service() if remote is None else remote.service()
        return peer.is_ours and owner == peer.pid

    # Calls

    async def _answer(self, asked: Asked) -> Any:
        """What is asked of a house that closes is left open: who asked hears that we are gone, and asks the journal."""
        try:
            if not self._closing:
                return await self._answer_open(asked)
        except Unavailable as error:
            if not self._closing or error.reason != CallReason.SHUTTING_DOWN:
                raise
        asked.breakable = True
        return await asyncio.get_running_loop().create_future()

    async def _answer_open(self, asked: Asked) -> Any:
        if (method := METHODS.get(asked.method)) is not None:
            asked.breakable = method.breakable
            if asked.method == "createRuntime":
                self._created = True
            answer = await method.run(self._house, asked.arguments)
            if isinstance(answer, Accepted) and asked.arguments.get("later"):
                asked.later = partial(self._small_result, answer.name)
            return method.encode(answer)
        match asked.method:
            case "events":
                return await self._events(asked)
            case "receiveFile":
                return await self._receive(asked)
            case "stageInput":
                return await self._stage(asked)
            case "close":
                asked.breakable = False
                self._stop.set()
                return {}
        raise Unavailable(
            f"this keeper ({__version__}) knows no {asked.method[:80]!a}; it is of an earlier version",
            reason=CallReason.TRY_AGAIN,
        )

    async def _small_result(self, name: str) -> dict[str, Any]:
        """The result, sent ahead to who will most likely ask for it; nothing where it is long and may not be wanted."""
        result = await self._house.result(name)
        chars = len(result.stdout) + len(result.stderr) + len(result.result)
        if chars > AHEAD_CHARS or len(result.rich_outputs) > AHEAD_OUTPUTS:
            return {}
        return result.to_wire()

    async def _events(self, asked: Asked) -> dict[str, Any]:
        a = asked.arguments
        size = min(int(a["pageBytes"]), WINDOW)
        follower = self._house.follower(
            a["name"], after=a["after"], late=a["late"], tails=a["tails"], page_bytes=size
        )
        await asked.outgoing.send(pydantic_core.to_json({"done": follower.done}))
        while (page := follower.take()) is not None:
            if page:
                await asked.outgoing.send(encode_page(page))
            else:
                await follower.wait()
        return {}

    async def _receive(self, asked: Asked) -> dict[str, Any]:
        a = asked.arguments
        written = await self._house.receive_file(
            a["name"], a["path"], asked.incoming, limit=a["limit"], sha256=a["sha256"]
        )
        return written.to_wire()

    async def _stage(self, asked: Asked) -> dict[str, Any]:
        a = asked.arguments
        path = await self._house.stage_input(
            a["name"], a["input"], asked.incoming, limit=a["limit"], sha256=a["sha256"]
        )
        return {"path": path}


def keep(errand: Errand, listener: socket.socket, tell: Callable[[dict[str, Any]], None]) -> NoReturn:
    """The whole life of a keeper, in a process that was forked for it. Its log is beside its house.

    `tell` is called once: with nothing as soon as it listens, or with why it can't.
    """
    status = 1
    try:
        place = Place(errand.directory.parent.parent, errand.directory.name)
        try:
            _begin()
            listener.listen(BACKLOG)  # while it is root: who else listens there some day is seen not to be
            key = place.mint_key()
            settings, rights = take_up(place, errand)
            _open_log(place)
        except BaseException as error:
            tell(failure(error))
            raise
        tell({})
        artifacts = _minting(place, settings, key) if key and rights.remote is not None else None
        run(Keeper(place, listener, settings, rights, reading=errand.reading, artifacts=artifacts).run())
        status = 0
    except BaseException:
        with contextlib.suppress(Exception):
            _logger.exception("a keeper failed", directory=str(errand.directory))
    finally:
        with contextlib.suppress(OSError):
            sys.stderr.flush()
        os._exit(status)


def _minting(place: Place, settings: Settings, key: bytes) -> LocalStore:
    """What is minted here is the service's to take over."""
    return LocalStore(
        place.directory / ARTIFACTS,
        limits=settings.artifacts,
        durable=settings.durability == "full",
        handing_over=key,
    )


def _begin() -> None:
    """A session of its own, nothing of the service's terminal, and a name to be found by."""
    os.setsid()
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_NAME, NAME, 0, 0, 0)
    libc.mallopt(M_ARENA_MAX, 1)  # else each thread takes memory of its own, and keeps it
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(null, number)
    os.close(null)


def _open_log(place: Place) -> None:
    log = os.open(place.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    os.dup2(log, 2)
    os.close(log)
    handler = RotatingFileHandler(place.log, maxBytes=LOG_BYTES, backupCount=1)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.getLogger(LOGGER).addHandler(handler)
    logging.getLogger(LOGGER).setLevel(logging.WARNING)
