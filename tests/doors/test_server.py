"""A service begins, listens where it was told to, and ends with every execution's end on record."""

import asyncio
import os
import socket
import ssl
import stat
import subprocess
from pathlib import Path

import httpx
import pytest

from cellhouse import House
from cellhouse.doors.limits import DoorLimits
from cellhouse.doors.server import ServeOptions, Service
from cellhouse.model import FailedPrecondition, InvalidArgument, Outcome
from tests.doors.support import NDJSON, Names, client_of, house_of, ok, opened, refused, until, within
from tests.runtime.support import FakeWorld, settings

QUICK = DoorLimits(drain_seconds=0.0, grace_seconds=2.0)


# Ends


async def test_what_runs_may_end_by_itself_and_nothing_new_begins(fakes: FakeWorld, tmp_path: Path) -> None:
    async with opened(fakes, tmp_path / "state", drain_seconds=20.0) as door:
        await door.make()
        path = await door.start("hold\nprint done", executionId="one")
        streaming = asyncio.ensure_future(door.client.get(f"{path}/events", headers=NDJSON))
        waiting = asyncio.ensure_future(door.run("hold\nprint done", executionId="one"))
        tenant = door.service.tenants.open[0]
        await until(lambda: tenant.requests == 2 and tenant.streams == 1)
        # Connected already: the service takes no new connections from here on.
        await ok(door.client.get("/readyz"))
        closing = asyncio.ensure_future(door.service.close())
        await until(lambda: door.service.tenants.draining)
        await refused(door.client.get("/readyz"), 503, "UNAVAILABLE", "SHUTTING_DOWN")
        await refused(door.client.post("/v1/runtimes"), 503, "UNAVAILABLE", "SHUTTING_DOWN")
        call = door.client.post(door.path(":executeCode"), json={"code": "print new"})
        await refused(call, 503, "UNAVAILABLE", "SHUTTING_DOWN")
        assert (await ok(door.client.get(path)))["state"] == "RUNNING"
        door.kernel.release.set()
        assert (await within(waiting))["stdout"] == "done\n"
        assert '"type":"finished"' in (await within(streaming)).text.splitlines()[-1]
        await within(closing)
        with pytest.raises(httpx.ConnectError):
            async with client_of(door.service) as late:
                await late.get("/healthz")


async def test_what_does_not_end_is_interrupted_and_what_waits_never_starts(
    fakes: FakeWorld, tmp_path: Path
) -> None:
    async with opened(fakes, tmp_path / "state", drain_seconds=0.1) as door:
        await door.make()
        running = await door.start("print so far\nhold", executionId="one")
        queued = asyncio.ensure_future(door.run("print never", executionId="two"))
        await until(lambda: len(house_of(door.service).unfinished) == 2)
        streaming = asyncio.ensure_future(door.client.get(f"{running}/events", headers=NDJSON))
        await until(lambda: door.service.tenants.open[0].streams == 1)
        await within(door.service.close())
        assert (await within(queued))["outcome"] == "NEVER_STARTED"
        assert '"outcome":"INTERRUPTED"' in (await within(streaming)).text.splitlines()[-1]


async def test_what_resists_ends_with_its_house(fakes: FakeWorld, tmp_path: Path) -> None:
    async with opened(fakes, tmp_path / "state", grace_seconds=0.1) as door:
        await door.make()
        path = await door.start("print so far\nstubborn", executionId="one")
        streaming = asyncio.ensure_future(door.client.get(f"{path}/events", headers=NDJSON))
        await until(lambda: door.service.tenants.open[0].streams == 1)
        await within(door.service.close())
        assert '"outcome":"RUNTIME_LOST"' in (await within(streaming)).text.splitlines()[-1]
    async with House(settings=settings(tmp_path / "state")) as house:
        result = await house.get_execution(path.removeprefix("/v1/"))
        assert (result.outcome, result.stdout) == (Outcome.RUNTIME_LOST, "so far\n")


