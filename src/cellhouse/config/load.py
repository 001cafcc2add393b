"""From a file, the environment and the command line to one Config, each value with where it came from."""

import os
import stat
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from cellhouse.config.catalogue import (
    ENV_PREFIX,
    Setting,
    catalogue,
    meant_variable,
    nearest,
    nearest_section,
    sections,
)
from cellhouse.config.loaded import DEFAULT, Loaded, Origin, Source
from cellhouse.config.model import Config
from cellhouse.config.values import of_flag, of_text, of_toml
from cellhouse.model import MIB, InvalidArgument

FILE_BYTES: Final = MIB
FILE_VARIABLE: Final = f"{ENV_PREFIX}_CONFIG"
OTHER_VARIABLES: Final = frozenset(
    f"{ENV_PREFIX}_{name}" for name in ("CONFIG", "LOG", "LOG_CONTENT", "TOKEN", "URL", "PROBE")
)
"""Ours, and no settings."""


class Flag(NamedTuple):
    """A value from the command line, and the option that it was given with."""

    value: Any
    option: str


class ConfigInvalid(InvalidArgument):
    """Settings that can't be; `violations` has every one of them, by name and origin."""


def default_file(environ: Mapping[str, str]) -> Path:
    """`cellhouse/config.toml` in the XDG configuration directory, else in ~/.config."""
    base = environ.get("XDG_CONFIG_HOME", "")
    # A relative one has to be ignored (XDG Base Directory Specification).
    root = Path(base) if base.startswith("/") else Path.home() / ".config"
    return root / "cellhouse" / "config.toml"


def load(
    file: Path | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, Flag] | None = None,
) -> Loaded:
    """All settings: defaults, then the file, then variables, then flags; the later one wins.

    Without a file it is that of CELLHOUSE_CONFIG, else `default_file`, which need not exist. Raises ConfigInvalid with all that is wrong at once.
    """
    environ = os.environ if environ is None else environ
    merge = _Merge()
    path = _file(file, environ)
    if path is not None:
        merge.add_file(path)
    merge.add_environment(environ)
    for name, flag in (flags or {}).items():
        merge.add_flag(name, flag)
    return merge.loaded(path)


def _file(file: Path | None, environ: Mapping[str, str]) -> Path | None:
    if file is not None:
        return file
    if named := environ.get(FILE_VARIABLE):
        return Path(named)
    path = default_file(environ)
    return path if os.path.lexists(path) else None


