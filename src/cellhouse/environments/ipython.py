"""The native kernel of an environment: ours, and there wherever IPython is; found by reading names."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cellhouse.environments.kernelspec import KernelSpec

NATIVE_KERNEL: Final = "native"
"""The name by which the native kernel is asked for; a kernelspec of this name can't be."""
LEAST_IPYTHON: Final = (8, 18)

# PEP 376: the project's name and its version; what follows the first two numbers makes no difference here.
_DIST_INFO = re.compile(r"ipython-((\d{1,4})\.(\d{1,4})[^-]{0,40})\.dist-info", re.IGNORECASE)


def find_ipython(prefix: Path) -> str:
    """The version of IPython in a prefix, as its own record says; "" where there is none.

    Of several (one for each Python of the prefix) the lowest: which one counts is only known once it runs.
    """
    found: dict[tuple[int, int], str] = {}
    for directory in _site_packages(prefix):
        if not (directory / "IPython" / "__init__.py").is_file():
            continue
        for entry in directory.glob("[iI][pP]ython-*.dist-info"):
            if match := _DIST_INFO.fullmatch(entry.name):
                found[int(match[2]), int(match[3])] = match[1]
    return found[min(found)] if found else ""


def is_enough(version: str) -> bool:
    """Whether the native kernel runs with this version of IPython."""
    match = re.match(r"(\d+)\.(\d+)", version)
    return match is not None and (int(match[1]), int(match[2])) >= LEAST_IPYTHON


def native_kernel(prefix: Path, python: Path) -> KernelSpec:
    """What is told of the native kernel as of any other; how it is started is no command of its own."""
    return KernelSpec(
        name=NATIVE_KERNEL,
        argv=(str(python),),
        resource_dir=prefix,
        display_name="Python",
        language="python",
    )


def _site_packages(prefix: Path) -> Iterator[Path]:
    for lib in ("lib", "lib64"):
        if (prefix / lib).is_symlink():
            continue
        for python in sorted((prefix / lib).glob("python3*")):
            yield from (python / "site-packages", python / "dist-packages")