async def test_one_who_hurries_waits_for_nothing(fakes: FakeWorld, tmp_path: Path) -> None:
    async with opened(fakes, tmp_path / "state", drain_seconds=1_000.0) as door:
        await door.make()
        path = await door.start("hold")
        closing = asyncio.ensure_future(door.service.close())
        await until(lambda: door.service.tenants.draining)
        door.service.hurry()
        await within(closing)
    async with House(settings=settings(tmp_path / "state")) as house:
        assert (await house.get_execution(path.removeprefix("/v1/"))).outcome is Outcome.INTERRUPTED


async def test_a_reader_who_never_reads_keeps_no_service(fakes: FakeWorld, tmp_path: Path) -> None:
    async with opened(fakes, tmp_path / "state") as door:
        await door.make()
        path = await door.start("hold")
        host, _, port = door.service.url.removeprefix("http://").rpartition(":")
        never = socket.socket()
        never.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        never.connect((host, int(port)))
        never.sendall(f"GET {path}/events HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        await until(lambda: door.service.tenants.open[0].streams == 1)
        for _ in range(100):
            door.kernel.print("x" * 60_000)
        await within(door.service.close())
        never.close()


# Where it listens


async def test_a_unix_socket_is_its_users_alone_and_goes_away(fakes: FakeWorld, tmp_path: Path) -> None:
    path = tmp_path / "s"
    options = ServeOptions(uds=path, limits=QUICK)
    async with Service(settings(tmp_path / "state"), options) as service:
        assert service.url == f"unix:{path}"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        transport = httpx.AsyncHTTPTransport(uds=str(path))
        async with httpx.AsyncClient(transport=transport, base_url="http://cellhouse") as client:
            assert (await ok(client.get("/v1/runtimes"))) == {"runtimes": []}
        with pytest.raises(InvalidArgument, match="somebody listens there"):
            async with Service(settings(tmp_path / "other"), options):
                pytest.fail("the first one has it")
    assert not path.exists()
    # One that nobody listens on is replaced, anything else is not.
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    async with Service(settings(tmp_path / "state"), options):
        pass
    path.touch()
    with pytest.raises(InvalidArgument, match="something else"):
        async with Service(settings(tmp_path / "state"), options):
            pytest.fail("a file is there")
    assert path.exists()


async def test_tls_by_a_certificate(fakes: FakeWorld, tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    options = ServeOptions(certificate=certificate, key=key, limits=QUICK)
    async with Service(settings(tmp_path / "state"), options) as service:
        assert service.url.startswith("https://127.0.0.1:")
        context = ssl.create_default_context(cafile=certificate)
        async with client_of(service, verify=context) as client:
            assert await ok(client.get("/healthz")) == {"status": "ok"}
    key.write_text("no key")
    with pytest.raises(InvalidArgument, match="certificate"):
        async with Service(settings(tmp_path / "state"), options):
            pytest.fail("there is no key")


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.0.2.1", "127.evil.example", "localhost.evil.example", ""]
)
def test_an_address_that_others_reach_needs_tokens(host: str, tmp_path: Path) -> None:
    with pytest.raises(FailedPrecondition, match="no tokens") as refusal:
        Service(settings(tmp_path), ServeOptions(host=host))
    assert refusal.value.reason == "TOKENS_NEEDED"


async def test_with_tokens_any_address_will_do(fakes: FakeWorld, tmp_path: Path) -> None:
    options = ServeOptions(host="0.0.0.0", limits=QUICK)
    async with Service(settings(tmp_path / "state"), options, authenticator=Names()) as service:
        assert service.url.startswith("http://0.0.0.0:")


async def test_a_port_that_is_taken_is_refused_and_nothing_is_left(fakes: FakeWorld, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        options = ServeOptions(port=taken.getsockname()[1], limits=QUICK)
        with pytest.raises(InvalidArgument, match="can't listen"):
            async with Service(settings(tmp_path / "state"), options):
                pytest.fail("somebody else listens there")
    async with House(settings=settings(tmp_path / "state")):
        pass


async def test_two_services_on_one_directory(fakes: FakeWorld, tmp_path: Path) -> None:
    options = ServeOptions(limits=QUICK)
    async with Service(settings(tmp_path / "state"), options):
        with pytest.raises(FailedPrecondition, match=f"process {os.getpid()}"):
            async with Service(settings(tmp_path / "state"), options):
                pytest.fail("the first one has it")
