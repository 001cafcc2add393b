"""A domain of a session's own: those beside it, and what they were forked from, can't be signalled or looked into.

Sessions of one sandbox share a uid, so nothing else keeps them from each other. What a session starts is in its domain:
its own children it signals and traces as ever. Of files, only those of /proc are closed to it, and for writing only: what
stands there under another's number (oom_score_adj, coredump_filter, clear_refs) is guarded by nothing but the uid. Its own
stay open. What it starts has numbers that no rule can name in advance, and so can't write there at all.
"""

from __future__ import annotations

import ctypes
import os

LEAST_ABI = 6  # the first with scopes (Linux 6.12)
SCOPE_ABSTRACT_UNIX_SOCKET = 1
SCOPE_SIGNAL = 2
WRITE_FILE = 1 << 1
REFER = 1 << 13
"""Links and renames from one directory to another: denied wherever files are spoken of, unless it is granted."""
RULE_PATH_BENEATH = 1

PR_SET_NO_NEW_PRIVS = 38
CREATE_RULESET_VERSION = 1
SYS_LANDLOCK_CREATE_RULESET = 444  # the same on every architecture
SYS_LANDLOCK_ADD_RULE = 445
SYS_LANDLOCK_RESTRICT_SELF = 446


class RulesetAttr(ctypes.Structure):
    _fields_ = [
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    ]


class PathBeneathAttr(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = [("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32)]


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
    domain = RulesetAttr(
        handled_access_fs=WRITE_FILE | REFER, scoped=SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL
    )
    ruleset = libc.syscall(
        ctypes.c_long(SYS_LANDLOCK_CREATE_RULESET),
        ctypes.byref(domain),
        ctypes.c_size_t(ctypes.sizeof(domain)),
        ctypes.c_uint32(0),
    )
    if ruleset < 0:
        return False
    own = -1
    try:
        # A rule is of the file itself and not of its name. As long as this is open, /proc has the same one under our number.
        own = os.open("/proc/self/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        granted = _grant(libc, ruleset, own, WRITE_FILE) and _grant_beside_proc(libc, ruleset)
        entered = granted and _restrict(libc, ruleset)
    except OSError:
        entered = False
    finally:
        os.close(ruleset)
        if own >= 0 and not entered:
            os.close(own)
    return entered


def _grant_beside_proc(libc: ctypes.CDLL, ruleset: int) -> bool:
    """Writing beneath everything that stands in the root but /proc, and moving things anywhere."""
    root = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with os.scandir(root) as entries:
            names = [
                entry.name
                for entry in entries
                if entry.name != "proc" and entry.is_dir(follow_symlinks=False)
            ]
        for name in names:
            directory = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root)
            try:
                if not _grant(libc, ruleset, directory, WRITE_FILE):
                    return False
            finally:
                os.close(directory)
        return _grant(libc, ruleset, root, REFER)
    finally:
        os.close(root)


def _grant(libc: ctypes.CDLL, ruleset: int, directory: int, access: int) -> bool:
    rule = PathBeneathAttr(allowed_access=access, parent_fd=directory)
    granted: int = libc.syscall(
        ctypes.c_long(SYS_LANDLOCK_ADD_RULE),
        ctypes.c_int(ruleset),
        ctypes.c_int(RULE_PATH_BENEATH),
        ctypes.byref(rule),
        ctypes.c_uint32(0),
    )
    return granted == 0


def _restrict(libc: ctypes.CDLL, ruleset: int) -> bool:
    entered: int = libc.syscall(
        ctypes.c_long(SYS_LANDLOCK_RESTRICT_SELF), ctypes.c_int(ruleset), ctypes.c_uint32(0)
    )
    return entered == 0
