"""What code does to drown whoever reads it, as data: text, displays, errors and messages without end or measure.

Each is code for a cell that says `lit` first; `COUNT` is how often, less where a kernel takes its time over each.
"""

from dataclasses import dataclass, field
from typing import Final

from cellhouse.model import MIB, CaptureLimits, Outcome
from tests.attacks.forgeries import NATIVE_PRELUDE

CAPTURE: Final = CaptureLimits(
    spill_bytes=8 * MIB,
    event_text_bytes=MIB // 4,
    bundle_bytes=MIB,
    bundles_bytes=4 * MIB,
    written_outputs=200,
    rich_entries=1_000,
    artifacts=100,
)
NATIVE, JUPYTER = "native", "python3"


@dataclass(frozen=True, slots=True)
class OutputBomb:
    """`counts`: how often, by kernel; without one it is no bomb for that kernel. `seconds`: it goes on for ever, and so long.

    `reasons` are what must be told about it: notices, or reasons why outputs have no bundle.
    """

    name: str
    code: str
    counts: dict[str, int] = field(default_factory=lambda: {NATIVE: 0, JUPYTER: 0})
    outcome: Outcome = Outcome.OK
    seconds: float | None = None
    truncated: bool = False
    reasons: frozenset[str] = frozenset()
    quick: bool = False

    def cell(self, kernel: str) -> str:
        return f"print('lit', flush=True)\n{self.code.replace('COUNT', str(self.counts[kernel]))}"


_NATIVE: Final = NATIVE_PRELUDE.format(earlier="", sibling="")
_SHOW: Final = "from IPython.display import display, update_display, clear_output, HTML\n"

