"""Our main for ipykernel: each thing that it mends, over the real kernel."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from cellhouse import ExecuteCodeRequest, ExecuteCodeResult, House, Settings
from cellhouse.environments import Environment
from cellhouse.model import DisplayEvent, RuntimeSpec, StreamEvent

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Cells:
    """Runs cells in one session."""

    def __init__(self, house: House, session: str) -> None:
        self._house, self._session = house, session

    async def __call__(self, code: str) -> ExecuteCodeResult:
        return await (await self._house.execute(ExecuteCodeRequest(code=code, session=self._session)))

    async def printed(self, result: ExecuteCodeResult) -> str:
        """The whole raw stdout."""
        pages, offset = "", 0
        while True:
            page = self._house.read_text(result.execution, "stdout", offset=offset, limit=1 << 20)
            pages, offset = pages + page.text, page.next_offset
            if page.eof:
                return pages

    async def bundle(self, result: ExecuteCodeResult) -> object:
        """The representations of its one rich output."""
        return (await self._house.get_bundle(result.execution, 0))["data"]

    async def order(self, result: ExecuteCodeResult) -> list[str | int]:
        """Printed text and the numbers of rich outputs, as they came."""
        came: list[str | int] = []
        async for event in self._house.events(result.execution):
            if isinstance(event, StreamEvent):
                text = came.pop() if came and isinstance(came[-1], str) else ""
                came.append(f"{text}{event.text}")
            elif isinstance(event, DisplayEvent):
                came.append(event.index)
        return came

    async def beside(self, code: str) -> str:
        """The value of a cell in another session of the same runtime, which is then gone."""
        other = self._session.replace("/main", "/other")
        result = await (await self._house.execute(ExecuteCodeRequest(code=code, session=other)))
        await self._house.delete_session(other)
        return result.result


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def run(environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cells]:
    state: Path = tmp_path_factory.mktemp("state")
    settings = Settings(state_dir=state, environments=(environment.prefix.parent,))
    async with House(settings=settings) as house:
        runtime = await house.create_runtime(RuntimeSpec(kernel="python3"))
        cells = Cells(house, f"{runtime.name}/sessions/main")
        await cells("None")
        yield cells


async def test_a_flush_of_more_than_a_thousand_messages_does_not_stop_the_kernel(run: Cells) -> None:
    pieces = "import sys\npieces = type(sys.stdout)._flush_buffers.__globals__\n"
    await run(f"{pieces}usual, pieces['STREAM_CHARS'] = pieces['STREAM_CHARS'], 65_536")
    result = await run("for _ in range(10): print('x' * 10_000_000)\n'done'")
    await run("pieces['STREAM_CHARS'] = usual")
    assert result.outcome == "OK"
    assert result.result == "'done'"
    assert result.truncation is not None
    assert result.truncation.stdout is not None
    assert result.truncation.stdout.total_chars == 100_000_010
    assert not result.notices or {notice.reason for notice in result.notices} == {"EVENT_TEXT_LIMIT"}


async def test_a_lone_surrogate_becomes_visible_text(run: Cells) -> None:
    result = await run("print('\\ud800 lone')\nprint('after')")
    assert result.stdout == "\\ud800 lone\nafter\n"
    assert result.notices is None


@pytest.mark.parametrize("times", [1, 40, 4_000])
async def test_text_of_any_length_with_any_character_arrives_as_it_was_printed(
    run: Cells, times: int
) -> None:
    text = "".join(map(chr, range(0x180))) + '\\\\"\\n\\u0041\u2028\ufffe😀'
    result = await run(f"print({text!a} * {times}, end='')")
    assert result.outcome == "OK"
    assert await run.printed(result) == text * times


@pytest.mark.parametrize("times", [1, 4_000])
async def test_a_display_of_any_length_with_any_character_arrives_as_it_was_shown(
    run: Cells, times: int
) -> None:
    text = "".join(map(chr, range(0x180))) + '\\\\"\\n\\u0041\u2028\ufffe😀'
    shown = f"{{'text/html': {text!a} * {times}, 'text/plain': 'x' * 100_000, 'application/json': ['y' * 100_000]}}"
    result = await run(f"from IPython.display import display\ndisplay({shown}, raw=True)")
    data = await run.bundle(result)
    assert data == {
        "text/html": text * times,
        "text/plain": "x" * 100_000,
        "application/json": ["y" * 100_000],
    }


async def test_text_comes_before_what_is_displayed_after_it(run: Cells) -> None:
    """Also where nothing is left to flush because its time to be published has just come."""
    code = (
        "import time\nfrom IPython.display import display\n"
        "for number in range(300):\n"
        "    print(number)\n"
        "    time.sleep(number % 7 / 1000)\n"
        "    display({'text/html': str(number)}, raw=True)"
    )
    result = await run(code)
    expected = [step for number in range(300) for step in (f"{number}\n", number)]
    assert await run.order(result) == expected


async def test_an_exception_group_is_the_error_with_all_that_it_holds(run: Cells) -> None:
    result = await run("raise ExceptionGroup('several', [ValueError('one'), KeyError('two')])")
    error = result.execution_error
    assert error is not None
    assert error.name == "ExceptionGroup"
    text = "".join(error.traceback)
    assert "ValueError: one" in text
    assert "KeyError: 'two'" in text
    assert "run_code" not in text
    assert result.stderr == ""


async def test_an_exception_raised_while_a_group_was_handled_names_both(run: Cells) -> None:
    result = await run(
        "try:\n    raise ExceptionGroup('g', [ValueError('in it')])\nexcept* ValueError:\n    1 / 0"
    )
    error = result.execution_error
    assert error is not None
    assert error.name == "ZeroDivisionError"
    assert "ValueError: in it" in "".join(error.traceback)


async def test_children_and_c_code_write_into_the_same_texts_once(run: Cells) -> None:
    code = (
        "import os, subprocess, sys\n"
        "subprocess.run(['sh', '-c', 'echo out; echo err >&2'])\n"
        "subprocess.run(['echo', 'handed'], stdout=sys.stdout)\n"
        "os.write(1, b'raw\\n')\n"
    )
    result = await run(code)
    assert result.stdout == "out\nhanded\nraw\n"
    assert result.stderr == "err\n"


async def test_what_was_printed_is_not_kept_for_ever(run: Cells) -> None:
    await run("print('needle')")
    result = await run(
        "any('needle' in str(o.bundle) for os in get_ipython().history_manager.outputs.values() for o in os)"
    )
    assert result.result == "False"


async def test_no_message_of_many_small_ones_is_dropped(run: Cells) -> None:
    result = await run(
        "import sys\nfor i in range(3000): sys.stdout.write(chr(97 + i % 26)); sys.stdout.flush()"
    )
    assert result.stdout == "".join(chr(97 + i % 26) for i in range(3000))
    assert result.notices is None


async def test_files_of_the_runtime_never_shadow_what_a_kernel_needs(
    run: Cells, environment: Environment
) -> None:
    names = ("random", "email", "tokenize", "code", "threading")
    await run("\n".join(f"open('{name}.py', 'w').write('raise SystemExit')" for name in names))
    assert await run.beside("6 * 7") == "42"


async def test_colours_and_history_files_stay_away(run: Cells) -> None:
    result = await run("import os\n1 / 0")
    assert result.execution_error is not None
    assert "\x1b" not in "".join(result.execution_error.traceback)
    assert (await run("In[-1] is not None, get_ipython().history_manager.enabled")).result == "(True, False)"


async def test_an_exception_with_megabytes_of_words_ends_nothing(run: Cells) -> None:
    await run("kept = 1")
    result = await run("raise ValueError('x' * 9_000_000)")
    assert result.outcome == "ERROR"
    assert result.session_state == "PRESERVED"
    assert result.execution_error is not None
    assert result.execution_error.name == "ValueError"
    assert len(result.execution_error.value) <= 8_192 + 200
    assert result.truncation is not None
    assert result.truncation.value is not None
    assert result.truncation.value.total_chars == 9_000_000
    assert (await run("kept")).result == "1"


@pytest.mark.parametrize(
    "code",
    [
        "class Bad:\n    def __repr__(self): raise ValueError('no')\nBad()",
        "get_ipython().display_pub.publish({'application/json': object()})",
    ],
    ids=["a repr that raises", "what has no JSON form"],
)
async def test_a_message_that_is_never_sent_is_no_loss(run: Cells, code: str) -> None:
    result = await run(code)
    assert result.outcome == "ERROR"
    after = await run("print('next'); 1")
    assert (after.stdout, after.result) == ("next\n", "1")
    reasons = [each.reason for got in (result, after) for each in got.notices or ()]
    assert "OUTPUT_LOST" not in reasons


async def test_a_message_that_is_dropped_on_its_way_is_one(run: Cells) -> None:
    drop = "import ipykernel.iostream as s\nsend = s.IOPubThread._really_send\n"
    drop += "def once(self, *a, **k): s.IOPubThread._really_send = send\n"
    drop += "s.IOPubThread._really_send = once\nfrom IPython.display import HTML, display\ndisplay(HTML('gone'))\nprint('on')"
    result = await run(drop)
    after = await run("1")
    assert "OUTPUT_LOST" in [each.reason for got in (result, after) for each in got.notices or ()]
