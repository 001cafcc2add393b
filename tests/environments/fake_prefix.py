"""Prefixes for the tests: what setup makes, without the megabytes."""

import json
from pathlib import Path


def make_base(base: Path, version: str = "3.12") -> Path:
    """The installation of a Python; gives its interpreter."""
    python = base / "bin" / f"python{version}"
    python.parent.mkdir(parents=True)
    python.write_bytes(b"")
    python.chmod(0o755)
    library = base / "lib" / f"python{version}"
    library.mkdir(parents=True)
    (library / "os.py").write_bytes(b"")
    return python


def make_environment(
    prefix: Path, python: Path, *, home: Path | None = None, kernels: tuple[str, ...] = ("python3",)
) -> Path:
    """A virtual environment made from that interpreter; `home` is what its pyvenv.cfg says instead."""
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin" / "python").symlink_to(python)
    (prefix / "pyvenv.cfg").write_text(
        f"home = {home or python.parent}\ninclude-system-site-packages = false\n"
    )
    for name in kernels:
        directory = prefix / "share" / "jupyter" / "kernels" / name
        directory.mkdir(parents=True)
        (directory / "kernel.json").write_text(
            json.dumps({"argv": ["python", "-m", name], "display_name": name})
        )
    return prefix


def add_ipython(prefix: Path, version: str, python: str = "python3.12") -> None:
    """As pip leaves it, but empty."""
    packages = prefix / "lib" / python / "site-packages"
    (packages / "IPython").mkdir(parents=True)
    (packages / "IPython" / "__init__.py").write_bytes(b"")
    (packages / f"ipython-{version}.dist-info").mkdir()
