"""A domain of a session's own: those beside it, and what they were forked from, can't be signalled or looked into.

Sessions of one sandbox share a uid, so nothing else keeps them from each other. What a session starts is in its domain:
its own children it signals and traces as ever. No file is closed to anybody by it.
"""

from __future__ import annotations

import ctypes
import os

LEAST_ABI = 6  # the first with scopes (Linux 6.12)
SCOPE_ABSTRACT_UNIX_SOCKET = 1
SCOPE_SIGNAL = 2

PR_SET_NO_NEW_PRIVS = 38
CREATE_RULESET_VERSION = 1
SYS_LANDLOCK_CREATE_RULESET = 444  # the same on every architecture
SYS_LANDLOCK_RESTRICT_SELF = 446


class RulesetAttr(ctypes.Structure):
    _fields_ = [
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    ]


def abi() -> int:
    """The version of Landlock that this kernel has; 0 where it has none, or it is switched off."""
    version: int = ctypes.CDLL(None, use_errno=True).syscall(
        ctypes.c_long(SYS_LANDLOCK_CREATE_RULESET),
        None,
        ctypes.c_size_t(0),
        ctypes.c_uint32(CREATE_RULESET_VERSION),
    )
    return max(0, version)


def enter() -> bool:
    """Put the calling thread, and all that it starts from here on, into a domain of its own. Whether that was had.

    To be called while the process has one thread. There is no way out of it.
    """
    if abi() < LEAST_ABI:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(
        PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)
    ):
        return False
    scopes = RulesetAttr(scoped=SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL)
    ruleset = libc.syscall(
        ctypes.c_long(SYS_LANDLOCK_CREATE_RULESET),
        ctypes.byref(scopes),
        ctypes.c_size_t(ctypes.sizeof(scopes)),
        ctypes.c_uint32(0),
    )
    if ruleset < 0:
        return False
    try:
        entered = libc.syscall(
            ctypes.c_long(SYS_LANDLOCK_RESTRICT_SELF), ctypes.c_int(ruleset), ctypes.c_uint32(0)
        )
    finally:
        os.close(ruleset)
    return bool(entered == 0)
