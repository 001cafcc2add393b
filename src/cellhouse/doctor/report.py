"""What doctor found, as one document: `cellhouse doctor --json` prints it.

Absent and empty are told apart as everywhere: an optional member that is missing was not found out, an empty list was.
"""

from enum import StrEnum

from cellhouse.model.enums import Enforcement
from cellhouse.model.wire import Int32, Int64, Text, Wire


class ProbeOutcome(StrEnum):
    """What became of one thing that was tried."""

    HELD = "held"
    """Refused behind these walls, and possible without them."""
    REACHED = "reached"
    """Possible behind these walls too."""
    NOT_SHOWN = "not shown"
    """It shows nothing; `detail` says why."""


class LayerStatus(StrEnum):
    """What can be said of one layer, or of one limit."""

    IN_FORCE = "in force"
    """Claimed by the backend, and at least one probe was held and none got through, a moment ago."""
    ABSENT = "absent"
    """The backend itself says that there is none."""
    OPEN = "open"
    """Claimed by the backend, and yet a probe got through."""
    NOT_SHOWN = "not shown"
    """Claimed by the backend, and no probe showed it."""


class LevelStatus(StrEnum):
    """Whether an isolation level can be had here."""

    AVAILABLE = "available"
    UNAVAILABLE = "unavailable"
    NOT_SHOWN = "not shown"


class ProbeReport(Wire):
    """One thing that was tried inside, and the same without walls.

    `answer` and `unwalled` are `reached`, the name of an errno or a signal, or `missed: …` where there was nothing to
    be had; each is absent where the probe came to no answer.
    """

    name: Text
    tried: Text
    outcome: ProbeOutcome
    answer: Text | None = None
    unwalled: Text | None = None
    detail: Text | None = None


class LayerReport(Wire):
    """One layer of the walls. `detail` is the backend's own claim, `remedy` what would bring the layer about."""

    name: Text
    status: LayerStatus
    detail: Text | None = None
    remedy: Text | None = None
    probes: tuple[ProbeReport, ...] = ()


class LimitProbeReport(Wire):
    """One limit, put at `value` in a sandbox of its own and run into there.

    `enforcement` is how the backend says that it holds it; believed where `status` is `in force`. Units: bytes, CPUs,
    processes, files.
    """

    name: Text
    value: int | float
    status: LayerStatus
    enforcement: Enforcement | None = None
    detail: Text | None = None
    remedy: Text | None = None
    probe: ProbeReport | None = None


class SessionsReport(Wire):
    """Two sessions of one runtime with the default kernel, as `House` starts them. `works`: its first cell gave 42.

    `start` is how the second one came to be: `zygote` (forked) or `fresh`; absent where none was started.
    """

    works: bool
    environment: Text | None = None
    kernel: Text | None = None
    start: Text | None = None
    detail: Text | None = None
    remedy: Text | None = None


class PolicyReport(Wire):
    """The network policy `allow`, tried by a runtime that may reach one server of doctor's own, and one that asks for nothing.

    Each member is `reached`, the name of an errno, or what the proxy said; absent where nothing was tried.
    """

    status: LayerStatus
    detail: Text | None = None
    # Through the proxy: the server that the policy names, and another one, with the proxy's reason.
    named: Text | None = None
    unnamed: Text | None = None
    # The server that is named, past the proxy; and in any way by the runtime without a policy.
    direct: Text | None = None
    without_policy: Text | None = None


class LevelReport(Wire):
    """One isolation level, layer by layer and limit by limit. Without layers, no sandbox of it could be started."""

    level: Text
    default: bool
    status: LevelStatus
    detail: Text | None = None
    layers: tuple[LayerReport, ...] | None = None
    limits: tuple[LimitProbeReport, ...] | None = None
    sessions: SessionsReport | None = None
    network_policy: PolicyReport | None = None


class CgroupReport(Wire):
    """The hierarchies of control groups that this process is in. `writable` are the controllers a group was made with."""

    version: Text
    controllers: tuple[Text, ...]
    writable: tuple[Text, ...]
    detail: Text | None = None


class FindingReport(Wire):
    """Something that is there or not, and what would help."""

    found: bool
    detail: Text
    remedy: Text | None = None


class MachineReport(Wire):
    """What this machine has that walls are made of."""

    linux: Text
    machine: Text
    uid: Int32
    root: bool
    landlock_abi: Int32
    cgroups: CgroupReport
    user_namespaces: FindingReport
    bubblewrap: FindingReport


class EnvironmentReport(Wire):
    """A kernel environment, read from its files. `kernel` is what its Python means; absent where there is none.

    `ipython` is absent where there is none in it. `missing` says what is wrong, `remedy` is in it.
    """

    name: Text
    default: bool
    usable: bool
    prefix: Text | None = None
    kernel: Text | None = None
    native: bool
    ipython: Text | None = None
    kernels: tuple[Text, ...] = ()
    missing: Text | None = None


class StateReport(Wire):
    """Where state lives. `writable`: a directory was made there, and removed. Bytes are free for this user."""

    directory: Text
    writable: bool
    free_bytes: Int64 | None = None
    detail: Text | None = None
    remedy: Text | None = None


class DoctorReport(Wire):
    """Everything. `ok` is whether code can be run here behind the default walls, and these were shown to stand.

    `problems` are the reasons why not, each with its remedy: empty where `ok`.
    """

    ok: bool
    problems: tuple[Text, ...]
    version: Text
    time: Text
    seconds: float
    default_isolation: Text
    levels: tuple[LevelReport, ...]
    machine: MachineReport
    environments: tuple[EnvironmentReport, ...]
    state: StateReport
