"""One execute request to its true end, over a kernel that says anything; time is virtual."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from cellhouse.kernel import (
    Conversation,
    Died,
    End,
    ExecuteRequest,
    InputAsked,
    Output,
    Stray,
    Trouble,
    conversation,
)
from cellhouse.kernel.conversation import END_OF_INPUT, MAX_LEFTOVERS, Remark, Step, Tick
from cellhouse.messages import Message, RawText
from tests.kernel.fake import FakeKernel, Script, Sent
from tests.kernel.virtual_time import virtual_time

ME = "m-1"


async def converse(
    script: Script | FakeKernel,
    *,
    on_step: Callable[[Conversation, Step], None] | None = None,
    request: dict[str, Any] | None = None,
    **options: Any,
) -> list[Step]:
    """All steps of one conversation."""
    kernel = script if isinstance(script, FakeKernel) else FakeKernel(script)
    talk = Conversation(kernel, ExecuteRequest("code", ME, **request or {}), **options)
    steps = []
    async for step in talk.steps():
        steps.append(step)
        if on_step is not None:
            on_step(talk, step)
    await kernel.close()
    return steps


def end_of(steps: Sequence[Step]) -> End:
    """The one End, which is the last step."""
    *before, end = steps
    assert isinstance(end, End)
    assert not any(isinstance(step, End) for step in before)
    return end


def outputs(steps: Sequence[Step]) -> list[str]:
    """What belongs to the execution: the text of streams, the type of anything else."""
    told = []
    for step in steps:
        if isinstance(step, Output):
            item = step.item
            if isinstance(item, RawText):
                told.append(item.data.decode())
            else:
                told.append(str(item.content["text"]) if item.msg_type == "stream" else item.msg_type)
    return told


def strays(steps: Sequence[Step]) -> list[str]:
    told = []
    for step in steps:
        if isinstance(step, Stray):
            item = step.item
            told.append(
                item.data.decode() if isinstance(item, RawText) else str(getattr(item, "parent_id", item))
            )
    return told


def remarks(steps: Sequence[Step]) -> list[str]:
    return [step.reason for step in steps if isinstance(step, Remark)]


def now() -> float:
    return asyncio.get_running_loop().time()


# the ordinary way


@virtual_time
async def test_the_request_is_what_was_asked_for() -> None:
    kernel = FakeKernel(_done)
    await converse(kernel, request={"store_history": False, "allow_stdin": True})
    (sent,) = kernel.sent
    assert (sent.channel, sent.msg_type, sent.msg_id) == ("shell", "execute_request", ME)
    assert sent.content == {
        "code": "code",
        "silent": False,
        "store_history": False,
        "user_expressions": {},
        "allow_stdin": True,
        "stop_on_error": False,
    }


async def _done(k: FakeKernel, _: Sent) -> None:
    k.busy()
    k.done()


@virtual_time
async def test_outputs_then_reply_then_idle() -> None:
    async def script(k: FakeKernel, _: Sent) -> None:
        k.busy()
        k.echo()
        k.stream("one")
        k.raw("two")
        k.value({"text/plain": "3"})
        k.done(payload=[])

    began = now()
    steps = await converse(script)
    assert outputs(steps) == ["execute_input", "one", "two", "execute_result"]
    end = end_of(steps)
    assert end.reply == {"status": "ok", "execution_count": 1, "payload": []}
    assert (end.idle, end.died, end.trouble, end.asked_exit, end.sent) == (True, None, None, False, True)
    assert remarks(steps) == []
    assert now() == began


@virtual_time
async def test_idle_before_the_reply_and_output_between_them() -> None:
    async def script(k: FakeKernel, _: Sent) -> None:
        k.idle()
        k.stream("late but ours")
        k.reply()

    steps = await converse(script)
    assert outputs(steps) == ["late but ours"]
    assert end_of(steps).idle
    assert remarks(steps) == []


@virtual_time
async def test_what_stands_behind_the_end_is_still_taken() -> None:
    async def script(k: FakeKernel, _: Sent) -> None:
        k.reply()
        k.idle()
        k.stream("after idle")
        k.in_the_pipes.append(RawText("stderr", b"in the pipe"))

    steps = await converse(script)
    assert outputs(steps) == ["after idle", "in the pipe"]


@virtual_time
async def test_a_slow_program_is_waited_for_without_end() -> None:
    async def script(k: FakeKernel, _: Sent) -> None:
        k.busy()
        await asyncio.sleep(1_000_000)
        k.stream("at last")
        k.done()

    assert outputs(await converse(script)) == ["at last"]


# what was there before


@virtual_time
async def test_what_came_before_the_code_is_not_of_the_code() -> None:
    kernel = FakeKernel(_done)
    kernel.in_the_pipes.append(RawText("stdout", b"startup noise"))
    kernel.raw("earlier", "stderr")
    kernel.stream("x", parent="an earlier one")
    kernel.idle(parent="an earlier one")
    kernel.reply(parent="kernel_info")
    kernel.trouble("MALFORMED_MESSAGE", "something odd")
    steps = await converse(kernel)
    assert outputs(steps) == []
    assert len(kernel.sent) == 1
    first = [step.item for step in steps if isinstance(step, Stray)]
    assert [getattr(item, "data", b"") for item in first] == [b"earlier", b"", b"", b"startup noise"]
    assert isinstance(first[2], Trouble)
    assert remarks(steps) == []


@virtual_time
async def test_a_kernel_that_is_dead_already_is_not_sent_the_code() -> None:
    kernel = FakeKernel(_done)
    kernel.raw("last words")
    kernel.die(signal=11)
    steps = await converse(kernel)
    end = end_of(steps)
    assert (end.sent, end.died, end.reply) == (False, Died(None, 11), None)
    assert strays(steps) == ["last words"]
    assert kernel.sent == []


@virtual_time
async def test_a_kernel_that_broke_already_is_killed_and_not_sent_the_code() -> None:
    kernel = FakeKernel(_done)
    kernel.trouble("CHANNEL_CLOSED", "no iopub", fatal=True)
    end = end_of(await converse(kernel))
    assert (end.sent, end.died) == (False, Died(None, 9))
    assert end.trouble is not None
    assert end.trouble.text == "no iopub"
    assert kernel.sent == []


@virtual_time
async def test_a_kernel_that_takes_nothing_is_killed() -> None:
    kernel = FakeKernel(_done)
    kernel.stop_taking()
    kernel.kill = lambda: kernel.put(Died(None, 9))  # type: ignore[method-assign]
    end = end_of(await converse(kernel))
    assert (end.sent, end.died) == (False, Died(None, 9))


@virtual_time
async def test_a_kernel_whose_death_is_never_told_has_an_end_all_the_same() -> None:
    kernel = FakeKernel(_done)
    kernel.stop_taking()
    kernel.ends_when_killed = False
    began = now()
    end = end_of(await converse(kernel))
    assert end.died == Died(None, None)
    assert now() - began == conversation.DEATH_SECONDS


# messages of others


@virtual_time
async def test_forged_parents_are_of_another() -> None:
    async def script(k: FakeKernel, _: Sent) -> None:
        k.stream("forged", parent="another execution")
        k.stream("nobody's", parent="")
        k.display({"text/html": "x"}, parent=ME.upper())
        k.error("E", "v")
        k.idle(parent="another execution")
        k.reply("error", parent="another execution")
        k.done()

    steps = await converse(script)
    assert strays(steps) == ["another execution", "", ME.upper()]
    assert outputs(steps) == ["error"]
    assert end_of(steps).reply == {"status": "ok", "execution_count": 0}


@virtual_time
async def test_replies_on_the_wrong_channel_are_no_replies() -> None:
    async def script(k: FakeKernel, _: Sent) -> None:
        k.say("execute_reply", {"status": "error"}, channel="control")
        k.say("status", {"execution_state": "idle"}, channel="shell")
        k.say("input_request", {"prompt": "x"}, channel="shell")
        k.say("kernel_info_reply", {"status": "ok"}, channel="shell")
        await asyncio.sleep(100)
        k.done()

    steps = await converse(script)
    assert end_of(steps).reply == {"status": "ok", "execution_count": 0}
    assert outputs(steps) == []


@virtual_time
async def test_of_two_replies_the_first_counts() -> None:
    async def script(k: FakeKernel, _: Sent) -> None:
        k.reply_error("First", "one")
        k.reply()
        k.idle()

    end = end_of(await converse(script))
    assert end.reply is not None
    assert end.reply["ename"] == "First"


@virtual_time
async def test_other_states_are_not_idle() -> None:
    async def script(k: FakeKernel, _: Sent) -> None:
        for state in ("starting", "busy", "dead", "", None, 5, ["idle"], {"idle": 1}):
            k.say("status", {"execution_state": state})
        k.say("status", {})
        k.reply()

    assert not end_of(await converse(script)).idle


# no idle, no reply


@virtual_time
async def test_no_idle_is_waited_for_and_then_told() -> None:
    async def script(k: FakeKernel, _: Sent) -> None:
        k.stream("out")
        k.reply()

    began = now()
    steps = await converse(script, settle_seconds=5)
    assert remarks(steps) == ["IOPUB_LOST"]
    assert not end_of(steps).idle
    assert 5 <= now() - began < 5.5


@virtual_time
async def test_no_reply_is_waited_for_and_then_told() -> None:
    async def script(k: FakeKernel, _: Sent) -> None:
        k.idle()

    began = now()
    steps = await converse(script, settle_seconds=5)
    assert remarks(steps) == ["REPLY_LOST"]
    assert end_of(steps).reply is None
    assert 5 <= now() - began < 5.5


@virtual_time
async def test_while_the_kernel_still_talks_its_idle_is_waited_for() -> None:
    async def script(k: FakeKernel, _: Sent) -> None:
        k.reply()
        for number in range(10):
            await asyncio.sleep(4)
            k.stream(f"{number}")
        k.idle()

    steps = await converse(script, settle_seconds=5)
    assert len(outputs(steps)) == 10
    assert end_of(steps).idle
    assert remarks(steps) == []


@virtual_time
async def test_talk_alone_does_not_hold_the_end_off_for_ever() -> None:
    async def script(k: FakeKernel, _: Sent) -> None:
        k.reply()
        while True:
            await asyncio.sleep(1)
            k.stream("more")

    began = now()
    steps = await converse(script, settle_seconds=5)
    assert remarks(steps) == ["IOPUB_LOST"]
    assert now() - began <= conversation.SETTLE_AT_MOST + 5


@virtual_time
async def test_strangers_talk_holds_nothing_off() -> None:
    async def script(k: FakeKernel, _: Sent) -> None:
        k.reply()
        while True:
            await asyncio.sleep(1)
            k.stream("more", parent="other")

    began = now()
    steps = await converse(script, settle_seconds=5)
    assert remarks(steps) == ["IOPUB_LOST"]
    assert now() - began < 8


@virtual_time
async def test_a_flood_that_never_lets_up_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "FLOOD_AT_MOST", 20.0)

    class Flood(FakeKernel):
        async def receive(self, timeout: float | None = None) -> Message:
            await asyncio.sleep(0.01)
            self.stream("x", parent="other")
            item = self._inbox.get_nowait()
            assert isinstance(item, Message)
            return item

    async def script(k: FakeKernel, _: Sent) -> None:
        k.reply()

    kernel = Flood()
    kernel.script = script
    monkeypatch.setattr(conversation, "MAX_LEFTOVERS", 100)
    assert remarks(await converse(kernel)) == ["IOPUB_LOST"]


# ticks


@virtual_time
async def test_a_tick_comes_when_it_was_asked_for() -> None:
    ticks: list[float] = []
    began = now()

    async def script(k: FakeKernel, _: Sent) -> None:
        k.busy()
        k.echo()
        await asyncio.sleep(10)
        k.done()

    def on_step(talk: Conversation, step: Step) -> None:
        if isinstance(step, Tick):
            ticks.append(now() - began)
        if len(ticks) < 3:
            talk.wake_at = began + len(ticks) + 1

    await converse(script, on_step=on_step)
    assert ticks == [1, 2, 3]


@virtual_time
async def test_a_tick_comes_also_while_the_kernel_never_stops_talking() -> None:
    """What is due once a second has to come under an endless print above all."""
    order: list[str] = []

    class Busy(FakeKernel):
        async def receive(self, timeout: float | None = None) -> Any:
            await asyncio.sleep(0.3)
            return await super().receive(0)

    async def script(k: FakeKernel, _: Sent) -> None:
        for _number in range(10):
            k.stream("x")
        k.done()

    def on_step(talk: Conversation, step: Step) -> None:
        order.append(type(step).__name__)
        if talk.wake_at is None and "Tick" not in order[:-1]:
            talk.wake_at = now() + 1

    kernel = Busy()
    kernel.script = script
    await converse(kernel, on_step=on_step)
    assert "Tick" in order
    assert order.index("Tick") < order.index("End") - 3


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
    talk = Conversation(FakeKernel(_done), ExecuteRequest("", ME, allow_stdin=True))
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
        ({"prompt": "p" * 10_000, "password": True}, InputAsked("p" * 8192, True)),
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
    assert (end.asked_exit, end.died) == (True, None)
    assert now() - began == 7


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
