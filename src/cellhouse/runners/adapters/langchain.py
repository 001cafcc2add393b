"""A LangChain tool that runs code."""

from typing import Any

from cellhouse.model import CodeResult
from cellhouse.runners.adapters.extra import needing
from cellhouse.runners.tool import CodeTool

with needing("langchain_core", "langchain"):
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools import StructuredTool


def langchain_tool(tool: CodeTool) -> StructuredTool:
    """The tool as LangChain takes it. It is asynchronous: `await made.ainvoke(…)`.

    The message's content is text, for the model; its `artifact` is the CodeResult, for the program, and None where nothing
    ran. `key` and `check_in` get the RunnableConfig as `context`, so that a thread can have a session of its own:
    `key=lambda config: config["configurable"]["thread_id"]`.
    """

    async def run(config: RunnableConfig, **arguments: Any) -> tuple[str, CodeResult | None]:
        answer = await tool.invoke(arguments, context=config)
        return answer.text, answer.result

    return StructuredTool(
        name=tool.name,
        description=tool.description,
        args_schema=tool.parameters,
        coroutine=run,
        response_format="content_and_artifact",
    )
