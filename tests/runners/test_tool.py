"""`code_runner_tool`: scopes that are kept or refused, a say before code runs, and words for all that comes of it."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from cellhouse.model import (
    CallReason,
    CellhouseError,
    CodeResult,
    FailedPrecondition,
    InvalidArgument,
    ResourceExhausted,
    Unavailable,
)
from cellhouse.runners import (
    CheckIn,
    CodeRunner,
    CodeSession,
    Input,
    LocalCodeRunner,
    RunnerTraits,
    SessionCodeRunner,
    code_runner_tool,
)
from cellhouse.runners.base import session_gone

TRAITS = RunnerTraits(
    language="python",
    description="A fake.",
    state=True,
    artifacts=True,
    inputs=True,
    sandboxed=False,
    scopes=frozenset({"call", "run", "session"}),
    max_output_chars=100,
    output_location="/content",
    inputs_found="they are in INPUTS",
)


class FakeRunner(CodeRunner):
    """Keeps what it was asked; `raises` are errors of the next calls."""

    def __init__(self, traits: RunnerTraits = TRAITS) -> None:
        self._traits = traits
        self.started: list[str] = []
        self.stopped: list[str] = []
        self.ran: list[tuple[str, str, float | None]] = []
        self.staged: list[dict[str, Input]] = []
        self.raises: list[CellhouseError] = []

    @property
    def traits(self) -> RunnerTraits:
        return self._traits

    async def start(self, *, key: str) -> "FakeSession":
        self.started.append(key)
        return FakeSession(key, self)

    async def stop(self, *, key: str) -> None:
        self.stopped.append(key)

    async def close(self) -> None:
        return


class FakeSession(CodeSession):
    def __init__(self, key: str, runner: FakeRunner) -> None:
        super().__init__(key)
        self.runner = runner

    async def execute(self, code: str, *, timeout: float | None = None) -> CodeResult:
        if self.runner.raises:
            raise self.runner.raises.pop(0)
        self.runner.ran.append((self.key, code, timeout))
        return CodeResult(ok=True, stdout="ran\n")

    async def stage(self, inputs: Mapping[str, Input]) -> dict[str, str]:
        self.runner.staged.append(dict(inputs))
        return {name: f"/content/inputs/{name}" for name in inputs}

    async def stop(self) -> None:
        self.runner.stopped.append(self.key)


@pytest.fixture
def runner() -> FakeRunner:
    return FakeRunner()


async def test_scope_call_has_a_session_for_each_call(runner: FakeRunner) -> None:
    tool = code_runner_tool(runner, scope="call", timeout=5)
    assert await tool("1") == "ok\nstdout:\nran"
    await tool("2")
    keys = [key for key, _, _ in runner.ran]
    assert len(set(keys)) == 2
    assert runner.stopped == keys
    assert runner.ran[0][2] == 5


async def test_scope_run_has_one_from_the_beginning_of_a_run_to_its_end(runner: FakeRunner) -> None:
    tool = code_runner_tool(runner, scope="run")
    with pytest.raises(FailedPrecondition, match=r"async with tool\.run\(\)"):
        await tool("1")
    async with tool.run() as one, tool.run() as other:
        await one("1")
        await one("2")
        await other("3")
    first, second, third = (key for key, _, _ in runner.ran)
    assert first == second != third
    assert sorted(runner.stopped) == sorted({first, third})
    with pytest.raises(FailedPrecondition, match="scope 'call'"):
        async with code_runner_tool(runner, scope="call").run():
            pass


async def test_scope_session_has_the_key_that_it_is_given(runner: FakeRunner) -> None:
    await code_runner_tool(runner, scope="session", key="mine")("1")
    by_context = code_runner_tool(runner, scope="session", key=lambda context: context["user"])
    await by_context("2", context={"user": "anna"})
    assert [key for key, _, _ in runner.ran] == ["mine", "anna"]
    assert runner.stopped == []
    with pytest.raises(InvalidArgument, match="isolation key"):
        await by_context("3", context={"user": ""})


@pytest.mark.parametrize(("scope", "key"), [("session", None), ("call", "k"), ("run", "k"), ("session", "")])
def test_a_key_belongs_to_scope_session(runner: FakeRunner, scope: Any, key: Any) -> None:
    with pytest.raises(InvalidArgument, match="key"):
        code_runner_tool(runner, scope=scope, key=key)


@pytest.mark.parametrize("scope", ["run", "session", "forever"])
def test_a_scope_that_the_runner_can_not_give_is_refused(scope: Any) -> None:
    with pytest.raises(
        FailedPrecondition, match=f"scope '{scope}' can't be had from this runner; it has call"
    ):
        code_runner_tool(LocalCodeRunner(), scope=scope, key="k" if scope == "session" else None)


def test_inputs_that_the_runner_can_not_stage_are_refused() -> None:
    with pytest.raises(FailedPrecondition, match="stages no inputs"):
        code_runner_tool(LocalCodeRunner(), scope="call", inputs={"a": b"x"})


async def test_wanted_inputs_are_staged_and_their_paths_told(runner: FakeRunner) -> None:
    tool = code_runner_tool(runner, scope="call", inputs={"a.csv": b"1", "b.csv": b"2"})
    assert tool.parameters["properties"]["inputs"]["items"]["enum"] == ["a.csv", "b.csv"]
    assert "they are in INPUTS" in tool.parameters["properties"]["inputs"]["description"]
    text = await tool("1", ["b.csv"])
    assert runner.staged == [{"b.csv": b"2"}]
    assert 'input "b.csv": /content/inputs/b.csv' in text
    assert await tool("1", ["c.csv"]) == "not run: inputs: there is no 'c.csv'; there are: a.csv, b.csv"
    assert "there are: none" in await code_runner_tool(runner, scope="call")("1", ["x"])


@pytest.mark.parametrize("verdict", [False, None, 1, "", "too dangerous"])
async def test_only_true_lets_code_run(runner: FakeRunner, verdict: Any) -> None:
    tool = code_runner_tool(runner, scope="session", key="k", check_in=lambda what: verdict)
    answer = await tool.invoke({"code": "rm"})
    assert answer.text.startswith("not run: it was not approved")
    assert ("too dangerous" in answer.text) is (verdict == "too dangerous")
    assert answer.result is None
    assert runner.started == []


async def test_whoever_checks_sees_what_would_run(runner: FakeRunner) -> None:
    seen: list[CheckIn] = []

    async def check_in(what: CheckIn) -> bool:
        await asyncio.sleep(0)
        seen.append(what)
        return True

    tool = code_runner_tool(
        runner, scope="session", key="k", inputs={"a": b""}, check_in=check_in, timeout=None
    )
    await tool.invoke('{"code": "x", "inputs": ["a"]}', context="ctx")
    assert seen == [CheckIn("x", "session", "k", ("a",), None, TRAITS, "ctx")]
    await tool.invoke('{"code": ""}')
    assert len(seen) == 1  # nobody is asked about what can't run


async def test_a_check_that_raises_lets_nothing_run(runner: FakeRunner) -> None:
    def check_in(what: CheckIn) -> bool:
        raise RuntimeError("nobody there")

    with pytest.raises(RuntimeError, match="nobody there"):
        await code_runner_tool(runner, scope="call", check_in=check_in)("1")
    assert runner.started == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("{", "no JSON"),
        ("[]", "JSON object"),
        ("{}", "code"),
        ({"code": 1}, "code"),
        ({"code": "1", "inputs": "a"}, "list of names"),
        ({"code": "1", "timeout": 1}, "no argument 'timeout'"),
        ({"code": "\ud800"}, "lone surrogate"),
    ],
)
async def test_bad_arguments_are_answered_in_words(runner: FakeRunner, arguments: Any, told: str) -> None:
    answer = await code_runner_tool(runner, scope="call").invoke(arguments)
    assert answer.text.startswith("not run: ")
    assert told in answer.text
    assert runner.started == []


async def test_a_session_that_is_gone_is_started_anew_once(runner: FakeRunner) -> None:
    tool = code_runner_tool(runner, scope="session", key="k")
    runner.raises = [session_gone("k", "it was evicted")]
    assert (await tool("1")).startswith("ok")
    assert runner.started == ["k", "k"]
    runner.raises = [session_gone("k", "again"), session_gone("k", "and again")]
    assert (await tool("1")).startswith("not run: the session of key 'k' is gone: and again")


async def test_errors_of_the_call_are_words_and_doubt_is_said(runner: FakeRunner) -> None:
    tool = code_runner_tool(runner, scope="call")
    runner.raises = [
        ResourceExhausted("all busy", reason=CallReason.QUOTA_EXCEEDED),
        Unavailable("cut off", reason=CallReason.TRY_AGAIN),
    ]
    assert await tool("1") == "not run: all busy"
    assert await tool("1") == "not known whether it ran: cut off"
    assert len(runner.stopped) == 2


def test_a_model_is_told_what_it_may_rely_on() -> None:
    tool = code_runner_tool(LocalCodeRunner(), scope="call", timeout=7, max_output_chars=500)
    for words in (
        "no sandbox",
        "Nothing is kept",
        "Files are not reported",
        "after 7 s",
        "500 characters",
        "python",
    ):
        assert words in tool.description
    assert tool.parameters == {
        "type": "object",
        "properties": {"code": {"type": "string", "description": "The python code to run, whole."}},
        "required": ["code"],
        "additionalProperties": False,
    }
    lasting = code_runner_tool(SessionCodeRunner(), scope="session", key="k")
    assert "/content" in lasting.description
    assert "lasts beyond this run" in lasting.description


@pytest.mark.parametrize("options", [{"timeout": 0}, {"timeout": "5"}, {"max_output_chars": 5}])
def test_limits_that_can_not_be_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        code_runner_tool(FakeRunner(replace(TRAITS)), scope="call", **options)
