"""What a process of a service holds."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from bench.memory import proportional
from cellhouse.sandbox.resident import descendants


@dataclass(frozen=True, slots=True)
class Held:
    """What the service's process holds."""

    descriptors: int
    threads: int
    children: int
    bytes: int

    @classmethod
    def of(cls, pid: int) -> Self:
        return cls(
            len(list(Path(f"/proc/{pid}/fd").iterdir())),
            len(list(Path(f"/proc/{pid}/task").iterdir())),
            len(descendants(pid)),
            proportional(pid),
        )
