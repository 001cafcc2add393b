"""The attacks as data: what is tried, what the walls answer, and where it is shown to succeed without them.

A probe is a program. It ends normally where the attack has succeeded; an OSError is a refusal, named by its errno, and
so is a death by a signal; `missed(text)` says that there was nothing to be had. `ARGS` holds what stands on the host:
see `host.py`. `call(name, ...)` makes a system call by its name.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

PRELUDE: Final = """
import ctypes, errno, json, os, signal, socket, struct, sys

ARGS = json.loads(os.environ["PROBE"])
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long


def checked(result):
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def call(name, *args):
    if name not in ARGS["calls"]:
        missed("no such call on this machine")
    return raw(ARGS["calls"][name], *args)


def raw(number, *args):
    given = [ctypes.c_long(arg) if isinstance(arg, int) else arg for arg in args]
    return checked(LIBC.syscall(ctypes.c_long(number), *given, *[ctypes.c_long(0)] * (6 - len(given))))


class Missed(Exception):
    pass


def missed(text):
    raise Missed(text)


def attack():
    PROGRAM


try:
    attack()
    said = "reached"
except OSError as error:
    said = errno.errorcode.get(error.errno, str(error))
except Missed as error:
    said = "missed: %s" % error
print(json.dumps(said), flush=True)
"""

PLAIN: Final = "plain"
"""An ordinary process of this user on the host, with nothing round it."""
ROOT: Final = "root"
"""The same, but only root can do it without walls too; a plain user's run leaves the counter-proof to root's."""
UNSHARED: Final = "unshared"
"""Root in namespaces of its own made by unshare, since on the host itself it would harm; the closest harmless form."""


@dataclass(frozen=True, slots=True)
class Probe:
    """`refused` are the answers that the walls may give. `needs` is a path of the host without which there is nothing
    to attack. `only` is the one machine that it is for. `quick` ones are in every run of the tests."""

    name: str
    program: str
    refused: tuple[str, ...]
    place: str = PLAIN
    needs: str = ""
    only: str = ""
    quick: bool = False
    layers: tuple[str, ...] = ("seccomp",)

    @property
    def source(self) -> str:
        lines = self.program.strip("\n").splitlines()
        return PRELUDE.replace("PROGRAM", "\n    ".join(lines))


def _simple() -> Iterable[Probe]:
    """One call each, which the filter refuses whatever stands behind it."""
    path = 'ARGS["scratch"].encode()'
    table = (
        ("userfaultfd", "call('userfaultfd', 1)", PLAIN, "EPERM"),
        ("io_uring", "call('io_uring_setup', 1, ctypes.create_string_buffer(120))", PLAIN, "EPERM"),
        ("keyctl", "call('keyctl', 0, -3, 1)", PLAIN, "EPERM"),
        ("add_key", "call('add_key', b'user', b'cellhouse-probe', b'x', 1, -2)", PLAIN, "EPERM"),
        ("request_key", "call('keyctl', 1, b'probe')", PLAIN, "EPERM"),
        (
            "bpf",
            "call('bpf', 0, ctypes.create_string_buffer(struct.pack('<IIIII', 2, 4, 4, 1, 0), 120), 120)",
            ROOT,
            "EPERM",
        ),
        (
            "perf_event_open",
            "call('perf_event_open', ctypes.create_string_buffer(struct.pack('<IIQQQQQ', 1, 112, 0, 0, 0, 0, 0x61), 112), 0, -1, -1, 0)",
            ROOT,
            "EPERM",
        ),
        (
            "name_to_handle_at",
            f"call('name_to_handle_at', -100, os.path.dirname({path}), ctypes.create_string_buffer(struct.pack('<Ii', 128, 0), 136), ctypes.byref(ctypes.c_int()), 0)",
            PLAIN,
            "EPERM",
        ),
        ("personality", "call('personality', 0x0040000)", PLAIN, "EPERM"),
        ("kcmp", "call('kcmp', os.getpid(), os.getpid(), 1)", PLAIN, "EPERM"),
        ("adjtimex", "call('adjtimex', ctypes.create_string_buffer(1024))", PLAIN, "EPERM"),
        ("syslog", "call('syslog', 10, 0, 0)", ROOT, "EPERM"),
        ("iopl", "call('iopl', 3)", ROOT, "EPERM"),
        ("modify_ldt", "call('modify_ldt', 0, ctypes.create_string_buffer(64), 64)", PLAIN, "EPERM"),
        ("fanotify", "call('fanotify_init', 0x200, 0)", PLAIN, "EPERM"),
        ("unshare-user", "call('unshare', 0x10000000)", PLAIN, "EPERM"),
        ("unshare-user-and-mount", "call('unshare', 0x10020000)", PLAIN, "EPERM"),
        ("unshare-net", "call('unshare', 0x40000000)", UNSHARED, "EPERM"),
        ("sethostname", "call('sethostname', b'pwned', 5)", UNSHARED, "EPERM"),
        ("chroot", f"call('chroot', os.path.dirname({path}))", UNSHARED, "EPERM"),
        (
            "mount-tmpfs",
            f"call('mount', b'none', os.path.dirname({path}), b'tmpfs', 0, 0)",
            UNSHARED,
            "EPERM",
        ),
        ("mount-proc", f"call('mount', b'proc', os.path.dirname({path}), b'proc', 0, 0)", UNSHARED, "EPERM"),
        ("fsopen", "call('fsopen', b'tmpfs', 0)", UNSHARED, "EPERM"),
        ("open_tree", f"call('open_tree', -100, os.path.dirname({path}), 1)", UNSHARED, "EPERM"),
        ("fspick", "call('fspick', -100, b'/', 0)", UNSHARED, "EPERM"),
    )
    only = {"iopl": "x86_64", "modify_ldt": "x86_64"}
    for name, program, place, answer in table:
        quick = name in ("io_uring", "unshare-user", "mount-tmpfs", "keyctl")
        yield Probe(name, program, (answer,), place, quick=quick, only=only.get(name, ""))


PROBES: Final = (
    *_simple(),
    # Files.
    Probe("host-file", "open(ARGS['secret_file']).read()", ("ENOENT",), quick=True, layers=("mount",)),
    Probe(
        "host-shadow",
        "open('/etc/shadow').read(1)",
        ("ENOENT",),
        ROOT,
        needs="/etc/shadow",
        layers=("mount",),
    ),
    Probe(
        "host-file-through-a-root-in-proc",
        """
