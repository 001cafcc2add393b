"""The settings of a service, section by section. A default stands where the thing is that it is a default of."""

from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from cellhouse.doors.limits import DoorLimits
from cellhouse.environments import environment_home
from cellhouse.model import (
    ArtifactLimits,
    CaptureLimits,
    InvalidArgument,
    NetworkSettings,
    RetentionLimits,
    SessionLimits,
    WallLimits,
)
from cellhouse.runtime import Settings
from cellhouse.runtime.settings import Durability, Start
from cellhouse.runtime.state import state_root
from cellhouse.sandbox import UidRange

PORT = 8_765


def _default(of: type[Any], name: str) -> Any:
    """The default of a field of a dataclass."""
    (found,) = (each for each in fields(of) if each.name == name)
    assert found.default is not MISSING, f"{of.__name__}.{name} has no plain default"
    return found.default


def _uids(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    first, dash, last = value.partition("-")
    if not (dash and first.strip().isdecimal() and last.strip().isdecimal()):
        raise ValueError("takes two uids with a hyphen in between, such as 60706-61183")
    try:
        return UidRange(int(first), int(last))
    except InvalidArgument as error:
        raise ValueError(error.message) from None


@dataclass(frozen=True, slots=True)
class StateConfig:
    """Where everything is kept, and how well: `full` survives power loss."""

    dir: Path = field(default_factory=state_root)
    durability: Durability = field(default=_default(Settings, "durability"))


@dataclass(frozen=True, slots=True)
class ServeConfig:
    """Where the service listens, and whom it talks to. With `uds` it is a unix socket, and `host` and `port` mean nothing."""

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = PORT
    uds: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    allowed_hosts: tuple[str, ...] = ()
    cors_origins: tuple[str, ...] = ()
    # Each runtime in a process of its own, which goes on where the service is killed; else they all end with it.
    keepers: bool = True
    # Told to stop, leave them to the next service.
    keep: bool = False


@dataclass(frozen=True, slots=True)
class LimitsConfig(DoorLimits):
    """What one tenant may take up: of the doors, and of its house."""

    max_runtimes: int = field(default=_default(Settings, "max_runtimes"))
    # Of one runtime.
    max_sessions: int = field(default=_default(Settings, "max_sessions"))
    # Executions that run or wait.
    max_executions: int = field(default=_default(Settings, "max_executions"))

    def of_doors(self) -> DoorLimits:
        return DoorLimits(**{each.name: getattr(self, each.name) for each in fields(DoorLimits)})


@dataclass(frozen=True, slots=True)
class WallsConfig:
    """What stands around a runtime that doesn't say. A limit that is set here is held, or there is no runtime."""

    isolation: str = field(default=_default(Settings, "isolation"))
    uids: Annotated[UidRange | None, BeforeValidator(_uids)] = None
    memory: int = field(default=_default(WallLimits, "memory"))
    cpus: float = field(default=_default(WallLimits, "cpus"))
    processes: int = field(default=_default(WallLimits, "processes"))
    content: int = field(default=_default(WallLimits, "content"))
    open_files: int = field(default=_default(WallLimits, "open_files"))
    file_size: int | None = None


@dataclass(frozen=True, slots=True)
class NativeConfig:
    """How native kernels come to be in a runtime that doesn't say."""

    start: Start = field(default=_default(Settings, "start"))
    preload: tuple[str, ...] = field(default=_default(Settings, "preload"))
    spares: int = field(default=_default(Settings, "spares"))


@dataclass(frozen=True, slots=True)
class EnvConfig:
    """Where kernel environments are looked for, before those beside the service; `cellhouse env` keeps them in `home`."""

    path: tuple[Path, ...] = ()
    home: Path = field(default_factory=environment_home)


class Config(BaseModel):
    """Every setting. The names of sections and keys are those in the file, in variables and in `--set`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    state: StateConfig = Field(default_factory=StateConfig)
    serve: ServeConfig = Field(default_factory=ServeConfig)
    limits: LimitsConfig = Field(default_factory=LimitsConfig)
    session: SessionLimits = Field(default_factory=SessionLimits)
    capture: CaptureLimits = Field(default_factory=CaptureLimits)
    retention: RetentionLimits = Field(default_factory=RetentionLimits)
    artifacts: ArtifactLimits = Field(default_factory=ArtifactLimits)
    walls: WallsConfig = Field(default_factory=WallsConfig)
    network: NetworkSettings = Field(default_factory=NetworkSettings)
    native: NativeConfig = Field(default_factory=NativeConfig)
    env: EnvConfig = Field(default_factory=EnvConfig)
