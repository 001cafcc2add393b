"""A whole story by one client: create, execute, stream, cut off, resume, page, plot, interrupt, delete.

`story.py sdk|fastmcp legacy|auto URL|COMMAND…` prints a line for each step. It stands alone: each client's own Python runs it.
"""

import asyncio
import sys
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

RUNTIME = "runtimes/story"
MAIN = f"{RUNTIME}/sessions/main"
SLOW = "import time\nprint('begun', flush=True)\ntime.sleep(2)\nprint('ended')"

Call = Callable[..., Awaitable[Any]]
"""Calls a tool: its name, its arguments, and whom to tell of progress."""


def need(true: object, what: Any) -> None:
    if not true:
        raise SystemExit(f"the story broke off: {what}")


async def story(call: Call) -> None:
    # The records of the story before this one are still there.
    streamed, resumed, asleep = (f"{name}-{uuid.uuid4()}" for name in ("streamed", "resumed", "asleep"))
    made = await call("create_runtime", {"runtimeId": "story"})
    need(made.structured_content["name"] == RUNTIME, made)
    step("create")

    result = await call("execute_code", {"code": "x = 6 * 7; x", "session": MAIN})
    need(result.structured_content["result"] == "42", result)
    step("execute")

    told: list[str] = []

    async def progress(progress: float, total: float | None = None, message: str | None = None) -> None:
        told.append(message or "")

    slow = {"code": SLOW, "session": MAIN, "executionId": streamed}
    await call("execute_code", slow, progress)
    need("begun\n" in "".join(told), told)
    step("stream")

    slow = {"code": SLOW, "session": MAIN, "executionId": resumed}
    cut = await call("execute_code", {**slow, "waitTimeout": 0.5})
    need(cut.is_error and "again with the same arguments" in cut.content[0].text, cut)
    step("cut off")
    result = await call("execute_code", slow)
    need(result.structured_content["stdout"] == "begun\nended\n", result)
    step("resume")

    result = await call("execute_code", {"code": "for n in range(3_000): print('line', n)", "session": MAIN})
    execution = result.structured_content["execution"]
    need("not shown; read read_output" in result.content[0].text, result.content[0].text[:300])
    text, offset, total = "", 0, 1
    while offset < total:
        asked = {"execution": execution, "stream": "stdout", "offset": offset, "limit": 20_000}
        page = (await call("read_output", asked)).structured_content
        text, offset, total = text + page["text"], int(page["nextOffset"]), int(page["totalBytes"])
    need(text == "".join(f"line {n}\n" for n in range(3_000)), text[-100:])
    step("page")

    code = "import matplotlib.pyplot as plt\n_ = plt.plot([1, 3, 2])\nplt.show()"
    result = await call("execute_code", {"code": code, "session": MAIN})
    asked = {"execution": result.structured_content["execution"], "index": 0, "maxBytes": 4_000}
    seen = await call("read_rich_output", asked)
    need(seen.content[0].type == "image" and len(seen.content[0].data) < 6_000, seen)
    step("plot")

    sleeping = asyncio.ensure_future(
        call("execute_code", {"code": "import time; time.sleep(60)", "session": MAIN, "executionId": asleep})
    )
    while not (await call("interrupt_session", {"session": MAIN})).structured_content["interrupted"]:
        pass  # it is not there yet
    need((await sleeping).structured_content["outcome"] == "INTERRUPTED", "no interrupt")
    step("interrupt")

    await call("delete_session", {"session": MAIN})
    await call("delete_runtime", {"runtime": RUNTIME})
    need((await call("delete_runtime", {"runtime": RUNTIME})).is_error, "deleted twice")
    step("delete")


def step(name: str) -> None:
    print(f"  ok   {name}", flush=True)


async def by_sdk(mode: Any, target: list[str]) -> None:
    from mcp import Client, StdioServerParameters

    server = (
        target[0]
        if target[0].startswith("http")
        else StdioServerParameters(command=target[0], args=target[1:])
    )
    async with Client(server, mode=mode) as client:

        async def call(tool: str, arguments: dict[str, Any], progress: Any = None) -> Any:
            return await client.call_tool(tool, arguments, progress_callback=progress)

        await story(call)


async def by_fastmcp(mode: Any, target: list[str]) -> None:
    # In a prefix of its own, which nothing else here sees.
    import fastmcp  # type: ignore[import-not-found,unused-ignore]
    from fastmcp.client.transports import StdioTransport  # type: ignore[import-not-found,unused-ignore]

    server = target[0] if target[0].startswith("http") else StdioTransport(target[0], target[1:])
    async with fastmcp.Client(server, mode=mode) as client:

        async def call(tool: str, arguments: dict[str, Any], progress: Any = None) -> Any:
            return await client.call_tool(tool, arguments, progress_handler=progress, raise_on_error=False)

        await story(call)


if __name__ == "__main__":
    asyncio.run((by_sdk if sys.argv[1] == "sdk" else by_fastmcp)(sys.argv[2], sys.argv[3:]))
