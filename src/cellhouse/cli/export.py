"""`cellhouse export`: what was executed, as a notebook, a page or Markdown."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from cellhouse.cli.documents import write_document
from cellhouse.cli.record import StateDir, recorded_in
from cellhouse.cli.service import OK, USAGE, Url, exit_with, read_name, with_service
from cellhouse.cli.sources import Local, Remote
from cellhouse.house import House
from cellhouse.model import ExecutionName, InvalidArgument, SessionName
from cellhouse.model.units import parse_size
from cellhouse.notebooks import FORMATS, Asked, BookLimits, Format, notebook, render

if TYPE_CHECKING:
    from cellhouse.client import AsyncClient  # httpx is slow to load, and not for who only runs some code

SUFFIXES: dict[str, Format] = {".ipynb": "ipynb", ".html": "html", ".htm": "html", ".md": "md"}


def export(
    name: Annotated[str, typer.Argument(metavar="RUNTIME/SESSION[/EXECUTION]")],
    form: Annotated[
        str | None,
        typer.Option("--format", metavar="|".join(FORMATS), help="Else by the end of FILE's name; ipynb."),
    ] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE|-", help="- is standard output, the default.")
    ] = "-",
    url: Url = None,
    output_limit: Annotated[
        str, typer.Option(metavar="SIZE", help="Of one output; a note stands for what is past it.")
    ] = "10M",
    total_limit: Annotated[str, typer.Option(metavar="SIZE", help="Of all outputs and code.")] = "100M",
    active: Annotated[
        bool,
        typer.Option(
            "--active", help="html and md: leave HTML and scripts of outputs as the code made them."
        ),
    ] = False,
    state_dir: StateDir = None,
) -> None:
    """Write what was executed as a Jupyter notebook, an HTML page or Markdown: of a session, a cell for each execution.

    Without --url it is read from a state directory, as `cellhouse show` does it; the code is in an export from there only.
    What is cut, dropped or gone is a note in its place. Runs nothing. html and md need cellhouse with its extra `notebooks`.

    In a page or Markdown nothing of an output runs or loads anything, unless --active: then whoever opens it runs what the
    executed code wrote.
    """
    target, chosen, limits = _read(name, form, output, output_limit, total_limit, active)

    async def work(source: "Local | Remote") -> int:
        asked = _asked(source, target)
        write_document(
            render(await notebook(source, str(target), asked, limits), chosen, active=active), output
        )
        return OK

    if url and state_dir is None:

        async def remote(client: "AsyncClient") -> int:
            return await work(Remote(client))

        with_service("export", url, remote)

    async def local() -> int:
        async with House(recorded_in(state_dir, target.runtime)) as house:
            return await work(Local(house))

    exit_with("export", local)


def _read(
    name: str, form: str | None, output: str, output_limit: str, total_limit: str, active: bool
) -> tuple[SessionName | ExecutionName, Format, BookLimits]:
    """What was given, before anything is opened. Exits with 2 where it is wrong."""
    try:
        target = read_name(name, SessionName, ExecutionName)
    except InvalidArgument as error:
        _usage(error.message)
    assert isinstance(target, SessionName | ExecutionName)
    chosen: Format = SUFFIXES.get(Path(output).suffix.lower(), "ipynb")
    if form is not None:
        found = next((each for each in FORMATS if each == form), None)
        if found is None:
            _usage(f"--format {form[:40]!a}: takes {', '.join(FORMATS)}")
        chosen = found
    if active and chosen == "ipynb":
        _usage("--active is for html and md; a notebook has all outputs as they are")
    if not output:
        _usage("--output: it is empty; give a file, or - for standard output")
    sizes = []
    for option, text in (("--output-limit", output_limit), ("--total-limit", total_limit)):
        try:
            sizes.append(parse_size(text))
        except ValueError as error:
            _usage(f"{option} {text[:40]!a}: {error}")
        if sizes[-1] < 2:
            _usage(f"{option} {text[:40]!a}: takes at least 2 bytes, such as 10M")
    return target, chosen, BookLimits(output=sizes[0], total=sizes[1])


def _usage(message: str) -> NoReturn:
    typer.echo(f"cellhouse export: {message}", err=True)
    raise typer.Exit(USAGE)


async def _asked(source: "Local | Remote", target: SessionName | ExecutionName) -> AsyncIterator[Asked]:
    if isinstance(target, ExecutionName):
        yield Asked(str(target))
        return
    token, nothing = "", True
    while True:
        found, token = await source.page(str(target), token)
        for each in found:
            nothing = False
            yield each
        if not token:
            break
    if nothing:
        await source.check_session(str(target))