for name in [ARGS['target'], *filter(str.isdigit, os.listdir('/proc'))]:
    try:
        return open('/proc/%s/root%s' % (name, ARGS['secret_file'])).read()
    except OSError:
        continue
missed('in no root of a process')
""",
        ("missed: in no root of a process",),
        layers=("mount", "pid"),
    ),
    Probe(
        "other-runtime-file", "open(ARGS['other_file']).read()", ("ENOENT",), quick=True, layers=("mount",)
    ),
    Probe(
        "environment-of-others",
        """
for name in filter(str.isdigit, os.listdir('/proc')):
    try:
        if ARGS['needle'].encode() in open('/proc/%s/environ' % name, 'rb').read() and int(name) != os.getpid():
            return
    except OSError:
        continue
missed('in no environment')
""",
        ("missed: in no environment",),
        quick=True,
        layers=("pid",),
    ),
    Probe(
        "write-where-the-host-reads",
        "open(os.path.join(os.path.dirname(ARGS['secret_file']), 'planted'), 'w').close()",
        ("ENOENT", "EROFS"),
        layers=("mount",),
    ),
    # The first process, and others.
    Probe(
        "memory-of-the-first",
        "open('/proc/%d/mem' % ARGS['target'], 'r+b').close()",
        ("EACCES",),
        layers=("pid",),
    ),
    Probe(
        "environ-of-the-first",
        "open('/proc/%d/environ' % ARGS['target'], 'rb').read()",
        ("EACCES",),
        layers=("pid",),
    ),
    Probe(
        "descriptors-of-the-first",
        "os.close(os.open('/proc/%d/fd/1' % ARGS['target'], os.O_WRONLY))",
        ("EACCES",),
        layers=("pid",),
    ),
    Probe("host-process-signal", "os.kill(ARGS['victim'], 0)", ("ESRCH",), quick=True, layers=("pid",)),
    Probe("ptrace-of-the-first", "call('ptrace', 0x4206, ARGS['target'], 0, 0)", ("EPERM",), quick=True),
    Probe(
        "ptrace-of-a-child",
        """
