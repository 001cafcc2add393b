"""The commands and their options."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from cellhouse.cli.artifacts import app as artifacts_app
from cellhouse.cli.command import HINT, RunCommand, arguments_of
from cellhouse.cli.config import app as config_app, load_or_exit
from cellhouse.cli.cp import cp
from cellhouse.cli.doctor import doctor
from cellhouse.cli.env import app as env_app
from cellhouse.cli.export import export
from cellhouse.cli.journal import app as journal_app
from cellhouse.cli.limits import BadLimit, option_of, read_limits
from cellhouse.cli.logs import logs as logs_command
from cellhouse.cli.mcp import mcp
from cellhouse.cli.notebook import is_notebook, notebook_options, run_notebook
from cellhouse.cli.ps import ps
from cellhouse.cli.record import show
from cellhouse.cli.rm import interrupt, rm
from cellhouse.cli.run import Open, RunOptions, opened_here, run_code
from cellhouse.cli.serve import serve
from cellhouse.cli.service import Url, drop_stdout
from cellhouse.cli.token import app as token_app
from cellhouse.model import CellhouseError, InvalidArgument, NetworkPolicy, NotFound, SessionLimits
from cellhouse.runtime import json_log, logs
from cellhouse.sandbox import levels

USAGE, OTHER = 2, 3

app = typer.Typer(
    name="cellhouse",
    help="Runs code in live Jupyter kernels inside sandboxes, and tells the truth about what happened.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(artifacts_app, name="artifacts")
app.add_typer(config_app, name="config")
app.add_typer(env_app, name="env")
app.add_typer(journal_app, name="journal")
app.add_typer(token_app, name="token")
app.command()(cp)
app.command()(doctor)
app.command()(export)
app.command()(interrupt)
app.command(name="logs")(logs_command)
app.command()(mcp)
app.command()(ps)
app.command()(rm)
app.command()(serve)
app.command()(show)

LIMITS = "Limits of the runtime"
NOTEBOOK = "Of a notebook"
LOG_LEVELS: dict[str, logs.Level] = {"debug": "debug", "info": "info", "warning": "warning", "error": "error"}


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    log: Annotated[
        str | None,
        typer.Option(
            metavar="LEVEL",
            envvar="CELLHOUSE_LOG",
            help="Write our own log to stderr: debug, info, warning or error. Unasked, only serve does: info.",
        ),
    ] = None,
    log_content: Annotated[
        bool,
        typer.Option(
            "--log-content",
            envvar="CELLHOUSE_LOG_CONTENT",
            help="Let the log of serve have code and the words of exceptions in it, which it withholds.",
        ),
    ] = False,
) -> None:
    serves = context.invoked_subcommand == "serve"  # a program that runs by itself, and not for one caller
    if log is None and serves:
        log = "info"
    if log is not None:
        if log not in LOG_LEVELS:
            typer.echo(f"cellhouse: --log {log}: takes {', '.join(LOG_LEVELS)}", err=True)
            raise typer.Exit(USAGE)
        if serves:
            json_log.json_to_stderr(LOG_LEVELS[log], content=log_content)
        else:
            logs.to_stderr(LOG_LEVELS[log])
    if version:
        from cellhouse import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.command(cls=RunCommand)
def run(
    context: typer.Context,
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE.py|NOTEBOOK.ipynb|-",
            help="The code, or a notebook, cell by cell; - reads code from standard input.",
        ),
    ] = None,
    extra: Annotated[
        list[str] | None,
        typer.Argument(metavar="-- ARG", help="What the code gets as sys.argv, behind --."),
    ] = None,
    code: Annotated[str | None, typer.Option("-c", metavar="CODE", help="The code itself.")] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one ExecuteCodeResult and nothing else.")
    ] = False,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Interrupt the code after this long, then kill it; of a notebook, each cell.",
        ),
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
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE|-",
            help="Write the executed notebook; without it, there is no file.",
            rich_help_panel=NOTEBOOK,
        ),
    ] = None,
    keep_going: Annotated[
        bool,
        typer.Option("--keep-going", help="Run later cells after one that failed.", rich_help_panel=NOTEBOOK),
    ] = False,
    parameters: Annotated[
        list[str] | None,
        typer.Option(
            "--parameters",
            "-p",
            metavar="NAME=VALUE…",
            help="Set variables, in a cell behind the one tagged parameters; may be repeated.",
            rich_help_panel=NOTEBOOK,
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Such as 512M; 2G by default.", rich_help_panel=LIMITS),
    ] = None,
    cpus: Annotated[
        str | None,
        typer.Option(metavar="N", help="CPUs' worth of time, such as 0.5; 2.", rich_help_panel=LIMITS),
    ] = None,
    processes: Annotated[
        str | None,
        typer.Option(metavar="N", help="Processes and threads; 256.", rich_help_panel=LIMITS),
    ] = None,
    content: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Of all in /content; 4G.", rich_help_panel=LIMITS),
    ] = None,
    open_files: Annotated[
        str | None,
        typer.Option(metavar="N", help="Open files of one process; 1024.", rich_help_panel=LIMITS),
    ] = None,
    file_size: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Of one file; as --content.", rich_help_panel=LIMITS),
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(
            metavar="POLICY", help="What it may reach: none (default), allow=HOST:PORT,HOST:PORT, or open."
        ),
    ] = None,
    url: Url = None,
    runtime: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="With --url: a runtime that is there, instead of one of its own."),
    ] = None,
    session: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="With --url: the session of it, whose variables are there and stay."
        ),
    ] = None,
) -> None:
    """Run code in a fresh sandbox, like a notebook cell, or the cells of a notebook in one session.

    What stands behind -- is the code's own: in a Python kernel, sys.argv is FILE.py (or -c, or -) and then these. Without --
    sys.argv is left as the kernel has it.

    A limit that is named is held, or nothing runs.

    Exit status: 0 it ran (also where it ended itself with sys.exit(0)), 1 it raised, 2 usage, 3 anything else, 128 and the
    signal's number where SIGTERM or SIGHUP ended this command: the code is interrupted first, and its end recorded.
    """
    if extra and code is None:
        _usage(f"{' '.join(extra)}: {HINT}")
    if (runtime or session) and not url:
        _usage("--runtime and --session are those of a service; name it with --url")
    if network is not None and runtime:
        _usage("--network is for a new runtime, and --runtime names one that is there")
    if isolation is not None and not url and isolation not in levels():
        _usage(f"--isolation {isolation}: there is no such level; there are {', '.join(levels())}")
    try:
        limits = read_limits(
            {
                "memory": memory,
                "cpus": cpus,
                "processes": processes,
                "content": content,
                "openFiles": open_files,
                "fileSize": file_size,
            }
        )
    except BadLimit as error:
        _usage(f"{error}")
    notebook = file if code is None and file is not None and is_notebook(file) else None
    if notebook is None and (output is not None or keep_going or parameters):
        _usage("--output, --keep-going and --parameters are for a notebook; give one, such as NOTEBOOK.ipynb")
    options = RunOptions(
        code=_code(file, code) if notebook is None else "",
        json=json,
        timeout=timeout,
        isolation=isolation,
        kernel=kernel,
        environment=environment,
        inputs=_inputs(inputs or []),
        save=save,
        interactive=file != "-",
        limits=limits,
        network=_network(network),
        name=file if file is not None else "-c",
        arguments=arguments_of(context.meta),
        settings=None if url else load_or_exit("run").settings(),
    )
    try:
        if notebook is not None:
            book = notebook_options(notebook, options, output, keep_going, parameters or [])
            status = asyncio.run(run_notebook(book, _place(url, runtime, session)))
        else:
            status = asyncio.run(run_code(options, _place(url, runtime, session)))
    except CellhouseError as error:
        option = option_of(error)
        typer.echo(f"cellhouse: {f'{option}: ' if option else ''}{error.message}", err=True)
        # A name that nothing here has is as wrong as an option that does not exist.
        raise typer.Exit(USAGE if isinstance(error, InvalidArgument | NotFound) else OTHER) from None
    except BrokenPipeError:
        drop_stdout()
        typer.echo(
            "cellhouse: nobody read standard output any more before the code had ended; the runtime was closed",
            err=True,
        )
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


def _place(url: str | None, runtime: str | None, session: str | None) -> Open:
    """Where it is run. INVALID_ARGUMENT."""
    if not url:
        return opened_here
    from cellhouse.cli.remote import Place  # not for who runs code here: httpx is slow to load

    return Place.of(url, runtime, session).opened


def _network(text: str | None) -> NetworkPolicy | None:
    try:
        return None if text is None else NetworkPolicy.parse(text)
    except InvalidArgument as error:
        _usage(f"--network: {error.message.removeprefix('network: ')}")


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


def main() -> None:
    """The entry point."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115
    app()
