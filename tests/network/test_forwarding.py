"""Plain http:// through the proxy: every message taken apart and made anew, and headers that it adds for a host."""

import asyncio
import ssl
from pathlib import Path

import pytest

from cellhouse.network import Reason
from tests.network.authority import Authority
from tests.network.support import Names, Web, rest, rigged, send, serving, until_there

NAMES = {"api_example": [["127.0.0.1"]], "other_example": [["127.0.0.1"]]}
KEY = "Bearer sk-precious"


async def test_a_request_goes_on_with_its_own_head_and_its_body() -> None:
    web = Web(
        b"HTTP/1.1 201 Made\r\nX-From: there\r\nKeep-Alive: 5\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nhi"
    )
    async with serving(web) as port, rigged(f"127.0.0.1:{port}") as rig:
        response = await rig.ask(
            f"POST http://127.0.0.1:{port}/a?b=c HTTP/1.1\r\nHost: elsewhere.example\r\nX-Mine: yes\r\nX-Hop: no\r\n"
            "Connection: close, X-Hop\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic eA==\r\nUpgrade: h2c\r\n"
            "Content-Length: 5\r\n\r\nhello".encode()
        )
    head = web.heads[0].lower()
    assert head.startswith(b"post /a?b=c http/1.1\r\n")
    assert b"host: 127.0.0.1:%d\r\n" % port in head
    assert b"x-mine: yes" in head
    for absent in (b"elsewhere", b"x-hop", b"proxy-", b"upgrade", b"keep-alive"):
        assert absent not in head
    assert web.bodies == [b"hello"]
    assert response.startswith(b"HTTP/1.1 201 Made\r\n")
    assert response.endswith(b"\r\n\r\nhi")
    assert b"keep-alive" not in response.lower()
    assert rig.reasons() == [None]
    assert rig.told[0].target == f"127.0.0.1:{port}"
    assert "/a" not in rig.told[0].text


