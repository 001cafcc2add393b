"""The story by every client: the SDK's and FastMCP's on both transports, and the inspector's command line over HTTP."""

import asyncio
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.conformance.story import story

PROGRAM = Path(__file__).with_name("story.py")
SECONDS = 300


async def stories(prefix: Path, node: Path, url: str, state: Path) -> int:
    """How many broke off."""
    environment = {**os.environ, "CELLHOUSE_STATE_DIR": str(state)}
    broken = 0
    for client, python in (("sdk", Path(sys.executable)), ("fastmcp", prefix / "bin" / "python")):
        for mode in ("legacy", "auto"):
            for target in ([url], [sys.executable, "-m", "cellhouse", "mcp"]):
                where = "HTTP" if target == [url] else "stdio"
                print(f"\n{client}, {mode}, {where}", flush=True)
                process = await asyncio.create_subprocess_exec(
                    python,
                    "-P",
                    PROGRAM,
                    client,
                    mode,
                    *target,
                    env=environment,
                    stderr=asyncio.subprocess.PIPE,
                )
                async with asyncio.timeout(SECONDS):
                    _, said = await process.communicate()
                if process.returncode:
                    broken += 1
                    print(f"  FAIL {said.decode(errors='replace')[-1_000:]}")
    print("\ninspector, HTTP", flush=True)
    try:
        await story(_Inspector(prefix, node, url, state))
    except SystemExit as error:
        broken += 1
        print(f"  FAIL {error}")
    return broken


class _Inspector:
    """Each call a process of its own: the protocol is stateless."""

    def __init__(self, prefix: Path, node: Path, url: str, state: Path) -> None:
        program = prefix / "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
        self._command = [str(node), str(program), "--cli", url, "--method", "tools/call"]
        self._environment = {**os.environ, "HOME": str(state)}

    async def __call__(self, tool: str, arguments: dict[str, Any], progress: Any = None) -> Any:
        given = [
            f"{name}={value if isinstance(value, str) else json.dumps(value)}"
            for name, value in arguments.items()
        ]
        process = await asyncio.create_subprocess_exec(
            *self._command, "--tool-name", tool, "--tool-arg", *given,
            env=self._environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        async with asyncio.timeout(SECONDS):
            out, said = await process.communicate()
        try:
            found = json.loads(out)
        except ValueError:
            raise SystemExit(
                f"{tool}: {out.decode()[-500:]} {said.decode(errors='replace')[-500:]}"
            ) from None
        if progress is not None:  # its command line does not show it
            await progress(1.0, None, "begun\n")
        return SimpleNamespace(
            content=[SimpleNamespace(**item) for item in found.get("content", ())],
            structured_content=found.get("structuredContent"),
            is_error=found.get("isError", False),
        )
