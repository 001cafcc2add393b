"""Environments that others made (conda's, a distribution's), and kernels of other languages, under names of ours."""

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from cellhouse.environments.kernelspec import BadKernelSpec, read_kernelspec
from cellhouse.environments.making.home import EnvironmentHome, discard, write_record
from cellhouse.environments.making.interpreter import Interpreter
from cellhouse.environments.prefix import UNFINISHED, Environment, read_environment
from cellhouse.model import FailedPrecondition, InvalidArgument

SPEC_FILES: Final = 256
SPEC_BYTES: Final = 16 << 20
SHOWN: Final = 64


def register_prefix(home: EnvironmentHome, name: str, prefix: Path, *, replace: bool = False) -> Environment:
    """A prefix that stays where it is and as it is. Raises InvalidArgument, AlreadyExists, FailedPrecondition."""
    prefix = prefix.absolute()
    if not prefix.is_dir():
        raise InvalidArgument.of_field("prefix", f"{prefix} is no directory; give one with bin/python in it")
    environment = read_environment(prefix, name)
    if not environment.kernels and not environment.ipython:
        raise FailedPrecondition(
            f"{prefix} has no kernel: install ipython or ipykernel into it, or a kernelspec below share/jupyter/kernels",
            reason="NO_KERNEL",
            metadata={"environment": name},
        )
    with home.held():
        home.point(name, prefix, replace=replace)
    return environment


def register_kernelspec(
    home: EnvironmentHome,
    name: str,
    directory: Path,
    interpreter: Interpreter,
    *,
    shown: Iterable[Path] = (),
    replace: bool = False,
) -> Environment:
    """A kernel of any language, by the directory of its kernel.json, which is copied.

    `shown` are the directories that its program needs to be seen, under their own names and read-only; those of the
    system are seen anyhow. The interpreter is what watches over it inside. Raises InvalidArgument, AlreadyExists,
    FailedPrecondition.
    """
    directory = directory.absolute()
    visible = [_shown(path) for path in shown]
    if len(visible) > SHOWN:
        raise InvalidArgument.of_field("show", f"{len(visible)} directories; at most {SHOWN}")
    try:
        spec = read_kernelspec(directory, prefix=directory, python=interpreter.path)
    except BadKernelSpec as error:
        raise InvalidArgument.of_field("kernelspec", f"{error}") from None
    _check_size(directory)
    with home.held():
        if not replace:
            home.check_free(name)
        prefix = home.registered(f"{name}-{secrets.token_hex(4)}")
        prefix.mkdir(mode=0o755)
        try:
            (prefix / UNFINISHED).touch()
            _make_prefix(prefix, interpreter)
            shutil.copytree(directory, prefix / "share" / "jupyter" / "kernels" / spec.name)
            write_record(
                prefix,
                {
                    "kernelspec": str(directory),
                    "shown": [str(path) for path in visible],
                    "python": {**interpreter.identity(), "version": interpreter.version},
                },
            )
            (prefix / UNFINISHED).unlink()
            environment = read_environment(prefix, name)
            environment.kernel(spec.name)
        except BaseException:
            discard(prefix)
            raise
        home.point(name, prefix, replace=replace)
    return environment


def _shown(path: Path) -> Path:
    if not path.is_absolute() or not path.is_dir() or path == Path(path.anchor):
        raise InvalidArgument.of_field(
            "show", f"{str(path)[:200]!a} must be the whole path of a directory, not the root"
        )
    return path


def _check_size(directory: Path) -> None:
    files = size = 0
    for root, _, names in os.walk(directory):
        for each in names:
            files += 1
            size += Path(root, each).lstat().st_size
            if files > SPEC_FILES or size > SPEC_BYTES:
                raise InvalidArgument.of_field(
                    "kernelspec",
                    f"{directory} has more than {SPEC_FILES} files or {SPEC_BYTES} bytes; it takes the directory of one kernel.json",
                )


def _make_prefix(prefix: Path, interpreter: Interpreter) -> None:
    done = subprocess.run(
        [str(interpreter.path), "-I", "-m", "venv", "--without-pip", str(prefix)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        umask=0o022,
    )
    if done.returncode:
        raise FailedPrecondition(
            f"{interpreter.path} could not make an environment: {(done.stderr or done.stdout).strip()[-1000:]}",
            reason="ENVIRONMENT_BUILD_FAILED",
        )
