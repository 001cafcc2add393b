"""Images within a budget, and hostile ones within bounds."""

import io
import os
import struct
import zlib

import pytest
from PIL import Image

from cellhouse.doors.mcp import images
from cellhouse.model import FailedPrecondition, ResourceExhausted


def png(width: int, height: int, rows: bytes = b"") -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


async def test_what_fits_is_given_as_it_is() -> None:
    assert await images.fitted(b"not looked at", "image/png", 100) == images.Picture(
        b"not looked at", "image/png"
    )


async def test_what_does_not_fit_is_scaled_down() -> None:
    held = io.BytesIO()
    Image.frombytes("RGBA", (300, 200), os.urandom(300 * 200 * 4)).save(held, "PNG")
    made = await images.fitted(held.getvalue(), "image/png", 10_000)
    assert len(made.data) <= 10_000
    assert "300 x 200 pixels" in made.note
    with Image.open(io.BytesIO(made.data)) as image:
        assert image.get_format_mimetype() == made.mime_type
        assert image.width < 300


async def test_a_bomb_is_refused_by_what_it_says_of_itself() -> None:
    with pytest.raises(FailedPrecondition, match="50000 x 50000 pixels"):
        await images.fitted(png(50_000, 50_000), "image/png", 10)


async def test_what_is_no_image_is_said_to_be_none() -> None:
    with pytest.raises(FailedPrecondition, match="can't be decoded"):
        await images.fitted(b"<svg/>" * 100, "image/png", 10)


async def test_one_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "SECONDS", 0.001)
    with pytest.raises(ResourceExhausted, match="scaled down within"):
        await images.fitted(png(10, 10, bytes(310)), "image/png", 10)
