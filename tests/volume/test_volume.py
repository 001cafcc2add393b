"""Much output: everything accounted for, and the service's memory stays where it was."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cellhouse.environments import Environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

GROWTH_MIB = 64
"""What the service may grow by, whatever a kernel sends; besides the largest message that it admits."""


@pytest.fixture(params=["native", "python3"])
def kernel(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _run(
    environment: Environment, tmp_path: Path, kernel: str, code: str, timeout: float = 0
) -> dict[str, Any]:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.volume.child",
            str(tmp_path / "s"),
            str(environment.prefix),
            kernel,
            code,
            str(timeout),
        ],
        capture_output=True,
        cwd=Path(__file__).parents[2],
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    told = json.loads(done.stdout)
    assert isinstance(told, dict)
    return told


def test_twenty_thousand_displays_each_keep_their_place(
    environment: Environment, tmp_path: Path, kernel: str
) -> None:
    code = "from IPython.display import HTML, display\nfor i in range(20_000): display(HTML(f'<i>{i}</i>'))"
    told = _run(environment, tmp_path, kernel, code)
    outputs = told["result"]["richOutputs"]
    assert [output.get("index", 0) for output in outputs] == list(range(20_000))
    assert all("filePath" in output for output in outputs)
    assert told["growthMiB"] <= GROWTH_MIB


def test_a_thousand_updates_end_in_the_final_state(
    environment: Environment, tmp_path: Path, kernel: str
) -> None:
    code = (
        "from IPython.display import HTML, display\nhandle = display(HTML('start'), display_id=True)\n"
        "for i in range(1_000): handle.update(HTML(f'state {i}'))"
    )
    told = _run(environment, tmp_path, kernel, code)
    (output,) = told["result"]["richOutputs"]
    (bundle,) = (tmp_path / "s").glob("runtimes/*" + output["filePath"])
    assert "state 999" in bundle.read_text()
    assert told["growthMiB"] <= GROWTH_MIB


def test_fifty_megabytes_of_html_go_to_the_disk_in_one_copy(
    environment: Environment, tmp_path: Path, kernel: str
) -> None:
    told = _run(environment, tmp_path, kernel, "from IPython.display import HTML\nHTML('x' * 50_000_000)")
    (output,) = told["result"]["richOutputs"]
    assert 50_000_000 < int(output["sizeBytes"]) < 50_001_000
    assert told["growthMiB"] <= GROWTH_MIB


HUGE = (
    "print('before', flush=True)\nfrom IPython.display import HTML, display\ndisplay(HTML('x' * 300_000_000))"
)


def test_three_hundred_megabytes_in_one_display_end_a_jupyter_kernel_with_the_cause(
    environment: Environment, tmp_path: Path
) -> None:
    told = _run(environment, tmp_path, "python3", HUGE)
    result = told["result"]
    assert result["outcome"] == "RESOURCE_KILLED"
    assert result["outcomeInfo"]["reason"] == "MESSAGE_SIZE"
    assert int(result["outcomeInfo"]["metadata"]["sizeBytes"]) > 300_000_000
    assert result["stdout"] == "before\n"
    assert told["growthMiB"] <= GROWTH_MIB


def test_the_native_kernel_does_not_send_them_and_says_so(environment: Environment, tmp_path: Path) -> None:
    told = _run(environment, tmp_path, "native", HUGE)
    result = told["result"]
    assert (result["outcome"], result["stdout"]) == ("OK", "before\n")
    (output,) = result["richOutputs"]
    assert output["errorInfo"]["reason"] == "OUTPUT_TOO_LARGE"
    assert told["growthMiB"] <= GROWTH_MIB


def test_two_million_lines_are_counted_and_kept_to_the_byte(
    environment: Environment, tmp_path: Path, kernel: str
) -> None:
    told = _run(environment, tmp_path, kernel, "for i in range(2_000_000): print('x' * 49)")
    cut = told["result"]["truncation"]["stdout"]
    assert told["result"]["outcome"] == "OK"
    assert [int(cut[key]) for key in ("totalBytes", "totalChars", "totalLines")] == [
        100_000_000,
        100_000_000,
        2_000_000,
    ]
    assert int(cut["spilledBytes"]) == told["storedBytes"] == 100_000_000
    assert int(cut["keptHeadChars"]) + int(cut["keptTailChars"]) + int(cut["omittedChars"]) == 100_000_000
    assert told["growthMiB"] <= GROWTH_MIB


def test_an_endless_print_is_slowed_counted_and_ended_when_asked(
    environment: Environment, tmp_path: Path, kernel: str
) -> None:
    code = "i = 0\nwhile True:\n    print(f'{i:09}')\n    i += 1"
    told = _run(environment, tmp_path, kernel, code, timeout=10)
    result = told["result"]
    cut = result["truncation"]["stdout"]
    assert result["outcome"] == "TIMED_OUT"
    last = max(int(line) for line in result["stdout"].splitlines()[-20:] if line.isdigit() and len(line) == 9)
    # The interrupt may fall between a line and its end, or between the print and the next count.
    assert last + 1 - int(cut["totalLines"]) in (0, -1)
    assert int(cut["spilledBytes"]) == told["storedBytes"] == int(cut["totalBytes"])
    assert told["growthMiB"] <= GROWTH_MIB
