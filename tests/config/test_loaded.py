"""What a house and a service are told: every setting arrives, and defaults are theirs."""

import os
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from cellhouse.config import Config, catalogue
from cellhouse.config.model import PORT
from cellhouse.doors.limits import DoorLimits
from cellhouse.doors.server import ServeOptions
from cellhouse.model import CaptureLimits, NetworkSettings, RetentionLimits, SessionLimits, WallLimits
from cellhouse.runtime import Settings
from tests.config.support import loaded, set_to


def test_defaults_are_those_of_the_house_and_the_service() -> None:
    found = loaded()
    assert found.settings() == Settings(state_dir=found.config.state.dir)
    assert not found.settings().walls.named
    assert found.serve_options() == ServeOptions(port=PORT, keepers=True)
    assert found.origins == {}


def test_every_setting_of_the_house_and_the_service_has_a_name() -> None:
    names = {(setting.section, setting.key) for setting in catalogue().values()}
    expected = {
        *(("session", each.name) for each in fields(SessionLimits)),
        *(("capture", each.name) for each in fields(CaptureLimits)),
        *(("retention", each.name) for each in fields(RetentionLimits)),
        *(("network", each.name) for each in fields(NetworkSettings)),
        *(("limits", each.name) for each in fields(DoorLimits)),
        *(("walls", each.name) for each in fields(WallLimits) if each.name not in ("named", "exact")),
    }
    assert names >= expected
    own = {"turns_file", "tenant", "artifacts_dir"}  # what a service arranges for its houses, and nobody sets
    sections = own | {"capture", "session", "retention", "artifacts", "walls", "limits", "network"}
    renamed = {"state_dir": "dir", "environments": "path", "certificate": "tls_cert", "key": "tls_key"}
    for each in (*fields(Settings), *fields(ServeOptions)):
        if each.name not in sections:
            assert renamed.get(each.name, each.name) in {key for _, key in names}, each.name


def _other(name: str, value: Any) -> str:
    """Another good value than this one, as text."""
    special = {
        "state.dir": "/other",
        "state.durability": "full",
        "serve.host": "127.0.0.2",
        "serve.uds": "/run/other",
        "serve.tls_cert": "/cert.pem",
        "serve.tls_key": "/key.pem",
        "serve.cors_origins": "https://one.example,http://two.example:8080",
        "serve.keepers": "false",
        "serve.keep": "true",
        "walls.isolation": "none",
        "walls.uids": "60706-60707",
        "walls.file_size": "5M",
        "network.may_allow": "index.example:443,*.example:*",
        "network.may_open": "true",
        "network.private": "10.0.0.0/8,fd00::1",
        "network.headers": "api.example X-Key env:KEY",
        "native.start": "fresh",
        "env.path": "/opt/other",
        "env.home": "/opt/home",
    }
    if name in special:
        return special[name]
    if isinstance(value, tuple):
        return "one,two"
    return str(value * 2 if isinstance(value, int) else value * 1.5) if name != "serve.port" else "1"


@pytest.mark.parametrize("name", list(catalogue()))
def test_each_setting_arrives_and_nothing_else_changes(name: str) -> None:
    """Each one alone; the key of a certificate needs that."""
    base = {"serve.tls_cert": "/c.pem"} if name == "serve.tls_key" else {}
    before = set_to(base)
    after = set_to({**base, name: _other(name, before.value(name))})
    changed = {each for each in catalogue() if before.value(each) != after.value(each)}
    assert changed == {name}
    told_before = _told(before.settings()) | _told(before.serve_options())
    told_after = _told(after.settings()) | _told(after.serve_options())
    assert sum(told_before[each] != told_after[each] for each in told_before) == 1


def _told(of: Any, prefix: str = "") -> dict[str, Any]:
    """What it holds, leaf by leaf."""
    found: dict[str, Any] = {}
    for each in fields(of):
        value = getattr(of, each.name)
        if isinstance(
            value, SessionLimits | CaptureLimits | RetentionLimits | WallLimits | NetworkSettings | DoorLimits
        ):
            found |= _told(value, f"{each.name}.")
        elif each.name not in ("named", "exact"):
            found[f"{prefix}{each.name}"] = value
    return found


@pytest.mark.parametrize(
    ("key", "wire", "text"),
    [
        ("memory", "memory", "1G"),
        ("cpus", "cpus", "2"),
        ("processes", "processes", "256"),
        ("content", "content", "1G"),
        ("open_files", "openFiles", "100"),
        ("file_size", "fileSize", "1M"),
    ],
)
def test_a_limit_of_runtimes_that_was_set_has_to_be_held(key: str, wire: str, text: str) -> None:
    """Also where it was set to what is the default."""
    assert set_to({f"walls.{key}": text}).settings().walls.named == {wire}


def test_environments_come_before_the_one_beside_the_service() -> None:
    builtin = Path(sys.prefix, "share", "cellhouse", "environments")
    home = Path(os.environ["HOME"], ".local", "share", "cellhouse", "environments")
    assert loaded(env__path="/opt/a").settings().environments == (Path("/opt/a"), home, builtin)
    assert loaded(env__home="/opt/h").settings().environments == (Path("/opt/h"), builtin)
    assert loaded().settings().environments is None


def test_a_config_cannot_be_changed() -> None:
    config = Config()
    with pytest.raises(ValueError, match="frozen"):
        config.serve = config.serve  # type: ignore[misc]
