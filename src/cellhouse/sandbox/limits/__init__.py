"""What holds a sandbox to its limits: cgroups where they can be had, rlimits, a disk of its own, a watcher outside."""

from cellhouse.sandbox.limits.content_disk import discard_disk
from cellhouse.sandbox.limits.keeper import LimitKeeper
from cellhouse.sandbox.limits.leftovers import remove_limit_leftovers
from cellhouse.sandbox.limits.machine import Machine, fit
from cellhouse.sandbox.limits.require import require_limits

__all__ = ["LimitKeeper", "Machine", "discard_disk", "fit", "remove_limit_leftovers", "require_limits"]
