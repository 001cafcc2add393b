"""Whether the kernel of the host has what keeps sessions of one sandbox from each other; `inside` uses it."""

import ctypes
from typing import Final

LEAST_ABI: Final = 6  # the first with scopes for signals and abstract sockets (Linux 6.12)
SYS_LANDLOCK_CREATE_RULESET: Final = 444  # the same on every architecture
CREATE_RULESET_VERSION: Final = 1

_LIBC = ctypes.CDLL(None, use_errno=True)


def landlock_abi() -> int:
    """The version of Landlock here; 0 where the kernel has none, or it is switched off."""
    version = _LIBC.syscall(
        ctypes.c_long(SYS_LANDLOCK_CREATE_RULESET),
        None,
        ctypes.c_size_t(0),
        ctypes.c_uint32(CREATE_RULESET_VERSION),
    )
    return max(0, int(version))
