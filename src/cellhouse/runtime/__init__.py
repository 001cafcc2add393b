"""A runtime: a sandbox and its sessions, with kernel, capture and journal wired together."""

from cellhouse.runtime.handle import ExecutionHandle
from cellhouse.runtime.host import RuntimeHost, Submitted
from cellhouse.runtime.in_process import InProcessHost
from cellhouse.runtime.outcome import Ending
from cellhouse.runtime.outputs import OutputData
from cellhouse.runtime.session import Session
from cellhouse.runtime.settings import Settings
from cellhouse.runtime.store import RuntimeStore
from cellhouse.runtime.transfer import ContentFile
from cellhouse.runtime.walls import sandbox_spec

__all__ = [
    "ContentFile",
    "Ending",
    "ExecutionHandle",
    "InProcessHost",
    "OutputData",
    "RuntimeHost",
    "RuntimeStore",
    "Session",
    "Settings",
    "Submitted",
    "sandbox_spec",
]
