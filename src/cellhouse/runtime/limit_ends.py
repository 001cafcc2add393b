"""Ends by a limit of the runtime: what is said of them, and with which figures."""

from typing import Final

from cellhouse.model import EndReason, ErrorInfo, LimitHit, Outcome

_REASONS: Final[dict[str, EndReason]] = {
    "memory": EndReason.MEMORY,
    "processes": EndReason.PROCESSES,
    "content": EndReason.DISK,
}


def outcome_of(hit: LimitHit) -> Outcome:
    return Outcome.OUT_OF_MEMORY if hit.name == "memory" else Outcome.RESOURCE_KILLED


def error_name(hit: LimitHit) -> str:
    return "OutOfMemory" if hit.name == "memory" else "ResourceKilled"


def info_of(hit: LimitHit) -> ErrorInfo:
    """The limit and the peak, with their unit in the key."""
    unit = "Processes" if hit.name == "processes" else "Bytes"
    metadata = {f"limit{unit}": str(hit.limit)}
    if hit.peak is not None:
        metadata[f"peak{unit}"] = str(hit.peak)
    return ErrorInfo(reason=str(_REASONS[hit.name]), metadata=metadata)


def told(hit: LimitHit) -> str:
    """One clause that says which limit it was."""
    peak = f"; it had come to {hit.peak}" if hit.peak is not None and hit.peak > hit.limit else ""
    detail = f"; {hit.detail}" if hit.detail else ""
    match hit.name:
        case "memory" if hit.walls:
            what = f"the runtime's memory limit of {hit.limit} bytes, and the runtime itself with it: what was ended first was its supervisor"
        case "memory":
            what = f"the runtime's memory limit of {hit.limit} bytes, and this process used most of it"
        case "processes":
            what = f"the runtime's limit of {hit.limit} processes (threads count), and this session had most of them"
        case _:
            what = f"the limit of {hit.limit} bytes of /content, and this session had written most of late"
    return f"the kernel's process was ended by {what}{peak}{detail}"
