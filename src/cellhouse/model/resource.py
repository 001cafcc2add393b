"""Runtimes and sessions: what is asked for and what is in force."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from cellhouse.model.enums import Enforcement, RuntimeStatus, SessionStatus
from cellhouse.model.errors import InvalidArgument
from cellhouse.model.limits import (
    LEAST_CONTENT,
    LEAST_CPUS,
    LEAST_MEMORY,
    LEAST_OPEN_FILES,
    LEAST_PROCESSES,
    LimitName,
    WallLimits,
)
from cellhouse.model.network import NetworkPolicy, NetworkReport
from cellhouse.model.patterns import Patterns
from cellhouse.model.wire import INT64_MAX, Int32, Int64, Text, Wire, proto3, without_nulls

Minting = Literal["off", "listed", "all"]
"""Which files that code makes are put into the artifact store: none, those that patterns name, or all."""

PositiveSeconds = Annotated[float, Field(gt=0)]


def _at_least(least: float, unit: str, *, whole: bool = True) -> BeforeValidator:
    """A rule whose message says all that a limit takes."""

    def check(value: Any) -> Any:
        number = value
        if whole and isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
            number = int(value)
        kinds = (int,) if whole else (int, float)
        # A NaN is at least nothing.
        if type(number) not in kinds or not least <= number <= INT64_MAX:
            kind = "a whole number" if whole else "a number"
            rule = f"takes {kind} of {unit}, at least {least}"
            raise PydanticCustomError("limit", "{rule}", {"rule": rule})
        return number

    return BeforeValidator(check)


class RuntimeLimits(Wire):
    """What a new runtime may use. What is named is held, at least by a watcher, or the call fails."""

    memory: Annotated[Int64, _at_least(LEAST_MEMORY, "bytes")] | None = None
    # CPUs' worth of time, such as 0.5.
    cpus: Annotated[float, _at_least(LEAST_CPUS, "CPUs", whole=False)] | None = None
    # Threads count.
    processes: Annotated[Int32, _at_least(LEAST_PROCESSES, "processes")] | None = None
    # Bytes of /content on the disk.
    content: Annotated[Int64, _at_least(LEAST_CONTENT, "bytes")] | None = None
    open_files: Annotated[Int32, _at_least(LEAST_OPEN_FILES, "open files of one process")] | None = None
    # Bytes of one file.
    file_size: Annotated[Int64, _at_least(1, "bytes")] | None = None
    # Names of limits that must be held exactly, and not by a watcher that may be late.
    exact: tuple[LimitName, ...] | None = None

    @model_validator(mode="before")
    @classmethod
    def _know_all(cls, values: Any) -> Any:
        """A limit that nobody knows would be a wall that is not there."""
        if isinstance(values, dict):
            taken = set(cls.model_fields) | {
                field.alias for field in cls.model_fields.values() if field.alias
            }
            if unknown := [str(name)[:64] for name in values if name not in taken]:
                rule = f"takes {', '.join(sorted(field.alias or name for name, field in cls.model_fields.items()))}"
                raise PydanticCustomError(
                    "limit", "{rule}; not known: {unknown}", {"rule": rule, "unknown": ", ".join(unknown)}
                )
        return values

    def over(self, defaults: WallLimits) -> WallLimits:
        """These limits, and the defaults for what is not said."""
        said: dict[LimitName, int | float | None] = {
            "memory": self.memory,
            "cpus": self.cpus,
            "processes": self.processes,
            "content": self.content,
            "openFiles": self.open_files,
            "fileSize": self.file_size,
        }
        exact = frozenset(self.exact or ())
        return replace(
            defaults,
            memory=self.memory or defaults.memory,
            cpus=self.cpus or defaults.cpus,
            processes=self.processes or defaults.processes,
            content=self.content or defaults.content,
            open_files=self.open_files or defaults.open_files,
            file_size=self.file_size or defaults.file_size,
            named=exact.union(name for name, value in said.items() if value is not None),
            exact=exact,
        )


class RuntimeSpec(Wire):
    """What a new runtime is to be. What is not said is left to the house; what is said is had or the call fails."""

    environment: Text = "default"
    # "native", or the name of a kernelspec; None is the environment's Python.
    kernel: Text | None = None
    # Whether a native kernel is forked from a process that has imported what is usual, or started anew each time.
    start: Literal["zygote", "fresh"] | None = None
    # Level of the walls, such as "bubblewrap"; "none" must be asked for by this name.
    isolation: Text | None = None
    idle_seconds: PositiveSeconds | None = None
    limits: RuntimeLimits | None = None
    # What it may reach; None is nothing, where the walls can hold that.
    network: NetworkPolicy | None = None
    # Which files that executions make are put into the artifact store; "off" where nothing is said.
    minting: Minting | None = None
    # With "listed": patterns of names, besides those that a request has. See `model.patterns`.
    mint: Patterns | None = None

    if not TYPE_CHECKING:  # a type checker keeps the signature made of the fields

        def __init__(self, **fields: Any) -> None:
            try:
                super().__init__(**fields)
            except ValidationError as error:
                raise InvalidArgument.of_validation("runtime", error) from None

    @classmethod
    def from_wire(cls, obj: Any) -> Self:
        """Reads a JSON-ready object; InvalidArgument names the field and the rule."""
        if not isinstance(obj, dict):
            raise InvalidArgument.of_field("runtime", "what a runtime is to be must be a JSON object")
        return cls(**without_nulls({key: value for key, value in obj.items() if isinstance(key, str)}))


class IsolationLayer(Wire):
    """One layer of the walls and whether it is in force."""

    name: Text
    status: Text
    detail: Text = ""


class Isolation(Wire):
    """The walls in force, layer by layer."""

    level: Text
    layers: tuple[IsolationLayer, ...] = ()


class LimitReport(Wire):
    """One limit in force and how it is held; without a value there is no such limit."""

    name: Text
    value: int | float | None = None
    enforcement: Enforcement
    # By what it is held, or why it is not.
    detail: Annotated[Text, proto3] = ""


class Runtime(Wire):
    """One sandbox with its /content, as it is now."""

    name: Text
    status: RuntimeStatus | None = None
    environment: Text | None = None
    kernel: Text | None = None
    isolation: Isolation | None = None
    limits: tuple[LimitReport, ...] | None = None
    # "none", "allow" or "open"; "host" where nothing was asked for and the walls hold no network.
    network_policy: Text | None = None
    # Where there is a policy of names: what it says, and what has come of it.
    network: NetworkReport | None = None
    sessions: tuple[Text, ...] | None = None
    minting: Text | None = None
    create_time: Text | None = None
    # When it is closed unless something runs before.
    expire_time: Text | None = None


class Session(Wire):
    """One live kernel, as it is now."""

    name: Text
    status: SessionStatus | None = None
    kernel: Text | None = None
    language: Text | None = None
    # The execution that runs now, and how many wait behind it.
    execution: Text | None = None
    queued: Int32 | None = None
    execution_count: Int32 | None = None
    create_time: Text | None = None
    # When it is closed unless something runs before.
    expire_time: Text | None = None
