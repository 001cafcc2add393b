"""The privileged calls as datagrams: what a broker is asked, and what it answers.

One SOCK_SEQPACKET datagram is one JSON object of at most 64 KiB, descriptors go along as SCM_RIGHTS. A request is
`{"version": 1, "call": name, ...arguments}`, its answer `{"version": 1, "ok": value}` or `{"version": 1, "error": {...}}`.
One request at a time.
"""

import array
import errno
import json
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any, Final

from cellhouse.model import CellhouseError, error_from_wire
from cellhouse.sandbox.limits.base import GroupUnavailable
from cellhouse.sandbox.limits.content_disk import DiskUnavailable

VERSION: Final = 1
MESSAGE_BYTES: Final = 64 * 1024
DESCRIPTORS: Final = 32
TEXT_CHARS: Final = 4096  # of an error that are told on


class BrokerGone(OSError):
    """There is nobody to ask any more."""

    def __init__(self) -> None:
        super().__init__(errno.EPIPE, "the privileged half of this sandbox has gone")


class Refused(Exception):
    """Nothing that a broker does, or does for this sandbox; the message names it and the rule."""


def send(sock: socket.socket, message: Mapping[str, Any], descriptors: Sequence[int] = ()) -> None:
    """Refused where it is too large; BrokerGone where nobody is there."""
    data = json.dumps({"version": VERSION, **message}, separators=(",", ":")).encode()
    if len(data) > MESSAGE_BYTES or len(descriptors) > DESCRIPTORS:
        raise Refused(
            f"a message of {len(data)} bytes with {len(descriptors)} descriptors; it takes at most "
            f"{MESSAGE_BYTES} and {DESCRIPTORS}"
        )
    try:
        socket.send_fds(sock, [data], list(descriptors), socket.MSG_NOSIGNAL)
    except (BrokenPipeError, ConnectionResetError):
        raise BrokerGone from None


def receive(sock: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """A message and its descriptors, which are the caller's to close. BrokerGone at the end, Refused for what is no message."""
    space = socket.CMSG_SPACE(DESCRIPTORS * array.array("i").itemsize)
    try:
        data, ancillary, flags, _ = sock.recvmsg(MESSAGE_BYTES + 1, space, socket.MSG_CMSG_CLOEXEC)
    except ConnectionResetError:
        raise BrokerGone from None
    found: array.array[int] = array.array("i")
    for level, kind, payload in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            found.frombytes(payload[: len(payload) - len(payload) % found.itemsize])
    descriptors = list(found)
    if not data:
        close_all(descriptors)
        raise BrokerGone
    try:
        if len(data) > MESSAGE_BYTES or flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
            raise Refused(f"a message of more than {MESSAGE_BYTES} bytes or {DESCRIPTORS} descriptors")
        try:
            message = json.loads(data)
        except (ValueError, RecursionError):
            raise Refused("a message that is not JSON") from None
        if not isinstance(message, dict) or message.get("version") != VERSION:
            raise Refused(f"a message that is not of version {VERSION}")
    except BaseException:
        close_all(descriptors)
        raise
    return message, descriptors


def close_all(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def encode_error(error: Exception) -> dict[str, Any]:
    match error:
        case CellhouseError():
            return {"kind": "call", **error.to_wire()}
        case GroupUnavailable() | DiskUnavailable() | Refused():
            return {"kind": type(error).__name__, "text": str(error)[:TEXT_CHARS]}
        case OSError():
            text = str(error.strerror or error)[:TEXT_CHARS]
            return {"kind": "os", "errno": error.errno or errno.EIO, "text": text}
        case _:
            return {"kind": "os", "errno": errno.EIO, "text": f"{type(error).__name__}: {error}"[:TEXT_CHARS]}


def decode_error(error: Mapping[str, Any]) -> Exception:
    kinds: dict[str, type[Exception]] = {
        kind.__name__: kind for kind in (GroupUnavailable, DiskUnavailable, Refused)
    }
    if error["kind"] == "call":
        return error_from_wire(error)
    if error["kind"] == "os":
        return OSError(int(error["errno"]), str(error["text"]))
    return kinds[error["kind"]](str(error["text"]))
