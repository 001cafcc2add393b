"""What one session tries on another, on the zygote and on the supervisor, as data.

Each is code for a cell. `PID` is the process that is attacked, `CALLS` the numbers of system calls. It is refused where
it raises PermissionError, and has succeeded where it ends.
"""

from dataclasses import dataclass
from typing import Final

PRELUDE: Final = """
import ctypes, os, signal, socket, struct
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
def call(name, *args):
    given = [ctypes.c_long(arg) if isinstance(arg, int) else arg for arg in args]
    result = LIBC.syscall(ctypes.c_long(CALLS[name]), *given, *[ctypes.c_long(0)] * (6 - len(given)))
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
def attack(PID):
    BODY
try:
    attack(TARGET)
except PermissionError:
    print("refused")
except OSError as error:
    print("failed", error)
else:
    print("reached")
"""


@dataclass(frozen=True, slots=True)
class Attack:
    name: str
    code: str

    def cell(self, target: int, calls: dict[str, int]) -> str:
        return (
            PRELUDE.replace("BODY", "\n    ".join(self.code.strip().splitlines()))
            .replace("TARGET", str(target))
            .replace("CALLS", repr({name: number for name, number in calls.items() if name in self.code}))
        )


def _write(name: str, data: str) -> str:
    return f"""
fd = os.open(f'/proc/{{PID}}/{name}', os.O_WRONLY)
try:
    os.write(fd, b'{data}')
finally:
    os.close(fd)
"""


# Where the layout of the other's memory can be learnt, something that is there is read; else the call is tried all the same.
MEMORY_BY_CALL: Final = """
try:
    place = int(open(f'/proc/{PID}/maps').read().split('-')[0], 16)
except PermissionError:
    place = id(None)
found = ctypes.create_string_buffer(8)
local = ctypes.create_string_buffer(struct.pack('<QQ', ctypes.addressof(found), 8))
remote = ctypes.create_string_buffer(struct.pack('<QQ', place, 8))
call('process_vm_readv', PID, local, 1, remote, 1, 0)
"""

ATTACKS: Final = (
    Attack("memory-read", "open(f'/proc/{PID}/mem', 'rb').close()"),
    Attack("memory-write", "open(f'/proc/{PID}/mem', 'r+b').close()"),
    Attack("environ", "open(f'/proc/{PID}/environ', 'rb').read()"),
    Attack("maps", "open(f'/proc/{PID}/maps', 'rb').read()"),
    Attack("descriptor", "os.readlink(f'/proc/{PID}/fd/1')"),
    Attack("output", "os.close(os.open(f'/proc/{PID}/fd/1', os.O_WRONLY))"),
    Attack("working-directory", "os.readlink(f'/proc/{PID}/cwd')"),
    Attack("namespace", "os.close(os.open(f'/proc/{PID}/ns/mnt', os.O_RDONLY))"),
    Attack("signal", "os.kill(PID, signal.SIGCONT)"),
    Attack("signal-to-its-group", "os.killpg(PID, signal.SIGCONT)"),
    Attack("signal-by-pidfd", "call('pidfd_send_signal', call('pidfd_open', PID, 0), 0, 0, 0)"),
    Attack(
        "signal-with-data",
        "call('rt_sigqueueinfo', PID, 0, ctypes.create_string_buffer(struct.pack('<iii', 0, 0, -1), 128))",
    ),
    Attack("ptrace", "call('ptrace', 0x4206, PID, 0, 0)"),
    Attack("descriptor-by-pidfd", "os.close(call('pidfd_getfd', call('pidfd_open', PID, 0), 1, 0))"),
    Attack(
        "limit",
        "same = ctypes.create_string_buffer(16)\ncall('prlimit64', PID, 4, 0, same)\ncall('prlimit64', PID, 4, same, 0)",
    ),
    Attack("memory-by-call", MEMORY_BY_CALL),
    Attack("priority", "os.setpriority(os.PRIO_PROCESS, PID, 1)"),
    # What a core dump holds, which pages were touched, who is ended first for want of memory: guarded by the uid alone.
    Attack("oom-score", _write("oom_score_adj", "500")),
    Attack("oom-score-through-a-thread", _write("task/{PID}/oom_score_adj", "500")),
    Attack("core-dump", _write("coredump_filter", "0x7f")),
    Attack("touched-pages", _write("clear_refs", "1")),
)
# Known to succeed: the kernel asks for the same uid only, and the filter knows no process by its number.
OPEN: Final = (Attack("affinity", "os.sched_setaffinity(PID, os.sched_getaffinity(PID))"),)
ON_THE_SUPERVISOR: Final = tuple(
    attack
    for attack in ATTACKS
    if attack.name not in ("signal", "signal-to-its-group", "signal-by-pidfd", "signal-with-data")
)
"""Without signals: to the first process of a namespace they may be sent, and do nothing there."""
