"""A process that another one forked, adopted: it ends for itself, and so do those beside it and the one it came from."""

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cellhouse.sandbox import SandboxGone, SandboxProcess, SpawnFailed
from cellhouse.sandbox.base import INSIDE_DIR
from cellhouse.sandbox.pidfd import children_of
from cellhouse.sandbox.supervised import SupervisedSandbox
from tests.sandbox.support import PYTHON, SECONDS, command_of, descriptors, ended, hush, until

# A zygote whose sessions are told what to do, line by line.
KERNEL = """
import os, sys

NAME = "native"

def load():
    sys.path.append(os.path.dirname(__file__))
"""
HOST = """
import os

def prepare():
    pass

def fill_pools():
    pass

def run(sock):
    sock.send(b"up\\n")
    for line in sock.makefile():
        said = []
        exec(line, {"sock": sock, "say": said.append})
        sock.send(f"{' '.join(map(str, said))}\\n".encode())
    os._exit(7)
"""


class Session:
    def __init__(self, process: SandboxProcess, sock: socket.socket) -> None:
        self.process = process
        self.sock = sock

    async def hear(self) -> str:
        async with asyncio.timeout(SECONDS):
            return (await asyncio.get_running_loop().sock_recv(self.sock, 4096)).decode()

    async def do(self, line: str) -> str:
        """Have it do this; what it said with `say`."""
        await asyncio.get_running_loop().sock_sendall(self.sock, line.encode() + b"\n")
        return (await self.hear()).strip()


