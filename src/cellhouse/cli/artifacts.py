"""`cellhouse artifacts`: the artifact store of a service."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cellhouse.artifacts import KIND_FILE
from cellhouse.cli.service import OK, Json, Url, print_json, print_table, with_service
from cellhouse.cli.show import size_text, tame
from cellhouse.files import HEAD_BYTES, escape_name, media_type
from cellhouse.model import InvalidArgument, NotFound, StoredArtifact

if TYPE_CHECKING:
    from cellhouse.client import AsyncClient  # httpx is slow to load, and not for who only runs some code

PAGES = 1_000

app = typer.Typer(help="Files that outlive their runtime, kept by a service.", no_args_is_help=True)


@app.command(name="list")
def list_(
    url: Url = None,
    json: Json = False,
    kind: Annotated[str, typer.Option(metavar="KIND", help="Of this kind only.")] = "",
    execution: Annotated[str, typer.Option(metavar="NAME", help="Of this execution only.")] = "",
    evicted: Annotated[bool, typer.Option("--evicted", help="What retention took away, and why.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 100,
) -> None:
    """List artifacts, newest first. With --json, one document a line."""

    async def work(client: "AsyncClient") -> int:
        if evicted:
            page = await client.artifacts.evictions(page_size=limit)
            if json:
                for gone in page.evictions:
                    print_json(gone.to_wire())
            else:
                rows = [
                    (each.ref, each.kind, size_text(each.bytes), each.evict_time, each.reason, each.label)
                    for each in page.evictions
                ]
                print_table(("REF", "KIND", "SIZE", "EVICTED", "WHY", "LABEL"), rows)
            return OK
        found: list[StoredArtifact] = []
        token = ""
        while len(found) < limit:
            listed = await client.artifacts.list(
                kind=kind, origin=execution, page_size=min(limit - len(found), PAGES), page_token=token
            )
            found += listed.artifacts
            if not (token := listed.next_page_token):
                break
        if json:
            for stored in found:
                print_json(stored.to_wire())
        else:
            print_table(
                ("REF", "KIND", "SIZE", "TYPE", "EXPIRES", "LABEL"),
                [
                    (
                        each.ref,
                        each.kind,
                        size_text(each.bytes),
                        each.media_type,
                        each.expire_time or "",
                        each.label,
                    )
                    for each in found
                ],
            )
        return OK

    with_service("artifacts list", url, work)


@app.command()
def get(
    ref: Annotated[str, typer.Argument(metavar="REF")],
    target: Annotated[str, typer.Argument(metavar="FILE|-", help="Where to; - is standard output.")],
    url: Url = None,
    json: Json = False,
) -> None:
    """Write an artifact to a file, whole and checked, or to standard output."""

    async def work(client: "AsyncClient") -> int:
        if target == "-":
            async for piece in client.artifacts.get(ref):
                sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
            return OK
        local = _local(target, ref)
        written = await client.artifacts.download(ref, local)
        if json:
            print_json(written.to_wire())
        else:
            typer.echo(tame(f"{local}: {size_text(written.bytes)}, SHA-256 {written.sha256}")[0])
        return OK

    with_service("artifacts get", url, work)


@app.command()
def put(
    file: Annotated[Path, typer.Argument(metavar="FILE")],
    url: Url = None,
    json: Json = False,
    label: Annotated[
        str | None, typer.Option(metavar="TEXT", help="For people; the file's name unasked.")
    ] = None,
    type_: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="Media type; unasked, of its bytes and name.")
    ] = None,
    kind: Annotated[str, typer.Option(metavar="KIND", help="What it is for, in a word.")] = KIND_FILE,
    ttl: Annotated[float | None, typer.Option(metavar="SECONDS", help="Until it expires.")] = None,
) -> None:
    """Keep a file, and print its ref."""

    async def work(client: "AsyncClient") -> int:
        if not file.is_file():
            raise InvalidArgument.of_field("FILE", f"{str(file)!a} is no file that can be read; name one")
        with file.open("rb") as opened:
            head = opened.read(HEAD_BYTES)
        stored = await client.artifacts.put(
            file,
            kind=kind,
            media_type=type_ or media_type(file.name, head),
            label=escape_name(bytes(file.name, "utf-8", "surrogateescape")) if label is None else label,
            ttl=ttl,
        )
        print_json(stored.to_wire()) if json else typer.echo(stored.ref)
        return OK

    with_service("artifacts put", url, work)


@app.command()
def rm(
    refs: Annotated[list[str], typer.Argument(metavar="REF…")],
    url: Url = None,
    json: Json = False,
    force: Annotated[bool, typer.Option("--force", "-f", help="What is not there is no error.")] = False,
) -> None:
    """Remove artifacts."""

    async def work(client: "AsyncClient") -> int:
        for ref in refs:
            try:
                await client.artifacts.delete(ref)
            except NotFound:
                if not force:
                    raise
                continue
            print_json({"deleted": ref}) if json else typer.echo(ref)
        return OK

    with_service("artifacts rm", url, work)


def _local(target: str, ref: str) -> Path:
    """Where it is to go; into a directory under its ref, which nobody else chose."""
    path = Path(target)
    return path / ref if path.is_dir() else path
