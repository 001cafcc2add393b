"""`cellhouse mcp`: tools for a model over standard input and output, with a house of its own or as a bridge to a service."""

import asyncio
import contextlib
import signal
from collections.abc import Awaitable
from dataclasses import replace
from typing import Annotated

import typer

from cellhouse.cli.config import ConfigFile, Set, load_or_exit
from cellhouse.cli.service import Url
from cellhouse.config import Flag
from cellhouse.model import CellhouseError, InvalidArgument, SystemClock
from cellhouse.runtime import Settings
from cellhouse.runtime.state import own_state_dir

USAGE, OTHER = 2, 3


def mcp(
    url: Url = None,
    isolation: Annotated[
        str | None,
        typer.Option(metavar="LEVEL", help="bubblewrap (default), or none, which must be asked for."),
    ] = None,
    config: ConfigFile = None,
    set_: Set = None,
) -> None:
    """Let a model run code: an MCP server on standard input and output.

    Alone it has a house of its own with a runtime `default`, which end with standard input. With --url it is a bridge to a
    service, where everything goes on when this command ends; the token is that of CELLHOUSE_TOKEN, or the one that serve made
    for this account. Standard output carries the protocol and nothing else; --log goes to standard error.
    """
    try:
        if url:
            asyncio.run(_until_told(_bridge(url)))
        else:
            flags = {} if isolation is None else {"walls.isolation": Flag(isolation, "--isolation")}
            asyncio.run(_until_told(_embedded(load_or_exit("mcp", config, set_ or (), flags).settings())))
    except CellhouseError as error:
        typer.echo(f"cellhouse mcp: {error.message}", err=True)
        raise typer.Exit(USAGE if isinstance(error, InvalidArgument) else OTHER) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        typer.echo(f"cellhouse mcp: {where}{error.strerror or error}", err=True)
        raise typer.Exit(OTHER) from None


async def _until_told(work: Awaitable[None]) -> None:
    """The work, which a signal ends as the end of standard input does."""
    working = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, working.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await working


async def _embedded(settings: Settings) -> None:
    from cellhouse.cli.mcp_embedded import embedded
    from cellhouse.doors.mcp.server import EMBEDDED
    from cellhouse.doors.mcp.stdio import serve_stdio

    own = replace(settings, state_dir=own_state_dir(SystemClock(), settings.state_dir))
    async with embedded(own) as place:
        await serve_stdio(place, instructions=EMBEDDED, ready=place.ready)


async def _bridge(url: str) -> None:
    from cellhouse.cli.mcp_bridge import ClientPlace
    from cellhouse.client import AsyncClient
    from cellhouse.doors.mcp.server import OF_SERVICE
    from cellhouse.doors.mcp.stdio import serve_stdio

    async with AsyncClient(url) as client:
        await serve_stdio(ClientPlace(client), instructions=OF_SERVICE)
