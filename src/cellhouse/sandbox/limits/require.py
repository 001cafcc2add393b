"""A limit that is asked for by name is held, or the call fails."""

from collections.abc import Iterable
from typing import Final

from cellhouse.model import CallReason, Enforcement, FailedPrecondition, LimitName, LimitReport, WallLimits

REMEDIES: Final[dict[LimitName, str]] = {
    "memory": "run the service as root, or in a cgroup that is delegated to it with the memory controller",
    "cpus": "run the service as root, or in a cgroup that is delegated to it with the cpu controller",
    "processes": "run the service as root, or in a cgroup that is delegated to it with the pids controller",
    "content": "run the service as root where loop devices and mkfs.ext4 can be had",
    "openFiles": "ask for isolation 'bubblewrap'",
    "fileSize": "ask for isolation 'bubblewrap'",
}


def require_limits(limits: WallLimits, reports: Iterable[LimitReport]) -> None:
    """FailedPrecondition where one that was named is not held, or not exactly where it has to be."""
    held = {report.name: report for report in reports}
    for name in sorted(limits.named):
        report = held.get(
            name, LimitReport(name=name, enforcement=Enforcement.NONE, detail="these walls hold none")
        )
        if report.enforcement is Enforcement.NONE:
            lacks = "held"
        elif name in limits.exact and report.enforcement is not Enforcement.EXACT:
            lacks = "held exactly"
        else:
            continue
        raise FailedPrecondition(
            f"limits.{name} can't be {lacks} here: {report.detail}. To have it, {REMEDIES[name]}; or do not name it",
            reason=CallReason.LIMIT_UNAVAILABLE,
            metadata={"limit": name, "enforcement": report.enforcement.value},
        )
