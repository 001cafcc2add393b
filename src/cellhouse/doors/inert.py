"""Headers under which hostile HTML, SVG and scripts are mere data to a browser."""

import re
from typing import Final
from urllib.parse import quote

OCTETS: Final = "application/octet-stream"
# Every name of HTTP's token, once on each side of the slash; parameters are ours to add.
_MIME = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,100}/[A-Za-z0-9!#$&^_.+-]{1,100}")
_TEXTUAL: Final = ("text/", "application/json", "application/javascript", "application/xml")

INERT: Final = {
    # An origin of its own, no scripts, no plugins, no forms, nothing loaded from anywhere.
    "Content-Security-Policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "private, no-cache",
}


def content_type(mime_type: str) -> str:
    """What may stand in a header for a MIME type that a kernel or a file's name gave."""
    if not _MIME.fullmatch(mime_type):
        return OCTETS
    mime_type = mime_type.lower()
    if mime_type.startswith("multipart/"):  # its parts would have types that nobody has looked at
        return OCTETS
    textual = mime_type.startswith(_TEXTUAL) or mime_type.endswith(("+json", "+xml"))
    return f"{mime_type}; charset=utf-8" if textual else mime_type


def attachment(name: str) -> str:
    """Content-Disposition (RFC 6266) for a file to be saved under this name."""
    return f"attachment; filename*=UTF-8''{quote(name, safe='')}"
