"""What libraries reach for under `get_ipython().kernel`, as far as they do."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

from IPython import __version__ as ipython_version

from .link import Link
from .origin import origin


class Kernel:
    """No kernel in the sense of ipykernel: the few attributes of one that widgets, plots and loggers use."""

    implementation = "cellhouse"
    protocol_version = "5.4"

    def __init__(self, shell: Any, link: Link, comm_manager: Any, raw_input: Callable[..., str]) -> None:
        self.shell = shell
        self.comm_manager = comm_manager
        self.session = types.SimpleNamespace(session="cellhouse", send=self._send, username="")
        self.iopub_socket = self.shell_stream = None
        self.language_info = language_info()
        self.banner = banner()
        self.raw_input = raw_input
        self.eventloop = None
        self._link = link

    @property
    def kernel_info(self) -> dict[str, Any]:
        return kernel_info()

    @property
    def user_ns(self) -> Any:
        return self.shell.user_ns

    @property
    def execution_count(self) -> int:
        return int(self.shell.execution_count)

    def get_parent(self, channel: str | None = None) -> dict[str, Any]:
        return parent_message()

    @property
    def _parent_header(self) -> dict[str, Any]:
        return parent_message()

    def set_parent(self, ident: Any, parent: Mapping[str, Any], channel: str = "shell") -> None:
        self.shell.set_parent(parent)

    def send_response(
        self, stream: Any, msg_type: str, content: Mapping[str, Any] | None = None, *_: Any, **__: Any
    ) -> None:
        self._link.send(msg_type, content or {}, parent=origin.get())

    def _send(
        self, stream: Any, msg_type: Any, content: Mapping[str, Any] | None = None, *_: Any, **__: Any
    ) -> None:
        """As jupyter_client's Session.send: a type and a content, or a whole message."""
        if isinstance(msg_type, Mapping):
            msg_type, content = msg_type["header"]["msg_type"], msg_type.get("content")
        self._link.send(str(msg_type), content or {}, parent=origin.get())

    def do_one_iteration(self) -> None:
        """There is one loop, and it runs between cells."""


class Running:
    """The request that runs; what libraries read of it, they read from here."""

    msg_id = ""
    content: Mapping[str, Any] = types.MappingProxyType({})


def parent_message() -> dict[str, Any]:
    """The request whose code runs in this context, as far as anyone needs it."""
    msg_id = origin.get()
    header = {
        "msg_id": msg_id,
        "msg_type": "execute_request",
        "session": "cellhouse",
        "username": "cellhouse",
        "version": "5.4",
    }
    return {
        "header": header,
        "msg_id": msg_id,
        "msg_type": "execute_request",
        "parent_header": {},
        "metadata": {},
        "content": dict(Running.content) if msg_id == Running.msg_id else {},
        "buffers": [],
    }


def kernel_info() -> dict[str, Any]:
    """kernel_info_reply."""
    return {
        "status": "ok",
        "protocol_version": "5.4",
        "implementation": "cellhouse",
        "implementation_version": ipython_version,
        "language_info": language_info(),
        "banner": banner(),
        "help_links": [],
    }


def banner() -> str:
    return f"Python {sys.version.split()[0]}, IPython {ipython_version}"


def language_info() -> dict[str, Any]:
    return {
        "name": "python",
        "version": sys.version.split()[0],
        "mimetype": "text/x-python",
        "codemirror_mode": {"name": "ipython", "version": sys.version_info[0]},
        "pygments_lexer": "ipython3",
        "nbconvert_exporter": "python",
        "file_extension": ".py",
    }
