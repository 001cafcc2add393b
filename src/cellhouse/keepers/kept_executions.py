"""The executions of a house with keepers."""

from abc import abstractmethod
from collections.abc import AsyncGenerator

from cellhouse.house import TextName
from cellhouse.journal import Page, TextPage
from cellhouse.keepers import calls
from cellhouse.keepers.kept_counts import KeptCounts
from cellhouse.keepers.reader import KeptReader
from cellhouse.keepers.reading import KeptFollower
from cellhouse.model import (
    Event,
    ExecuteCodeRequest,
    ExecuteCodeResult,
    ExecutionName,
    Runtime,
    RuntimeName,
    TailFrame,
)
from cellhouse.runtime import ExecutionHandle
from cellhouse.runtime.answering import answering
from cellhouse.runtime.following import PAGE_BYTES
from cellhouse.runtime.refusals import too_many_executions


class KeptExecutions(KeptCounts):
    """The part of `KeptHouse` that is about executions; see House."""

    @abstractmethod
    async def get_runtime(self, name: str) -> Runtime: ...

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
