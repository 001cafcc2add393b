"""A bare tool of the official SDK: `mcp_bare.py stdio`, or `mcp_bare.py http`, which tells its address."""

import socket
import sys

import uvicorn
from mcp.server.mcpserver import MCPServer

server = MCPServer("bare")


@server.tool()
def execute_code(code: str) -> str:
    """Answers without running anything."""
    return "2"


def main() -> None:
    if sys.argv[1] == "stdio":
        server.run("stdio")
        return
    listening = socket.create_server(("127.0.0.1", 0))
    print(f"listening on http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    config = uvicorn.Config(server.streamable_http_app(), log_level="warning")
    uvicorn.Server(config).run([listening])


if __name__ == "__main__":
    main()