class _Merge:
    """What has been said so far, and what was wrong with it."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._origins: dict[str, Origin] = {}
        self._wrong: list[tuple[str, str]] = []
        self._ignored: list[str] = []

    def add_file(self, path: Path) -> None:
        for section, table in _read(path).items():
            where = f"{path}: [{section[:80]}]"
            if section not in sections():
                near = nearest_section(section)
                hint = f"the nearest is [{near}]" if near else f"there are {', '.join(sections())}"
                self._wrong.append((where, f"there is no such section; {hint}"))
            elif not isinstance(table, dict):
                self._wrong.append((where, f"is a section; write its settings below a line [{section}]"))
            else:
                for key, value in table.items():
                    origin = Origin(Source.FILE, str(path))
                    self._add(f"{section}.{key}", origin, partial(of_toml, value=value))

    def add_environment(self, environ: Mapping[str, str]) -> None:
        for variable, text in sorted(environ.items()):
            if not variable.startswith(f"{ENV_PREFIX}_") or variable in OTHER_VARIABLES:
                continue
            section, _, key = variable[len(ENV_PREFIX) + 1 :].lower().partition("_")
            if section not in sections():
                if meant := meant_variable(variable):
                    self._wrong.append((variable[:120], f"there is no such setting; the nearest is {meant}"))
                else:
                    self._ignored.append(variable)
            elif text:  # an empty one is as none
                origin = Origin(Source.ENVIRONMENT, variable)
                self._add(f"{section}.{key}", origin, partial(of_text, text=text))

    def add_flag(self, name: str, flag: Flag) -> None:
        def meant(setting: Setting) -> Any:
            of = of_text if isinstance(flag.value, str) else of_flag
            return of(setting, flag.value)

        self._add(name, Origin(Source.FLAG, flag.option), meant)

    def _add(self, name: str, origin: Origin, meant: Callable[[Setting], Any]) -> None:
        setting = catalogue().get(name)
        if setting is None:
            near = nearest(name)
            hint = _written(near, origin) if near else "`cellhouse config show` lists those there are"
            self._wrong.append(
                (
                    _where(name, origin),
                    f"there is no such setting; {f'the nearest is {hint}' if near else hint}",
                )
            )
            return
        try:
            self._values[name] = meant(setting)
        except ValueError as error:
            self._wrong.append((_where(name, origin), str(error)))
        self._origins[name] = origin

    def loaded(self, path: Path | None) -> Loaded:
        self._choose_address()
        document: dict[str, dict[str, Any]] = {}
        for name, value in self._values.items():
            section, _, key = name.partition(".")
            document.setdefault(section, {})[key] = value
        try:
            config = Config.model_validate(document)
            made = Loaded(config, self._origins, path, tuple(self._ignored))
            if not self._wrong:
                made.check()
        except ValidationError as error:
            self._wrong += self._of_validation(error)
        except InvalidArgument as error:
            self._wrong.append(self._of_argument(error))
        if self._wrong:
            raise _invalid(self._wrong)
        return made

    def _choose_address(self) -> None:
        """A host or a port that was named later than a unix socket is where to listen."""
        uds = self._origins.get("serve.uds", DEFAULT)
        tcp = max(self._origins.get(name, DEFAULT).source for name in ("serve.host", "serve.port"))
        if uds.source and tcp > uds.source:
            self._values.pop("serve.uds", None)
            del self._origins["serve.uds"]

    def _of_validation(self, error: ValidationError) -> Iterator[tuple[str, str]]:
        for each in error.errors(include_url=False, include_context=False, include_input=False):
            name = ".".join(map(str, each["loc"][:2]))
            yield _where(name, self._origins.get(name, DEFAULT)), each["msg"].removeprefix("Value error, ")

    def _of_argument(self, error: InvalidArgument) -> tuple[str, str]:
        field = error.metadata.get("field", "")
        named = [name for name in self._origins if name == field or name.partition(".")[2] == field]
        rule = error.message.removeprefix(f"{field}: ")
        return _where(named[0], self._origins[named[0]]) if named else field, rule


def _where(name: str, origin: Origin) -> str:
    """A setting, as whoever wrote it finds it."""
    match origin.source:
        case Source.FILE:
            return f"{origin.where}: {name[:120]}"
        case Source.ENVIRONMENT:
            return origin.where[:120]
        case Source.FLAG:
            return origin.where if origin.where != "--set" else f"--set {name[:120]}"
        case Source.DEFAULT:
            return name


def _written(name: str, origin: Origin) -> str:
    return catalogue()[name].variable if origin.source is Source.ENVIRONMENT else name


def _invalid(wrong: list[tuple[str, str]]) -> ConfigInvalid:
    text = "\n".join(f"{where}: {rule}" for where, rule in wrong)
    made = ConfigInvalid(text, reason="CONFIG_INVALID", metadata={"field": wrong[0][0]})
    made.of_violations(wrong)
    return made


def _read(path: Path) -> dict[str, Any]:
    """A file's document. ConfigInvalid where it can't be read, is none, or everybody could have written it."""
    try:
        with path.open("rb") as source:
            writable = os.fstat(source.fileno()).st_mode & stat.S_IWOTH
            data = source.read(FILE_BYTES + 1)
        if writable:
            raise _invalid([(str(path), f"anybody may write it; chmod o-w {path}")])
        if len(data) > FILE_BYTES:
            raise _invalid([(str(path), f"more than {FILE_BYTES} bytes; that is no configuration")])
        return tomllib.loads(data.decode())
    except OSError as error:
        raise _invalid([(str(path), f"{error.strerror or error}; name a file that can be read")]) from None
    except UnicodeDecodeError as error:
        raise _invalid([(str(path), f"no UTF-8 at byte {error.start}; save it as UTF-8")]) from None
    except tomllib.TOMLDecodeError as error:
        raise _invalid([(str(path), f"no TOML: {error}")]) from None
    except RecursionError:
        raise _invalid([(str(path), "no TOML that makes sense: nested too deep")]) from None
