"""`cellhouse serve`: a house on the network, until it is told to stop."""

import asyncio
import resource
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cellhouse.doors.limits import DoorLimits
from cellhouse.model import CellhouseError, InvalidArgument
from cellhouse.runtime import Settings
from cellhouse.runtime.state import state_root

if TYPE_CHECKING:
    from cellhouse.doors.server import ServeOptions

PORT = 8_765
USAGE, OTHER = 2, 3
DESCRIPTORS = 65_536
"""Each connection takes one, each session some: so many are asked for, as far as the system lets."""


def serve(
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0 takes a free one and says which.")] = PORT,
    uds: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Listen on a unix socket instead of TCP.")
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option(metavar="FILE.pem", help="Speak TLS with this certificate chain.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE.pem", help="The certificate's key.")] = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A name this service is called by; may be repeated."),
    ] = None,
    cors_origin: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="An origin whose pages may call; may be repeated."),
    ] = None,
    drain_seconds: Annotated[
        float, typer.Option(min=0, help="What running code gets to end by itself once we are told to stop.")
    ] = DoorLimits().drain_seconds,
) -> None:
    """Put a house on the network. State lives below CELLHOUSE_STATE_DIR, else in the XDG state directory."""
    from cellhouse.doors.server import ServeOptions  # not for who only runs some code: it is slow to load

    options = ServeOptions(
        host=host,
        port=port,
        uds=uds,
        certificate=tls_cert,
        key=tls_key,
        allowed_hosts=tuple(allowed_host or ()),
        cors_origins=tuple(cors_origin or ()),
        limits=replace(DoorLimits(), drain_seconds=drain_seconds),
    )
    try:
        asyncio.run(_serve(Settings(state_dir=state_root()), options))
    except CellhouseError as error:
        typer.echo(f"cellhouse serve: {error.message}", err=True)
        raise typer.Exit(USAGE if isinstance(error, InvalidArgument) else OTHER) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        typer.echo(f"cellhouse serve: {where}{error.strerror or error}", err=True)
        raise typer.Exit(OTHER) from None


async def _serve(settings: Settings, options: "ServeOptions") -> None:
    from cellhouse.doors.server import Service

    _raise_descriptors()
    async with Service(settings, options) as service:
        typer.echo(f"cellhouse: listening on {service.url}")
        await service.run()
        typer.echo(
            "cellhouse: stopping; what runs may end by itself, a second signal interrupts it", err=True
        )


def _raise_descriptors() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
