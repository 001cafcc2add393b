"""Where a service is and who calls: URLs, unix sockets, TLS, tokens and the places they come from."""

import os
import socket
import subprocess
from pathlib import Path

import pytest

from cellhouse.client import AsyncClient, Client, ClientLimits, RetryPolicy, Timeouts, Tls, TransportError
from cellhouse.client.address import Address
from cellhouse.client.local_token import local_token, local_token_path
from cellhouse.doors.limits import DoorLimits
from cellhouse.doors.server import ServeOptions
from cellhouse.model import FailedPrecondition, InvalidArgument, SystemClock
from cellhouse.tokens import TokenStore
from tests.client.scripted import answer, scripted
from tests.client.support import client_of, request, within
from tests.doors.support import Names, opened
from tests.runtime.support import FakeWorld

EMPTY = answer({"runtimes": []})
QUICK = DoorLimits(drain_seconds=0.0, grace_seconds=2.0)


@pytest.mark.parametrize(
    ("url", "origin", "prefix", "local"),
    [
        ("http://127.0.0.1:8765", "http://127.0.0.1:8765", "", True),
        ("http://localhost/", "http://localhost", "", True),
        ("https://Example.org/a/b/", "https://example.org", "/a/b", False),
        ("http://[::1]:80", "http://[::1]:80", "", True),
        ("http://127.evil.example", "http://127.evil.example", "", False),
    ],
)
def test_a_url_is_an_origin_and_a_prefix(url: str, origin: str, prefix: str, local: bool) -> None:
    address = Address.parse(url)
    assert (address.origin, address.prefix, address.is_local) == (origin, prefix, local)


def test_a_unix_url_is_a_socket() -> None:
    address = Address.parse("unix:///run/a b.sock")
    assert (address.socket, address.is_local) == (Path("/run/a b.sock"), True)
    assert Address.parse("unix:/run/x") == Address.parse("unix:///run/x")


@pytest.mark.parametrize(
    "url",
    ["", "localhost:8765", "ftp://host", "http://", "http://h?x=1", "http://h#x", "unix://host/x", "unix:x", "http://h:x",
     "http://[::1", "/just/a/path"],
)  # fmt: skip
def test_what_is_no_url_is_refused_with_what_would_be_one(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidArgument, match=r"unix:///|CELLHOUSE_URL") as caught:
        AsyncClient(url)
    assert caught.value.metadata["field"] == "url"


def test_a_url_with_a_secret_is_refused_and_the_secret_not_repeated() -> None:
    for url in ("http://me:secret@host", "http://secret@host"):
        with pytest.raises(InvalidArgument) as caught:
            Client(url)
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize("token", ["a b", "a\nb", "é", "x" * 5_000, "a\r\nX: y"])
def test_what_can_be_no_token_is_refused_and_not_repeated(token: str) -> None:
    with pytest.raises(InvalidArgument, match="token") as caught:
        Client("http://127.0.0.1:1", token=token)
    assert token not in str(caught.value)


async def test_url_and_token_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scripted(EMPTY) as service:
        monkeypatch.setenv("CELLHOUSE_URL", service.url)
        monkeypatch.setenv("CELLHOUSE_TOKEN", "from-the-environment")
        async with AsyncClient() as client:
            assert client.url == service.url
            await within(client.list_runtimes())
        async with AsyncClient(token="given") as client:
            await within(client.list_runtimes())
    assert "authorization: Bearer from-the-environment" in service.requests[0]
    assert "authorization: Bearer given" in service.requests[1]


