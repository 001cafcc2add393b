"""First process of a sandbox: starts what the service asks for, explains its end, leaves nothing alive behind.

Run as ``python -I -S init.py FD [LIMITS]``, where FD is one end of a SOCK_SEQPACKET socketpair, and LIMITS are such as
``nofile=1024,fsize=4294967296,nproc=256``: it takes them on, and so does everything that it starts. One datagram is one JSON object
(at most 64 KiB), with descriptors as SCM_RIGHTS. The service asks::

    {"type": "spawn", "id": ..., "argv": [...], "env": {...}, "cwd": ...}    + the write ends of stdout and stderr,
                                                                            + what becomes 3, 4, ... in the process
    {"type": "adopt", "id": ..., "pid": ...}                                an orphan that is a child of this process

and hears::

    {"type": "ready", "pid": ...}                                           + a pidfd of this process
    {"type": "spawned", "id": ..., "pid": ...}                              + a pidfd of the child, the adopted one too
    {"type": "failed", "id": ..., "error": ...}
    {"type": "exited", "id": ..., "status" or "signal": ..., "cpuSeconds": ..., "peakMemoryBytes": ...}

What was spawned or adopted and is stopped by a signal goes on at once.

The socket's end is the order to end: everything below this process is killed, then it exits.
"""

from __future__ import annotations

import array
import ctypes
import json
import os
import resource
import select
import signal
import socket
import sys
import time

TYPE_CHECKING = False  # typing is not imported: it is a tenth of the time that a start takes
if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence
    from types import FrameType
    from typing import Any, NoReturn

MESSAGE_BYTES = 64 * 1024  # one datagram, both ways
DESCRIPTORS = 8  # the most that one request can carry
ERROR_CHARS = 4096  # of what went wrong between fork and exec
ENVIRON_BYTES = 1024 * 1024  # of a process's environment searched for the token
SWEEP_SECONDS = 0.01  # between two looks for what an ended process left behind
GIVE_UP_SECONDS = 2.0  # of such looks, after which the end of the sandbox is what ends the rest
STOPS = 64  # children that are made to go on, before other work gets its turn
END_SECONDS = 5.0  # for everything to be dead once the service has gone
TOKEN = "CELLHOUSE_PROCESS"  # the variable that marks every descendant of one spawned process

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
SYS_PIDFD_OPEN = 434  # the same on every architecture

LIBC = ctypes.CDLL(None, use_errno=True)


class Ended(Exception):
    """The service has gone: nothing is left to do but to end."""


def prctl(option: int, value: int) -> None:
    if LIBC.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}): {os.strerror(number)}")


def pidfd_open(pid: int) -> int:
    # Not every Python 3.9+ build has os.pidfd_open: it depends on the kernel headers it was built with.
    if hasattr(os, "pidfd_open"):
        return os.pidfd_open(pid)
    descriptor: int = LIBC.syscall(SYS_PIDFD_OPEN, pid, 0)
    if descriptor < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"pidfd_open: {os.strerror(number)}")
    os.set_inheritable(descriptor, False)
    return descriptor


def processes() -> Iterator[tuple[int, int, int, int]]:
    """Every process that can be seen and lives, be it only in threads, as (pid, parent, group, session)."""
    for name in [entry.name for entry in os.scandir("/proc")]:
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read(4096).rpartition(b")")[2].split()
        except OSError:
            continue  # ended since the listing
        if len(fields) > 17 and (fields[0] not in (b"Z", b"X") or int(fields[17]) > 1):
            yield int(name), int(fields[1]), int(fields[2]), int(fields[3])


def orphans() -> list[int]:
    """The children of this process, zombies among them; none where the kernel has no such list."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:
            return [int(pid) for pid in file.read().split()]
    except FileNotFoundError:
        return []


def carries(pid: int, token: bytes) -> bool | None:
    """Whether a process's environment holds the token; None where it has none (yet: exec has not set it up)."""
    try:
        # A process whose first thread has ended shows its environment only in the others.
        places = [f"/proc/{pid}", *(entry.path for entry in os.scandir(f"/proc/{pid}/task"))]
    except OSError:
        return False  # ended, or another user's
    silent = False
    for place in places:
        try:
            with open(f"{place}/environ", "rb") as file:
                environ = file.read(ENVIRON_BYTES)
        except OSError:
            continue  # this thread has ended; the process may live on in another
        if environ:
            return token in environ.split(b"\0")
        silent = True
    return None if silent else False


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # ended by itself
    except PermissionError:
        return  # not ours to kill: another user's process cannot carry the mark, but a set-id child of one could


