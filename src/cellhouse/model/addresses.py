"""Which IP addresses are public: what a name may lead to that nobody named by its number.

The table is the project's own, after the IANA registries of special-purpose addresses (RFC 6890 and its updates), since
what the standard library calls global differs from one patch release to the next.
"""

import ipaddress
from typing import Final

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_NOT_PUBLIC_4: Final = tuple(
    (ipaddress.IPv4Network(network), kind)
    for network, kind in (
        ("0.0.0.0/8", "this host's network"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared between providers and their customers"),
        ("127.0.0.0/8", "loopback"),
        # Where clouds give out the credentials of their machines.
        ("168.63.129.16/32", "a cloud's metadata"),
        ("169.254.0.0/16", "link-local, where clouds have their metadata"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "protocol assignments"),
        ("192.0.2.0/24", "documentation"),
        ("192.31.196.0/24", "special"),
        ("192.52.193.0/24", "special"),
        ("192.88.99.0/24", "a relay for IPv6"),
        ("192.168.0.0/16", "private"),
        ("192.175.48.0/24", "special"),
        ("198.18.0.0/15", "benchmarks"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
)
_UNICAST_6: Final = ipaddress.IPv6Network("2000::/3")
_NOT_PUBLIC_6: Final = tuple(
    (ipaddress.IPv6Network(network), kind)
    for network, kind in (
        ("2001::/23", "protocol assignments, tunnels among them"),
        ("2001:db8::/32", "documentation"),
        ("2002::/16", "a tunnel to an IPv4 address"),
        ("2620:4f:8000::/48", "special"),
        ("3fff::/20", "documentation"),
    )
)
_LOCAL_6: Final = tuple(
    (ipaddress.IPv6Network(network), kind)
    for network, kind in (
        ("::1/128", "loopback"),
        ("fe80::/10", "link-local"),
        ("fc00::/7", "private"),
        ("ff00::/8", "multicast"),
    )
)
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")


def plain(address: Address) -> Address:
    """An IPv4 address that is written as an IPv6 one (`::ffff:10.0.0.1`) as what it is."""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def why_not_public(address: Address) -> str:
    """What kind of address it is, where it is none of the public internet; else empty."""
    address = plain(address)
    if isinstance(address, ipaddress.IPv4Address):
        return next((kind for network, kind in _NOT_PUBLIC_4 if address in network), "")
    if (
        address in _NAT64
    ):  # a translator stands in between; what it dials is the address in the last four bytes
        return why_not_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    if address not in _UNICAST_6:
        return next((kind for network, kind in _LOCAL_6 if address in network), "reserved")
    return next((kind for network, kind in _NOT_PUBLIC_6 if address in network), "")


def is_public(network: Network) -> bool:
    """Whether all addresses of a network are public."""
    if isinstance(network, ipaddress.IPv4Network):
        return not any(network.overlaps(other) for other, _ in _NOT_PUBLIC_4)
    return network.subnet_of(_UNICAST_6) and not any(network.overlaps(other) for other, _ in _NOT_PUBLIC_6)


def is_within(network: Network, outer: Network) -> bool:
    """Whether all of a network lies in another one."""
    if isinstance(network, ipaddress.IPv4Network):
        return isinstance(outer, ipaddress.IPv4Network) and network.subnet_of(outer)
    return isinstance(outer, ipaddress.IPv6Network) and network.subnet_of(outer)
