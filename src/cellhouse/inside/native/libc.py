"""What C code has printed, which the C library keeps for itself when it writes to a pipe."""

from __future__ import annotations

import ctypes
from collections.abc import Callable


def _flusher() -> Callable[[], None]:
    try:
        library = ctypes.CDLL(None)
        stdout = ctypes.c_void_p.in_dll(library, "stdout")
        flush = library.fflush
    except (OSError, ValueError, AttributeError):  # another C library
        return lambda: None
    flush.argtypes, flush.restype = [ctypes.c_void_p], ctypes.c_int

    def flush_stdout() -> None:
        flush(stdout)

    return flush_stdout


flush_c_output = _flusher()
"""Hand it on."""