def below(root: int) -> Iterator[tuple[int, int, int]]:
    """Every live process below `root`, as (pid, group, session): all of them, since orphans come to a subreaper."""
    children: dict[int, list[tuple[int, int, int]]] = {}
    for pid, parent, group, session in processes():
        children.setdefault(parent, []).append((pid, group, session))
    todo = [root]
    while todo:
        for process in children.pop(todo.pop(), []):
            todo.append(process[0])
            yield process


def sweep(process_id: str, leader: int, others: Container[int]) -> bool:
    """Kill what belongs to an ended process: its session, its group, all that carry its mark. Whether to look again.

    `leader` is its pid while the zombie still holds that number, else 0. `others` have ends of their own: what a
    zygote forked is none of its leftovers, whatever mark it shows.
    """
    token = f"{TOKEN}={process_id}".encode()
    unsettled = False
    # Orphans first: a process that forks and ends, again and again, would be gone when its turn comes.
    for pid in orphans():
        if pid != leader and pid not in others and carries(pid, token):
            kill(pid)
            unsettled = True
    for pid, group, session in below(os.getpid()):
        if pid in others:
            continue
        belongs = True if leader and leader in (group, session) else carries(pid, token)
        if belongs:
            kill(pid)
        unsettled = unsettled or belongs is not False
    return unsettled


def kill_everything() -> None:
    """Kill all below this process, until none is left to wait for or the time is up."""
    deadline = time.monotonic() + END_SECONDS
    while time.monotonic() < deadline:
        for pid, _, _ in below(os.getpid()):
            kill(pid)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return  # no child means no descendant: orphans would have become children
        time.sleep(0.002)


def above(descriptor: int, limit: int) -> int:
    """A descriptor of the same thing with a number from `limit` on; those below are taken in turn until there is one."""
    while descriptor < limit:
        descriptor = os.dup(descriptor)
    return descriptor


def become(
    request: dict[str, Any], descriptors: Sequence[int], report: int, parent: int, files: int
) -> NoReturn:
    """In the forked child: turn into the program asked for; never returns."""
    try:
        signal.set_wakeup_fd(-1)
        os.setsid()
        if parent != 1:
            # Where no pid namespace ends with us, a kernel must at least not outlive a killed init.
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(127)
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        # Out of the way first: one that comes to stand at a number must not close another that is yet to move.
        places = 1 + len(descriptors)
        report = above(report, places)
        moved = [above(descriptor, places) for descriptor in descriptors]
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for place, descriptor in enumerate(moved, 1):
            os.dup2(descriptor, place)
        os.chdir(request["cwd"])
        if files:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
        # Everything else is close-on-exec, so 0, 1, 2 and what was handed over are all that the program gets.
        os.execvpe(request["argv"][0], request["argv"], request["env"])
    except BaseException as error:
        os.write(report, f"{type(error).__name__}: {error}"[:ERROR_CHARS].encode("utf-8", "backslashreplace"))
    finally:
        os._exit(127)