class Family:
    """A zygote in a sandbox and what it forked."""

    def __init__(self, sandbox: SupervisedSandbox) -> None:
        self.sandbox = sandbox
        self.control, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.setblocking(False)
        self.sessions: list[Session] = []
        self.process: SandboxProcess | None = None

    async def start(self) -> None:
        sandbox = self.sandbox
        inside = sandbox.content / "inside"
        (inside / "native").mkdir(parents=True)
        (inside / "native" / "__init__.py").touch()
        (inside / "native" / "host.py").write_text(HOST)
        (inside / "kernel.py").write_text(KERNEL)
        (inside / "zygote.py").write_bytes((INSIDE_DIR / "zygote.py").read_bytes())
        with self._theirs:
            self.process = await sandbox.spawn(
                [str(PYTHON), "-s", sandbox.inside_path(inside / "zygote.py"), "3"],
                env={},
                cwd=sandbox.inside_path(sandbox.content),
                descriptors=[self._theirs.fileno()],
            )
        assert (await self.hear())["type"] == "ready"

    async def hear(self) -> dict[str, object]:
        async with asyncio.timeout(SECONDS):
            data = await asyncio.get_running_loop().sock_recv(self.control, 65536)
        message: dict[str, object] = json.loads(data)
        return message

    async def fork(self) -> tuple[int, str, socket.socket]:
        """A fork that is not adopted yet: its number inside, its mark, our end of its socket."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        mark = self.sandbox.new_mark()
        request = {
            "type": "fork",
            "mark": mark,
            "env": {"GREETING": "hello"},
            "cwd": self.sandbox.inside_path(self.sandbox.content),
        }
        null = os.open(os.devnull, os.O_WRONLY)
        socket.send_fds(self.control, [json.dumps(request).encode()], [theirs.fileno(), null, null])
        theirs.close()
        os.close(null)
        answer = await self.hear()
        assert answer["type"] == "forked", answer
        pid = answer["pid"]
        assert isinstance(pid, int)
        return pid, mark, ours

    async def session(self) -> Session:
        pid, mark, sock = await self.fork()
        session = Session(await self.sandbox.adopt(pid, mark=mark), sock)
        self.sessions.append(session)
        assert await session.hear() == "up\n"
        return session

    def close(self) -> None:
        self.control.close()
        self._theirs.close()
        for session in self.sessions:
            session.sock.close()
        if self.process is not None:
            hush(self.process)


@pytest.fixture
async def family(sandbox: SupervisedSandbox) -> AsyncIterator[Family]:
    made = Family(sandbox)
    try:
        await made.start()
        yield made
    finally:
        made.close()


def alive(process: SandboxProcess) -> bool:
    return process.usage() is not None


async def test_an_adopted_process_from_start_to_end(family: Family) -> None:
    session = await family.session()
    assert command_of(session.process.pid)[2].endswith("zygote.py")
    assert session.process.stdout_fd == session.process.stderr_fd == -1
    usage = session.process.usage()
    assert usage is not None
    assert usage.rss_bytes > 0
    session.sock.shutdown(socket.SHUT_WR)
    how = await ended(session.process)
    assert (how.exit_status, how.signal) == (7, None)
    assert how.peak_memory_bytes is not None
    assert how.peak_memory_bytes > 0


async def test_its_end_by_a_signal_is_told(family: Family) -> None:
    session = await family.session()
    session.process.signal(signal.SIGSEGV, group=True)
    assert (await ended(session.process)).signal == signal.SIGSEGV


@pytest.mark.parametrize(
    "leave",
    [
        "import os, signal; os.fork() or (sock.detach(), signal.pause())",
        "import os, signal; os.fork() or (os.setsid(), signal.pause())",
        "import os, signal; os.fork() or (os.setsid(), os.fork() and os._exit(0), signal.pause())",
        "import subprocess; subprocess.Popen(['sleep', '1000'], start_new_session=True)",
        "import os; os.system('(setsid sleep 1000 &)')",
    ],
)
async def test_its_end_is_that_of_what_it_left_and_of_no_other(family: Family, leave: str) -> None:
    first, second = await family.session(), await family.session()
    await second.do("import os, subprocess; subprocess.Popen(['sleep', '1000'], start_new_session=True)")
    init = family.sandbox._init_pid
    assert family.process is not None
    before = set(children_of(init)) | set(children_of(second.process.pid))
    await first.do(leave)
    first.process.signal(signal.SIGKILL)
    assert (await ended(first.process)).signal == signal.SIGKILL
    await until(
        lambda: set(children_of(init)) | set(children_of(second.process.pid)) == before - {first.process.pid}
    )
    assert await second.do("say(1)") == "1"
    assert alive(family.process)
    assert await (await family.session()).do("say(1)") == "1"


async def test_the_end_of_the_zygote_is_not_that_of_its_sessions(family: Family) -> None:
    session = await family.session()
    await session.do("import os, signal; os.fork() or (os.setsid(), signal.pause())")
    pid, mark, sock = await family.fork()  # told of, but not adopted yet
    assert family.process is not None
    family.process.signal(signal.SIGKILL, group=True)
    await ended(family.process)
    late = Session(await family.sandbox.adopt(pid, mark=mark), sock)
    family.sessions.append(late)
    assert await late.hear() == "up\n"
    assert len(children_of(session.process.pid)) == 1
    for one in (session, late):
        assert await one.do("say(1)") == "1"
        one.process.signal(signal.SIGKILL)
        assert (await ended(one.process)).signal == signal.SIGKILL
    init = family.sandbox._init_pid
    await until(lambda: not children_of(init))


async def test_what_it_starts_carries_its_mark_and_not_the_zygotes(family: Family) -> None:
    session = await family.session()
    code = "import os; say(os.environ['CELLHOUSE_PROCESS']); say(os.environ['GREETING']); say(os.popen('echo $CELLHOUSE_PROCESS').read().strip())"
    own, greeting, its = (await session.do(code)).split()
    assert own == its
    assert greeting == "hello"
    assert own.startswith(family.sandbox.mark)
    assert f"CELLHOUSE_PROCESS={own}" in Path(f"/proc/{session.process.pid}/environ").read_text().split("\0")


async def test_what_can_not_be_adopted(family: Family) -> None:
    session = await family.session()
    inside = int(await session.do("import os; say(os.getpid())"))
    child = int(
        await session.do(
            "import os, signal; pid = os.fork(); pid or (sock.detach(), signal.pause()); say(pid)"
        )
    )
    for pid, error in (
        (inside, "known already"),  # it is what it is, to its own mark
        (child, "No child"),
        (1, "No child"),
        (999_999_999, "No child"),
    ):
        with pytest.raises(SpawnFailed, match=error):
            await family.sandbox.adopt(pid, mark=family.sandbox.new_mark())
    assert await session.do("say(1)") == "1"


async def test_an_orphan_that_leads_no_session_is_not_adopted(family: Family) -> None:
    session = await family.session()
    code = "import os, signal; r, w = os.pipe(); os.fork() or (os.fork() and os._exit(0), os.write(w, b'%d' % os.getpid()), signal.pause()); say(int(os.read(r, 9)))"
    pid = int(await session.do(code))
    init = family.sandbox._init_pid
    await until(lambda: len(children_of(init)) == 3)  # the zygote, the session, the orphan
    with pytest.raises(SpawnFailed, match="does not lead a session"):
        await family.sandbox.adopt(pid, mark=family.sandbox.new_mark())


async def test_after_the_end_nothing_is_adopted(family: Family) -> None:
    pid, mark, sock = await family.fork()
    with sock:
        await family.sandbox.close()
        with pytest.raises(SandboxGone):
            await family.sandbox.adopt(pid, mark=mark)


async def test_descriptors_come_to_stand_in_their_order(sandbox: SupervisedSandbox) -> None:
    before = descriptors()
    pipes = [os.pipe() for _ in range(8)]
    code = "import os\nprint(sorted(map(int, os.listdir('/proc/self/fd')))[:-1], flush=True)\nfor n in range(1, 9): os.write(n, b'%d' % n)"
    ends = [end for _, end in pipes]
    for given in (ends, ends[::-1]):
        process = await sandbox.spawn(
            [str(PYTHON), "-I", "-S", "-c", code],
            env={},
            cwd="/",
            output=(given[0], given[1]),
            descriptors=given[2:],
        )
        assert (process.stdout_fd, process.stderr_fd) == (-1, -1)
        assert (await ended(process)).exit_status == 0
        reads = [pipes[ends.index(end)][0] for end in given]
        assert os.read(reads[0], 100) == b"[0, 1, 2, 3, 4, 5, 6, 7, 8]\n1"
        assert [os.read(end, 100) for end in reads[1:]] == [b"%d" % n for n in range(2, 9)]
    for pair in pipes:
        for end in pair:
            os.close(end)
    assert descriptors() == before
