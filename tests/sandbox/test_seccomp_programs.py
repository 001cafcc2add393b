"""What people run works under the filter of system calls."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from cellhouse.environments import Environment
from cellhouse.sandbox.registry import create_sandbox
from cellhouse.sandbox.supervised import SupervisedSandbox
from tests.sandbox.support import Done, run, spec

pytestmark = pytest.mark.asyncio(loop_scope="module")

PROGRAMS = {
    "subprocess": """
import subprocess
assert subprocess.run(["/bin/sh", "-c", "echo $((1 + 1)) | cat"], capture_output=True, text=True).stdout == "2\\n"
assert subprocess.run(["/bin/true"], close_fds=False).returncode == 0  # by posix_spawn or vfork
""",
    "threads": """
import threading
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(8) as pool:
    assert sum(pool.map(lambda n: n, range(1000))) == 499500
""",
    "asyncio": """
import asyncio
async def main():
    server = await asyncio.start_server(lambda r, w: (w.write(b"hello"), w.close()), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    assert await reader.read() == b"hello"
    writer.close()
    process = await asyncio.create_subprocess_exec("/bin/echo", "x", stdout=asyncio.subprocess.PIPE)
    assert (await process.communicate())[0] == b"x\\n"
    assert await asyncio.to_thread(lambda: 7) == 7
    server.close()
asyncio.run(main())
""",
    "sqlite": """
import sqlite3
with sqlite3.connect("/content/a.db") as base:
    base.execute("pragma journal_mode=wal")
    base.execute("create table t (x)")
    base.executemany("insert into t values (?)", [(n,) for n in range(1000)])
assert base.execute("select sum(x) from t").fetchone() == (499500,)
""",
    "faulthandler": """
import faulthandler, os, signal, subprocess, sys
done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", "import ctypes; ctypes.string_at(0)"], capture_output=True)
assert done.returncode == -signal.SIGSEGV and b"Current thread" in done.stderr, done
""",
    "files": """
import mmap, os, shutil, tempfile
os.mkfifo("/content/fifo")
with tempfile.TemporaryFile(dir="/content") as file:
    file.write(bytes(8192))
    file.flush()
    with mmap.mmap(file.fileno(), 8192) as mapped:
        mapped[0] = 1
open("/content/a", "w").close()
os.chmod("/content/a", 0o1755)
shutil.copy2("/content/a", "/content/b")
os.link("/content/a", "/content/c")
os.symlink("a", "/content/d")
os.sched_setaffinity(0, os.sched_getaffinity(0))
os.nice(1)
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, resource.getrlimit(resource.RLIMIT_NOFILE))
assert resource.prlimit(os.getpid(), resource.RLIMIT_CORE) == (0, 0)
""",
    "numpy": """
import numpy
a = numpy.random.default_rng(0).random((500, 500))
numpy.testing.assert_allclose(numpy.linalg.inv(a) @ a, numpy.eye(500), atol=1e-6)
m = numpy.memmap("/content/m", dtype="u1", mode="w+", shape=(4096,))
m[:] = 1
m.flush()
""",
    "pandas": """
import pandas
frame = pandas.DataFrame({"a": range(100), "b": list("xy") * 50})
frame.to_csv("/content/f.csv")
assert pandas.read_csv("/content/f.csv").groupby("b").a.sum().to_dict() == {"x": 2450, "y": 2500}
""",
    "matplotlib": """
import matplotlib
matplotlib.use("agg")
from matplotlib import pyplot
pyplot.plot([1, 2]); pyplot.savefig("/content/p.png"); pyplot.savefig("/content/p.svg")
assert open("/content/p.png", "rb").read(4) == b"\\x89PNG"
""",
    "zmq": """
import zmq
context = zmq.Context()
asking, answering = context.socket(zmq.REQ), context.socket(zmq.REP)
asking.connect("tcp://127.0.0.1:%d" % answering.bind_to_random_port("tcp://127.0.0.1"))
asking.send(b"x")
answering.send(answering.recv())
assert asking.recv() == b"x"
context.destroy()
""",
    "terminal": """
