"""Making an environment: resolve once, build once, give it its name."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cellhouse.environments.making.asked import Asked
from cellhouse.environments.making.home import EnvironmentHome, discard, write_record
from cellhouse.environments.making.installer import Installer
from cellhouse.environments.making.lock import Lock
from cellhouse.environments.prefix import UNFINISHED, Environment, read_environment

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Made:
    """`built` is false where the same environment was there already, under whatever name."""

    name: str
    environment: Environment
    lock: Lock
    built: bool


def make_environment(
    home: EnvironmentHome,
    name: str,
    asked: Asked,
    installer: Installer,
    *,
    replace: bool = False,
    upgrade: bool = False,
    say: Say = lambda _: None,
) -> Made:
    """The environment of this name; the same request means what it meant before, unless `upgrade` resolves it anew.

    Waits for whoever is at work in the same home. Nothing half made is left, whatever ends it. Raises InvalidArgument,
    AlreadyExists where the name means something else and `replace` is not asked for, BuildFailed, OSError.
    """
    with home.held():
        digest = asked.digest()
        lock = None if upgrade else home.known(digest)
        if lock is None:
            if not replace:
                home.check_free(name)
            say(f"resolving, by {installer.name}")
            lock = installer.resolve(asked)
        prefix = home.made(lock.digest(asked.interpreter))
        built = not prefix.is_dir()
        if built:
            if not replace:
                home.check_free(name)
            say(f"installing {len(lock.packages)} packages")
            _build(prefix, asked, lock, installer)
        environment = read_environment(prefix, name)
        home.point(name, prefix, replace=replace)
        home.remember(digest, lock)
        return Made(name, environment, lock, built)


def _build(prefix: Path, asked: Asked, lock: Lock, installer: Installer) -> None:
    prefix.mkdir(mode=0o755)
    try:
        (prefix / UNFINISHED).touch()
        installer.build(prefix, asked, lock)
        write_record(
            prefix,
            {
                "asked": list(asked.requirements()),
                "python": {**asked.interpreter.identity(), "version": asked.interpreter.version},
                "installer": installer.name,
                "lock": lock.to_wire(),
            },
        )
        (prefix / UNFINISHED).unlink()
        read_environment(prefix)  # what can't be used is not kept
    except BaseException:
        discard(prefix)
        raise
