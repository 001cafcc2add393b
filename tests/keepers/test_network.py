"""A network policy in a keeper: held there, told by the service, and its keys read by the keeper's own user."""

import asyncio
import os
from pathlib import Path

import pytest

from cellhouse.environments import Environment
from cellhouse.keepers import KeptHouse, Template
from cellhouse.model import FailedPrecondition, NetworkPolicy, NetworkSettings, RuntimeSpec
from tests.keepers.support import run, settings, within

ASK = """
import socket
for port in {ports}:
    with socket.create_connection(("127.0.0.1", 3128)) as proxy:
        proxy.sendall(f"CONNECT 127.0.0.1:{{port}} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n".encode())
        print(proxy.makefile("rb").read().decode().replace("\\r", ""))
"""


async def test_allow_is_held_and_told(template: Template, environment: Environment, tmp_path: Path) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello from outside")
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    key = tmp_path / "key"
    key.write_text("secret")
    key.chmod(0o600)
    network = NetworkSettings(private=("127.0.0.1/32",), headers=(f"api.example X-Key file:{key}",))
    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with (
        server,
        KeptHouse(settings(tmp_path / "state", environment, network=network), template=template) as house,
    ):
        spec = RuntimeSpec(network=NetworkPolicy(allow=(f"127.0.0.1:{port}",)))
        assert (await within(house.create_runtime(spec, runtime_id="here"))).network_policy == "allow"
        said = (await run(house, ASK.format(ports=(port, 1)))).stdout
        assert "hello from outside" in said
        assert "403 this runtime's network policy does not name 127.0.0.1:1;" in said
        told = [entry.text for entry in (await house.page_network_log("runtimes/here")).entries]
        assert told[0].startswith(f"allowed 127.0.0.1:{port}: CONNECT")
        assert told[1].startswith("refused NOT_NAMED 127.0.0.1:1: ")
        await within(house.delete_runtime("runtimes/here"))
        assert len((await house.page_network_log("runtimes/here")).entries) == 2
        if os.geteuid() == 0:
            spec = RuntimeSpec(network=NetworkPolicy(allow=("api.example:443",)))
            with pytest.raises(
                FailedPrecondition, match=r"X-Key .* api\.example .* Read as uid [1-9]"
            ) as refused:
                await within(house.create_runtime(spec, runtime_id="keyed"))
            assert refused.value.reason == "POLICY_UNAVAILABLE"
            assert "its file: FileNotFoundError" in refused.value.message  # outside its view of the host
            assert str(key) not in refused.value.message
