"""`cellhouse rm` and `cellhouse interrupt`: ending things, or only what runs in them."""

from typing import TYPE_CHECKING, Annotated

import typer

from cellhouse.cli.service import OK, OTHER, Json, Url, print_json, read_name, with_service
from cellhouse.model import ExecutionName, NotFound, RuntimeName, SessionName

if TYPE_CHECKING:
    from cellhouse.client import AsyncClient  # httpx is slow to load, and not for who only runs some code


def rm(
    names: Annotated[list[str], typer.Argument(metavar="RUNTIME|RUNTIME/SESSION…")],
    url: Url = None,
    json: Json = False,
    force: Annotated[bool, typer.Option("--force", "-f", help="What is not there is no error.")] = False,
) -> None:
    """Delete runtimes with their files, or sessions. What runs there is ended; its record stays."""

    async def work(client: "AsyncClient") -> int:
        targets = [read_name(name, RuntimeName, SessionName) for name in names]
        for target in targets:
            try:
                if isinstance(target, RuntimeName):
                    await client.delete_runtime(str(target))
                else:
                    await client.delete_session(str(target))
            except NotFound:
                if not force:
                    raise
                continue
            print_json({"deleted": str(target)}) if json else typer.echo(f"{target}")
        return OK

    with_service("rm", url, work)


def interrupt(
    name: Annotated[str, typer.Argument(metavar="RUNTIME/SESSION[/EXECUTION]")],
    url: Url = None,
    json: Json = False,
) -> None:
    """Interrupt what runs in a session, or one execution, which is ended where it still waits.

    Exit status: 0 it was asked for, 3 nothing ran in the session.
    """

    async def work(client: "AsyncClient") -> int:
        target = read_name(name, SessionName, ExecutionName)
        interrupted = True
        if isinstance(target, ExecutionName):
            await client.cancel(str(target))
        else:
            interrupted = await client.interrupt(str(target))
        if json:
            print_json({"name": str(target), "interrupted": interrupted})
        elif not interrupted:
            typer.echo(f"cellhouse interrupt: nothing runs in {target}", err=True)
        return OK if interrupted else OTHER

    with_service("interrupt", url, work)
