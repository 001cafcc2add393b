"""What the walls of a runtime are to be."""

from pathlib import Path

from cellhouse.environments import Environment
from cellhouse.model import NetworkPolicy, WallLimits
from cellhouse.sandbox import SandboxSpec, TmpfsSizes, UidRange


def _tmpfs(memory: int) -> TmpfsSizes:
    """What is in memory counts as memory: where all of them are full, there must be room for a kernel all the same."""
    most = TmpfsSizes()
    return TmpfsSizes(
        tmp=min(most.tmp, memory * 3 // 8),
        home=min(most.home, memory // 16),
        shm=min(most.shm, memory // 4),
        run=min(most.run, memory // 32),
    )


def sandbox_spec(
    directory: Path,
    environment: Environment,
    limits: WallLimits,
    uids: UidRange | None = None,
    network: NetworkPolicy | None = None,
) -> SandboxSpec:
    """The walls of a runtime that lives in `directory` and runs the Python of `environment`."""
    return SandboxSpec(
        state=directory,
        python=environment.python,
        read_only=(environment.prefix, *environment.base_prefixes),
        tmpfs=_tmpfs(limits.memory),
        limits=limits,
        uids=uids,
        host_network=network is not None and network.policy == "open",
    )