BOMBS: Final = (
    OutputBomb(
        "prints-for-ever",
        "while True: print('spam ' * 20)",
        outcome=Outcome.TIMED_OUT,
        seconds=1.0,
        truncated=True,
        quick=True,
    ),
    OutputBomb(
        "prints-for-ever-everywhere",
        """
import os, sys, threading
def spam():
    while not stop.is_set():
        print("thread" * 100)
stop = threading.Event()
threading.Thread(target=spam, daemon=True).start()
try:
    while True:
        print("out" * 100)
        print("err" * 100, file=sys.stderr)
        os.write(1, b"raw" * 1000)
        os.write(2, b"raw" * 1000)
finally:
    stop.set()
""",
        outcome=Outcome.TIMED_OUT,
        seconds=1.0,
        truncated=True,
    ),
    OutputBomb(
        "one-line-of-a-gigabyte",
        "import sys\npiece = 'x' * (1 << 20)\nfor _ in range(COUNT): sys.stdout.write(piece)",
        counts={NATIVE: 1024, JUPYTER: 128},
        truncated=True,
    ),
    OutputBomb(
        "one-print-of-much",
        "print('y' * COUNT)",
        counts={NATIVE: 100 << 20, JUPYTER: 100 << 20},
        truncated=True,
    ),
    OutputBomb(
        "one-value-of-much", "'z' * COUNT", counts={NATIVE: 900_000, JUPYTER: 16 << 20}, truncated=True
    ),
    OutputBomb(
        "a-value-that-is-not-sent",
        "'z' * COUNT",
        counts={NATIVE: 64 << 20},
        reasons=frozenset({"OUTPUT_TOO_LARGE"}),
    ),
    OutputBomb(
        "lines",
        "for number in range(COUNT): print()",
        counts={NATIVE: 1_000_000, JUPYTER: 200_000},
        truncated=True,
    ),
    OutputBomb(
        "rewritten-lines",
        "for number in range(COUNT): print(number, end='\\r')",
        counts={NATIVE: 500_000, JUPYTER: 100_000},
    ),
    OutputBomb(
        "displays",
        _SHOW + "for number in range(COUNT): display(HTML('<b>%d</b>' % number))",
        counts={NATIVE: 20_000, JUPYTER: 4_000},
        reasons=frozenset({"TOO_MANY_OUTPUTS"}),
        quick=True,
    ),
    OutputBomb(
        "large-displays",
        _SHOW + "big = HTML('x' * 1_000_000)\nfor number in range(COUNT): display(big)",
        counts={NATIVE: 100, JUPYTER: 50},
        reasons=frozenset({"OUTPUT_BUDGET_EXCEEDED"}),
    ),
    OutputBomb(
        "too-large-displays",
        _SHOW + "big = HTML('x' * 20_000_000)\nfor number in range(COUNT): display(big)",
        counts={NATIVE: 20, JUPYTER: 10},
        reasons=frozenset({"OUTPUT_TOO_LARGE"}),
    ),
    OutputBomb(
        "many-types",
        _SHOW + "display({'text/x-%d' % number: 'x' for number in range(COUNT)}, raw=True)",
        counts={NATIVE: 10_000, JUPYTER: 10_000},
        reasons=frozenset({"INVALID_OUTPUT"}),
    ),
    OutputBomb(
        "updates",
        _SHOW
        + "display(HTML('first'), display_id='it')\n"
        + "for number in range(COUNT): update_display(HTML('<b>%d</b>' % number), display_id='it')",
        counts={NATIVE: 20_000, JUPYTER: 4_000},
        quick=True,
    ),
    OutputBomb(
        "updates-of-nothing",
        _SHOW + "for number in range(COUNT): update_display(HTML('x'), display_id='no-%d' % number)",
        counts={NATIVE: 20_000, JUPYTER: 2_000},
        reasons=frozenset({"UNKNOWN_DISPLAY"}),
    ),
    OutputBomb(
        "clearings",
        _SHOW + "for number in range(COUNT):\n    print(number)\n    clear_output()",
        counts={NATIVE: 10_000, JUPYTER: 2_000},
    ),
    OutputBomb(
        "an-error-of-much",
        "raise ValueError('e' * COUNT)",
        counts={NATIVE: 16 << 20, JUPYTER: 16 << 20},
        outcome=Outcome.ERROR,
    ),
    OutputBomb(
        "a-class-with-a-long-name",
        "raise type('E' * COUNT, (Exception,), {})('x')",
        counts={NATIVE: 1 << 20, JUPYTER: 1 << 20},
        outcome=Outcome.ERROR,
    ),
    OutputBomb(
        "asks-for-ever",
        "while True:\n    try:\n        input()\n    except (EOFError, RuntimeError, NotImplementedError):\n        pass\n    except Exception:\n        pass",
        outcome=Outcome.TIMED_OUT,
        seconds=1.0,
    ),
    OutputBomb(
        "proposals",
        "for number in range(COUNT): get_ipython().payload_manager.write_payload({'source': 'set_next_input', 'text': 'x' * 100}, single=False)",
        counts={NATIVE: 20_000, JUPYTER: 20_000},
    ),
    OutputBomb(
        "a-thousand-classes-of-trouble",
        _NATIVE + "for number in range(COUNT): put(frame('stream', b'{'))\nprint('done')",
        outcome=Outcome.KERNEL_DIED,  # it was taken over
        counts={NATIVE: 20_000},
    ),
    OutputBomb(
        # Each names somebody else who has started processes.
        "replies-of-others",
        _NATIVE + "for number in range(COUNT): put(reply(parent='x' * 200 + str(number), forked=True))",
        outcome=Outcome.KERNEL_DIED,  # it was taken over
        counts={NATIVE: 150_000},
    ),
    OutputBomb(
        "everything-of-nobody",
        _NATIVE
        + "for number in range(COUNT): put(stream('y' * 1000, str(number)) + display('z' * 1000, str(number)) + status('busy', str(number)))",
        outcome=Outcome.KERNEL_DIED,  # it was taken over
        counts={NATIVE: 20_000},
    ),
)
