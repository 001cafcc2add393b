"""The zygote by itself, driven over its socket: what its forks have in common, and what they must not."""

import ast
import contextlib
import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cellhouse.environments import find_environment

INSIDE = Path(__file__).resolve().parents[2] / "src" / "cellhouse" / "inside"
SECONDS = 30.0

KERNEL = """
import os, sys

NAME = "native"

def load():
    sys.path.append(os.path.dirname(__file__))
"""
HOST = """
import json, os

def prepare():
    pass

def fill_pools():
    pass

def run(sock):
    for line in sock.makefile():
        said = []
        exec(line, {"say": said.append})
        sock.send(json.dumps(said).encode() + b"\\n")
    os._exit(0)
"""


class Zygote:
    """One running zygote.py and our end of its socket. This process stands where the supervisor would."""

    def __init__(self, directory: Path, python: str, *modules: str, env: dict[str, str]) -> None:
        (directory / "native").mkdir(parents=True)
        (directory / "native" / "__init__.py").touch()
        (directory / "native" / "host.py").write_text(HOST)
        (directory / "kernel.py").write_text(KERNEL)
        (directory / "zygote.py").write_bytes((INSIDE / "zygote.py").read_bytes())
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.settimeout(SECONDS)
        self.sockets: list[socket.socket] = []
        with theirs:
            self.process = subprocess.Popen(
                [python, "-s", str(directory / "zygote.py"), str(theirs.fileno()), *modules],
                pass_fds=(theirs.fileno(),),
                stderr=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                env={"CELLHOUSE_PROCESS": "mark-00", "PYTHONDONTWRITEBYTECODE": "1", **env},
                cwd="/",
            )

    def hear(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self.control.recv(65537))
        return message

    def settled(self, modules: int) -> dict[str, Any]:
        while True:
            message = self.hear()
            if message["type"] == "ready" and len(message["modules"]) + len(message["missing"]) == modules:
                return message

    def ask(self, mark: str = "mark-01", **changes: Any) -> tuple[dict[str, Any], socket.socket]:
        ours, theirs = socket.socketpair()
        ours.settimeout(SECONDS)
        self.sockets.append(ours)
        request = {"type": "fork", "mark": mark, "env": {"MINE": mark}, "cwd": "/tmp", **changes}
        with theirs:
            descriptors = [theirs.fileno(), 1, 2]
            socket.send_fds(self.control, [json.dumps(request).encode()], descriptors)
        return self.hear(), ours

    def fork(self, mark: str = "mark-01") -> socket.socket:
        answer, sock = self.ask(mark)
        assert answer["type"] == "forked", answer
        return sock

    def close(self) -> None:
        for sock in self.sockets:
            sock.close()
        self.control.close()
        self.process.wait(SECONDS)
        assert self.process.stderr is not None
        self.process.stderr.close()


def do(sock: socket.socket, code: str) -> list[Any]:
    sock.sendall(code.encode() + b"\n")
    data = b""
    while not data.endswith(b"\n"):
        data += sock.recv(65536)
    said: list[Any] = json.loads(data)
    return said


@pytest.fixture
def subreaper() -> Iterator[None]:
    """Orphans come to this process and are waited for, as the supervisor does it."""
    import ctypes

    libc = ctypes.CDLL(None)
    libc.prctl(36, 1, 0, 0, 0)
    yield
    libc.prctl(36, 0, 0, 0, 0)


def children() -> set[int]:
    """Of this process: what a fixture of all tests has started is among them."""
    found: set[int] = set()
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it has ended meanwhile
            found.update(map(int, (thread / "children").read_text().split()))
    return found


@pytest.fixture
def make(tmp_path: Path, subreaper: None) -> Iterator[Any]:
    made: list[Zygote] = []

    def start(*modules: str, python: str = sys.executable, **env: str) -> Zygote:
        made.append(Zygote(tmp_path / f"inside{len(made)}", python, *modules, env=env))
        return made[-1]

    before = children()
    yield start
    for zygote in made:
        zygote.close()
    # Sessions have ended with their sockets: they are this process's to wait for.
    while left := children() - before:
        for pid in left:
            os.waitpid(pid, 0)


