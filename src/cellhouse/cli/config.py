"""`cellhouse config`: which settings are in force, and where each came from."""

import json as json_text
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from cellhouse.config import ConfigInvalid, Flag, Loaded, load, to_json, to_toml

USAGE = 2

app = typer.Typer(help="The settings of a service.", no_args_is_help=True)

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE.toml",
        help="Settings; unasked CELLHOUSE_CONFIG, else cellhouse/config.toml in the XDG configuration directory.",
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="One setting, by its name; may be repeated."),
]


@app.callback()
def _config() -> None:
    pass


@app.command()
def show(
    config: ConfigFile = None,
    set_: Set = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Print every setting with its value and where that came from: the default, a file, a variable, an option.

    The output is a file of settings itself. Later wins: the file, then variables CELLHOUSE_SECTION_KEY, then options.
    """
    loaded = load_or_exit("config show", config, set_ or ())
    for variable in loaded.ignored:
        typer.echo(f"cellhouse config show: {variable} is no setting, and is not looked at", err=True)
    typer.echo(json_text.dumps(to_json(loaded), indent=2) if json else to_toml(loaded), nl=json)


def load_or_exit(
    command: str,
    file: Path | None = None,
    sets: Sequence[str] = (),
    flags: Mapping[str, Flag] | None = None,
) -> Loaded:
    """All settings; where they can't be, what is wrong with them on stderr, and exit status 2.

    `sets` are texts `section.key=value`, which go before `flags`, options of their own.
    """
    given = {}
    for text in sets:
        name, equals, value = text.partition("=")
        if not equals or "." not in name:
            typer.echo(
                f"cellhouse {command}: --set {text[:120]!a}: takes NAME=VALUE, such as limits.max_streams=64",
                err=True,
            )
            raise typer.Exit(USAGE)
        given[name.strip()] = Flag(value, "--set")
    try:
        return load(file, flags={**given, **(flags or {})})
    except ConfigInvalid as error:
        for where, rule in error.violations:
            typer.echo(f"cellhouse {command}: {where}: {rule}", err=True)
        raise typer.Exit(USAGE) from None
