"""What stands on the host for a probe to reach: files, a port, an abstract socket, shared memory, a process."""

import contextlib
import ctypes
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

IPC_PRIVATE: Final = 0
IPC_RMID: Final = 0
SHARED_BYTES: Final = 4096
END_SECONDS: Final = 5.0

# Ends with whoever started it: then there is nothing more to read.
_VICTIM: Final = "import sys; print('up', flush=True); sys.stdin.read()"


@contextlib.contextmanager
def standing(directory: Path) -> Iterator[dict[str, Any]]:
    """Put them up; what they are called, as the `ARGS` of the programs. Blocks for some milliseconds."""
    needle = f"cellhouse-doctor-{secrets.token_hex(8)}"
    secret = directory / "secret"
    secret.write_text("precious", encoding="ascii")
    with contextlib.ExitStack() as stack:
        port = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=64))
        local = stack.enter_context(socket.socket(socket.AF_UNIX))
        local.bind(f"\0{needle}")
        local.listen(64)
        yield {
            "secret": str(secret),
            "plant": str(directory / "planted"),
            "needle": needle,
            "victim": stack.enter_context(_victim(needle)),
            "port": port.getsockname()[1],
            "abstract": needle,
            "users": os.readlink("/proc/self/ns/user"),
            "shared": stack.enter_context(_shared_memory()),
        }


@contextlib.contextmanager
def _victim(needle: str) -> Iterator[int]:
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _VICTIM, needle],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={},
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process.pid
        finally:
            process.kill()
            process.wait(END_SECONDS)


@contextlib.contextmanager
def _shared_memory() -> Iterator[int]:
    """A segment's id; -1 where this kernel has none. It goes with this process, however that ends.

    Removed at once: Linux lets those who know its id attach it for as long as somebody has it attached (shmctl(2)).
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmat.restype = ctypes.c_void_p
    libc.shmdt.argtypes = [ctypes.c_void_p]
    number = libc.shmget(IPC_PRIVATE, ctypes.c_size_t(SHARED_BYTES), 0o600)
    place = libc.shmat(number, None, 0) if number >= 0 else None
    if number >= 0:
        libc.shmctl(number, IPC_RMID, None)
    try:
        yield number
    finally:
        if place is not None and place != ctypes.c_void_p(-1).value:
            libc.shmdt(place)
