"""CONNECT: what is let through, what is refused and how that is told, how a tunnel ends, what it may take up."""

import asyncio

import pytest

from cellhouse.network import Reason
from tests.network.support import Names, echo, rest, rigged, send, serving, until_there
from tests.runtime.support import until

ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


def connect(target: str, *headers: str) -> bytes:
    return "\r\n".join((f"CONNECT {target} HTTP/1.1", f"Host: {target}", *headers, "", "")).encode()


async def test_a_tunnel_carries_bytes_both_ways_until_both_sides_have_ended() -> None:
    async with serving(echo) as port, rigged(f"127.0.0.1:{port}") as rig:
        client = await rig.connect()
        # What comes right behind the request belongs to the tunnel.
        await send(client, connect(f"127.0.0.1:{port}") + b"early")
        assert await until_there(client, b"early") == ESTABLISHED + b"early"
        big = bytes(range(256)) * 8_192
        sending = asyncio.ensure_future(send(client, big))
        found = b""
        while len(found) < len(big):
            found += await client.read()
        await sending
        assert found == big
        client.end_writing()
        assert await rest(client) == b""
        report = rig.proxy.report()
    assert rig.reasons() == [None]
    assert (report.allowed, report.refused) == (1, 0)
    assert report.bytes_received == len(big) + len(ESTABLISHED) + 5
    assert report.bytes_sent is not None
    assert report.bytes_sent > len(big)


async def test_either_side_may_end_first() -> None:
    async def answers_at_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"%d bytes" % len(await reader.read()))

    async def ends_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"bye")
        writer.write_eof()
        late.append(await reader.read())

    late: list[bytes] = []
    async with serving(answers_at_the_end) as one, serving(ends_first) as other:
        async with rigged(f"127.0.0.1:{one}", f"127.0.0.1:{other}") as rig:
            client = await rig.connect()
            await send(client, connect(f"127.0.0.1:{one}"))
            await until_there(client, ESTABLISHED)
            await send(client, b"12345")
            client.end_writing()
            assert await rest(client) == b"5 bytes"
            client = await rig.connect()
            await send(client, connect(f"127.0.0.1:{other}"))
            assert await rest(client) == ESTABLISHED + b"bye"
            await send(client, b"still here")
            client.end_writing()
            await until(lambda: late)
    assert late == [b"still here"]


@pytest.mark.parametrize(
    ("target", "status", "reason"),
    [
        ("other.example:443", 403, Reason.NOT_NAMED),
        ("files.example:80", 403, Reason.NOT_NAMED),
        ("sub.files.example:443", 403, Reason.NOT_NAMED),
        ("files.example.other.example:443", 403, Reason.NOT_NAMED),
        ("93.184.216.34:443", 403, Reason.NOT_NAMED),
        ("169.254.169.254:80", 403, Reason.NOT_NAMED),
        ("[::ffff:169.254.169.254]:80", 403, Reason.NOT_NAMED),
        ("[::1]:443", 403, Reason.NOT_NAMED),
        ("localhost:443", 403, Reason.NOT_NAMED),
        ("2852039166:80", 400, Reason.BAD_REQUEST),
        ("0xa9fea9fe:80", 400, Reason.BAD_REQUEST),
        ("0251.0376.0251.0376:80", 400, Reason.BAD_REQUEST),
        ("169.254.43518:80", 400, Reason.BAD_REQUEST),
        ("127.1:443", 400, Reason.BAD_REQUEST),
        ("[fe80::1%25lo]:443", 400, Reason.BAD_REQUEST),
        ("files.example", 400, Reason.BAD_REQUEST),
        ("files.example:0", 400, Reason.BAD_REQUEST),
        ("files.example:65979", 400, Reason.BAD_REQUEST),
        ("files.example:443/x", 400, Reason.BAD_REQUEST),
        ("files.example:443@other.example:443", 400, Reason.BAD_REQUEST),
        ("user@files.example:443", 400, Reason.BAD_REQUEST),
        ("files..example:443", 400, Reason.BAD_REQUEST),
        ("*.example:443", 400, Reason.BAD_REQUEST),
    ],
)
async def test_what_is_not_named_is_refused_unresolved(target: str, status: int, reason: Reason) -> None:
    names = Names(files_example=[["93.184.216.34"]])
    async with rigged("files.example:443", names=names) as rig:
        response = await rig.ask(connect(target))
        assert response.startswith(b"HTTP/1.1 %d " % status)
        assert b"\r\nConnection: close\r\n" in response
        assert response.rpartition(b"\r\n\r\n")[2].startswith(b"cellhouse: ")
        report = rig.proxy.report()
    assert rig.reasons() == [reason]
    assert names.asked == []
    assert (report.allowed, report.refused) == (0, 1)
    assert report.refusals is not None
    assert report.refusals[0].reason == reason


async def test_a_refusal_says_in_its_first_line_what_stands_in_the_way_and_what_to_ask_for() -> None:
    async with rigged("files.example:443") as rig:
        first = (await rig.ask(connect("index.example:443"))).partition(b"\r\n")[0]
    assert b"does not name index.example:443" in first
    assert b"files.example:443" in first


