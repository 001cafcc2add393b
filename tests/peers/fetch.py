"""Fetches the source distributions of sdists.txt with pip, which checks their hashes, and unpacks their notebooks."""

import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Final

SDISTS: Final = Path(__file__).with_name("sdists.txt")
UNPACKED: Final = "unpacked"
FILE_BYTES: Final = 16 << 20


def fetched(cache: Path) -> dict[str, list[Path]]:
    """The notebooks of each package, by `name-version`; downloaded where they are not in `cache` yet."""
    found: dict[str, list[Path]] = {}
    for line in SDISTS.read_text().splitlines():
        if line.startswith("#"):
            continue
        name = line.partition(" ")[0].replace("==", "-")
        archive = cache / f"{name}.tar.gz"
        if not archive.is_file():
            _download(line, cache)
        found[name] = _unpacked(archive, cache / UNPACKED)
    return found


def _download(requirement: str, cache: Path) -> None:
    cache.mkdir(parents=True, exist_ok=True)
    wanted = cache / "wanted.txt"
    wanted.write_text(f"{requirement}\n")
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "--require-hashes",
         "--dest", str(cache), "--requirement", str(wanted)],
        check=True,
    )  # fmt: skip
    wanted.unlink()


def _unpacked(archive: Path, target: Path) -> list[Path]:
    """The notebooks in it, and nothing else of it."""
    made: list[Path] = []
    with tarfile.open(archive) as tar:
        for member in tar:
            if not (member.isfile() and member.name.endswith(".ipynb") and member.size <= FILE_BYTES):
                continue
            tar.extract(member, target, filter="data")
            made.append(target / member.name)
    return sorted(made)
