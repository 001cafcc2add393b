"""The filter for this machine, ready to be handed to whoever puts it in force."""

import fcntl
import functools
import hashlib
import os
import platform
from dataclasses import dataclass
from typing import Final

from cellhouse.sandbox.seccomp.assembler import INSTRUCTION, assemble
from cellhouse.sandbox.seccomp.syscalls import MACHINES

SEALS: Final = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


@dataclass(frozen=True, slots=True)
class Filter:
    """A program of classic BPF: an array of struct sock_filter for the architecture of one machine."""

    machine: str
    program: bytes

    @property
    def digest(self) -> str:
        """SHA-256 of the program, in hexadecimal digits."""
        return hashlib.sha256(self.program).hexdigest()

    @property
    def instructions(self) -> int:
        return len(self.program) // INSTRUCTION.size

    def open(self) -> int:
        """A descriptor of an anonymous file that holds the program, at its beginning; sealed, so nobody can change it."""
        descriptor = os.memfd_create("seccomp", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.write(descriptor, self.program)
            os.lseek(descriptor, 0, os.SEEK_SET)
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEALS)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor


@functools.cache
def filter_for(machine: str) -> Filter | None:
    """The filter for a machine as uname names it; None where there is no table of its calls."""
    known = MACHINES.get(machine)
    return None if known is None else Filter(machine, assemble(known))


def this_filter() -> Filter | None:
    """The filter for this machine, None where none can be made."""
    return filter_for(platform.machine())
