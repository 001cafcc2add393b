"""What was measured with: versions, machine, load."""

import os
import platform
from importlib.metadata import version
from pathlib import Path

from cellhouse import __version__
from cellhouse.environments import find_environment

GIB = 1 << 30


def environment_version(package: str) -> str:
    """The version of a package in the default environment; `?` where it has none."""
    found = find_environment().prefix.glob(f"lib/python3*/site-packages/{package}-*.dist-info")
    return next((path.name.removesuffix(".dist-info").rpartition("-")[2] for path in found), "?")


def versions() -> str:
    libraries = [f"{name} {version(name)}" for name in ("pydantic", "jupyter_client", "pyzmq")]
    ours = [f"cellhouse {__version__}", *libraries]
    kernel = [f"{name} {environment_version(name)}" for name in ("ipykernel", "ipython", "pyzmq")]
    return f"Python {platform.python_version()}, {', '.join(ours)}; in the kernel environment {', '.join(kernel)}"


def machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB
    return (
        f"{platform.machine()}, {_processor()}, {os.cpu_count()} processors, {memory:.0f} GiB, "
        f"Linux {platform.release()}"
    )


def load() -> str:
    """How busy the machine was in the last one, five and fifteen minutes."""
    return ", ".join(f"{average:.1f}" for average in os.getloadavg())


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return "unknown processor"
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
        "unknown processor",
    )
