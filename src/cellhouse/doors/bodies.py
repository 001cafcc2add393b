"""Request bodies: read within a bound, and as what they say they are."""

import asyncio
import base64
import binascii
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import pydantic_core
from starlette.datastructures import Headers
from starlette.requests import Request

from cellhouse.doors.problems import ClientGone, too_large
from cellhouse.model import CallReason, InvalidArgument, Unavailable

_DIGEST: Final = "sha-256"
JSON_VALUES: Final = 100_000
"""Values in one body, about; ours have some hundreds. A body full of `[],` would hold up everybody while it is read."""


async def chunks_of(request: Request, *, limit: int, name: str, seconds: float) -> AsyncIterator[bytes]:
    """The body as it comes: at most `limit` bytes (a limit of this name), each piece within `seconds` of the last.

    Raises ClientGone where it stops half-way.
    """
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > limit:
        raise too_large(limit, name)
    size, more = 0, True
    while more:
        try:
            async with asyncio.timeout(seconds):
                message = await request.receive()
        except TimeoutError:
            raise Unavailable(
                f"body: nothing came for {seconds:g} s, which is the limit (body_seconds); send it again",
                reason=CallReason.TRY_AGAIN,
            ) from None
        if message["type"] == "http.disconnect":
            raise ClientGone
        more = message.get("more_body", False)
        if chunk := message.get("body", b""):
            size += len(chunk)
            if size > limit:
                raise too_large(limit, name)
            yield chunk


async def json_object(
    request: Request, *, limit: int, seconds: float, take: Callable[[int], None]
) -> dict[str, Any]:
    """The body as a JSON object; empty where there is none. `take` is told the bytes of each piece, and may refuse them."""
    pieces = []
    async for chunk in chunks_of(request, limit=limit, name="body_bytes", seconds=seconds):
        take(len(chunk))
        pieces.append(chunk)
    body = b"".join(pieces)
    if not body.strip():
        return {}
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise InvalidArgument.of_field(
            "body", f"byte {error.start} is no UTF-8; send JSON encoded as UTF-8"
        ) from None
    check_values(body)
    try:
        document = pydantic_core.from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise InvalidArgument.of_field("body", f"it is no JSON: {error}") from None
    if not isinstance(document, dict):
        raise InvalidArgument.of_field("body", f"it is a {type(document).__name__}; send a JSON object")
    return document


def check_values(body: bytes) -> None:
    """INVALID_ARGUMENT where a JSON text has more values than are read."""
    if _values(body) > JSON_VALUES:
        raise InvalidArgument.of_field(
            "body",
            f"it has more than {JSON_VALUES} values, which is the limit; put data into a file of /content",
        )


def _values(body: bytes) -> int:
    """How many values a JSON text has, about: what begins one or separates two, and is in no string."""
    signs = b",[{"
    many = sum(map(body.count, (b",", b"[", b"{")))
    if many <= JSON_VALUES:
        return many  # in strings too, so there are no more of them outside
    bare = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    outside = b"".join(bare.split(b'"')[::2])
    return len(outside) - len(outside.translate(None, delete=signs))


def text_field(document: dict[str, Any], field: str) -> str | None:
    """A field that is text; None where it is absent or null."""
    value = document.get(field)
    if value is None or isinstance(value, str):
        return value
    raise InvalidArgument.of_field(field, f"it is a {type(value).__name__}; it takes a string")


def announced_sha256(headers: Headers) -> str:
    """The SHA-256 in hex that the body is said to have, in Repr-Digest (RFC 9530); empty where nothing is said."""
    for member in headers.get("repr-digest", "").split(","):
        algorithm, _, value = member.strip().partition("=")
        if algorithm.lower() != _DIGEST:
            continue
        try:
            digest = base64.b64decode(value.strip(":"), validate=True)
        except (binascii.Error, ValueError):
            digest = b""
        if len(digest) != 32 or not (value.startswith(":") and value.endswith(":")):
            raise InvalidArgument.of_field(
                "Repr-Digest", "it takes sha-256=:BASE64: with the 32 bytes of a SHA-256"
            )
        return digest.hex()
    return ""


def repr_digest(sha256: str) -> str:
    """The header's value for a SHA-256 in hex."""
    return f"{_DIGEST}=:{base64.b64encode(bytes.fromhex(sha256)).decode()}:"


def wants_digest(headers: Headers) -> bool:
    """Whether the caller asks for a Repr-Digest (RFC 9530, Want-Repr-Digest)."""
    return any(
        member.partition("=")[0].strip().lower() == _DIGEST and member.partition("=")[2].strip() != "0"
        for member in headers.get("want-repr-digest", "").split(",")
    )
