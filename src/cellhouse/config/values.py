"""One value as it stands in a file, or as text: what it means before the model looks at it."""

import math
import tomllib
from pathlib import Path
from typing import Any

from cellhouse.config.catalogue import Setting
from cellhouse.model.units import parse_duration, parse_size


def of_text(setting: Setting, text: str) -> Any:
    """What a variable or `--set` says. ValueError where it can't be that."""
    if not setting.is_list:
        if not text:
            raise ValueError("is empty; leave it out for the default")
        return _meant(setting, text)
    if text.lstrip().startswith("["):
        try:
            return _meant(setting, tomllib.loads(f"list = {text}")["list"])
        except (tomllib.TOMLDecodeError, RecursionError):
            raise ValueError("is no list of TOML; it takes one, or its members with commas between") from None
    return _meant(setting, [part.strip() for part in text.split(setting.separator) if part.strip()])


def of_toml(setting: Setting, value: Any) -> Any:
    """What a file says. ValueError where it can't be that."""
    if setting.is_path:
        for path in value if isinstance(value, list) else [value]:
            if isinstance(path, str) and not path.startswith(("/", "~/")):
                raise ValueError(f"{path[:200]!a} is a relative path; in a file, write out all of it")
    return _meant(setting, value)


def of_flag(setting: Setting, value: Any) -> Any:
    """What an option says that has read its value itself. ValueError where it can't be that."""
    if isinstance(value, Path):
        return _path(str(value))
    return _number(setting, value) if setting.is_number else value


def _meant(setting: Setting, value: Any) -> Any:
    if isinstance(value, dict):
        raise ValueError("is a table; it takes a value")
    if setting.is_path:
        if isinstance(value, list):
            return [_path(each) for each in value]
        return _path(value)
    if setting.is_size and isinstance(value, str):
        value = parse_size(value)
    elif setting.is_duration and isinstance(value, str) and value[-1:].isalpha():
        value = parse_duration(value)
    return _number(setting, value) if setting.is_number else value


def _path(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if not value or "\0" in value:
        raise ValueError(f"{value!a} is no path")
    return Path(value).expanduser().absolute()


def _number(setting: Setting, value: Any) -> int | float:
    """Numbers are finite, and above 0 where 0 means nothing."""
    if isinstance(value, str):
        try:
            value = float(value) if float in setting.kinds else int(value)
        except ValueError:
            kind = "a number" if float in setting.kinds else "a whole number"
            raise ValueError(f"{value[:40]!a} is no number; it takes {kind}") from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"is a {type(value).__name__}; it takes a number")
    if not math.isfinite(value) or value < 0 or (value == 0 and not setting.may_be_zero):
        least = "0 or more" if setting.may_be_zero else "above 0"
        raise ValueError(f"{value} can't be; it takes a finite number, {least}")
    return value
