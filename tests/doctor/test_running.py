"""Programs inside that say nothing, too much, or never end."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cellhouse.doctor.programs import source
from cellhouse.doctor.running import ANSWER_CHARS, OUTPUT_BYTES, Answer, NoAnswer, answered, ask
from cellhouse.sandbox import Sandbox, create_sandbox
from tests.sandbox.support import PYTHON, spec


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[Sandbox]:
    made = create_sandbox("none", spec(tmp_path / "state"))
    await made.start()
    yield made
    await made.close()


async def _ask(sandbox: Sandbox, program: str, *, seconds: float = 20.0) -> Answer:
    return await ask(sandbox, str(PYTHON), source(program), {"a": 1}, seconds=seconds)


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("ARGS['a'] == 1 or missed('no arguments')", "reached"),
        ("open('/no/such/file')", "ENOENT"),
        ("missed('nothing here')", "missed: nothing here"),
        ("raise MemoryError", "ENOMEM"),
        ("os.kill(os.getpid(), signal.SIGTERM)", "SIGTERM"),
        ("print('x' * 1000000)", "reached"),
    ],
)
async def test_what_a_program_comes_to_is_its_answer(sandbox: Sandbox, program: str, said: str) -> None:
    assert (await _ask(sandbox, program)).text == said


async def test_a_program_that_hangs_is_ended_within_its_time(sandbox: Sandbox) -> None:
    with pytest.raises(NoAnswer, match=r"not through after 0\.5 s"):
        await _ask(sandbox, "time.sleep(1000)", seconds=0.5)


async def test_a_child_that_holds_its_output_ends_with_the_program(sandbox: Sandbox) -> None:
    assert (await _ask(sandbox, "os.fork() or time.sleep(1000)")).reached


async def test_a_program_that_fails_says_so_with_its_last_words(sandbox: Sandbox) -> None:
    with pytest.raises(NoAnswer, match="status 1 and said ZeroDivisionError"):
        await _ask(sandbox, "1 / 0")


async def test_a_program_that_can_not_be_started_is_no_answer(sandbox: Sandbox) -> None:
    with pytest.raises(NoAnswer, match="could not be started"):
        await ask(sandbox, "/no/such/python", "pass", {}, seconds=20.0)


@pytest.mark.parametrize("out", ["", "\n", "no json", "3", '["reached"]', "null", "[" * 100_000])
def test_what_is_no_answer_of_ours_is_none(out: str) -> None:
    with pytest.raises(NoAnswer):
        answered(out)


def test_a_long_answer_is_cut() -> None:
    assert len(answered('"' + "x" * OUTPUT_BYTES + '"').text) == ANSWER_CHARS
