"""A kernel before it is one: has imported what sessions need, and becomes a session wherever it is asked to fork.

Run as ``python -s zygote.py FD [MODULE ...]``, where FD is one end of a SOCK_SEQPACKET socketpair. One datagram is one
JSON object (at most 64 KiB), with descriptors as SCM_RIGHTS. It says::

    {"type": "ready", "modules": [...], "missing": {name: why}}       once it can fork, and after each import
    {"type": "importing", "module": ...}                              an end of this process from here to the next
                                                                      "ready" is that module's doing

The service asks, and hears::

    {"type": "fork", "mark": ..., "env": {...}, "cwd": ...}           + the session's socket, its stdout, its stderr
    {"type": "forked", "pid": ...}  or  {"type": "failed", "error": ...}

The session is a grandchild: as an orphan it has come to the supervisor, which is asked to adopt it. It shows `mark` in
its environment where this process shows its own, so that the end of either is not the other's. The socket's end is the
order to end; sessions live on.
"""

from __future__ import annotations

import _signal  # without the enumerations round it, whose memory would be touched
import array
import ctypes
import gc
import importlib.util
import json
import os
import select
import signal
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

MESSAGE_BYTES = 64 * 1024  # one datagram, both ways
DESCRIPTORS = 3  # of a session: its socket, its stdout, its stderr
ERROR_CHARS = 2048
TOKEN = "CELLHOUSE_PROCESS"  # the variable that marks every descendant of one process; init.py looks for it
HERE = os.path.dirname(os.path.abspath(__file__))

PR_SET_PDEATHSIG = 1

LIBC = ctypes.CDLL(None)
LIBC.getenv.restype = ctypes.c_void_p


class Ended(Exception):
    """The service has gone."""


class NotForked(Exception):
    """There is no session; the message is the reason's own."""


class Unfit(Exception):
    """This process can't be forked safely."""


def mark_process(mark: str) -> None:
    """Show another mark in /proc/self/environ, to whoever looks, and in that of all that is forked from here on.

    The kernel shows the memory in which the first environment was laid down, which every fork shares with its forebear
    until it writes there. Raises RuntimeError where the mark can't be put in the place of the one that is there.
    """
    new = os.fsencode(mark)
    address = LIBC.getenv(os.fsencode(TOKEN))
    shown = f"{TOKEN}=".encode() + new
    if not address or len(ctypes.string_at(address)) != len(new):
        raise RuntimeError(f"there is no {TOKEN} of {len(new)} characters in the environment")
    ctypes.memmove(address, new, len(new))
    with open("/proc/self/environ", "rb") as file:
        if shown not in file.read().split(b"\0"):
            raise RuntimeError(f"{TOKEN} was replaced, but /proc does not show it")
    os.environ[TOKEN] = mark


def as_python_starts() -> dict[int, Any]:
    """What becomes of each signal in a Python that has just started."""
    handlers: dict[int, Any] = {
        int(number): _signal.SIG_DFL for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
    }
    handlers[int(signal.SIGINT)] = signal.default_int_handler
    for name in ("SIGPIPE", "SIGXFSZ"):
        if hasattr(signal, name):
            handlers[int(getattr(signal, name))] = _signal.SIG_IGN
    return handlers


HANDLERS = as_python_starts()


def default_signals() -> None:
    """Undo what was done to signals since Python started, and touch no more than that: memory touched is memory copied."""
    for number, handler in HANDLERS.items():
        if _signal.getsignal(number) != handler:
            _signal.signal(number, handler)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, [])


def reseed() -> None:
    """What is random, or secret, in the forebear is not to be the same in all that it becomes.

    `random` sees to itself, at each fork.
    """
    numpy_random: Any = sys.modules.get("numpy.random")
    if numpy_random is not None:
        # With a number: without one it would gather entropy through modules whose memory is shared until then.
        numpy_random.seed(int.from_bytes(os.urandom(4), "little"))
    processes: Any = sys.modules.get("multiprocessing.process")
    if processes is not None:
        processes.current_process().authkey = os.urandom(32)


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def end_threads() -> None:
    """Libraries that can be forked (OpenBLAS) end their threads before a fork, and start them again where they are used.

    So one fork that is thrown away ends them here, while a limit on their number at import would hold in every session.
    """
    if threads() > 1:
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)


def why(error: BaseException) -> str:
    text = f"{type(error).__name__}: {error}"[:ERROR_CHARS]
    return text.encode("utf-8", "backslashreplace").decode()