@pytest.mark.parametrize(
    "addresses",
    [
        ["10.0.0.1"],
        ["127.0.0.1"],
        ["169.254.169.254"],
        ["::ffff:169.254.169.254"],
        ["fd00:ec2::254"],
        ["100.100.100.200"],
        ["0.0.0.0"],
        ["::"],
        ["64:ff9b::a9fe:a9fe"],
        ["2002:7f00:1::"],
        ["fe80::1%lo"],
        ["10.0.0.1", "192.168.0.1", "::1"],
        ["255.255.255.255"],
    ],
)
async def test_a_name_that_leads_nowhere_public_is_refused(addresses: list[str]) -> None:
    async with rigged(
        "files.example:443", names=Names(files_example=[addresses]), private=("10.0.0.0/8",)
    ) as rig:
        response = await rig.ask(connect("files.example:443"))
    assert response.startswith(b"HTTP/1.1 403 ")
    assert rig.reasons() == [Reason.NOT_PUBLIC]
    # Where it leads is told to the runtime's log, and not to the code.
    assert addresses[0].encode() not in response


async def test_an_address_that_is_not_public_is_named_by_its_number_by_both() -> None:
    names = Names(files_example=[["127.0.0.1"]])
    async with serving(echo) as port:
        name, number = f"files.example:{port}", f"127.0.0.1:{port}"
        async with rigged(name, names=names) as rig:
            assert (await rig.ask(connect(name))).startswith(b"HTTP/1.1 403 ")
        async with rigged(name, number, names=names, private=()) as rig:
            assert (await rig.ask(connect(name))).startswith(b"HTTP/1.1 403 ")
        async with rigged(name, number, names=names) as rig:
            client = await rig.connect()
            await send(client, connect(name))
            await until_there(client, ESTABLISHED)


async def test_a_name_is_resolved_once_and_exactly_what_was_judged_is_dialled() -> None:
    """A name that leads somewhere else at each look: the second answer is never asked for."""
    async with serving(echo) as port:
        names = Names(files_example=[["10.9.9.9", "127.0.0.1"], ["169.254.169.254"]])
        async with rigged(f"files.example:{port}", f"127.0.0.1:{port}", names=names) as rig:
            client = await rig.connect()
            await send(client, connect(f"files.example:{port}"))
            await until_there(client, ESTABLISHED)
            assert names.asked == ["files.example"]
            assert rig.told[-1].text == "CONNECT, to 127.0.0.1"
            assert (await rig.ask(connect(f"files.example:{port}"))).startswith(b"HTTP/1.1 403 ")


