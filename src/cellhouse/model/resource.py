"""Runtimes and sessions: what is asked for and what is in force."""

from typing import Annotated, Literal

from pydantic import Field

from cellhouse.model.enums import Enforcement, RuntimeStatus, SessionStatus
from cellhouse.model.wire import Int32, Text, Wire

PositiveSeconds = Annotated[float, Field(gt=0)]


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


class Runtime(Wire):
    """One sandbox with its /content, as it is now."""

    name: Text
    status: RuntimeStatus | None = None
    environment: Text | None = None
    kernel: Text | None = None
    isolation: Isolation | None = None
    limits: tuple[LimitReport, ...] | None = None
    network_policy: Text | None = None
    sessions: tuple[Text, ...] | None = None
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
