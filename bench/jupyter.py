"""Another peer: jupyter_server as it ships, in a process of its own, spoken to as its own pages do: REST and websockets."""

import asyncio
import json
import os
import secrets
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import websockets

from cellhouse.environments import find_environment

PEERS = Path(sys.prefix) / "share" / "cellhouse" / "peers"
MCP_PEERS = PEERS.with_name("peers-mcp")
START_SECONDS = 60.0
LOOK_SECONDS = 0.05
KERNEL = "bench"


class JupyterKernel:
    """One kernel of the server and the websocket to its channels."""

    def __init__(self, kernel_id: str, socket: websockets.ClientConnection) -> None:
        self.id, self._socket = kernel_id, socket
        self._session = uuid.uuid4().hex

    async def execute(self, code: str) -> bool:
        """Send it and read until idle and reply, as a client has to; whether the reply says ok."""
        msg_id = uuid.uuid4().hex
        content = {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": True,
        }
        await self._socket.send(json.dumps(self._message("execute_request", msg_id, content)))
        idle = False
        ok: bool | None = None
        while not idle or ok is None:
            message = json.loads(await self._socket.recv())
            if message["parent_header"].get("msg_id") != msg_id:
                continue
            if message["msg_type"] == "execute_reply":
                ok = message["content"]["status"] == "ok"
            elif message["msg_type"] == "status":
                idle = idle or message["content"]["execution_state"] == "idle"
        return ok

    def _message(self, kind: str, msg_id: str, content: dict[str, Any]) -> dict[str, Any]:
        header = {
            "msg_id": msg_id,
            "msg_type": kind,
            "session": self._session,
            "username": "bench",
            "version": "5.4",
        }
        return {
            "channel": "shell",
            "header": header,
            "parent_header": {},
            "metadata": {},
            "content": content,
            "buffers": [],
        }


class JupyterServer:
    """The server, listening."""

    def __init__(self, url: str, token: str, client: httpx.AsyncClient) -> None:
        self.url, self.token = url, token
        self._client = client
        self._socket_url = url.replace("http://", "ws://", 1)
        self._headers = {"Authorization": f"token {token}"}

    @asynccontextmanager
    async def kernel(self) -> AsyncIterator[JupyterKernel]:
        """A new one, connected, which may be starting still; it is shut down at the end."""
        answer = await self._client.post("api/kernels", json={"name": KERNEL})
        kernel_id = answer.raise_for_status().json()["id"]
        try:
            async with websockets.connect(
                f"{self._socket_url}api/kernels/{kernel_id}/channels",
                additional_headers=self._headers,
                max_size=None,
                compression=None,
                proxy=None,
            ) as socket:
                yield JupyterKernel(kernel_id, socket)
        finally:
            (await self._client.delete(f"api/kernels/{kernel_id}")).raise_for_status()


@asynccontextmanager
async def jupyter_server(directory: Path, prefix: Path = PEERS) -> AsyncIterator[JupyterServer]:
    """Start it on a free port of the loopback, with the ipykernel of the default environment; and its end."""
    directory.mkdir()
    write_kernelspec(directory / "share")
    for name in ("root", "runtime"):
        (directory / name).mkdir()
    token = secrets.token_hex(32)
    with (directory / "log").open("wb") as log:
        server = subprocess.Popen(
            [
                prefix / "bin" / "python",
                "-m",
                "jupyter_server",
                "--no-browser",
                "--allow-root",
                "--ServerApp.ip=127.0.0.1",
                "--ServerApp.port=0",
                f"--ServerApp.root_dir={directory / 'root'}",
            ],
            cwd=directory,
            env={
                **{
                    name: value
                    for name, value in os.environ.items()
                    if not name.startswith(("PYTHON", "JUPYTER"))
                },
                "JUPYTER_TOKEN": token,
                "JUPYTER_PATH": str(directory / "share"),
                "JUPYTER_RUNTIME_DIR": str(directory / "runtime"),
                "JUPYTER_CONFIG_DIR": str(directory / "config"),
                "JUPYTER_DATA_DIR": str(directory / "data"),
                "IPYTHONDIR": str(directory / "ipython"),
            },
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        url = await _address(server, directory)
        async with httpx.AsyncClient(
            base_url=url,
            headers={"Authorization": f"token {token}"},
            timeout=START_SECONDS,
            trust_env=False,
        ) as client:
            await _until_it_answers(client)
            yield JupyterServer(url, token, client)
    finally:
        server.terminate()
        await asyncio.to_thread(server.wait)


def write_kernelspec(directory: Path) -> Path:
    """One for the ipykernel of the default environment; the directory of kernelspecs, below this one."""
    kernels = directory / "kernels"
    (kernels / KERNEL).mkdir(parents=True)
    argv = [str(find_environment().python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": argv, "display_name": KERNEL, "language": "python"}
    (kernels / KERNEL / "kernel.json").write_text(json.dumps(spec))
    return kernels


async def _address(server: subprocess.Popen[bytes], directory: Path) -> str:
    async with asyncio.timeout(START_SECONDS):
        while True:
            for file in (directory / "runtime").glob("jpserver-*.json"):
                if text := file.read_text():
                    return str(json.loads(text)["url"])
            if server.poll() is not None:
                said = (directory / "log").read_text(errors="replace")[-2000:]
                raise RuntimeError(f"jupyter_server did not start; it said:\n{said}")
            await asyncio.sleep(LOOK_SECONDS)


async def _until_it_answers(client: httpx.AsyncClient) -> None:
    async with asyncio.timeout(START_SECONDS):
        while True:
            try:
                (await client.get("api/status")).raise_for_status()
                return
            except httpx.TransportError:
                await asyncio.sleep(LOOK_SECONDS)
