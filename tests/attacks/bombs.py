"""What code does to use up everything there is, as data: each stops by itself, at several times what it is allowed.

Each is code for a cell, and a program where there are no walls. It says `lit` when it begins, `reached` where it got all
that it wanted, and `refused` with an errno where it was told so. `PLACE` is the directory that it fills.
"""

from dataclasses import dataclass
from typing import Final

from cellhouse.model import MIB, EndReason, LimitName, Outcome, RuntimeLimits

MEMORY, CONTENT, PROCESSES, OPEN_FILES = 192 * MIB, 64 * MIB, 64, 256
LIMITS: Final = RuntimeLimits(memory=MEMORY, content=CONTENT, processes=PROCESSES, open_files=OPEN_FILES)

PRELUDE: Final = """
import errno, os, signal, socket, sys, threading
PLACE, WALLED = {place!r}, {walled}
print("lit", flush=True)
def refused(error):
    print("refused", errno.errorcode[error.errno], flush=True)
"""


@dataclass(frozen=True, slots=True)
class Bomb:
    """`limit` is what stops it. Where that is held exactly, code is refused with one of `refusals`, or ended: `ended` says
    how. Where it is only watched, `watched` is how it is ended, None where nothing stops it.
    What it has said by `until`, it has done what may be done to others."""

    name: str
    limit: LimitName
    code: str
    refusals: tuple[str, ...] = ()
    ended: tuple[Outcome, EndReason] | None = None
    watched: tuple[Outcome, EndReason] | None = None
    place: str = "/content"
    until: str = "lit"
    quick: bool = False

    def cell(self, place: str, *, walled: bool = True) -> str:
        return PRELUDE.format(place=place, walled=walled) + self.code


OUT_OF_MEMORY: Final = (Outcome.OUT_OF_MEMORY, EndReason.MEMORY)
TOO_MANY: Final = (Outcome.RESOURCE_KILLED, EndReason.PROCESSES)
FULL: Final = (Outcome.RESOURCE_KILLED, EndReason.DISK)

_WAIT: Final = "threading.Event().wait(20) if WALLED else None"
"""For a watcher who looks four times a second."""
_FILL: Final = f"""
data = os.urandom(1 << 20)
try:
    for number in range({3 * MEMORY // MIB // 16}):
        with open(f"{{PLACE}}/big-{{number}}", "wb", buffering=0) as file:
            for _ in range(16):
                file.write(data)
except OSError as error:
    refused(error)
else:
    print("reached")
    {_WAIT}
"""
_FILES: Final = """
try:
    for number in range(COUNT):
        os.close(os.open(f"{PLACE}/empty-{number}", os.O_CREAT | os.O_WRONLY))
except OSError as error:
    refused(error)
else:
    print("reached")
"""

BOMBS: Final = (
    Bomb(
        "forks",
        "processes",
        f"""
try:
    for _ in range({3 * PROCESSES}):
        if os.fork() == 0:
            while True:
                signal.pause()
except BlockingIOError as error:
    refused(error)
else:
    print("reached")
    {_WAIT}
""",
        refusals=("EAGAIN",),
        watched=TOO_MANY,
        quick=True,
    ),
    Bomb(
        "threads",
        "processes",
        f"""
stop = threading.Event()
threads = [threading.Thread(target=stop.wait, args=(20,)) for _ in range({3 * PROCESSES})]
try:
    for thread in threads:
        thread.start()
except RuntimeError:
    print("refused EAGAIN")
else:
    print("reached")
    {_WAIT}
stop.set()
""",
        refusals=("EAGAIN",),
        watched=TOO_MANY,
    ),
    Bomb(
        "memory",
        "memory",
        f"""
held = []
for _ in range({3 * MEMORY // MIB}):
    held.append(b"x" * (1 << 20))
print("reached")
""",
        ended=OUT_OF_MEMORY,
        watched=OUT_OF_MEMORY,
        quick=True,
    ),
    Bomb(
        # Memory that is no process's, and that only its descriptors keep.
        "memfd",
        "memory",
        f"""
for _ in range(16):
    fd = os.memfd_create("bomb")
    for _ in range({3 * MEMORY // MIB // 16}):
        os.write(fd, b"x" * (1 << 20))
print("reached")
""",
        ended=OUT_OF_MEMORY,
    ),
    Bomb("disk", "content", _FILL, refusals=("ENOSPC",), watched=FULL),
    Bomb(
        "disk-of-tmp",
        "memory",
        _FILL,
        refusals=("ENOSPC",),
        ended=OUT_OF_MEMORY,
        watched=OUT_OF_MEMORY,
        place="/tmp",
    ),
    Bomb(
        "disk-of-shm",
        "memory",
        _FILL,
        refusals=("ENOSPC",),
        ended=OUT_OF_MEMORY,
        watched=OUT_OF_MEMORY,
        place="/dev/shm",
    ),
    Bomb("files", "content", _FILES.replace("COUNT", "100_000"), refusals=("ENOSPC",)),
    Bomb("files-of-tmp", "memory", _FILES.replace("COUNT", "400_000"), ended=OUT_OF_MEMORY, place="/tmp"),
    Bomb(
        "descriptors",
        "openFiles",
        f"""
held = []
try:
    for _ in range({2 * OPEN_FILES}):
        held.append(os.dup(0))
except OSError as error:
    refused(error)
else:
    print("reached")
for fd in held:
    os.close(fd)
""",
        refusals=("EMFILE",),
        watched=None,
        quick=True,
    ),
    Bomb(
        # Sent and never received: they are in no process's table, and count for the user that sent them.
        "descriptors-in-flight",
        "openFiles",
        f"""
pairs = [socket.socketpair() for _ in range(20)]
for near, far in pairs:
    near.setblocking(False)
sent = 0
try:
    while sent < {4 * OPEN_FILES}:
        for near, far in pairs:
            socket.send_fds(near, [b"x"], [0] * 50)
            sent += 50
except OSError as error:
    refused(error)
else:
    print("reached")
threading.Event().wait(2 if WALLED else 0)
""",
        refusals=("ETOOMANYREFS",),
        until="refused",
    ),
)
