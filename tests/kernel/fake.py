"""A kernel that plays a script: whatever may be said over the protocol, in any order, with nothing behind it."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cellhouse.kernel import Died, KernelGone, KernelInfo, KernelItem, Trouble
from cellhouse.kernel.inbox import Inbox
from cellhouse.messages import Message, RawText
from cellhouse.messages.message import Channel
from cellhouse.model import LimitHit


@dataclass(frozen=True)
class Sent:
    """What was sent to the kernel."""

    channel: str
    msg_type: str
    content: Mapping[str, Any]
    msg_id: str


Script = Callable[["FakeKernel", Sent], Awaitable[None]]
"""Called for each execute_request, in a task of its own; it says everything, or just what the test is about."""


class FakeKernel:
    """The `Kernel` interface. Silent requests are answered by themselves unless `plays_silent` is set."""

    info = KernelInfo(implementation="fake", language="python")

    def __init__(self, script: Script | None = None) -> None:
        self.script = script
        self.plays_silent = False
        self.sent: list[Sent] = []
        self.interrupted = asyncio.Event()
        self.interrupts = 0
        self.kills = 0
        self.closed = False
        self.ends_when_killed = True
        self.lost = 0
        self.in_the_pipes: list[RawText] = []
        self._parent = ""
        self._count = 0
        self._number = 0
        self._gone = False
        self._answers: asyncio.Queue[str] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._inbox = Inbox(on_high=lambda: None, on_low=lambda: None)

    # the interface

    async def start(self) -> None:
        return

    async def receive(self, timeout: float | None = None) -> KernelItem | None:
        return await self._inbox.get(timeout)

    def wake(self) -> None:
        self._inbox.wake()

    def send(self, channel: str, msg_type: str, content: Mapping[str, Any], *, msg_id: str = "") -> str:
        if self._gone:
            raise KernelGone("the fake kernel takes nothing any more")
        self.sent.append(Sent(channel, msg_type, content, msg_id))
        if msg_type == "input_reply":
            self._answers.put_nowait(str(content["value"]))
        elif msg_type == "execute_request":
            self._play(self.sent[-1])
        return msg_id

    def drain(self) -> None:
        for text in self.in_the_pipes:
            self.put(text)
        self.in_the_pipes.clear()

    def lost_messages(self, *, take: bool = False) -> int:
        lost = self.lost
        if take:
            self.lost = 0
        return lost

    def interrupt(self) -> None:
        self.interrupts += 1
        self.interrupted.set()

    @property
    def interrupting(self) -> bool:
        return False

    distrusted = ""

    def kill(self) -> None:
        self.kills += 1
        if self.ends_when_killed:
            self.die(signal=9)

    def cpu_seconds(self) -> float | None:
        return None

    async def close(self) -> None:
        self.closed = self._gone = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    # what a script says

    def put(self, item: KernelItem) -> None:
        self._inbox.put(item, 0)

    def say(
        self,
        msg_type: str,
        content: Mapping[str, Any],
        *,
        channel: Channel = "iopub",
        parent: str | None = None,
        defect: str = "",
        buffers: Sequence[bytes] = (),
        size: int = 64,
    ) -> None:
        self._number += 1
        self.put(
            Message(
                channel=channel,
                msg_type=msg_type,
                msg_id=f"fake_1_{self._number}",
                parent_id=self._parent if parent is None else parent,
                content=content,
                metadata={},
                buffers=[memoryview(buffer) for buffer in buffers],
                size=size,
                defect=defect,
            )
        )

    def busy(self) -> None:
        self.say("status", {"execution_state": "busy"})

    def idle(self, *, parent: str | None = None) -> None:
        self.say("status", {"execution_state": "idle"}, parent=parent)

    def echo(self, code: str = "") -> None:
        """execute_input: the code runs."""
        self._count += 1
        self.say("execute_input", {"code": code, "execution_count": self._count})

    def stream(self, text: object, name: str = "stdout", *, parent: str | None = None) -> None:
        self.say("stream", {"name": name, "text": text}, parent=parent)

    def raw(self, text: str | bytes, name: str = "stdout") -> None:
        data = text.encode() if isinstance(text, str) else text
        self.put(RawText("stderr" if name == "stderr" else "stdout", data))

    def display(self, data: object, display_id: str = "", *, parent: str | None = None) -> None:
        transient = {"display_id": display_id} if display_id else {}
        self.say("display_data", {"data": data, "metadata": {}, "transient": transient}, parent=parent)

    def update(self, data: object, display_id: str) -> None:
        transient = {"display_id": display_id}
        self.say("update_display_data", {"data": data, "metadata": {}, "transient": transient})

    def value(self, data: object) -> None:
        self.say("execute_result", {"data": data, "metadata": {}, "execution_count": self._count})

    def clear(self, *, wait: bool = False) -> None:
        self.say("clear_output", {"wait": wait})

    def error(self, name: object, value: object, traceback: object = None) -> None:
        frames = [f"{name}: {value}"] if traceback is None else traceback
        self.say("error", {"ename": name, "evalue": value, "traceback": frames})

    def reply(self, status: object = "ok", *, parent: str | None = None, **content: Any) -> None:
        body = {"status": status, "execution_count": self._count, **content}
        self.say("execute_reply", body, channel="shell", parent=parent)

    def reply_error(self, name: str, value: str, traceback: Sequence[str] = ()) -> None:
        self.reply("error", ename=name, evalue=value, traceback=list(traceback))

    def raises(self, name: str, value: str) -> None:
        """An exception as the reference kernel tells of it, and the end."""
        self.error(name, value)
        self.reply_error(name, value, [f"{name}: {value}"])
        self.idle()

    def done(self, **content: Any) -> None:
        """The reply, and the end."""
        self.reply(**content)
        self.idle()

    async def ask(self, prompt: object = "? ", *, password: bool = False) -> str:
        self.say("input_request", {"prompt": prompt, "password": password}, channel="stdin")
        return await self._answers.get()

    def trouble(self, reason: str, text: str, *, fatal: bool = False, **metadata: str) -> None:
        self.put(Trouble(reason, text, fatal, metadata))

    def die(
        self,
        *,
        exit_status: int | None = None,
        signal: int | None = None,
        limit_hit: LimitHit | None = None,
    ) -> None:
        if not self._gone:
            self._gone = True
            for task in self._tasks - {asyncio.current_task()}:
                task.cancel()
            self.put(Died(exit_status, signal, limit_hit=limit_hit))

    def stop_taking(self) -> None:
        """Lives on, and takes nothing that is sent."""
        self._gone = True

    def _play(self, request: Sent) -> None:
        self._parent = request.msg_id
        if request.content["silent"] and not self.plays_silent:
            self.busy()
            self.done()
        elif self.script is not None:
            task = asyncio.get_running_loop().create_task(self._run(self.script, request))
            self._tasks.add(task)

    async def _run(self, script: Script, request: Sent) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await script(self, request)
