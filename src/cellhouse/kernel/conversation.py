"""One execute request, from sending it to its true end."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from cellhouse.kernel.base import Died, Kernel, KernelGone, KernelItem, Trouble
from cellhouse.messages import LongText, Message, RawText, text_chunks

SETTLE_SECONDS = 5.0
"""After a reply the idle status is awaited this long without a sign, and the other way round."""
SETTLE_AT_MOST = 60.0
FLOOD_AT_MOST = 600.0
EXIT_SECONDS = 5.0
STRAGGLER_SECONDS = 0.1
LAST_LOOK_SECONDS = 0.05
INTERRUPT_SECONDS = 1.0
"""How long the answer to an interrupt by message is awaited: a late one would hit what comes next."""
DEATH_SECONDS = 5.0
"""A kernel that is to be killed is awaited this long; then its end counts as one whose cause can't be learnt."""
MAX_LEFTOVERS = 4096
END_OF_INPUT = "\x04"
"""What the reference kernel turns into EOFError when it stands alone in an input_reply."""


@dataclass(frozen=True, slots=True)
class ExecuteRequest:
    """What is sent (Jupyter messaging 5.4, execute_request). `msg_id` also names the execution's outputs."""

    code: str
    msg_id: str
    silent: bool = False
    store_history: bool = True
    allow_stdin: bool = False

    def content(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "silent": self.silent,
            "store_history": self.store_history,
            "user_expressions": {},
            "allow_stdin": self.allow_stdin,
            "stop_on_error": False,  # the queue is ours: an exception stops nothing behind it
        }


@dataclass(frozen=True, slots=True)
class Output:
    """Something that belongs to this execution."""

    item: Message | RawText


@dataclass(frozen=True, slots=True)
class Stray:
    """What belongs to an earlier execution, or to none that is known.

    Raw text that names no request only where it came before the code, or, printed, before the word that the code runs.
    """

    item: Message | RawText | Trouble


@dataclass(frozen=True, slots=True)
class InputAsked:
    """The code waits for `Conversation.provide_input`."""

    prompt: str
    password: bool


@dataclass(frozen=True, slots=True)
class Remark:
    """What a caller must know besides."""

    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class Tick:
    """`Conversation.wake_at` has come."""


@dataclass(frozen=True, slots=True)
class End:
    """The true end. `reply` is the execute_reply's content, None where none came; `sent`, whether the code was."""

    reply: Mapping[str, Any] | None
    idle: bool
    died: Died | None = None
    trouble: Trouble | None = None
    asked_exit: bool = False
    sent: bool = True


Step = Output | Stray | InputAsked | Remark | Tick | End


