"""One execute request to its true end: input, exits, deaths, losses; time is virtual."""

import asyncio
from typing import Any

import pytest

from cellhouse.kernel import (
    Conversation,
    Died,
    ExecuteRequest,
    InputAsked,
    Output,
    Trouble,
    conversation,
)
from cellhouse.kernel.conversation import END_OF_INPUT, MAX_LEFTOVERS, Remark, Step
from cellhouse.messages import RawText
from tests.kernel.fake import FakeKernel, Sent
from tests.kernel.talk import ME, converse, done, end_of, now, outputs, remarks
from tests.kernel.virtual_time import virtual_time

# input


async def _asks(k: FakeKernel, _: Sent) -> None:
    k.busy()
    answer = await k.ask("name? ")
    k.stream(f"got {answer!r}")
    k.done()


@virtual_time
async def test_input_that_is_allowed_and_answered() -> None:
    given: list[bool] = []

    def on_step(talk: Conversation, step: Step) -> None:
        if isinstance(step, InputAsked):
            given.extend((talk.provide_input("Ada"), talk.provide_input("twice")))

    kernel = FakeKernel(_asks)
    steps = await converse(kernel, on_step=on_step, request={"allow_stdin": True})
    assert [step for step in steps if isinstance(step, InputAsked)] == [InputAsked("name? ", False)]
    assert given == [True, False]
    assert outputs(steps) == ["got 'Ada'"]
    assert [sent.content for sent in kernel.sent if sent.channel == "stdin"] == [
        {"value": "Ada", "status": "ok"}
    ]
    assert remarks(steps) == []


@virtual_time
async def test_input_that_nobody_asked_for_is_not_given() -> None:
    talk = Conversation(FakeKernel(done), ExecuteRequest("", ME, allow_stdin=True))
    assert not talk.provide_input("x")
    async for _ in talk.steps():
        assert not talk.provide_input("x")
    assert not talk.provide_input("x")


@virtual_time
async def test_input_that_is_not_allowed_is_refused_at_once() -> None:
    began = now()
    steps = await converse(_asks)
    assert remarks(steps) == ["INPUT_REFUSED"]
    assert not any(isinstance(step, InputAsked) for step in steps)
    assert outputs(steps) == [f"got {END_OF_INPUT!r}"]
    assert now() == began


@virtual_time
async def test_input_that_nobody_answers_ends() -> None:
    began = now()
    steps = await converse(_asks, request={"allow_stdin": True}, input_seconds=300)
    assert remarks(steps) == ["INPUT_UNANSWERED"]
    assert outputs(steps) == [f"got {END_OF_INPUT!r}"]
    assert now() - began == 300


@virtual_time
async def test_the_wait_for_input_begins_anew_with_each_request() -> None:
    async def script(k: FakeKernel, _: Sent) -> None:
        for _number in range(3):
            k.stream(repr(await k.ask()))
        k.done()

    def on_step(talk: Conversation, step: Step) -> None:
        if isinstance(step, InputAsked):
            asyncio.get_running_loop().call_later(200, talk.provide_input, "x")

    steps = await converse(script, on_step=on_step, request={"allow_stdin": True}, input_seconds=300)
    assert outputs(steps) == ["'x'"] * 3


@virtual_time
async def test_input_for_a_kernel_that_is_gone_is_not_given() -> None:
    given: list[bool] = []

    def on_step(talk: Conversation, step: Step) -> None:
        if isinstance(step, InputAsked):
            kernel.die(signal=11)
            given.append(talk.provide_input("x"))

    kernel = FakeKernel(_asks)
    steps = await converse(kernel, on_step=on_step, request={"allow_stdin": True})
    assert given == [False]
    assert end_of(steps).died == Died(None, 11)