class Zygote:
    def __init__(
        self, control: socket.socket, modules: Sequence[str], fill_pools: Callable[[], None]
    ) -> None:
        self.control = control
        self.fill_pools = fill_pools
        self.pending = list(modules)
        self.modules: list[str] = []
        self.missing: dict[str, str] = {}
        self.supervisor = os.getppid()

    def send(self, message: dict[str, Any]) -> None:
        try:
            self.control.send(json.dumps(message).encode(), socket.MSG_NOSIGNAL)
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

    def settle(self) -> None:
        """Have everything as it is to be when it is forked, and say what there is."""
        sys.stdout.flush()  # what an import printed is not to come from every session, too
        sys.stderr.flush()
        end_threads()
        if threads() > 1:
            raise Unfit(f"{threads()} threads run in it, and would be missing in a fork")
        gc.collect()
        self.fill_pools()
        gc.freeze()  # no collection of a session's writes into what it shares with all others
        self.send({"type": "ready", "modules": self.modules, "missing": self.missing})

    def import_next(self) -> None:
        name = self.pending.pop(0)
        self.send({"type": "importing", "module": name})
        try:
            importlib.import_module(name)
        except BaseException as error:  # the module's code decides what it raises
            self.missing[name] = why(error)
        else:
            self.modules.append(name)
        self.settle()

    def serve(self) -> socket.socket:
        """Fork wherever that is asked for; returns in each session, with its socket. Ended at the end of them all."""
        self.settle()
        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        while True:
            if self.pending and not poll.poll(0):
                self.import_next()
                continue
            poll.poll()
            request, descriptors = self.receive()
            try:
                if request["type"] != "fork" or len(descriptors) != DESCRIPTORS:
                    raise ValueError(
                        f"not a request: {request['type']!r} with {len(descriptors)} descriptors"
                    )
                try:
                    session = self.fork(request, descriptors)
                except (OSError, NotForked) as error:
                    self.send(
                        {"type": "failed", "error": str(error) if type(error) is NotForked else why(error)}
                    )
                    continue
                if session is not None:
                    return session
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)

    def fork(self, request: dict[str, Any], descriptors: Sequence[int]) -> socket.socket | None:
        """A socket in the session, None in this process, which has told of it. OSError, NotForked."""
        told, tell = os.pipe()
        wait, go = os.pipe()
        held = {told, tell, wait, go}

        def let_go(descriptor: int) -> None:
            held.discard(descriptor)
            os.close(descriptor)

        try:
            first = os.fork()
            if first == 0:
                fork_again(tell)
                let_go(go)
                return self.become_session(request, descriptors, tell, wait)
            let_go(tell)
            os.waitpid(first, 0)  # from here on the session is the supervisor's child
            word = os.read(told, 2 * ERROR_CHARS)
            if not word.isdigit():
                raise NotForked(word.decode("utf-8", "replace") or "the fork ended before it was a session")
            os.write(go, b"\n")
        finally:
            for descriptor in held:
                os.close(descriptor)
        self.send({"type": "forked", "pid": int(word)})
        return None

    def become_session(
        self, request: dict[str, Any], descriptors: Sequence[int], tell: int, wait: int
    ) -> socket.socket:
        """In the fork: be a process that owes nothing to this one, and wait until that one has told of it."""
        try:
            self.control.close()
            os.setsid()
            default_signals()
            mark_process(request["mark"])
            session = socket.socket(fileno=os.dup(descriptors[0]))
            for number in (1, 2):
                os.dup2(descriptors[number], number)
            os.environ.update(request["env"])
            os.chdir(request["cwd"])
            reseed()
            gc.enable()
            os.write(tell, b"%d" % os.getpid())
            if not os.read(wait, 1):
                os._exit(1)  # the zygote died, and nobody knows of this process
            if self.supervisor != 1:
                # As the supervisor does it for what it starts; not before this is its child.
                LIBC.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
                if os.getppid() != self.supervisor:
                    os._exit(1)
        except BaseException as error:
            os.write(tell, why(error).encode())
            os._exit(1)
        return session


def fork_again(tell: int) -> None:
    """Returns in a child, whose parent ends here; so that it is an orphan."""
    try:
        if os.fork() == 0:
            return
    except OSError as error:
        os.write(tell, why(error).encode())
    os._exit(0)


def load_kernel() -> Any:
    """The module `native.host`, in the way in which a fresh kernel loads it."""
    spec = importlib.util.spec_from_file_location("cellhouse_kernel", os.path.join(HERE, "kernel.py"))
    assert spec is not None
    assert spec.loader is not None
    kernel: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(kernel)
    kernel.load()
    return importlib.import_module(f"{kernel.NAME}.host")


def main() -> None:
    """Returns once the service has gone; in a session, when that has ended."""
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    modules = sys.argv[2:]
    sys.argv[:] = [os.path.join(HERE, "kernel.py")]
    # Python puts this file's directory first. Neither it nor the working directory, which is the sessions' to fill, may
    # have a say in what is imported here.
    sys.path[:] = [entry for entry in sys.path if entry and os.path.abspath(entry) != HERE]
    trusted = list(sys.path)
    gc.disable()  # until there is a session: what is freed here leaves gaps that sessions then write into
    host = load_kernel()
    sys.path[:] = trusted
    host.prepare()
    try:
        session = Zygote(control, modules, host.fill_pools).serve()
    except Ended:
        return
    host.run(session)


if __name__ == "__main__":
    main()
