"""Programs inside that say nothing, too much, or never end."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cellhouse.doctor.programs import Probe
from cellhouse.doctor.running import ANSWER_CHARS, OUTPUT_BYTES, Answer, NoAnswer, answered, ask, ask_all
from cellhouse.sandbox import Sandbox, create_sandbox
from tests.sandbox.support import PYTHON, spec


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[Sandbox]:
    made = create_sandbox("none", spec(tmp_path / "state"))
    await made.start()
    yield made
    await made.close()


def _probe(program: str, name: str = "it") -> Probe:
    return Probe("mount", name, "try it", program, ("EPERM",))


async def _ask(sandbox: Sandbox, program: str, *, seconds: float = 20.0) -> str:
    """The answer, or why there is none."""
    told = await ask(sandbox, str(PYTHON), _probe(program), {"a": 1}, seconds=seconds)
    return told.text if isinstance(told, Answer) else f"none: {told}"


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
    assert await _ask(sandbox, program) == said


async def test_a_program_that_hangs_is_ended_within_its_time(sandbox: Sandbox) -> None:
    assert await _ask(sandbox, "time.sleep(1000)", seconds=0.5) == "none: it was not through after 0.5 s"


async def test_a_child_that_holds_its_output_ends_with_the_program(sandbox: Sandbox) -> None:
    assert await _ask(sandbox, "os.fork() or time.sleep(1000)") == "reached"


async def test_a_program_that_fails_says_so_with_its_last_words(sandbox: Sandbox) -> None:
    said = await _ask(sandbox, "1 / 0")
    assert said == "none: it ended with status 1 and said ZeroDivisionError: division by zero"


async def test_a_program_that_can_not_be_started_is_no_answer(sandbox: Sandbox) -> None:
    told = await ask(sandbox, "/no/such/python", _probe("pass"), {}, seconds=20.0)
    assert isinstance(told, NoAnswer)
    assert "could not be started" in str(told)


async def test_several_are_apart_from_each_other_and_each_has_its_own_time(sandbox: Sandbox) -> None:
    probes = [
        _probe("os.environ['SEEN'] = 'yes'", "first"),
        _probe("'SEEN' in os.environ and missed('it is not apart')", "second"),
        _probe("open('/no/such/file')", "refused"),
        _probe("time.sleep(1000)", "slow"),
        _probe("os.kill(os.getpid(), signal.SIGSEGV)", "killed"),
        _probe("1 / 0", "failing"),
        _probe("pass", "last"),
    ]
    told = await ask_all(sandbox, str(PYTHON), probes, {}, seconds=2)
    assert {name: said.text for name, said in told.items() if isinstance(said, Answer)} == {
        "first": "reached",
        "second": "reached",
        "refused": "ENOENT",
        "slow": "SIGALRM",
        "killed": "SIGSEGV",
        "last": "reached",
    }
    assert str(told["failing"]) == "it came to no answer"


async def test_several_that_are_never_through_are_no_answers_all(sandbox: Sandbox) -> None:
    slow = "signal.alarm(0); time.sleep(1000)"
    told = await ask_all(sandbox, str(PYTHON), [_probe("pass", "first"), _probe(slow, "slow")], {}, seconds=1)
    assert {str(said) for said in told.values()} == {"it was not through after 2 s"}


@pytest.mark.parametrize(
    "out",
    ["", "\n", "no json", "3", '"reached"', '["it"]', '["it", 1]', '["other", "reached"]', "[" * 100_000],
)
def test_what_is_no_answer_of_ours_is_none(out: str) -> None:
    with pytest.raises(NoAnswer):
        answered(out, _probe("pass"))


def test_a_long_answer_is_cut() -> None:
    out = json.dumps(["it", "x" * OUTPUT_BYTES])
    assert len(answered(out, _probe("pass")).text) == ANSWER_CHARS
