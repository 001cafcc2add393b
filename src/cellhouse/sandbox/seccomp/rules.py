"""What executed code may not ask of the kernel of the host: the rules, each with its answer and its reason.

A deny list over a closed table. Whatever the table of `syscalls.py` names and no rule here speaks of is allowed; a
number that is not in the table does not exist (ENOSYS), so a call that a later kernel brings is out of reach until
somebody has looked at it. That is what an allow list is wanted for, and why this is none all the same: the list of what
numpy, pandas, pip, git, gcc, sqlite and every interpreter may need is most of the table and says nothing about why,
while the list of what is refused is short, and each line of it can be argued with.

The first rule whose condition holds decides. Arguments are compared as the kernel reads them: most are 32 bits wide
there, or 16, and whoever calls may put anything above that. What stands behind a pointer can't be seen by a filter, so
a call that takes its flags there is refused as a whole (clone3, openat2), and callers fall back to the older one.
"""

import errno
from dataclasses import dataclass
from typing import Final

EXISTS_NOT: Final = errno.ENOSYS


@dataclass(frozen=True, slots=True)
class Bits:
    """Holds where `argument & mask` is one of `values`; with `other`, where it is none of them.

    `argument` counts from 0; of it the lower 32 bits are looked at, or the `upper` ones.
    """

    argument: int
    mask: int
    values: tuple[int, ...]
    other: bool = False
    upper: bool = False

    def holds(self, arguments: tuple[int, ...]) -> bool:
        value = arguments[self.argument] >> 32 if self.upper else arguments[self.argument]
        return ((value & self.mask) in self.values) is not self.other


@dataclass(frozen=True, slots=True)
class Rule:
    """Calls by name, separated by spaces, are answered with this error where all of `when` hold."""

    calls: str
    answer: int
    why: str
    when: tuple[Bits, ...] = ()


ALL: Final = 0xFFFFFFFF
MODE: Final = 0xFFFF  # the kernel's type for a mode has 16 bits

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET = 1, 2, 5
SOCK_KIND: Final = 0xF  # the rest of the type are flags
IPPROTO_IP, IPPROTO_TCP, IPPROTO_UDP = 0, 6, 17

# Mount, cgroup, UTS, IPC, user, pid and network namespaces.
CLONE_NEW: Final = 0x7E020000
S_IFMT, S_IFCHR, S_IFBLK = 0o170000, 0o020000, 0o060000
SET_ID: Final = 0o6000
CREATES: Final = (
    0o100 | 0o20000000
)  # O_CREAT, __O_TMPFILE: without either a mode is not looked at, and may be anything
SCHED_OTHER: Final = 0
PRIO_USER, IOPRIO_WHO_USER = 2, 3
PERSONALITY_NONE, PERSONALITY_QUERY = 0, 0xFFFFFFFF
TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD = 0x5412, 0x541C, 0x541D, 0x5423


def _any_of(argument: int, mask: int, *, upper: bool = False) -> Bits:
    """Any bit of the mask."""
    return Bits(argument, mask, (0,), other=True, upper=upper)


_LIMITS_WHY: Final = (
    "a limit on CPU time kills whom it is put on, and the kernel asks for no more than the same uid; one's own are asked "
    "for as process 0, and anybody's may be read"
)
_PRIORITY_WHY: Final = "another session, the zygote, the supervisor could be left without CPU time; one's own is asked for as process 0"

_SET_ID_WHY: Final = (
    "a set-id file that the host sees in /content would lend its owner's rights to whoever runs it there"
)

