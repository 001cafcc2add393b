"""`--save`: rich outputs as decoded files, and the files that the code made."""

import mimetypes
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from cellhouse.files import FileError, FileTooLarge, HostileDir
from cellhouse.house import House
from cellhouse.model import CallReason, ExecuteCodeResult, ExecutionName, FailedPrecondition, NotFound

FILES = "files"
_EXTENSIONS = {
    "image/svg+xml": ".svg",
    "text/html": ".html",
    "text/markdown": ".md",
    "text/latex": ".tex",
    "application/json": ".json",
}
_BLOCK = 1 << 20
SAVE_BYTES = 4 << 30
"""So much is exported of the files of one execution; what does not fit is named on stderr."""


async def save_outputs(house: House, result: ExecuteCodeResult, directory: Path) -> list[Path]:
    """Write everything there is into `directory`, made where it is missing; the files written.

    `out-000.png` and the like are rich outputs, one file a representation; made files keep their paths
    below `files/`. FAILED_PRECONDITION where the directory can't be written.
    """
    with saving_into(directory) as target:
        saved = [directory / name async for name in save_rich(house, result, target)]
        saved += [directory / name for name in _made(house, result, target)]
    return saved


@contextmanager
def saving_into(directory: Path) -> Iterator[HostileDir]:
    """The directory, made where it is missing. FAILED_PRECONDITION where it can't be written."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with HostileDir.open(directory) as target:
            yield target
    except (OSError, FileError) as error:
        raise FailedPrecondition(
            f"--save {directory}: {error}; give a directory that can be written",
            reason=CallReason.POLICY_UNAVAILABLE,
        ) from None


class _Data(Protocol):
    @property
    def data(self) -> bytes: ...


class Outputs(Protocol):
    """Whoever gives representations of rich outputs: a house, or a client of one."""

    async def get_output_data(self, name: str, index: int, mime_type: str) -> _Data: ...


async def save_rich(source: Outputs, result: ExecuteCodeResult, target: HostileDir) -> AsyncIterator[str]:
    """Write each representation of each rich output that is still there; the names of the files."""
    for output in result.rich_outputs:
        if output.dropped:
            continue
        used: set[str] = set()
        for mime_type in output.mime_types:
            try:
                data = await source.get_output_data(result.execution, output.index, mime_type)
            except NotFound:  # the code removed or changed the file; the result says what there was
                continue
            name = f"out-{output.index:03}{_extension(mime_type)}"
            if name in used:
                name = f"out-{output.index:03}-{len(used)}{_extension(mime_type)}"
            used.add(name)
            target.create(name, [data.data])
            yield name


def _made(house: House, result: ExecuteCodeResult, target: HostileDir) -> Iterator[str]:
    runtime = ExecutionName.parse(result.execution).runtime_name
    left = SAVE_BYTES
    with house.open_content(str(runtime)) as content:
        for artifact in result.artifacts or ():
            size = artifact.bytes or 0
            try:
                if size > left:
                    raise FileTooLarge(artifact.name, size, left)
                _copy(content, target, artifact.name, size)
            except (OSError, FileError) as error:
                # One file that can't be exported takes neither the others nor the result with it.
                sys.stderr.write(f"cellhouse: --save: {artifact.name!r} was left out: {error}\n")
                continue
            left -= size
            yield f"{FILES}/{artifact.name}"


def _copy(content: HostileDir, target: HostileDir, name: str, size: int) -> None:
    fd = content.open_read(name)
    try:
        path = f"{FILES}/{name}"
        target.subdir(path.rpartition("/")[0], create=True).close()
        target.create(path, _blocks(fd, size))
    finally:
        os.close(fd)


def _blocks(fd: int, size: int) -> Iterator[bytes]:
    """At most as much as the result tells of: the file may grow for ever."""
    while size > 0 and (block := os.read(fd, min(_BLOCK, size))):
        size -= len(block)
        yield block


def _extension(mime_type: str) -> str:
    if mime_type in _EXTENSIONS:
        return _EXTENSIONS[mime_type]
    if mime_type.endswith("+json"):
        return ".json"
    return mimetypes.guess_extension(mime_type) or ".bin"


def blocks_of(path: Path) -> Iterator[bytes]:
    """A file of the host's, in pieces."""
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield block
