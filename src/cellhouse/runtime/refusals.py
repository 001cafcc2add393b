"""Refusals that a house of any kind gives in the same words."""

from cellhouse.model import AlreadyExists, CallReason, ResourceExhausted, RuntimeName, Unavailable


def id_taken(runtime: str) -> AlreadyExists:
    """By one that lives."""
    return AlreadyExists(f"{RuntimeName(runtime)} exists; use another id", reason=CallReason.ID_TAKEN)


def id_kept(runtime: str) -> AlreadyExists:
    """By one that is on record, be it over."""
    return AlreadyExists(
        f"runtime {runtime!r} exists; use another id, or delete it first", reason=CallReason.ID_TAKEN
    )


def too_many_runtimes(limit: int) -> ResourceExhausted:
    return ResourceExhausted(
        f"there are {limit} runtimes, which is the limit (max_runtimes); delete one",
        reason=CallReason.QUOTA_EXCEEDED,
        limit="max_runtimes",
    )


def too_many_executions(limit: int) -> ResourceExhausted:
    return ResourceExhausted(
        f"{limit} executions run or wait, which is the limit (max_executions); wait for some to finish",
        reason=CallReason.QUOTA_EXCEEDED,
        limit="max_executions",
    )


def house_drains() -> Unavailable:
    return Unavailable(
        "this house takes nothing new: it is about to close; try again when the next one is open",
        reason=CallReason.SHUTTING_DOWN,
    )


def house_closed() -> Unavailable:
    return Unavailable("this house is closed, or about to be", reason=CallReason.SHUTTING_DOWN)
