"""What is tried inside: small programs of the standard library, and how their answers are told.

A program that ends normally has `reached` what it was after. An OSError is a refusal, named by its errno; `missed(text)`
says that there was nothing to be had. `ARGS` holds what stands on the host: see `targets.py`.
"""

from dataclasses import dataclass
from typing import Final, cast

from cellhouse.model import LimitName

REACHED: Final = "reached"
MISSED: Final = "missed: "

_PRELUDE: Final = """\
import ctypes, errno, json, os, signal, socket, sys, time

ARGS = json.loads(os.environ["CELLHOUSE_PROBE"])
LIBC = ctypes.CDLL(None, use_errno=True)


def checked(result):
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


class Missed(Exception):
    pass


def missed(text):
    raise Missed(text)


def answer(probe):
    try:
        probe()
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    except MemoryError:
        return "ENOMEM"
    except Missed as error:
        return "missed: %s" % error
    return "reached"


def tell(name, said):
    print(json.dumps([name, said]), flush=True)


def apart(name, probe):
    child = os.fork()
    if child == 0:
        signal.alarm(ARGS["seconds"])
        try:
            tell(name, answer(probe))
        finally:
            os._exit(0)
    ended = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(ended):
        tell(name, signal.Signals(os.WTERMSIG(ended)).name)
"""


@dataclass(frozen=True, slots=True)
class Probe:
    """`refused` are the answers by which the walls hold; one that ends with a colon is a beginning."""

    layer: str
    name: str
    tried: str
    program: str
    refused: tuple[str, ...]

    def holds(self, answer: str) -> bool:
        return any(answer.startswith(each) if each.endswith(":") else answer == each for each in self.refused)


def source(*probes: Probe, apart: bool = False) -> str:
    """The probes with what they need around them, for `python -c`; each prints a JSON list of its name and its answer.

    `apart` gives each a process of its own, with `ARGS["seconds"]` for it: what one of them does, others don't feel.
    """
    parts = [_PRELUDE]
    for number, probe in enumerate(probes):
        body = "\n    ".join(probe.program.strip("\n").splitlines())
        call = "apart({0!r}, {1})" if apart else "tell({0!r}, answer({1}))"
        parts.append(f"def probe_{number}():\n    {body}\n\n\n" + call.format(probe.name, f"probe_{number}"))
    return "\n\n".join(parts)


PROBES: Final = (
    Probe("mount", "host-file", "open a file of the host", "open(ARGS['secret']).read()", ("ENOENT",)),
    Probe(
        "mount",
        "other-runtime-file",
        "open a file of another runtime",
        "open(ARGS['other']).read()",
        ("ENOENT",),
    ),
    Probe(
        "mount",
        "host-write",
        "write a file where the host reads",
        "open(ARGS['plant'], 'w').close()",
        ("ENOENT",),
    ),
    Probe(
        "pid",
        "host-process-sight",
        "find a process of the host in /proc",
        """
for name in filter(str.isdigit, os.listdir('/proc')):
    try:
        with open('/proc/%s/cmdline' % name, 'rb') as file:
            if ARGS['needle'].encode() in file.read(65536):
                return
    except OSError:
        continue
missed('in no command line')
""",
        ("missed: in no command line",),
    ),
    Probe(
        "pid",
        "host-process-signal",
        "signal a process of the host",
        """
try:
    with open('/proc/%d/cmdline' % ARGS['victim'], 'rb') as file:
        if ARGS['needle'].encode() not in file.read(65536):
            missed('its number is another process here')
except FileNotFoundError:
    pass
os.kill(ARGS['victim'], 0)
""",
        ("ESRCH", "missed: its number is another process here"),
    ),
    Probe(
        "network",
        "host-loopback",
        "connect to a port on the host's loopback",
        "socket.create_connection(('127.0.0.1', ARGS['port']), 2).close()",
        ("ECONNREFUSED",),
    ),
    Probe(
        "network",
        "host-abstract-socket",
        "connect to an abstract socket of the host",
        "socket.socket(socket.AF_UNIX).connect('\\0' + ARGS['abstract'])",
        ("ECONNREFUSED",),
    ),
    # TEST-NET-1 (RFC 5737); connecting a datagram socket asks for a route and sends nothing.
    Probe(
        "network",
        "route-outside",
        "find a route to an address outside",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(('192.0.2.1', 9))",
        ("ENETUNREACH",),
    ),
    Probe(
        "user",
        "user-namespace",
        "be in the host's user namespace",
        "os.readlink('/proc/self/ns/user') == ARGS['users'] or missed('in one of its own')",
        ("missed: in one of its own",),
    ),
    Probe(
        "user",
        "capability-bound",
        "have a capability left to regain (CAP_SYS_ADMIN)",
        "checked(LIBC.prctl(23, 21, 0, 0, 0)) or missed('not in the bounding set')",
        ("missed: not in the bounding set",),
    ),
    Probe(
        "ipc",
        "host-shared-memory",
        "attach shared memory of the host",
        """
LIBC.shmat.restype = ctypes.c_void_p
if LIBC.shmat(ARGS['shared'], None, 0o10000) == ctypes.c_void_p(-1).value:
    checked(-1)
""",
        ("EINVAL",),
    ),
    Probe(
        "seccomp",
        "personality",
        "switch address randomisation off",
        "checked(LIBC.personality(0x0040000))",
        ("EPERM",),
    ),
    Probe(
        "seccomp",
        "unshare-user",
        "make a user namespace",
        "checked(LIBC.unshare(0x10000000))",
        ("EPERM",),
    ),
    Probe(
        "seccomp",
        "netlink",
        "open a netlink socket",
        "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).close()",
        ("ENOTSUP",),
    ),
    Probe(
        "seccomp",
        "set-id",
        "give a file a set-id bit",
        """
name = os.path.join(ARGS['content'], 'set-id')
os.close(os.open(name, os.O_CREAT | os.O_WRONLY))
os.chmod(name, 0o4755)
""",
        ("EPERM",),
    ),
)

