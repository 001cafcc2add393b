"""A sandbox of a service that is root: whom its processes are on the host, what is theirs, what the host sees of it."""

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cellhouse.files import HostileDir
from cellhouse.model import MIB, CallReason, FailedPrecondition, ResourceExhausted, WallLimits
from cellhouse.sandbox import IN_FORCE, UidRange, create_sandbox, owner_of, remove_leftovers
from cellhouse.sandbox.privileged import command, uids
from cellhouse.sandbox.supervised import SupervisedSandbox
from tests.sandbox.support import PREFIXES, PYTHON, ROOT, read_line, run, run_python, spec, until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a runtime a uid")

UIDS = UidRange(59_930, 59_979)
# Outside of the usual range, from which every other test takes; and each that looks for one uid has its own.
LAST = UidRange(59_980, 59_980)
KILLED = UidRange(59_981, 59_981)
LIMITS = WallLimits(memory=256 * MIB, content=32 * MIB, processes=48)


def made(state: Path, **changes: object) -> SupervisedSandbox:
    sandbox = create_sandbox("bubblewrap", spec(state, **{"uids": UIDS, "limits": LIMITS, **changes}))
    assert isinstance(sandbox, SupervisedSandbox)
    return sandbox


@pytest.fixture
async def owned(tmp_path: Path) -> AsyncIterator[SupervisedSandbox]:
    sandbox = made(tmp_path / "state")
    async with sandbox:
        yield sandbox


def uid_of(sandbox: SupervisedSandbox) -> int:
    assert sandbox._identity is not None
    return sandbox._identity.uid


def status(pid: int) -> dict[str, list[str]]:
    text = Path(f"/proc/{pid}/status").read_text()
    return {line.partition(":")[0]: line.partition(":")[2].split() for line in text.splitlines()}


def locks() -> set[str]:
    return {path.name for path in Path("/run/cellhouse/uids").iterdir()}


async def test_its_processes_are_one_uid_that_is_nobody_else_s(owned: SupervisedSandbox) -> None:
    uid = uid_of(owned)
    assert uid in UIDS
    process = await owned.spawn(
        [str(PYTHON), "-c", "import signal; print('up', flush=True); signal.pause()"], env={}, cwd="/"
    )
    assert await read_line(process.stdout_fd) == "up"
    assert owned._launcher is not None
    for pid in (owned._launcher.pid, owned._init_pid, process.pid):
        found = status(pid)
        assert (found["Uid"], found["Gid"], found["Groups"]) == ([str(uid)] * 4, [str(uid)] * 4, [])
        assert (found["NoNewPrivs"], int(found["CapEff"][0], 16), int(found["CapBnd"][0], 16)) == (
            ["1"],
            0,
            0,
        )
    process.signal(9)
    await process.wait()
    for descriptor in (process.stdout_fd, process.stderr_fd):
        os.close(descriptor)
    layer = next(layer for layer in owned.report.layers if layer.name == "uid")
    who = f"uid {uid} and gid {uid} of the host are this runtime's alone; no other group"
    read = "what its kernels say is read by root, as in every house that is not a service's"
    assert (layer.status, layer.detail) == (IN_FORCE, f"{who}; {read}")
    assert str(uid) in locks()


async def test_what_is_left_in_content_is_the_service_s(tmp_path: Path) -> None:
    async with made(tmp_path / "state") as sandbox:
        assert (await run_python(sandbox, "open('mine', 'w').write('x')")).how.exit_status == 0
    content = tmp_path / "state" / "content"
    assert content.stat().st_uid == 0
    assert content.stat().st_mode & 0o077 == 0
    assert (content / "mine").read_text() == "x"


async def test_two_that_live_have_two(owned: SupervisedSandbox, tmp_path: Path) -> None:
    async with made(tmp_path / "other") as other:
        uid = uid_of(other)
        assert uid != uid_of(owned)
    assert str(uid) not in locks()


