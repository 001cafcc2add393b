"""The words between the service and the supervisor inside, which is not believed: its uid is that of hostile code."""

import json
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cellhouse.model import InvalidArgument
from cellhouse.sandbox.process import ProcessExit

MESSAGE_BYTES: Final = 64 * 1024  # one datagram, both ways
SPAWN_DESCRIPTORS: Final = (
    8  # of one request to start a process: its output, its errors, and what it is handed
)
ERROR_CHARS: Final = 4096  # of a supervisor's error that are told on
MAX_SECONDS: Final = 1e9
MAX_BYTES: Final = 1 << 50
TOKEN: Final = (
    "CELLHOUSE_PROCESS"  # marks all descendants of one spawned process; inside/init.py looks for it
)


class ProtocolError(Exception):
    """The supervisor said something it would never say: it is no longer ours."""


@dataclass(frozen=True, slots=True)
class Ready:
    pass


@dataclass(frozen=True, slots=True)
class Spawned:
    id: str


@dataclass(frozen=True, slots=True)
class Failed:
    id: str
    error: str


@dataclass(frozen=True, slots=True)
class Exited:
    id: str
    how: ProcessExit


Answer = Ready | Spawned | Failed | Exited


def encode_spawn(process_id: str, argv: Sequence[str], env: Mapping[str, str], cwd: str) -> bytes:
    """The request to start a process. InvalidArgument where it can't be started as asked, or is too large to send."""
    if not argv or not argv[0]:
        raise InvalidArgument.of_field("argv", "it is empty; the first entry names the program")
    for field, texts in (("argv", argv), ("env", [*env, *env.values()]), ("cwd", [cwd])):
        if any("\0" in text for text in texts):
            raise InvalidArgument.of_field(field, "it holds a NUL character, which no program can be given")
    for name in env:
        if not name or "=" in name:
            raise InvalidArgument.of_field(
                "env", f"{name!r} is no name of a variable: it is empty or holds '='"
            )
    request = {"type": "spawn", "id": process_id, "argv": list(argv), "env": dict(env), "cwd": cwd}
    data = json.dumps(request, separators=(",", ":")).encode()
    if len(data) > MESSAGE_BYTES:
        raise InvalidArgument.of_field(
            "argv, env",
            f"together they take {len(data)} bytes, of which {MESSAGE_BYTES} can be handed over; "
            "write what is large into a file and name the file",
        )
    return data


def encode_adopt(process_id: str, pid: int) -> bytes:
    """The request to answer for an orphan, by its number inside, as for what was spawned."""
    return json.dumps({"type": "adopt", "id": process_id, "pid": pid}).encode()


def decode(data: bytes) -> Answer:
    """What the supervisor says. ProtocolError for anything that it would never say."""
    try:
        message: Any = json.loads(data)
    except (ValueError, RecursionError):
        raise ProtocolError(f"a message of {len(data)} bytes that is not JSON") from None
    if not isinstance(message, dict):
        raise ProtocolError("a message that is not an object")
    match message.get("type"):
        case "ready":
            return Ready()
        case "spawned":
            return Spawned(_text(message, "id", 64))
        case "failed":
            return Failed(_text(message, "id", 64), _text(message, "error", 2 * ERROR_CHARS)[:ERROR_CHARS])
        case "exited":
            return Exited(_text(message, "id", 64), _how(message))
        case _:
            raise ProtocolError("a message of an unknown type")


def _text(message: Mapping[str, Any], key: str, limit: int) -> str:
    value = message.get(key)
    if not isinstance(value, str) or len(value) > limit:
        raise ProtocolError(f"a message whose {key!r} is not a text of at most {limit} characters")
    # Lone surrogates would be an error of whoever writes the text somewhere.
    return value.encode("utf-8", "backslashreplace").decode()


def _integer(message: Mapping[str, Any], key: str, low: int, high: int) -> int:
    value = message.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ProtocolError(f"a message whose {key!r} is not a number from {low} to {high}")
    return value


def _how(message: Mapping[str, Any]) -> ProcessExit:
    seconds = message.get("cpuSeconds")
    if not isinstance(seconds, int | float) or not 0 <= seconds <= MAX_SECONDS:
        raise ProtocolError("a message whose 'cpuSeconds' is not a number of seconds")
    peak = _integer(message, "peakMemoryBytes", 0, MAX_BYTES)
    if ("signal" in message) == ("status" in message):
        raise ProtocolError("an end with both or neither of a status and a signal")
    if "signal" in message:
        number = _integer(message, "signal", 1, signal.NSIG - 1)
        return ProcessExit(signal=number, cpu_seconds=float(seconds), peak_memory_bytes=peak)
    status = _integer(message, "status", 0, 255)
    return ProcessExit(exit_status=status, cpu_seconds=float(seconds), peak_memory_bytes=peak)
