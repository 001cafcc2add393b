"""`cellhouse env`: environments by name, for runtimes on this machine."""

import json as json_text
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cellhouse.cli.config import ConfigFile, load_or_exit
from cellhouse.environments import find_environment, survey
from cellhouse.environments.making import (
    EnvironmentFacts,
    EnvironmentHome,
    facts,
    find_installer,
    find_interpreter,
    make_environment,
    read_requirements,
    register_kernelspec,
    register_prefix,
)
from cellhouse.model import AlreadyExists, CellhouseError, InvalidArgument, NotFound

USAGE, OTHER = 2, 3
_WIDE: Final = 500

app = typer.Typer(help="Make, list and remove the environments that code runs in.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The environment.")]
Python = Annotated[
    str | None,
    typer.Option(
        metavar="PATH", help="The Python it is made from: a path, a name, or 3.12; unasked, our own."
    ),
]
Replace = Annotated[bool, typer.Option("--replace", help="Let a name that is taken mean this from now on.")]


@app.command()
def create(
    name: Name,
    python: Python = None,
    packages: Annotated[
        list[str] | None,
        typer.Option(
            "--with", metavar="PKG", help="A package as pip takes it, such as 'polars>=1'; may be repeated."
        ),
    ] = None,
    requirements: Annotated[
        list[Path] | None,
        typer.Option("-r", "--requirement", metavar="FILE", help="A file of requirements; may be repeated."),
    ] = None,
    installer: Annotated[
        str | None,
        typer.Option(metavar="uv|pip", help="What installs; unasked uv where it is on PATH, else pip."),
    ] = None,
    upgrade: Annotated[
        bool, typer.Option("--upgrade", help="Resolve anew what was resolved before, to the newest releases.")
    ] = False,
    replace: Replace = False,
    json: Json = False,
    config: ConfigFile = None,
) -> None:
    """Make an environment. The same request is the same environment, whenever and under whatever name."""
    with _errors("create"):
        if installer not in (None, "uv", "pip"):
            raise InvalidArgument.of_field("installer", f"{installer[:40]!a} is none; there are uv and pip")
        asked = read_requirements(find_interpreter(python), packages or (), requirements or ())
        with find_installer(installer) as tool:
            made = make_environment(
                _home("create", config),
                name,
                asked,
                tool,
                replace=replace or upgrade,
                upgrade=upgrade,
                say=lambda text: typer.echo(f"cellhouse env create: {text}", err=True),
            )
        if json:
            typer.echo(json_text.dumps(facts(made.environment).to_wire() | {"built": made.built}))
        else:
            how = "made" if made.built else "was there already"
            count = len(made.lock.packages)
            typer.echo(
                f"{name}: {how}; {count} packages; cellhouse run --environment {name} … runs code in it"
            )


@app.command(name="list")
def list_(json: Json = False, config: ConfigFile = None) -> None:
    """Show every environment that a runtime can name, in the order in which they are found."""
    with _errors("list"):
        search = load_or_exit("env list", config).settings().environments
        found = survey(search)
        own = {entry.name for entry in _home("list", config).entries()}
        all_facts = [facts(environment) for environment in found.environments]
    if json:
        documents = [each.to_wire() | {"made": each.name in own} for each in all_facts]
        typer.echo(json_text.dumps({"environments": documents, "broken": dict(found.broken)}, indent=1))
        return
    rows = [
        (each.name, each.python, str(len(each.packages)), ", ".join(each.kernels), "env" if each.name in own else "", str(each.prefix))
        for each in all_facts
    ]  # fmt: skip
    _table(("NAME", "PYTHON", "PACKAGES", "KERNELS", "BY", "PREFIX"), rows)
    for name, wrong in found.broken.items():
        typer.echo(f"cellhouse env list: {name} can't be used: {wrong}", err=True)


@app.command()
def show(name: Name, json: Json = False, config: ConfigFile = None) -> None:
    """Show one environment: versions, size, and the lock of one that was made here."""
    with _errors("show"):
        search = load_or_exit("env show", config).settings().environments
        found = facts(find_environment(name, search), size=True)
    if json:
        typer.echo(json_text.dumps(found.to_wire(), indent=1))
    else:
        _show(found)


@app.command()
def remove(name: Name, config: ConfigFile = None) -> None:
    """Take a name away. Its files go too, unless another name means them or a runtime still uses them: then later."""
    with _errors("remove"):
        home = _home("remove", config)
        with home.held():
            entry = home.forget(name)
    stays = entry.own and entry.prefix.is_dir()
    why = "its files stay: another name means them, or a runtime uses them" if stays else "gone"
    typer.echo(f"{name}: {why if entry.own else f'forgotten; {entry.prefix} is left as it is'}")


@app.command()
def register(
    name: Name,
    prefix: Annotated[
        Path | None,
        typer.Argument(
            metavar="[PREFIX]", help="An environment that is there: conda's, or any with a kernel."
        ),
    ] = None,
    kernelspec: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Instead: the directory of a kernel.json, of R, Julia or what you like."
        ),
    ] = None,
    show: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR", help="With it: a directory that its program needs to be seen; may be repeated."
        ),
    ] = None,
    python: Python = None,
    replace: Replace = False,
    config: ConfigFile = None,
) -> None:
    """Give a name to an environment that others made, or to the kernel of another language."""
    with _errors("register"):
        if (prefix is None) == (kernelspec is None):
            raise InvalidArgument.of_field("prefix", "give either PREFIX or --kernelspec")
        home = _home("register", config)
        if prefix is not None:
            if show or python:
                raise InvalidArgument.of_field("show", "--show and --python go with --kernelspec")
            environment = register_prefix(home, name, prefix, replace=replace)
        else:
            assert kernelspec is not None
            environment = register_kernelspec(
                home, name, kernelspec, find_interpreter(python), shown=show or (), replace=replace
            )
        kernels = ", ".join((*(("native",) if environment.ipython else ()), *environment.kernels))
    typer.echo(f"{name}: registered; kernels: {kernels}")


def _home(command: str, config: Path | None) -> EnvironmentHome:
    return EnvironmentHome(load_or_exit(f"env {command}", config).config.env.home)


def _show(found: EnvironmentFacts) -> None:
    size = "" if found.size_bytes is None else f", {found.size_bytes / (1 << 20):,.0f} MiB"
    typer.echo(
        f"{found.name}: Python {found.python}, {len(found.packages)} packages{size}, in {found.prefix}"
    )
    typer.echo(f"kernels: {', '.join(found.kernels) or 'none'}")
    if found.lock is not None:
        typer.echo(f"asked for: {', '.join(found.asked)} (by {found.installer})")
        digests = {each.name: (each.hashes or (each.url,))[0] for each in found.lock.packages}
        rows = [(name, version, digests.get(name, "")) for name, version in found.packages]
        _table(("PACKAGE", "VERSION", "LOCK"), rows)
    else:
        _table(("PACKAGE", "VERSION"), found.packages)


def _table(names: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in names:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
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
        typer.echo(f"cellhouse env {command}: {error.message}", err=True)
        usage = isinstance(error, InvalidArgument | NotFound | AlreadyExists)
        raise typer.Exit(USAGE if usage else OTHER) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        typer.echo(f"cellhouse env {command}: {where}{error.strerror or error}", err=True)
        raise typer.Exit(OTHER) from None
