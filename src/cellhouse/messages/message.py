"""One message of a kernel, and one piece of text from its process's own descriptors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Channel = Literal["iopub", "shell", "control", "stdin"]


@dataclass(slots=True)  # nobody changes one; frozen, its making would take four times as long
class Message:
    """A message as the Jupyter messaging protocol 5.4 shapes it, already authenticated and bounded.

    `content` is always a mapping; a string value in a large message may be a `LongText`. Where the
    content could not be read, it is empty and `defect` says why.
    """

    channel: Channel
    msg_type: str
    msg_id: str
    parent_id: str
    content: Mapping[str, Any]
    metadata: Mapping[str, Any]
    buffers: Sequence[memoryview]
    size: int
    defect: str = ""


@dataclass(frozen=True, slots=True)
class RawText:
    """Bytes read from descriptor 1 or 2 of a kernel's process: C code, children, faulthandler.

    `parent_id`: the execute request it is known to belong to, "" where nobody can tell. `printed`: it comes from a
    kernel that writes all of its text there, so that a descriptor is nothing worth a mark.
    """

    name: Literal["stdout", "stderr"]
    data: bytes
    parent_id: str = ""
    printed: bool = False
