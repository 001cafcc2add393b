"""Promise 3: nothing is cut silently."""

import pytest

from cellhouse.model import Outcome
from tests.promises.support import Caller

pytestmark = pytest.mark.asyncio(loop_scope="module")

LINES = 40_000
CODE = f"for number in range({LINES}): print(f'{{number:06}} ä€😀 ' + 'x' * 40)"
WHOLE = "".join(f"{number:06} ä€😀 " + "x" * 40 + "\n" for number in range(LINES))


async def test_what_is_shortened_says_how_much_there_was_and_where_the_rest_is(caller: Caller) -> None:
    result = await caller.run(CODE)
    assert (result.outcome, result.output_truncated) == (Outcome.OK, True)
    assert result.truncation is not None
    cut = result.truncation.stdout
    assert cut is not None
    data = WHOLE.encode()
    assert (cut.total_bytes, cut.total_chars, cut.total_lines) == (len(data), len(WHOLE), LINES)
    assert cut.kept_head_chars + cut.kept_tail_chars + cut.omitted_chars == len(WHOLE)
    head, tail = WHOLE[: cut.kept_head_chars], WHOLE[-cut.kept_tail_chars :]
    assert result.stdout.startswith(head)
    assert result.stdout.endswith(tail)
    line = result.stdout[len(head) : -len(tail)]
    assert f"{cut.omitted_chars} characters" in line
    assert f"read {result.execution}/stdout" in line
    assert cut.spilled_bytes == len(data)

    # The rest, and all of it, can be read there.
    pages, offset, eof = [], 0, False
    while not eof:
        page = caller.house.read_text(result.execution, "stdout", offset=offset, limit=300_001)
        pages.append(page.text)
        offset, eof = page.next_offset, page.eof
    assert "".join(pages) == WHOLE
    assert offset == page.total_bytes == len(data)


async def test_what_is_whole_says_nothing(caller: Caller) -> None:
    result = await caller.run("print('x' * 60_000)\n'y' * 60_000")
    assert (result.output_truncated, result.truncation) == (False, None)
    assert (len(result.stdout), len(result.result)) == (60_001, 60_002)


async def test_value_and_error_too(caller: Caller) -> None:
    result = await caller.run("'y' * 1_000_000")
    assert result.truncation is not None
    assert result.truncation.result is not None
    assert result.truncation.result.total_chars == 1_000_002
    assert caller.house.read_text(result.execution, "result", offset=999_999).text == "yy'"
    failed = await caller.run("raise ValueError('z' * 100_000)")
    assert failed.truncation is not None
    assert failed.truncation.value is not None
    assert failed.truncation.value.total_chars == 100_000
    assert failed.output_truncated is False  # its outputs are whole