def test_it_is_written_for_python_3_9() -> None:
    for file in (INSIDE / "zygote.py", INSIDE / "bridge.py", INSIDE / "native" / "landlock.py"):
        tree = ast.parse(file.read_text(), feature_version=(3, 9))
        imported = {
            name.name.split(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.Import)
            for name in node.names
        } | {str(node.module).split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert imported <= sys.stdlib_module_names


def test_a_session_is_a_process_of_its_own(make: Any) -> None:
    zygote = make()
    assert zygote.hear() == {"type": "ready", "modules": [], "missing": {}}
    answer, sock = zygote.ask("mark-07")
    code = (
        "import os, gc, signal; say([os.getpid(), os.getppid(), os.getsid(0), os.getpgid(0), os.getcwd()]); "
        "say(os.environ['CELLHOUSE_PROCESS'] + os.environ['MINE']); say(gc.isenabled()); "
        "say(open('/proc/self/environ').read().count('CELLHOUSE_PROCESS=mark-07')); "
        "say(signal.getsignal(signal.SIGINT) is signal.default_int_handler); "
        "say(sorted(map(int, os.listdir('/proc/self/fd')))[:-1])"
    )
    identity, names, collects, shown, interrupts, descriptors = do(sock, code)
    assert identity == [answer["pid"], os.getpid(), answer["pid"], answer["pid"], "/tmp"]
    assert (names, collects, shown, interrupts) == ("mark-07mark-07", True, 1, True)
    assert len(descriptors) == 4  # 0, 1, 2 and the socket


def test_it_shows_its_own_mark_still(make: Any) -> None:
    zygote = make()
    zygote.hear()
    zygote.fork("mark-07")
    environ = Path(f"/proc/{zygote.process.pid}/environ").read_text().split("\0")
    assert "CELLHOUSE_PROCESS=mark-00" in environ


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"cwd": "/no/such/directory"}, "FileNotFoundError"),
        ({"mark": "another length"}, "RuntimeError: there is no CELLHOUSE_PROCESS of 14 characters"),
        ({"env": {"A": 1}}, "TypeError"),
    ],
)
def test_a_fork_that_is_no_session_leaves_nothing(make: Any, changes: dict[str, Any], error: str) -> None:
    zygote = make()
    zygote.hear()
    answer, sock = zygote.ask(**{"mark": "mark-01", **changes})
    assert answer["type"] == "failed"
    assert answer["error"].startswith(error)
    assert sock.recv(1) == b""
    assert do(zygote.fork(), "say(1)") == [1]


def test_what_is_secret_or_random_is_no_sessions_twice(make: Any) -> None:
    zygote = make("multiprocessing.process")
    zygote.settled(1)
    code = "import random, multiprocessing.process as p; say(random.random()); say(bytes(p.current_process().authkey).hex())"
    first, second = do(zygote.fork("mark-01"), code), do(zygote.fork("mark-02"), code)
    assert first[0] != second[0]
    assert first[1] != second[1]


def test_between_imports_it_forks(make: Any, tmp_path: Path) -> None:
    (tmp_path / "modules").mkdir()
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    (tmp_path / "modules" / "slow.py").write_text(f"open({str(fifo)!r}).read()")
    zygote = make("slow", "wave", PYTHONPATH=str(tmp_path / "modules"))
    assert zygote.hear()["type"] == "ready"
    assert zygote.hear() == {"type": "importing", "module": "slow"}
    ours, theirs = socket.socketpair()
    with theirs:
        request = {"type": "fork", "mark": "mark-01", "env": {}, "cwd": "/"}
        socket.send_fds(zygote.control, [json.dumps(request).encode()], [theirs.fileno(), 1, 2])
    fifo.write_text("")
    heard = [zygote.hear() for _ in range(3)]
    assert [message["type"] for message in heard] == ["ready", "forked", "importing"]
    assert do(ours, "import sys; say('wave' in sys.modules)") == [False]
    ours.close()


def test_what_is_no_request_is_its_end(make: Any) -> None:
    zygote = make()
    zygote.hear()
    zygote.control.send(json.dumps({"type": "dance"}).encode())
    assert select.select([zygote.control], [], [], SECONDS)[0]
    assert zygote.process.wait(SECONDS) == 1
    assert b"not a request: 'dance'" in zygote.process.stderr.read()


def test_nothing_is_imported_from_where_sessions_write(make: Any, tmp_path: Path) -> None:
    (tmp_path / "wave.py").write_text("raise SystemError('from the working directory')")
    zygote = make("wave")
    zygote.process.poll()
    assert zygote.settled(1)["modules"] == ["wave"]
    assert do(zygote.fork(), "import sys; say('' in sys.path); say('zygote' in sys.modules)") == [
        False,
        False,
    ]


def test_numpy_is_forked_without_threads_and_without_limits(make: Any) -> None:
    zygote = make("numpy", "numpy.random", python=str(find_environment().python))
    assert zygote.settled(2)["modules"] == ["numpy", "numpy.random"]
    threads = Path(f"/proc/{zygote.process.pid}/task")
    assert len(list(threads.iterdir())) == 1
    code = "import numpy, os; say(numpy.random.rand()); a = numpy.ones((512, 512)); a @ a; say(len(os.listdir('/proc/self/task')))"
    first, second = do(zygote.fork("mark-01"), code), do(zygote.fork("mark-02"), code)
    assert first[0] != second[0]
    # As many as a fresh one has, however many that is.
    fresh = subprocess.run(
        [str(find_environment().python), "-c", code.replace("say", "print")], capture_output=True, check=True
    )
    assert first[1] == second[1] == int(fresh.stdout.split()[-1])
