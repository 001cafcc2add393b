"""Google ADK: an agent whose model is a script runs its code blocks, and reads what happened."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

from cellhouse.model import FailedPrecondition
from cellhouse.runners import BlockingRunner, LocalCodeRunner
from cellhouse.runners.adapters.adk import CellhouseCodeExecutor


class Script(BaseLlm):
    """Says its lines, and keeps what it was told."""

    lines: list[str]
    read: list[str]

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncIterator[LlmResponse]:
        last = llm_request.contents[-1]
        self.read.append("".join(part.text or "" for part in last.parts or []))
        text = self.lines.pop(0)
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]))


def block(code: str) -> str:
    return f"```python\n{code}\n```"


async def converse(
    executor: CellhouseCodeExecutor, script: Script, user: str = "anna", more: tuple[types.Part, ...] = ()
) -> InMemoryRunner:
    agent = LlmAgent(name="coder", model=script, code_executor=executor)
    runner = InMemoryRunner(agent=agent, app_name="app")
    session = await runner.session_service.create_session(app_name="app", user_id=user, session_id="same")
    message = types.Content(role="user", parts=[types.Part(text="go"), *more])
    async for _ in runner.run_async(user_id=user, session_id=session.id, new_message=message):
        pass
    return runner


async def test_an_agent_keeps_variables_and_reads_failures_whole(blocking: BlockingRunner) -> None:
    script = Script(
        model="script",
        lines=[
            block("x = 20\nimport sys\nprint('warned', file=sys.stderr)\nx + 1"),
            block("print('before')\n1/0"),
            block("open('made.txt', 'w').write('abc')\nprint(x)"),
            "done",
        ],
        read=[],
    )
    runner = await converse(CellhouseCodeExecutor(blocking), script)
    _, value, failure, made = script.read
    assert "21" in value
    assert "warned" in value  # and it is no failure
    assert "before" in failure
    assert "ZeroDivisionError" in failure
    assert "20" in made
    assert '"made.txt", 3 bytes' in made
    kept = await runner.artifact_service.load_artifact(
        app_name="app", user_id="anna", session_id="same", filename="made.txt"
    )
    assert kept is not None
    assert kept.inline_data is not None
    assert kept.inline_data.data == b"abc"


async def test_a_death_is_told(blocking: BlockingRunner) -> None:
    script = Script(
        model="script",
        lines=[block("x = 1\nimport os; os._exit(4)"), block("print('x' in globals())"), "done"],
        read=[],
    )
    await converse(CellhouseCodeExecutor(blocking), script)
    assert "exit status: 4" in script.read[1]
    assert "session: reset" in script.read[1]
    assert "FRESH_KERNEL" in script.read[2]


async def test_two_users_with_sessions_of_one_id_are_kept_apart(blocking: BlockingRunner) -> None:
    executor = CellhouseCodeExecutor(blocking)
    await converse(executor, Script(model="s", lines=[block("secret = 1"), "done"], read=[]))
    script = Script(model="s", lines=[block("print('secret' in globals())"), "done"], read=[])
    await converse(executor, script, user="berta")
    assert "False" in script.read[1]


async def test_without_state_each_call_is_by_itself(blocking: BlockingRunner) -> None:
    executor = CellhouseCodeExecutor(blocking, stateful=False)
    script = Script(model="s", lines=[block("x = 1"), block("print('x' in globals())"), "done"], read=[])
    await converse(executor, script)
    assert "False" in script.read[2]


async def test_a_child_process_will_do_for_that() -> None:
    executor = CellhouseCodeExecutor(LocalCodeRunner(max_output_chars=500))
    script = Script(model="s", lines=[block("print('z' * 5_000)"), "done"], read=[])
    try:
        await converse(executor, script)
    finally:
        executor.close()
    assert not executor.stateful
    assert "stdout was cut" in script.read[1]
    assert "5001 characters" in script.read[1]


async def test_data_files_of_a_message_are_where_adk_says(blocking: BlockingRunner) -> None:
    executor = CellhouseCodeExecutor(blocking, optimize_data_file=True)
    script = Script(model="s", lines=[block("print(open('data_1_2.csv').read())"), "done"], read=[])
    table = types.Part.from_bytes(data=b"name,count\nred,7\n", mime_type="text/csv")
    await converse(executor, script, more=(table,))
    assert "Total rows: 1" in script.read[0]
    assert "red,7" in script.read[1]


@pytest.mark.parametrize("fields", [{"stateful": True}, {"optimize_data_file": True}])
def test_what_the_runner_can_not_give_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(FailedPrecondition):
        CellhouseCodeExecutor(LocalCodeRunner(), **fields)
