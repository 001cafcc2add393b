"""Frames of the native kernel's stream: lengths, a header, a content, raw buffers; every length is checked first."""

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from cellhouse.kernel.zmtp import _mapping
from cellhouse.messages import BadJson, Message, parse_object
from cellhouse.messages.message import Channel
from cellhouse.model import MESSAGE_BYTES

HEAD = struct.Struct(">IIQ")
HEADER_BYTES = 65_536
MAX_BUFFERS = 1024
MAX_NAME_CHARS = 256
SCRATCH_BYTES = 1 << 18
"""Read at once where so much stands in the socket; what is never filled takes no memory."""
_MAPPED_BYTES = 1 << 20

_CHANNELS = ("iopub", "shell", "stdin")
_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode


class FrameError(Exception):
    """The stream can't be followed any further. `oversized` is a size above its `limit`, where that is why."""

    def __init__(self, message: str, *, oversized: int = 0, limit: int = 0) -> None:
        super().__init__(message)
        self.oversized, self.limit = oversized, limit


@dataclass(slots=True)
class Frame:
    """One frame of a kernel: its header, checked; its content and buffers as they came, within the limits."""

    channel: Channel
    msg_type: str
    parent: str
    epoch: int
    number: int
    forked: bool
    metadata: Mapping[str, Any]
    lengths: Sequence[int]
    content: bytes | memoryview = b""
    buffers: memoryview = memoryview(b"")  # noqa: RUF009 - nobody can change it

    @property
    def size(self) -> int:
        """Bytes of content and buffers."""
        return len(self.content) + len(self.buffers)

    def message(self) -> Message:
        """The message in it; content that can't be read is a `defect` there."""
        defect, content = "", {}
        try:
            content = parse_object(self.content)
        except BadJson as error:
            defect = str(error)
        buffers, at = [], 0
        for length in self.lengths:
            buffers.append(self.buffers[at : at + length])
            at += length
        return Message(
            self.channel, self.msg_type, "", self.parent, content, self.metadata, buffers, self.size, defect
        )


def pack(msg_type: str, msg_id: str, content: Mapping[str, Any]) -> bytes:
    """A request as one frame."""
    header = _encode({"type": msg_type, "id": msg_id}).encode()
    body = _encode(content).encode()
    return HEAD.pack(len(header), len(body), 0) + header + body


