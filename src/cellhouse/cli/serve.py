"""`cellhouse serve`: a house on the network, until it is told to stop."""

import asyncio
import gc
import resource
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cellhouse.cli.config import ConfigFile, Set, load_or_exit
from cellhouse.config import Flag
from cellhouse.model import CellhouseError, FailedPrecondition, InvalidArgument, SystemClock
from cellhouse.runtime import Settings
from cellhouse.runtime.loops import run
from cellhouse.tokens import TokenStore

if TYPE_CHECKING:
    from cellhouse.doors.server import ServeOptions

USAGE, OTHER = 2, 3
DESCRIPTORS = 65_536
"""Each connection takes one, each session some: so many are asked for, as far as the system lets."""


def serve(
    host: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Where to listen; 127.0.0.1 by default.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65_535, help="8765 by default; 0 takes a free one and says which."),
    ] = None,
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
        float | None,
        typer.Option(
            min=0, help="What running code gets to end by itself once we are told to stop; 30 by default."
        ),
    ] = None,
    keep: Annotated[
        bool,
        typer.Option(
            "--keep", help="When told to stop, leave the runtimes to the next service. SIGUSR2 does so once."
        ),
    ] = False,
    in_process: Annotated[
        bool,
        typer.Option(
            "--in-process", help="Have the runtimes in this process: they end with it, however it ends."
        ),
    ] = False,
    config: ConfigFile = None,
    set_: Set = None,
) -> None:
    """Put a house on the network.

    Each runtime lives in a process of its own, its keeper, and goes on where this one is killed and started again.

    Settings come from a file, variables and options; `cellhouse config show` lists them. Whoever calls needs a token
    (`cellhouse token create`). Where there is none, one is made for this account and told once, on a local address only.
    """
    given = {
        "serve.host": (host, "--host"),
        "serve.port": (port, "--port"),
        "serve.uds": (uds, "--uds"),
        "serve.tls_cert": (tls_cert, "--tls-cert"),
        "serve.tls_key": (tls_key, "--tls-key"),
        "serve.allowed_hosts": (allowed_host or None, "--allowed-host"),
        "serve.cors_origins": (cors_origin or None, "--cors-origin"),
        "serve.keep": (keep or None, "--keep"),
        "serve.keepers": (False if in_process else None, "--in-process"),
        "limits.drain_seconds": (drain_seconds, "--drain-seconds"),
    }
    flags = {name: Flag(value, option) for name, (value, option) in given.items() if value is not None}
    loaded = load_or_exit("serve", config, set_ or (), flags)
    try:
        run(_serve(loaded.settings(), loaded.serve_options()))
    except CellhouseError as error:
        typer.echo(f"cellhouse serve: {error.message}", err=True)
        raise typer.Exit(USAGE if isinstance(error, InvalidArgument) else OTHER) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        typer.echo(f"cellhouse serve: {where}{error.strerror or error}", err=True)
        raise typer.Exit(OTHER) from None


async def _serve(settings: Settings, options: "ServeOptions") -> None:
    from cellhouse.doors.bearer import BearerAuthenticator
    from cellhouse.doors.server import Service
    from cellhouse.tokens import TokenBook

    _raise_descriptors()
    store = TokenStore(settings.state_dir, SystemClock())
    _have_token(store, options)
    authenticator = BearerAuthenticator(TokenBook(store.place, SystemClock()))
    async with Service(settings, options, authenticator=authenticator) as service:
        # What is there now stays: looked through at each full collection, it would hold up everybody for nothing.
        gc.collect()
        gc.freeze()
        # Said when signals are heeded, which `run` sees to first: whoever reads it may have us stop at once.
        asyncio.get_running_loop().call_soon(typer.echo, f"cellhouse: listening on {service.url}")
        await service.run()
        if service.keeping:
            typer.echo("cellhouse: stopping; runtimes go on, for the next service", err=True)
        else:
            typer.echo(
                "cellhouse: stopping; what runs may end by itself, a second signal interrupts it", err=True
            )


def _have_token(store: TokenStore, options: "ServeOptions") -> None:
    """There is a valid token from here on: where nobody else can call, one is made if need be."""
    from cellhouse.doors.server import is_local

    if options.uds is None and not is_local(options.host):
        if not store.valid():
            raise FailedPrecondition(
                f"--host {options.host}: others can reach this address, and there is no token that would let anybody in. "
                "Make one first (cellhouse token create --scope read,execute), or listen on 127.0.0.1 or a unix socket "
                "(--uds)",
                reason="TOKENS_NEEDED",
                metadata={"host": options.host},
            )
        return
    made = store.ensure()
    if made is not None:
        typer.echo(
            f"cellhouse: there was no token, so this one was made, and is told this once:\n  {made.text}\n"
            f"cellhouse on this account finds it in {store.place.local}",
            err=True,
        )


def _raise_descriptors() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
