"""What stands on the host for a probe to reach: files, listeners, a process, another runtime."""

import asyncio
import contextlib
import ctypes
import json
import os
import secrets
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cellhouse.sandbox.registry import create_sandbox
from cellhouse.sandbox.seccomp import MACHINES
from cellhouse.sandbox.supervised import SupervisedSandbox
from tests.attacks.probes import PLAIN, ROOT, UNSHARED, Probe
from tests.sandbox.support import PYTHON, ended, hush, read_line, run, spec

NEEDLE = "a-needle-of-another-s"
SECONDS = 20.0
IPC_CREAT_NEW, IPC_RMID = 0o3000, 0
UNSHARE = (
    "unshare",
    "--user",
    "--map-root-user",
    "--mount",
    "--net",
    "--ipc",
    "--uts",
    "--pid",
    "--fork",
    "--kill-child",
)

# Lets itself be traced, so that it is the walls and no setting of the host's that keeps a probe away.
VICTIM = """
import ctypes, os, signal
ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1))
print("up", flush=True)
signal.pause()
"""


@dataclass(frozen=True)
class Host:
    """`args` are told to every probe; `walls` is where it is tried."""

    walls: SupervisedSandbox
    args: dict[str, Any]
    directory: Path

    async def inside(self, probe: Probe) -> str:
        """What became of a probe in the sandbox."""
        args = {**self.args, "walled": True, "target": 1, "scratch": f"/content/{probe.name}"}
        done = await run(
            self.walls, str(PYTHON), "-I", "-S", "-c", probe.source, env={"PROBE": json.dumps(args)}
        )
        return verdict(-done.how.signal if done.how.signal else done.how.exit_status, done.out, done.err)

    def outside(self, probe: Probe) -> str:
        """What becomes of it where nothing is round it."""
        place = self.directory / probe.name
        place.mkdir()
        args = {**self.args, "walled": False, "target": self.args["victim"], "scratch": str(place / "x")}
        prefix = {PLAIN: (), ROOT: (), UNSHARED: UNSHARE}[probe.place]
        done = subprocess.run(
            [*prefix, str(PYTHON), "-I", "-S", "-c", probe.source],
            env={"PROBE": json.dumps(args), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
            cwd=place,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        return verdict(done.returncode, done.stdout, done.stderr)


def verdict(status: int | None, out: str, err: str) -> str:
    if status is not None and status < 0:
        return signal.Signals(-status).name
    lines = out.splitlines()
    assert lines, f"the probe said nothing, status {status}: {err}"
    said = json.loads(lines[-1])
    assert isinstance(said, str)
    return said


def address() -> str:
    """An address of this machine other than its loopback's; "" where it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as looking:
        try:
            looking.connect(("192.0.2.1", 9))
        except OSError:
            return ""
        return str(looking.getsockname()[0])


def disk() -> str:
    """A block device of this machine; "" where it has none."""
    return next((entry.name for entry in sorted(Path("/dev").iterdir()) if entry.is_block_device()), "")


def six(stack: contextlib.ExitStack | contextlib.AsyncExitStack) -> int:
    """The port of a listener on the loopback of IPv6; 0 where this machine has none."""
    try:
        listener = socket.create_server(("::1", 0), family=socket.AF_INET6, backlog=64)
    except OSError:
        return 0
    stack.enter_context(listener)
    return int(listener.getsockname()[1])


@contextlib.contextmanager
def shared_segment() -> Iterator[int]:
    """The key of a segment of shared memory that anybody may use."""
    libc = ctypes.CDLL(None, use_errno=True)
    key = secrets.randbelow(2**30) + 1
    number = libc.shmget(key, ctypes.c_size_t(4096), IPC_CREAT_NEW | 0o666)
    assert number >= 0, os.strerror(ctypes.get_errno())
    try:
        yield key
    finally:
        libc.shmctl(number, IPC_RMID, None)


@contextlib.asynccontextmanager
async def standing(directory: Path) -> AsyncIterator[Host]:
    """A sandbox, and everything that is to be out of its reach."""
    async with contextlib.AsyncExitStack() as stack:
        secret = directory / "secret"
        secret.write_text("precious")
        loop = asyncio.get_running_loop()
        abstract = f"cellhouse-probe-{os.getpid()}-{id(stack)}"
        everywhere = stack.enter_context(socket.create_server(("0.0.0.0", 0), backlog=64))
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=64))
        for name in (f"\0{abstract}", str(directory / "socket")):
            local = stack.enter_context(socket.socket(socket.AF_UNIX))
            local.bind(name)
            local.listen(64)
        datagrams = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        datagrams.bind(f"\0{abstract}-d")
        shm = Path("/dev/shm", abstract)
        shm.write_text("precious")
        stack.callback(shm.unlink)
        listener_6 = six(stack)
        segment = stack.enter_context(shared_segment())
        answering = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        answering.bind(("127.0.0.1", 0))
        answer = f"""
import socket
sock = socket.socket(fileno={answering.fileno()})
while True:
    data, peer = sock.recvfrom(512)
    sock.sendto(data, peer)
"""
        answerer = subprocess.Popen([str(PYTHON), "-I", "-S", "-c", answer], pass_fds=(answering.fileno(),))
        victim = subprocess.Popen(
            [str(PYTHON), "-I", "-S", "-c", VICTIM],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env={"SECRET": NEEDLE},
        )
        for process in (answerer, victim):
            stack.callback(process.wait, SECONDS)
            stack.callback(process.kill)
        assert victim.stdout is not None
        stack.enter_context(victim.stdout)
        assert await loop.run_in_executor(None, victim.stdout.readline) == b"up\n"
        other = create_sandbox("bubblewrap", spec(directory / "other"))
        walls = create_sandbox("bubblewrap", spec(directory / "walls"))
        assert isinstance(other, SupervisedSandbox)
        assert isinstance(walls, SupervisedSandbox)
        await stack.enter_async_context(other)
        await stack.enter_async_context(walls)
        (other.content / "file").write_text("another's")
        neighbour = await other.spawn(
            ["/bin/sh", "-c", "echo up; exec sleep 1000"], env={"SECRET": NEEDLE}, cwd="/"
        )
        assert await read_line(neighbour.stdout_fd) == "up"
        stack.push_async_callback(ended, neighbour)
        stack.callback(neighbour.signal, signal.SIGKILL)
        hush(neighbour)
        args = {
            "calls": MACHINES[os.uname().machine].numbers,
            "secret_file": str(secret),
            "other_file": str(other.content / "file"),
            "needle": NEEDLE,
            "victim": victim.pid,
            "tcp": listener.getsockname()[1],
            "tcp_all": everywhere.getsockname()[1],
            "udp": answering.getsockname()[1],
            "abstract": abstract,
            "socket": str(directory / "socket"),
            "address": address(),
            "disk": disk(),
            "uid": os.geteuid(),
            "tcp_6": listener_6,
            "shm": abstract,
            "segment": segment,
        }
        yield Host(walls, args, directory)
