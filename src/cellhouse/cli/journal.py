"""`cellhouse journal`: looking after the records of a house that is not running."""

import asyncio
import dataclasses
import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from cellhouse.cli.config import load_or_exit
from cellhouse.journal import RebuildReport, VerifyReport, rebuild_journal, verify_journal
from cellhouse.model import CellhouseError, SystemClock

DIFFERS, USAGE, OTHER = 1, 2, 3

app = typer.Typer(
    help="Check the records of a state directory, or rebuild their index.", no_args_is_help=True
)

StateDir = Annotated[
    Path | None,
    typer.Option("--state-dir", metavar="DIR", help="The state directory of a house that is not running."),
]
_Report = TypeVar("_Report", VerifyReport, RebuildReport)


@app.command()
def verify(state_dir: StateDir = None) -> None:
    """Compare the index with the record files. Exit status 1 where they differ or a record is damaged."""
    report = _told(verify_journal(_directory(state_dir)))
    raise typer.Exit(0 if report.ok else DIFFERS)


@app.command()
def rebuild(state_dir: StateDir = None) -> None:
    """Make the index anew from the record files, which are the truth."""
    _told(rebuild_journal(_directory(state_dir), clock=SystemClock()))


def _directory(state_dir: Path | None) -> Path:
    directory = (state_dir or load_or_exit("journal").config.state.dir) / "journal"
    if not directory.is_dir():
        typer.echo(
            f"cellhouse journal: there is no {directory}; name a state directory with --state-dir "
            "(`cellhouse run` prints the one it used)",
            err=True,
        )
        raise typer.Exit(USAGE)
    return directory


def _told(work: Coroutine[Any, Any, _Report]) -> _Report:
    try:
        report = asyncio.run(work)
    except CellhouseError as error:
        typer.echo(f"cellhouse journal: {error.message}", err=True)
        raise typer.Exit(OTHER) from None
    typer.echo(json.dumps(dataclasses.asdict(report), indent=2))
    return report