@virtual_time
async def test_a_refusal_that_the_kernel_does_not_take_ends_it() -> None:
    async def script(k: FakeKernel, _: Sent) -> None:
        k.stop_taking()
        k.say("input_request", {"prompt": "x"}, channel="stdin")

    kernel = FakeKernel(script)
    kernel.kill = lambda: kernel.put(Died(None, 9))  # type: ignore[method-assign]
    end = end_of(await converse(kernel))
    assert (end.died, end.sent) == (Died(None, 9), True)


@pytest.mark.parametrize(
    ("content", "asked"),
    [
        ({}, InputAsked("", False)),
        ({"prompt": 5, "password": "yes"}, InputAsked("", False)),
        ({"prompt": "p" * 10_000, "password": True}, InputAsked("p" * 10_000, True)),
    ],
)
def test_what_is_odd_about_an_input_request_is_left_out(content: dict[str, Any], asked: InputAsked) -> None:
    @virtual_time
    async def test() -> None:
        async def script(k: FakeKernel, _: Sent) -> None:
            k.say("input_request", content, channel="stdin")
            k.done()

        steps = await converse(script, request={"allow_stdin": True})
        assert asked in steps

    test()


# exits and deaths


ASK_EXIT = [{"source": "ask_exit", "keepkernel": False}]


@virtual_time
async def test_an_exit_that_was_asked_for_is_awaited() -> None:
    async def script(k: FakeKernel, _: Sent) -> None:
        k.done(payload=ASK_EXIT)
        await asyncio.sleep(3)
        k.raw("goodbye")
        k.die(exit_status=0)

    steps = await converse(script)
    end = end_of(steps)
    assert (end.asked_exit, end.died) == (True, Died(0, None))
    assert outputs(steps) == ["goodbye"]


@virtual_time
async def test_an_exit_that_does_not_come_is_awaited_so_long_and_no_longer() -> None:
    async def script(k: FakeKernel, _: Sent) -> None:
        k.done(payload=ASK_EXIT)

    began = now()
    end = end_of(await converse(script, exit_seconds=7))
    assert (end.asked_exit, end.died) == (True, Died(None, 9))
    assert end.trouble is not None
    assert end.trouble.reason == "KERNEL_LOST"
    assert now() - began == 7


@virtual_time
async def test_all_that_is_said_on_the_way_out_is_of_the_code_that_quit() -> None:
    async def script(k: FakeKernel, _: Sent) -> None:
        k.done(payload=ASK_EXIT)
        for _number in range(10_000):
            k.put(RawText("stdout", b"x"))
        k.die(exit_status=0)

    steps = await converse(script)
    assert end_of(steps).died == Died(0, None)
    assert sum(isinstance(step, Output) for step in steps) == 10_000


@pytest.mark.parametrize(
    "payload",
    [
        [{"source": "ask_exit", "keepkernel": True}],
        [{"source": "page"}],
        ["ask_exit"],
        {"source": "ask_exit"},
        "ask_exit",
        None,
        [None, 5, {}],
    ],
)
def test_other_payloads_ask_for_no_exit(payload: object) -> None:
    @virtual_time
    async def test() -> None:
        async def script(k: FakeKernel, _: Sent) -> None:
            k.done(payload=payload)

        began = now()
        assert not end_of(await converse(script)).asked_exit
        assert now() == began

    test()


@virtual_time
async def test_a_death_ends_it_with_everything_before() -> None:
    async def script(k: FakeKernel, _: Sent) -> None:
        k.stream("last")
        k.raw("words")
        k.die(signal=11)

    steps = await converse(script)
    assert outputs(steps) == ["last", "words"]
    end = end_of(steps)
    assert (end.died, end.reply, end.idle, end.sent) == (Died(None, 11), None, False, True)
    assert remarks(steps) == []


@virtual_time
async def test_a_death_after_the_reply_keeps_the_reply() -> None:
    async def script(k: FakeKernel, _: Sent) -> None:
        k.reply()
        k.die(exit_status=4)

    steps = await converse(script)
    end = end_of(steps)
    assert end.died == Died(4, None)
    assert end.reply is not None
    assert remarks(steps) == []


