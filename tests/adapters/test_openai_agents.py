"""OpenAI Agents SDK: an agent whose model is a script calls the tool, and reads what happened."""

import json
from typing import Any

import pytest
from agents import Agent, RunConfig, Runner
from agents.testing import ScriptedModel
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from cellhouse.runners import CheckIn, code_runner_tool
from cellhouse.runners.adapters.openai_agents import function_tool
from tests.adapters.conftest import HouseRunner

QUIET = RunConfig(tracing_disabled=True)


def call(number: int, **arguments: Any) -> list[Any]:
    return [
        ResponseFunctionToolCall(
            call_id=f"call-{number}", name="run_code", arguments=json.dumps(arguments), type="function_call"
        )
    ]


def says(text: str) -> list[Any]:
    content = ResponseOutputText(text=text, type="output_text", annotations=[], logprobs=[])
    return [
        ResponseOutputMessage(id="m", content=[content], role="assistant", status="completed", type="message")
    ]


def outputs(model: ScriptedModel) -> list[str]:
    """What the model got to read of each call."""
    assert model.last_call is not None
    return [item["output"] for item in model.last_call.input if item.get("type") == "function_call_output"]


async def test_an_agent_runs_code_in_the_session_of_its_context(runner: HouseRunner) -> None:
    asked: list[CheckIn] = []

    def check_in(what: CheckIn) -> bool:
        asked.append(what)
        return True

    model = ScriptedModel(
        [
            call(1, code="x = 20\nprint('hello')"),
            call(2, code="open('made.bin', 'wb').write(bytes(3_000))\nx + 1"),
            call(3, code="import os; os._exit(9)"),
            call(4, code="x"),
            says("done"),
        ]
    )
    async with runner:
        tool = code_runner_tool(
            runner, scope="session", key=lambda ctx: ctx.context["user"], check_in=check_in
        )
        agent = Agent(name="coder", model=model, tools=[function_tool(tool)])
        result = await Runner.run(agent, "go", context={"user": "anna"}, run_config=QUIET)
        assert result.final_output == "done"
    hello, made, died, after = outputs(model)
    assert "hello" in hello
    assert "21" in made
    assert '"made.bin", 3000 bytes' in made
    assert "AAAA" not in made
    assert "session: reset" in died
    assert "FRESH_KERNEL" in after
    assert [each.key for each in asked] == ["anna"] * 4


async def test_what_is_not_approved_does_not_run(runner: HouseRunner) -> None:
    model = ScriptedModel([call(1, code="open('/content/x', 'w')"), says("done")])
    async with runner:
        tool = code_runner_tool(runner, scope="call", check_in=lambda what: "not today")
        await Runner.run(Agent(name="c", model=model, tools=[function_tool(tool)]), "go", run_config=QUIET)
        assert len(runner._pool) == 0
    assert outputs(model) == ["not run: it was not approved: not today"]


async def test_the_sdk_itself_can_ask_before(runner: HouseRunner) -> None:
    model = ScriptedModel([call(1, code="print('ran')"), says("done")])
    async with runner:
        tool = function_tool(code_runner_tool(runner, scope="call"), needs_approval=True)
        agent = Agent(name="c", model=model, tools=[tool])
        first = await Runner.run(agent, "go", run_config=QUIET)
        assert len(first.interruptions) == 1
        state = first.to_state()
        state.approve(first.interruptions[0])
        assert (await Runner.run(agent, state, run_config=QUIET)).final_output == "done"
    assert "ran" in outputs(model)[0]


@pytest.mark.parametrize("arguments", ["{", '{"code": ""}', '{"code": 5}', '{"code": "1", "more": 2}'])
async def test_bad_arguments_come_back_as_words(runner: HouseRunner, arguments: str) -> None:
    async with runner:
        tool = function_tool(code_runner_tool(runner, scope="call"))
        told = await tool.on_invoke_tool(None, arguments)
    assert told.startswith("not run: ")
