"""A tool of the OpenAI Agents SDK that runs code."""

from collections.abc import Awaitable, Callable
from typing import Any

from cellhouse.runners.adapters.extra import needing
from cellhouse.runners.tool import CodeTool

with needing("agents", "openai-agents"):
    from agents import FunctionTool

NeedsApproval = bool | Callable[[Any, dict[str, Any], str], Awaitable[bool]]


def function_tool(tool: CodeTool, *, needs_approval: NeedsApproval = False) -> FunctionTool:
    """The tool as the SDK takes it: `Agent(tools=[function_tool(code_runner_tool(…))])`.

    The SDK's context of the run is what `key` and `check_in` get as `context`. `needs_approval` is the SDK's own way of
    asking before a call, which interrupts the run; `check_in` asks within it. The model reads text, no bytes: files and
    figures are in it by name, size and ref.
    """

    async def invoke(context: Any, arguments: str) -> str:
        return (await tool.invoke(arguments, context=context)).text

    return FunctionTool(
        name=tool.name,
        description=tool.description,
        params_json_schema=tool.parameters,
        on_invoke_tool=invoke,
        strict_json_schema=True,
        needs_approval=needs_approval,
    )
