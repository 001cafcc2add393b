"""Promise 4: absent and empty are different facts."""

import pytest

from cellhouse.model import NoticeReason
from tests.promises.support import Caller

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_no_files_are_an_empty_list_and_unknown_files_are_no_list(caller: Caller) -> None:
    none = (await caller.run("print('x')")).to_wire()
    assert none["artifacts"] == []
    some = (await caller.run("open('a.txt', 'w').write('hello')")).to_wire()
    assert [(made["name"], made["bytes"]) for made in some["artifacts"]] == [("a.txt", "5")]
    # More than the house lists: the rest is counted;
    many = await caller.run("for number in range(200): open(f'{number}.txt', 'w').close()")
    assert many.artifacts is not None
    assert many.artifacts_omitted is not None
    assert (len(many.artifacts), many.artifacts_omitted.files) == (100, 100)
    assert [notice.reason for notice in many.notices or ()] == [NoticeReason.FILES_NOT_LISTED]
    # more than it looks at: where it saw nothing new among so many, it does not say that there was nothing.
    await caller.run("for number in range(200): open(f'more-{number}.txt', 'w').close()")
    unknown = await caller.run("print('x')")
    assert "artifacts" not in unknown.to_wire()
    assert [notice.reason for notice in unknown.notices or ()] == [NoticeReason.FILES_NOT_LISTED]
    await caller.run("import glob, os\nfor name in glob.glob('*.txt'): os.unlink(name)")
    assert (await caller.run("print('x')")).to_wire()["artifacts"] == []


async def test_what_is_not_known_is_not_said(caller: Caller) -> None:
    running = await caller.printing("print('begun', flush=True)\ninput()", "begun", allow_stdin=True)
    partial = (await running.snapshot()).to_wire()
    assert partial["state"] == "RUNNING"
    assert (
        not {"outcome", "outcomeInfo", "sessionState", "executionError", "artifacts", "endTime"}
        & partial.keys()
    )
    await running.cancel()
    whole = (await running).to_wire()
    assert {
        "outcome",
        "outcomeInfo",
        "sessionState",
        "executionError",
        "artifacts",
        "endTime",
    } <= whole.keys()
    assert not {"truncation", "cleared", "late"} & whole.keys()
    assert "null" not in (await running).to_json()


async def test_an_observed_zero_is_written(caller: Caller) -> None:
    cleared = await caller.run("from IPython.display import clear_output\nprint('four')\nclear_output()")
    assert cleared.to_wire()["cleared"] == {"stdoutChars": "5", "stderrChars": "0"}
    assert "stdout" not in cleared.to_wire()  # an unmarked field at its default is left out
