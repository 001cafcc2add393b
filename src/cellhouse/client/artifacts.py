"""The artifact store and the inputs of runtimes, over the network: flows, and the two faces of `client.artifacts`."""

import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

import pydantic_core

from cellhouse.client.async_shell import AsyncShell
from cellhouse.client.core import JSON, Call, Core
from cellhouse.client.outgoing import AsyncSource, Outgoing, Progress, Source
from cellhouse.client.steps import Flow, work
from cellhouse.client.streams import path_of
from cellhouse.client.sync_shell import SyncShell
from cellhouse.client.transfer import OCTETS, Transfer, check_arrived
from cellhouse.model import (
    ArtifactEvictionList,
    ArtifactList,
    FileWritten,
    InvalidArgument,
    RuntimeName,
    StagedInput,
    StagedInputs,
    StoredArtifact,
    check_artifact_id,
    check_input,
)

FILE: Final = "file"
_ANOTHER: Final = "a second one would be another artifact, and it is not known whether the first arrived"


class ArtifactCalls:
    """The calls of one client."""

    def __init__(self, core: Core, transfer: Transfer) -> None:
        self._core, self._transfer = core, transfer

    def put(
        self,
        source: AsyncSource,
        *,
        kind: str,
        media_type: str,
        label: str,
        origin: str,
        parents: Sequence[str],
        ttl: float | None,
        progress: Progress | None,
    ) -> Flow[StoredArtifact]:
        given = [
            ("kind", kind),
            ("label", label),
            ("origin", origin),
            *(("parents", each) for each in parents),
        ]
        pairs = [(name, value) for name, value in given if value]
        if ttl is not None:
            pairs.append(("ttl", repr(float(ttl))))
        try:
            query = urlencode(pairs, quote_via=quote)
        except UnicodeEncodeError:
            raise InvalidArgument.of_field(
                "label", "it has a lone surrogate; send whole characters"
            ) from None
        if not (media_type.isascii() and media_type.isprintable()):
            raise InvalidArgument.of_field(
                "mediaType", f"{media_type[:80]!a} can't be; it takes type/subtype"
            )
        body = yield from work(lambda: Outgoing(source, progress))
        call = Call(
            "POST",
            f"/v1/artifacts?{query}",
            headers={"content-type": media_type},
            not_repeatable=_ANOTHER,
        )
        stored = yield from self._transfer.send(call, body, StoredArtifact.from_wire)
        check_arrived(label or stored.ref, body, stored.bytes, stored.sha256)
        return stored

    def head(self, ref: str) -> Flow[StoredArtifact]:
        return self._document("GET", f"artifacts/{check_artifact_id(ref)}", StoredArtifact.from_wire)

    def pieces(self, ref: str, progress: Progress | None) -> Flow[None]:
        return self._transfer.pieces_of(f"artifacts/{check_artifact_id(ref)}/data", ref, progress)

    def download(self, ref: str, target: Path, progress: Progress | None) -> Flow[FileWritten]:
        return self._transfer.to_file(f"artifacts/{check_artifact_id(ref)}/data", ref, target, progress)

    def delete(self, ref: str) -> Flow[None]:
        again = {"allowMissing": "true"}  # an earlier attempt may have done it
        return self._document("DELETE", f"artifacts/{check_artifact_id(ref)}", _nothing, again=again)

    def list(self, kind: str, origin: str, page_size: int, page_token: str) -> Flow[ArtifactList]:
        params = {"kind": kind, "origin": origin, **_page(page_size, page_token)}
        return self._document("GET", "artifacts", ArtifactList.from_wire, params=params)

    def evictions(self, page_size: int, page_token: str) -> Flow[ArtifactEvictionList]:
        params = _page(page_size, page_token)
        return self._document("GET", "artifacts:evictions", ArtifactEvictionList.from_wire, params=params)

    def stage_inputs(self, runtime: str, inputs: Mapping[str, StagedInput]) -> Flow[Mapping[str, str]]:
        name = RuntimeName.parse(runtime)
        checked = {key: check_input(key, value) for key, value in inputs.items()}
        staged: dict[str, str] = {}
        for key, value in checked.items():
            if isinstance(value, str):
                call = Call(
                    "POST",
                    f"/v1/{name}:stageInputs",
                    headers={"content-type": JSON},
                    body=pydantic_core.to_json({"inputs": {key: {"ref": value}}}),
                    read_seconds=self._core.timeouts.start,
                )
                told = yield from self._core.document(call, StagedInputs.from_wire)
            else:
                source = value if isinstance(value, bytes) else Path(os.fspath(value))
                body = yield from work(lambda source=source: Outgoing(source, None))  # type: ignore[misc]
                parts = "/".join(quote(part, safe="") for part in key.split("/"))
                call = Call("PUT", f"/v1/{path_of(f'{name}/inputs/{parts}')}")
                told = yield from self._transfer.send(call, body, StagedInputs.from_wire)
            staged.update(told.paths)
        return staged

    def _document(self, method: str, path: str, make: Any, **more: Any) -> Flow[Any]:
        seconds = self._core.timeouts.start if method == "DELETE" else self._core.timeouts.read
        return self._core.document(Call(method, f"/v1/{path}", read_seconds=seconds, **more), make)


