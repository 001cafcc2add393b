"""One execute request on its way: what is its own, what is another's, how long it is awaited; time is virtual."""

import asyncio
from typing import Any

import pytest

from cellhouse.kernel import (
    Conversation,
    Died,
    Stray,
    Trouble,
    conversation,
)
from cellhouse.kernel.conversation import Step, Tick
from cellhouse.messages import Message, RawText
from tests.kernel.fake import FakeKernel, Sent
from tests.kernel.talk import ME, converse, done, end_of, now, outputs, remarks, strays
from tests.kernel.virtual_time import virtual_time

# the ordinary way


@virtual_time
async def test_the_request_is_what_was_asked_for() -> None:
    kernel = FakeKernel(done)
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
    kernel = FakeKernel(done)
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
    kernel = FakeKernel(done)
    kernel.raw("last words")
    kernel.die(signal=11)
    steps = await converse(kernel)
    end = end_of(steps)
    assert (end.sent, end.died, end.reply) == (False, Died(None, 11), None)
    assert strays(steps) == ["last words"]
    assert kernel.sent == []


@virtual_time
async def test_a_kernel_that_broke_already_is_killed_and_not_sent_the_code() -> None:
    kernel = FakeKernel(done)
    kernel.trouble("CHANNEL_CLOSED", "no iopub", fatal=True)
    end = end_of(await converse(kernel))
    assert (end.sent, end.died) == (False, Died(None, 9))
    assert end.trouble is not None
    assert end.trouble.text == "no iopub"
    assert kernel.sent == []


@virtual_time
async def test_a_kernel_that_takes_nothing_is_killed() -> None:
    kernel = FakeKernel(done)
    kernel.stop_taking()
    kernel.kill = lambda: kernel.put(Died(None, 9))  # type: ignore[method-assign]
    end = end_of(await converse(kernel))
    assert (end.sent, end.died) == (False, Died(None, 9))


@virtual_time
async def test_a_kernel_whose_death_is_never_told_has_an_end_all_the_same() -> None:
    kernel = FakeKernel(done)
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
