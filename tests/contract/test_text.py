"""Rows of the contract: text, values and clearing."""

import pytest

from cellhouse.model import Outcome, ResultEvent, StartedEvent, StreamEvent
from tests.contract.rig import Rig, plain, undamaged
from tests.kernel.fake import FakeKernel, Sent

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_stream(rig: Rig) -> None:
    def act(k: FakeKernel) -> None:
        k.busy()
        k.echo()
        k.stream("one\n")
        k.stream("oops\n", "stderr")
        k.stream("two\n")
        k.done()

    code = "import sys\nprint('one', flush=True)\nprint('oops', file=sys.stderr, flush=True)\nprint('two', flush=True)"
    told = await rig.run(code, act)
    assert plain(told) == (Outcome.OK, "one\ntwo\n", "oops\n", "")
    assert told.kinds == ["started", "stream"]
    streams = [(e.name, e.text) for e in told.events if isinstance(e, StreamEvent)]
    assert streams == [("stdout", "one\n"), ("stderr", "oops\n"), ("stdout", "two\n")]
    assert not told.result.output_truncated
    undamaged(told)


async def test_stream_is_folded_as_a_terminal_would(rig: Rig) -> None:
    def act(k: FakeKernel) -> None:
        k.echo()
        k.stream("\r10%")
        k.stream("\r100%\x1b[31m done\x1b[0m\nab\x08c\n")
        k.done()

    told = await rig.run("print('\\r10%\\r100%\\x1b[31m done\\x1b[0m\\nab\\x08c')", act)
    assert told.result.stdout == "100% done\nac\n"
    raw = told.log.read_text("stdout").text
    assert raw == "\r10%\r100%\x1b[31m done\x1b[0m\nab\x08c\n"
    assert not told.result.output_truncated


async def test_stream_with_lone_surrogates_becomes_visible_text(rig: Rig) -> None:
    def act(k: FakeKernel) -> None:
        k.echo()
        k.stream("a\ud800b\udfff\n")
        k.done()

    told = await rig.run("print('a\\ud800b\\udfff')", act)
    assert plain(told) == (Outcome.OK, "a\\ud800b\\udfff\n", "", "")


async def test_anything_else_with_lone_surrogates_becomes_visible_text(rig: Rig) -> None:
    def act(k: FakeKernel) -> None:
        k.echo()
        k.display({"text/html": "a\ud800b", "text/plain": "x"})
        k.raises("ValueError", "c\udfffd")

    code = "display({'text/html': 'a\\ud800b', 'text/plain': 'x'}, raw=True)\nraise ValueError('c\\udfffd')"
    told = await rig.run(code, act)
    assert told.error == ("ValueError", "c\\udfffd")
    assert told.bundle()["data"]["text/html"] == "a\\ud800b"


async def test_stream_longer_than_what_is_inline(rig: Rig) -> None:
    line = "x" * 99 + "\n"

    def act(k: FakeKernel) -> None:
        k.echo()
        for _ in range(3000):
            k.stream("x" * 99 + "\n")
        k.done()

    told = await rig.run("for _ in range(3000): print('x' * 99)", act)
    assert told.result.output_truncated
    assert told.result.truncation is not None
    cut = told.result.truncation.stdout
    assert cut is not None
    assert (cut.total_bytes, cut.total_chars, cut.total_lines) == (300_000, 300_000, 3000)
    assert cut.kept_head_chars + cut.kept_tail_chars + cut.omitted_chars == 300_000
    assert cut.spilled_bytes == 300_000
    assert told.result.stdout.startswith(line)
    assert told.result.stdout.endswith(line)
    assert told.log.read_text("stdout", 299_900).text == line
    undamaged(told)


async def test_text_of_descriptors_children_and_c_code(rig: Rig) -> None:
    async def script(k: FakeKernel, _: Sent) -> None:
        k.echo()
        k.raw("from a child\n")
        k.raw(b"\xe2\x82", "stderr")
        k.raw(b"\xac\xff\n", "stderr")
        k.done()

    code = "import os\nos.system('echo from a child')\nos.write(2, b'\\xe2\\x82')\nos.write(2, b'\\xac\\xff\\n')\nNone"
    told = await rig.run(code, script)
    assert plain(told) == (Outcome.OK, "from a child\n", "€�\n", "")
    # The native kernel has all text come that way.
    assert told.sources("stdout") == told.sources("stderr") == [None if rig.native else "fd"]


async def test_execute_result(rig: Rig) -> None:
    def act(k: FakeKernel) -> None:
        k.echo()
        k.value({"text/plain": "2"})
        k.done()

    told = await rig.run("1+1", act)
    assert plain(told) == (Outcome.OK, "", "", "2")
    assert told.kinds == ["started", "result"]
    assert told.result.rich_outputs == ()


