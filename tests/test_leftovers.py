"""The rule that nothing is left behind notices each kind of thing."""

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

from tests.leftovers import left_behind, look

FOR_EVER = "import sys; print(flush=True); sys.stdin.read()"


def test_nothing_is_nothing(tmp_path: Path) -> None:
    before = look([tmp_path])
    assert left_behind(before, directories=[tmp_path], mark=str(tmp_path), grace=0) == []


def test_a_process_is_noticed_until_it_was_waited_for(tmp_path: Path) -> None:
    before = look([])
    with subprocess.Popen(
        [sys.executable, "-c", FOR_EVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        found = left_behind(before, directories=[], mark=str(tmp_path), grace=0)
        assert any(line.startswith(f"process {child.pid} (") for line in found)
        assert sum(line.startswith("descriptor") for line in found) == 2
    assert left_behind(before, directories=[], mark=str(tmp_path)) == []


def test_an_orphan_is_noticed_by_its_mark(tmp_path: Path) -> None:
    before = look([])
    read, write = os.pipe()
    # The parent leaves at once; what it has started waits for the pipe.
    script = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import os; os.read(0, 1)'], cwd=sys.argv[1])"
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], stdin=read, check=True)
    os.close(read)
    try:
        found = left_behind(before, directories=[], mark=str(tmp_path), grace=0)
        assert sum(line.startswith("process") for line in found) == 1
    finally:
        os.close(write)
    assert left_behind(before, directories=[], mark=str(tmp_path)) == []


def test_a_thread_is_noticed(tmp_path: Path) -> None:
    before = look([])
    go = threading.Event()
    thread = threading.Thread(target=go.wait, name="straggler")
    thread.start()
    try:
        assert left_behind(before, directories=[], mark=str(tmp_path), grace=0) == ["thread straggler"]
    finally:
        go.set()
        thread.join()


def test_a_descriptor_is_noticed_even_under_a_number_that_was_in_use(tmp_path: Path) -> None:
    held = os.open("/dev/null", os.O_RDONLY)
    before = look([])
    left, right = socket.socketpair()
    os.dup2(left.fileno(), held)
    try:
        found = left_behind(before, directories=[], mark=str(tmp_path), grace=0)
        assert [line.split()[1] for line in found if "socket:" in line] == [
            str(number) for number in sorted([held, left.fileno(), right.fileno()])
        ]
    finally:
        left.close()
        right.close()
        os.close(held)


def test_a_file_is_noticed(tmp_path: Path) -> None:
    before = look([tmp_path])
    (tmp_path / "note").touch()
    assert left_behind(before, directories=[tmp_path], mark="/nowhere", grace=0) == [f"file {tmp_path}/note"]
