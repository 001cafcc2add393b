"""What the repository says about itself is so: lock files, the README's tables, the tour."""

import ast
import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from cellhouse.notebooks import read_notebook

ROOT = Path(__file__).parents[1]
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))


def pins(lock: Path) -> dict[str, set[str]]:
    """Every pinned requirement of a lock file, with the versions it may have on one Python or another."""
    found: dict[str, set[str]] = {}
    for requirement in lock.read_text().replace("\\\n", " ").splitlines():
        match = re.fullmatch(
            r"([a-z0-9-]+)==([^ ;]+)(?: ;[^\n]*?)?((?: +--hash=sha256:[0-9a-f]{64})+) *", requirement
        )
        assert match, f"{lock.name}: not pinned with a hash: {requirement[:100]}"
        found.setdefault(match[1], set()).add(match[2])
    return found


def test_there_are_the_lock_files() -> None:
    kernels = ["kernel-bash-test", "kernel-default", "kernel-libraries-test", "kernel-oldest-test"]
    assert [lock.stem for lock in LOCKS] == [
        "adapters", "conformance", "dev", *kernels, "peers-mcp", "peers", "service",
    ]  # fmt: skip


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_a_lock_file_pins_everything_and_names_no_place(lock: Path) -> None:
    assert pins(lock)
    assert not re.search(r"://|--(?!hash=)", lock.read_text())


def test_development_adds_to_the_service_and_changes_nothing() -> None:
    service, dev = pins(ROOT / "requirements/service.txt"), pins(ROOT / "requirements/dev.txt")
    assert {name: dev.get(name) for name in service} == service


def test_the_service_locks_what_the_package_depends_on() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    locked = pins(ROOT / "requirements/service.txt")
    for dependency in project["dependencies"]:
        name = re.split(r"[<>=!~; ]", dependency, maxsplit=1)[0]
        assert name.replace("_", "-").lower() in locked


def test_the_readme_lists_every_part_of_the_package() -> None:
    readme = (ROOT / "README.md").read_text()
    package = ROOT / "src" / "cellhouse"
    for part in package.iterdir():
        if part.name.startswith("__") or part.name == "py.typed":
            continue
        assert f"`src/cellhouse/{part.name}`" in readme, f"README.md: the table of folders lacks {part.name}"


def test_the_tour_holds_what_it_promises() -> None:
    code = (ROOT / "examples" / "tour.py").read_text()
    tree = ast.parse(code)
    assert isinstance(tree.body[-1], ast.Expr), "the last line must be a value"
    assert code.count("plt.show()") == 2
    for part in ("print(", "display(table)", "tqdm(", ".write_text("):
        assert part in code


def test_the_tour_of_a_notebook_holds_what_it_promises() -> None:
    given = read_notebook("tour.ipynb", (ROOT / "examples" / "tour.ipynb").read_bytes())
    code = "\n".join(cell["source"] for cell in given.cells if cell["cell_type"] == "code")
    tags = {tag for cell in given.cells for tag in cell["metadata"].get("tags", ())}
    assert tags == {"parameters", "raises-exception"}
    assert code.count("plt.show()") == 2
    for part in ("print(", "pd.DataFrame", "tqdm(", "state.update(", ".write_text("):
        assert part in code


def test_example_notebooks_hold_no_outputs_and_need_no_putting_right() -> None:
    for path in (ROOT / "examples").rglob("*.ipynb"):
        notebook = json.loads(path.read_text())
        assert [cell for cell in notebook["cells"] if cell.get("outputs")] == [], path.name
        assert read_notebook(path.name, path.read_bytes()).remarks == [], path.name


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no checkout: what is tracked is not known")
def test_no_file_names_the_host_of_a_package_index() -> None:
    parts = (("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("npmjs", "com"), ("crates", "io"))
    hosts = re.compile("|".join(rf"\b{name}\.{end}\b" for name, end in parts).encode(), re.IGNORECASE)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    files = [ROOT / name.decode() for name in listed.split(b"\0") if name]
    assert files
    assert [str(file) for file in files if file.is_file() and hosts.search(file.read_bytes())] == []