async def test_bodies_of_every_kind_arrive_whole() -> None:
    web = Web(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
    async with serving(web) as port, rigged(f"127.0.0.1:{port}") as rig:
        client = await rig.connect()
        await send(
            client,
            f"PUT http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n".encode(),
        )
        await until_there(client, b"HTTP/1.1 100 Continue\r\n\r\n")
        await send(client, b"3\r\nabc\r\n0\r\n\r\n")
        assert (await rest(client)).endswith(b"5\r\nhello\r\n0\r\n\r\n")
        old = await rig.ask(f"GET http://127.0.0.1:{port} HTTP/1.0\r\n\r\n".encode())
    assert web.bodies[0].startswith(b"3\r\nabc\r\n")
    assert b"expect" not in web.heads[0].lower()
    assert web.heads[1].startswith(b"GET / HTTP/1.1\r\n")
    assert old.endswith(b"\r\n\r\nhello")


@pytest.mark.parametrize(
    "headers",
    [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: 5, 6\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Transfer-Encoding:\x0bchunked\r\n",
        "X: a\rTransfer-Encoding: chunked\r\n",
        "X: a\0b\r\n",
    ],
)
async def test_what_two_readers_could_read_in_two_ways_goes_nowhere(headers: str) -> None:
    web = Web()
    async with serving(web) as port, rigged(f"127.0.0.1:{port}") as rig:
        response = await rig.ask(
            f"POST http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: x\r\n{headers}\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n".encode()
        )
    assert response.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 501 "))
    assert web.heads == []
    assert rig.reasons() == [Reason.BAD_REQUEST]


async def test_a_folded_header_is_one_line_further_on() -> None:
    web = Web()
    async with serving(web) as port, rigged(f"127.0.0.1:{port}") as rig:
        await rig.ask(f"GET http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: x\r\nX: a\r\n Y: b\r\n\r\n".encode())
    assert all(b"\r\n " not in head for head in web.heads)


async def test_a_second_request_on_a_connection_is_nobodys() -> None:
    web = Web()
    async with serving(web) as port, rigged(f"127.0.0.1:{port}") as rig:
        one = f"GET http://127.0.0.1:{port}/first HTTP/1.1\r\nHost: x\r\n\r\n"
        response = await rig.ask(
            (one + "GET http://other.example/second HTTP/1.1\r\nHost: x\r\n\r\n").encode()
        )
    assert response.count(b"HTTP/1.1 ") == 1
    assert len(web.heads) == 1
    assert rig.reasons() == [None]


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (b"", Reason.BAD_RESPONSE),
        (b"220 smtp.example ESMTP\r\n\r\n", Reason.BAD_RESPONSE),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100_000, Reason.HEAD_TOO_LARGE),
        (b"HTTP/1.1 200 OK\r\nContent-Length: a\r\n\r\n", Reason.BAD_RESPONSE),
    ],
)
async def test_a_server_that_speaks_no_http_is_told_so(response: bytes, reason: Reason) -> None:
    async with serving(Web(response)) as port, rigged(f"127.0.0.1:{port}") as rig:
        told = await rig.ask(f"GET http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert told.startswith(b"HTTP/1.1 502 ")
    assert rig.reasons() == [None, reason]


async def test_a_response_that_breaks_off_is_no_whole_one() -> None:
    async with serving(Web(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")) as port:
        async with rigged(f"127.0.0.1:{port}") as rig:
            told = await rig.ask(f"GET http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert told.lower().count(b"content-length: 9") == 1
    assert told.endswith(b"half")


async def test_a_garbled_body_ends_the_request() -> None:
    async def waits(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with serving(waits) as port, rigged(f"127.0.0.1:{port}") as rig:
        told = await rig.ask(
            f"POST http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".encode()
        )
    assert told.startswith(b"HTTP/1.1 400 ")


async def test_a_server_that_refuses_before_it_has_read_all_is_heard() -> None:
    async def refuses(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        await reader.read()

    async with serving(refuses) as port, rigged(f"127.0.0.1:{port}") as rig:
        client = await rig.connect()
        await send(
            client,
            f"POST http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: x\r\nContent-Length: 999999\r\n\r\nab".encode(),
        )
        assert (await rest(client)).startswith(b"HTTP/1.1 413 Too Large")


# headers that the proxy adds


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.new(tmp_path_factory.mktemp("ca"))


@pytest.fixture
def trusted(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> Authority:
    """The service, as its operator has set it up, trusts this authority."""
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    return authority


async def test_a_header_is_added_outside_and_only_for_its_host(
    trusted: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text(KEY + "\n")
    secure, plain = Web(), Web()
    async with serving(secure, ssl=trusted.server("api.example")) as port, serving(plain) as other:
        rules = (f"api.example:{port} Authorization file:{tmp_path / 'key'}",)
        allowed = (f"api.example:{port}", f"other.example:{other}", f"127.0.0.1:{port}", f"127.0.0.1:{other}")
        async with rigged(*allowed, names=Names(**NAMES), headers=rules) as rig:
            mine = "Host: x\r\nAuthorization: Bearer mine\r\n\r\n"
            response = await rig.ask(f"GET http://api.example/v1 HTTP/1.1\r\n{mine}".encode())
            assert response.endswith(b"hi")
            await rig.ask(f"GET http://api.example:{port}/v2 HTTP/1.1\r\n{mine}".encode())
            # Another host is another host, whatever Host says; the same one by its number is none with a rule.
            await rig.ask(f"GET http://other.example:{other}/ HTTP/1.1\r\nHost: api.example\r\n\r\n".encode())
            await rig.ask(f"GET http://127.0.0.1:{other}/ HTTP/1.1\r\nHost: api.example\r\n\r\n".encode())
            report = rig.proxy.report()
    for head, path in zip(secure.heads, (b"/v1", b"/v2"), strict=True):
        assert head.startswith(b"GET %s HTTP/1.1\r\n" % path)
        assert head.count(b"uthorization: ") == 1
        assert KEY.encode() in head
        assert b"host: api.example:%d\r\n" % port in head
    assert len(plain.heads) == 2
    assert all(b"precious" not in head for head in plain.heads)
    assert "precious" not in repr(rig.told) + repr(report)
    monkeypatch.undo()


async def test_no_server_is_asked_to_show_what_was_added(trusted: Authority, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(KEY)
    web = Web()
    async with serving(web, ssl=trusted.server("api.example")) as port:
        rules = (f"api.example:{port} X-Key file:{tmp_path / 'key'}",)
        async with rigged(f"api.example:{port}", names=Names(**NAMES), headers=rules) as rig:
            response = await rig.ask(b"TRACE http://api.example/ HTTP/1.1\r\nHost: x\r\n\r\n")
    assert response.startswith(b"HTTP/1.1 405 TRACE ")
    assert web.heads == []
    assert rig.reasons() == [Reason.BAD_REQUEST]


async def test_a_redirect_is_the_clients_to_follow_without_the_header(
    trusted: Authority, tmp_path: Path
) -> None:
    (tmp_path / "key").write_text(KEY)
    away = Web(b"HTTP/1.1 302 Found\r\nLocation: http://other.example/\r\nContent-Length: 0\r\n\r\n")
    async with serving(away, ssl=trusted.server("api.example")) as port:
        rules = (f"api.example:{port} X-Key file:{tmp_path / 'key'}",)
        allowed = (f"api.example:{port}", f"127.0.0.1:{port}")
        async with rigged(*allowed, names=Names(**NAMES), headers=rules) as rig:
            response = await rig.ask(b"GET http://api.example/ HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"302 Found" in response
            assert b"location: http://other.example/" in response.lower()
            assert b"precious" not in response
            assert (await rig.ask(b"GET http://other.example/ HTTP/1.1\r\nHost: x\r\n\r\n")).startswith(
                b"HTTP/1.1 403 "
            )
    assert len(away.heads) == 1


async def test_a_header_goes_to_nobody_whose_certificate_is_not_the_hosts(
    trusted: Authority, tmp_path: Path
) -> None:
    (tmp_path / "key").write_text(KEY)
    web = Web()
    async with serving(web, ssl=trusted.server("evil.example")) as port:
        rules = (f"api.example:{port} X-Key file:{tmp_path / 'key'}",)
        async with rigged(
            f"api.example:{port}", f"127.0.0.1:{port}", names=Names(**NAMES), headers=rules
        ) as rig:
            response = await rig.ask(b"GET http://api.example/ HTTP/1.1\r\nHost: x\r\n\r\n")
    assert response.startswith(b"HTTP/1.1 502 ")
    assert web.heads == []
    assert rig.reasons() == [None, Reason.BAD_RESPONSE]


@pytest.mark.parametrize("value", [None, b"", b"a\nb", b"a\r\nX: y", b"\xff", b"x" * 9_000, b"a\0b"])
async def test_a_header_without_a_good_value_is_no_request(value: bytes | None, tmp_path: Path) -> None:
    if value is not None:
        (tmp_path / "key").write_bytes(value)
    rules = (f"api.example X-Key file:{tmp_path / 'key'}", "other.example X-Key env:CELLHOUSE_NO_SUCH")
    async with rigged("api.example:443", "other.example:443", names=Names(**NAMES), headers=rules) as rig:
        response = await rig.ask(b"GET http://api.example/ HTTP/1.1\r\nHost: x\r\n\r\n")
        assert response.startswith(b"HTTP/1.1 502 the header X-Key")
        assert str(tmp_path).encode() not in response
        assert (await rig.ask(b"GET http://other.example/ HTTP/1.1\r\nHost: x\r\n\r\n")).startswith(
            b"HTTP/1.1 502 "
        )
    assert rig.reasons() == [Reason.HEADER_UNAVAILABLE] * 2


async def test_a_header_of_a_host_that_is_not_named_is_not_even_read(tmp_path: Path) -> None:
    async with rigged("other.example:443", headers=(f"api.example X-Key file:{tmp_path / 'none'}",)) as rig:
        response = await rig.ask(b"GET http://api.example/ HTTP/1.1\r\nHost: x\r\n\r\n")
    assert response.startswith(b"HTTP/1.1 403 ")
    assert rig.reasons() == [Reason.NOT_NAMED]


def test_the_authority_of_the_tests_is_one(authority: Authority) -> None:
    assert isinstance(authority.server("a.example"), ssl.SSLContext)
