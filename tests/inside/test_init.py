"""The supervisor by itself, driven over its socket as a service would: what it says, and that nothing outlives it."""

import array
import ast
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

INIT = Path(__file__).resolve().parents[2] / "src" / "cellhouse" / "inside" / "init.py"
SECONDS = 20.0


class Supervisor:
    """One running init.py and our end of its socket."""

    def __init__(self) -> None:
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.settimeout(SECONDS)
        leaked = os.open(os.devnull, os.O_RDONLY)  # what it inherits by mistake goes no further
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(INIT), str(theirs.fileno())],
                pass_fds=(theirs.fileno(), leaked),
                stderr=subprocess.PIPE,
                env={},
            )
        os.close(leaked)
        self.pidfds: list[int] = []
        self.number = 0
        assert self.hear() == {"type": "ready", "pid": self.process.pid}

    def hear(self) -> dict[str, Any]:
        data, descriptors, _, _ = socket.recv_fds(self.control, 65537, 1)
        self.pidfds += descriptors
        message: dict[str, Any] = json.loads(data)
        return message

    def ask(self, message: object, *descriptors: int) -> None:
        rights = (
            [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        )
        self.control.sendmsg([json.dumps(message).encode()], rights)

    def spawn(self, *argv: str, env: dict[str, str] | None = None, cwd: str = "/") -> tuple[str, int, int]:
        """Ask for a process; its id and our ends of its output and its errors."""
        self.number += 1
        process_id = f"process-{self.number}"
        out, out_end = os.pipe()
        err, err_end = os.pipe()
        marked = {"CELLHOUSE_PROCESS": process_id, "PATH": "/usr/bin:/bin", **(env or {})}
        self.ask(
            {"type": "spawn", "id": process_id, "argv": argv, "env": marked, "cwd": cwd}, out_end, err_end
        )
        os.close(out_end)
        os.close(err_end)
        return process_id, out, err

    def end(self) -> int:
        self.control.close()
        return self.process.wait(SECONDS)

    def said(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()


@pytest.fixture
def init() -> Iterator[Supervisor]:
    supervisor = Supervisor()
    yield supervisor
    supervisor.control.close()
    supervisor.process.wait(SECONDS)
    assert supervisor.process.stderr is not None
    supervisor.process.stderr.close()
    for pidfd in supervisor.pidfds:
        os.close(pidfd)


def drain(descriptor: int) -> str:
    """Everything until nobody holds the other end, or the time is up."""
    with open(descriptor, "rb") as file:
        data = b""
        while select.select([file], [], [], SECONDS)[0]:
            if not (part := os.read(file.fileno(), 65536)):
                return data.decode()
            data += part
    raise TimeoutError(f"somebody still holds the pipe; until now: {data!r}")


def line(descriptor: int) -> str:
    assert select.select([descriptor], [], [], SECONDS)[0], "nothing was written"
    return os.read(descriptor, 4096).decode().strip()


def ended(pidfd: int) -> bool:
    return bool(select.select([pidfd], [], [], SECONDS)[0])


def test_it_is_written_for_python_3_9() -> None:
    tree = ast.parse(INIT.read_text(), feature_version=(3, 9))
    imported = {
        name.name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for name in node.names
    } | {str(node.module).split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported <= sys.stdlib_module_names


def test_a_process_from_start_to_end(init: Supervisor) -> None:
    process_id, out, err = init.spawn("/bin/sh", "-c", "echo out; echo err >&2; exit 3")
    spawned = init.hear()
    assert (spawned["type"], spawned["id"]) == ("spawned", process_id)
    exited = init.hear()
    assert exited.pop("cpuSeconds") >= 0
    assert exited.pop("peakMemoryBytes") > 0
    assert exited == {"type": "exited", "id": process_id, "status": 3}
    assert (drain(out), drain(err)) == ("out\n", "err\n")
    assert ended(init.pidfds[1])


def test_death_by_signal(init: Supervisor) -> None:
    process_id, out, err = init.spawn("/bin/sh", "-c", "kill -SEGV $$")
    assert init.hear()["type"] == "spawned"
    exited = init.hear()
    assert (exited["id"], exited["signal"], "status" in exited) == (process_id, signal.SIGSEGV, False)
    assert drain(out) + drain(err) == ""


@pytest.mark.parametrize(
    ("argv", "cwd", "error"),
    [
        (["/no/such/program"], "/", "FileNotFoundError"),
        (["/bin/true"], "/no/such/directory", "FileNotFoundError"),
        (["/"], "/", "PermissionError"),
        (["no-such-program"], "/", "FileNotFoundError"),
    ],
)
def test_what_can_not_be_started(init: Supervisor, argv: list[str], cwd: str, error: str) -> None:
    process_id, out, err = init.spawn(*argv, cwd=cwd)
    failed = init.hear()
    assert (failed["type"], failed["id"]) == ("failed", process_id)
    assert failed["error"].startswith(error)
    assert drain(out) + drain(err) == ""


def test_what_it_gives_to_a_process_and_what_not(init: Supervisor) -> None:
    code = """
import os, signal
print(sorted(map(int, os.listdir("/proc/self/fd")))[:-1], os.readlink("/proc/self/fd/0"), os.getcwd())
print(os.getsid(0) == os.getpid(), sorted(os.environ))
print(signal.pthread_sigmask(signal.SIG_BLOCK, []), signal.getsignal(signal.SIGTERM) == signal.SIG_DFL)
"""
    _, out, err = init.spawn(sys.executable, "-I", "-S", "-c", code, env={"LANG": "C.UTF-8"}, cwd="/usr")
    assert drain(out).splitlines() == [
        "[0, 1, 2] /dev/null /usr",
        "True ['CELLHOUSE_PROCESS', 'LANG', 'PATH']",
        "set() True",
    ]
    assert drain(err) == ""


def test_what_is_handed_over_stands_in_its_order_and_nothing_else_does(init: Supervisor) -> None:
    code = "import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1], [os.read(n, 9) for n in (3, 4, 5)])"
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        read, write = os.pipe()
        given = [os.memfd_create(str(number)) for number in order]
        for number, descriptor in zip(order, given, strict=True):
            os.write(descriptor, b"%d" % number)
            os.lseek(descriptor, 0, os.SEEK_SET)
        request = {"type": "spawn", "id": str(order), "argv": [sys.executable, "-I", "-S", "-c", code]}
        init.ask({**request, "env": {}, "cwd": "/"}, write, write, *given)
        for descriptor in (write, *given):
            os.close(descriptor)
        assert drain(read) == f"[0, 1, 2, 3, 4, 5] {[str(number).encode() for number in order]}\n"
        assert [init.hear()["type"], init.hear()["type"]] == ["spawned", "exited"]


def test_too_many_descriptors_are_the_end(init: Supervisor) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    request = {"type": "spawn", "id": "x", "argv": ["/bin/true"], "env": {}, "cwd": "/"}
    init.ask(request, *[null] * 9)
    os.close(null)
    assert init.process.wait(SECONDS) == 1
    assert "more than 65536 bytes or 8 descriptors" in init.said()


@pytest.mark.parametrize("pid", [1, 999_999_999])
def test_only_a_child_of_its_own_is_adopted(init: Supervisor, pid: int) -> None:
    init.ask({"type": "adopt", "id": "x", "pid": pid})
    assert init.hear() == {
        "type": "failed",
        "id": "x",
        "error": "ChildProcessError: [Errno 10] No child processes",
    }


def test_orphans_are_reaped(init: Supervisor) -> None:
    # Two orphans end while their grandparent lives; no zombie is left below the supervisor.
    _, out, err = init.spawn(
        "/bin/sh", "-c", "(sh -c 'echo $PPID $$ & wait' &); (true &); echo done; exec sleep 1000"
    )
    assert init.hear()["type"] == "spawned"
    assert select.select([out], [], [], SECONDS)[0]
    children = Path(f"/proc/{init.process.pid}/task/{init.process.pid}/children")
    deadline = select.poll()
    while len(children.read_text().split()) > 1:
        deadline.poll(2)  # /proc tells of no change
    signal.pidfd_send_signal(init.pidfds[1], signal.SIGKILL)
    assert init.hear()["signal"] == signal.SIGKILL
    drain(out)
    drain(err)


def test_what_a_process_leaves_behind_is_killed(init: Supervisor) -> None:
    _, out, err = init.spawn(
        "/bin/sh", "-c", "sleep 1000 & setsid sleep 1000 & (setsid sh -c 'sleep 1000 & exit' &); exit 0"
    )
    bystander, its_out, its_err = init.spawn("/bin/sleep", "1000")
    heard = [init.hear() for _ in range(3)]
    assert sorted(message["type"] for message in heard) == ["exited", "spawned", "spawned"]
    assert drain(out) + drain(err) == ""  # none of them holds a pipe any more
    assert not select.select([init.pidfds[2]], [], [], 0)[0]
    signal.pidfd_send_signal(init.pidfds[2], signal.SIGTERM)
    assert init.hear()["id"] == bystander
    drain(its_out)
    drain(its_err)


def test_a_process_that_lives_on_in_a_thread_only_is_killed_too(init: Supervisor) -> None:
    code = """
import ctypes, os, signal, threading
if not os.fork():
    os.setsid()
    print("up", flush=True)
    threading.Thread(target=signal.pause).start()
    ctypes.CDLL(None).pthread_exit(None)  # the first thread becomes a zombie, the process lives
signal.pause()
"""
    _, out, err = init.spawn(sys.executable, "-I", "-S", "-c", code)
    assert init.hear()["type"] == "spawned"
    assert line(out) == "up"
    signal.pidfd_send_signal(init.pidfds[1], signal.SIGKILL)
    assert init.hear()["signal"] == signal.SIGKILL
    drain(out)
    drain(err)


@pytest.mark.parametrize("order", ["end of the socket", "SIGTERM", "both"])
def test_at_its_end_everything_ends(init: Supervisor, order: str) -> None:
    code = """
import os, signal
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
for _ in range(3):
    if not os.fork():
        os.setsid()
        if not os.fork():
            os.execve("/bin/sleep", ["sleep", "1000"], {})  # without the mark
        os._exit(0)
print("up", flush=True)
signal.pause()
"""
    _, out, err = init.spawn(sys.executable, "-I", "-S", "-c", code)
    assert init.hear()["type"] == "spawned"
    assert line(out) == "up"
    if order != "end of the socket":
        init.process.send_signal(signal.SIGTERM)
    if order != "SIGTERM":
        init.control.close()
    assert init.process.wait(SECONDS) == 0
    drain(out)
    drain(err)
    assert init.said() == ""


def test_a_kernel_does_not_outlive_a_killed_supervisor(init: Supervisor) -> None:
    _, out, err = init.spawn("/bin/sleep", "1000")
    assert init.hear()["type"] == "spawned"
    init.process.kill()
    assert ended(init.pidfds[1])
    drain(out)
    drain(err)


def test_a_service_that_does_not_listen_holds_nobody_up_at_the_end(init: Supervisor) -> None:
    for _ in range(400):  # more words than the socket holds, which it then waits with
        _, out, err = init.spawn("/no/such/program", "x" * 10)
        os.close(out)
        os.close(err)
        if not select.select([], [init.control], [], 0)[1]:
            break
    assert init.end() == 0


def test_a_request_that_is_none_is_the_end_and_says_so(init: Supervisor) -> None:
    init.ask({"type": "dance"})
    assert init.process.wait(SECONDS) == 1
    assert "not a request: 'dance'" in init.said()


def test_a_request_that_is_too_large_is_the_end_and_says_so(init: Supervisor) -> None:
    init.ask({"type": "spawn", "id": "x", "argv": ["x" * 70_000]})
    assert init.process.wait(SECONDS) == 1
    assert "more than 65536 bytes" in init.said()


def test_no_core_file_is_written(init: Supervisor) -> None:
    _, out, err = init.spawn("/bin/sh", "-c", "ulimit -Hc")
    assert drain(out) == "0\n"
    drain(err)
