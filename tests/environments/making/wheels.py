"""A place to install from that lies in a directory: wheels of a few bytes, under the names of what environments need."""

import zipfile
from pathlib import Path


def make_wheel(directory: Path, name: str, version: str, requires: tuple[str, ...] = ()) -> Path:
    """Holds one module that has `version`. PEP 427."""
    module = {"ipython": "IPython/__init__.py"}.get(name, f"{name}.py")
    info = f"{name}-{version}.dist-info"
    files = {
        module: f"version = {version!r}\n",
        f"{info}/METADATA": "".join(
            (
                f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
                *(f"Requires-Dist: {each}\n" for each in requires),
            )
        ),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = f"{info}/RECORD"
    files[record] = "".join(f"{each},,\n" for each in (*files, record))
    path = directory / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for each, text in files.items():
            # A fixed time: the same wheel is the same bytes.
            wheel.writestr(zipfile.ZipInfo(each, (2020, 1, 1, 0, 0, 0)), text)
    return path


def make_index(directory: Path) -> Path:
    directory.mkdir()
    make_wheel(directory, "ipython", "9.1.0")
    make_wheel(directory, "pip", "99.0")
    make_wheel(directory, "thing", "1.0")
    make_wheel(directory, "thing", "2.0")
    make_wheel(directory, "other", "1.0", ("thing<2",))
    return directory
