"""What stands behind a KeptHouse: which keeper has which runtime, starting, finding, asking and burying them."""

import asyncio
import contextlib
from collections.abc import AsyncIterable, Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from cellhouse.artifacts import BoundStore, LocalStore
from cellhouse.house import House
from cellhouse.keepers import calls
from cellhouse.keepers.adoption import Adoption
from cellhouse.keepers.calls import Accepted, Method
from cellhouse.keepers.forking import Template
from cellhouse.keepers.graves import Grave, Graves, Moved, OpenedHere, ReadByAnother
from cellhouse.keepers.link import Link
from cellhouse.keepers.living import GOING_SECONDS, Living, settled
from cellhouse.keepers.pieces import LinkLost
from cellhouse.keepers.place import Place, places
from cellhouse.keepers.reading import Recorded
from cellhouse.keepers.rights import Errand
from cellhouse.keepers.store import KeptStore
from cellhouse.model import (
    CallReason,
    CellhouseError,
    Clock,
    ExecutionName,
    NotFound,
    RuntimeName,
    RuntimeSpec,
    Unavailable,
)
from cellhouse.runtime import RuntimeStore, Settings
from cellhouse.runtime.logs import logger
from cellhouse.runtime.refusals import id_kept, id_taken, too_many_runtimes
from cellhouse.runtime.requests import CreateRequest
from cellhouse.runtime.store import remove_tree

_logger = logger()

R = TypeVar("R")

RECOVERED_AT_ONCE: Final = 4
"""Directories of dead keepers that are put in order at a time, when a service starts."""