# Each goes a little further than the limit, so that it ends by itself where there is none. `patience` is how long it
# stays there, for a watcher that looks four times a second.
LIMIT_PROBES: Final[dict[LimitName, Probe]] = {
    cast("LimitName", probe.name): probe
    for probe in (
        Probe(
            "limits",
            "openFiles",
            "open more files than that in one process",
            """
held = []
try:
    while len(held) < ARGS['limit'] + 8:
        held.append(os.open('/dev/null', os.O_RDONLY))
finally:
    for number in held:
        os.close(number)
""",
            ("EMFILE",),
        ),
        Probe(
            "limits",
            "fileSize",
            "write a file larger than that",
            """
name = os.path.join(ARGS['content'], 'large')
try:
    with open(name, 'wb', 0) as file:
        while file.tell() <= ARGS['limit']:
            file.write(b'x' * 1048576)
finally:
    os.unlink(name)
""",
            ("EFBIG",),
        ),
        Probe(
            "limits",
            "content",
            "write more than that to /content",
            """
names = []
try:
    for number in range(ARGS['limit'] // 1048576 + 8):
        names.append(os.path.join(ARGS['content'], 'part-%d' % number))
        with open(names[-1], 'wb', 0) as file:
            if file.write(b'x' * 1048576) < 1048576:
                raise OSError(errno.ENOSPC, 'only a part of it')
    time.sleep(ARGS['patience'])
finally:
    for name in names:
        os.unlink(name)
""",
            ("ENOSPC", "EDQUOT"),
        ),
        Probe(
            "limits",
            "processes",
            "start more processes than that",
            """
read, write = os.pipe()
for _ in range(ARGS['limit'] + 8):
    if os.fork() == 0:
        os.close(write)
        os.read(read, 1)
        os._exit(0)
time.sleep(ARGS['patience'])
""",
            ("EAGAIN",),
        ),
        Probe(
            "limits",
            "memory",
            "fill more memory than that",
            """
held = []
while len(held) * 4194304 < ARGS['limit'] + 33554432:
    held.append(b'x' * 4194304)
time.sleep(ARGS['patience'])
""",
            ("ENOMEM",),
        ),
        Probe(
            "limits",
            "cpus",
            "use more CPU time than that",
            """
began, used = time.monotonic(), time.process_time()
while time.monotonic() - began < 0.6:
    pass
share = (time.process_time() - used) / (time.monotonic() - began)
if share <= ARGS['limit'] * 1.5:
    missed('%.2f of a CPU' % share)
""",
            (MISSED.strip(),),
        ),
    )
}
