"""What a notebook is made from: records, wherever they are."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from cellhouse.model import Event, ExecuteCodeResult, RichOutput, TailFrame

StreamText = Literal["stdout", "stderr"]


@dataclass(frozen=True, slots=True)
class Asked:
    """An execution to show: its full name, and the SHA-256 of its code where that is known."""

    name: str
    code_sha256: str = ""


class TextSlice(Protocol):
    """A page of a whole text, by offsets in bytes of its UTF-8."""

    @property
    def text(self) -> str: ...
    @property
    def offset(self) -> int: ...
    @property
    def total_bytes(self) -> int: ...


class Source(Protocol):
    """Gives what is on record of an execution. NOT_FOUND for an output whose file is gone."""

    async def get_code(self, name: str) -> str | None:
        """The code as it was handed in; None where whoever is asked keeps it to himself."""

    async def get_execution(self, name: str) -> ExecuteCodeResult: ...

    def events(self, name: str, *, late: bool) -> AsyncGenerator[Event | TailFrame, None]: ...

    async def get_rich_output(self, name: str, index: int) -> RichOutput: ...

    async def get_bundle(self, name: str, index: int) -> dict[str, Any]: ...

    async def read_text(self, name: str, which: StreamText, *, offset: int, limit: int) -> TextSlice: ...
