"""Memory in which a native kernel has what was printed and has not gone down its pipes yet; it outlives the kernel."""

import fcntl
import os
import struct
from typing import Final

REGION_BYTES: Final = 1 << 20
"""For each of stdout and stderr. Only what was ever used of it costs memory: the kernel's, which touches it first."""
HEADER: Final = struct.Struct("<QQQ")
TEXT_AT: Final = 64
_ADD_SEALS, _SEALS = 1033, 0x1 | 0x2 | 0x4  # F_ADD_SEALS: no further seals, no shrinking, no growing


class PrintedMemory:
    """An anonymous file that the kernel maps; it is looked into when the kernel has ended.

    What the kernel writes there: from `TEXT_AT` on the text, zeros behind it; in front the number of the piece that it
    sent last or was sending, where in the region that starts and how long it is. A piece in a pipe has a mark with its number
    before it: how much came behind that mark is how much of it was sent. All of it is the kernel's to forge, and says
    nothing but what it might as well have printed.
    """

    def __init__(self) -> None:
        """Raises OSError."""
        self.fd = os.memfd_create("cellhouse-printed", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.fd, 2 * REGION_BYTES)
            fcntl.fcntl(self.fd, _ADD_SEALS, _SEALS)  # else a read of ours could find it gone
        except BaseException:
            self.close()
            raise

    def left(self, stream: int, seen: int, came: int) -> bytes:
        """What was printed to the stream (0: stdout, 1: stderr) and never sent.

        `seen` is the number of the last mark of a piece, `came` how many bytes of text came behind it.
        """
        if self.fd < 0:
            return b""
        region = os.pread(self.fd, REGION_BYTES, stream * REGION_BYTES)
        number, start, length = HEADER.unpack_from(region)
        text = region[TEXT_AT:].rstrip(b"\0")
        sent = 0 if not start else start - TEXT_AT + (min(length, came) if number == seen else 0)
        return text[max(0, sent) :]

    def close(self) -> None:
        """May be called twice."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