async def test_the_hosts_own_address_is_not_public(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service of this host that listens everywhere is behind no firewall for what comes from here."""
    monkeypatch.setattr("cellhouse.network.dialling.why_not_public", lambda address: "")
    async with serving(echo) as port:
        names = Names(files_example=[["127.0.0.1"]])
        async with rigged(f"files.example:{port}", names=names) as rig:
            response = await rig.ask(connect(f"files.example:{port}"))
    assert b"this host itself" in response


async def test_what_can_not_be_reached_says_so() -> None:
    async with serving(echo) as port:
        pass  # nobody listens there any more
    names = Names(here_example=[["127.0.0.1"]])
    async with rigged(
        f"here.example:{port}", f"gone.example:{port}", f"127.0.0.1:{port}", names=names
    ) as rig:
        assert (await rig.ask(connect(f"here.example:{port}"))).startswith(b"HTTP/1.1 502 ")
        assert (await rig.ask(connect(f"gone.example:{port}"))).startswith(
            b"HTTP/1.1 502 gone.example has no address"
        )
    assert rig.reasons() == [Reason.NOT_REACHED, Reason.NOT_RESOLVED]


async def test_a_resolver_that_does_not_answer_holds_up_nobody() -> None:
    class Slow(Names):
        async def __call__(self, name: str) -> list[str]:
            await asyncio.Event().wait()
            raise AssertionError

    async with serving(echo) as port:
        allowed = (f"slow.example:{port}", f"127.0.0.1:{port}")
        async with rigged(*allowed, names=Slow(), connect_seconds=0.2) as rig:
            slow = await rig.connect()
            await send(slow, connect(f"slow.example:{port}"))
            client = await rig.connect()
            await send(client, connect(f"127.0.0.1:{port}"))
            await until_there(client, ESTABLISHED)
            assert rig.reasons() == [None]
            assert (await rest(slow)).startswith(b"HTTP/1.1 504 ")


async def test_connections_that_are_too_many_are_told_so_and_hold_up_nobody() -> None:
    async with serving(echo) as port, rigged(f"127.0.0.1:{port}", connections=3) as rig:
        held = [await rig.connect() for _ in range(3)]
        for _ in range(40):
            assert (await rest(await rig.connect())).startswith(
                b"HTTP/1.1 503 this runtime has 3 connections open"
            )
        await send(held[0], connect(f"127.0.0.1:{port}"))
        await until_there(held[0], ESTABLISHED)
        held[1].close()
        rig.open.remove(held[1])
        await until(lambda: rig.proxy.report().connections == 2)
        await send(client := await rig.connect(), connect(f"127.0.0.1:{port}"))
        await until_there(client, ESTABLISHED)
        report = rig.proxy.report()
    assert report.refused == 40
    assert report.refusals is not None
    assert [(each.reason, each.count) for each in report.refusals] == [(Reason.TOO_MANY_CONNECTIONS, 40)]


async def test_all_bytes_of_a_runtime_are_counted_together_and_end() -> None:
    async with serving(echo) as port, rigged(f"127.0.0.1:{port}", total_bytes=20_000) as rig:
        client = await rig.connect()
        await send(client, connect(f"127.0.0.1:{port}"))
        await until_there(client, ESTABLISHED)
        await send(client, b"x" * 15_000)
        assert len(await rest(client)) < 15_000
        response = await rig.ask(connect(f"127.0.0.1:{port}"))
    assert response.startswith(b"HTTP/1.1 403 this runtime has moved the 20000 bytes")
    assert rig.reasons() == [None, Reason.TOTAL_BYTES, Reason.TOTAL_BYTES]


async def test_a_tunnel_without_a_byte_ends_and_one_that_talks_does_not() -> None:
    async with serving(echo) as port, rigged(f"127.0.0.1:{port}", idle_seconds=0.3) as rig:
        client = await rig.connect()
        await send(client, connect(f"127.0.0.1:{port}"))
        assert await rest(client) == ESTABLISHED
    assert rig.reasons() == [None, Reason.IDLE]


async def test_who_takes_nothing_holds_little_and_is_ended() -> None:
    """A reader that stalls, on either side: what is under way stays with the other side."""
    sent = 0

    async def pours(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        while True:
            writer.write(b"x" * 65_536)
            await writer.drain()
            sent += 65_536

    async with serving(pours) as port, rigged(f"127.0.0.1:{port}", idle_seconds=0.3) as rig:
        client = await rig.connect()
        await send(client, connect(f"127.0.0.1:{port}"))
        await until(lambda: rig.reasons() == [None, Reason.IDLE])
        report = rig.proxy.report()
    assert report.bytes_received is not None
    assert report.bytes_received < 1 << 20


async def test_no_whole_request_in_time_is_the_end() -> None:
    async with rigged("files.example:443", request_seconds=0.2) as rig:
        client = await rig.connect()
        await send(client, b"CONNECT files.exa")
        assert (await rest(client)).startswith(b"HTTP/1.1 408 ")
    assert rig.reasons() == [Reason.REQUEST_TIMEOUT]


@pytest.mark.parametrize(
    "request_",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 64,
        b"SSH-2.0-OpenSSH_9.0\r\n\r\n",
        b"\0" * 100 + b"\r\n\r\n",
        b"CONNECT\r\n\r\n",
        b"CONNECT files.example:443\r\n\r\n",
        b"CONNECT files.example:443 HTTP/3.0\r\nHost: x\r\n\r\n",
        b"CONNECT files.example:443 HTTP/1.1\r\nNo colon\r\nHost: x\r\n\r\n",
        b"CONNECT files.example:443 HTTP/1.1\r\nHost : x\r\n\r\n",
        b"CONNECT files.example:443 HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"CONNECT files.example:443 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
        b"CONNECT files.example:443 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"connect files.example:443 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: files.example\r\n\r\n",
        b"GET https://files.example/ HTTP/1.1\r\nHost: files.example\r\n\r\n",
        b"GET ftp://files.example/ HTTP/1.1\r\nHost: files.example\r\n\r\n",
        b"GET http://files.example@other.example/ HTTP/1.1\r\nHost: files.example\r\n\r\n",
        b"GET http:///x HTTP/1.1\r\nHost: files.example\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: files.example\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
async def test_garbage_is_answered_and_refused(request_: bytes) -> None:
    async with rigged("files.example:443") as rig:
        response = await rig.ask(request_)
        assert response.startswith(b"HTTP/1.1 400 ")
    assert rig.reasons() == [Reason.BAD_REQUEST]


@pytest.mark.parametrize("endless", [b"A: b\r\n", b"a"])
async def test_a_head_without_end_is_cut(endless: bytes) -> None:
    async with rigged("files.example:443", head_bytes=4_096) as rig:
        response = await rig.ask(b"CONNECT files.example:443 HTTP/1.1\r\nHost: x\r\n" + endless * 200_000)
    assert response.startswith(b"HTTP/1.1 431 ")
    assert rig.reasons() == [Reason.HEAD_TOO_LARGE]
    assert rig.proxy.report().bytes_sent is not None


async def test_a_client_that_leaves_at_once_is_no_decision() -> None:
    async with rigged("files.example:443") as rig:
        client = await rig.connect()
        client.end_writing()
        assert await rest(client) == b""
    assert rig.told == []


async def test_only_the_last_refusals_are_told_and_all_are_counted() -> None:
    async with rigged("files.example:443") as rig:
        for number in range(20):
            await rig.ask(connect(f"n{number}.example:443"))
        report = rig.proxy.report()
    assert report.refused == 20
    assert report.refusals is not None
    assert [each.target for each in report.refusals] == [f"n{number}.example:443" for number in range(4, 20)]