@dataclass
class Conversation:
    """Drives one request over one kernel; `steps()` yields what happens and ends with exactly one `End`.

    Read by one task. `wake_at` (loop time) may be set at any step to get a `Tick` then.
    `input_seconds`: an input request unanswered for that long gets the end of input.
    """

    kernel: Kernel
    request: ExecuteRequest
    input_seconds: float = 300.0
    settle_seconds: float = SETTLE_SECONDS
    exit_seconds: float = EXIT_SECONDS
    wake_at: float | None = None
    _reply: Mapping[str, Any] | None = None
    _busy: bool = False
    _idle: bool = False
    _settle_from: float = 0.0
    _heard: float = 0.0
    _input_until: float | None = None
    _dead_by: float | None = None
    _trouble: Trouble | None = None
    _foreign: bool = False
    """Text of nobody known was coming before the code was sent: what comes after may be of the same writer.

    So may what a kernel gives to this request, as far as it goes by the time at which the text came.
    """
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)

    async def steps(self) -> AsyncIterator[Step]:
        died: Died | None = None
        async for before in self._before():
            if isinstance(before, Died):
                died = before
            else:
                yield before
        sent = died is None and self._send()
        while died is None and not (self._reply is not None and self._idle):
            item = await self.kernel.receive(self._timeout())
            for step in self._time_passed():
                yield step
            if item is None:
                if self._dead_by is not None and self._loop.time() >= self._dead_by:
                    died = Died(None, None)
                    break
                if not self._settled_late():
                    continue
                # The loop itself may have been held up: what stands in the sockets by now gets one more moment.
                item = await self.kernel.receive(LAST_LOOK_SECONDS)
                if item is None:
                    break
            if isinstance(item, Died):
                died = item
                break
            for step in self._take(item):
                yield step
            if self._flooded():
                break
        asked_exit = self._asked_exit()
        async for left in self._leftovers(died, asked_exit):
            if isinstance(left, Died):
                died = left
            else:
                yield left
        for step in self._accounts(died):
            yield step
        yield End(self._reply, self._idle, died, self._trouble, asked_exit, sent)

    def provide_input(self, value: str) -> bool:
        """Answer the open input request. False where none is open."""
        if self._input_until is None:
            return False
        self._input_until = None
        try:
            self.kernel.send("stdin", "input_reply", {"value": value, "status": "ok"})
        except KernelGone:
            return False
        return True

    # what goes out

    async def _before(self) -> AsyncIterator[Step | Died]:
        """What was there before the code is not of the code."""
        self.kernel.drain()
        for _ in range(MAX_LEFTOVERS):
            item = await self.kernel.receive(0)
            match item:
                case None:
                    return
                case Died():
                    yield item
                    return
                case Trouble(fatal=True):
                    for step in self._take(item):
                        yield step
                    return
                case Message():
                    for step in self._message(item):
                        yield step
                case RawText() if item.parent_id:
                    for step in self._raw(item):
                        yield step
                case _:
                    self._foreign = self._foreign or isinstance(item, RawText)
                    yield Stray(item)

    def _send(self) -> bool:
        """False where the kernel can't be used any more; its end says why."""
        if self._trouble is not None:
            return False
        try:
            self.kernel.send("shell", "execute_request", self.request.content(), msg_id=self.request.msg_id)
        except KernelGone:
            self._kill()
            return False
        return True

    def _kill(self) -> None:
        self.kernel.kill()
        if self._dead_by is None:
            self._dead_by = self._loop.time() + DEATH_SECONDS

    # what comes in

    def _take(self, item: KernelItem) -> Iterator[Step]:
        match item:
            case RawText():
                yield from self._raw(item)
            case Trouble(fatal=True):
                if self._trouble is None:
                    self._trouble = item
                self._kill()
            case Trouble():
                yield Remark(item.reason, item.text)
            case Message():
                yield from self._message(item)

    def _raw(self, text: RawText) -> Iterator[Step]:
        if text.parent_id:
            if text.parent_id != self.request.msg_id:
                yield Stray(text)
                return
            self._heard = self._loop.time()
        elif text.printed and not self._busy:
            yield Stray(text)  # it stands before the word that the code runs
            return
        if self._foreign:
            self._foreign = False
            yield Remark(
                "UNATTRIBUTED_OUTPUT",
                "earlier background work was writing to the process's own descriptors when this execution "
                "began; some of that text may stand here",
            )
        yield Output(text)

    def _message(self, message: Message) -> Iterator[Step]:
        if message.parent_id != self.request.msg_id:
            if message.channel == "iopub" and message.msg_type != "status":
                yield Stray(message)
            return
        self._heard = self._loop.time()
        self._busy = True
        match message.channel, message.msg_type:
            case "iopub", "status":
                if message.content.get("execution_state") == "idle":
                    self._idle = True
                    self._begin_settling()
            case "iopub", _:
                yield Output(message)
            case "shell", "execute_reply":
                if self._reply is None:
                    self._reply = message.content
                    self._begin_settling()
                    if message.defect:
                        yield Remark(
                            "MALFORMED_MESSAGE", f"the kernel's reply can't be read: {message.defect}"
                        )
            case "stdin", "input_request":
                yield from self._input_request(message.content)

    def _input_request(self, content: Mapping[str, Any]) -> Iterator[Step]:
        if not self.request.allow_stdin:
            self._end_input()
            yield Remark("INPUT_REFUSED", "the code asked for input, which this execution does not allow")
            return
        prompt = content.get("prompt")
        self._input_until = self._loop.time() + self.input_seconds
        yield InputAsked(
            prompt="".join(text_chunks(prompt)) if isinstance(prompt, str | LongText) else "",
            password=content.get("password") is True,
        )

    def _end_input(self) -> None:
        self._input_until = None
        try:
            self.kernel.send("stdin", "input_reply", {"value": END_OF_INPUT, "status": "ok"})
        except KernelGone:
            self._kill()

    def _begin_settling(self) -> None:
        if not self._settle_from:
            self._settle_from = self._heard

    # time

    def _timeout(self) -> float | None:
        limits = (self.wake_at, self._input_until, self._dead_by, self._settle_until())
        times = [moment for moment in limits if moment is not None]
        return max(0.0, min(times) - self._loop.time()) if times else None

    def _settle_until(self) -> float | None:
        if not self._settle_from:
            return None
        return min(self._heard + self.settle_seconds, self._settle_from + SETTLE_AT_MOST)

    def _settled_late(self) -> bool:
        until = self._settle_until()
        return until is not None and self._loop.time() >= until

    def _flooded(self) -> bool:
        """One of reply and idle came long ago, and something else comes without end."""
        return bool(self._settle_from) and self._loop.time() >= self._settle_from + FLOOD_AT_MOST

    def _time_passed(self) -> Iterator[Step]:
        now = self._loop.time()
        if self._input_until is not None and now >= self._input_until:
            self._end_input()
            yield Remark(
                "INPUT_UNANSWERED", f"nobody answered within {self.input_seconds:g} s: the code got EOFError"
            )
        if self.wake_at is not None and now >= self.wake_at:
            self.wake_at = None
            yield Tick()

    # the end

    def _asked_exit(self) -> bool:
        payload = (self._reply or {}).get("payload")
        return isinstance(payload, list) and any(
            isinstance(entry, Mapping) and entry.get("source") == "ask_exit" and not entry.get("keepkernel")
            for entry in payload
        )

    async def _leftovers(self, died: Died | None, asked_exit: bool) -> AsyncIterator[Step | Died]:
        """What already stands in the pipes and queues, the stragglers of a gap, the death that was asked for."""
        kernel = self.kernel
        kernel.drain()
        until = self._loop.time()
        if died is None and asked_exit:
            until += self.exit_seconds
        elif died is None and kernel.interrupting:
            until += INTERRUPT_SECONDS
        elif died is None and kernel.lost_messages():
            until += STRAGGLER_SECONDS
        seen = 0
        # A death that is coming is awaited by time alone: the process may say as much as it likes on its way out.
        while seen < MAX_LEFTOVERS or (asked_exit and self._loop.time() < until):
            item = await kernel.receive(max(0.0, until - self._loop.time()))
            if item is None:
                if self._loop.time() >= until:
                    break
                continue
            seen += 1
            if isinstance(item, Died):
                yield item
                return
            for step in self._take(item):
                yield step
            if died is None and not (asked_exit or kernel.interrupting or kernel.lost_messages()):
                until = 0.0
        if died is None and asked_exit:
            async for last in self._quit_for_it():
                yield last

    async def _quit_for_it(self) -> AsyncIterator[Step | Died]:
        """The code asked the kernel to end, and it did not: nobody may find it half gone."""
        text = f"the code quit the kernel, whose process did not end within {self.exit_seconds:g} s"
        self._trouble = self._trouble or Trouble("KERNEL_LOST", text, fatal=True)
        self.kernel.kill()
        until = self._loop.time() + DEATH_SECONDS
        while (left := until - self._loop.time()) > 0:
            item = await self.kernel.receive(left)
            if isinstance(item, Died):
                yield item
                return
            if item is not None:
                for step in self._take(item):
                    yield step
        yield Died(None, None)

    def _accounts(self, died: Died | None) -> Iterator[Step]:
        lost = self.kernel.lost_messages(take=True)
        if lost and died is None:  # a death cuts the sequence by itself
            yield Remark("OUTPUT_LOST", f"{lost} messages of the kernel never arrived")
        if died is None and self._reply is not None and not self._idle:
            yield Remark(
                "IOPUB_LOST",
                f"no idle status within {self.settle_seconds:g} s of the reply: output may be missing",
            )
        if died is None and self._reply is None and self._idle:
            yield Remark("REPLY_LOST", f"no reply within {self.settle_seconds:g} s of the idle status")
