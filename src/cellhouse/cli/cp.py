"""`cellhouse cp`: files into a runtime and out of it."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from cellhouse.cli.service import OK, Json, Url, print_json, read_name, with_service
from cellhouse.cli.show import size_text, tame
from cellhouse.files import exact_name, unescape_name
from cellhouse.model import FileWritten, InvalidArgument, RuntimeName

if TYPE_CHECKING:
    from cellhouse.client import (  # httpx is slow to load, and not for who only runs some code
        AsyncClient,
        Progress as Told,
    )

CONTENT = "/content/"


def cp(
    source: Annotated[str, typer.Argument(metavar="FILE|RUNTIME:PATH")],
    target: Annotated[str, typer.Argument(metavar="RUNTIME:PATH|FILE")],
    url: Url = None,
    json: Json = False,
) -> None:
    """Copy one file into /content of a runtime, or from there. What stands at the target is replaced, whole.

    A path of a runtime is one below /content; one that ends with a slash, or is left out, is a directory for the file. A
    local path with a colon in it is written with a slash before it, as in ./a:b.
    """

    async def work(client: "AsyncClient") -> int:
        there, here = _remote(source), _remote(target)
        if (there is None) == (here is None):
            raise InvalidArgument.of_field(
                "target",
                "one of both is RUNTIME:PATH, and the other a file of this machine; give one of each",
            )
        if here is not None:
            runtime, path = here
            local = Path(source)
            if not path or path.endswith("/"):
                path += exact_name(os.fsencode(local.name))
            with _shown(json, local.name) as progress:
                written = await client.upload(runtime, path, local, progress=progress)
            _told(written, f"{runtime.removeprefix('runtimes/')}:{path}", json)
        elif there is not None:
            runtime, path = there
            local = Path(target)
            if local.is_dir():
                local /= os.fsdecode(unescape_name(path.rpartition("/")[2]))
            with _shown(json, path) as progress:
                written = await client.download(runtime, path, local, progress=progress)
            _told(written, f"{local}", json)
        return OK

    with_service("cp", url, work)


def _remote(text: str) -> tuple[str, str] | None:
    """The runtime's name and the path in it; None where it is a file of this machine."""
    runtime, colon, path = text.partition(":")
    if not colon or (runtime.count("/") and not runtime.startswith("runtimes/")) or runtime.startswith("."):
        return None
    return str(read_name(runtime, RuntimeName)), path.removeprefix(CONTENT).lstrip("/")


def _told(written: FileWritten, where: str, json: bool) -> None:
    if json:
        print_json(written.to_wire())
    else:
        typer.echo(tame(f"{where}: {size_text(written.bytes)}, SHA-256 {written.sha256}")[0])


@contextmanager
def _shown(json: bool, name: str) -> "Iterator[Told | None]":
    """A bar on standard error, where somebody looks at it."""
    if json or not sys.stderr.isatty():
        yield None
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(tame(name)[0], total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
