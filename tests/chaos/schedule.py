"""What happens in one run, drawn from a seed: the same seed gives the same steps."""

from dataclasses import dataclass
from random import Random
from typing import Final, Literal

RUNTIMES: Final = ("one", "two")
SESSIONS: Final = ("a", "b", "c")
STEPS: Final = 22

Act = Literal[
    "submit", "repeat", "flood", "disconnect", "cancel", "kill service", "kill keeper", "kill inside", "delete session",
    "delete runtime",
]  # fmt: skip
WEIGHTS: Final[dict[Act, int]] = {
    "submit": 12, "repeat": 3, "flood": 1, "disconnect": 3, "cancel": 3, "kill service": 2, "kill keeper": 1,
    "kill inside": 3, "delete session": 1, "delete runtime": 1,
}  # fmt: skip

Kind = Literal["quick", "chatty", "slow", "raises", "exits", "crashes"]
KINDS: Final[dict[Kind, int]] = {"quick": 5, "chatty": 5, "slow": 3, "raises": 2, "exits": 1, "crashes": 1}


@dataclass(frozen=True)
class Step:
    """One thing that is done; `number` picks whom it befalls, of those that there are then."""

    act: Act
    runtime: str
    session: str
    kind: Kind
    number: int
    # Seconds until the next one.
    pause: float


def steps(seed: int) -> list[Step]:
    """Some code first, so that there is something to befall."""
    random = Random(seed)
    first: list[Act] = ["submit"] * 6
    acts = first + random.choices(list(WEIGHTS), list(WEIGHTS.values()), k=STEPS)
    return [
        Step(
            act,
            random.choice(RUNTIMES),
            random.choice(SESSIONS),
            random.choices(list(KINDS), list(KINDS.values()))[0],
            random.randrange(1 << 30),
            random.choice((0.0, 0.0, 0.01, 0.05, 0.15)),
        )
        for act in acts
    ]


LINES: Final[dict[Kind, int]] = {
    "quick": 1, "chatty": 300, "slow": 5, "raises": 3, "exits": 3, "crashes": 3
}  # fmt: skip
END: Final[dict[Kind, str]] = {
    "quick": "", "chatty": "", "slow": "time.sleep(600)", "raises": "1 / 0", "exits": "os._exit(3)",
    "crashes": "os.kill(os.getpid(), 11)",
}  # fmt: skip


def code(kind: Kind, name: str) -> str:
    """Code that leaves a mark in /content before anything else, and prints numbered lines."""
    return (
        "import os, time\n"
        f"fd = os.open('/content/ran', os.O_WRONLY | os.O_CREAT | os.O_APPEND)\n"
        f"os.write(fd, b'{name}\\n'); os.close(fd)\n"
        f"for n in range({LINES[kind]}): print('{name}', n, flush=True)\n"
        f"{END[kind]}\n"
    )


def lines(kind: Kind, name: str) -> str:
    """All that it prints."""
    return "".join(f"{name} {n}\n" for n in range(LINES[kind]))
