"""`cellhouse journal`: looking after the records of a house that is not running."""

import asyncio
import json
from pathlib import Path
from typing import Annotated

import typer

from cellhouse.journal import Journal
from cellhouse.model import CellhouseError, RetentionLimits, SystemClock
from cellhouse.runtime.state import state_root

FAILED, OTHER = 1, 3

app = typer.Typer(
    help="Check the records of a state directory, or rebuild their index.", no_args_is_help=True
)

StateDir = Annotated[
    Path | None,
    typer.Option(
        "--state-dir", metavar="DIR", help="The state directory of the house; its `journal` is meant."
    ),
]


@app.command()
def verify(state_dir: StateDir = None) -> None:
    """Compare the index with the record files. Exit status 1 where they differ or a record is damaged."""
    report = _with_journal(state_dir, Journal.verify)
    raise typer.Exit(0 if report.ok else FAILED)


@app.command()
def rebuild(state_dir: StateDir = None) -> None:
    """Make the index anew from the record files, which are the truth."""
    _with_journal(state_dir, Journal.rebuild)


def _with_journal(state_dir: Path | None, action):  # type: ignore[no-untyped-def]
    directory = (state_dir or state_root()) / "journal"
    if not directory.is_dir():
        typer.echo(
            f"cellhouse journal: {directory} does not exist; name a state directory with --state-dir",
            err=True,
        )
        raise typer.Exit(2)

    async def act():  # type: ignore[no-untyped-def]
        journal = await Journal.open(directory, clock=SystemClock(), retention=RetentionLimits())
        try:
            return await action(journal)
        finally:
            await journal.close()

    try:
        report = asyncio.run(act())
    except CellhouseError as error:
        typer.echo(f"cellhouse journal: {error.message}", err=True)
        raise typer.Exit(OTHER) from None
    typer.echo(json.dumps(report.to_dict(), indent=2))
    return report
