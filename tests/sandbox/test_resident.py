"""Memory of what is below a process: all generations of it, others that are named, and nothing else."""

import os
import subprocess
import sys

from cellhouse.sandbox.resident import descendants, resident_below

MIB = 2**20
CHILD = "held = bytearray(b'x' * (64 * 2**20)); print('up', flush=True); input()"
PARENT = f"import subprocess, sys\nchild = subprocess.Popen([sys.executable, '-c', {CHILD!r}], stdin=sys.stdin)\nchild.wait()"


def test_all_generations_below_a_process_count_and_it_itself_does_not() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"up\n"
        below = resident_below(parent.pid)
        assert 64 * MIB < below < 500 * MIB
        assert below < resident_below(parent.pid, [parent.pid]) < below + 64 * MIB
        assert resident_below(os.getpid()) > below + MIB  # the parent, too
        found = descendants(parent.pid)
        assert len(found) == 1
        assert sum(found.values()) > 64 * MIB
        assert {parent.pid, *found} <= descendants(os.getpid()).keys()
        assert os.getpid() not in descendants(os.getpid())
        parent.communicate(b"\n")
    assert resident_below(parent.pid) == 0


def test_who_has_ended_or_never_was_has_none() -> None:
    assert resident_below(2**22 + 1, [2**22 + 2]) == 0