child = os.fork()
if child == 0:
    try:
        call('ptrace', 0, 0, 0, 0)
    except OSError as error:
        os._exit(error.errno)
    os._exit(0)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
if status:
    raise OSError(status, '')
""",
        ("EPERM",),
    ),
    Probe(
        "process_vm_readv",
        """
address = ctypes.addressof(ctypes.create_string_buffer(8))
place = ctypes.create_string_buffer(8)
local = ctypes.create_string_buffer(struct.pack('<QQ', ctypes.addressof(place), 8))
remote = ctypes.create_string_buffer(struct.pack('<QQ', ctypes.addressof(local), 8))
call('process_vm_readv', os.getpid(), local, 1, remote, 1, 0)
""",
        ("EPERM",),
    ),
    Probe(
        "pidfd_getfd",
        "os.close(call('pidfd_getfd', call('pidfd_open', ARGS['target'], 0), 0, 0))",
        ("EPERM",),
    ),
    # Limits and priorities of others: the kernel asks for the same uid and for nothing else.
    Probe(
        "limit-of-the-first",
        "same = ctypes.create_string_buffer(16); call('prlimit64', ARGS['target'], 7, 0, same); call('prlimit64', ARGS['target'], 7, same, 0)",
        ("EPERM",),
        quick=True,
    ),
    Probe("priority-of-the-first", "os.setpriority(os.PRIO_PROCESS, ARGS['target'], 19)", ("EPERM",)),
    Probe(
        "priority-of-all",
        "os.setpriority(os.PRIO_USER, 0, os.getpriority(os.PRIO_PROCESS, 0))",
        ("EPERM",),
        ROOT,
    ),
    Probe(
        "scheduling-of-the-first",
        "os.sched_setscheduler(ARGS['target'], os.SCHED_IDLE, os.sched_param(0))",
        ("EPERM",),
    ),
    # Namespaces by other ways.
    Probe("clone-user", "call('clone', 0x10000000 | 17, 0, 0, 0, 0) or os._exit(0)", ("EPERM",), quick=True),
    Probe(
        "clone-user-with-garbage-above",
        "call('clone', 0x7f10000000 | 17, 0, 0, 0, 0) or os._exit(0)",
        ("EPERM",),
        # The kernel itself looks at the lower half only.
    ),
    Probe(
        "clone3-user",
        "call('clone3', ctypes.create_string_buffer(struct.pack('<8Q', 0x10000000, 0, 0, 0, 17, 0, 0, 0)), 64) or os._exit(0)",
        ("ENOSYS",),
        quick=True,
    ),
    Probe(
        "setns",
        "call('setns', os.open('/proc/self/ns/ipc', os.O_RDONLY), 0)",
        ("EPERM",),
        UNSHARED,
    ),
    Probe(
        "uncover-proc-sys",
        """
place = b'/proc/sys'
if not ARGS['walled']:
    place = os.path.dirname(ARGS['scratch'].encode())
    call('mount', b'none', place, b'tmpfs', 0, 0)
