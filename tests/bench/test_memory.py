"""Memory and the processes below one, as Linux tells of them."""

import os
import subprocess
import sys

import pytest

from bench import memory

_PARENT = (
    "import subprocess, sys\n"
    "child = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)\n"
    "print(child.pid, flush=True)\n"
    "input()\n"
    "child.communicate(b'')\n"
)


def test_descendants_are_children_and_their_children_and_nobody_else() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert memory.descendants(parent.pid) == {child}
        assert {parent.pid, child} <= memory.descendants(os.getpid())
        assert os.getpid() not in memory.descendants(os.getpid())
        parent.communicate(b"\n")


def test_the_proportional_share_is_no_more_than_what_is_resident() -> None:
    resident = memory.reset_peak()
    assert 0 < memory.proportional(os.getpid()) <= resident * 1.1


def test_there_is_no_share_of_a_process_that_is_gone() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    with pytest.raises(FileNotFoundError):
        memory.proportional(ended.pid)
