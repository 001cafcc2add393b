"""What adapters of frameworks that call synchronously share: a runner in a thread of its own."""

from cellhouse.model import CallReason, FailedPrecondition
from cellhouse.runners.base import CodeRunner, RunnerTraits, Scope
from cellhouse.runners.blocking import BlockingRunner


class Bridge:
    """A BlockingRunner: one that is given stays its owner's; around a runner that is not entered yet, one is opened when
    it is first needed, and closed here."""

    def __init__(self, runner: CodeRunner | BlockingRunner) -> None:
        self._own = isinstance(runner, CodeRunner)
        self._runner = runner if isinstance(runner, BlockingRunner) else BlockingRunner(runner)

    @property
    def traits(self) -> RunnerTraits:
        return self._runner.traits

    def need(self, scope: Scope) -> None:
        """FAILED_PRECONDITION for a runner that does not run Python, or does not keep variables for so long."""
        self.traits.refuse_scope(scope)
        if self.traits.language != "python":
            raise FailedPrecondition(
                f"this runner runs {self.traits.language}, and the agent writes Python",
                reason=CallReason.RUNNER_UNSUITABLE,
            )

    def open(self) -> BlockingRunner:
        if self._own:
            self._runner.open()
        return self._runner

    def close(self, key: str | None = None) -> None:
        """Let go: of all where the runner is in our hands alone, else of this key's session."""
        if self._own:
            self._runner.close()
        elif key is not None and self._runner.is_open:
            self._runner.stop(key=key)
