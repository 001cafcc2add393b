"""What every sandbox does, whatever its walls: starts processes, tells their ends, leaves nothing behind."""

import asyncio
import os
import resource
import signal
from pathlib import Path

import pytest

from cellhouse.model import FailedPrecondition, InvalidArgument
from cellhouse.sandbox import LAYERS, ProcessExit, SandboxGone, SpawnFailed, create_sandbox, remove_leftovers
from cellhouse.sandbox.pidfd import has_ended, parent_of, pidfd_open, send_signal
from cellhouse.sandbox.supervised import SupervisedSandbox
from tests.sandbox.support import (
    PYTHON,
    ROOT,
    SECONDS,
    command_of,
    descriptors,
    ended,
    hush,
    marked,
    read_line,
    read_to_end,
    run,
    run_python,
    spec,
    until,
)


async def test_output_of_both_pipes_and_success(sandbox: SupervisedSandbox) -> None:
    done = await run(sandbox, "/bin/sh", "-c", "echo out; echo err >&2")
    assert (done.out, done.err) == ("out\n", "err\n")
    assert (done.how.exit_status, done.how.signal) == (0, None)


async def test_exit_status(sandbox: SupervisedSandbox) -> None:
    done = await run(sandbox, "/bin/sh", "-c", "exit 3")
    assert (done.how.exit_status, done.how.signal) == (3, None)


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGABRT], ids=lambda n: n.name
)
async def test_death_by_signal_is_told_as_a_signal(
    sandbox: SupervisedSandbox, number: signal.Signals
) -> None:
    by_itself = await run(sandbox, "/bin/sh", "-c", f"kill -{number.value} $$")
    assert (by_itself.how.exit_status, by_itself.how.signal) == (None, number)
    assert not list(sandbox.content.iterdir()), "a core file was left"

    process = await sandbox.spawn(["/bin/sleep", "1000"], env={}, cwd="/")
    process.signal(number)
    how = await ended(process)
    hush(process)
    assert (how.exit_status, how.signal) == (None, number)


async def test_status_above_128_is_no_signal(sandbox: SupervisedSandbox) -> None:
    done = await run(sandbox, "/bin/sh", "-c", "exit 137")
    assert (done.how.exit_status, done.how.signal) == (137, None)


async def test_usage_of_an_ended_process(sandbox: SupervisedSandbox) -> None:
    done = await run_python(sandbox, "x = bytearray(200_000_000); sum(i for i in range(10**6))")
    assert done.how.cpu_seconds is not None
    assert done.how.cpu_seconds > 0
    assert done.how.peak_memory_bytes is not None
    assert done.how.peak_memory_bytes > 200_000_000


async def test_usage_of_a_live_process(sandbox: SupervisedSandbox) -> None:
    process = await sandbox.spawn(
        [str(PYTHON), "-I", "-S", "-c", "x = bytes(50_000_000) + b'1'; print(1, flush=True); input()"],
        env={},
        cwd="/",
    )
    how = await ended(process)  # input() ends at once: standard input is /dev/null
    assert process.usage() is None
    assert process.cpu_seconds() is None
    assert how.exit_status == 1
    hush(process)

    process = await sandbox.spawn(
        [
            str(PYTHON),
            "-I",
            "-S",
            "-c",
            "import signal; x = bytearray(50_000_000); print(1, flush=True); signal.pause()",
        ],
        env={},
        cwd="/",
    )
    await read_line(process.stdout_fd)
    now = process.usage()
    assert now is not None
    assert now.rss_bytes > 50_000_000
    assert (process.cpu_seconds() or 0) >= now.cpu_seconds > 0
    assert now.peak_rss_bytes is None or now.peak_rss_bytes >= now.rss_bytes
    process.signal(signal.SIGKILL)
    await ended(process)
    hush(process)


async def test_the_host_s_number_of_a_process(sandbox: SupervisedSandbox) -> None:
    process = await sandbox.spawn(["/bin/sleep", "1000"], env={}, cwd="/")
    assert command_of(process.pid) == ["/bin/sleep", "1000"]
    process.signal(signal.SIGKILL)
    await ended(process)
    hush(process)


async def test_signals_to_what_has_ended_go_nowhere(sandbox: SupervisedSandbox) -> None:
    process = await sandbox.spawn(["/bin/true"], env={}, cwd="/")
    await ended(process)
    process.signal(signal.SIGKILL)
    process.signal(signal.SIGKILL, group=True)
    hush(process)


