"""Comms: what widgets talk through; Jupyter messaging 5.4, "Custom Messages"."""

from __future__ import annotations

import importlib.util
import sys
import types
from typing import Any

from .link import Link
from .origin import origin
from .own import os


class Comms:
    """Puts our comm in the place of the `comm` package's, where that is installed."""

    def __init__(self) -> None:
        self.link: Link | None = None
        self.manager: Any = None

    def install(self) -> None:
        """May be called twice."""
        if self.manager is not None:
            return
        try:
            import comm
            from comm.base_comm import BaseComm, CommManager
        except ImportError:
            return
        comms = self
        self.manager = CommManager()

        class Comm(BaseComm):
            """No `kernel` attribute: ipywidgets would take one that is None for the sign of a closed comm."""

            def publish_msg(
                self,
                msg_type: str,
                data: Any = None,
                metadata: Any = None,
                buffers: Any = None,
                **keys: Any,
            ) -> None:
                link = comms.link
                if link is None or link.pid != os.getpid():
                    return
                content = {"data": data or {}, "comm_id": self.comm_id, **keys}
                views = [memoryview(buffer).cast("B") for buffer in buffers or ()]
                link.send(msg_type, content, parent=origin.get(), metadata=metadata or None, buffers=views)

        comm.create_comm = Comm
        comm.get_comm_manager = lambda: comms.manager
        alias = types.ModuleType("ipykernel.comm")
        alias.Comm = Comm  # type: ignore[attr-defined]
        alias.CommManager = CommManager  # type: ignore[attr-defined]
        spec = importlib.util.find_spec("ipykernel")
        alias.__path__ = [  # its own modules are found by whoever wants them
            os.path.join(place, "comm") for place in (spec and spec.submodule_search_locations) or ()
        ]
        # Where ipykernel is installed, libraries import this by name and would get one that has no kernel.
        sys.modules.setdefault("ipykernel.comm", alias)

    def handle(self, msg_type: str, content: dict[str, Any], buffers: list[bytes]) -> None:
        """A comm_open, comm_msg or comm_close of a front end."""
        if self.manager is not None:
            message = {
                "header": {"msg_type": msg_type},
                "content": content,
                "buffers": buffers,
                "metadata": {},
            }
            getattr(self.manager, msg_type)(None, None, message)

    def info(self, target: str | None) -> dict[str, Any]:
        """comm_info_reply."""
        comms = self.manager.comms if self.manager is not None else {}
        return {
            "status": "ok",
            "comms": {
                name: {"target_name": found.target_name}
                for name, found in list(comms.items())
                if target is None or found.target_name == target
            },
        }
