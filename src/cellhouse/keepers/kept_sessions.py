"""The sessions of a house with keepers."""

from abc import abstractmethod

from cellhouse.journal import Page
from cellhouse.keepers import calls
from cellhouse.keepers.part import KeptPart
from cellhouse.model import (
    Session,
    SessionList,
    SessionLogPage,
    check_id,
)
from cellhouse.runtime.answering import answering
from cellhouse.runtime.session_log import page_of_session_log


class KeptSessions(KeptPart):
    """The part of `KeptHouse` that is about sessions; see House."""

    @abstractmethod
    async def list_executions(self, session: str, *, page_size: int = 100, page_token: str = "") -> Page: ...

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
