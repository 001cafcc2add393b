"""What every store checks in the same words: what is said of an artifact, refs, ranges, pages."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cellhouse.model import (
    CallReason,
    Internal,
    InvalidArgument,
    NotFound,
    ResourceExhausted,
    check_artifact_id,
)

KIND_FILE: Final = "file"
KIND_INPUT: Final = "input"
OCTETS: Final = "application/octet-stream"
LABEL_CHARS: Final = 1_024
ORIGIN_CHARS: Final = 512
PARENTS: Final = 100
PAGE: Final = 100
PAGE_MAX: Final = 1_000

_KIND = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_MEDIA_TYPE = re.compile(
    r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,127}/[!#$%&'*+.^_`|~0-9A-Za-z-]{1,127}(?:;[ -~]{0,255})?"
)
_SHA256 = re.compile(r"[0-9a-fA-F]{64}|")


@dataclass(frozen=True, slots=True)
class Facts:
    """What the caller of `put` says of an artifact; InvalidArgument names what can't be."""

    kind: str = KIND_FILE
    media_type: str = OCTETS
    label: str = ""
    origin: str = ""
    parents: Sequence[str] = ()
    ttl: float | None = None
    sha256: str = ""

    def __post_init__(self) -> None:
        _matching("kind", self.kind, _KIND, "1 to 63 of a-z, 0-9, '_' and '-', a letter first")
        _matching("mediaType", self.media_type, _MEDIA_TYPE, "type/subtype, such as text/csv")
        _matching("sha256", self.sha256, _SHA256, "64 hexadecimal digits")
        for field, text, most in (
            ("label", self.label, LABEL_CHARS),
            ("origin", self.origin, ORIGIN_CHARS),
        ):
            if len(text) > most:
                raise InvalidArgument.of_field(
                    field, f"it has {len(text)} characters; it takes at most {most}"
                )
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise InvalidArgument.of_field(
                    field, f"character {error.start} is a lone surrogate; send whole characters"
                ) from None
        if len(self.parents) > PARENTS:
            raise InvalidArgument.of_field("parents", f"there are {len(self.parents)}; it takes {PARENTS}")
        for parent in self.parents:
            check_artifact_id(parent, "parents")
        if self.ttl is not None and not (
            not isinstance(self.ttl, bool) and math.isfinite(self.ttl) and self.ttl > 0
        ):
            raise InvalidArgument.of_field("ttl", f"{self.ttl!r} is no time; it takes seconds above 0")


def _matching(field: str, value: str, pattern: re.Pattern[str], rule: str) -> None:
    if not pattern.fullmatch(value):
        raise InvalidArgument.of_field(field, f"{value[:80]!a} can't be; it takes {rule}")


def page_of(page_size: int, page_token: str) -> tuple[int, int | None]:
    """How many a page has, and the place that it begins below. INVALID_ARGUMENT."""
    if page_size < 0:
        raise InvalidArgument.of_field(
            "pageSize", f"{page_size} is below 0; it takes 0 (the default) or more"
        )
    if not page_token:
        return min(page_size or PAGE, PAGE_MAX), None
    if not (page_token.isascii() and page_token.isdigit() and len(page_token) < 19):
        raise InvalidArgument.of_field(
            "pageToken", f"{page_token[:80]!a} is no token of a page; take nextPageToken of the page before"
        )
    return min(page_size or PAGE, PAGE_MAX), int(page_token)


def range_of(start: int, end: int | None, total: int) -> tuple[int, int]:
    """The bytes that are meant. INVALID_ARGUMENT where there are none such."""
    last = total if end is None else min(end, total)
    if not 0 <= start <= last:
        raise InvalidArgument.of_field(
            "range",
            f"bytes {start} to {end if end is not None else 'the end'}: there are {total}",
            reason=CallReason.RANGE_NOT_SATISFIABLE,
        )
    return start, last


def no_such(ref: str) -> NotFound:
    """The one answer for all that can't be seen."""
    return NotFound(
        f"there is no artifact {ref}; it may never have been, or has expired, or was removed",
        reason=CallReason.NO_SUCH_ARTIFACT,
    )


def too_large(limit: int) -> ResourceExhausted:
    return ResourceExhausted(
        f"the artifact has more than {limit} bytes, which is the limit (artifact_bytes)",
        reason=CallReason.QUOTA_EXCEEDED,
        limit="artifact_bytes",
        retryable=False,
        metadata={"limitBytes": str(limit)},
    )


def other_digest(received: str, announced: str) -> InvalidArgument:
    return InvalidArgument.of_field(
        "sha256", f"{received} was received and {announced} announced; send it again"
    )


def damaged(ref: str, what: str) -> Internal:
    return Internal(
        f"artifact {ref}: {what}; what is stored is not what was put, and is not handed out",
        reason=CallReason.ARTIFACT_DAMAGED,
    )
