"""What a runner of code is: sessions by isolation key, and results that say what happened (contract, section 5)."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Literal, Self

from cellhouse.model import (
    CallReason,
    CodeResult,
    ExecuteCodeRequest,
    FailedPrecondition,
    InvalidArgument,
    StagedInput,
)
from cellhouse.model.limits import OUTPUT_LIMIT_MAX

Scope = Literal["call", "run", "session"]
"""How long variables and files may last: one call, one run of an agent, or until the session is stopped."""
Input = StagedInput
"""What is staged: bytes, a Path of this machine, or (a `str`) the ref of an artifact."""

KEY_CHARS: Final = 1_024
_SHOWN: Final = 80


@dataclass(frozen=True, slots=True)
class RunnerTraits:
    """What a runner reports and keeps, said before any code runs. Nothing that is not said here may be relied upon."""

    # Of the code, such as "python".
    language: str
    # For whoever writes the code, a model say: where it runs, what lasts, what comes back.
    description: str
    # Whether variables last from one call to the next.
    state: bool
    # Whether files that the code leaves in `output_location` are reported.
    artifacts: bool
    # Whether inputs can be staged; how the code finds them is in `inputs_found`.
    inputs: bool
    # Whether code runs behind walls.
    sandboxed: bool
    scopes: frozenset[Scope]
    # Characters of each of stdout and stderr in a result.
    max_output_chars: int
    # Where the code is to put files that shall be reported; empty where none are.
    output_location: str = ""
    # In words, for whoever writes the code; empty where none are staged.
    inputs_found: str = ""

    def refuse_scope(self, scope: str) -> None:
        """FAILED_PRECONDITION where this runner can't give the scope: it is never narrowed nor widened."""
        if scope not in self.scopes:
            raise FailedPrecondition(
                f"scope {scope!r} can't be had from this runner; it has {', '.join(sorted(self.scopes))}",
                reason=CallReason.RUNNER_UNSUITABLE,
                metadata={"scope": scope[:_SHOWN]},
            )

    def refuse_inputs(self) -> None:
        """FAILED_PRECONDITION where nothing can be staged."""
        if not self.inputs:
            raise _stages_nothing()


class CodeSession(ABC):
    """Where the code of one isolation key runs. Calls run one at a time, in the order in which they came."""

    def __init__(self, key: str) -> None:
        self.key = key

    @abstractmethod
    async def execute(self, code: str, *, timeout: float | None = None) -> CodeResult:
        """Run code; `timeout` is seconds it may run. Whatever becomes of it is a result with all output up to then.

        Raises only for what keeps the code from running at all: FAILED_PRECONDITION (SESSION_GONE) in a session that was
        stopped or evicted, INVALID_ARGUMENT for code or a time that can't be. Cancelling the call ends the code.
        """

    async def stage(self, inputs: Mapping[str, Input]) -> dict[str, str]:
        """Put inputs where the code finds them; for each name the path that the code is to open.

        FAILED_PRECONDITION where this runner stages none.
        """
        raise _stages_nothing()

    @abstractmethod
    async def stop(self) -> None:
        """End it and all that runs in it, for all who hold it. May be called again, and at once by many."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


class CodeRunner(ABC):
    """Starts sessions, one for each isolation key. An async context manager, owned by one event loop."""

    @property
    @abstractmethod
    def traits(self) -> RunnerTraits: ...

    @abstractmethod
    async def start(self, *, key: str) -> CodeSession:
        """The session of this key, started where there is none; first calls at the same time share one start.

        Two keys are the same only where they are equal, character for character. RESOURCE_EXHAUSTED where all sessions
        there may be are busy.
        """

    @abstractmethod
    async def stop(self, *, key: str) -> None:
        """Stop the session of this key, where there is one."""

    @abstractmethod
    async def close(self) -> None:
        """Stop all sessions, within bounded time. May be called again."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def run(
        self,
        code: str,
        *,
        key: str,
        timeout: float | None = None,
        inputs: Mapping[str, Input] | None = None,
    ) -> CodeResult:
        """Start, stage, execute in one. A session that turns out to be gone is started anew, once, and the result says so."""
        result, _ = await execute_in(self, code, key=key, timeout=timeout, inputs=inputs)
        return result


async def execute_in(
    runner: CodeRunner,
    code: str,
    *,
    key: str,
    timeout: float | None = None,
    inputs: Mapping[str, Input] | None = None,
) -> tuple[CodeResult, dict[str, str]]:
    """As `CodeRunner.run`, and for each input the path that the code has it at."""
    try:
        return await _stage_and_execute(await runner.start(key=key), code, timeout, inputs)
    except FailedPrecondition as error:
        if error.reason != CallReason.SESSION_GONE:
            raise
    # It was gone before the code was sent, so the code did not run.
    return await _stage_and_execute(await runner.start(key=key), code, timeout, inputs)


async def _stage_and_execute(
    session: CodeSession, code: str, timeout: float | None, inputs: Mapping[str, Input] | None
) -> tuple[CodeResult, dict[str, str]]:
    paths = await session.stage(inputs) if inputs else {}
    return await session.execute(code, timeout=timeout), paths


def check_key(key: object) -> str:
    """The key itself where it can be one; else INVALID_ARGUMENT."""
    if not isinstance(key, str) or not key or len(key) > KEY_CHARS:
        what = (
            f"{key[:_SHOWN]!a} ({len(key)} characters)" if isinstance(key, str) else f"a {type(key).__name__}"
        )
        raise InvalidArgument.of_field(
            "key", f"{what} is no isolation key; it takes 1 to {KEY_CHARS} characters"
        )
    try:
        key.encode()
    except UnicodeEncodeError:
        raise InvalidArgument.of_field("key", "it holds a lone surrogate; send whole characters") from None
    return key


def _stages_nothing() -> FailedPrecondition:
    return FailedPrecondition(
        "this runner stages no inputs; write what the code needs into the code, or take a SessionCodeRunner",
        reason=CallReason.RUNNER_UNSUITABLE,
    )


def session_gone(key: str, why: str) -> FailedPrecondition:
    """For a call in a session that is no more. The code was not run."""
    return FailedPrecondition(
        f"the session of key {key[:_SHOWN]!a} is gone: {why}. The code was not run; start the key again",
        reason=CallReason.SESSION_GONE,
        metadata={"key": key[:_SHOWN]},
    )


def check_call(code: object, timeout: object) -> None:
    """INVALID_ARGUMENT for code or a time that no runner takes."""
    if not isinstance(code, str):
        raise InvalidArgument.of_field("code", f"a {type(code).__name__} is no code; it takes text")
    ExecuteCodeRequest(code=code).validate_code()
    if timeout is None:
        return
    number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not number or not math.isfinite(timeout) or timeout <= 0:  # type: ignore[arg-type,operator]
        raise InvalidArgument.of_field(
            "timeout", f"{timeout!r} is no time; it takes seconds above 0, or None"
        )


def check_output_chars(chars: object) -> int:
    """INVALID_ARGUMENT where it is no number of characters that a result can have of one stream."""
    if type(chars) is not int or not 1 <= chars <= OUTPUT_LIMIT_MAX:
        raise InvalidArgument.of_field(
            "max_output_chars", f"{chars!r} is out of bounds; it takes 1 to {OUTPUT_LIMIT_MAX} characters"
        )
    return chars
