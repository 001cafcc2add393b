"""A conformance suite: whether a runner, anybody's, is honest.

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    async def test_my_runner_is_honest(check: Check) -> None:
        async with MyRunner() as runner:
            await conform(runner, check)

`conform(runner)` does all checks and tells of all that failed.
"""

from cellhouse.runners.base import CodeRunner
from cellhouse.runners.testing.checks import CHECKS, Check, Dishonest, Subject
from cellhouse.runners.testing.programs import PROGRAMS, Programs

__all__ = ["CHECKS", "PROGRAMS", "Check", "Dishonest", "Programs", "Subject", "conform"]


async def conform(runner: CodeRunner, *checks: Check, programs: Programs | None = None) -> None:
    """Do these checks, or all. `Dishonest` has a line for each that failed. `programs` are for a language of your own."""
    failed: list[str] = []
    for check in checks or CHECKS:
        subject = Subject.of(runner, programs)
        try:
            await check(subject)
        except Dishonest as error:
            failed.append(f"{check.__name__}: {error}")
        finally:
            await subject.finish()
    if failed:
        raise Dishonest("\n".join(failed))
