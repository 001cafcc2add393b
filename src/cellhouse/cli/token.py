"""`cellhouse token`: who may call a service. What is changed here holds on a running one from its next request on."""

import json as json_text
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cellhouse.cli.config import ConfigFile, load_or_exit
from cellhouse.model import CellhouseError, InvalidArgument, NotFound, SystemClock
from cellhouse.tokens import LOCAL_TENANT, Scope, Token, TokenStore, parse_expires

USAGE, OTHER = 2, 3
_WIDE: Final = 500
"""Columns where nobody looks: rows of a table stay on one line each."""

app = typer.Typer(help="Make, list and revoke the tokens of a service.", no_args_is_help=True)

StateDir = Annotated[
    Path | None,
    typer.Option(
        "--state-dir", metavar="DIR", help="The service's state directory; unasked, the configured one."
    ),
]


@app.command()
def create(
    scope: Annotated[
        list[str],
        typer.Option(
            "--scope",
            metavar="SCOPE",
            help="read, execute or admin; none includes another. May be repeated, or have commas in between.",
        ),
    ],
    tenant: Annotated[
        str, typer.Option(metavar="ID", help="Whose things it reaches: those of no other tenant.")
    ] = LOCAL_TENANT,
    expires: Annotated[
        str | None,
        typer.Option(metavar="WHEN", help="30d, 12h, or 2030-01-31T12:00:00Z; unasked, never."),
    ] = None,
    label: Annotated[str, typer.Option(metavar="TEXT", help="What it is for, for whoever lists it.")] = "",
    state_dir: StateDir = None,
    config: ConfigFile = None,
) -> None:
    """Make a token, and print it alone on stdout. It is told this once: only its digest is kept."""
    clock = SystemClock()
    with _errors("create"):
        store = _store("create", state_dir, config)
        made = store.create(
            _scopes(scope),
            tenant=tenant,
            expires=None if expires is None else parse_expires(expires, clock.now()),
            label=label,
        )
    typer.echo(made.text)
    typer.echo(f"cellhouse token create: {_told(made.token)}", err=True)


@app.command(name="list")
def list_(
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    state_dir: StateDir = None,
    config: ConfigFile = None,
) -> None:
    """Show all tokens that were not revoked, the oldest first; never their text."""
    now = SystemClock().now()
    with _errors("list"):
        tokens = _store("list", state_dir, config).list()
    if json:
        typer.echo(json_text.dumps([token.told(now) for token in tokens], indent=2))
    elif tokens:
        _show(tokens, now)
    else:
        typer.echo("cellhouse token list: there is none; `cellhouse token create` makes one", err=True)


@app.command()
def revoke(
    token: Annotated[str, typer.Argument(metavar="ID", help="As `list` shows it; not the token itself.")],
    state_dir: StateDir = None,
    config: ConfigFile = None,
) -> None:
    """Take a token back. A running service refuses it at once, and ends what it still has open within seconds."""
    with _errors("revoke"):
        revoked = _store("revoke", state_dir, config).revoke(token)
    typer.echo(f"revoked {_told(revoked)}")


def _store(command: str, state_dir: Path | None, config: Path | None) -> TokenStore:
    directory = state_dir or load_or_exit(f"token {command}", config).config.state.dir
    return TokenStore(directory.absolute(), SystemClock())


def _scopes(given: list[str]) -> frozenset[Scope]:
    words = {word.strip() for text in given for word in text.split(",")}
    known = {scope.value: scope for scope in Scope}
    for word in sorted(words):
        if word not in known:
            raise InvalidArgument.of_field("scope", f"{word[:80]!a} is none; there are {', '.join(known)}")
    return frozenset(known[word] for word in words)


def _told(token: Token) -> str:
    until = f"expires {token.expires}" if token.expires else "does not expire"
    return f"{token.id}: tenant {token.tenant}, {', '.join(sorted(token.scopes))}, {until}"


def _show(tokens: tuple[Token, ...], now: datetime) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("ID", "TENANT", "SCOPES", "CREATED", "EXPIRES", "LABEL"):
        table.add_column(name, overflow="fold")
    for token in tokens:
        expires = (token.expires or "never") + (" (has)" if token.is_expired(now) else "")
        cells = (token.id, token.tenant, ",".join(sorted(token.scopes)), token.created, expires, token.label)
        table.add_row(*map(Text, cells))
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _WIDE
    console.print(table)


@contextmanager
def _errors(command: str) -> Iterator[None]:
    """What goes wrong is told on stderr: exit status 2 where it is what was asked for, 3 otherwise."""
    try:
        yield
    except CellhouseError as error:
        typer.echo(f"cellhouse token {command}: {error.message}", err=True)
        raise typer.Exit(USAGE if isinstance(error, InvalidArgument | NotFound) else OTHER) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        typer.echo(f"cellhouse token {command}: {where}{error.strerror or error}", err=True)
        raise typer.Exit(OTHER) from None
