"""What may be asked of an environment, which Python it may have, and what a lock is."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from cellhouse.environments.making import Interpreter, Lock, find_interpreter, read_requirements
from cellhouse.environments.making.installer import BuildFailed, lock_of_report
from cellhouse.environments.making.lock import BadLock
from cellhouse.model import FailedPrecondition, InvalidArgument

HASH = f"sha256:{'a' * 64}"


@pytest.mark.parametrize(
    ("package", "said"),
    [
        ("", "is no package"),
        ("a\nb", "is no package"),
        ("--index-url=x", "is an option of pip"),
        ("./here", "is a place on this disk"),
        ("/there", "is a place on this disk"),
    ],
)
def test_packages_that_are_none(interpreter: Interpreter, package: str, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        read_requirements(interpreter, [package], ())


def test_files_that_are_none(interpreter: Interpreter, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"missing\.txt can't be read"):
        read_requirements(interpreter, (), [tmp_path / "missing.txt"])
    (tmp_path / "image").write_bytes(b"\0\1")
    with pytest.raises(InvalidArgument, match="is no text"):
        read_requirements(interpreter, (), [tmp_path / "image"])
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(InvalidArgument, match="no regular file"):
        read_requirements(interpreter, (), [tmp_path / "fifo"])
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(InvalidArgument, match="can't be read"):
        read_requirements(interpreter, (), [tmp_path / "loop"])
    (tmp_path / "big").write_bytes(b"#" * ((4 << 20) + 1))
    with pytest.raises(InvalidArgument, match="more than"):
        read_requirements(interpreter, (), [tmp_path / "big"])


def test_a_file_that_another_names_is_part_of_the_request(interpreter: Interpreter, tmp_path: Path) -> None:
    (tmp_path / "top.txt").write_text("-r sub/more.txt  # these\n--constraint=limits.txt\nx\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "more.txt").write_text("-r../top.txt\ny\n")
    (tmp_path / "limits.txt").write_text("y<2\n")

    def digest() -> str:
        return read_requirements(interpreter, (), [tmp_path / "top.txt"]).digest()

    first = digest()
    assert digest() == first
    (tmp_path / "limits.txt").write_text("y<3\n")
    second = digest()
    (tmp_path / "sub" / "more.txt").write_text("z\n")
    assert len({first, second, digest()}) == 3


def test_the_python_is_part_of_the_request(interpreter: Interpreter) -> None:
    other = Interpreter(Path("/opt/other/bin/python3"), "3.13.1", "cpython-313", interpreter.platform)
    assert read_requirements(interpreter, ["a"], ()).digest() != read_requirements(other, ["a"], ()).digest()


def test_pythons_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="is no Python here"):
        find_interpreter("python-that-is-not-there")
    with pytest.raises(InvalidArgument, match="is no Python here"):
        find_interpreter(str(tmp_path))

    def program(text: str) -> str:
        path = tmp_path / "python"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return str(path)

    for text, said in (
        ("exit 3", "status 3"),
        ("echo garbage", "not JSON"),
        ("echo '{}'", "incomplete"),
        ("echo '[]'", "incomplete"),
    ):
        with pytest.raises(FailedPrecondition, match=said):
            find_interpreter(program(text))
    old = {"path": "/x", "version": "3.8.20", "tag": "cpython-38", "platform": "linux"}
    with pytest.raises(FailedPrecondition, match=r"3\.8\.20; kernels need 3\.9"):
        find_interpreter(program(f"echo '{json.dumps(old)}'"))


def test_a_lock_reads_what_resolvers_print() -> None:
    text = (
        f"# made by someone\n--index-url https://index.example\nZope.Thing[extra]==1.0 ; python_version > '3' \\\n"
        f"    --hash={HASH} \\\n    --hash=sha512:{'b' * 128}\nmine @ git+https://host.example/x@{'c' * 40}\n"
    )
    lock = Lock.of_requirements(text)
    assert [(each.name, each.version, len(each.hashes)) for each in lock.packages] == [
        ("mine", "", 0),
        ("zope-thing", "1.0", 2),
    ]
    assert Lock.from_wire(json.loads(json.dumps(lock.to_wire()))) == lock
    assert Lock.of_requirements(lock.hashed() + lock.unhashed()) == lock


@pytest.mark.parametrize("text", ["thing>=1", "==1", "thing==1 --hash=md5:abc", "thing=="])
def test_what_pins_nothing_is_no_lock(text: str) -> None:
    with pytest.raises(BadLock):
        Lock.of_requirements(text)


@pytest.mark.parametrize(
    "document",
    [
        None,
        {},
        {"format": 2, "packages": []},
        {"format": 1, "packages": {}},
        {"format": 1, "packages": [{"name": "a", "hashes": []}]},
        {"format": 1, "packages": [{"name": "a", "version": "1\n--pre", "hashes": []}]},
        {"format": 1, "packages": [{"name": "a", "version": "1", "hashes": ["md5:1"]}]},
    ],
)
def test_documents_that_are_no_lock(document: Any) -> None:
    with pytest.raises(BadLock):
        Lock.from_wire(document)


def reported(**source: Any) -> dict[str, Any]:
    item = {
        "metadata": {"name": "A_b", "version": "1.0"},
        "download_info": {"url": "https://x.example/a", **source},
    }
    return {"install": [item]}


def test_pips_report_is_a_lock() -> None:
    (hashed,) = lock_of_report(reported(archive_info={"hashes": {"sha256": "a" * 64}})).packages
    assert (hashed.name, hashed.version, hashed.url, hashed.hashes) == ("a-b", "1.0", "", (HASH,))
    commit = "d" * 40
    (pinned,) = lock_of_report(reported(vcs_info={"vcs": "git", "commit_id": commit})).packages
    assert pinned.line() == f"a-b @ git+https://x.example/a@{commit}"


@pytest.mark.parametrize(
    "report",
    [{}, {"install": [{}]}, reported(dir_info={}), reported(), reported(archive_info={"hashes": {}})],
)
def test_what_nothing_pins_can_not_be_locked(report: dict[str, Any]) -> None:
    with pytest.raises(BuildFailed) as caught:
        lock_of_report(report)
    assert caught.value.reason == "ENVIRONMENT_UNLOCKABLE"
