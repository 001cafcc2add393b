"""Settings with their origins, and what the rest of the house is told of them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cellhouse.config.catalogue import catalogue
from cellhouse.config.model import Config
from cellhouse.environments import beside_service, distrusted_home
from cellhouse.model import InvalidArgument, WallLimits
from cellhouse.model.limits import LimitName
from cellhouse.runtime import Settings
from cellhouse.sandbox import levels

if TYPE_CHECKING:
    from cellhouse.doors.server import ServeOptions

_ORIGIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://[A-Za-z0-9.\-\[\]:]+/?", re.ASCII)
_HOST: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.\-]{0,251}[A-Za-z0-9])?", re.ASCII)
_WALLS: Final[dict[str, LimitName]] = {
    "memory": "memory",
    "cpus": "cpus",
    "processes": "processes",
    "content": "content",
    "open_files": "openFiles",
    "file_size": "fileSize",
}
"""The limits of a runtime: their key in `[walls]`, their name on the wire."""


class Source(IntEnum):
    """Where a value can come from; the greater one wins."""

    DEFAULT = 0
    FILE = 1
    ENVIRONMENT = 2
    FLAG = 3


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value came from: the path of a file, the name of a variable, an option."""

    source: Source
    where: str = ""

    def __str__(self) -> str:
        return self.where or "default"


DEFAULT: Final = Origin(Source.DEFAULT)


@dataclass(frozen=True, slots=True)
class Loaded:
    """`origins` has those that are no defaults; `ignored` are variables that look like ours and belong to no section."""

    config: Config
    origins: Mapping[str, Origin]
    file: Path | None = None
    ignored: tuple[str, ...] = ()

    def value(self, name: str) -> Any:
        """What is in force for the setting of this name."""
        section, _, key = name.partition(".")
        return getattr(getattr(self.config, section), key)

    def origin(self, name: str) -> Origin:
        return self.origins.get(name, DEFAULT)

    def values(self) -> dict[str, tuple[Any, Origin]]:
        """All of them, by name, in the model's order."""
        return {name: (self.value(name), self.origin(name)) for name in catalogue()}

    def check(self) -> None:
        """InvalidArgument where settings can't be that each look well."""
        isolation = self.config.walls.isolation
        if isolation not in levels():
            raise InvalidArgument.of_field(
                "isolation", f"{isolation[:80]!a} is no level; there are {', '.join(levels())}"
            )
        serve = self.config.serve
        if serve.tls_key is not None and serve.tls_cert is None:
            raise InvalidArgument.of_field("tls_key", "it is the key of a certificate; name that in tls_cert")
        for origin in serve.cors_origins:
            if not _ORIGIN.fullmatch(origin):
                raise InvalidArgument.of_field(
                    "cors_origins",
                    f"{origin[:80]!a} is no origin; write each one out, such as https://app.example.org:8443",
                )
        for host in serve.allowed_hosts:
            if not _HOST.fullmatch(host):
                raise InvalidArgument.of_field(
                    "allowed_hosts", f"{host[:80]!a} is no name of a host; write it without scheme and port"
                )
        if wrong := distrusted_home(self.config.env.home):
            raise InvalidArgument.of_field("home", f"{str(self.config.env.home)[:200]!a} {wrong}")
        self.settings()

    def settings(self) -> Settings:
        """For a house. Limits of runtimes that were set, wherever, have to be held; defaults need not."""
        config, walls = self.config, self.config.walls
        named = frozenset(wire for key, wire in _WALLS.items() if f"walls.{key}" in self.origins)
        limits = {key: getattr(walls, key) for key in _WALLS}
        env_named = bool(config.env.path) or "env.home" in self.origins
        return Settings(
            state_dir=config.state.dir,
            isolation=walls.isolation,
            durability=config.state.durability,
            capture=config.capture,
            session=config.session,
            retention=config.retention,
            artifacts=config.artifacts,
            walls=WallLimits(**limits, named=named),
            environments=(*config.env.path, config.env.home, beside_service()) if env_named else None,
            network=config.network,
            uids=walls.uids,
            max_runtimes=config.limits.max_runtimes,
            max_sessions=config.limits.max_sessions,
            max_executions=config.limits.max_executions,
            start=config.native.start,
            preload=config.native.preload,
            spares=config.native.spares,
        )

    def serve_options(self) -> "ServeOptions":
        """For a service."""
        from cellhouse.doors.server import ServeOptions  # slow to load, and not for who only shows settings

        serve = self.config.serve
        return ServeOptions(
            host=serve.host,
            port=serve.port,
            uds=serve.uds,
            certificate=serve.tls_cert,
            key=serve.tls_key,
            allowed_hosts=serve.allowed_hosts,
            cors_origins=serve.cors_origins,
            limits=self.config.limits.of_doors(),
            keepers=serve.keepers,
            keep=serve.keep,
        )
