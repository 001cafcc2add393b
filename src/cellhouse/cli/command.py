"""The command `run`, whose own arguments end at `--`: what comes after is the code's."""

from typing import Any, Final

import typer
from typer.core import TyperCommand

HINT: Final = "arguments of the code go behind --, as in: cellhouse run FILE.py -- --its-option value"
_KEY: Final = "cellhouse.arguments"


class RunCommand(TyperCommand):
    """Keeps what stands behind the first `--` apart; click would take it for arguments of the command."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        if "--" in args:
            at = args.index("--")
            args, ctx.meta[_KEY] = args[:at], tuple(args[at + 1 :])
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            # By its name: where the class lives depends on the release of typer.
            if type(error).__name__ == "NoSuchOption":
                typer.echo(f"cellhouse run: {HINT}", err=True)
            raise


def arguments_of(meta: dict[str, Any]) -> tuple[str, ...]:
    """What stood behind `--`, from the context's `meta`."""
    return tuple(meta.get(_KEY, ()))