async def test_what_is_in_content_is_its_own(owned: SupervisedSandbox) -> None:
    owner = owner_of(owned.content)
    assert owner == (uid_of(owned), uid_of(owned))
    done = await run_python(owned, "open('mine', 'w').write('x'); print(open('/proc/mounts').read())")
    assert done.how.exit_status == 0, done.err
    assert (owned.content / "mine").stat().st_uid == uid_of(owned)
    with HostileDir.open(owned.content, owner=owner) as content:
        content.subdir("deep/down", create=True).close()
        content.create("deep/down/given", [b"given"])
    code = "import os; print(open('deep/down/given').read()); os.unlink('deep/down/given'); os.removedirs('deep/down')"
    done = await run_python(owned, code)
    assert (done.out, done.how.exit_status) == ("given\n", 0), done.err
    found = stat.S_IMODE(owned.content.stat().st_mode)
    assert found == 0o700


async def test_what_stood_in_content_before_becomes_its_own(tmp_path: Path) -> None:
    content = tmp_path / "state" / "content"
    (content / "a" / "b").mkdir(parents=True, mode=0o700)
    (content / "a" / "b" / "file").write_text("before")
    (content / "a" / "link").symlink_to("/etc/passwd")
    before = Path("/etc/passwd").stat()
    for limits in (None, LIMITS):  # the second time it is another uid's
        async with made(tmp_path / "state", limits=limits) as sandbox:
            done = await run_python(sandbox, "f = open('a/b/file', 'r+'); print(f.read()); f.write('!')")
            assert done.how.exit_status == 0, done.err
    assert (content / "a" / "b" / "file").read_text() == "before!!"
    assert Path("/etc/passwd").stat().st_uid == before.st_uid


async def test_what_it_is_handed_can_be_opened_again(owned: SupervisedSandbox) -> None:
    code = "open('/dev/stdout', 'w').write('out'); open('/proc/self/fd/2', 'w').write('err')"
    done = await run_python(owned, code)
    assert (done.out, done.err) == ("out", "err")


async def test_nothing_of_its_view_is_the_host_s(owned: SupervisedSandbox) -> None:
    assert owned._launcher is not None
    inner = Path(f"/proc/{owned._launcher.pid}/mountinfo").read_text()
    assert f" {uids.RUN / command.VIEW}/0 " in inner
    assert f" {uids.RUN / command.VIEW}" not in Path("/proc/self/mountinfo").read_text()
    assert list((uids.RUN / command.VIEW).iterdir()) == []
    # Inside, not even the place is left.
    done = await run_python(owned, "import os; print(os.listdir('/run'), open('/proc/self/mounts').read())")
    assert "view" not in done.out


async def test_in_its_view_only_its_own_can_be_written(owned: SupervisedSandbox) -> None:
    assert owned._launcher is not None
    writable = [
        line.split()[4]
        for line in Path(f"/proc/{owned._launcher.pid}/mountinfo").read_text().splitlines()
        if line.split()[4].startswith(f"{uids.RUN / command.VIEW}") and "rw" in line.split()[5].split(",")
    ]
    assert len(writable) == 2
    for place in writable:
        assert Path(f"/proc/{owned._launcher.pid}/root{place}").stat().st_uid == uid_of(owned)


async def test_its_processes_are_counted_apart(owned: SupervisedSandbox, tmp_path: Path) -> None:
    done = await run_python(owned, "import resource; print(resource.getrlimit(resource.RLIMIT_NPROC))")
    assert done.out == "(48, 48)\n"


async def test_a_range_that_is_all_taken(tmp_path: Path) -> None:
    one = LAST
    async with made(tmp_path / "first", uids=one):
        with pytest.raises(
            ResourceExhausted, match=r"uid of its own.*none of the uids 59980-59980"
        ) as caught:
            await made(tmp_path / "second", uids=one).start()
        assert caught.value.metadata["limit"] == "uids"
        assert not (tmp_path / "second" / "run").exists()
    async with made(tmp_path / "second", uids=one) as second:
        assert uid_of(second) == LAST.last


