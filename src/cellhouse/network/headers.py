"""Headers: which end at a proxy, and those that it adds for a host, whose values are read at each use."""

import os
import re
from typing import Final

from cellhouse.model import HeaderRule
from cellhouse.model.hosts import show_host
from cellhouse.network.decisions import Reason, Refused

VALUE_BYTES: Final = 8_192

Headers = list[tuple[bytes, bytes]]

_HOP: Final = frozenset(
    b"connection keep-alive proxy-connection proxy-authorization proxy-authenticate te trailer transfer-encoding "
    b"upgrade expect".split()
)
_VALUE: Final = re.compile(rb"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")


def passed_on(headers: Headers, *without: bytes) -> Headers:
    """What is not for the next hop alone (RFC 9110, section 7.6.1), nor among `without`. Names are in lower case."""
    named = {
        each.strip().lower() for name, value in headers if name == b"connection" for each in value.split(b",")
    }
    return [
        (name, value)
        for name, value in headers
        if name not in _HOP and name not in named and name not in without
    ]


def secret(rule: HeaderRule) -> bytes:
    """The value of a header that is added. Refused where there is none; no message has anything of it."""
    kind, _, where = rule.source.partition(":")
    try:
        value = _of_file(where) if kind == "file" else os.environb[os.fsencode(where)]
    except (OSError, KeyError) as error:
        # Not where it lies: a tenant reads this, and the header and its host tell the operator enough.
        raise _unavailable(rule, f"its {kind}: {type(error).__name__}") from None
    value = value.strip(b"\r\n")
    if len(value) > VALUE_BYTES or not _VALUE.fullmatch(value):
        raise _unavailable(
            rule, f"its {kind}: not one line of at most {VALUE_BYTES} bytes of printable ASCII"
        )
    return value


def _of_file(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(VALUE_BYTES + 2)


def _unavailable(rule: HeaderRule, detail: str) -> Refused:
    return Refused(
        502,
        Reason.HEADER_UNAVAILABLE,
        f"the header {rule.header} that this service adds for {show_host(rule.host)} can't be had; its operator has to look",
        detail=detail,
    )