async def test_nothing_else_of_the_environment_has_a_say(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with scripted(EMPTY) as service, client_of(service.url) as client:
        await within(client.list_runtimes())
    assert "authorization" not in service.requests[0]


async def test_a_local_service_gets_the_token_that_serve_keeps_for_this_account(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CELLHOUSE_STATE_DIR", str(tmp_path))
    assert local_token() is None
    made = TokenStore(tmp_path, SystemClock()).ensure()
    assert made is not None
    assert local_token() == made.text == local_token_path().read_text().strip()
    async with scripted(EMPTY) as service, client_of(service.url) as client:
        await within(client.list_runtimes())
    assert f"authorization: Bearer {made.text}" in service.requests[0]
    # A service elsewhere is never told of it.
    elsewhere = Client("http://cellhouse.example")
    assert "authorization" not in elsewhere._shell._http.headers
    elsewhere.close()


def test_the_state_directory_is_found_as_serve_finds_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from cellhouse.runtime.state import state_root

    for name, value in (("", ""), ("XDG_STATE_HOME", str(tmp_path)), ("CELLHOUSE_STATE_DIR", "relative")):
        if name:
            monkeypatch.setenv(name, value)
        assert local_token_path() == state_root() / "tokens" / "local"


def test_a_token_file_that_others_could_have_read_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CELLHOUSE_STATE_DIR", str(tmp_path))
    TokenStore(tmp_path, SystemClock()).ensure()
    local_token_path().chmod(0o640)
    with pytest.raises(FailedPrecondition, match="CELLHOUSE_TOKEN"):
        Client("http://127.0.0.1:1")
    local_token_path().unlink()
    local_token_path().symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FailedPrecondition):
        Client("http://127.0.0.1:1")
    local_token_path().unlink()
    os.mkfifo(local_token_path(), 0o600)
    with pytest.raises(FailedPrecondition):
        local_token()


async def test_a_unix_socket_is_as_good_as_a_port(fakes: FakeWorld, tmp_path: Path) -> None:
    path = tmp_path / "a socket"
    options = ServeOptions(uds=path, limits=QUICK)
    async with opened(fakes, tmp_path / "state", options=options, authenticator=Names()) as door:
        async with client_of(f"unix://{path}", token="mine") as client:
            door.runtime = (await client.create_runtime()).name
            handle = await within(client.execute(request(door, "print a")))
            assert (await within(handle.result())).stdout == "a\n"
    async with client_of(f"unix://{path}", retry=RetryPolicy(attempts=2)) as client:
        with pytest.raises(TransportError) as caught:
            await within(client.list_runtimes())
    assert caught.value.reason == "CONNECT_FAILED"
    assert str(path) in caught.value.message


def certificate_of(directory: Path, name: str) -> tuple[Path, Path]:
    """A certificate that is its own authority, for 127.0.0.1, and its key."""
    certificate, key = directory / f"{name}.pem", directory / f"{name}-key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    return certificate, key


async def test_tls_is_trusted_by_the_bundle_that_is_given_and_by_nothing_else(
    fakes: FakeWorld, tmp_path: Path
) -> None:
    certificate, key = certificate_of(tmp_path, "ours")
    other, other_key = certificate_of(tmp_path, "other")
    options = ServeOptions(certificate=certificate, key=key, limits=QUICK)
    async with opened_tls(fakes, tmp_path / "state", options) as url:
        mine = Tls(ca=certificate, certificate=other, key=other_key)
        async with client_of(url, tls=mine) as client:
            assert await within(client.list_runtimes()) == []
        with pytest.MonkeyPatch.context() as patch:
            for name, path in (("CA", certificate), ("CERTIFICATE", other), ("KEY", other_key)):
                patch.setenv(f"CELLHOUSE_{name}", str(path))
            async with client_of(url) as client:
                assert await within(client.list_runtimes()) == []
        for tls in (Tls(), Tls(ca=other)):
            async with client_of(url, tls=tls) as client:
                with pytest.raises(TransportError) as caught:
                    await within(client.list_runtimes())
            assert caught.value.reason == "TLS_FAILED"
            assert caught.value.metadata["attempts"] == "1"
        async with client_of(url.replace("127.0.0.1", "localhost"), tls=mine) as client:
            with pytest.raises(TransportError) as caught:
                await within(client.list_runtimes())
        assert caught.value.reason == "TLS_FAILED"
    for bad in (Tls(ca=tmp_path / "none"), Tls(ca=key), Tls(certificate=other, key=key), Tls(key=key)):
        with pytest.raises(InvalidArgument):
            AsyncClient("https://127.0.0.1:1", tls=bad)


def opened_tls(fakes: FakeWorld, state: Path, options: ServeOptions):  # type: ignore[no-untyped-def]
    from contextlib import asynccontextmanager

    from cellhouse.doors.server import Service
    from tests.runtime.support import settings

    @asynccontextmanager
    async def made():  # type: ignore[no-untyped-def]
        async with Service(settings(state), options) as service:
            yield service.url

    return made()


async def test_a_host_that_does_not_exist_is_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    async with client_of("http://nowhere.example") as client:
        with pytest.raises(TransportError) as caught:
            await within(client.list_runtimes())
    assert (caught.value.reason, caught.value.metadata["attempts"]) == ("CONNECT_FAILED", "1")


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Timeouts(read=0), "read"),
        (lambda: Timeouts(idle=float("inf")), "idle"),
        (lambda: RetryPolicy(attempts=True), "attempts"),
        (lambda: RetryPolicy(attempts=2_000_000), "attempts"),
        (lambda: ClientLimits(event_bytes=-1), "event_bytes"),
    ],
)
def test_a_setting_that_bounds_nothing_is_refused(make: object, field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        make()  # type: ignore[operator]
    assert caught.value.metadata["field"] == field
