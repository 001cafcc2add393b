"""KeptHouse: a house whose runtimes live each in a keeper; what is here is only the way to them."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from cellhouse.artifacts import BoundStore
from cellhouse.files import HostileDir
from cellhouse.house import DRAIN_GRACE, House, TextName
from cellhouse.journal import Page, TextPage
from cellhouse.keepers import calls
from cellhouse.keepers.calls import Method
from cellhouse.keepers.eviction import Eviction
from cellhouse.keepers.forking import Template
from cellhouse.keepers.living import Living
from cellhouse.keepers.pieces import LinkLost
from cellhouse.keepers.reader import KeptReader
from cellhouse.keepers.reading import KeptFollower
from cellhouse.keepers.router import MADE, Router
from cellhouse.keepers.surface import Census
from cellhouse.model import (
    CellhouseError,
    Clock,
    Event,
    ExecuteCodeRequest,
    ExecuteCodeResult,
    ExecutionName,
    FileWritten,
    NotFound,
    Runtime,
    RuntimeList,
    RuntimeName,
    RuntimeSpec,
    RuntimeSpecs,
    Session,
    SessionList,
    SessionLogPage,
    SessionName,
    SystemClock,
    TailFrame,
    Unavailable,
    check_id,
    check_input_name,
    mint_id,
)
from cellhouse.runtime import ExecutionHandle, Settings
from cellhouse.runtime.answering import NotOpened, answering
from cellhouse.runtime.contents import ReadableContents
from cellhouse.runtime.following import PAGE_BYTES
from cellhouse.runtime.host import Kernels, NetworkCounts
from cellhouse.runtime.inputs import STAGED_BYTES
from cellhouse.runtime.paging import page_by_name
from cellhouse.runtime.refusals import house_closed, house_drains, too_many_executions
from cellhouse.runtime.requests import CreateRequest, CreateRequests
from cellhouse.runtime.session_log import page_of_session_log

R = TypeVar("R")

UPLOAD_BYTES: Final = 1 << 62
"""No limit of its own for a file that a program puts: /content has one."""


class KeptHouse(ReadableContents):
    """`keepers.surface.AnyHouse` over one state directory. An async context manager, owned by one event loop.

    Closing it ends all runtimes; `leave` lets them go on for the next one on the same directory. It may die at any moment:
    then they go on, too. Two on one directory: the second is refused, and told who has it.
    """

    def __init__(
        self, settings: Settings, *, clock: Clock | None = None, template: Template | None = None
    ) -> None:
        """A template that is given is shared, and is its owner's to close."""
        self._settings, self._clock = settings, clock or SystemClock()
        self._template = template or Template()
        self._own_template = template is None
        self._root = House(settings=settings, clock=self._clock)
        self._router: Router
        self._reader: KeptReader
        self._requests: CreateRequests
        self._eviction: Eviction
        self._open = self._draining = False
        self._ending: asyncio.Task[None] | None = None

    @property
    def state_dir(self) -> Path:
        return self._settings.state_dir

    async def __aenter__(self) -> Self:
        await self._root.__aenter__()
        try:
            self._template.start()
            self._router = Router(self._root, self._settings, self._clock, self._template)
            self._reader = KeptReader(self._router)
            self._requests = CreateRequests()
            for runtime, request in (await self._router.find()).items():
                self._requests.remember(request, runtime)
        except BaseException:
            if self._own_template:
                self._template.close()
            await self._root.close()
            raise
        self._eviction = Eviction(self._router, self._settings, self._clock)
        self._eviction.start()
        self._ending, self._draining, self._open = None, False, True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @answering
    async def close(self) -> None:
        """End every runtime and its keeper. May be called twice, and after `leave`."""
        await self._end(keep=False)

    @answering
    async def leave(self) -> bool:
        """Let go of everything; the runtimes go on, and the next house on this directory has them."""
        await self._end(keep=True)
        return True

    async def _end(self, *, keep: bool) -> None:
        if self._open:
            self._open = False
            self._ending = asyncio.get_running_loop().create_task(self._end_once(keep), name="close")
        if self._ending is not None:
            await asyncio.shield(self._ending)

    async def _end_once(self, keep: bool) -> None:
        try:
            await self._eviction.stop()
            await (self._router.leave() if keep else self._router.close())
        finally:
            if self._own_template:
                await asyncio.to_thread(self._template.close)
            await self._root.close()

    @answering
    async def census(self) -> Census:
        self._check_open()
        unfinished, kernels = await asyncio.gather(self._unfinished(), self._kernels())
        keepers = tuple(living.pid for living in self._router.living.values())
        return Census(
            len(keepers),
            unfinished,
            sum(each.living for each, _ in kernels),
            sum(each.ahead for each, _ in kernels),
            keepers,
            sum((network for _, network in kernels), NetworkCounts()),
        )

    async def _kernels(self) -> list[tuple[Kernels, NetworkCounts]]:
        """Of each keeper; none of one that is about to end, or is of a version that does not tell."""
        found: list[tuple[Kernels, NetworkCounts]] = []

        async def one(living: Living) -> None:
            with contextlib.suppress(CellhouseError, LinkLost):
                found.append(calls.KERNELS.decode(await living.link.call(calls.KERNELS.name, {})))

        await asyncio.gather(*map(one, list(self._router.living.values())))
        return found

    async def _unfinished(self) -> int:
        """As of now; asked of all."""
        await self._of_all(calls.UNFINISHED, {})
        return sum(living.unfinished for living in self._router.living.values())

    async def _of_all(self, method: Method[Any], arguments: Mapping[str, Any]) -> None:
        async def one(runtime: str) -> None:
            living = self._router.living.get(runtime)
            with contextlib.suppress(CellhouseError, LinkLost):  # it is about to end
                if living is not None:
                    answer = await living.link.call(method.name, arguments)
                    if method is calls.UNFINISHED:
                        living.unfinished = len(answer)

        await asyncio.gather(*map(one, list(self._router.living)))

    @answering
    async def drain(self, *, seconds: float, grace: float = DRAIN_GRACE) -> None:
        """See House."""
        self._check_open()
        self._draining = True
        if self._router.creating:
            await asyncio.wait(self._router.creating.values())
        await self._of_all(calls.DRAIN, {"seconds": seconds, "grace": grace})

    # runtimes

    @answering
    async def runtime_specs(self) -> RuntimeSpecs:
        self._check_open()
        offered = await self._root.runtime_specs()
        count, most = len(self._router), self._settings.max_runtimes
        return offered.model_copy(
            update={
                "runtimes": count,
                "may_create": offered.may_create and not self._draining and count < most,
            }
        )

    @answering
    async def create_runtime(
        self,
        spec: RuntimeSpec | None = None,
        *,
        runtime_id: str | None = None,
        request_id: str | None = None,
    ) -> Runtime:
        """See House. A caller that goes away meanwhile, and gave no `request_id`, leaves no runtime."""
        self._check_accepting()
        spec = spec or RuntimeSpec()
        if runtime_id is not None:
            check_id(runtime_id, "runtimeId")
        if request_id is None:
            runtime = runtime_id or mint_id("rt")
            making = self._router.begin(self._router.create(spec, runtime, None), f"create {runtime}")
            try:
                await asyncio.shield(making)
            except asyncio.CancelledError:
                making.add_done_callback(lambda done: self._unwanted(runtime, done))
                raise
        else:
            request = CreateRequest.of(request_id, spec, runtime_id)
            runtime = await self._requests.once(request, partial(self._make, spec, runtime_id, request))
        if await self._router.keeper(runtime) is None:
            return await self.get_runtime(str(RuntimeName(runtime)))  # it is over, and that is what is told
        again = {"spec": spec.to_wire(), "runtimeId": runtime, "requestId": MADE}
        return await self._router.ask(runtime, calls.CREATE_RUNTIME, again)

    async def _make(self, spec: RuntimeSpec, runtime_id: str | None, request: CreateRequest) -> str:
        runtime = runtime_id or mint_id("rt")
        await self._router.create(spec, runtime, request)
        return runtime

    def _unwanted(self, runtime: str, made: asyncio.Task[None]) -> None:
        if not made.cancelled() and made.exception() is None and self._open:
            self._router.begin(self._drop(runtime), f"drop {runtime}")

    async def _drop(self, runtime: str) -> None:
        with contextlib.suppress(CellhouseError):
            await self.delete_runtime(str(RuntimeName(runtime)))

    @answering
    async def get_runtime(self, name: str) -> Runtime:
        return await self._of_runtime(name, calls.GET_RUNTIME)

    @answering
    async def list_runtimes(self) -> list[Runtime]:
        self._check_open()

        async def one(runtime: str) -> Runtime | None:
            with contextlib.suppress(NotFound, Unavailable):  # it has just ended, or is being made
                if (living := self._router.living.get(runtime)) is not None:
                    with contextlib.suppress(LinkLost):
                        method = calls.GET_RUNTIME
                        name = str(RuntimeName(runtime))
                        return method.decode(await living.link.call(method.name, {"name": name}))
            return None

        found = await asyncio.gather(*map(one, list(self._router.living)))
        return [runtime for runtime in found if runtime is not None]

    @answering
    async def page_runtimes(self, *, page_size: int = 0, page_token: str = "") -> RuntimeList:
        page, token = page_by_name("runtimes", await self.list_runtimes(), page_size, page_token)
        return RuntimeList(runtimes=tuple(page), next_page_token=token)

    @answering
    async def keep_alive(self, name: str) -> Runtime:
        return await self._of_runtime(name, calls.KEEP_ALIVE)

    @answering
    async def delete_runtime(self, name: str) -> None:
        runtime = RuntimeName.parse(name).runtime
        while (creating := self._router.creating.get(runtime)) is not None:
            await asyncio.wait([creating])
        living = self._router.living.get(runtime)
        await self._of_runtime(name, calls.DELETE_RUNTIME)
        if living is not None and self._router.living.get(runtime) is living:
            await living.end()  # so that its id can be had again at once

    # sessions

    @answering
    async def create_session(self, runtime: str, *, session_id: str | None = None) -> Session:
        if session_id is not None:
            check_id(session_id, "sessionId")
        return await self._of_runtime(runtime, calls.CREATE_SESSION, sessionId=session_id)

    @answering
    async def get_session(self, name: str) -> Session:
        return await self._of_session(name, calls.GET_SESSION)

    @answering
    async def list_sessions(self, runtime: str) -> list[Session]:
        return await self._of_runtime(runtime, calls.LIST_SESSIONS)

    @answering
    async def page_sessions(self, runtime: str, *, page_size: int = 0, page_token: str = "") -> SessionList:
        return await self._of_runtime(runtime, calls.PAGE_SESSIONS, pageSize=page_size, pageToken=page_token)

    @answering
    async def interrupt(self, session: str) -> bool:
        return await self._of_session(session, calls.INTERRUPT)

    @answering
    async def restart(self, session: str) -> None:
        await self._of_session(session, calls.RESTART)

    @answering
    async def delete_session(self, session: str) -> None:
        await self._of_session(session, calls.DELETE_SESSION)

    @answering
    async def session_log(self, session: str) -> list[dict[str, str]]:
        return await self._of_session(session, calls.SESSION_LOG)

    @answering
    async def page_session_log(
        self, session: str, *, page_size: int = 0, page_token: str = ""
    ) -> SessionLogPage:
        entries = await self.session_log(session)
        if not entries and not (await self.list_executions(session, page_size=1)).entries:
            await self.get_session(session)
        return page_of_session_log(f"{session}/log", entries, page_size, page_token)

    @answering
    async def network_log(self, runtime: str) -> list[dict[str, str]]:
        return await self._of_runtime(runtime, calls.NETWORK_LOG)

    @answering
    async def page_network_log(
        self, runtime: str, *, page_size: int = 0, page_token: str = ""
    ) -> SessionLogPage:
        entries = await self.network_log(runtime)
        if not entries:
            await self.get_runtime(runtime)
        return page_of_session_log(f"{runtime}/networkLog", entries, page_size, page_token)

    # executions

    @answering
    async def execute(self, request: ExecuteCodeRequest) -> ExecutionHandle:
        """See House. The limit of all executions is one of all runtimes together."""
        self._check_open()
        target = request.check(self._settings.session)
        runtime = target.runtime
        wait_timeout = request.wait_timeout or self._settings.session.wait_timeout
        arguments = {"request": request.to_wire()}
        full = await self._is_full()
        if full or self._draining:
            if known := await self._router.ask(runtime, calls.KNOWN, arguments):
                return ExecutionHandle(self._reader, ExecutionName.parse(known), attached=True, wait_timeout=wait_timeout)  # fmt: skip
            self._check_accepting()
            await self.get_runtime(str(RuntimeName(runtime)))
            raise too_many_executions(self._settings.max_executions)
        accepted, later = await self._router.execute(runtime, arguments)
        return ExecutionHandle(
            KeptReader(self._router, later),
            ExecutionName.parse(accepted.name),
            attached=accepted.attached,
            wait_timeout=wait_timeout,
        )

    async def _is_full(self) -> bool:
        """Counts from what was heard last, which is no less than what is; near the limit all are asked."""
        most = self._settings.max_executions
        if sum(living.unfinished for living in self._router.living.values()) < most:
            return False
        return await self._unfinished() >= most

    @answering
    async def get_execution(self, name: str) -> ExecuteCodeResult:
        return await self._of_execution(name, calls.GET_EXECUTION)

    @answering
    async def get_code(self, name: str) -> str:
        return await self._of_execution(name, calls.GET_CODE)

    @answering
    def events(
        self, name: str, *, after: int = 0, late: bool = False, tails: bool = False
    ) -> AsyncGenerator[Event | TailFrame, None]:
        self._check_open()
        return self._reader.follow(ExecutionName.parse(name), after=after, late=late, tails=tails)

    @answering
    async def follower(
        self,
        name: str,
        *,
        after: int = 0,
        late: bool = False,
        tails: bool = False,
        page_bytes: int = PAGE_BYTES,
    ) -> KeptFollower:
        """Returns when it is known whether there is anything to read; NOT_FOUND is raised here."""
        self._check_open()
        made = self._reader.follower(
            ExecutionName.parse(name), after=after, late=late, tails=tails, page_bytes=page_bytes
        )
        await made.begin()
        return made

    @answering
    async def cancel(self, name: str) -> None:
        await self._of_execution(name, calls.CANCEL)

    @answering
    async def provide_input(self, name: str, value: str) -> None:
        await self._of_execution(name, calls.PROVIDE_INPUT, value=value)

    @answering
    async def list_executions(self, session: str, *, page_size: int = 100, page_token: str = "") -> Page:
        return await self._of_session(
            session, calls.LIST_EXECUTIONS, pageSize=page_size, pageToken=page_token
        )

    @answering
    async def read_text(
        self, name: str, which: TextName, *, offset: int = 0, limit: int = 65_536
    ) -> TextPage:
        return await self._of_execution(name, calls.READ_TEXT, which=which, offset=offset, limit=limit)

    # rich outputs and files: the service reads /content itself, as a house does

    async def _latest(self, name: str, index: int) -> tuple[int, str]:
        return await self._of_execution(name, calls.LATEST_OUTPUT, index=index)

    @answering
    async def put_file(self, runtime: str, path: str, chunks: Iterable[bytes]) -> int:
        async def each() -> AsyncIterator[bytes]:
            for chunk in chunks:
                yield chunk

        return (await self.receive_file(runtime, path, each(), limit=UPLOAD_BYTES)).bytes

    @answering
    async def receive_file(
        self, runtime: str, path: str, chunks: AsyncIterable[bytes], *, limit: int, sha256: str = ""
    ) -> FileWritten:
        self._check_open()
        name = RuntimeName.parse(runtime)
        arguments = {"name": str(name), "path": path, "limit": limit, "sha256": sha256}
        written = await self._router.upload(name.runtime, calls.RECEIVE_FILE, arguments, chunks)
        return FileWritten.from_wire(written)

    @answering
    async def stage_input(
        self,
        runtime: str,
        name: str,
        chunks: AsyncIterable[bytes],
        *,
        limit: int = STAGED_BYTES,
        sha256: str = "",
    ) -> str:
        self._check_open()
        parsed = RuntimeName.parse(runtime)
        arguments = {"name": str(parsed), "input": check_input_name(name), "limit": limit, "sha256": sha256}
        staged = await self._router.upload(parsed.runtime, calls.STAGE_INPUT, arguments, chunks)
        return str(staged["path"])

    @property
    def artifacts(self) -> BoundStore:
        self._check_open()
        return self._router.artifacts

    @answering
    def open_content(self, runtime: str) -> HostileDir:
        self._check_open()
        name = RuntimeName.parse(runtime).runtime
        place = self._router.place(name)
        if not place.exists():
            return self._root.open_content(runtime)
        return place.store().content(name)

    @answering
    async def delete_file(self, runtime: str, path: str) -> None:
        await self._of_runtime(runtime, calls.DELETE_FILE, path=path)

    # within

    async def _of_runtime(self, name: str, method: Method[R], **arguments: Any) -> R:
        self._check_open()
        parsed = RuntimeName.parse(name)
        return await self._router.ask(parsed.runtime, method, {"name": str(parsed), **arguments})

    async def _of_session(self, name: str, method: Method[R], **arguments: Any) -> R:
        self._check_open()
        parsed = SessionName.parse(name)
        return await self._router.ask(parsed.runtime, method, {"name": str(parsed), **arguments})

    async def _of_execution(self, name: str, method: Method[R], **arguments: Any) -> R:
        self._check_open()
        parsed = ExecutionName.parse(name)
        return await self._router.ask(parsed.runtime, method, {"name": str(parsed), **arguments})

    def _check_accepting(self) -> None:
        self._check_open()
        if self._draining:
            raise house_drains()

    def _check_open(self) -> None:
        if self._ending is not None:
            raise house_closed()
        if not self._open:
            raise NotOpened(
                "this KeptHouse is not open; use it as `async with KeptHouse(settings) as house:`"
            )