RULES: Final = (
    # Namespaces and mounts: the walls themselves, and the part of the kernel with the longest record of ways to root.
    Rule(
        "mount umount2 pivot_root chroot move_mount open_tree open_tree_attr fsopen fsconfig fsmount fspick "
        "mount_setattr statmount listmount swapon swapoff",
        errno.EPERM,
        "mounts are the walls' own",
    ),
    Rule(
        "unshare setns",
        errno.EPERM,
        "namespaces are the walls' own; being root in a new one opens much of the kernel",
    ),
    Rule("clone3", EXISTS_NOT, "its flags can't be seen; the C library falls back to clone, whose can"),
    Rule("clone", errno.EPERM, "as for unshare", (_any_of(0, CLONE_NEW),)),
    # Other processes: supervisor, zygote and the other sessions have the same uid.
    Rule(
        "ptrace process_vm_readv process_vm_writev process_madvise process_mrelease migrate_pages move_pages kcmp "
        "pidfd_getfd",
        errno.EPERM,
        "supervisor, zygote and other sessions share the uid; Landlock keeps them apart where it is there, this everywhere",
    ),
    Rule("prlimit64", errno.EPERM, _LIMITS_WHY, (_any_of(0, ALL), _any_of(2, ALL))),
    Rule("prlimit64", errno.EPERM, _LIMITS_WHY, (_any_of(0, ALL), _any_of(2, ALL, upper=True))),
    # The C library names threads by their numbers, and libzmq aborts where it can't have the usual policy for its own.
    Rule(
        "sched_setscheduler",
        errno.EPERM,
        _PRIORITY_WHY,
        (_any_of(0, ALL), Bits(1, ALL, (SCHED_OTHER,), other=True)),
    ),
    Rule("sched_setattr", errno.EPERM, _PRIORITY_WHY, (_any_of(0, ALL),)),
    Rule("setpriority ioprio_set", errno.EPERM, _PRIORITY_WHY, (_any_of(1, ALL),)),
    Rule("setpriority", errno.EPERM, _PRIORITY_WHY, (Bits(0, ALL, (PRIO_USER,)),)),
    Rule("ioprio_set", errno.EPERM, _PRIORITY_WHY, (Bits(0, ALL, (IOPRIO_WHO_USER,)),)),
    Rule(
        "personality",
        errno.EPERM,
        "takes address randomisation from programs, and turns on old kernels' ways; asking for it is harmless",
        (Bits(0, ALL, (PERSONALITY_NONE, PERSONALITY_QUERY), other=True),),
    ),
    # Parts of the kernel that no code here needs, and through which it has been taken over.
    Rule("io_uring_setup io_uring_enter io_uring_register", errno.EPERM, "does calls that no filter sees"),
    Rule("userfaultfd", errno.EPERM, "stops the kernel in mid-copy for as long as one likes"),
    Rule("bpf perf_event_open", errno.EPERM, "code and counters in the kernel of the host"),
    Rule("keyctl add_key request_key", errno.EPERM, "keyrings belong to uids, not to namespaces"),
    Rule(
        "name_to_handle_at open_by_handle_at fanotify_init fanotify_mark",
        errno.EPERM,
        "handles reach whole file systems, past every mount",
    ),
    Rule("memfd_secret", EXISTS_NOT, "memory that nothing can look into, which is locked and not swapped"),
    Rule("modify_ldt iopl ioperm", errno.EPERM, "segments and ports of the machine"),
    # The machine: its clock, modules, log, name, quotas.
    Rule(
        "init_module finit_module delete_module kexec_load kexec_file_load reboot",
        errno.EPERM,
        "another kernel, or more of this one",
    ),
    Rule("settimeofday clock_settime adjtimex clock_adjtime", errno.EPERM, "no namespace holds the clock"),
    Rule("sethostname setdomainname", errno.EPERM, "the walls have given a name"),
    Rule(
        "syslog acct quotactl quotactl_fd vhangup lsm_set_self_attr",
        errno.EPERM,
        "administration of the host",
    ),
    Rule(
        "_sysctl create_module get_kernel_syms query_module nfsservctl getpmsg putpmsg afs_syscall tuxcall security "
        "vserver uselib ustat sysfs lookup_dcookie epoll_ctl_old epoll_wait_old",
        EXISTS_NOT,
        "obsolete: gone from newer kernels, and nobody looks after them in older ones",
    ),
    # Files that are more than files.
    Rule("mknod", errno.EPERM, "a device node is the device", (Bits(1, S_IFMT, (S_IFCHR, S_IFBLK)),)),
    Rule("mknodat", errno.EPERM, "a device node is the device", (Bits(2, S_IFMT, (S_IFCHR, S_IFBLK)),)),
    Rule("chmod fchmod creat mknod", errno.EPERM, _SET_ID_WHY, (_any_of(1, SET_ID),)),
    Rule("fchmodat fchmodat2 mknodat", errno.EPERM, _SET_ID_WHY, (_any_of(2, SET_ID),)),
    Rule("open", errno.EPERM, _SET_ID_WHY, (_any_of(1, CREATES), _any_of(2, SET_ID))),
    Rule("openat", errno.EPERM, _SET_ID_WHY, (_any_of(2, CREATES), _any_of(3, SET_ID))),
    Rule("openat2", EXISTS_NOT, "its mode can't be seen; callers fall back to openat, whose can"),
    # Terminals: what is written into one is typed by whoever sits at it.
    Rule(
        "ioctl",
        errno.EPERM,
        "puts keystrokes into a terminal, or another line discipline under it",
        (Bits(1, ALL, (TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD)),),
    ),
    # Sockets: the network namespace confines these families, and not AF_VSOCK, which reaches the host of a virtual
    # machine, nor AF_ALG and others, which reach further parts of the kernel.
    Rule(
        "socket",
        errno.EOPNOTSUPP,
        "the kernel's own configuration; libzmq aborts the process on any other error here",
        (Bits(0, ALL, (AF_NETLINK,)),),
    ),
    Rule(
        "socket",
        errno.EAFNOSUPPORT,
        "only local and internet sockets are held by the walls; answered as by a kernel without the others",
        (Bits(0, ALL, (AF_UNIX, AF_INET, AF_INET6), other=True),),
    ),
    Rule(
        "socket",
        errno.EPERM,
        "none raw: what is sent is to be TCP or UDP",
        (Bits(0, ALL, (AF_INET, AF_INET6)), Bits(1, SOCK_KIND, (SOCK_STREAM, SOCK_DGRAM), other=True)),
    ),
    Rule(
        "socket",
        errno.EPROTONOSUPPORT,
        "SCTP, MPTCP, SMC, ICMP and the like are large and little looked at",
        (Bits(0, ALL, (AF_INET, AF_INET6)), Bits(2, ALL, (IPPROTO_IP, IPPROTO_TCP, IPPROTO_UDP), other=True)),
    ),
    Rule(
        "socketpair",
        errno.EAFNOSUPPORT,
        "as for socket; no other family that is allowed has pairs",
        (Bits(0, ALL, (AF_UNIX,), other=True),),
    ),
)
"""In the order in which they are asked."""
