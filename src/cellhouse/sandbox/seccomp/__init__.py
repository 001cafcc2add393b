"""A filter of system calls: what the kernel of the host is not to be asked from inside."""

from cellhouse.sandbox.seccomp.filter import Filter, filter_for, this_filter
from cellhouse.sandbox.seccomp.rules import RULES, Rule
from cellhouse.sandbox.seccomp.syscalls import MACHINES, Machine

__all__ = ["MACHINES", "RULES", "Filter", "Machine", "Rule", "filter_for", "this_filter"]
