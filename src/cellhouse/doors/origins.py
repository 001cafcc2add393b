"""Which hosts and which origins a request may name: against DNS rebinding and pages that call what is not theirs."""

import ipaddress
from collections.abc import Collection, Sequence

from cellhouse.model import CallReason, PermissionDenied

Headers = Sequence[tuple[bytes, bytes]]

_METHODS = "GET, PUT, POST, DELETE"
_REQUEST_HEADERS = (
    "Authorization, Content-Type, Last-Event-ID, Range, If-None-Match, Repr-Digest, Mcp-Protocol-Version, Mcp-Session-Id, "
    "Mcp-Method, Mcp-Name"
)
_RESPONSE_HEADERS = "Cellhouse-Execution, Content-Range, ETag, Repr-Digest, Retry-After, Mcp-Session-Id"


class Origins:
    """`hosts` are names that the Host header may have, besides localhost and plain addresses; None is any at all.

    A plain address needs no rule: a page that is served under it is ours. `allowed` are origins whose pages may call.
    """

    def __init__(self, hosts: Collection[str] | None, allowed: Collection[str] = ()) -> None:
        self._hosts = None if hosts is None else frozenset({"localhost", *(host.lower() for host in hosts)})
        self._allowed = frozenset(origin.rstrip("/").lower() for origin in allowed)

    def check(self, headers: Headers, scheme: str) -> str:
        """The origin whose page calls and may; empty where no page of another origin does. Else PERMISSION_DENIED."""
        hosts = [value.decode("latin-1").lower() for name, value in headers if name == b"host"]
        if self._hosts is not None and (len(hosts) != 1 or not self._is_ours(_name_of(hosts[0]))):
            raise PermissionDenied(
                f"Host: {', '.join(hosts)[:200]!a} is no name of this service; call it by its address, or have the name "
                "allowed (--allowed-host)",
                reason=CallReason.HOST_NOT_ALLOWED,
            )
        origins = {value.decode("latin-1").lower() for name, value in headers if name == b"origin"}
        if not origins or origins == {f"{scheme}://{host}" for host in hosts}:
            return ""
        (origin, *more) = origins
        if more or origin not in self._allowed:
            raise PermissionDenied(
                f"Origin: pages of {', '.join(sorted(origins))[:200]!a} may not call this service; have the origin "
                "allowed (--cors-origin)",
                reason=CallReason.ORIGIN_NOT_ALLOWED,
            )
        return origin

    def _is_ours(self, host: str) -> bool:
        assert self._hosts is not None
        if host in self._hosts:
            return True
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return False
        return True


def _name_of(host: str) -> str:
    """The Host header without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].removesuffix(".")


def cors_headers(origin: str) -> list[tuple[bytes, bytes]]:
    """What lets a page of this origin read the response."""
    return [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", _RESPONSE_HEADERS.encode()),
        (b"vary", b"Origin"),
    ]


def preflight_headers(origin: str) -> list[tuple[bytes, bytes]]:
    """What lets it ask in the first place."""
    return [
        *cors_headers(origin),
        (b"access-control-allow-methods", _METHODS.encode()),
        (b"access-control-allow-headers", _REQUEST_HEADERS.encode()),
        (b"access-control-max-age", b"600"),
    ]
