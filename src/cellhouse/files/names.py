"""File names made by hostile code: a reversible, printable form of them, and the paths that we refuse.

A name is bytes. Its printable form is a `str` that JSON and a terminal can carry: bytes that are no UTF-8, control
characters, line separators, characters that turn the direction of text, and the backslash itself are written `\\xNN`
(the backslash `\\\\`). `escape_name` and `unescape_name` undo each other for every name.
"""

import re
import unicodedata

from cellhouse.files.errors import HostilePath

MAX_PATH_BYTES = 4_095
MAX_NAME_BYTES = 255

_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_PLAIN = re.compile(r"[ -\[\]-~]*\Z")
# Each component begins with a letter or digit, or with a dot and one of them: none of the rules below has a say.
_UNREMARKABLE = re.compile(rb"\.?[A-Za-z0-9_][^/\0]*+(?:/\.?[A-Za-z0-9_][^/\0]*+)*+")
_STRAY_BYTE = re.compile("[\udc80-\udcff]")
_ESCAPE = re.compile(r"\\(\\|x([0-9a-f]{2})|.?)", re.DOTALL)


def _escape_char(char: str) -> str:
    if char == "\\":
        return "\\\\"
    if "\udc80" <= char <= "\udcff":
        return f"\\x{ord(char) - 0xDC00:02x}"
    if char in _BIDI or unicodedata.category(char) in {"Cc", "Zl", "Zp"}:
        return "".join(f"\\x{byte:02x}" for byte in char.encode())
    return char


def escape_name(raw: bytes) -> str:
    """The printable form of a file name or relative path."""
    text = raw.decode("utf-8", "surrogateescape")
    if _PLAIN.match(text):
        return text
    return "".join(map(_escape_char, text))


def exact_name(raw: bytes) -> str:
    """The name as it is, for JSON: only the backslash and bytes that are no UTF-8 are written as escapes.

    `unescape_name` undoes this form too. It is not fit for a terminal: control characters stand in it as they are.
    """
    text = raw.decode("utf-8", "surrogateescape").replace("\\", "\\\\")
    return _STRAY_BYTE.sub(lambda match: f"\\x{ord(match[0]) - 0xDC00:02x}", text)


def unescape_name(text: str) -> bytes:
    """The bytes that `escape_name` made `text` from. Raises HostilePath for an escape that it never makes."""
    if _PLAIN.match(text):
        return text.encode()
    out = bytearray()
    at = 0
    try:
        for match in _ESCAPE.finditer(text):
            out += text[at : match.start()].encode()
            at = match.end()
            if match[1] == "\\":
                out += b"\\"
            elif match[2]:
                out.append(int(match[2], 16))
            else:
                raise HostilePath(
                    f"the path {text!r} has a backslash that begins no escape; write \\\\ for a backslash and \\xNN for a byte"
                )
        out += text[at:].encode()
    except UnicodeEncodeError as error:
        raise HostilePath(
            f"the path {text!r} has a lone surrogate; write \\xNN for a byte that is no UTF-8"
        ) from error
    return bytes(out)


def relative_path(path: str | bytes) -> bytes:
    """The raw form of a relative path that stays beneath its directory.

    A `str` is taken as the printable form, `bytes` as they are. Raises HostilePath for a path that is empty, absolute,
    has an empty, `.` or `..` component, a NUL, or is longer than 4,095 bytes (a component: 255).
    """
    raw = unescape_name(path) if isinstance(path, str) else path
    if _UNREMARKABLE.fullmatch(raw) and len(raw) <= MAX_NAME_BYTES:
        return raw
    shown = escape_name(raw[:200])
    if not raw:
        raise HostilePath("the path is empty; name a file beneath the directory")
    if len(raw) > MAX_PATH_BYTES:
        raise HostilePath(f"the path {shown}… has {len(raw)} bytes; at most {MAX_PATH_BYTES} are taken")
    if b"\0" in raw:
        raise HostilePath(f"the path {shown} has a NUL byte; no file can have such a name")
    if raw.startswith(b"/"):
        raise HostilePath(f"the path {shown} is absolute; give it relative to the directory")
    for part in raw.split(b"/"):
        if part in (b"", b".", b".."):
            raise HostilePath(f'the path {shown} has the component "{part.decode()}"; write it without')
        if len(part) > MAX_NAME_BYTES:
            raise HostilePath(
                f"the path {shown} has a component of {len(part)} bytes; at most {MAX_NAME_BYTES} are taken"
            )
    return raw
