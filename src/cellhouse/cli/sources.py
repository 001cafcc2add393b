"""Where what was executed is read from: a house in this process, or a service."""

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from cellhouse.house import House
from cellhouse.model import CallReason, Event, NotFound, TailFrame
from cellhouse.notebooks import Asked, TextSlice
from cellhouse.notebooks.source import StreamText

if TYPE_CHECKING:
    from cellhouse.client import AsyncClient  # httpx is slow to load, and not for who only runs some code


class Local:
    """The records of a state directory."""

    def __init__(self, house: House) -> None:
        self._house = house
        self.get_execution = house.get_execution
        self.get_rich_output = house.get_rich_output
        self.get_bundle = house.get_bundle

    async def get_code(self, name: str) -> str | None:
        return self._house.get_code(name)

    def events(self, name: str, *, late: bool) -> AsyncGenerator[Event | TailFrame, None]:
        return self._house.events(name, late=late)

    async def read_text(self, name: str, which: StreamText, *, offset: int, limit: int) -> TextSlice:
        return self._house.read_text(name, which, offset=offset, limit=limit)

    async def page(self, session: str, token: str) -> tuple[list[Asked], str]:
        page = self._house.list_executions(session, page_token=token)
        return [Asked(each.name, each.code_sha256) for each in page.entries], page.next_page_token

    async def check_session(self, session: str) -> None:
        """NOT_FOUND: nothing is on record of it, and nothing lives in a directory that is only read."""
        raise NotFound(
            f"nothing is on record of {session} in {self._house.state_dir}; name a session in which code was executed, or "
            "another directory with --state-dir",
            reason=CallReason.NO_SUCH_SESSION,
        )


class Remote:
    """A service's."""

    def __init__(self, client: "AsyncClient") -> None:
        self._client = client
        self.get_execution = client.get_execution
        self.get_rich_output = client.get_rich_output
        self.get_bundle = client.get_bundle
        self.get_code = client.get_code

    def events(self, name: str, *, late: bool) -> AsyncGenerator[Event | TailFrame, None]:
        return self._client.events(name, late=late)

    async def read_text(self, name: str, which: StreamText, *, offset: int, limit: int) -> TextSlice:
        return await self._client.read_text(name, which, offset=offset, limit=limit)

    async def page(self, session: str, token: str) -> tuple[list[Asked], str]:
        page = await self._client.list_executions(session, page_token=token)
        return [Asked(each.execution, each.code_sha256) for each in page.executions], page.next_page_token

    async def check_session(self, session: str) -> None:
        await self._client.get_session(session)
