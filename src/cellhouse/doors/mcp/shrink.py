"""Scales an image down: a program that reads a hostile image from standard input, within bounds, and decodes nothing else.

`shrink.py BYTES`: the image goes to standard output in at most so many bytes, behind a line with its MIME type and size in
pixels. Exit status 0; 3 where it is no image, or one that is too large to be looked at: standard error says which.
"""

import io
import os
import resource
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from PIL import Image

MEMORY_BYTES = 1 << 30
CPU_SECONDS = 20
PIXELS = 64_000_000
"""Of the image as it comes: what it says of itself, before any of it is decoded."""
SIDE = 1_568
"""Pixels of the longer side, at first: what is above is scaled down by who looks at it."""
LEAST_SIDE = 16
NOBODY = 65_534
_FORMS: tuple[tuple[str, dict[str, Any]], ...] = (("PNG", {}), ("JPEG", {"quality": 80}))
FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")


def main() -> int:
    from PIL import Image, ImageFile

    rehearse()
    confine()
    budget = int(sys.argv[1])
    ImageFile.LOAD_TRUNCATED_IMAGES = True
    Image.MAX_IMAGE_PIXELS = None  # judged below, with words of our own
    try:
        image = Image.open(io.BytesIO(sys.stdin.buffer.read()), formats=FORMATS)
        width, height = image.size
        if width * height > PIXELS:
            sys.stderr.write(f"it has {width} x {height} pixels, more than the {PIXELS:,} that are looked at")
            return 3
        image.draft("RGB", (SIDE, SIDE))
        image.thumbnail((SIDE, SIDE))
        data, mime_type = fitted(image, budget)
    except (OSError, ValueError, SyntaxError, MemoryError, Image.DecompressionBombError) as error:
        sys.stderr.write(f"it can't be decoded ({type(error).__name__})")
        return 3
    sys.stdout.buffer.write(f"{mime_type} {width} {height}\n".encode() + data)
    return 0


def rehearse() -> None:
    """Everything that is loaded on the way is loaded now: later no file can be opened any more."""
    from PIL import Image

    for form in FORMATS:
        held = io.BytesIO()
        Image.new("RGB", (2 * LEAST_SIDE, LEAST_SIDE)).save(held, form)
        image = Image.open(io.BytesIO(held.getvalue()), formats=FORMATS)
        image.draft("RGB", (LEAST_SIDE, LEAST_SIDE))
        image.thumbnail((LEAST_SIDE, LEAST_SIDE))
        fitted(image.convert("RGBA"), 1 << 20)


def fitted(image: "Image.Image", budget: int) -> tuple[bytes, str]:
    """The first of ever smaller ones that fits: as PNG, which keeps lines sharp, else as JPEG."""
    image = image.convert("RGBA" if "A" in image.getbands() or "transparency" in image.info else "RGB")
    while True:
        for form, options in _FORMS:
            held = io.BytesIO()
            flat(image, form).save(held, form, **options)
            if held.tell() <= budget:
                return held.getvalue(), f"image/{form.lower()}"
        if max(image.size) <= LEAST_SIDE:
            raise ValueError("too few bytes")
        # As many pixels as such bytes have room for, about; a little fewer, so that it ends.
        factor = min(0.9 * (budget / held.tell()) ** 0.5, 0.9)
        side = max(int(max(image.size) * factor), LEAST_SIDE)
        image.thumbnail((side, side))


def flat(image: "Image.Image", form: str) -> "Image.Image":
    """JPEG has no transparency: what can be seen through is white."""
    if form == "PNG" or image.mode == "RGB":
        return image
    from PIL import Image

    white = Image.new("RGB", image.size, "white")
    white.paste(image, mask=image.getchannel("A"))
    return white


def confine() -> None:
    """No privileges, no files, little memory and time: from here on everything that is read is hostile."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    limits = {"AS": MEMORY_BYTES, "CPU": CPU_SECONDS, "FSIZE": 0, "NOFILE": 3, "NPROC": 0, "CORE": 0}
    for name, value in limits.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))


if __name__ == "__main__":
    sys.exit(main())
