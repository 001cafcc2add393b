"""The commands and their options."""

import asyncio
import contextlib
import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from cellhouse.cli.journal import app as journal_app
from cellhouse.cli.run import RunOptions, run_code
from cellhouse.model import CellhouseError, InvalidArgument, NotFound, SessionLimits
from cellhouse.sandbox import levels

USAGE, OTHER = 2, 3

app = typer.Typer(
    name="cellhouse",
    help="Runs code in live Jupyter kernels inside sandboxes, and tells the truth about what happened.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(journal_app, name="journal")


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        from cellhouse import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.command()
def run(
    file: Annotated[
        str | None, typer.Argument(metavar="FILE.py | -", help="The code; - reads standard input.")
    ] = None,
    code: Annotated[str | None, typer.Option("-c", metavar="CODE", help="The code itself.")] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one ExecuteCodeResult and nothing else.")
    ] = False,
    timeout: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Interrupt the code after this long, then kill it."),
    ] = None,
    isolation: Annotated[
        str | None,
        typer.Option(metavar="LEVEL", help="bubblewrap (default), or none, which must be asked for."),
    ] = None,
    kernel: Annotated[str | None, typer.Option(metavar="NAME", help="A kernel of the environment.")] = None,
    environment: Annotated[
        str, typer.Option(metavar="NAME", help="The environment the code runs in.")
    ] = "default",
    inputs: Annotated[
        list[Path] | None,
        typer.Option("--input", metavar="FILE", help="Copy into /content first; may be repeated."),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Export rich outputs and the files made into this directory."),
    ] = None,
) -> None:
    """Run code in a fresh sandbox. Exit status: 0 it ran, 1 it raised, 2 usage, 3 anything else."""
    if isolation is not None and isolation not in levels():
        _usage(f"--isolation {isolation}: there is no such level; there are {', '.join(levels())}")
    options = RunOptions(
        code=_code(file, code),
        json=json,
        timeout=timeout,
        isolation=isolation,
        kernel=kernel,
        environment=environment,
        inputs=_inputs(inputs or []),
        save=save,
        interactive=file != "-",
    )
    try:
        status = asyncio.run(run_code(options))
    except CellhouseError as error:
        typer.echo(f"cellhouse: {error.message}", err=True)
        # A name that nothing here has is as wrong as an option that does not exist.
        raise typer.Exit(USAGE if isinstance(error, InvalidArgument | NotFound) else OTHER) from None
    except BrokenPipeError:
        _drop_stdout()
        raise typer.Exit(OTHER) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        typer.echo(
            f"cellhouse: {where}{error.strerror or error}; state lives below CELLHOUSE_STATE_DIR, name a directory "
            "that can be written",
            err=True,
        )
        raise typer.Exit(OTHER) from None
    except (asyncio.CancelledError, KeyboardInterrupt):
        typer.echo("cellhouse: left before the code had ended; the runtime was closed", err=True)
        raise typer.Exit(OTHER) from None
    raise typer.Exit(status)


def _code(file: str | None, code: str | None) -> str:
    if (file is None) == (code is None):
        _usage("give exactly one of FILE.py, -c CODE, or - for standard input")
    if code is not None:
        return code
    assert file is not None
    try:
        raw = _read(file)
    except OSError as error:
        _usage(f"{file}: {error.strerror or error}; give a file that can be read")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        _usage(f"{file}: not UTF-8 at byte {error.start}; save the code as UTF-8")


def _read(file: str) -> bytes:
    limit = SessionLimits().code_bytes
    with sys.stdin.buffer if file == "-" else Path(file).open("rb") as source:
        raw = source.read(limit + 1)
    if len(raw) > limit:
        _usage(f"{file}: code of more than {limit} bytes; put data into a file and give it with --input")
    return raw


def _inputs(paths: list[Path]) -> dict[str, Path]:
    named: dict[str, Path] = {}
    for path in paths:
        if not path.is_file():
            _usage(f"--input {path}: no such file; give a regular file")
        if path.name in named:
            _usage(f"--input {path}: two inputs are named {path.name!r}; rename one, they share /content")
        named[path.name] = path
    return named


def _usage(message: str) -> NoReturn:
    typer.echo(f"cellhouse run: {message}", err=True)
    raise typer.Exit(USAGE)


def _drop_stdout() -> None:
    """Nobody reads any more: what Python would still flush at exit has nowhere to go."""
    with contextlib.suppress(OSError):
        sys.stdout = open("/dev/null", "w")  # noqa: SIM115


def main() -> None:
    """The entry point."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115
    app()