async def test_signal_to_the_group_reaches_children(sandbox: SupervisedSandbox) -> None:
    code = """
import os, signal
signal.signal(signal.SIGUSR1, lambda *_: os.write(1, f"{name} ".encode()))
name = "leader"
if not os.fork():
    name = "child"
    os.write(1, b"up ")
while True:
    signal.pause()
"""
    process = await sandbox.spawn([str(PYTHON), "-I", "-S", "-c", code], env={}, cwd="/")
    assert await read_line(process.stdout_fd) == "up"
    process.signal(signal.SIGUSR1)
    assert await read_line(process.stdout_fd) == "leader"
    process.signal(signal.SIGUSR1, group=True)
    heard = ""
    while len(heard.split()) < 2:
        heard += await read_line(process.stdout_fd) + " "
    assert sorted(heard.split()) == ["child", "leader"]
    process.signal(signal.SIGTERM, group=True)
    assert (await ended(process)).signal == signal.SIGTERM
    hush(process)


async def test_children_die_with_their_process(sandbox: SupervisedSandbox) -> None:
    # In its group; in a group of its own; in a session of its own; in one of its own without the mark but in the session.
    code = """
import os, signal, subprocess, sys
wait = [sys.executable, "-I", "-S", "-c", "import signal; print('up', flush=True); signal.pause()"]
kids = [
    subprocess.Popen(wait),
    subprocess.Popen(wait, process_group=0) if sys.version_info >= (3, 11) else subprocess.Popen(wait, preexec_fn=os.setpgrp),
    subprocess.Popen(wait, start_new_session=True),
    subprocess.Popen(wait, env={}),
]
if not os.fork():
    os.setsid()
    if not os.fork():
        os.execv(wait[0], wait)
    os._exit(0)
signal.pause()
"""
    process = await sandbox.spawn([str(PYTHON), "-I", "-S", "-c", code], env={}, cwd="/")
    up = ""
    while up.count("up") < 5:
        up += await read_line(process.stdout_fd)
    bystander = await sandbox.spawn(["/bin/sleep", "1000"], env={}, cwd="/")
    process.signal(signal.SIGKILL)
    assert (await ended(process)).signal == signal.SIGKILL
    await read_to_end(process.stdout_fd)  # ends only when none of them holds it any more
    await read_to_end(process.stderr_fd)
    assert not bystander.exited.done()
    bystander.signal(signal.SIGKILL)
    await ended(bystander)
    hush(bystander)


async def test_a_process_that_forks_while_it_is_swept_up_is_caught(sandbox: SupervisedSandbox) -> None:
    code = """
import os, time
print("up", flush=True)
for i in range(300):
    if os.fork():
        os._exit(0)  # each generation ends at once, the next is an orphan
    os.setsid()
import signal
signal.pause()
"""
    process = await sandbox.spawn([str(PYTHON), "-I", "-S", "-c", code], env={}, cwd="/")
    await ended(process)
    await read_to_end(process.stdout_fd)
    await read_to_end(process.stderr_fd)


@pytest.mark.parametrize("name", ["SIGSTOP", "SIGTSTP"])
async def test_a_process_that_stops_itself_goes_on(sandbox: SupervisedSandbox, name: str) -> None:
    code = f"""
import os, signal
for count in range(200):
    os.kill(os.getpid(), signal.{name})
print(count)
"""
    done = await run_python(sandbox, code)
    assert (done.out, done.how.exit_status) == ("199\n", 0)


async def test_a_child_of_a_process_can_be_stopped(sandbox: SupervisedSandbox) -> None:
    # Which is the process's own affair: a shell kernel has job control.
    code = """
import os, signal, subprocess
child = subprocess.Popen(["/bin/sleep", "1000"])
child.send_signal(signal.SIGSTOP)
print(os.waitid(os.P_PID, child.pid, os.WSTOPPED).si_status == signal.SIGSTOP)
print(open(f"/proc/{child.pid}/stat").read().rpartition(")")[2].split()[0])
child.kill()
child.wait()
"""
    done = await run_python(sandbox, code)
    assert (done.out, done.how.exit_status) == ("True\nT\n", 0), done.err


