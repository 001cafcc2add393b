"""The living runtimes of one house: made once, found by name, deleted, closed."""

import asyncio
import errno
from functools import partial
from pathlib import Path

from cellhouse.artifacts import BoundStore
from cellhouse.environments import find_environment
from cellhouse.journal import Journal
from cellhouse.model import (
    CallReason,
    Clock,
    NotFound,
    Runtime,
    RuntimeName,
    RuntimeSpec,
    Unavailable,
    check_id,
    mint_id,
)
from cellhouse.runtime.host import RuntimeHost
from cellhouse.runtime.in_process import InProcessHost
from cellhouse.runtime.logs import logger
from cellhouse.runtime.outcome import Ending
from cellhouse.runtime.refusals import id_taken, too_many_runtimes
from cellhouse.runtime.requests import CreateRequest, CreateRequests
from cellhouse.runtime.settings import Settings
from cellhouse.runtime.store import RuntimeStore, remove_tree
from cellhouse.sandbox import Privileged

_logger = logger()


class Runtimes:
    """Belongs to the event loop of its house, which opens and closes it."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        journal: Journal,
        store: RuntimeStore,
        artifacts: BoundStore,
        privileged: Privileged | None = None,
    ) -> None:
        """`privileged` is asked for the only runtime there is; without it, each asks for itself."""
        self._settings, self._clock = settings, clock
        self._privileged = privileged
        self._journal, self._store, self._artifacts = journal, store, artifacts
        self.hosts: dict[str, RuntimeHost] = {}
        self._creating: dict[str, asyncio.Future[None]] = {}
        self._requests = CreateRequests()
        self._open = True
        self.emptied = asyncio.Event()
        """None lives and none is being made, after there was one."""
        for runtime in store.names():
            record = store.read(runtime)
            if record is not None and record.request is not None:
                self._requests.remember(record.request, runtime)

    def __len__(self) -> int:
        return len(self.hosts) + len(self._creating)

    async def create(self, spec: RuntimeSpec, runtime_id: str | None, request_id: str | None) -> Runtime:
        """A new runtime, ready; with a `request_id` that was used before, the one that it made then."""
        if runtime_id is not None:
            check_id(runtime_id, "runtimeId")
        if request_id is None:
            return self.host(RuntimeName(await self._create(spec, runtime_id, None))).describe()
        request = CreateRequest.of(request_id, spec, runtime_id)
        made = await self._requests.once(request, partial(self._create, spec, runtime_id, request))
        return self.host(RuntimeName(made)).describe()

    async def _create(self, spec: RuntimeSpec, runtime_id: str | None, request: CreateRequest | None) -> str:
        runtime = runtime_id or mint_id("rt")
        if runtime in self.hosts or runtime in self._creating:
            raise id_taken(runtime)
        if len(self) >= self._settings.max_runtimes:
            raise too_many_runtimes(self._settings.max_runtimes)
        self.emptied.clear()
        created = self._creating[runtime] = asyncio.get_running_loop().create_future()
        try:
            self.hosts[runtime] = await self._make(runtime, spec, request)
        finally:
            del self._creating[runtime]
            created.set_result(None)
            self._look()
        return runtime

    async def _make(self, runtime: str, spec: RuntimeSpec, request: CreateRequest | None) -> RuntimeHost:
        environment = find_environment(
            spec.environment, list(self._settings.environments) if self._settings.environments else None
        )
        record = self._store.create(runtime, spec, request)
        try:
            host = InProcessHost(
                RuntimeName(runtime),
                spec,
                directory=self._store.path(runtime),
                session_logs=self.session_logs(runtime),
                token=record.token,
                environment=environment,
                journal=self._journal,
                artifacts=self._artifacts,
                settings=self._settings,
                clock=self._clock,
                on_gone=self._gone,
                privileged=self._privileged,
            )
            await host.start()
            if not self._open:
                await host.close(Ending.RUNTIME_LOST, "the house was closed")
                raise Unavailable(
                    "this house was closed while the runtime was created", reason=CallReason.SHUTTING_DOWN
                )
        except BaseException:
            self._store.remove(runtime)
            raise
        return host

    def host(self, name: RuntimeName) -> RuntimeHost:
        """The living one. NOT_FOUND says whether it is over, or never was."""
        host = self.hosts.get(name.runtime)
        if host is not None:
            return host
        record = self._store.read(name.runtime)
        if record is not None:
            raise NotFound(
                f"{name} is over: its kernels are gone, its records and files can still be read. Create a new runtime",
                reason=CallReason.RUNTIME_DELETED,
            )
        raise NotFound(f"there is no runtime {name}; create it first", reason=CallReason.NO_SUCH_RUNTIME)

    async def delete(self, runtime: RuntimeName) -> None:
        """End it and remove its files; the records of its executions stay."""
        while (creating := self._creating.get(runtime.runtime)) is not None:
            await asyncio.wait([creating])  # its directory is in use, and what is in it not to be found yet
        host = self.hosts.get(runtime.runtime)
        if host is not None:
            # Found until it has ended: what ends now can be read.
            try:
                await host.close(Ending.DELETE_RUNTIME, "the runtime was deleted")
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                # What there was no room to keep of it is not wanted.
                if self._privileged is not None:
                    await asyncio.to_thread(self._privileged.discard)
                _logger.warning(
                    "a runtime that is deleted did not close well", runtime=str(runtime), error=str(error)
                )
            finally:
                # Also where that failed: it takes nothing more, and whoever deletes it again gets rid of its files.
                others = self.hosts.get(runtime.runtime, host) is not host
                if not others:
                    self.hosts.pop(runtime.runtime, None)
                    self._look()
            if others or runtime.runtime in self._creating:
                return  # somebody else was faster with it, and the id is a new runtime's by now
        elif self._store.read(runtime.runtime) is None:
            raise NotFound(f"there is no runtime {runtime}", reason=CallReason.NO_SUCH_RUNTIME)
        if (going := self._store.take_away(runtime.runtime)) is not None:
            await asyncio.to_thread(remove_tree, going)

    def session_logs(self, runtime: str) -> Path:
        """Where sessions of a runtime keep what belongs to no execution."""
        return self._settings.state_dir / "sessions" / runtime

    def shut(self) -> None:
        """From now on nothing is made: what is being made ends before its caller gets to see it."""
        self._open = False

    async def close(self) -> None:
        """End them all; nothing is made any more. Raises what went wrong with one, when all have ended."""
        self.shut()
        if self._creating:
            await asyncio.wait(self._creating.values())
        # Until all have ended, each is found: what ends now can be read.
        ended = await asyncio.gather(
            *(self._close_one(runtime, host) for runtime, host in list(self.hosts.items())),
            return_exceptions=True,
        )
        for error in ended:
            if error is not None:
                raise error

    async def _close_one(self, runtime: str, host: RuntimeHost) -> None:
        await host.close(Ending.RUNTIME_LOST, "the house was closed")
        self.hosts.pop(runtime, None)
        self._store.mark_closed(runtime)
        self._look()

    def _gone(self, name: RuntimeName) -> None:
        self.hosts.pop(name.runtime, None)
        self._store.mark_closed(name.runtime)
        self._look()

    def _look(self) -> None:
        if not len(self):
            self.emptied.set()
