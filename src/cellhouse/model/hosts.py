"""Hosts and ports as they are written, and the patterns that a network policy names them by: read strictly.

A name is ASCII (`xn--…` for others), in letters, digits, `-` and `_`; case and one trailing dot mean nothing. What ends
in a number is an IPv4 address and is taken only as four decimal numbers: `2130706433`, `0x7f.1` and `127.1` are ways
round a list. An IPv6 address stands in brackets.
"""

import ipaddress
import re
from dataclasses import dataclass
from typing import Final, Self

from cellhouse.model.addresses import Address, Network, is_within, plain

NAME_CHARS: Final = 253
PORT_MAX: Final = 65_535

_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}", re.ASCII)

Host = str | Address
"""A name in lower case without a trailing dot, or an address."""


def read_host(text: str) -> Host:
    """The host that is written there. ValueError says what is wrong with it."""
    if text.startswith("[") and text.endswith("]"):
        try:
            if "%" in text:
                raise ValueError
            return plain(ipaddress.IPv6Address(text[1:-1]))
        except ValueError:
            raise ValueError(f"{_shown(text)} is no IPv6 address in brackets") from None
    if ":" in text:
        raise ValueError(
            f"{_shown(text)} is no name; an IPv6 address stands in brackets, such as [2001:db8::1]"
        )
    if not text.isascii():
        raise ValueError(f"{_shown(text)} is not ASCII; write an international name in its form with xn--")
    name = text.lower().removesuffix(".")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        try:
            return ipaddress.IPv4Address(name)
        except ValueError:
            raise ValueError(
                f"{_shown(text)} ends in a number and is no IPv4 address; write that as four decimal numbers"
            ) from None
    if len(name) > NAME_CHARS or not all(map(_LABEL.fullmatch, labels)):
        raise ValueError(
            f"{_shown(text)} is no name of a host; it takes labels of letters, digits and hyphens with dots in between"
        )
    return name


def read_port(text: str) -> int:
    """A port from 1 to 65535 in plain decimal digits. ValueError where it is none."""
    if not _PORT.fullmatch(text) or int(text) > PORT_MAX:
        raise ValueError(f"{_shown(text)} is no port; it takes a number from 1 to {PORT_MAX}")
    return int(text)


def read_authority(text: str, port: int | None = None) -> tuple[Host, int]:
    """`HOST:PORT`, or a host alone where there is a default `port`. ValueError says what is wrong with it."""
    host, colon, after = text.rpartition(":")
    if not colon or (text.endswith("]") and text.startswith("[")):
        if port is None:
            raise ValueError(f"{_shown(text)} has no port")
        return read_host(text), port
    return read_host(host), read_port(after)


def show_host(host: Host) -> str:
    return f"[{host}]" if isinstance(host, ipaddress.IPv6Address) else f"{host}"


@dataclass(frozen=True, slots=True)
class HostPattern:
    """`HOST:PORT`, where HOST is a name, `*.name`, an IP address or a network of them; `*` is any name.

    `*.name` stands for one or more labels before it: `a.name` and `b.a.name`, and not `name`. No name and no wildcard
    stands for an address: whoever asks for a number gets it only where a number is named. `port` None is any.
    """

    host: str
    """A name, `*.name`, `*`; empty where it is `network`."""
    network: Network | None
    port: int | None

    @classmethod
    def parse(cls, text: str, *, any_port: bool = False) -> Self:
        """ValueError says what is wrong with it. `*` is a port only with `any_port`."""
        host, colon, port = text.rpartition(":")
        if not colon or not host or text.endswith("]"):
            raise ValueError(f"{_shown(text)} names no port; it takes HOST:PORT, such as index.example:443")
        number = None if any_port and port == "*" else read_port(port)
        if host == "*":
            return cls("*", None, number)
        if "/" in host:
            return cls("", read_network(host), number)
        wild = host.startswith("*.")
        found = read_host(host.removeprefix("*.") if wild else host)
        if isinstance(found, str):
            return cls(f"*.{found}" if wild else found, None, number)
        if wild:
            raise ValueError(f"{_shown(text)}: a wildcard stands before a name, and not before an address")
        return cls("", ipaddress.ip_network(found), number)

    def __str__(self) -> str:
        port = "*" if self.port is None else f"{self.port}"
        if self.network is None:
            return f"{self.host}:{port}"
        one = self.network.num_addresses == 1
        text = f"{self.network.network_address if one else self.network}"
        return f"[{text}]:{port}" if self.network.version == 6 else f"{text}:{port}"

    def matches(self, host: Host, port: int) -> bool:
        """Whether this is what was asked for: by its name, or by its number where it was asked for by number."""
        if self.port not in (None, port):
            return False
        if isinstance(host, str):
            return self.network is None and _is_below(host, self.host)
        return self.network is not None and host in self.network

    def covers(self, other: "HostPattern") -> bool:
        """Whether whatever the other one matches is matched by this one."""
        if self.port not in (None, other.port):
            return False
        if self.network is not None or other.network is not None:
            return (
                self.network is not None
                and other.network is not None
                and is_within(other.network, self.network)
            )
        if self.host == other.host:
            return True
        return self.host.startswith("*") and _is_below(other.host.removeprefix("*."), self.host)


def read_network(text: str) -> Network:
    """An address or a network such as `10.0.0.0/8` or `[fd00::]/8`, also all in brackets. ValueError where it is none."""
    bare = text.replace("[", "", 1).replace("]", "", 1) if text.startswith("[") else text
    try:
        return ipaddress.ip_network(bare)
    except ValueError as error:
        raise ValueError(f"{_shown(text)} is no address and no network of them: {error}") from None


def _is_below(name: str, pattern: str) -> bool:
    if pattern == "*":
        return True
    return name.endswith(pattern[1:]) if pattern.startswith("*.") else name == pattern


def _shown(text: str) -> str:
    return f"{text[:80]!a}"