class Router:
    """Belongs to one event loop. `root` is the open house of the state directory itself, whose lock proves that it is ours."""

    def __init__(self, root: House, settings: Settings, clock: Clock, template: Template) -> None:
        self.root = root
        self._settings, self._clock, self._template = settings, clock, template
        own = root.artifacts.store
        assert isinstance(own, LocalStore)  # a root has the one in its state directory
        self.adoption = Adoption(own, settings, clock, self.begin)
        self.artifacts = BoundStore(KeptStore(own, self.adoption), root.artifacts.scope)
        self.living: dict[str, Living] = {}
        self.creating: dict[str, asyncio.Future[None]] = {}
        self.graves = Graves(self._grave)
        self._burials: dict[str, asyncio.Task[None]] = {}
        self._strange: dict[str, Unavailable] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._left = self._closed = False

    async def _grave(self, place: Place) -> Grave:
        if place.user() is not None:
            return ReadByAnother(await self.read(place))
        settings = replace(self._settings, state_dir=place.directory)
        return OpenedHere(await House(settings=settings, clock=self._clock).__aenter__())

    async def read(self, place: Place, *, evict: int | None = None) -> Living:
        """A process that is not root and has the house of a dead keeper which was not root either."""
        place.tell(self._settings, reading=True)
        errand = Errand(place.directory, reading=True, evict=evict)
        return await self._fork(place, errand, lambda _: None)

    def place(self, runtime: str) -> Place:
        return Place(self._settings.state_dir, runtime)

    def __len__(self) -> int:
        return len(self.living) + len(self.creating)

    def begin(self, work: Coroutine[Any, Any, R], name: str) -> "asyncio.Task[R]":
        """Work that nobody has to wait for; it has ended when this is closed."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # Finding

    async def find(self) -> dict[str, CreateRequest]:
        """The keepers that live, whoever started them; what is left of the others is put in order beside everything else.

        Gives the requests that made the runtimes which are there.
        """
        found = await asyncio.to_thread(places, self._settings.state_dir)
        looked = [place for place in found if not place.is_over]
        await asyncio.gather(*(self._reach(place) for place in looked))
        dead = [place for place in looked if place.runtime not in self.living | self._strange]
        if dead:
            _logger.warning("keepers died without an end; their runtimes are lost", runtimes=len(dead))
            order = asyncio.Semaphore(RECOVERED_AT_ONCE)
            for place in dead:
                self.begin(self._recover(place, order), f"recover {place.runtime}")
        self.begin(self.adoption.catch_up(), "adopt artifacts")
        return await asyncio.to_thread(self._requests, found, set(self.living))

    def _requests(self, found: list[Place], living: set[str]) -> dict[str, CreateRequest]:
        """Of those whose runtime is there, be it over; also of those that lived in a service once."""
        requests = {}
        store = RuntimeStore(self._settings.state_dir / "runtimes", self._clock)
        for runtime in store.names():
            record = store.read(runtime)
            if record is not None and record.request is not None:
                requests[runtime] = record.request
        for place in found:
            request = place.request()
            if request is not None and (place.runtime in living or place.recorded()):
                requests[place.runtime] = request
        return requests

    async def _reach(self, place: Place) -> None:
        try:
            living = await Living.reach(place, self._on_lost(place.runtime))
        except Unavailable as error:
            _logger.error("a keeper can't be spoken to", runtime=place.runtime, why=error.message)
            self._strange[place.runtime] = error
            return
        except OSError as error:
            _logger.error("a keeper can't be reached", runtime=place.runtime, why=str(error))
            return
        if living is not None:
            self.living[place.runtime] = living

    async def _recover(self, place: Place, order: asyncio.Semaphore) -> None:
        async with order:
            try:
                await settled(place)
                async with self.graves.visit(place):
                    pass
            except Moved:
                return  # a new keeper puts it in order
            except (CellhouseError, OSError) as error:
                # Whoever asks for something in it tries again, and is told the same.
                _logger.error("what a dead keeper left can't be read", runtime=place.runtime, why=str(error))

    # Its end

    def _on_lost(self, runtime: str) -> Callable[[Link], None]:
        def lost(link: Link) -> None:
            living = self.living.get(runtime)
            if living is not None and living.link is link and not self._left and runtime not in self._burials:
                task = self.begin(self._bury(runtime, living), f"bury {runtime}")
                self._burials[runtime] = task
                task.add_done_callback(lambda _: self._burials.pop(runtime, None))

        return lost

    async def _bury(self, runtime: str, living: Living) -> None:
        """Its connection is lost: it has ended, or is about to, or can be spoken to again."""
        await asyncio.wait([living.gone], timeout=GOING_SECONDS)
        if not living.gone.done() and await living.again(self._on_lost(runtime)):
            _logger.warning("a keeper has been reached again", runtime=runtime, pid=living.pid)
            return
        await living.end()
        self.living.pop(runtime, None)
        living.let_go()
        self.begin(self.adoption.of(living.place), f"adopt artifacts of {runtime}")
        if not living.place.is_over:
            _logger.error("a keeper died; its runtime is lost", runtime=runtime, pid=living.pid)
            try:
                with contextlib.suppress(Moved):
                    async with self.graves.visit(living.place):
                        pass
            except (CellhouseError, OSError) as error:
                _logger.error("what a dead keeper left can't be read", runtime=runtime, why=str(error))

    async def _buried(self, runtime: str, living: Living) -> None:
        """After its connection was lost."""
        while self.living.get(runtime) is living and not living.link.alive:
            burial = self._burials.get(runtime)
            if burial is None:
                raise Unavailable(
                    "the service lets go of its runtimes; try again", reason=CallReason.SHUTTING_DOWN
                )
            await asyncio.wait([burial])

    # Asking

    async def keeper(self, runtime: str) -> Living | None:
        """The living one. UNAVAILABLE where there is one that can't be spoken to."""
        if self._closed:
            raise Unavailable(
                "the house was closed; the next one on its directory has its records",
                reason=CallReason.SHUTTING_DOWN,
            )
        while (living := self.living.get(runtime)) is not None and not living.link.alive:
            await self._buried(runtime, living)
        if living is None and (error := self._strange.get(runtime)) is not None:
            raise error
        return living

    async def ask(self, runtime: str, method: Method[R], arguments: Mapping[str, Any]) -> R:
        """Ask the keeper of a runtime, or where it is over what it has left. Raises the errors of the call."""
        while True:
            if (living := await self.keeper(runtime)) is not None:
                try:
                    return method.decode(await living.link.call(method.name, arguments))
                except LinkLost:
                    await self._buried(runtime, living)
                    continue
            place = self.place(runtime)
            if not place.exists():
                return await method.run(self.root, arguments)
            with contextlib.suppress(Moved):
                async with self.graves.visit(place) as grave:
                    return await grave.ask(method, arguments)

    async def execute(
        self, runtime: str, arguments: Mapping[str, Any]
    ) -> tuple[Accepted, asyncio.Future[Any] | None]:
        """The execution, and its result where that is short and comes by itself: it saves the way there and back."""
        while (living := await self.keeper(runtime)) is not None:
            try:
                found, later = await living.link.call_with_later(
                    calls.EXECUTE.name, {**arguments, "later": True}
                )
            except LinkLost:
                await self._buried(runtime, living)
            else:
                accepted = calls.EXECUTE.decode(found)
                if ExecutionName.parse(accepted.name).runtime != runtime:
                    raise RuntimeError(f"the keeper of {runtime} names an execution of another runtime")
                living.unfinished = accepted.unfinished
                return accepted, later
        return await self.ask(runtime, calls.EXECUTE, arguments), None

    async def upload(
        self, runtime: str, method: str, arguments: Mapping[str, Any], chunks: AsyncIterable[bytes]
    ) -> Any:
        """Send a file. Bytes can't be sent twice: where the keeper dies meanwhile, the runtime is over."""
        living = await self.keeper(runtime)
        if living is None:
            # Says why there is none.
            await self.ask(runtime, calls.KEEP_ALIVE, {"name": str(RuntimeName(runtime))})
            raise Unavailable("the runtime came back; try again", reason=CallReason.TRY_AGAIN)
        try:
            return await living.link.upload(method, arguments, chunks)
        except LinkLost:
            await self._buried(runtime, living)
            raise NotFound(
                f"{RuntimeName(runtime)} was lost while the file came", reason=CallReason.RUNTIME_DELETED
            ) from None

    async def where(self, name: str, *, late: bool, page_bytes: int) -> Link | Recorded:
        """See `reading.Source`."""
        runtime = ExecutionName.parse(name).runtime
        place = self.place(runtime)
        while True:
            if (living := await self.keeper(runtime)) is not None:
                return living.link
            if not place.exists():
                root = OpenedHere(self.root)
                return root.source(name, late=late, page_bytes=page_bytes, let_go=_nothing)
            with contextlib.suppress(Moved):
                grave = await self.graves.hold(place)
                return grave.source(name, late=late, page_bytes=page_bytes, let_go=grave.let_go)

    # Starting

    async def create(self, spec: RuntimeSpec, runtime: str, request: CreateRequest | None) -> None:
        """Start a keeper and have it make the runtime. ALREADY_EXISTS, RESOURCE_EXHAUSTED, and what making it raises."""
        await self.keeper(runtime)
        if runtime in self.living or runtime in self.creating:
            raise id_taken(runtime)
        if len(self) >= self._settings.max_runtimes:
            raise too_many_runtimes(self._settings.max_runtimes)
        created = self.creating[runtime] = asyncio.get_running_loop().create_future()
        try:
            async with self.graves.reserved(runtime), self.adoption.paused(runtime):
                await self._create(self.place(runtime), spec, request)
        finally:
            del self.creating[runtime]
            created.set_result(None)

    async def _create(self, place: Place, spec: RuntimeSpec, request: CreateRequest | None) -> None:
        new = place.make()
        await settled(place)
        if place.recorded() or self.place_of_root_has(place.runtime):
            raise id_kept(place.runtime)
        living = None
        try:
            errand = Errand(place.directory, spec.isolation or self._settings.isolation, spec.environment)
            living = await self._start(place, errand, request)
            await living.link.call(
                calls.CREATE_RUNTIME.name,
                {"spec": spec.to_wire(), "runtimeId": place.runtime, "requestId": MADE},
            )
        except BaseException as error:
            if living is not None:
                await self._undo(living)
            if new:
                await asyncio.to_thread(remove_tree, place.directory)
            if isinstance(error, LinkLost):
                raise Unavailable(
                    f"the keeper of {RuntimeName(place.runtime)} died while it was made; try again",
                    reason=CallReason.TRY_AGAIN,
                ) from error
            raise
        self.living[place.runtime] = living
        if not living.link.alive:
            self._on_lost(place.runtime)(living.link)

    def place_of_root_has(self, runtime: str) -> bool:
        """Whether a runtime of this id was made here when runtimes lived in the service, and was not deleted."""
        try:
            self.root.open_content(f"runtimes/{runtime}").close()
        except NotFound:
            return False
        return True

    async def _start(self, place: Place, errand: Errand, request: CreateRequest | None) -> Living:
        place.tell(self._settings)
        place.remember(request)
        return await self._fork(place, errand, self._on_lost(place.runtime))

    async def _fork(self, place: Place, errand: Errand, on_lost: Callable[[Link], None]) -> Living:
        with place.bind() as listener:
            await self._template.fork(errand, listener)
        living = await Living.reach(place, on_lost)
        if living is None:
            # Where that is on the host is not for whoever called.
            _logger.error("a keeper ended before it began", runtime=place.runtime, log=str(place.log))
            raise Unavailable(
                f"the keeper of {RuntimeName(place.runtime)} ended before it began; the service's log says where its log is",
                reason=CallReason.TRY_AGAIN,
            )
        return living

    @staticmethod
    async def _undo(living: Living) -> None:
        """A keeper without a runtime ends by itself; one whose creation was broken off is told to."""
        with contextlib.suppress(LinkLost, CellhouseError):
            await living.link.call(calls.CLOSE, {})
        await living.end()
        living.link.abort()
        living.let_go()

    # Letting go

    async def close(self) -> None:
        """End all keepers with their runtimes; returns when they are gone."""
        if self.creating:
            await asyncio.wait(self.creating.values())
        await asyncio.gather(*(self._close_one(living) for living in list(self.living.values())))
        await self._finish()

    async def _close_one(self, living: Living) -> None:
        with contextlib.suppress(LinkLost, CellhouseError):
            await living.link.call(calls.CLOSE, {})
        await living.end()

    async def leave(self) -> None:
        """Let go of the keepers, which go on."""
        if self.creating:
            await asyncio.wait(self.creating.values())
        self._left = True
        self.adoption.stop()
        for living in self.living.values():
            living.link.close()
        await asyncio.gather(*(asyncio.wait([living.link.lost]) for living in self.living.values()))
        await self._finish()

    async def _finish(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks)
        self._closed = True
        for living in self.living.values():
            living.let_go()
        self.living.clear()
        await self.graves.close()


MADE: Final = "made"
"""The request of the one creation that a keeper sees: a service that comes back can ask for the same one again."""


def _nothing() -> None:
    return
