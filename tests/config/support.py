"""Loading settings without those of whoever runs the tests."""

from collections.abc import Mapping
from pathlib import Path

from cellhouse.config import ConfigInvalid, Flag, Loaded, load


def loaded(
    text: str | None = None,
    directory: Path | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    **sets: str,
) -> Loaded:
    """With a file of this text, these variables, and `--set` for each keyword (`limits__max_streams`)."""
    file = None
    if text is not None:
        assert directory is not None
        file = directory / "given.toml"
        file.write_text(text)
    flags = {name.replace("__", "."): Flag(value, "--set") for name, value in sets.items()}
    return load(file, environ={"XDG_CONFIG_HOME": "/nowhere", **(environ or {})}, flags=flags)


def violations(error: ConfigInvalid) -> dict[str, str]:
    return dict(error.violations)


def set_to(values: Mapping[str, str]) -> Loaded:
    """With `--set` for each of these."""
    flags = {name: Flag(value, "--set") for name, value in values.items()}
    return load(environ={"XDG_CONFIG_HOME": "/nowhere"}, flags=flags)
