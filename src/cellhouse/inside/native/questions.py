"""input() and getpass(): a line from whoever runs the code."""

from __future__ import annotations

import _thread
import builtins
import getpass
import select
from typing import Any

from IPython.core.error import StdinNotImplementedError

from .link import Link
from .origin import origin
from .pipes import wait

END_OF_INPUT = "\x04"


class Questions:
    """Asks over the link and waits for the answer; what else comes meanwhile waits its turn."""

    def __init__(self, link: Link) -> None:
        self.allowed = False
        self._link = link

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
        link = self._link
        if _thread.get_ident() != link.interrupts.main:
            raise RuntimeError("input can be asked for in the main thread only")
        content = {"prompt": prompt, "password": password}
        link.send("input_request", content, parent=origin.get(), channel="stdin")
        with link.interrupts:
            value = self._answer()
        if value == END_OF_INPUT:
            raise EOFError("no input was given")
        return value

    def _answer(self) -> str:
        link = self._link
        seen = 0
        while True:
            for at in range(seen, len(link.inbox)):
                header, content, _ = link.inbox[at]
                if header.get("type") == "input_reply":
                    del link.inbox[at]
                    return str(content.get("value", ""))
            seen = len(link.inbox)
            if not wait(link.sock.fileno(), select.POLLIN, link.interrupts):
                return ""  # the interrupt is raised when this is left
            link.receive()
