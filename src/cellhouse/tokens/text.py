"""The text of a token: `cellhouse_`, its id, `_`, a secret of 256 bits, a checksum.

The fixed beginning and the checksum (CRC-32 of all before it) are for scanners that look for secrets in places where there
should be none: what matches `PATTERN` and its checksum is a token, and nothing else is.
"""

import hashlib
import re
import secrets
import zlib
from typing import Final

PREFIX: Final = "cellhouse"
PATTERN: Final = rf"{PREFIX}_[0-9a-z]{{10}}_[0-9A-Za-z]{{49}}"
MAX_CHARS: Final = 256
"""Longer text is looked at no further."""

_BASE62: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_BASE36: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_ID_CHARS: Final = 10
_SECRET_CHARS: Final = 43
_CHECKSUM_CHARS: Final = 6
_ID: Final = re.compile(r"[0-9a-z]{10}")
_FORM: Final = re.compile(PATTERN)


def mint_token() -> tuple[str, str]:
    """A new id, and the text of a token that has it."""
    token = _digits(secrets.randbelow(36**_ID_CHARS), _BASE36, _ID_CHARS)
    secret = _digits(int.from_bytes(secrets.token_bytes(32)), _BASE62, _SECRET_CHARS)
    body = f"{PREFIX}_{token}_{secret}"
    return token, body + _checksum(body)


def is_id(text: str) -> bool:
    """Whether a token may have this id."""
    return _ID.fullmatch(text) is not None


def id_of(text: str) -> str:
    """The id in a token's text; empty where the text is no token's."""
    if len(text) > MAX_CHARS or _FORM.fullmatch(text) is None:
        return ""
    body, checksum = text[:-_CHECKSUM_CHARS], text[-_CHECKSUM_CHARS:]
    return text[len(PREFIX) + 1 :][:_ID_CHARS] if checksum == _checksum(body) else ""


def digest_of(text: str) -> bytes:
    """What is kept of a token: the SHA-256 of its whole text. A secret of 256 bits needs no slow hash."""
    return hashlib.sha256(text[:MAX_CHARS].encode("utf-8", "surrogatepass")).digest()


def _checksum(body: str) -> str:
    return _digits(zlib.crc32(body.encode()), _BASE62, _CHECKSUM_CHARS)


def _digits(number: int, alphabet: str, count: int) -> str:
    found = []
    for _ in range(count):
        number, digit = divmod(number, len(alphabet))
        found.append(alphabet[digit])
    return "".join(reversed(found))
