"""Commands that talk to a service: their common options, names in short, errors as exit statuses."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import pydantic_core
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cellhouse.cli.show import tame
from cellhouse.model import (
    CellhouseError,
    ExecutionName,
    InvalidArgument,
    NotFound,
    RuntimeName,
    SessionName,
)

if TYPE_CHECKING:
    from cellhouse.client import AsyncClient  # httpx is slow to load, and not for who only runs some code

OK, USAGE, OTHER, INTERRUPTED = 0, 2, 3, 130
WIDTH: Final = 110
"""Columns where standard output is no terminal."""

Url = Annotated[
    str | None,
    typer.Option(
        "--url", metavar="URL", envvar="CELLHOUSE_URL", help="The service: http://…, https://… or unix:///…"
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]

Name = RuntimeName | SessionName | ExecutionName
_FORMS: Final = {
    RuntimeName: "RUNTIME",
    SessionName: "RUNTIME/SESSION",
    ExecutionName: "RUNTIME/SESSION/EXECUTION",
}


def read_name(text: str, *kinds: type[Name]) -> Name:
    """A name of one of these kinds: in full, or its ids with slashes in between. INVALID_ARGUMENT."""
    parts = text.split("/")
    if parts[0] == "runtimes" and len(parts) % 2 == 0:
        parts = parts[1::2] if parts[::2] == ["runtimes", "sessions", "executions"][: len(parts) // 2] else []
    found: Name | None = None
    if len(parts) == 1:
        found = RuntimeName(parts[0])
    elif len(parts) == 2:
        found = SessionName(*parts)
    elif len(parts) == 3:
        found = ExecutionName(*parts)
    if found is None or not isinstance(found, kinds):
        forms = " or ".join(_FORMS[kind] for kind in kinds)
        raise InvalidArgument.of_field(
            "name", f"{text[:200]!a} is no name of this kind; it takes {forms}, or the name in full"
        )
    return found


def with_service(
    command: str, url: str | None, work: "Callable[[AsyncClient], Awaitable[int]]", **options: Any
) -> NoReturn:
    """Do the work with a client of the service, and exit with the status that it gives."""

    from cellhouse.client import AsyncClient

    async def connected() -> int:
        async with AsyncClient(needed(url), **options) as client:
            return await work(client)

    exit_with(command, connected)


def exit_with(command: str, work: Callable[[], Awaitable[int]]) -> NoReturn:
    """Do the work and exit with the status that it gives, or with that of what went wrong."""

    async def done() -> int:
        return await work()

    try:
        status = asyncio.run(done())
        sys.stdout.flush()
    except CellhouseError as error:
        typer.echo(f"cellhouse {command}: {error.message}", err=True)
        raise typer.Exit(USAGE if isinstance(error, InvalidArgument | NotFound) else OTHER) from None
    except BrokenPipeError:
        drop_stdout()
        raise typer.Exit(OTHER) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        typer.echo(f"cellhouse {command}: {where}{error.strerror or error}", err=True)
        raise typer.Exit(OTHER) from None
    except (asyncio.CancelledError, KeyboardInterrupt):
        raise typer.Exit(INTERRUPTED) from None
    raise typer.Exit(status)


def needed(url: str | None) -> str:
    """The URL; INVALID_ARGUMENT where there is none, for there is no house here that others could be asked about."""
    if not url:
        raise InvalidArgument.of_field(
            "--url",
            "there is none; name a running service (cellhouse serve), or set CELLHOUSE_URL, such as http://127.0.0.1:8765",
        )
    return url


def print_json(document: Any) -> None:
    """One document on one line."""
    sys.stdout.write(pydantic_core.to_json(document).decode() + "\n")
    sys.stdout.flush()


def print_table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    """A table for people. What is in it may come from hostile code."""
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for name in head:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(tame(cell)[0]) for cell in row))
    Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH).print(table)


def drop_stdout() -> None:
    """Nobody reads any more: what Python would still flush at exit has nowhere to go."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