class FrameDecoder:
    """Makes frames of a stream: read into `space()`, then tell `took()` how much; `on_frame` gets each whole frame.

    A frame that doesn't fit into the scratch buffer gets its content and its buffers read into memory of their own,
    which grows only as it is filled. Not to be used any more after a FrameError.
    """

    def __init__(self, on_frame: Callable[[Frame], None], *, limit: int = MESSAGE_BYTES) -> None:
        """`limit`: bytes that content and buffers of one frame may have together."""
        self._on_frame = on_frame
        self._limit = limit
        self._scratch = bytearray(SCRATCH_BYTES)
        self._view = memoryview(self._scratch)
        self._start = self._end = 0
        # of the large frame that is being read:
        self._large: Frame | None = None
        self._body = memoryview(b"")
        self._filled = 0
        self._buffers_bytes = 0
        self._in_buffers = False

    def space(self) -> memoryview:
        """Where the next bytes belong; never empty."""
        if self._large is not None:
            return self._body[self._filled :]
        if self._start:
            rest = self._scratch[self._start : self._end]
            self._scratch[: len(rest)] = rest
            self._start, self._end = 0, len(rest)
        return self._view[self._end :]

    def took(self, count: int) -> None:
        """`count` bytes came into the space. Raises FrameError."""
        if self._large is None:
            self._end += count
        else:
            self._filled += count
            if not self._fill():
                return
        self._parse()

    @property
    def begun(self) -> bool:
        """Whether a frame has come in part."""
        return self._large is not None or self._end > self._start

    def _parse(self) -> None:
        scratch, view = self._scratch, self._view
        while (have := self._end - self._start) >= HEAD.size:
            start = self._start + HEAD.size
            header_bytes, content_bytes, buffers_bytes = HEAD.unpack_from(scratch, self._start)
            if header_bytes > HEADER_BYTES:
                raise _too_large("header", header_bytes, HEADER_BYTES)
            if content_bytes + buffers_bytes > self._limit:
                raise _too_large("message", content_bytes + buffers_bytes, self._limit)
            whole = HEAD.size + header_bytes + content_bytes + buffers_bytes
            fits = whole <= SCRATCH_BYTES
            if have < (whole if fits else HEAD.size + header_bytes):
                return
            after = start + header_bytes
            frame = _frame(view[start:after].tobytes(), buffers_bytes)
            self._start = after
            if fits:
                frame.content = view[after : after + content_bytes].tobytes()
                self._start += content_bytes
                if buffers_bytes:
                    frame.buffers = memoryview(view[self._start : self._start + buffers_bytes].tobytes())
                    self._start += buffers_bytes
                self._on_frame(frame)
                continue
            self._large, self._in_buffers = frame, False
            self._buffers_bytes = buffers_bytes
            self._body, self._filled = _room(content_bytes), 0
            if not self._fill():
                return

    def _fill(self) -> bool:
        """Take what stands in the scratch buffer into the large frame; whether that is whole now (and handed on)."""
        frame = self._large
        assert frame is not None
        while True:
            count = min(len(self._body) - self._filled, self._end - self._start)
            if count:
                body = self._view[self._start : self._start + count]
                self._body[self._filled : self._filled + count] = body
                self._filled += count
                self._start += count
            if self._filled < len(self._body):
                return False
            if self._in_buffers:
                break
            frame.content, self._in_buffers = self._body, True
            self._body, self._filled = _room(self._buffers_bytes), 0
        frame.buffers = self._body
        self._large, self._body = None, memoryview(b"")
        self._on_frame(frame)
        return True


def _frame(raw: bytes, buffers_bytes: int) -> Frame:
    try:
        header = parse_object(raw)
    except BadJson as error:
        raise FrameError(f"a frame's header that is {error}") from None
    channel, epoch, number = header.get("channel"), header.get("epoch", 0), header.get("number", 0)
    if channel not in _CHANNELS:
        raise FrameError(f"a frame on no channel of {', '.join(_CHANNELS)}")
    if type(epoch) is not int or not 0 <= epoch < 1 << 64:
        raise FrameError("a frame whose epoch is no unsigned 64-bit integer")
    if type(number) is not int or not 0 <= number < 1 << 64:
        raise FrameError("a frame whose number is no unsigned 64-bit integer")
    metadata = header.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise FrameError("a frame whose metadata is no object")
    lengths = header.get("buffers") or []
    if buffers_bytes or lengths:
        _check_lengths(lengths, buffers_bytes)
    return Frame(
        channel=cast(Channel, channel),
        msg_type=_name("type", header.get("type")),
        parent=_name("parent", header.get("parent", "")),
        epoch=epoch,
        number=number,
        forked=header.get("forked") is True,
        metadata=metadata,
        lengths=lengths,
    )


def _check_lengths(lengths: object, total: int) -> None:
    if not isinstance(lengths, list) or not all(type(length) is int and length >= 0 for length in lengths):
        raise FrameError("a frame whose buffers are no list of lengths")
    if len(lengths) > MAX_BUFFERS:
        raise FrameError(f"a frame of {len(lengths)} buffers, limit {MAX_BUFFERS}")
    if sum(lengths) != total:
        raise FrameError(f"a frame with buffers of {total} bytes, whose lengths make {sum(lengths)}")


def _name(what: str, value: object) -> str:
    if not isinstance(value, str) or len(value) > MAX_NAME_CHARS or not value.isascii():
        raise FrameError(f"a frame whose {what} is no ASCII string of at most {MAX_NAME_CHARS} characters")
    return value


def _too_large(what: str, size: int, limit: int) -> FrameError:
    return FrameError(f"a {what} of {size} bytes, limit {limit}", oversized=size, limit=limit)


def _room(length: int) -> memoryview:
    return memoryview(_mapping(length) if length >= _MAPPED_BYTES else bytearray(length))
