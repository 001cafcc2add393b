"""Network policies: what is a pattern, what it names, what an operator lets callers ask for."""

import ipaddress

import pytest

from cellhouse.model import FailedPrecondition, InvalidArgument, NetworkPolicy, NetworkSettings, RuntimeSpec
from cellhouse.model.addresses import why_not_public
from cellhouse.model.hosts import HostPattern, read_authority, read_host
from cellhouse.model.network import in_the_way, in_words


def test_a_policy_is_told_in_one_form() -> None:
    policy = NetworkPolicy.parse(
        "allow=Index.Example.:443, *.Example.org:8443,10.0.0.0/8:80,[::1]:5,index.example:443"
    )
    assert policy.allow == ("index.example:443", "*.example.org:8443", "10.0.0.0/8:80", "[::1]:5")
    assert RuntimeSpec(network=policy).to_wire()["network"] == {
        "policy": "allow",
        "allow": list(policy.allow),
    }
    assert RuntimeSpec.from_wire(
        {"network": {"allow": ["index.example:443"]}}
    ).network == NetworkPolicy.parse("allow=index.example:443")
    assert NetworkPolicy.parse("open").policy == "open"
    assert RuntimeSpec().network is None


@pytest.mark.parametrize(
    "pattern",
    [
        "index.example",
        "index.example:",
        ":443",
        "index.example:0",
        "index.example:65536",
        "index.example:0443",
        "index.example:https",
        "index.example:*",
        "https://index.example:443",
        "user@index.example:443",
        "index..example:443",
        "-a.org:443",
        "a b.org:443",
        "a.org\r\nx:443",
        "bücher.example:443",
        f"{'a' * 64}.org:443",
        f"{'a.' * 127}org:443",
        "a.*.org:443",
        "*a.org:443",
        "**:443",
        "*.10.0.0.1:443",
        "2130706433:80",
        "0x7f000001:80",
        "0x7f.1:80",
        "127.1:80",
        "0177.0.0.1:80",
        "127.0.0.01:80",
        "1.2.3.4.5:80",
        "::1:80",
        "[::1:80",
        "[fe80::1%eth0]:80",
        "10.0.0.1/8:80",
        "",
    ],
)
def test_what_is_no_pattern_is_refused_with_its_rule(pattern: str) -> None:
    with pytest.raises(
        InvalidArgument, match=r"names no port|no port|is no |ends in a number|ASCII|a wildcard"
    ) as no:
        RuntimeSpec.from_wire({"network": {"allow": [pattern]}})
    assert no.value.metadata["field"] == "network.allow"


@pytest.mark.parametrize(
    "document",
    [
        "none",
        5,
        [],
        {"policy": "some"},
        {"policy": "allow"},
        {"policy": "open", "allow": ["a:1"]},
        {"allowed": []},
    ]
    + [
        {"allow": value}
        for value in ("a.b:1", [], [5], ["a.b:1"] * 65, [f"{'a' * 60}.{n}a:1" for n in range(64)] * 3)
    ],
)
def test_what_is_no_policy_is_refused(document: object) -> None:
    with pytest.raises(InvalidArgument, match="network"):
        RuntimeSpec.from_wire({"network": document})


@pytest.mark.parametrize(
    "text", ["", "all", "none=", "open=1", "allow", "allow=", "allow=,", "allow=index.example"]
)
def test_what_is_no_policy_on_a_command_line_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="network"):
        NetworkPolicy.parse(text)


@pytest.mark.parametrize(
    ("pattern", "host", "port", "matches"),
    [
        ("index.example:443", "index.example", 443, True),
        ("index.example:443", "INDEX.EXAMPLE.", 443, True),
        ("index.example:443", "index.example", 80, False),
        ("index.example:443", "notindex.example", 443, False),
        ("index.example:443", "index.example.evil.example", 443, False),
        ("*.index.example:443", "index.example", 443, False),
        ("*.index.example:443", "a.index.example", 443, True),
        ("*.index.example:443", "b.a.index.example", 443, True),
        ("*.index.example:443", "aindex.example", 443, False),
        ("*:443", "anything.example", 443, True),
        ("*:443", "93.184.216.34", 443, False),
        ("93.184.216.34:443", "93.184.216.34", 443, True),
        ("10.0.0.0/8:80", "10.1.2.3", 80, True),
        ("10.0.0.0/8:80", "[::ffff:10.1.2.3]", 80, True),
        ("10.0.0.0/8:80", "11.1.2.3", 80, False),
        ("[2001:db8::1]:80", "[2001:DB8:0::1]", 80, True),
    ],
)
def test_a_pattern_names_what_it_says_and_nothing_else(
    pattern: str, host: str, port: int, matches: bool
) -> None:
    assert HostPattern.parse(pattern).matches(read_host(host), port) is matches


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.216.34", True),
        ("1.1.1.1", True),
        ("0.0.0.0", False),
        ("10.0.0.1", False),
        ("100.100.100.200", False),
        ("127.0.0.1", False),
        ("127.255.255.255", False),
        ("168.63.129.16", False),
        ("169.254.169.254", False),
        ("172.31.0.1", False),
        ("172.32.0.1", True),
        ("192.168.1.1", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("2606:4700::1111", True),
        ("::", False),
        ("::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:1.1.1.1", True),
        ("::127.0.0.1", False),
        ("64:ff9b::7f00:1", False),
        ("64:ff9b::a9fe:a9fe", False),
        ("64:ff9b::101:101", True),
        ("64:ff9b:1::1", False),
        ("2002:7f00:1::", False),
        ("2001::1", False),
        ("fe80::1", False),
        ("fc00::1", False),
        ("fd00:ec2::254", False),
        ("ff02::1", False),
    ],
)
def test_an_address_is_public_or_not(address: str, public: bool) -> None:
    assert (why_not_public(ipaddress.ip_address(address)) == "") is public