call('umount2', place, 2)
""",
        ("EPERM",),
        UNSHARED,
    ),
    Probe(
        "remount-writable",
        "call('mount', 0, b'/usr' if ARGS['walled'] else b'/proc', 0, 32 | 4096, 0)",
        ("EPERM",),
        UNSHARED,
    ),
    # Devices, set-id bits.
    Probe(
        "mknod-device",
        "os.mknod(ARGS['scratch'] + 'd', 0o020600, os.makedev(1, 3))",
        ("EPERM",),
        ROOT,
        quick=True,
    ),
    Probe("mknod-disk", "os.mknod(ARGS['scratch'] + 'b', 0o060600, os.makedev(7, 0))", ("EPERM",), ROOT),
    Probe(
        "set-id-chmod",
        "os.close(os.open(ARGS['scratch'], 65)); os.chmod(ARGS['scratch'], 0o4755)",
        ("EPERM",),
        quick=True,
    ),
    Probe(
        "set-id-chmod-with-garbage-above",
        "fd = os.open(ARGS['scratch'], os.O_CREAT | os.O_RDWR); call('fchmod', fd, 0x7f00004755)",
        ("EPERM",),
    ),
    Probe(
        "set-id-open",
        "os.close(os.open(ARGS['scratch'] + 'o', os.O_CREAT | os.O_WRONLY, 0o6755))",
        ("EPERM",),
    ),
    Probe("set-id-mknod", "os.mknod(ARGS['scratch'] + 'm', 0o104755)", ("EPERM",)),
    Probe(
        "set-id-openat2",
        "call('openat2', -100, (ARGS['scratch'] + 'p').encode(), ctypes.create_string_buffer(struct.pack('<QQQ', 65, 0o4755, 0)), 24)",
        ("ENOSYS",),
    ),
    Probe(
        "host-disk",
        "os.close(os.open('/dev/' + ARGS['disk'], os.O_RDONLY))",
        ("ENOENT",),
        ROOT,
        layers=("mount",),
    ),
    Probe(
        "host-memory",
        "os.close(os.open('/dev/mem', os.O_RDONLY))",
        ("ENOENT",),
        ROOT,
        needs="/dev/mem",
        layers=("mount",),
    ),
    Probe(
        "kvm",
        "os.close(os.open('/dev/kvm', os.O_RDWR))",
        ("ENOENT",),
        ROOT,
        needs="/dev/kvm",
        layers=("mount",),
    ),
    Probe(
        "host-file-by-its-handle",
        """
place = os.path.dirname(ARGS['scratch'])
handle = ctypes.create_string_buffer(struct.pack('<Ii', 128, 0), 136)
if not ARGS['walled']:
    call('name_to_handle_at', -100, place.encode(), handle, ctypes.byref(ctypes.c_int()), 0)
os.close(call('open_by_handle_at', os.open(place, os.O_RDONLY), handle, 0))
""",
        ("EPERM",),
        ROOT,
    ),
    # Sockets.
    Probe(
        "socket-raw",
        "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).close()",
        ("EPERM",),
        UNSHARED,
        quick=True,
    ),
    Probe("socket-packet", "socket.socket(17, socket.SOCK_RAW, 0).close()", ("EAFNOSUPPORT",), UNSHARED),
    Probe("socket-netlink", "socket.socket(16, socket.SOCK_RAW, 0).close()", ("ENOTSUP",), quick=True),
    Probe(
        "socket-vsock",
        "socket.socket(40, socket.SOCK_STREAM, 0).close()",
        ("EAFNOSUPPORT",),
        needs="/dev/vsock",
        quick=True,
    ),
    Probe(
        "socket-mptcp", "socket.socket(2, 1, 262).close()", ("EPROTONOSUPPORT",), needs="/proc/sys/net/mptcp"
    ),
    Probe(
        "host-loopback",
        "socket.create_connection(('127.0.0.1', ARGS['tcp']), 5).close()",
        ("ECONNREFUSED",),
        quick=True,
        layers=("network",),
    ),
    Probe(
        "host-name-server",
        """
asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asking.settimeout(5)
asking.connect(('127.0.0.1', ARGS['udp']))
asking.send(b'who is it')
asking.recv(512)
""",
        ("ECONNREFUSED",),
        layers=("network",),
    ),
    Probe(
        "host-address",
        "socket.create_connection((ARGS['address'], ARGS['tcp_all']), 5).close()",
        ("ENETUNREACH",),
        needs="address",
        layers=("network",),
    ),
    Probe(
        "metadata-address",
        """
if not ARGS['walled']:
    import fcntl
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, 0x8916, struct.pack('16sHH4s8x', b'lo', 2, 0, bytes((169, 254, 169, 254))))
        fcntl.ioctl(control, 0x8914, struct.pack('16sH14x', b'lo', 0x41))
    server = socket.create_server(('169.254.169.254', 80))
socket.create_connection(('169.254.169.254', 80), 5).close()
""",
        ("ENETUNREACH",),
        UNSHARED,
        quick=True,
        layers=("network",),
    ),
    Probe(
        "host-abstract-socket",
        "socket.socket(socket.AF_UNIX).connect('\\0' + ARGS['abstract'])",
        ("ECONNREFUSED",),
        quick=True,
        layers=("network",),
    ),
    Probe(
        "host-socket", "socket.socket(socket.AF_UNIX).connect(ARGS['socket'])", ("ENOENT",), layers=("mount",)
    ),
    # Calls of foreign architectures: the filter sees other numbers there.
    Probe(
        "i386",
        """
import mmap
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(bytes.fromhex('53b814000000cd805bc3'))  # push rbx; mov eax, 20 (getpid); int 0x80; pop rbx; ret
address = ctypes.addressof(ctypes.c_char.from_buffer(code))
if ctypes.CFUNCTYPE(ctypes.c_int)(address)() != os.getpid():
    missed('no 32-bit calls in this kernel')
""",
        ("SIGSYS",),
        only="x86_64",
        quick=True,
    ),
    Probe(
        # Most kernels know none of these calls; without a filter the answer is then the kernel's own ENOSYS.
        "x32",
        """
try:
    raw(0x40000000 | 39)
except OSError as error:
    if error.errno != errno.ENOSYS:
        raise
""",
        ("SIGSYS",),
        only="x86_64",
        quick=True,
    ),
    # The host's kernel as files.
    Probe(
        "core-pattern",
        "os.close(os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY))",
        ("EROFS", "EACCES"),
        ROOT,
        quick=True,
        layers=("mount",),
    ),
    Probe(
        "sysrq",
        "os.close(os.open('/proc/sysrq-trigger', os.O_WRONLY))",
        ("EROFS", "EACCES"),
        ROOT,
        needs="/proc/sysrq-trigger",
        layers=("mount",),
    ),
    Probe(
        "kernel-log",
        "os.close(os.open('/proc/kmsg', os.O_RDONLY | os.O_NONBLOCK))",
        ("EACCES",),
        ROOT,
        layers=("mount",),
    ),
    Probe(
        "kernel-symbols",
        "open('/proc/kallsyms').read(1)",
        ("EACCES",),
        needs="/proc/kallsyms",
        layers=("mount",),
    ),
    Probe("cgroups", "os.listdir('/sys/fs/cgroup')", ("ENOENT",), needs="/sys/fs/cgroup", layers=("mount",)),
    # Terminals.
    Probe(
        "tiocsti",
        """
import fcntl, pty
master, slave = pty.openpty()
child = os.fork()
if child == 0:
    os.setsid()
    fcntl.ioctl(slave, 0x540E, 0)  # TIOCSCTTY
    try:
        fcntl.ioctl(slave, 0x5412, b'x')
    except OSError as error:
        os._exit(error.errno)
    os._exit(0)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
if status:
    raise OSError(status, '')
""",
        ("EPERM",),
        ROOT,
        quick=True,
    ),
    Probe(
        "tiocsti-with-garbage-above",
        """
import pty
master, slave = pty.openpty()
call('ioctl', slave, 0x7f00005412, b'x')
""",
        ("EPERM",),
        ROOT,
    ),
)
