"""The command `run`, whose own arguments end at `--`: what comes after is the code's."""

import re
from typing import Any, Final

import typer
from typer.core import TyperCommand

HINT: Final = "arguments of the code go behind --, as in: cellhouse run FILE.py -- --its-option value"
_PARAMETERS: Final = ("--parameters", "-p")
_PARAMETER: Final = re.compile(r"[^\W\d]\w*=", re.DOTALL)
_KEY: Final = "cellhouse.arguments"


class RunCommand(TyperCommand):
    """Keeps what stands behind the first `--` apart; click would take it for arguments of the command."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        if "--" in args:
            at = args.index("--")
            args, ctx.meta[_KEY] = args[:at], tuple(args[at + 1 :])
        try:
            return super().parse_args(ctx, _each_parameter(args))
        except Exception as error:
            # By its name: where the class lives depends on the release of typer.
            if type(error).__name__ == "NoSuchOption":
                typer.echo(f"cellhouse run: if an option is meant for the code: {HINT}", err=True)
            raise


def _each_parameter(args: list[str]) -> list[str]:
    """With the option in front of each of several parameters: click takes one value an option."""
    made: list[str] = []
    at = 0
    while at < len(args):
        made.append(args[at])
        at += 1
        if made[-1] not in _PARAMETERS:
            continue
        made += args[at : at + 1]
        at += 1
        while at < len(args) and _PARAMETER.match(args[at]):
            made += [_PARAMETERS[0], args[at]]
            at += 1
    return made


def arguments_of(meta: dict[str, Any]) -> tuple[str, ...]:
    """What stood behind `--`, from the context's `meta`."""
    return tuple(meta.get(_KEY, ()))