def test_an_authority_is_a_host_and_a_port() -> None:
    assert read_authority("A.example:443") == ("a.example", 443)
    assert read_authority("[::1]:80") == (ipaddress.ip_address("::1"), 80)
    assert read_authority("[::1]", 80) == (ipaddress.ip_address("::1"), 80)
    for text in ("a", "", ":1", "a:", "a:b:1", "[::1]x:1", "a:-1", "a:+1", "a:١", "a\0:1", "a/b:1"):
        with pytest.raises(ValueError, match=r"\w"):
            read_authority(text)


@pytest.mark.parametrize(
    ("settings", "policy", "why"),
    [
        (NetworkSettings(), "open", "network.may_open"),
        (NetworkSettings(may_open=True), "open", ""),
        (NetworkSettings(), "allow=*:443", ""),
        (NetworkSettings(), "allow=1.1.1.1:443", ""),
        (NetworkSettings(), "allow=10.0.0.1:80", "network.private"),
        (NetworkSettings(), "allow=0.0.0.0/0:443", "network.private"),
        (NetworkSettings(), "allow=[::ffff:10.0.0.1]:443", "network.private"),
        (NetworkSettings(private=("10.0.0.0/24",)), "allow=10.0.0.1:80,10.0.0.0/25:443", ""),
        (NetworkSettings(private=("10.0.0.0/24",)), "allow=10.0.0.0/8:80", "network.private"),
        (NetworkSettings(may_allow=()), "allow=index.example:443", "network.may_allow"),
        (
            NetworkSettings(may_allow=("*.index.example:443",)),
            "allow=a.index.example:443,*.index.example:443,*.b.index.example:443",
            "",
        ),
        (NetworkSettings(may_allow=("*.index.example:443",)), "allow=index.example:443", "network.may_allow"),
        (
            NetworkSettings(may_allow=("*.index.example:443",)),
            "allow=a.index.example:80",
            "network.may_allow",
        ),
        (NetworkSettings(may_allow=("*.index.example:*",)), "allow=a.index.example:80", ""),
        (NetworkSettings(may_allow=("index.example:443",)), "allow=*.index.example:443", "network.may_allow"),
        (NetworkSettings(may_allow=("index.example:443",)), "allow=*:443", "network.may_allow"),
        (NetworkSettings(may_allow=()), "none", ""),
    ],
)
def test_what_is_asked_for_must_be_let(settings: NetworkSettings, policy: str, why: str) -> None:
    asked = NetworkPolicy.parse(policy)
    if not why:
        settings.check(asked)
        return
    with pytest.raises(FailedPrecondition, match=why):
        settings.check(asked)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("may_allow", ("index.example",)),
        ("may_allow", "index.example:443"),
        ("private", ("inside.example",)),
        ("private", ("10.0.0.1/8",)),
        ("headers", ("api.example Authorization",)),
        ("headers", ("api.example Authorization sk-12345",)),
        ("headers", ("api.example Host env:KEY",)),
        ("headers", ("api.example Content-Length env:KEY",)),
        ("headers", ("api.example X-Key: env:KEY",)),
        ("headers", ("*.example X-Key env:KEY",)),
        ("headers", ("api.example X-Key file:relative",)),
        ("may_open", "yes"),
        ("connections", 0),
        ("connections", True),
        ("connections", 1.5),
        ("idle_seconds", float("nan")),
    ],
)
def test_settings_that_can_not_be_are_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(InvalidArgument) as refused:
        NetworkSettings(**{field: value})  # type: ignore[arg-type]
    assert refused.value.metadata["field"] == field
    assert "sk-12345" not in refused.value.message


def test_a_policy_says_in_words_what_it_lets_through_and_what_to_ask_for() -> None:
    policy = NetworkPolicy.parse("allow=*.index.example:443")
    assert in_words(None).startswith("none: ")
    assert in_words(NetworkPolicy.parse("open")).startswith("open: ")
    assert "*.index.example:443" in in_words(policy)
    assert in_the_way(policy, "files.index.example") == ""
    assert in_the_way(NetworkPolicy.parse("open"), "index.example") == ""
    assert "index.example:443" in in_the_way(policy, "Index.Example")
    assert "policy none" in in_the_way(None, "index.example")
    assert "is no name" in in_the_way(policy, "a b")
