"""What an operator lets callers ask for of the network, and the limits that the proxy holds."""

import math
import re
from dataclasses import dataclass, fields
from typing import Any, Final

from cellhouse.model.addresses import Address, Network, is_public, is_within
from cellhouse.model.enums import CallReason
from cellhouse.model.errors import FailedPrecondition, InvalidArgument
from cellhouse.model.hosts import Host, HostPattern, read_authority, read_network
from cellhouse.model.limits import GIB, KIB
from cellhouse.model.network import NetworkPolicy

_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}", re.ASCII)
_SOURCE: Final = re.compile(r"file:(/.{1,4095})|env:([A-Za-z_][A-Za-z0-9_]{0,127})", re.ASCII)
# What makes a message another one is not for anybody to set.
_FRAMING: Final = frozenset(
    ("connection", "content-length", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade")
)


@dataclass(frozen=True, slots=True)
class HeaderRule:
    """A header that the proxy adds to requests for one host. Its value is in a file or a variable of the service."""

    host: Host
    port: int
    header: str
    source: str
    """`file:/absolute/path` or `env:NAME`."""

    @classmethod
    def parse(cls, text: str) -> "HeaderRule":
        """`HOST[:PORT] HEADER SOURCE`, such as `api.example.org Authorization file:/etc/keys/api`. Raises ValueError."""
        parts = text.split(None, 2)
        if len(parts) != 3:
            raise ValueError(
                f"{text[:80]!a} takes a host, the name of a header and file:/PATH or env:NAME, with spaces in between"
            )
        host, port = read_authority(parts[0], 443)
        if not _HEADER_NAME.fullmatch(parts[1]) or parts[1].lower() in _FRAMING:
            raise ValueError(f"{parts[1][:64]!a} is no header that can be added")
        if not _SOURCE.fullmatch(parts[2]):
            raise ValueError(
                "the value of a header comes from file:/ABSOLUTE/PATH or env:NAME, and is never written here"
            )
        return cls(host, port, parts[1], parts[2])


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """What runtimes may ask for, and what the proxy of each holds. InvalidArgument names what can't be."""

    # Patterns as in a policy, `*` for any port too; what is asked for must be covered by one of them.
    may_allow: tuple[str, ...] = ("*:*", "0.0.0.0/0:*", "[::/0]:*")
    may_open: bool = False
    # Addresses and networks that are not public, and that policies may name all the same.
    private: tuple[str, ...] = ()
    # See `HeaderRule`.
    headers: tuple[str, ...] = ()
    # Connections of one runtime at a time.
    connections: int = 64
    # Of one runtime as long as it lives, both ways together.
    total_bytes: int = 16 * GIB
    # Of the head of one request or response.
    head_bytes: int = 32 * KIB
    # For a request's head to be there whole, from the connection's begin.
    request_seconds: float = 30.0
    # For a name to be resolved and a connection to it to stand.
    connect_seconds: float = 15.0
    # Without a byte either way.
    idle_seconds: float = 300.0

    def __post_init__(self) -> None:
        for name in ("may_allow", "private", "headers"):
            value: Any = getattr(self, name)
            if not isinstance(value, tuple | list) or not all(isinstance(each, str) for each in value):
                raise InvalidArgument.of_field(name, f"{value!r} is no list of texts")
        try:
            field = "may_allow"
            _ = self.offered
            field = "private"
            _ = self.private_networks
            field = "headers"
            _ = self.header_rules
        except ValueError as error:
            raise InvalidArgument.of_field(field, f"{error}") from None
        if not isinstance(self.may_open, bool):
            raise InvalidArgument.of_field("may_open", f"{self.may_open!r} is neither true nor false")
        for each in fields(self):
            number: Any = getattr(self, each.name)
            if each.type not in (int, float):
                continue
            whole = type(number) is int or (each.type is float and type(number) is float)
            if not whole or not math.isfinite(number) or number <= 0:
                raise InvalidArgument.of_field(
                    each.name, f"{number!r} is no limit; it takes a finite number above 0"
                )

    @property
    def offered(self) -> tuple[HostPattern, ...]:
        return tuple(HostPattern.parse(text, any_port=True) for text in self.may_allow)

    @property
    def private_networks(self) -> tuple[Network, ...]:
        return tuple(map(read_network, self.private))

    @property
    def header_rules(self) -> tuple[HeaderRule, ...]:
        return tuple(map(HeaderRule.parse, self.headers))

    def is_private(self, address: Address) -> bool:
        """Whether policies may name this address though it is not public."""
        return any(address in network for network in self.private_networks)

    def check(self, policy: NetworkPolicy | None) -> None:
        """FailedPrecondition where a runtime asks for what the operator does not let it have."""
        if policy is None or policy.policy == "none":
            return
        if policy.policy == "open":
            if not self.may_open:
                raise _refused(
                    'network: policy "open" is not allowed by this service; name what is needed with allow, or have '
                    "its operator set network.may_open",
                    policy,
                )
            return
        for pattern in policy.patterns:
            self._check(pattern, policy)

    def _check(self, pattern: HostPattern, policy: NetworkPolicy) -> None:
        if pattern.network is not None and not is_public(pattern.network):
            if not any(is_within(pattern.network, network) for network in self.private_networks):
                raise _refused(
                    f"network: {pattern} is not on the public internet, and this service lets nobody reach it; ask for "
                    "another host, or have its operator name it in network.private",
                    policy,
                )
            return
        if not any(offered.covers(pattern) for offered in self.offered):
            what = ", ".join(self.may_allow) or "nothing"
            raise _refused(
                f"network: {pattern} is not among what this service lets runtimes reach, which is {what}; ask for that, "
                "or have its operator set network.may_allow",
                policy,
            )


def _refused(message: str, policy: NetworkPolicy) -> FailedPrecondition:
    return FailedPrecondition(
        message, reason=CallReason.POLICY_UNAVAILABLE, metadata={"network": policy.policy}
    )
