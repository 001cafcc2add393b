"""A PythonExecutor of smolagents: `CodeAgent(executor=CellhouseExecutor(SessionCodeRunner()))`."""

import json
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Self

from cellhouse.model import CodeResult, Notice, mint_uid
from cellhouse.runners.adapters.bridge import Bridge
from cellhouse.runners.adapters.extra import needing
from cellhouse.runners.base import CodeRunner
from cellhouse.runners.blocking import BlockingRunner
from cellhouse.runners.rendering import render

with needing("smolagents", "smolagents"):
    from smolagents.local_python_executor import CodeOutput, InterpreterError, PythonExecutor
    from smolagents.serialization import SafeSerializer
    from smolagents.tools import Tool, get_tools_definition_code

ANSWER_CHARS: Final = 16 * 1024 * 1024
"""Characters of a final answer as JSON, at most."""
_PIECE_CHARS: Final = 32_768
_ANSWER: Final = "CellhouseFinalAnswer"
# The line above IPython's tracebacks.
_RULE: Final = "-" * 75
_READY: Final = "_cellhouse_ready"

# Stands in the session once tools and variables are there. The exception is no Exception, so that code which catches
# everything of its own does not catch the answer.
_FINAL_ANSWER: Final = f"""
class {_ANSWER}(BaseException):
    pass

def _cellhouse_answering(given):
    def final_answer(*args, **kwargs):
        global _cellhouse_answer
        import json
        value = given(*args, **kwargs)
        try:
            _cellhouse_answer = json.dumps(value)
        except (TypeError, ValueError):
            raise TypeError(
                f"final_answer takes what JSON can hold (text, numbers, lists, dicts), and this is a "
                f"{{type(value).__name__}}: convert it, or write it to a file and answer with its name"
            ) from None
        raise {_ANSWER}(len(_cellhouse_answer))
    return final_answer

final_answer = _cellhouse_answering(final_answer)
"""


class CellhouseExecutor(PythonExecutor):
    """Runs an agent's code in a live kernel. Variables last between steps; tools are sent there as source.

    What the agent reads of a step is the rendering of its result: cuts, files by ref, notices. A step that did not end well
    raises, with that text. Where the session was lost, the agent is told, and tools and variables are sent anew before the
    next step. `final_answer` takes what JSON can hold.

    `runner` is a SessionCodeRunner that is not entered yet, which is closed by `cleanup`, or an open BlockingRunner, which is
    not. `timeout` is seconds for a step, `max_output_chars` for what the agent reads of its output.
    """

    def __init__(
        self,
        runner: CodeRunner | BlockingRunner,
        *,
        key: str | None = None,
        timeout: float | None = 300.0,
        max_output_chars: int = 20_000,
    ) -> None:
        """FAILED_PRECONDITION for a runner that keeps no variables, or does not run Python."""
        self._bridge = Bridge(runner)
        self._bridge.need("run")
        self.key = key or f"smolagents-{mint_uid()}"
        self._timeout, self._max_chars = timeout, max_output_chars
        self._tools = ""
        self._variables: dict[str, Any] = {}
        # What was told of the session meanwhile, for the agent to read with its next step.
        self._untold: list[Notice] = []

    def send_tools(self, tools: dict[str, Tool]) -> None:
        """Define the tools in the session, as smolagents' other executors do: a tool's source must stand by itself."""
        definitions = get_tools_definition_code(tools)
        self._tools = definitions + (_FINAL_ANSWER if "final_answer" in tools else "")
        self._run_ours(self._tools)
        self._run_ours(f"{_READY} = True")

    def send_variables(self, variables: dict[str, Any]) -> None:
        """Set variables in the session; what smolagents can't write as JSON is an error of its own (SerializationError)."""
        if variables:
            self._run_ours(_assignment(variables))
            self._variables |= variables

    def __call__(self, code_action: str) -> CodeOutput:
        """Run a step. InterpreterError with the whole rendering where it did not end well."""
        self._make_ready()
        result = self._run(code_action)
        notices, self._untold = (*self._untold, *(result.notices or ())), []
        told = result.model_copy(update={"notices": notices or None})
        if result.error is not None and result.error.name == _ANSWER:
            return CodeOutput(output=self._answer(), logs=self._logs(_answered(told)), is_final_answer=True)
        if not result.ok:
            raise InterpreterError(render(told, max_chars=self._max_chars))
        return CodeOutput(output=result.result or None, logs=self._logs(told), is_final_answer=False)

    def cleanup(self) -> None:
        """End the session, and the runner where it is in our hands."""
        self._bridge.close(self.key)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cleanup()

    def _run(self, code: str) -> CodeResult:
        return self._bridge.open().run(code, key=self.key, timeout=self._timeout)

    def _run_ours(self, code: str) -> CodeResult:
        result = self._run(code)
        self._untold += result.notices or ()
        if not result.ok:
            raise InterpreterError(
                f"the session could not be made ready: {render(result, max_chars=self._max_chars)}"
            )
        return result

    def _make_ready(self) -> None:
        """See that tools and variables are there: the session may be another one since."""
        if self._run_ours(f"{_READY!r} in globals()").result == "True":
            return
        if self._tools:
            self._run_ours(self._tools)
        if self._variables:
            self._run_ours(_assignment(self._variables))
        self._run_ours(f"{_READY} = True")

    def _logs(self, result: CodeResult) -> str:
        """The rendering without the value, which smolagents shows by itself, right behind it."""
        value = f"{result.result}\n"
        printed = result.stdout.removesuffix(value) if result.result else result.stdout
        return render(result.model_copy(update={"stdout": printed}), max_chars=self._max_chars) + "\n"

    def _answer(self) -> Any:
        """The final answer, in pieces that no result cuts."""
        length = int(self._run_ours("len(_cellhouse_answer)").result or 0)
        if length > ANSWER_CHARS:
            raise InterpreterError(
                f"the final answer has {length} characters as JSON, and {ANSWER_CHARS} are the limit; "
                "write it to a file and answer with its name"
            )
        size = min(_PIECE_CHARS, self._bridge.traits.max_output_chars)
        pieces = [
            self._run_ours(f"print(_cellhouse_answer[{start}:{start + size}], end='')").stdout
            for start in range(0, length, size)
        ]
        return json.loads("".join(pieces))


def _answered(result: CodeResult) -> CodeResult:
    """The exception that carries an answer is no failure, and its traceback nobody's business."""
    before, _, _ = result.stderr.rpartition(f"{_RULE}\n{_ANSWER}")
    return result.model_copy(update={"ok": True, "outcome": None, "outcome_info": None, "stderr": before})


def _assignment(variables: Mapping[str, Any]) -> str:
    written = SafeSerializer.dumps(dict(variables), allow_pickle=False)
    return f"{SafeSerializer.get_deserializer_code(False)}\nglobals().update(_deserialize({written!r}))\n"
