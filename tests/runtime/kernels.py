"""A kernel for tests of what stands above kernels: its programs are lines of a few words, and it does as they say.

print TEXT      a line on stdout                 raise NAME TEXT   an exception: iopub and reply
err TEXT        a line on stderr                 display TEXT      a rich output (text/html)
value TEXT      an expression's value            write NAME TEXT   a file of /content
hold            until `release` or an interrupt, which raises KeyboardInterrupt
swallow         until an interrupt, then on      stubborn          until it is killed
ask PROMPT      input, whose answer is printed   exit N, signal N, vanish   the process ends
raise-none      a display failed: reply `NoneType`                 abort   the reply says aborted
silence         no reply                         no-idle           no idle status
set NAME TEXT, get NAME     a variable of the kernel, lost with it
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from cellhouse.kernel import Died, Kernel, KernelGone, KernelInfo, KernelItem, KernelStartFailed
from cellhouse.kernel.inbox import Inbox
from cellhouse.messages import Message, RawText
from cellhouse.model import LimitHit

HTML = "text/html"
T = TypeVar("T")


class Interrupted(Exception):
    """What an interrupt is in a program."""


class FakeKernel:
    """The `Kernel` interface over a task that plays a program."""

    info = KernelInfo(implementation="fake")

    def __init__(self, content: Path, number: int) -> None:
        self.number = number
        self.codes: list[str] = []
        self.silent_codes: list[str] = []
        self.interrupts = 0
        self.closed = False
        self.release = asyncio.Event()
        self.interrupted = asyncio.Event()
        # Cleared: it takes requests and does not begin with them; `asked` tells that there is one.
        self.hesitate = asyncio.Event()
        self.hesitate.set()
        self.asked = asyncio.Event()
        self.die_at_next = False
        self.wrong: BaseException | None = None  # what a program of a test does wrong
        self._content = content
        self._inbox = Inbox(on_high=lambda: None, on_low=lambda: None)
        self._answers: asyncio.Queue[str] = asyncio.Queue()
        self._programs: asyncio.Queue[tuple[str, Mapping[str, Any]]] = asyncio.Queue()
        self._parent = ""
        self._count = 0
        self._sent = 0
        self._variables: dict[str, str] = {}
        self._task: asyncio.Task[None] | None = None
        self._dead = False

    async def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(
            self._play_all(), name=f"fake kernel {self.number}"
        )

    # what the session does

    async def receive(self, timeout: float | None = None) -> KernelItem | None:
        return await self._inbox.get(timeout)

    def wake(self) -> None:
        self._inbox.wake()

    def send(self, channel: str, msg_type: str, content: Mapping[str, Any], *, msg_id: str = "") -> str:
        if self._dead:
            raise KernelGone("the fake kernel has ended")
        if msg_type == "execute_request":
            self._programs.put_nowait((msg_id, content))
            self.asked.set()
        elif msg_type == "input_reply":
            self._answers.put_nowait(str(content["value"]))
        return msg_id

    def drain(self) -> None:
        return

    def lost_messages(self, *, take: bool = False) -> int:
        return 0

    def interrupt(self) -> None:
        self.interrupts += 1
        self.interrupted.set()

    def kill(self) -> None:
        self.die(signal=9)

    def cpu_seconds(self) -> float | None:
        return None

    @property
    def interrupting(self) -> bool:
        return False

    distrusted = ""

    async def close(self) -> None:
        self.closed = True
        self._dead = True
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
            await asyncio.wait([self._task])

    # what the kernel does

    def die(
        self,
        *,
        exit_status: int | None = None,
        signal: int | None = None,
        limit_hit: LimitHit | None = None,
    ) -> None:
        if self._dead:
            return
        self._dead = True
        if self._task is not None:
            self._task.cancel()
        self.put(Died(exit_status, signal, limit_hit=limit_hit))

    def put(self, item: KernelItem) -> None:
        self._inbox.put(item, 0)

    def say(
        self,
        msg_type: str,
        content: Mapping[str, Any],
        *,
        channel: Literal["iopub", "shell", "stdin"] = "iopub",
        parent: str | None = None,
    ) -> None:
        self._sent += 1
        self.put(
            Message(
                channel=channel,
                msg_type=msg_type,
                msg_id=f"k{self.number}-{self._sent}",
                parent_id=self._parent if parent is None else parent,
                content=content,
                metadata={},
                buffers=(),
                size=64,
            )
        )

    def print(self, text: str, *, name: str = "stdout", parent: str | None = None) -> None:
        self.say("stream", {"name": name, "text": text}, parent=parent)

    def raw(self, text: str) -> None:
        self.put(RawText("stdout", text.encode()))

    async def _play_all(self) -> None:
        while True:
            self._parent, content = await self._programs.get()
            await self.hesitate.wait()
            if self.die_at_next:
                self.die(signal=11)
            try:
                await self._play(content)
            except Exception as error:
                self.wrong = error
                raise

    async def _play(self, content: Mapping[str, Any]) -> None:
        code = str(content["code"])
        self.interrupted.clear()
        self.say("status", {"execution_state": "busy"})
        reply: dict[str, Any] = {"status": "ok"}
        if content["silent"]:
            self.silent_codes.append(code)
        else:
            self._count += 1
            self.codes.append(code)
            self.say("execute_input", {"code": code, "execution_count": self._count})
            try:
                for line in code.splitlines():
                    reply |= await self._act(*line.partition(" ")[::2])
                    if reply["status"] != "ok":
                        break
            except Interrupted:
                reply |= self._raise("KeyboardInterrupt", "")
        reply["execution_count"] = self._count
        if not reply.pop("silence", False):
            self.say("execute_reply", reply, channel="shell")
        if not reply.pop("no-idle", False):
            self.say("status", {"execution_state": "idle"})

    def _raise(self, name: str, value: str) -> dict[str, Any]:
        error = {"ename": name, "evalue": value, "traceback": [f"{name}: {value}"]}
        self.say("error", error)
        return {"status": "error", **error}

    async def _act(self, word: str, rest: str) -> dict[str, Any]:
        match word:
            case "print" | "err":
                self.print(f"{rest}\n", name="stdout" if word == "print" else "stderr")
            case "value":
                self._value({"text/plain": rest})
            case "raise":
                return self._raise(*rest.partition(" ")[::2])
            case "raise-none":
                return {"status": "error", "ename": "NoneType", "evalue": "None", "traceback": []}
            case "display":
                self.say("display_data", {"data": {HTML: rest}, "metadata": {}, "transient": {}})
            case "write":
                name, _, text = rest.partition(" ")
                (self._content / name).write_text(text)
            case "hold":
                await self._unless_interrupted(self.release.wait())
                self.release.clear()
            case "swallow":
                await self.interrupted.wait()
                self.interrupted.clear()
            case "stubborn":
                await asyncio.Event().wait()
            case "ask":
                self.say("input_request", {"prompt": rest, "password": False}, channel="stdin")
                self.print(f"got {await self._unless_interrupted(self._answers.get())!r}\n")
            case "exit":
                self.die(exit_status=int(rest))
                await asyncio.Event().wait()
            case "signal":
                self.die(signal=int(rest))
                await asyncio.Event().wait()
            case "vanish":
                self.die()
                await asyncio.Event().wait()
            case "abort":
                return {"status": "aborted"}
            case "silence" | "no-idle":
                return {word: True}
            case "set":
                name, _, text = rest.partition(" ")
                self._variables[name] = text
            case "get":
                if rest not in self._variables:
                    return self._raise("NameError", f"name {rest!r} is not defined")
                self._value({"text/plain": self._variables[rest]})
            case _:
                raise AssertionError(f"a fake kernel does not know {word!r}")
        return {}

    def _value(self, data: Mapping[str, str]) -> None:
        self.say(
            "execute_result", {"data": data, "metadata": {}, "execution_count": self._count, "transient": {}}
        )

    async def _unless_interrupted(self, what: Coroutine[Any, Any, T]) -> T:
        wanted, interrupted = asyncio.ensure_future(what), asyncio.ensure_future(self.interrupted.wait())
        try:
            await asyncio.wait([wanted, interrupted], return_when=asyncio.FIRST_COMPLETED)
            if interrupted.done():
                raise Interrupted
            return wanted.result()
        finally:
            wanted.cancel()
            interrupted.cancel()


class FakeLauncher:
    """Makes fake kernels, and remembers them. `failures` are raised instead, one each; `gate` holds every start,
    `make` makes others."""

    def __init__(self, content: Path) -> None:
        self.content = content
        self.made: list[FakeKernel] = []
        self.failures: list[KernelStartFailed] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.make: Callable[[], Kernel] | None = None
        self.asked = asyncio.Event()
        self.there = asyncio.Event()

    @property
    def kernel(self) -> FakeKernel:
        """The newest."""
        return self.made[-1]

    async def __call__(self) -> Kernel:
        self.asked.set()
        await self.gate.wait()
        if self.failures:
            raise self.failures.pop(0)
        if self.make is not None:
            return self.make()
        kernel = FakeKernel(self.content, len(self.made) + 1)
        await kernel.start()
        self.made.append(kernel)
        self.there.set()
        return kernel
