"""Settings as they are shown: a file of TOML that would bring about the same, or JSON; each value with its origin."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cellhouse.config.catalogue import sections
from cellhouse.config.loaded import Loaded


def to_toml(loaded: Loaded) -> str:
    """Every setting with its origin behind it. Read back as a file it makes the same Config."""
    return "\n".join(_lines(loaded)) + "\n"


def to_json(loaded: Loaded) -> dict[str, Any]:
    """`{"serve.port": {"value": 8765, "origin": "default"}}`; `origin` is default, file, environment or flag, `where` which."""
    return {
        name: {
            "value": plain(value),
            "origin": origin.source.name.lower(),
            **({"where": origin.where} if origin.where else {}),
        }
        for name, (value, origin) in loaded.values().items()
    }


def _lines(loaded: Loaded) -> Iterator[str]:
    values = loaded.values()
    for section in sections():
        if section != sections()[0]:
            yield ""
        yield f"[{section}]"
        rows = [
            (f"{name.partition('.')[2]} = {_toml(plain(value))}" if value is not None else "", name, origin)
            for name, (value, origin) in values.items()
            if name.startswith(f"{section}.")
        ]
        width = max((len(text) for text, _, _ in rows if len(text) <= 48), default=0)
        for text, name, origin in rows:
            shown = text or f"# {name.partition('.')[2]} is not set"
            yield f"{shown:<{width}}  # {_one_line(str(origin))}"


def plain(value: Any) -> Any:
    """A value as TOML and JSON have it."""
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    return str(value) if not isinstance(value, Path) else _path(value)


def _path(path: Path) -> str:
    return str(path).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    # A basic string of TOML is one of JSON, but for DEL (TOML 1.0, "String").
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _one_line(text: str) -> str:
    return text if text.isprintable() else ascii(text)
