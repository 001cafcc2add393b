"""`code_runner_tool`: a runner as one tool of a model, with its description, its limits and its say before code runs."""

import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from cellhouse.model import (
    CallReason,
    CellhouseError,
    CodeResult,
    FailedPrecondition,
    Internal,
    InvalidArgument,
    Unavailable,
    mint_uid,
)
from cellhouse.runners.base import CodeRunner, Input, RunnerTraits, Scope, check_call, check_key, execute_in
from cellhouse.runners.rendering import MAX_CHARS, render

TIMEOUT: Final = 60.0
_REASON_CHARS: Final = 500


@dataclass(frozen=True, slots=True)
class CheckIn:
    """What is about to run, for whoever has to agree."""

    code: str
    scope: Scope
    # Of the session that it would run in; empty for a session of its own.
    key: str
    inputs: tuple[str, ...]
    timeout: float | None
    traits: RunnerTraits
    # What the caller of the tool handed in, such as the context of an agent's framework.
    context: Any = None


Verdict = bool | str
"""True lets the code run; False, or a reason, does not."""
CheckInHook = Callable[[CheckIn], Verdict | Awaitable[Verdict]]
Key = str | Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class CodeAnswer:
    """What the model gets to read, and the result behind it; None where nothing ran, or nothing is known of it."""

    text: str
    result: CodeResult | None = None

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class CodeTool:
    """A tool: what a model is told of it, and what is called for it. Made by `code_runner_tool`."""

    runner: CodeRunner
    name: str
    description: str
    # JSON Schema of the arguments, as strict function calling takes it.
    parameters: dict[str, Any]
    scope: Scope
    key: Key | None
    max_output_chars: int
    timeout: float | None
    inputs: Mapping[str, Input]
    check_in: CheckInHook | None

    async def __call__(self, code: str, inputs: Sequence[str] = (), *, context: Any = None) -> str:
        """Run code and say what happened, in words."""
        return (await self.invoke({"code": code, "inputs": list(inputs)}, context=context)).text

    async def invoke(self, arguments: Mapping[str, Any] | str | bytes, *, context: Any = None) -> CodeAnswer:
        """The same with the arguments as a model gave them, JSON text or read already.

        Whatever a model can do something about comes back as text, bad arguments and a full runner too. Raises what only the
        program around it can mend: FAILED_PRECONDITION for scope "run" outside of `run()`, and what `check_in` or `key` raises.
        """
        if self.scope == "run" and self.key is None:
            raise FailedPrecondition(
                "scope 'run' needs to know where a run begins and ends: `async with tool.run() as bound:` and then bound(…)",
                reason=CallReason.RUNNER_UNSUITABLE,
            )
        try:
            code, wanted = self._arguments(arguments)
            check_call(code, self.timeout)
        except InvalidArgument as error:
            return _not_run(str(error))
        key = "" if self.scope == "call" else self._key(context)
        if (refusal := await self._refusal(CheckIn(
            code, self.scope, key, tuple(wanted), self.timeout, self.runner.traits, context
        ))) is not None:  # fmt: skip
            return _not_run(refusal)
        try:
            result, paths = await self._execute(code, key, wanted)
        except CellhouseError as error:
            return _failed(error)
        return CodeAnswer(render(result, max_chars=self.max_output_chars, inputs=paths), result)

    @asynccontextmanager
    async def run(self) -> AsyncIterator["CodeTool"]:
        """One run of an agent: a tool whose variables last until the end of this block. FAILED_PRECONDITION for other scopes."""
        if self.scope != "run":
            raise FailedPrecondition(
                f"this tool has scope {self.scope!r}; a run of its own is had with scope='run'",
                reason=CallReason.RUNNER_UNSUITABLE,
            )
        key = f"run-{mint_uid()}"
        try:
            yield replace(self, key=key)
        finally:
            await self.runner.stop(key=key)

    async def _execute(
        self, code: str, key: str, wanted: dict[str, Input]
    ) -> tuple[CodeResult, dict[str, str]]:
        if key:
            return await execute_in(self.runner, code, key=key, timeout=self.timeout, inputs=wanted)
        session = await self.runner.start(key=f"call-{mint_uid()}")
        async with session:
            paths = await session.stage(wanted) if wanted else {}
            return await session.execute(code, timeout=self.timeout), paths

    def _key(self, context: Any) -> str:
        assert self.key is not None
        return check_key(self.key if isinstance(self.key, str) else self.key(context))

    def _arguments(self, given: Mapping[str, Any] | str | bytes) -> tuple[str, dict[str, Input]]:
        """The code, and the inputs that are wanted. INVALID_ARGUMENT in words that a model can act upon."""
        if isinstance(given, str | bytes):
            try:
                given = json.loads(given)
            except ValueError as error:
                raise InvalidArgument.of_field("arguments", f"they are no JSON: {error}") from None
        if not isinstance(given, Mapping):
            raise InvalidArgument.of_field("arguments", "they must be a JSON object with the member code")
        if unknown := [str(name)[:80] for name in given if name not in ("code", "inputs")]:
            raise InvalidArgument.of_field(
                "arguments", f"there is no argument {', '.join(map(ascii, unknown))}"
            )
        code, names = given.get("code"), given.get("inputs") or []
        if not isinstance(code, str) or not code.strip():
            raise InvalidArgument.of_field("code", "there is none; give the code as text")
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            raise InvalidArgument.of_field("inputs", "they must be a list of names")
        if missing := [name for name in names if name not in self.inputs]:
            have = ", ".join(self.inputs) or "none"
            raise InvalidArgument.of_field("inputs", f"there is no {missing[0][:80]!a}; there are: {have}")
        return code, {name: self.inputs[name] for name in names}

    async def _refusal(self, asked: CheckIn) -> str | None:
        """Why the code may not run. Only True lets it."""
        if self.check_in is None:
            return None
        verdict = self.check_in(asked)
        if inspect.isawaitable(verdict):
            verdict = await verdict
        if verdict is True:
            return None
        reason = f": {verdict[:_REASON_CHARS]}" if isinstance(verdict, str) and verdict else ""
        return f"it was not approved{reason}"


