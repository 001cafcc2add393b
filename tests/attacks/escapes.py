"""Ways for a process to outlive what started it, as data: each program leaves something alive that says MARK in its command.

They run as a cell and as a program of their own.
"""

from dataclasses import dataclass
from typing import Final

PRELUDE: Final = """
import ctypes, os, signal, subprocess, sys, time
LIBC = ctypes.CDLL(None)
def stay(code="time.sleep(1000)"):
    # Without its environment, its directory and every descriptor, so that nothing ties it to anybody.
    os.chdir("/")
    for number in range(3, 256):
        try:
            os.close(number)
        except OSError:
            pass
    for number in (0, 1, 2):
        os.dup2(os.open("/dev/null", os.O_RDWR), number)
    os.execve(PYTHON, [PYTHON, "-I", "-S", "-c", "import os, signal, sys, time; " + code, "MARK"], {})
def apart():
    # The child of a child whose parent has ended, in a session of its own.
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            return True
        os._exit(0)
    os.wait()
    return False
PYTHON = sys.executable
IGNORE = "[signal.signal(n, signal.SIG_IGN) for n in signal.valid_signals() - {9, 19, 32, 33}]; time.sleep(1000)"
"""


@dataclass(frozen=True, slots=True)
class Escape:
    name: str
    code: str
    quick: bool = False

    def program(self, mark: str) -> str:
        return (PRELUDE + self.code).replace("MARK", mark)


ESCAPES: Final = (
    Escape("daemon", "if apart(): stay()", quick=True),
    Escape("deaf-daemon", "if apart(): stay(IGNORE)", quick=True),
    Escape("stopped-daemon", "if apart(): stay('os.kill(os.getpid(), signal.SIGSTOP)')"),
    Escape(
        "daemon-below-a-reaper-of-its-own",
        """
if apart():
    LIBC.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    if os.fork() == 0:
        if apart(): stay(IGNORE)
        os._exit(0)
    stay()
""",
    ),
    Escape("reaper-itself", "LIBC.prctl(36, 1, 0, 0, 0)\nif apart(): stay(IGNORE)\nif apart(): stay()"),
    Escape(
        # Whoever looks for it finds one that is about to be gone.
        "rabbit",
        """
if apart():
    stay('''
while True:
    if os.fork():
        os._exit(0)
    os.setsid()
''')
""",
        quick=True,
    ),
    Escape(
        "process-whose-first-thread-is-gone",
        """
if apart():
    stay('''
import ctypes, threading
threading.Thread(target=time.sleep, args=(1000,)).start()
ctypes.CDLL(None).pthread_exit(None)
''')
""",
    ),
    Escape(
        "group-of-another",
        "for _ in range(5):\n    if os.fork() == 0:\n        os.setpgid(0, 0)\n        stay(IGNORE)",
    ),
)
