"""The media type of a file, from its first bytes where they tell, else from its name."""

import mimetypes
import re
from typing import Final

HEAD_BYTES: Final = 512
OCTETS: Final = "application/octet-stream"
TEXT: Final = "text/plain"
_ZIP: Final = "application/zip"

# What a file of the kind begins with, at an offset.
_SIGNS: Final[tuple[tuple[int, bytes, str], ...]] = (
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF87a", "image/gif"),
    (0, b"GIF89a", "image/gif"),
    (8, b"WEBP", "image/webp"),
    (8, b"WAVE", "audio/wav"),
    (0, b"%PDF-", "application/pdf"),
    (0, b"PK\x03\x04", _ZIP),
    (0, b"PK\x05\x06", _ZIP),
    (0, b"\x1f\x8b", "application/gzip"),
    (0, b"BZh", "application/x-bzip2"),
    (0, b"\xfd7zXZ\x00", "application/x-xz"),
    (0, b"\x28\xb5\x2f\xfd", "application/zstd"),
    (0, b"PAR1", "application/vnd.apache.parquet"),
    (0, b"ARROW1", "application/vnd.apache.arrow.file"),
    (0, b"\x89HDF\r\n\x1a\n", "application/x-hdf5"),
    (0, b"SQLite format 3\x00", "application/vnd.sqlite3"),
    (0, b"\x93NUMPY", "application/x-npy"),
    (4, b"ftyp", "video/mp4"),
    (0, b"OggS", "application/ogg"),
    (0, b"\x7fELF", "application/x-elf"),
    (0, b"\x00asm", "application/wasm"),
)
# Formats that are another one inside: the name says which.
_WITHIN: Final = {
    _ZIP: (
        "application/vnd.",
        "application/epub",
        "application/java",
        "application/x-npz",
        "application/zip",
    ),
    "application/gzip": ("application/",),
    "application/ogg": ("audio/", "video/", "application/"),
    "video/mp4": ("video/", "audio/", "image/"),
    "application/x-hdf5": ("application/x-hdf", "application/x-netcdf"),
}
_BY_NAME: Final = {
    ".csv": "text/csv",
    ".ipynb": "application/x-ipynb+json",
    ".jsonl": "application/jsonl",
    ".md": "text/markdown",
    ".npy": "application/x-npy",
    ".npz": "application/x-npz",
    ".parquet": "application/vnd.apache.parquet",
    ".toml": "application/toml",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
}


# What no text has; a bell, a tab, line ends and escape sequences it may have.
_CONTROL: Final = re.compile(rb"[\x00-\x06\x0e-\x1a\x1c-\x1f]")


def media_type(name: str, head: bytes) -> str:
    """Of a file whose first bytes (up to `HEAD_BYTES`) are `head`. What the name says of text nothing contradicts."""
    named = _named(name)
    for offset, sign, kind in _SIGNS:
        if head.startswith(sign, offset):
            return named if named.startswith(_WITHIN.get(kind, (kind,))) else kind
    if not head:
        return named or TEXT
    if not _is_text(head):
        return OCTETS if _is_textual(named) or _has_sign(named) else named or OCTETS
    return named if _is_textual(named) else TEXT


def _named(name: str) -> str:
    last = name.rpartition("/")[2]
    dot = last.rfind(".")
    known = _BY_NAME.get(last[dot:].lower()) if dot >= 0 else None
    return known or mimetypes.guess_type(last, strict=False)[0] or ""


def _has_sign(kind: str) -> bool:
    return any(kind == each for _, _, each in _SIGNS)


def _is_textual(kind: str) -> bool:
    return kind.startswith("text/") or kind.endswith(
        ("json", "xml", "yaml", "toml", "jsonl", "javascript", "sql")
    )


def _is_text(head: bytes) -> bool:
    """UTF-8 without control characters that no text has; its last character may be cut."""
    if _CONTROL.search(head):
        return False
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return len(head) >= HEAD_BYTES and error.start > len(head) - 4
    return True