class AsyncArtifacts:
    """The artifact store of the service, as the token's tenant sees it."""

    def __init__(self, shell: AsyncShell, calls: ArtifactCalls) -> None:
        self._shell, self._calls = shell, calls

    async def put(
        self,
        source: AsyncSource,
        *,
        kind: str = FILE,
        media_type: str = OCTETS,
        label: str = "",
        origin: str = "",
        parents: Sequence[str] = (),
        ttl: float | None = None,
        progress: Progress | None = None,
    ) -> StoredArtifact:
        """Keep bytes under a new ref, from a Path, bytes or an iterable; checked by their SHA-256. Sent once."""
        flow = self._calls.put(
            source,
            kind=kind,
            media_type=media_type,
            label=label,
            origin=origin,
            parents=parents,
            ttl=ttl,
            progress=progress,
        )
        return await self._shell.run(flow)

    async def head(self, ref: str) -> StoredArtifact:
        """What is known of it. NOT_FOUND."""
        return await self._shell.run(self._calls.head(ref))

    def get(self, ref: str, *, progress: Progress | None = None) -> AsyncIterator[bytes]:
        """Its bytes, piece by piece; their SHA-256 is judged at the end."""
        return self._shell.iterate(self._calls.pieces(ref, progress))

    async def download(
        self, ref: str, target: Path | str, *, progress: Progress | None = None
    ) -> FileWritten:
        """Write it to `target`, whole and checked, or leave what is there as it is."""
        return await self._shell.run(self._calls.download(ref, Path(target), progress))

    async def delete(self, ref: str) -> None:
        """It is not there any more. NOT_FOUND."""
        await self._shell.run(self._calls.delete(ref))

    async def list(
        self, *, kind: str = "", origin: str = "", page_size: int = 0, page_token: str = ""
    ) -> ArtifactList:
        """A page, newest first."""
        return await self._shell.run(self._calls.list(kind, origin, page_size, page_token))

    async def evictions(self, *, page_size: int = 0, page_token: str = "") -> ArtifactEvictionList:
        """What retention took away, newest first."""
        return await self._shell.run(self._calls.evictions(page_size, page_token))


class Artifacts:
    """The artifact store of the service, as the token's tenant sees it."""

    def __init__(self, shell: SyncShell, calls: ArtifactCalls) -> None:
        self._shell, self._calls = shell, calls

    def put(
        self,
        source: Source,
        *,
        kind: str = FILE,
        media_type: str = OCTETS,
        label: str = "",
        origin: str = "",
        parents: Sequence[str] = (),
        ttl: float | None = None,
        progress: Progress | None = None,
    ) -> StoredArtifact:
        """Keep bytes under a new ref, from a Path, bytes or an iterable; checked by their SHA-256. Sent once."""
        flow = self._calls.put(
            source,
            kind=kind,
            media_type=media_type,
            label=label,
            origin=origin,
            parents=parents,
            ttl=ttl,
            progress=progress,
        )
        return self._shell.run(flow)

    def head(self, ref: str) -> StoredArtifact:
        """What is known of it. NOT_FOUND."""
        return self._shell.run(self._calls.head(ref))

    def get(self, ref: str, *, progress: Progress | None = None) -> Iterator[bytes]:
        """Its bytes, piece by piece; their SHA-256 is judged at the end."""
        return self._shell.iterate(self._calls.pieces(ref, progress))

    def download(self, ref: str, target: Path | str, *, progress: Progress | None = None) -> FileWritten:
        """Write it to `target`, whole and checked, or leave what is there as it is."""
        return self._shell.run(self._calls.download(ref, Path(target), progress))

    def delete(self, ref: str) -> None:
        """It is not there any more. NOT_FOUND."""
        self._shell.run(self._calls.delete(ref))

    def list(
        self, *, kind: str = "", origin: str = "", page_size: int = 0, page_token: str = ""
    ) -> ArtifactList:
        """A page, newest first."""
        return self._shell.run(self._calls.list(kind, origin, page_size, page_token))

    def evictions(self, *, page_size: int = 0, page_token: str = "") -> ArtifactEvictionList:
        """What retention took away, newest first."""
        return self._shell.run(self._calls.evictions(page_size, page_token))


def _page(page_size: int, page_token: str) -> dict[str, str]:
    return {"pageSize": str(page_size), "pageToken": page_token}


def _nothing(document: Any) -> None:
    if not isinstance(document, dict):
        raise ValueError(f"it is a {type(document).__name__}, not an object")
