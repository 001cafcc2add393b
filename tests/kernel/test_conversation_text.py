"""Text of the process itself: whose it is where the kernel knows, and where nobody does."""

import asyncio

import pytest

from cellhouse.kernel import Died, Output
from cellhouse.kernel.conversation import Remark, Step
from cellhouse.messages import RawText
from tests.kernel.fake import FakeKernel, Sent
from tests.kernel.talk import ME, converse, done, end_of, now, outputs, remarks, strays
from tests.kernel.virtual_time import virtual_time


def text(words: str, parent: str = "") -> RawText:
    return RawText("stdout", words.encode(), parent_id=parent, printed=True)


@virtual_time
async def test_text_goes_to_whom_it_names() -> None:
    async def script(k: FakeKernel, _: Sent) -> None:
        k.busy()
        k.put(text("mine", ME))
        k.put(text("another's", "an earlier one"))
        k.put(text("nobody's"))
        k.done()
        k.put(text("mine, behind the end", ME))
        k.put(text("another's, behind the end", "an earlier one"))

    steps = await converse(script)
    assert outputs(steps) == ["mine", "nobody's", "mine, behind the end"]
    assert strays(steps) == ["another's", "another's, behind the end"]
    assert remarks(steps) == []
    assert end_of(steps).reply is not None


@virtual_time
async def test_text_before_the_code_goes_to_whom_it_names() -> None:
    kernel = FakeKernel(done)
    kernel.put(text("another's", "an earlier one"))
    kernel.in_the_pipes.append(text("mine already", ME))
    steps = await converse(kernel)
    assert strays(steps) == ["another's"]
    assert outputs(steps) == ["mine already"]
    assert remarks(steps) == []


@virtual_time
async def test_last_words_of_a_dead_kernel_go_to_whom_they_name() -> None:
    kernel = FakeKernel(done)
    kernel.put(text("last words", "an earlier one"))
    kernel.die(signal=11)
    steps = await converse(kernel)
    assert strays(steps) == ["last words"]
    assert (end_of(steps).died, end_of(steps).sent) == (Died(None, 11), False)


# what cannot be told apart


async def _after(before: RawText, *during: RawText) -> list[Step]:
    """What a conversation tells when one text came before its code, and others while it ran."""

    async def script(k: FakeKernel, _: Sent) -> None:
        k.busy()
        for item in during:
            k.put(item)
        k.done()

    kernel = FakeKernel(script)
    kernel.put(before)
    return await converse(kernel)


@virtual_time
async def test_text_of_a_writer_that_is_known_casts_no_doubt() -> None:
    for mine in ("", ME):
        steps = await _after(text("before", "an earlier one"), text("during", mine))
        assert outputs(steps) == ["during"]
        assert remarks(steps) == []


@virtual_time
async def test_text_of_another_is_no_doubtful_output() -> None:
    steps = await _after(text("before"), text("during", "an earlier one"))
    assert strays(steps) == ["before", "during"]
    assert outputs(steps) == []
    assert remarks(steps) == []


@pytest.mark.parametrize("mine", ["", ME])
@virtual_time
async def test_a_writer_that_nobody_knows_may_go_on(mine: str) -> None:
    """Where a kernel tells by the time alone, it may be wrong; said once, before the text."""
    steps = await _after(text("before"), text("during", mine), text(" and on", mine))
    assert strays(steps) == ["before"]
    assert outputs(steps) == ["during", " and on"]
    assert remarks(steps) == ["UNATTRIBUTED_OUTPUT"]
    told = [type(step) for step in steps if isinstance(step, Output | Remark)]
    assert told == [Remark, Output, Output]


# time


@pytest.mark.parametrize(("parent", "seconds"), [(ME, 8), ("", 5), ("an earlier one", 5)])
@virtual_time
async def test_text_is_a_sign_of_the_code_where_it_is_of_the_code(parent: str, seconds: float) -> None:
    """The idle status is awaited for five seconds without a sign."""

    async def script(k: FakeKernel, _: Sent) -> None:
        k.busy()
        k.reply()
        await asyncio.sleep(3)
        k.put(text("x", parent))

    began = now()
    steps = await converse(script, settle_seconds=5)
    assert remarks(steps) == ["IOPUB_LOST"]
    assert now() - began == pytest.approx(seconds, abs=0.2)
