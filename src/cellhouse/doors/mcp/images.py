"""Images for a model: as they are where they fit, else scaled down in a process of its own that can do nothing else."""

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cellhouse.model import FailedPrecondition, ResourceExhausted

SECONDS: Final = 30.0
AT_ONCE: Final = 2
"""Images that are scaled down at the same time in one process of ours."""
SOURCE_BYTES: Final = 64 << 20
_PROGRAM: Final = Path(__file__).with_name("shrink.py")
_TYPES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""What models take."""
SHRINKABLE: Final = (*_TYPES, "image/bmp", "image/tiff")

_slots = asyncio.Semaphore(AT_ONCE)


@dataclass(frozen=True, slots=True)
class Picture:
    """An image within its budget. `note` says what was done to it, where something was."""

    data: bytes
    mime_type: str
    note: str = ""


async def fitted(data: bytes, mime_type: str, budget: int) -> Picture:
    """The image in at most `budget` bytes. FAILED_PRECONDITION where it can't be made so."""
    if len(data) <= budget and mime_type in _TYPES:
        return Picture(data, mime_type)
    if len(data) > SOURCE_BYTES:
        raise _refused(f"it has {len(data):,} bytes, more than the {SOURCE_BYTES:,} that are looked at")
    async with _slots:
        made = await _shrunk(data, budget)
    head, _, image = made.partition(b"\n")
    kind, width, height = head.decode().split(" ")
    note = f"scaled down from {width} x {height} pixels and {len(data):,} bytes to {len(image):,} bytes"
    return Picture(image, kind, note)


async def _shrunk(data: bytes, budget: int) -> bytes:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        os.fspath(_PROGRAM),
        str(budget),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"OMP_NUM_THREADS": "1"},
    )
    try:
        async with asyncio.timeout(SECONDS):
            made, said = await process.communicate(data)
    except TimeoutError:
        raise ResourceExhausted(
            f"the image could not be scaled down within {SECONDS:g} s; give a larger maxBytes, or read its resource",
            reason="IMAGE_SECONDS",
            limit="imageSeconds",
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0 or b"\n" not in made:
        words = said.decode("utf-8", "replace") if process.returncode == 3 else "decoding it took too much"
        raise _refused(words[:200])
    return made


def _refused(why: str) -> FailedPrecondition:
    return FailedPrecondition(
        f"the image can't be shown within the budget: {why}; have the code make a smaller one, or read its resource",
        reason="IMAGE_UNREADABLE",
    )
