"""What libraries reach for under `get_ipython().kernel`, as far as they do."""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping
from typing import Any

from .link import Link
from .origin import origin


class Kernel:
    """No kernel in the sense of ipykernel: the few attributes of one that widgets, plots and loggers use."""

    implementation = "cellhouse"
    protocol_version = "5.4"

    def __init__(self, shell: Any, link: Link, comm_manager: Any) -> None:
        self.shell = shell
        self.comm_manager = comm_manager
        self.session = types.SimpleNamespace(session="cellhouse", send=self._send, username="")
        self.iopub_socket = self.shell_stream = None
        self.language_info = language_info()
        self.eventloop = None
        self._link = link

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


def parent_message() -> dict[str, Any]:
    """The request that runs, as far as anyone needs it: its id."""
    header = {"msg_id": origin.get(), "msg_type": "execute_request", "session": "cellhouse", "username": ""}
    return {"header": header, "msg_id": origin.get(), "parent_header": {}, "metadata": {}, "content": {}}


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
