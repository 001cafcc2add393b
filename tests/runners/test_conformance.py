"""The conformance suite over every runner of ours, and over runners that lie: those it has to catch."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cellhouse import House, RuntimeSpec
from cellhouse.client import AsyncClient
from cellhouse.doors.limits import DoorLimits
from cellhouse.doors.server import ServeOptions, Service
from cellhouse.environments import Environment
from cellhouse.keepers import KeptHouse
from cellhouse.model import CodeResult, CodeTruncated
from cellhouse.runners import CodeRunner, CodeSession, LocalCodeRunner, RunnerTraits, SessionCodeRunner
from cellhouse.runners.testing import Check, Dishonest, checks as suite, conform
from tests.runners.support import settings_of

MAX_CHARS = 4_000


async def test_a_session_runner_is_honest(environment: Environment, tmp_path: Path) -> None:
    async with House(settings=settings_of(tmp_path, environment)) as house:
        async with SessionCodeRunner(house, max_output_chars=MAX_CHARS, data_bytes=100_000) as runner:
            await conform(runner)


@pytest.mark.parametrize("language", ["python", "node", "bash"])
async def test_a_local_runner_is_honest(language: str) -> None:
    if shutil.which(language) is None and language != "python":
        pytest.skip(f"there is no {language} here")
    async with LocalCodeRunner(language, max_output_chars=MAX_CHARS) as runner:
        await conform(runner)


@pytest.mark.slow
async def test_a_session_runner_over_a_client_is_honest(environment: Environment, tmp_path: Path) -> None:
    options = ServeOptions(limits=DoorLimits(drain_seconds=0.0))
    async with Service(settings_of(tmp_path, environment), options) as service:
        async with AsyncClient(service.url) as client:
            async with SessionCodeRunner(client, max_output_chars=MAX_CHARS, data_bytes=100_000) as runner:
                await conform(runner)


@pytest.mark.slow
async def test_a_session_runner_over_keepers_is_honest(environment: Environment, tmp_path: Path) -> None:
    async with KeptHouse(settings_of(tmp_path, environment)) as house:
        async with SessionCodeRunner(house, max_output_chars=MAX_CHARS, data_bytes=100_000) as runner:
            await conform(runner)


@pytest.mark.slow
async def test_a_session_runner_with_ipykernel_is_honest(environment: Environment, tmp_path: Path) -> None:
    async with House(settings=settings_of(tmp_path, environment)) as house:
        spec = RuntimeSpec(kernel="python3")
        async with SessionCodeRunner(house, spec=spec, max_output_chars=MAX_CHARS) as runner:
            await conform(runner)


class Lies:
    """What is changed of a runner's traits and results on their way."""

    def __init__(self, **lies: Any) -> None:
        self.traits = {name[7:]: lie for name, lie in lies.items() if name.startswith("claims_")}
        self.result = {name: lie for name, lie in lies.items() if name in CodeResult.model_fields}
        self.of_chars = lies.get("of_chars")
        self.shorter = lies.get("shorter", False)
        self.one_session = lies.get("one_session", False)

    def told(self, result: CodeResult) -> CodeResult:
        made = result.model_copy(update=self.result)
        if self.shorter:
            made = made.model_copy(update={"stdout": made.stdout[:3], "stderr": made.stderr[:3]})
        if self.of_chars is not None and made.truncated is not None:
            wrong = made.truncated.model_copy(update={"of_chars": self.of_chars})
            made = made.model_copy(update={"truncated": wrong})
        return made


class LyingSession(CodeSession):
    def __init__(self, inner: CodeSession, lies: Lies) -> None:
        super().__init__(inner.key)
        self.inner, self.lies = inner, lies

    async def execute(self, code: str, *, timeout: float | None = None) -> CodeResult:
        return self.lies.told(await self.inner.execute(code, timeout=timeout))

    async def stop(self) -> None:
        await self.inner.stop()


class LyingRunner(CodeRunner):
    def __init__(self, inner: CodeRunner, lies: Lies) -> None:
        self.inner, self.lies = inner, lies
        self.sessions: dict[str, LyingSession] = {}

    @property
    def traits(self) -> RunnerTraits:
        return replace(self.inner.traits, **self.lies.traits)

    async def start(self, *, key: str) -> CodeSession:
        key = "one" if self.lies.one_session else key
        inner = await self.inner.start(key=key)
        return self.sessions.setdefault(key, LyingSession(inner, self.lies))

    async def stop(self, *, key: str) -> None:
        self.sessions.pop(key, None)
        await self.inner.stop(key=key)

    async def close(self) -> None:
        await self.inner.close()


@pytest.mark.parametrize(
    ("lies", "check", "seen"),
    [
        ({"artifacts": ()}, suite.absence_is_not_emptiness, "artifacts"),
        ({"claims_artifacts": True}, suite.absence_is_not_emptiness, "artifacts"),
        ({"claims_state": True}, suite.state_is_as_declared, "state is declared"),
        ({"truncated": None}, suite.cuts_are_stated, "without a word"),
        ({"of_chars": MAX_CHARS}, suite.cuts_are_stated, "are stated"),
        ({"of_chars": 3}, suite.cuts_of_both_streams_are_stated, "the longer had"),
        ({"truncated": CodeTruncated(stdout=True, of_chars=9)}, suite.what_is_printed_arrives_whole, "cut"),
        ({"shorter": True}, suite.a_timeout_keeps_the_output, "is lost"),
        ({"ok": True}, suite.failures_and_exits_are_told, "is ok"),
        ({"exit_code": 1}, suite.failures_and_exits_are_told, "exit status"),
        ({"stderr": ""}, suite.failures_and_exits_are_told, "why it failed"),
        ({"one_session": True}, suite.keys_are_kept_apart, "one session"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else getattr(value, "__name__", None),
)
async def test_a_lie_is_caught(lies: dict[str, Any], check: Check, seen: str) -> None:
    async with LyingRunner(LocalCodeRunner(max_output_chars=MAX_CHARS), Lies(**lies)) as runner:
        with pytest.raises(Dishonest, match=seen) as caught:
            await conform(runner, check)
    assert check.__name__ in str(caught.value)


@pytest.mark.slow
async def test_silence_about_lost_variables_is_caught(environment: Environment, tmp_path: Path) -> None:
    async with House(settings=settings_of(tmp_path, environment)) as house:
        silent = Lies(notices=None, session_state=None)
        async with LyingRunner(SessionCodeRunner(house), silent) as runner:
            with pytest.raises(Dishonest, match="without a word"):
                await conform(runner, suite.an_end_of_the_session_is_told)