import os, pty
pid, master = pty.fork()
if pid == 0:
    os.execv("/bin/sh", ["sh", "-c", "stty size; echo done"])
text = b""
try:
    while b"done" not in text:
        text += os.read(master, 100)
except OSError:
    pass
assert b"done" in text, text
os.waitpid(pid, 0)
""",
    "pip": """
import subprocess, sys
assert subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode == 0
""",
}
# Run from a file: what is spawned reads it again.
MULTIPROCESSING = """
import multiprocessing, sys

def double(queue, lock, value):
    with lock:
        queue.put(2 * value)

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    queue, lock = context.Queue(), context.Lock()
    processes = [context.Process(target=double, args=(queue, lock, n)) for n in range(3)]
    for process in processes:
        process.start()
    assert sorted(queue.get() for _ in processes) == [0, 2, 4]
    for process in processes:
        process.join()
        assert process.exitcode == 0
    from multiprocessing.shared_memory import SharedMemory
    shared = SharedMemory(create=True, size=4096)
    shared.buf[0] = 1
    shared.close()
    shared.unlink()
"""
NEEDS = ("numpy", "pandas", "matplotlib", "zmq", "pip")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def box(
    environment: Environment, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[SupervisedSandbox, str]]:
    """Walls with the kernel environment, and its interpreter."""
    prefixes = (environment.prefix, *environment.base_prefixes)
    made = create_sandbox(
        "bubblewrap",
        spec(tmp_path_factory.mktemp("programs") / "s", python=environment.python, read_only=prefixes),
    )
    assert isinstance(made, SupervisedSandbox)
    async with made:
        assert {layer.name: layer.status for layer in made.report.layers}["seccomp"] == "in force"
        yield made, str(environment.python)


def went_well(done: Done) -> None:
    assert done.how.exit_status == 0, done.out + done.err


@pytest.mark.parametrize("name", PROGRAMS)
async def test_python(box: tuple[SupervisedSandbox, str], name: str) -> None:
    sandbox, python = box
    if name in NEEDS:
        found = await run(
            sandbox, python, "-c", f"import importlib.util; print(importlib.util.find_spec({name!r}) is None)"
        )
        if found.out == "True\n":
            pytest.skip(f"the kernel environment has no {name}")
    went_well(await run(sandbox, python, "-c", PROGRAMS[name]))


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
async def test_multiprocessing(box: tuple[SupervisedSandbox, str], method: str) -> None:
    sandbox, python = box
    Path(sandbox.content, "many.py").write_text(MULTIPROCESSING)
    went_well(await run(sandbox, python, "/content/many.py", method))


async def test_gcc(box: tuple[SupervisedSandbox, str]) -> None:
    if not (gcc := shutil.which("gcc")) or not gcc.startswith("/usr/"):
        pytest.skip("this machine has no gcc under /usr")
    sandbox, _ = box
    Path(sandbox.content, "a.c").write_text('#include <stdio.h>\nint main(void) { puts("built"); }\n')
    done = await run(sandbox, "/bin/sh", "-c", "gcc -O2 -o /content/a.out /content/a.c && /content/a.out")
    assert done.out == "built\n", done.err


async def test_git(box: tuple[SupervisedSandbox, str]) -> None:
    if not (git := shutil.which("git")) or not git.startswith("/usr/"):
        pytest.skip("this machine has no git under /usr")
    sandbox, _ = box
    script = """
set -e
git init -q /content/r && cd /content/r
echo text > file && git add file
git -c user.name=a -c user.email=a@b commit -qm first
git clone -q /content/r /content/r2 && cat /content/r2/file
"""
    done = await run(sandbox, "/bin/sh", "-c", script)
    assert done.out == "text\n", done.err
