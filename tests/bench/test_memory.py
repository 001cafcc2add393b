"""Memory, as Linux tells of it."""

import os
import subprocess
import sys

import pytest

from bench import memory


def test_the_proportional_share_is_no_more_than_what_is_resident() -> None:
    resident = memory.reset_peak()
    assert 0 < memory.proportional(os.getpid()) <= resident * 1.1


def test_there_is_no_share_of_a_process_that_is_gone() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    with pytest.raises(FileNotFoundError):
        memory.proportional(ended.pid)
