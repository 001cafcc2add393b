"""The network that a runtime may reach: what is asked for, what is in force, and the same in words."""

from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from cellhouse.model.errors import InvalidArgument
from cellhouse.model.hosts import Host, HostPattern, read_host, read_port, show_host
from cellhouse.model.wire import Int32, Int64, Text, Wire, proto3

PATTERNS_MAX: Final = 64
PATTERN_CHARS: Final = 8_192
"""Of all patterns of one policy together: what a kernel's environment has room for."""
VARIABLE: Final = "CELLHOUSE_NETWORK"
"""The variable that tells code inside its policy in words."""

PolicyName = Literal["none", "allow", "open"]
_HOW_TO_ASK: Final = 'network {"allow": ["HOST:PORT", …]} (command line: --network allow=HOST:PORT,…)'


def _patterns(value: Any) -> Any:
    """A list of patterns, each in its one form, none twice."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise _wrong("takes a list of HOST:PORT, such as index.example:443 or *.example.org:443")
    texts = list(value)
    if not texts:
        raise _wrong("is empty; name what may be reached, or leave it out for no network")
    if len(texts) > PATTERNS_MAX:
        raise _wrong(
            f"has {len(texts)} entries, and takes at most {PATTERNS_MAX}; a wildcard names many hosts"
        )
    found: dict[str, None] = {}
    for text in texts:
        if not isinstance(text, str):
            raise _wrong(f"takes texts such as index.example:443, and {type(text).__name__} is none")
        try:
            found[str(HostPattern.parse(text.strip()))] = None
        except ValueError as error:
            raise _wrong(f"{error}") from None
    if sum(map(len, found)) > PATTERN_CHARS:
        raise _wrong(f"takes at most {PATTERN_CHARS} characters in all; a wildcard names many hosts")
    return tuple(found)


def _wrong(rule: str) -> PydanticCustomError:
    return PydanticCustomError("network", "{rule}", {"rule": rule})


class NetworkPolicy(Wire):
    """What a runtime may reach. `allow` alone is enough to ask for what it names.

    `none`: nothing but a loopback of its own. `allow`: what matches a pattern (`HostPattern`), through a proxy outside.
    `open`: the network of the host, its loopback included, where the operator has allowed that.
    """

    policy: PolicyName = "none"
    allow: Annotated[tuple[Text, ...], BeforeValidator(_patterns)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _one_of_them(cls, values: Any) -> Any:
        if isinstance(values, cls):
            return values
        if not isinstance(values, dict):
            raise _wrong(
                'takes an object: {"policy": "none"}, {"policy": "open"} or {"allow": ["HOST:PORT", …]}'
            )
        if unknown := [str(name)[:64] for name in values if name not in cls.model_fields]:
            raise _wrong(f"takes policy and allow; not known: {', '.join(unknown)}")
        policy, allow = values.get("policy"), values.get("allow")
        if policy is not None and policy not in ("none", "allow", "open"):
            raise _wrong(f"policy {str(policy)[:40]!a} is none of none, allow and open")
        if allow is None:
            if policy == "allow":
                raise _wrong('policy "allow" takes a list: {"allow": ["HOST:PORT", …]}')
            return values
        if policy not in (None, "allow"):
            raise _wrong(f'policy "{policy}" takes no list; leave out the one or the other')
        return {**values, "policy": "allow"}

    @classmethod
    def parse(cls, text: str) -> Self:
        """`none`, `open`, or `allow=HOST:PORT,HOST:PORT`, as on a command line. Raises InvalidArgument."""
        kind, equals, rest = text.strip().partition("=")
        if kind in ("none", "open") and not equals:
            return cls(policy="none" if kind == "none" else "open")
        if kind != "allow":
            raise InvalidArgument.of_field(
                "network", f"{text[:80]!a} is no policy; it takes none, open or allow=HOST:PORT,HOST:PORT"
            )
        try:
            return cls(allow=tuple(each for each in rest.split(",") if each.strip()))
        except ValidationError as error:
            raise InvalidArgument.of_validation("network", error) from None

    @property
    def patterns(self) -> tuple[HostPattern, ...]:
        return tuple(map(HostPattern.parse, self.allow or ()))

    def allows(self, host: Host, port: int) -> bool:
        """Whether a pattern names it. What its name leads to is judged where it is dialled."""
        return any(pattern.matches(host, port) for pattern in self.patterns)


NO_NETWORK: Final = NetworkPolicy(policy="none")


class NetworkRefusal(Wire):
    """Something that code wanted to reach and did not, and how often; the last time is told."""

    # HOST:PORT as it was asked for; empty where what was asked for could not be read.
    target: Annotated[Text, proto3] = ""
    reason: Text
    text: Text
    count: Int64
    time: Text


class NetworkReport(Wire):
    """What is in force of a runtime's network, and what has come of it so far."""

    policy: Text
    allow: tuple[Text, ...] | None = None
    # Requests that were let through, and that were not.
    allowed: Int64 | None = None
    refused: Int64 | None = None
    # Of connections through the proxy, as seen from inside; their limit is for both together.
    bytes_sent: Int64 | None = None
    bytes_received: Int64 | None = None
    limit_bytes: Int64 | None = None
    connections: Int32 | None = None
    limit_connections: Int32 | None = None
    # The last ones, newest last.
    refusals: tuple[NetworkRefusal, ...] | None = None


def in_words(policy: NetworkPolicy | None) -> str:
    """The policy as a sentence for whoever works inside: what may be reached, and what to ask for where that is too little."""
    if policy is not None and policy.policy == "open":
        return "open: this runtime is on the network of its host, and nothing here stands in the way"
    if policy is not None and policy.allow:
        named = ", ".join(policy.allow)
        return (
            f"allow: this runtime reaches {named} and nothing else, through the proxy in HTTPS_PROXY; "
            f"for more, create a runtime with {_HOW_TO_ASK}"
        )
    return f"none: this runtime has no network; create one with {_HOW_TO_ASK}"


def in_the_way(policy: NetworkPolicy | None, host: str, port: int = 443) -> str:
    """What of the policy keeps code from `host`:`port`, and what to ask for; empty where nothing does.

    For whoever explains why something could not be fetched. The policy is what was asked for: a name that it allows may
    still lead nowhere, or to an address that is not public.
    """
    try:
        found, number = read_host(host), read_port(f"{port}")
    except ValueError as error:
        return f"{error}"
    shown = f"{show_host(found)}:{number}"
    if policy is not None and (policy.policy == "open" or policy.allows(found, number)):
        return ""
    if policy is None or not policy.allow:
        return (
            f"this runtime has no network (policy none), so {shown} can't be reached; "
            f'create a runtime with network {{"allow": ["{shown}"]}}'
        )
    return (
        f"this runtime's network policy does not name {shown}; it allows {', '.join(policy.allow)}. "
        f'Create a runtime with "{shown}" among them'
    )
