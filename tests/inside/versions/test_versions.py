"""How `make test-versions` finds its Pythons, and what it says of IPython's tests."""

import sys
from pathlib import Path

from tests.inside.versions.inapplicable import REASONS, reason
from tests.inside.versions.prefixes import OLDEST
from tests.inside.versions.pythons import ask, find

ROOT = Path(__file__).resolve().parents[3]


def launcher(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_a_python_is_found_by_what_it_says_of_itself(tmp_path: Path) -> None:
    """In PATH and in pyenv's directory; the newest counts, and no launcher that leads nowhere."""
    launcher(tmp_path / "bin" / "python3.9", "exit 127")
    launcher(tmp_path / "bin" / "python3.10", "echo 3 10 2 /usr/a python3.10")
    launcher(tmp_path / "pyenv" / "versions" / "3.10.13" / "bin" / "python3.10", "echo 3 10 13 /usr/b")
    launcher(tmp_path / "bin" / "python3.11", "echo 3 12 0 /usr/c")
    environ = {"PATH": str(tmp_path / "bin"), "PYENV_ROOT": str(tmp_path / "pyenv"), "HOME": str(tmp_path)}
    found = find(environ, [9, 10, 11])
    assert found["3.9"] is found["3.11"] is None
    assert found["3.10"] is not None
    assert (str(found["3.10"]), found["3.10"].minor, found["3.10"].path) == (
        "3.10.13",
        "3.10",
        Path("/usr/b"),
    )


def test_an_interpreter_is_what_its_environment_was_made_from() -> None:
    found = ask(Path(sys.executable))
    assert found is not None
    assert found.version == sys.version_info[:3]
    assert found.path == Path(sys._base_executable).resolve()  # type: ignore[attr-defined]


def test_the_oldest_ipython_is_the_same_everywhere() -> None:
    assert f"ipython=={OLDEST}\n" in (ROOT / "requirements" / "kernel-oldest-test.in").read_text()


def test_a_test_that_can_not_apply_is_known_by_its_file_and_start() -> None:
    assert reason("IPython/core/tests/test_magic.py::test_config_print_class") is not None
    assert reason("tests/test_magics_code.py::test_edit_macro[a/b]") == reason(
        "test_magics_code.py::test_edit_x"
    )
    assert reason("tests/test_magic.py::test_config") is None
    assert all(REASONS.values())
