"""input() and getpass(): a line from whoever runs the code."""

from __future__ import annotations

import builtins
import getpass
from collections.abc import Callable
from typing import Any

from IPython.core.error import StdinNotImplementedError

from .link import Link
from .origin import origin
from .own import select
from .pipes import wait

END_OF_INPUT = "\x04"


class Questions:
    """Asks over the link and waits for the answer; what else comes meanwhile waits its turn."""

    def __init__(self, link: Link, running: Callable[[], str]) -> None:
        """`running` tells the execution that runs: nobody answers another one's questions."""
        self.allowed = False
        self._link = link
        self._running = running

    def install(self) -> None:
        builtins.input = self.input
        getpass.getpass = self.getpass

    def input(self, prompt: object = "", /) -> str:
        """Like the built-in one."""
        return self._ask(str(prompt), password=False)

    def getpass(self, prompt: str = "Password: ", stream: Any = None, **_: Any) -> str:
        """Like getpass.getpass: what is typed is not shown."""
        return self._ask(str(prompt), password=True)

    def _ask(self, prompt: str, *, password: bool) -> str:
        if not self.allowed:
            raise StdinNotImplementedError(
                "input was asked for, but this execution does not allow it: run it with allowStdin, or give the code "
                "its values in another way"
            )
        if origin.get() != self._running():
            raise StdinNotImplementedError(
                "input was asked for by work in the background whose execution has ended: nobody is there to answer"
            )
        link = self._link
        link.answers.clear()  # of a question that was interrupted
        content = {"prompt": prompt, "password": password}
        link.send("input_request", content, parent=origin.get(), channel="stdin")
        with link.interrupts:
            value = self._answer()
        if value == END_OF_INPUT:
            raise EOFError("no input was given")
        return value

    def _answer(self) -> str:
        link = self._link
        while not link.answers:
            if not wait(link.sock.fileno(), select.POLLIN, link.interrupts, once=True):
                if link.interrupts.cut_short:
                    return ""  # the interrupt is raised when this is left
                continue  # another thread may have taken it in
            link.receive()
        return link.answers.popleft()