async def test_execute_result_that_is_rich(rig: Rig) -> None:
    def act(k: FakeKernel) -> None:
        k.echo()
        k.value({"text/plain": "plain", "text/html": "<b>rich</b>"})
        k.done()

    code = "class R:\n def __repr__(self): return 'plain'\n def _repr_html_(self): return '<b>rich</b>'\nR()"
    told = await rig.run(code, act)
    assert plain(told) == (Outcome.OK, "", "", "plain")
    assert told.result.rich_outputs[0].mime_types == ("text/html",)
    assert told.bundle()["output_type"] == "execute_result"
    assert told.bundle()["data"]["text/html"] == "<b>rich</b>"


async def test_several_results(rig: Rig) -> None:
    def act(k: FakeKernel) -> None:
        k.echo()
        for text in ("1", "2", "3"):
            k.value({"text/plain": text})
        k.done()

    code = "1\n2\n3"
    if not rig.fake:
        await rig.run("get_ipython().ast_node_interactivity = 'all'")
    told = await rig.run(code, act)
    if not rig.fake:
        await rig.run("get_ipython().ast_node_interactivity = 'last_expr'")
    assert plain(told) == (Outcome.OK, "1\n2\n", "", "3")
    results = [event.text for event in told.events if isinstance(event, ResultEvent)]
    assert results == ["1", "2", "3"]


async def test_clear_output_without_wait(rig: Rig) -> None:
    def act(k: FakeKernel) -> None:
        k.echo()
        k.stream("gone\n")
        k.display({"text/html": "<i>gone</i>", "text/plain": ""})
        k.clear()
        k.stream("stays\n")
        k.done()

    code = """
from IPython.display import clear_output, display
print('gone', flush=True)
display({'text/html': '<i>gone</i>', 'text/plain': ''}, raw=True)
clear_output()
print('stays')"""
    told = await rig.run(code, act)
    assert plain(told) == (Outcome.OK, "stays\n", "", "")
    assert told.drop() == "OUTPUT_CLEARED"
    assert told.result.cleared is not None
    assert told.result.cleared.stdout_chars == 5
    assert told.kinds == ["started", "stream", "display", "cleared", "stream"]
    assert not told.result.output_truncated


async def test_clear_output_with_wait(rig: Rig) -> None:
    def act(k: FakeKernel) -> None:
        k.echo()
        for number in range(3):
            k.clear(wait=True)
            k.stream(f"{number}\n")
        k.clear(wait=True)
        k.done()

    code = """
from IPython.display import clear_output
for number in range(3):
    clear_output(wait=True)
    print(number, flush=True)
clear_output(wait=True)"""
    told = await rig.run(code, act)
    assert plain(told) == (Outcome.OK, "2\n", "", "")
    assert told.result.cleared is not None
    assert told.result.cleared.stdout_chars == 4


async def test_execute_input(rig: Rig) -> None:
    """It says that the code runs, and as which In[N]; the code itself is no output."""

    def act(k: FakeKernel) -> None:
        k.busy()
        k.echo("x = 1")
        k.done()

    first, second = await rig.run("x = 1", act), await rig.run("x = 1", act)
    started = [event for event in second.events if isinstance(event, StartedEvent)]
    assert [event.execution_count for event in started] == [second.result.execution_count]
    assert second.result.execution_count == first.result.execution_count + 1
    assert plain(second) == (Outcome.OK, "", "", "")
    assert second.kinds == ["started"]


async def test_store_history(rig: Rig) -> None:
    seen = []

    async def script(k: FakeKernel, request: Sent) -> None:
        seen.append(request.content["store_history"])
        k.say("execute_input", {"code": "", "execution_count": 7})
        k.done()

    before = (await rig.run("1", script)).result.execution_count
    hidden = await rig.run("'not kept'", script, store_history=False)
    after = await rig.run("len([line for line in In if 'not kept' in line])", script)
    assert hidden.result.outcome is Outcome.OK
    if rig.fake:
        assert seen == [True, False, True]
    else:
        assert after.result.result == "1"  # this line itself
        assert after.result.execution_count == before + 1


async def test_silent(rig: Rig) -> None:
    """Our own requests: variables for one execution are set and restored, and nobody hears or counts that."""

    def act(k: FakeKernel) -> None:
        k.echo()
        k.stream("green None\n")
        k.done()

    code = "import os; print(os.environ.get('COLOUR'), os.environ.get('OTHER'))"
    await rig.run("None", _nothing)
    with_it = await rig.run(code, act, environment={"COLOUR": "green"})
    without = await rig.run(code, lambda k: k.done())
    assert plain(with_it) == (Outcome.OK, "green None\n", "", "")
    assert with_it.kinds == ["started", "stream"]
    if not rig.fake:
        assert without.result.stdout == "None None\n"
        assert without.result.execution_count == with_it.result.execution_count + 1
    else:
        (kernel,) = rig.kernels
        assert isinstance(kernel, FakeKernel)
        silent = [sent.content["silent"] for sent in kernel.sent if sent.msg_type == "execute_request"]
        assert silent == [False, True, False, True, False]


def _nothing(k: FakeKernel) -> None:
    k.done()
