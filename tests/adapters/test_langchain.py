"""LangChain: the tool is called as a graph calls it, and its message says what happened."""

from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

from cellhouse.model import CodeResult
from cellhouse.runners import code_runner_tool
from cellhouse.runners.adapters.langchain import langchain_tool
from tests.adapters.conftest import HouseRunner


def call(code: str) -> dict[str, Any]:
    return {"name": "run_code", "args": {"code": code}, "id": "1", "type": "tool_call"}


def of_thread(thread: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread}}


async def test_threads_have_sessions_of_their_own(runner: HouseRunner) -> None:
    async with runner:
        tool = langchain_tool(
            code_runner_tool(runner, scope="session", key=lambda config: config["configurable"]["thread_id"])
        )
        message = await tool.ainvoke(
            call("x = 7\nprint('y' * 50_000)\nopen('f.bin', 'wb').write(bytes(99))"), of_thread("a")
        )
        assert isinstance(message, ToolMessage)
        assert "stdout was cut" in message.content
        assert '"f.bin", 99 bytes' in message.content
        assert isinstance(message.artifact, CodeResult)
        assert (await tool.ainvoke(call("x"), of_thread("a"))).artifact.result == "7"
        other = await tool.ainvoke(call("x"), of_thread("b"))
        assert "NameError" in other.content
        assert not other.artifact.ok
        nothing = await tool.ainvoke(call(" "), of_thread("a"))
        assert nothing.content.startswith("not run: ")
        assert nothing.artifact is None


async def test_a_model_is_told_of_it(runner: HouseRunner) -> None:
    tool = langchain_tool(code_runner_tool(runner, scope="call", inputs=None))
    told = convert_to_openai_tool(tool)["function"]
    assert told["name"] == "run_code"
    assert list(told["parameters"]["properties"]) == ["code"]
    assert "session of its own" in told["description"]