async def test_a_process_gets_three_descriptors_default_signals_and_a_session_of_its_own(
    sandbox: SupervisedSandbox,
) -> None:
    code = """
import os
print(sorted(int(fd) for fd in os.listdir("/proc/self/fd"))[:4], os.readlink("/proc/self/fd/0"))
print(os.getsid(0) == os.getpid() == os.getpgrp())
status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
print(int(status["SigBlk"], 16))
"""
    done = await run_python(sandbox, code)
    # The fourth is that of the listing itself.
    assert done.out == "[0, 1, 2, 3] /dev/null\nTrue\n0\n"
    ignored = await run(sandbox, "/bin/sh", "-c", "grep SigIgn /proc/self/status")
    # The C library keeps 32 and 33 to itself; a parent that ignores them (make does) can't be undone from Python.
    of_the_c_library = 1 << 31 | 1 << 32
    assert int(ignored.out.split()[1], 16) & ~of_the_c_library == 0


async def test_the_environment_is_what_is_given_over_a_few_basics(
    sandbox: SupervisedSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CELLHOUSE_SECRET", "hunter2")
    done = await run(sandbox, "/usr/bin/env", env={"GIVEN": "a=b\nc", "LANG": "de_DE.UTF-8"})
    lines = done.out.splitlines()
    names = {line.partition("=")[0] for line in lines if "=" in line}
    assert names == {"PATH", "HOME", "LANG", "TMPDIR", "CELLHOUSE_PROCESS", "GIVEN"}
    assert "LANG=de_DE.UTF-8" in lines
    assert "hunter2" not in done.out


async def test_nobody_can_pass_for_another_process(sandbox: SupervisedSandbox) -> None:
    done = await run(sandbox, "/usr/bin/env", env={"CELLHOUSE_PROCESS": "another"})
    assert "another" not in done.out


async def test_text_that_is_no_utf8_passes_through(sandbox: SupervisedSandbox) -> None:
    odd = os.fsdecode(b"a\xff\xe4")
    done = await run_python(sandbox, "import os; print(os.environb[b'ODD'])", env={"ODD": odd})
    assert done.out == f"{os.fsencode(odd)!r}\n"


async def test_home_and_tmp_can_be_written(sandbox: SupervisedSandbox) -> None:
    done = await run(
        sandbox, "/bin/sh", "-c", 'echo a > "$HOME/a" && echo b > "$TMPDIR/b" && ls "$HOME" "$TMPDIR"'
    )
    assert done.how.exit_status == 0, done.err
    assert not list(sandbox.content.iterdir())


async def test_content_is_private_writable_and_the_same_on_both_sides(sandbox: SupervisedSandbox) -> None:
    assert sandbox.content.stat().st_mode & 0o777 == 0o700
    (sandbox.content / "in").write_text("from outside")
    done = await run(sandbox, "/bin/sh", "-c", "cat in; echo from inside > out")
    assert done.out == "from outside"
    assert (sandbox.content / "out").read_text() == "from inside\n"


async def test_runtime_dir_is_shared_and_short_enough_for_sockets(sandbox: SupervisedSandbox) -> None:
    inside = sandbox.inside_path(sandbox.runtime_dir / "kernel-0123456789" / "socket-1")
    assert len(inside) < 108
    done = await run(sandbox, "/bin/sh", "-c", f"mkdir -p {Path(inside).parent} && echo hello > {inside}")
    assert done.how.exit_status == 0, done.err
    assert (sandbox.runtime_dir / "kernel-0123456789" / "socket-1").read_text() == "hello\n"


async def test_what_can_not_be_started_is_refused_with_the_reason(sandbox: SupervisedSandbox) -> None:
    with pytest.raises(SpawnFailed, match="No such file or directory"):
        await sandbox.spawn(["/no/such/program"], env={}, cwd="/")
    with pytest.raises(SpawnFailed, match="No such file or directory"):
        await sandbox.spawn(["/bin/true"], env={}, cwd="/no/such/directory")
    with pytest.raises(SpawnFailed, match="Permission denied"):
        await sandbox.spawn(["/usr"], env={}, cwd="/")
    assert (await run(sandbox, "true")).how.exit_status == 0  # found on PATH


@pytest.mark.parametrize(
    ("argv", "env", "cwd", "message"),
    [
        (["/bin/true", "x" * 70_000], {}, "/", "65536"),
        (["/bin/true"], {"A": "x" * 70_000}, "/", "65536"),
        (["/bin/true", "a\0b"], {}, "/", "argv"),
        (["/bin/true"], {"A": "a\0b"}, "/", "env"),
        (["/bin/true"], {"A=B": "c"}, "/", "env"),
        (["/bin/true"], {"": "c"}, "/", "env"),
        (["/bin/true"], {}, "/\0", "cwd"),
        ([], {}, "/", "argv"),
        ([""], {}, "/", "argv"),
    ],
)
async def test_requests_that_no_program_can_be_started_with(
    sandbox: SupervisedSandbox, argv: list[str], env: dict[str, str], cwd: str, message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        await sandbox.spawn(argv, env=env, cwd=cwd)
    assert (await run(sandbox, "/bin/true")).how.exit_status == 0


async def test_many_at_once(sandbox: SupervisedSandbox) -> None:
    done = await asyncio.gather(*(run(sandbox, "/bin/sh", "-c", f"echo {i}; exit {i}") for i in range(40)))
    assert [(one.out, one.how.exit_status) for one in done] == [(f"{i}\n", i) for i in range(40)]


async def test_close_ends_everything(level: str, tmp_path: Path) -> None:
    sandbox = create_sandbox(level, spec(tmp_path / "state"))
    assert isinstance(sandbox, SupervisedSandbox)
    await sandbox.start()
    process = await sandbox.spawn(["/bin/sh", "-c", "setsid sleep 1000 & echo up; wait"], env={}, cwd="/")
    await read_line(process.stdout_fd)
    assert marked(sandbox.mark)
    supervisor = parent_of(process.pid)
    assert supervisor is not None
    (sandbox.content / "kept").touch()
    run_dir = sandbox.runtime_dir
    await sandbox.close()
    assert process.exited.done()
    assert await read_to_end(process.stdout_fd) == b""
    await read_to_end(process.stderr_fd)
    assert not marked(sandbox.mark)
    assert not command_of(supervisor)
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["content"]
    assert (sandbox.content / "kept").exists()
    assert not run_dir.exists()
    assert sandbox.lost.cancelled()
    await sandbox.close()
    with pytest.raises(SandboxGone, match="closed"):
        await sandbox.spawn(["/bin/true"], env={}, cwd="/")


async def test_close_survives_what_hostile_code_left_in_the_runtime_dir(level: str, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    code = f"""
import os
os.symlink({str(tmp_path / "precious")!r}, "link")
os.mkfifo("fifo")
os.mkdir("closed", 0)
for _ in range(1500):
    os.mkdir("d")
    os.chdir("d")
"""
    sandbox = create_sandbox(level, spec(tmp_path / "state"))
    assert isinstance(sandbox, SupervisedSandbox)
    async with sandbox:
        done = await run_python(sandbox, code, cwd=sandbox.inside_path(sandbox.runtime_dir))
        assert done.how.exit_status == 0, done.err
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["content"]
    assert (tmp_path / "precious" / "file").exists()


async def test_no_descriptor_is_left(level: str, tmp_path: Path) -> None:
    async def once(name: str) -> None:
        sandbox = create_sandbox(level, spec(tmp_path / name))
        assert isinstance(sandbox, SupervisedSandbox)
        async with sandbox:
            await run(sandbox, "/bin/sh", "-c", "echo 1; kill -9 $$")
            with pytest.raises(SpawnFailed):
                await sandbox.spawn(["/no/such/program"], env={}, cwd="/")
            process = await sandbox.spawn(["/bin/sleep", "1000"], env={}, cwd="/")
            hush(process)

    await once("first")  # whatever is opened once and for all
    before = descriptors()
    await once("second")
    assert descriptors() == before


@pytest.mark.parametrize("victim", ["supervisor", "launcher"])
async def test_the_loss_of_the_sandbox_is_told(level: str, tmp_path: Path, victim: str) -> None:
    sandbox = create_sandbox(level, spec(tmp_path / "state"))
    assert isinstance(sandbox, SupervisedSandbox)
    async with sandbox:
        process = await sandbox.spawn(["/bin/sh", "-c", "setsid sleep 1000 & echo up; wait"], env={}, cwd="/")
        await read_line(process.stdout_fd)
        supervisor = parent_of(process.pid)
        assert supervisor is not None
        launcher = supervisor if level == "none" else parent_of(supervisor)
        assert launcher is not None
        os.kill(supervisor if victim == "supervisor" else launcher, signal.SIGKILL)
        async with asyncio.timeout(SECONDS):
            loss = await sandbox.lost
        assert "lost" in loss.text
        how = await ended(process)
        assert how == ProcessExit()
        with pytest.raises(SandboxGone, match="lost"):
            await sandbox.spawn(["/bin/true"], env={}, cwd="/")
        await sandbox.close()
        assert not marked(sandbox.mark)
        await read_to_end(process.stdout_fd)
        await read_to_end(process.stderr_fd)


async def test_a_spawn_that_nobody_waits_for_any_more_leaves_no_process(sandbox: SupervisedSandbox) -> None:
    before = descriptors()
    for turns in range(6):  # given up before the request is sent, before it is answered, after that
        task = asyncio.create_task(sandbox.spawn(["/bin/sleep", "1000"], env={}, cwd="/"))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert (await run(sandbox, "/bin/true")).how.exit_status == 0  # answered after all of those
    await until(lambda: not marked(sandbox.mark))
    await until(lambda: descriptors() == before)
    assert not sandbox.lost.done()


async def test_a_wait_that_is_cancelled_leaves_the_process_alone(sandbox: SupervisedSandbox) -> None:
    process = await sandbox.spawn(["/bin/sleep", "1000"], env={}, cwd="/")
    waiting = asyncio.create_task(process.wait())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not process.exited.done()
    process.signal(signal.SIGTERM)
    assert (await ended(process)).signal == signal.SIGTERM
    hush(process)


async def test_when_the_service_is_killed_everything_ends(level: str, tmp_path: Path) -> None:
    code = f"""
import asyncio, signal
from pathlib import Path
from cellhouse.sandbox import create_sandbox
from tests.sandbox.support import spec, read_line

async def main():
    sandbox = create_sandbox({level!r}, spec(Path({str(tmp_path / "state")!r})))
    await sandbox.start()
    process = await sandbox.spawn(["/bin/sh", "-c", "setsid sh -c 'echo up; sleep 1000; :' & wait"], env={{}}, cwd="/")
    await read_line(process.stdout_fd)
    print(sandbox.mark, process.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""
    service = await asyncio.create_subprocess_exec(
        str(PYTHON),
        "-c",
        code,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
    )
    assert service.stdout is not None
    try:
        async with asyncio.timeout(SECONDS):
            mark, pid = (await service.stdout.readline()).decode().split()
        pidfds = [pidfd_open(found) for found in {*marked(mark), int(pid), parent_of(int(pid)) or 0}]
    finally:
        service.kill()
        await service.wait()
    assert len(pidfds) >= 3  # the supervisor, the shell, and its child
    try:
        await until(lambda: all(has_ended(pidfd) for pidfd in pidfds))
    finally:
        for pidfd in pidfds:
            send_signal(pidfd, signal.SIGKILL)
            os.close(pidfd)
    assert not marked(mark)


async def test_a_sandbox_is_started_once(sandbox: SupervisedSandbox) -> None:
    with pytest.raises(SandboxGone, match="once"):
        await sandbox.start()


async def test_nothing_works_before_the_start(level: str, tmp_path: Path) -> None:
    sandbox = create_sandbox(level, spec(tmp_path / "state"))
    assert not (tmp_path / "state").exists()
    with pytest.raises(SandboxGone, match="not been started"):
        await sandbox.spawn(["/bin/true"], env={}, cwd="/")
    with pytest.raises(SandboxGone, match="not been started"):
        _ = sandbox.report
    await sandbox.close()


async def test_the_report_names_every_layer(sandbox: SupervisedSandbox) -> None:
    assert sandbox.report.level == sandbox.level
    assert tuple(layer.name for layer in sandbox.report.layers) == LAYERS
    assert all(layer.status in ("in force", "absent") and layer.detail for layer in sandbox.report.layers)


async def test_a_layer_that_is_required_but_absent_fails_the_start(level: str, tmp_path: Path) -> None:
    sandbox = create_sandbox(level, spec(tmp_path / "state", required_layers=("landlock",)))
    with pytest.raises(FailedPrecondition, match="'landlock' can't be had") as caught:
        await sandbox.start()
    assert caught.value.reason == "ISOLATION_UNAVAILABLE"
    assert caught.value.metadata == {"isolation": level, "layer": "landlock"}
    sandbox = create_sandbox(level, spec(tmp_path / "state", required_layers=("moat",)))
    with pytest.raises(FailedPrecondition, match="'moat' is not known"):
        await sandbox.start()


async def test_a_start_that_fails_is_explained_by_what_was_said(level: str, tmp_path: Path) -> None:
    broken = tmp_path / "inside" / "init.py"
    broken.parent.mkdir()
    broken.write_text("raise SystemExit('the reason why')")
    sandbox = create_sandbox(level, spec(tmp_path / "state", supervisor=broken))
    before = descriptors()
    with pytest.raises(FailedPrecondition, match="the reason why"):
        await sandbox.start()
    assert descriptors() == before
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["content"]


async def test_an_interpreter_that_is_not_there(level: str, tmp_path: Path) -> None:
    sandbox = create_sandbox(level, spec(tmp_path / "state", python=tmp_path / "no" / "python"))
    with pytest.raises(FailedPrecondition, match="no/python"):
        await sandbox.start()


async def test_a_start_that_is_cancelled_leaves_nothing(level: str, tmp_path: Path) -> None:
    silent = tmp_path / "inside" / "init.py"
    silent.parent.mkdir()
    silent.write_text("import sys; print('up', file=sys.stderr, flush=True); import signal; signal.pause()")
    sandbox = create_sandbox(level, spec(tmp_path / "state", supervisor=silent))
    assert isinstance(sandbox, SupervisedSandbox)
    before = descriptors()
    starting = asyncio.create_task(sandbox.start())
    await until(lambda: sandbox._launcher is not None and sandbox._launcher.said() == "up")
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert descriptors() == before


async def test_a_start_that_takes_too_long(
    level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = tmp_path / "inside" / "init.py"
    silent.parent.mkdir()
    silent.write_text("import signal; signal.pause()")
    monkeypatch.setattr("cellhouse.sandbox.supervised.START_SECONDS", 0.05)
    monkeypatch.setattr("cellhouse.sandbox.supervised.CLOSE_SECONDS", 0.05)
    sandbox = create_sandbox(level, spec(tmp_path / "state", supervisor=silent))
    with pytest.raises(FailedPrecondition, match=r"was not there after 0\.05 s"):
        await sandbox.start()


async def test_what_a_killed_service_leaves_can_be_removed(level: str, tmp_path: Path) -> None:
    sandbox = create_sandbox(level, spec(tmp_path / "state"))
    assert isinstance(sandbox, SupervisedSandbox)
    async with sandbox:
        run_dir = sandbox.runtime_dir
        (run_dir / "k").mkdir()
        (sandbox.content / "kept").touch()
        remove_leftovers(tmp_path / "state")
        assert not run_dir.exists()
        assert [path.name for path in (tmp_path / "state").iterdir()] == ["content"]
        assert (sandbox.content / "kept").exists()
    remove_leftovers(tmp_path / "nothing")


def test_a_link_to_what_is_not_ours_is_removed_without_it(tmp_path: Path) -> None:
    (tmp_path / "cellhouse-other").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "cellhouse-other")
    (tmp_path / "tmp").symlink_to("/tmp/cellhouse-is-not-there")
    remove_leftovers(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["cellhouse-other"]


async def test_closed_while_it_starts(level: str, tmp_path: Path) -> None:
    before = descriptors()
    for turns in range(4):
        sandbox = create_sandbox(level, spec(tmp_path / f"state-{turns}"))
        starting = asyncio.create_task(sandbox.start())
        for _ in range(turns):
            await asyncio.sleep(0)
        await sandbox.close()
        with pytest.raises(SandboxGone):
            await starting
    assert descriptors() == before


async def test_no_descriptor_is_left_to_have(sandbox: SupervisedSandbox) -> None:
    before = descriptors()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    for more in range(4):  # none, then too few
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free + more, hard))
        try:
            with pytest.raises(SpawnFailed, match="Too many open files"):
                await sandbox.spawn(["/bin/true"], env={}, cwd="/")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert descriptors() == before
    assert (await run(sandbox, "/bin/true")).how.exit_status == 0
