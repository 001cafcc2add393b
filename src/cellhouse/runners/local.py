"""LocalCodeRunner: code in a child process of this program. No sandbox, and nothing kept between two calls."""

import asyncio
import os
import signal
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

from cellhouse.files.threads import in_thread
from cellhouse.model import (
    Clock,
    CodeResult,
    CodeTruncated,
    EndReason,
    ErrorInfo,
    ExecutionError,
    Notice,
    NoticeReason,
    Outcome,
)
from cellhouse.runners.base import (
    CodeRunner,
    CodeSession,
    RunnerTraits,
    check_call,
    check_output_chars,
    session_gone,
)
from cellhouse.runners.child import Order, Pipe, Ran, run_child
from cellhouse.runners.languages import Language, find_language
from cellhouse.runners.pool import Eviction, Pool, PoolLimits
from cellhouse.runtime.store import remove_tree

ENVIRONMENT: Final = ("LANG", "LC_ALL", "LC_CTYPE", "PATH", "TZ")
"""Variables that a child gets from this process. HOME and TMPDIR are its own working directory."""
INTERRUPT_GRACE: Final = 2.0
"""Seconds from the interrupt to the kill."""


class LocalCodeRunner(CodeRunner):
    """Runs python, node or bash in a child process, with the rights of this one.

    Each call has a process and an empty working directory of its own; both are gone when it returns, with all that the code
    started. Files are not reported: `artifacts` is absent. `max_output_chars` is for each of stdout and stderr; past it the
    beginning and the end are kept. `environment` names the variables that the child may see.
    """

    def __init__(
        self,
        language: str = "python",
        *,
        max_output_chars: int = 65_536,
        environment: Collection[str] = ENVIRONMENT,
        limits: PoolLimits | None = None,
        on_evict: Callable[[Eviction], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        """INVALID_ARGUMENT for another language, FAILED_PRECONDITION where its program is not here."""
        self._language = find_language(language)
        self._language.command("")
        self._chars = check_output_chars(max_output_chars)
        self._environment = tuple(environment)
        self._pool: Pool[LocalCodeSession] = Pool(
            self._open, limits or PoolLimits(), clock=clock, on_evict=on_evict
        )
        self._traits = RunnerTraits(
            language=language,
            description=(
                f"Code is a {language} program that is run from its beginning in a process of its own. Nothing is kept "
                "between calls: neither variables nor files; each call has an empty working directory, which is removed "
                "afterwards with all processes that the code left. Files are not reported: print what is wanted. "
                "This is no sandbox: the code has the rights of the program that runs it. There is no standard input."
            ),
            state=False,
            artifacts=False,
            inputs=False,
            sandboxed=False,
            scopes=frozenset({"call"}),
            max_output_chars=self._chars,
        )

    @property
    def traits(self) -> RunnerTraits:
        return self._traits

    async def start(self, *, key: str) -> "LocalCodeSession":
        """See CodeRunner. Nothing runs yet."""
        return await self._pool.start(key)

    async def stop(self, *, key: str) -> None:
        """See CodeRunner."""
        await self._pool.stop_key(key)

    async def close(self) -> None:
        """See CodeRunner."""
        await self._pool.close()

    async def evict_idle(self) -> None:
        """Forget sessions that have not been used for too long; a runner does so by itself."""
        await self._pool.evict_idle()

    async def _open(self, key: str) -> "LocalCodeSession":
        return LocalCodeSession(key, self._pool, self._language, self._chars, self._environment)


class LocalCodeSession(CodeSession):
    """A key's turn to run processes. There is nothing between two calls that could be lost."""

    def __init__(
        self,
        key: str,
        pool: "Pool[LocalCodeSession]",
        language: Language,
        max_chars: int,
        environment: Collection[str],
    ) -> None:
        super().__init__(key)
        self._pool, self._language, self._max_chars = pool, language, max_chars
        self._environment = environment
        self._turn = asyncio.Lock()
        self._stop = asyncio.Event()
        self._gone = ""

    def tell(self, text: str) -> None:
        """An eviction took nothing away: nothing is kept."""

    def gone(self, why: str) -> None:
        self._gone = why
        self._stop.set()

    async def end(self) -> None:
        async with self._turn:  # what ran was told to stop
            return

    async def stop(self) -> None:
        """See CodeSession."""
        await self._pool.stop(self.key, self)

    async def execute(self, code: str, *, timeout: float | None = None) -> CodeResult:
        """See CodeSession. At `timeout` the code is interrupted (SIGINT), and killed 2 s later."""
        check_call(code, timeout)
        place = self._pool.begin_use(self.key, self)
        try:
            async with self._turn:
                if self._gone or place is None:
                    raise session_gone(self.key, self._gone)
                return await self._run(code, timeout)
        finally:
            if place is not None:
                self._pool.end_use(place)

    async def _run(self, code: str, timeout: float | None) -> CodeResult:
        directory = Path(await in_thread(tempfile.mkdtemp, prefix="cellhouse-run-"))
        try:
            file = directory / self._language.file
            await in_thread(file.write_text, code, encoding="utf-8")
            own = {"HOME": str(directory), "TMPDIR": str(directory), "PWD": str(directory)}
            seen = {name: os.environ[name] for name in self._environment if name in os.environ}
            order = Order(
                argv=self._language.command(str(file)),
                cwd=directory,
                environment={**seen, **own},
                max_chars=self._max_chars,
                timeout=timeout,
                grace=INTERRUPT_GRACE,
            )
            ran = await run_child(order, self._stop)
        finally:
            await in_thread(remove_tree, directory)
        return told(ran, timeout, stopped=self._gone)


def told(ran: Ran, timeout: float | None, *, stopped: str = "") -> CodeResult:
    """What a process did, as a result."""
    outcome, reason, error, metadata = Outcome.OK, "", None, {}
    if ran.ended_by is not None and stopped:
        outcome, reason = Outcome.SESSION_DELETED, EndReason.SESSION_DELETED
        error = ExecutionError(
            name="SessionStopped", value=f"the session ended while the code ran: {stopped}"
        )
    elif ran.ended_by is not None:
        outcome, reason = Outcome.TIMED_OUT, EndReason.EXECUTION_TIMEOUT
        metadata = {"limitSeconds": f"{timeout:g}", "endedBy": ran.ended_by}
        how = "interrupted" if ran.ended_by == "interrupt" else "killed"
        error = ExecutionError(name="TimedOut", value=f"the code ran longer than {timeout:g} s and was {how}")
    elif ran.status < 0:
        outcome, reason = Outcome.KERNEL_DIED, EndReason.PROCESS_SIGNALLED
        name = _signal_name(-ran.status)
        metadata = {"signal": name}
        error = ExecutionError(name="ProcessSignalled", value=f"the process was ended by {name}")
    elif ran.status > 0:
        outcome, reason, metadata = (
            Outcome.ERROR,
            EndReason.PROCESS_EXITED,
            {"exitStatus": str(ran.status)},
        )
        error = ExecutionError(name="ProcessExited", value=f"the process ended with exit status {ran.status}")
    stderr = ran.stderr.shown().text
    if error is not None and outcome is not Outcome.ERROR:  # an exit status says itself what it is
        stderr = with_line(stderr, f"{error.name}: {error.value}")
    return CodeResult(
        ok=outcome is Outcome.OK,
        exit_code=ran.status,
        stdout=ran.stdout.shown().text,
        stderr=stderr,
        truncated=_cuts(ran.stdout, ran.stderr),
        outcome=outcome,
        outcome_info=ErrorInfo(reason=str(reason), metadata=metadata) if reason else None,
        error=error,
        notices=(_processes_left(ran.left),) if ran.left else None,
    )


def _cuts(stdout: Pipe, stderr: Pipe) -> CodeTruncated | None:
    out, err = stdout.shown().omitted_chars > 0, stderr.shown().omitted_chars > 0
    if not out and not err:
        return None
    lengths = [pipe.chars for pipe, cut in ((stdout, out), (stderr, err)) if cut]
    return CodeTruncated(
        stdout=True if out else None,
        stderr=True if err else None,
        of_chars=max(lengths),
        stdout_chars=stdout.chars if out else None,
        stderr_chars=stderr.chars if err else None,
    )


def _processes_left(count: int) -> Notice:
    them = "a process" if count == 1 else f"{count} processes"
    return Notice(
        reason=NoticeReason.PROCESSES_LEFT,
        text=f"the code left {them} running, which ended with it; nothing runs on after a call",
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def with_line(text: str, line: str) -> str:
    """The text, and then a line of its own."""
    return f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}{line}\n"