class Init:
    def __init__(self, control: socket.socket, files: int = 0) -> None:
        """`files`: how many what is started may have open; 0 is as many as this process may."""
        self.control, self.files = control, files
        self.running: dict[int, str] = {}  # pid -> id, of what was spawned and has not ended
        self.leftovers: dict[
            str, float
        ] = {}  # id -> when to give up, of what has ended and may have left something
        self.adopted = 0  # orphans that have ended
        self.ordered_to_end = False
        self.wake, self.waker = os.pipe()
        for descriptor in (self.wake, self.waker):
            os.set_blocking(descriptor, False)

    def send(self, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        ancillary: list[tuple[int, int, array.array[int]]] = []
        if descriptors:
            ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        data = json.dumps(message).encode()
        while True:
            try:
                self.control.sendmsg([data], ancillary, socket.MSG_DONTWAIT)
                return
            except BlockingIOError:
                self.wait(select.POLLOUT)
            except (BrokenPipeError, ConnectionResetError):
                raise Ended from None

    def receive(self) -> tuple[dict[str, Any], list[int]]:
        space = socket.CMSG_SPACE(DESCRIPTORS * array.array("i").itemsize)
        try:
            data, ancillary, flags, _ = self.control.recvmsg(
                MESSAGE_BYTES + 1, space, socket.MSG_CMSG_CLOEXEC
            )
        except ConnectionResetError:
            raise Ended from None
        descriptors: array.array[int] = array.array("i")
        for level, kind, payload in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                descriptors.frombytes(payload[: len(payload) - len(payload) % descriptors.itemsize])
        if not data:
            raise Ended
        if len(data) > MESSAGE_BYTES or flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
            raise ValueError(f"a request of more than {MESSAGE_BYTES} bytes or {DESCRIPTORS} descriptors")
        return json.loads(data), list(descriptors)

    def spawn(self, request: dict[str, Any], descriptors: Sequence[int]) -> None:
        me = os.getpid()
        read, report = os.pipe()
        with open(read, "rb") as outcome:
            try:
                pid = os.fork()
                if pid == 0:
                    become(request, descriptors, report, me, self.files)
            finally:
                os.close(report)
            error = outcome.read().decode()  # empty once exec has closed the other end
        pidfd = -1
        if not error:
            try:
                pidfd = pidfd_open(pid)  # not reaped yet, so the number is still this child's
            except OSError as reason:
                error = f"OSError: {reason}"
                kill(pid)
        if error:
            os.waitpid(pid, 0)
            self.send({"type": "failed", "id": request["id"], "error": error})
            return
        self.take_in(request["id"], pid, pidfd)

    def adopt(self, request: dict[str, Any]) -> None:
        """Answer for an orphan as for what was spawned: whoever forked it has ended, so it is a child of this process."""
        pid = request["pid"]
        if pid in self.running:
            raise ProcessLookupError(f"process {pid} is known already")
        # Until it is reaped, which is done nowhere else, its number stays its own.
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            raise ProcessLookupError(f"process {pid} has ended")
        if not os.getsid(pid) == os.getpgid(pid) == pid:
            # Its leftovers are found by its session, and its forebear's session may be swept.
            raise PermissionError(f"process {pid} does not lead a session")
        self.take_in(request["id"], pid, pidfd_open(pid))

    def take_in(self, process_id: str, pid: int, pidfd: int) -> None:
        self.running[pid] = process_id
        try:
            self.send({"type": "spawned", "id": process_id, "pid": pid}, [pidfd])
        except (
            OSError
        ):  # no descriptor can be sent: nobody will ever ask for this process, nor hear of its end
            del self.running[pid]
            kill(pid)
            raise
        finally:
            os.close(pidfd)

    def serve(self) -> None:
        request, descriptors = self.receive()
        try:
            spawns = request["type"] == "spawn" and len(descriptors) >= 2
            if not spawns and (request["type"] != "adopt" or descriptors):
                raise ValueError(f"not a request: {request['type']!r} with {len(descriptors)} descriptors")
            try:
                if spawns:
                    self.spawn(request, descriptors)
                else:
                    self.adopt(request)
            except OSError as error:  # no process, no descriptor left; no such child
                self.send(
                    {"type": "failed", "id": request["id"], "error": f"{type(error).__name__}: {error}"}
                )
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def reap(self) -> None:
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            process_id = self.running.pop(ended.si_pid, None)
            if process_id is not None:
                # Before it is reaped: until then its number can be nobody else's group or session.
                sweep(process_id, ended.si_pid, self.running)
                self.leftovers[process_id] = time.monotonic() + GIVE_UP_SECONDS
            _, status, usage = os.wait4(ended.si_pid, 0)
            if process_id is None:
                self.adopted += 1
                continue
            message: dict[str, Any] = {
                "type": "exited",
                "id": process_id,
                "cpuSeconds": usage.ru_utime + usage.ru_stime,
                "peakMemoryBytes": usage.ru_maxrss * 1024,
            }
            if os.WIFSIGNALED(status):
                message["signal"] = os.WTERMSIG(status)
            else:
                message["status"] = os.WEXITSTATUS(status)
            self.send(message)

    def go_on(self) -> None:
        """Nobody in here has job control: a child that was stopped, by itself even, would stand still for ever."""
        for _ in range(STOPS):  # who stops itself for ever is not to keep the others waiting
            try:
                stopped = os.waitid(os.P_ALL, 0, os.WSTOPPED | os.WNOHANG)
            except ChildProcessError:
                return
            if stopped is None:
                return
            if stopped.si_pid in self.running:
                # Not reaped before this, so the number is still that child's.
                os.kill(stopped.si_pid, signal.SIGCONT)

    def look_again(self) -> None:
        """What was forked while the last look ran is found by the next one; until nothing is, and no orphan ends."""
        adopted, self.adopted = self.adopted, 0
        for process_id, give_up in list(self.leftovers.items()):
            if not (sweep(process_id, 0, self.running) or adopted) or time.monotonic() > give_up:
                del self.leftovers[process_id]

    def wait(self, events: int, seconds: float | None = None) -> bool:
        """Wait until the control socket is ready, a signal has come, or the time is up; whether the socket is ready."""
        poll = select.poll()
        poll.register(self.control, events)
        poll.register(self.wake, select.POLLIN)
        ready = dict(poll.poll(None if seconds is None else seconds * 1000))
        if self.wake in ready:
            os.read(self.wake, 4096)
        if self.ordered_to_end:
            raise Ended
        return self.control.fileno() in ready

    def end(self, number: int, frame: FrameType | None) -> None:
        # Raising here could cut off the killing that another order to end has begun.
        self.ordered_to_end = True

    def run(self) -> NoReturn:
        self.send({"type": "ready", "pid": os.getpid()}, [pidfd_open(os.getpid())])
        while True:
            # Before each wait: a signal may have been noticed by a wait of another's.
            self.go_on()
            self.reap()
            self.look_again()
            if self.wait(select.POLLIN, SWEEP_SECONDS if self.leftovers else None):
                self.serve()


def take_on(limits: str) -> int:
    """Limits that all below this process inherit, and cannot raise again. OSError or ValueError where one can't be had.

    The number of open files is returned, for what is started: whoever may have no more open than the code can send no
    descriptor as long as code of the same user, of any runtime, has as many on their way that nobody takes.
    """
    files = 0
    for entry in filter(None, limits.split(",")):
        name, _, value = entry.partition("=")
        kind: int = getattr(resource, "RLIMIT_" + name.upper())
        if kind == resource.RLIMIT_NOFILE:
            files = int(value)
            hard = resource.getrlimit(kind)[1]
            if files > hard:
                raise ValueError(f"nofile={files}: there can be no more than {hard}")
            resource.setrlimit(kind, (hard, hard))
            continue
        resource.setrlimit(kind, (int(value), int(value)))
    return files


def on_child(number: int, frame: FrameType | None) -> None:
    """Only there so that the wakeup descriptor is written to."""


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    for name in [entry.name for entry in os.scandir("/proc/self/fd")]:
        if int(name) > 2 and int(name) != control.fileno():
            try:
                os.close(int(name))
            except OSError:
                continue  # the listing's own descriptor
    # Closes /proc/PID/mem, environ, fd and pidfd_getfd of this process to others of the same uid.
    prctl(PR_SET_DUMPABLE, 0)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    # A core file in the working directory would be taken for one that the code made.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    files = take_on(sys.argv[2] if len(sys.argv) > 2 else "")
    init = Init(control, files)
    signal.set_wakeup_fd(init.waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, on_child)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.getpid() != 1:
        # Pid 1 keeps the default: then no signal from its own namespace reaches it, and its end is everyone's.
        signal.signal(signal.SIGTERM, init.end)
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    try:
        init.run()
    except Ended:
        return
    finally:
        if os.getpid() != 1:
            kill_everything()


if __name__ == "__main__":
    main()
