"""What is run: the same code on every side, and what of it has to arrive."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

BLOCK_BYTES = 10_000_000
LINE_BYTES = 50
HTML_ROW = '<tr class="r"><td>42</td><td>café &amp; crème</td></tr>\n'
WORK_SECONDS = 0.4
"""How long a cell works on after its first text: longer than any side keeps the text back."""

RAISE = "raise ValueError('no')"
DEEP = (
    "def dive(depth):\n"
    "    if depth == 1:\n"
    "        raise ValueError('no')\n"
    "    return dive(depth - 1)\n"
    "dive(6)\n"
)
"""Raises below six frames, each with its lines of source."""

_WORKS_ON = f"end = time.perf_counter() + {WORK_SECONDS}\nwhile time.perf_counter() < end:\n    pass\n"
FIRST_TEXTS = {
    "print(…, end='')": f"import time\nprint('here', end='')\n{_WORKS_ON}",
    "print(…)": f"import time\nprint('here')\n{_WORKS_ON}",
}
"""Cells that print, flush nothing, and work on."""

IMPORTS = "import pandas as pd\nimport matplotlib.pyplot as plt\n"
USED = (
    f"{IMPORTS}"
    "frame = pd.DataFrame({'a': range(10), 'b': range(10)})\n"
    "figure, axes = plt.subplots()\n"
    "axes.plot(frame['a'], frame['b'])\n"
    "plt.close(figure)\n"
    "int(frame['a'].sum())\n"
)
"""A frame that is computed with, and a plot that is made but not drawn: to draw it takes each side the same."""
AGE = (
    "import os, pathlib, time\n"
    "fields = pathlib.Path('/proc/self/stat').read_text().rpartition(')')[2].split()\n"
    "time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf('SC_CLK_TCK')\n"
)
"""Seconds that the process has lived."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One piece of code with the counts that it produces. `html` is what its last display shows in the end."""

    name: str
    code: str
    text_bytes: int = 0
    text_lines: int = 0
    displays: int = 0
    updates: int = 0
    html: str = ""

    def files(self) -> Iterator[bytes]:
        """The files that these displays become, as nbformat outputs; a display that is updated is one file."""
        for number in range(self.displays):
            html = self.html if self.displays == 1 else f"<b>{number}</b>"
            output = {"output_type": "display_data", "data": {"text/html": html}, "metadata": {}}
            yield json.dumps(output, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def writes(blocks: int = 10) -> Workload:
    return Workload(
        name=f"{blocks} × 10 MB writes",
        code=(
            "import sys\n"
            f"block = ('x' * {LINE_BYTES - 1} + '\\n') * {BLOCK_BYTES // LINE_BYTES}\n"
            f"for _ in range({blocks}):\n"
            "    sys.stdout.write(block)\n"
            "    sys.stdout.flush()\n"
        ),
        text_bytes=blocks * BLOCK_BYTES,
        text_lines=blocks * BLOCK_BYTES // LINE_BYTES,
    )


def prints(lines: int) -> Workload:
    return Workload(
        name=f"{lines:,} prints",
        code=f"line = 'x' * {LINE_BYTES - 1}\nfor _ in range({lines}):\n    print(line)\n",
        text_bytes=lines * LINE_BYTES,
        text_lines=lines,
    )


def displays(count: int) -> Workload:
    return Workload(
        name=f"{count:,} displays",
        code=(
            "from IPython.display import display\n"
            f"for number in range({count}):\n"
            "    display({'text/html': f'<b>{number}</b>'}, raw=True)\n"
        ),
        displays=count,
        html=f"<b>{count - 1}</b>",
    )


def updates(count: int) -> Workload:
    return Workload(
        name=f"{count:,} updates of one display",
        code=(
            "from IPython.display import display\n"
            "shown = display({'text/html': '<b>0</b>'}, raw=True, display_id='progress')\n"
            f"for number in range(1, {count + 1}):\n"
            "    shown.update({'text/html': f'<b>{number}</b>'}, raw=True)\n"
        ),
        displays=1,
        updates=count,
        html=f"<b>{count}</b>",
    )


def html(megabytes: int) -> Workload:
    rows = megabytes * 1_000_000 // len(HTML_ROW.encode())
    return Workload(
        name=f"{megabytes} MB of HTML",
        code=(
            "from IPython.display import display\n"
            f"display({{'text/html': {HTML_ROW!r} * {rows}}}, raw=True)\n"
        ),
        displays=1,
        html=HTML_ROW * rows,
    )
