"""Byte ranges and entity tags (RFC 9110, sections 8.8.3, 13 and 14)."""

import re
from dataclasses import dataclass

from starlette.datastructures import Headers

from cellhouse.doors.problems import Refused
from cellhouse.model import CallReason

_RANGE = re.compile(r"bytes=(?:([0-9]{1,18})-([0-9]{0,18})|-([0-9]{1,18}))", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes `start` to before `end` of `total`; `partial` where less than everything was asked for."""

    start: int
    end: int
    total: int
    partial: bool

    @property
    def status(self) -> int:
        return 206 if self.partial else 200

    def headers(self) -> dict[str, str]:
        made = {"Accept-Ranges": "bytes", "Content-Length": str(self.end - self.start)}
        if self.partial:
            made["Content-Range"] = f"bytes {self.start}-{self.end - 1}/{self.total}"
        return made


def asked_part(headers: Headers, total: int, etag: str = "") -> Part:
    """What a request wants of so many bytes. Several ranges, or one that is malformed, are as none.

    416 where a range begins past the end.
    """
    whole = Part(0, total, total, partial=False)
    found = _RANGE.fullmatch(headers.get("range", "").strip())
    if found is None or headers.get("if-range", etag) != etag:
        return whole
    first, last, suffix = found.groups()
    if suffix is not None:
        start, end = max(0, total - int(suffix)), total
    else:
        start, end = int(first), min(int(last) + 1 if last else total, total)
        if last and int(last) < start:
            return whole
    if start >= total or start >= end:
        refused = Refused(
            f"Range: {found[0]} is past the end; there are {total} bytes",
            reason=CallReason.RANGE_NOT_SATISFIABLE,
            http=416,
            metadata={"field": "Range", "totalBytes": str(total)},
        )
        refused.headers["Content-Range"] = f"bytes */{total}"
        raise refused
    return Part(start, end, total, partial=True)


def matches(headers: Headers, etag: str) -> bool:
    """Whether the caller has this version already (If-None-Match)."""
    given = headers.get("if-none-match", "")
    return given.strip() == "*" or etag in [tag.strip().removeprefix("W/") for tag in given.split(",")]
