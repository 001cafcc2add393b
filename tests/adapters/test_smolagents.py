"""smolagents: an agent whose model is a script runs its code in a kernel, and reads what happened."""

from collections.abc import Sequence
from typing import Any

import pytest
from smolagents import ChatMessage, CodeAgent, MessageRole, Model, tool
from smolagents.local_python_executor import InterpreterError

from cellhouse.model import FailedPrecondition
from cellhouse.runners import BlockingRunner, LocalCodeRunner
from cellhouse.runners.adapters.smolagents import CellhouseExecutor
from tests.adapters.conftest import HouseRunner


class Script(Model):
    """Says its lines, and keeps what it was told."""

    def __init__(self, *codes: str) -> None:
        super().__init__()
        self.codes = list(codes)
        self.read: list[str] = []

    def generate(self, messages: Sequence[Any], *_: Any, **__: Any) -> ChatMessage:
        self.read.append(str(messages[-1].content))
        return ChatMessage(role=MessageRole.ASSISTANT, content=f"<code>\n{self.codes.pop(0)}\n</code>")


@tool
def double(number: int) -> int:
    """Doubles a number.

    Args:
        number: what is doubled
    """
    return number * 2


def agent(runner: Any, *codes: str, **options: Any) -> CodeAgent:
    executor = CellhouseExecutor(runner, max_output_chars=2_000)
    return CodeAgent(tools=[double], model=Script(*codes), executor=executor, verbosity_level=0, **options)


def test_an_agent_answers_with_variables_and_tools_of_its_session(runner: HouseRunner) -> None:
    codes = ("x = double(given)\nprint('printed', x)\nx + 1", "final_answer({'x': x, 'all': [1, None, 'é']})")
    with agent(runner, *codes) as made:
        assert made.run("go", additional_args={"given": 21}) == {"x": 42, "all": [1, None, "é"]}
        read = made.model.read[1]
    assert "printed 42" in read
    assert "43" in read
    assert read.count("43") == 1  # the value is shown once


def test_an_error_and_the_output_before_it_reach_the_agent(runner: HouseRunner) -> None:
    with agent(runner, "print('before')\n1/0", "final_answer('done')") as made:
        assert made.run("go") == "done"
        read = made.model.read[1]
    assert "before" in read
    assert "ZeroDivisionError: division by zero" in read
    assert "failed: ERROR" in read


def test_a_lost_session_is_told_and_tools_come_back(runner: HouseRunner) -> None:
    codes = (
        "x = 1\nimport os; print('last words', flush=True); os._exit(3)",
        "print(double(4))\nx",
        "final_answer(double(given))",
    )
    with agent(runner, *codes) as made:
        assert made.run("go", additional_args={"given": 5}) == 10
        died, after = made.model.read[1], made.model.read[2]
    assert "last words" in died
    assert "exit status: 3" in died
    assert "session: reset" in died
    assert "FRESH_KERNEL" in after
    assert "8" in after
    assert "NameError" in after  # the variable is gone, and the tool is not


def test_cuts_and_files_are_told_and_no_base64_comes(runner: HouseRunner) -> None:
    codes = (
        "open('made.bin', 'wb').write(bytes(3_000))\nprint('y' * 100_000)",
        "final_answer('done')",
    )
    with agent(runner, *codes) as made:
        made.run("go")
        read = made.model.read[1]
    assert "stdout was cut" in read
    assert "100001 characters" in read
    assert '"made.bin", 3000 bytes' in read
    assert "AAAAAAAA" not in read
    assert len(read) < 10_000


def test_a_long_answer_comes_whole_and_one_that_is_no_json_is_refused(blocking: BlockingRunner) -> None:
    executor = CellhouseExecutor(blocking)
    from smolagents.default_tools import FinalAnswerTool

    executor.send_tools({"final_answer": FinalAnswerTool()})
    output = executor("final_answer('é' * 100_000)")
    assert output.is_final_answer
    assert output.output == "é" * 100_000
    with pytest.raises(InterpreterError, match="takes what JSON can hold"):
        executor("final_answer({1, 2})")
    executor.cleanup()
    assert blocking.is_open


def test_an_eviction_between_two_steps_is_told(blocking: BlockingRunner) -> None:
    executor = CellhouseExecutor(blocking, key="mine")
    executor("x = 1")
    session = blocking.wait(blocking.runner.start(key="mine"))
    pool = session._pool  # type: ignore[attr-defined]

    async def lose() -> None:
        pool.lost("mine", session, "for the test")

    blocking.wait(lose())
    output = executor("'x' in globals()")
    assert output.output == "False"
    assert "SESSION_EVICTED" in output.logs


def test_a_runner_without_variables_is_refused() -> None:
    with pytest.raises(FailedPrecondition, match="scope 'run'"):
        CellhouseExecutor(LocalCodeRunner())