@virtual_time
async def test_a_death_right_behind_the_end_is_seen() -> None:
    async def script(k: FakeKernel, _: Sent) -> None:
        k.done()
        k.die(signal=9)

    assert end_of(await converse(script)).died == Died(None, 9)


@virtual_time
async def test_a_fatal_trouble_kills_and_is_told() -> None:
    async def script(k: FakeKernel, _: Sent) -> None:
        k.stream("before")
        k.trouble("MESSAGE_SIZE", "too large", fatal=True, sizeBytes="9")
        k.trouble("CHANNEL_CLOSED", "and then this", fatal=True)

    kernel = FakeKernel(script)
    steps = await converse(kernel)
    end = end_of(steps)
    assert end.trouble == Trouble("MESSAGE_SIZE", "too large", True, {"sizeBytes": "9"})
    assert end.died == Died(None, 9)
    assert outputs(steps) == ["before"]
    assert remarks(steps) == []


@virtual_time
async def test_a_small_trouble_is_a_remark() -> None:
    async def script(k: FakeKernel, _: Sent) -> None:
        k.trouble("MALFORMED_MESSAGE", "dropped a message on iopub: wrong signature")
        k.done()

    steps = await converse(script)
    assert Remark("MALFORMED_MESSAGE", "dropped a message on iopub: wrong signature") in steps
    assert end_of(steps).trouble is None


@virtual_time
async def test_a_reply_that_cannot_be_read_is_said() -> None:
    async def script(k: FakeKernel, _: Sent) -> None:
        k.say("execute_reply", {}, channel="shell", defect="deeper than 200 levels")
        k.idle()

    steps = await converse(script)
    assert remarks(steps) == ["MALFORMED_MESSAGE"]
    assert end_of(steps).reply == {}


# losses


@virtual_time
async def test_a_gap_waits_for_stragglers_and_is_told() -> None:
    async def script(k: FakeKernel, _: Sent) -> None:
        k.lost = 3
        k.done()

    kernel = FakeKernel(script)
    began = now()
    steps = await converse(kernel)
    assert [step.text for step in steps if isinstance(step, Remark)] == [
        "3 messages of the kernel never arrived"
    ]
    assert now() - began == pytest.approx(conversation.STRAGGLER_SECONDS)
    assert kernel.lost == 0


@virtual_time
async def test_a_straggler_that_comes_in_time_is_no_loss() -> None:
    async def script(k: FakeKernel, _: Sent) -> None:
        k.lost = 1
        k.done()
        await asyncio.sleep(conversation.STRAGGLER_SECONDS / 2)
        k.lost = 0
        k.stream("straggler")

    began = now()
    steps = await converse(script)
    assert outputs(steps) == ["straggler"]
    assert remarks(steps) == []
    assert now() - began < conversation.STRAGGLER_SECONDS


@virtual_time
async def test_the_loss_that_a_death_is_needs_no_remark() -> None:
    async def script(k: FakeKernel, _: Sent) -> None:
        k.lost = 3
        k.die(signal=11)

    assert remarks(await converse(script)) == []


@virtual_time
async def test_what_is_left_over_is_bounded() -> None:
    async def script(k: FakeKernel, _: Sent) -> None:
        k.done()
        for _number in range(2 * MAX_LEFTOVERS):
            k.stream("x")

    assert len(outputs(await converse(script))) == MAX_LEFTOVERS


@virtual_time
async def test_being_woken_changes_nothing() -> None:
    async def script(k: FakeKernel, _: Sent) -> None:
        for _number in range(5):
            await asyncio.sleep(1)
            k.wake()
        k.reply()
        for _number in range(5):
            await asyncio.sleep(0.5)
            k.wake()
        k.idle()

    steps = await converse(script, settle_seconds=5)
    assert remarks(steps) == []
    assert end_of(steps).idle