@pytest.fixture
def unmapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service whose user namespace has but one uid."""
    (tmp_path / "map").write_text("0 1000 1\n")
    monkeypatch.setattr(uids, "MAPS", (tmp_path / "map",))


@pytest.mark.usefixtures("unmapped")
async def test_where_there_are_no_such_uids_the_report_says_so(tmp_path: Path) -> None:
    async with made(tmp_path / "state", uids=None) as sandbox:
        layer = next(layer for layer in sandbox.report.layers if layer.name == "uid")
        assert layer.status == "absent"
        assert layer.detail.startswith(
            "shared host uid 0, that of the service: the uids 60706-61183 are not all mapped"
        )
        assert "give its container at least 65,536 uids" in layer.detail
        assert (await run(sandbox, "/bin/echo", "well")).out == "well\n"


@pytest.mark.usefixtures("unmapped")
@pytest.mark.parametrize("asked", [{"uids": UIDS}, {"uids": None, "required_layers": ("uid",)}], ids=str)
async def test_where_there_are_no_such_uids_and_they_were_asked_for_there_is_no_sandbox(
    tmp_path: Path, asked: dict[str, object]
) -> None:
    with pytest.raises(FailedPrecondition, match="not all mapped") as caught:
        await made(tmp_path / "state", **asked).start()
    assert (caught.value.reason, caught.value.metadata["layer"]) == (CallReason.ISOLATION_UNAVAILABLE, "uid")


async def test_closed_while_it_takes_its_uid(tmp_path: Path) -> None:
    before = locks()
    for _ in range(3):
        sandbox = made(tmp_path / "state")
        starting = asyncio.ensure_future(sandbox.start())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await sandbox.close()
        await asyncio.wait([starting])
        assert starting.exception() is not None
    assert not {uid for uid in locks() - before if int(uid) in set(UIDS)}


VICTIM = f"""
import asyncio, sys
from pathlib import Path
from cellhouse.sandbox import UidRange, create_sandbox
from tests.sandbox.support import spec

async def main():
    sandbox = create_sandbox("bubblewrap", spec(Path(sys.argv[1]), uids=UidRange({KILLED.first}, {KILLED.last})))
    await sandbox.start()
    await sandbox.spawn(["/bin/sleep", "1000"], env={{}}, cwd="/")
    print("up", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_the_uid_of_a_service_that_was_killed_comes_back(tmp_path: Path) -> None:
    victim = await asyncio.create_subprocess_exec(
        sys.executable, "-c", VICTIM, str(tmp_path / "dead"), stdout=asyncio.subprocess.PIPE, cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert victim.stdout is not None
    assert await victim.stdout.readline() == b"up\n"
    assert KILLED.last in uids.used_ids()
    one = KILLED
    with pytest.raises(ResourceExhausted, match="1 held by another runtime"):
        await made(tmp_path / "second", uids=one).start()
    victim.kill()
    await victim.wait()
    # Its processes end with it, and only then is the uid anybody else's.
    await until(lambda: KILLED.last not in uids.used_ids())
    remove_leftovers(tmp_path / "dead")
    assert (tmp_path / "dead" / "content").stat().st_uid == 0
    async with made(tmp_path / "second", uids=one) as second:
        assert uid_of(second) == KILLED.last


async def test_an_interpreter_that_the_uid_may_not_run_is_explained(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "python").symlink_to(PYTHON.resolve())
    sandbox = made(tmp_path / "state", python=closed / "python", read_only=(*PREFIXES, closed))
    with pytest.raises(
        FailedPrecondition, match=r"Permission denied.*readable for everybody \(chmod -R a\+rX\)"
    ):
        await sandbox.start()


async def test_a_starter_that_fails_says_at_which_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = command.STARTER.read_text().replace("CLONE_NEWNS = 0x20000", "CLONE_NEWNS = 0x1")
    (tmp_path / "starter.py").write_text(text)
    async with made(tmp_path / "before"):
        monkeypatch.setattr(command, "STARTER", tmp_path / "starter.py")
        with pytest.raises(
            FailedPrecondition, match=r"cellhouse starter: view: a mount namespace: .*CAP_SYS_ADMIN"
        ):
            await made(tmp_path / "state").start()


def test_no_more_than_the_standard_library_is_loaded_as_root() -> None:
    source = command.STARTER.read_text()
    loaded = {
        line.split()[1]
        for line in source.splitlines()
        if line.startswith(("import ", "from ")) and "typing" not in line
    }
    assert loaded <= {"__future__", *sys.stdlib_module_names}
