"""BlockingRunner: a runner for programs without an event loop; it has a thread with a loop of its own."""

import asyncio
import threading
from collections.abc import Coroutine, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from cellhouse.model import CallReason, CodeResult, FailedPrecondition
from cellhouse.runners.base import CodeRunner, Input, RunnerTraits, execute_in

T = TypeVar("T")


class BlockingRunner:
    """A context manager around a runner that is not entered yet. May be used by several threads at once.

    Not from the thread of an event loop: it would stand still while the code runs.
    """

    def __init__(self, runner: CodeRunner) -> None:
        self.runner = runner
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def traits(self) -> RunnerTraits:
        return self.runner.traits

    @property
    def is_open(self) -> bool:
        return self._loop is not None

    def open(self) -> None:
        """Start the thread and enter the runner. Nothing happens where that is done."""
        if self._loop is not None:
            return
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=_serve, args=(loop,), name="cellhouse runner", daemon=True)
        thread.start()
        self._loop, self._thread = loop, thread
        try:
            self.wait(self.runner.__aenter__())
        except BaseException:
            self._end_loop()
            raise

    def close(self) -> None:
        """Stop all sessions and the thread. May be called again."""
        if self._loop is None:
            return
        try:
            self.wait(self.runner.close())
        finally:
            self._end_loop()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(
        self,
        code: str,
        *,
        key: str,
        timeout: float | None = None,
        inputs: Mapping[str, Input] | None = None,
    ) -> CodeResult:
        """See CodeRunner.run."""
        result, _ = self.wait(execute_in(self.runner, code, key=key, timeout=timeout, inputs=inputs))
        return result

    def stop(self, *, key: str) -> None:
        """See CodeRunner.stop."""
        self.wait(self.runner.stop(key=key))

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """The outcome of something that the runner's loop does. Interrupted here (Ctrl-C), it is cancelled there."""
        if self._loop is None:
            work.close()
            raise FailedPrecondition(
                "this runner is not open; use it as `with BlockingRunner(…) as runner:`",
                reason=CallReason.RUNNER_UNSUITABLE,
            )
        doing = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return doing.result()
        except BaseException:
            doing.cancel()
            raise

    def _end_loop(self) -> None:
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        assert loop is not None
        assert thread is not None
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()