def _not_run(why: str) -> CodeAnswer:
    return CodeAnswer(f"not run: {why}")


def _failed(error: CellhouseError) -> CodeAnswer:
    if error.execution is None and not isinstance(error, Internal | Unavailable):
        return _not_run(str(error))
    where = f" (as {error.execution})" if error.execution else ""
    return CodeAnswer(f"not known whether it ran{where}: {error}")


def code_runner_tool(
    runner: CodeRunner,
    *,
    scope: Scope,
    key: Key | None = None,
    name: str = "run_code",
    max_output_chars: int = MAX_CHARS,
    timeout: float | None = TIMEOUT,
    inputs: Mapping[str, Input] | None = None,
    check_in: CheckInHook | None = None,
) -> CodeTool:
    """A tool that runs a model's code.

    `scope` says how long variables and files last: "call" (a session for each call), "run" (for each block of
    `async with tool.run()`), "session" (until the runner ends the session of `key`). FAILED_PRECONDITION where the runner
    can't give that, or can't stage `inputs`: nothing is narrowed or widened in silence. `key` belongs to scope "session": a
    text, or a function of the context that each call hands in.

    `max_output_chars` is for stdout and stderr together, as the model gets to read them; `timeout` is seconds for each call.
    `inputs` are what the model may want by name. `check_in` is asked before anything runs or starts; only True lets it run.
    """
    traits = runner.traits
    traits.refuse_scope(scope)
    if (key is not None) is not (scope == "session"):
        rule = "needs one: a text, or a function of the context" if scope == "session" else "takes none"
        raise InvalidArgument.of_field("key", f"scope {scope!r} {rule}")
    if isinstance(key, str):
        check_key(key)
    if inputs:
        traits.refuse_inputs()
    check_call("", timeout)
    render(CodeResult(ok=True), max_chars=max_output_chars)
    return CodeTool(
        runner=runner,
        name=name,
        description=_description(traits, scope, max_output_chars, timeout),
        parameters=_parameters(traits, inputs or {}),
        scope=scope,
        key=key,
        max_output_chars=max_output_chars,
        timeout=timeout,
        inputs=dict(inputs or {}),
        check_in=check_in,
    )


_LASTS: Final[dict[Scope, str]] = {
    "call": "Each call has a session of its own: it starts from nothing, without variables or files of earlier calls.",
    "run": "All calls of this run have one session, which ends with the run.",
    "session": "All calls have one session, which lasts beyond this run.",
}


def _description(traits: RunnerTraits, scope: Scope, max_chars: int, timeout: float | None) -> str:
    ended = f" It is ended after {timeout:g} s." if timeout is not None else ""
    return (
        f"Runs {traits.language} code and tells what happened. {traits.description} {_LASTS[scope]}{ended} "
        f"At most {max_chars} characters of output are shown; what is cut is stated."
    )


def _parameters(traits: RunnerTraits, inputs: Mapping[str, Input]) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "code": {"type": "string", "description": f"The {traits.language} code to run, whole."}
    }
    if inputs:
        properties["inputs"] = {
            "type": "array",
            "items": {"type": "string", "enum": list(inputs)},
            "description": f"Names of the inputs that the code reads. They are put in place first; {traits.inputs_found}.",
        }
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
