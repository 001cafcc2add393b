"""Two processes beside each other, each in a domain: what they can do to each other, to their parent, to their own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

NATIVE = Path(__file__).resolve().parents[3] / "src" / "cellhouse" / "inside" / "native"

# Each neighbour has a child and an abstract socket; `tried` says of whom what was possible.
SCRIPT = """
import json, os, signal, socket, sys

sys.path.insert(0, sys.argv[1])
import landlock

def can(what):
    try:
        what()
    except OSError as error:
        return type(error).__name__
    return "yes"

def put(name):
    fd = os.open(f"/proc/{name}/oom_score_adj", os.O_WRONLY)
    os.write(fd, b"900")
    os.close(fd)

def listen(name):
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(b"\\0" + name)
    sock.listen()
    return sock

def tried(pid, name):
    client = socket.socket(socket.AF_UNIX)
    return {
        "signal": can(lambda: os.kill(pid, 0)),
        "memory": can(lambda: open(f"/proc/{pid}/mem", "rb").close()),
        "descriptors": can(lambda: os.readlink(f"/proc/{pid}/fd/0")),
        "socket": can(lambda: client.connect(b"\\0" + name)),
    }

def neighbour(number, peer):
    os.setsid()
    entered = landlock.enter() if sys.argv[2] == "in" else None
    sock = listen(b"%s-%d" % (own, number))
    if (child := os.fork()) == 0:
        signal.pause()
    peer.send(b"%d" % os.getpid())
    other = int(peer.recv(100))
    found = {
        "entered": entered,
        "other": tried(other, b"%s-%d" % (own, 1 - number)),
        "parent": tried(parent, own),
        "child": tried(child, b"%s-%d" % (own, number)),
        "group": can(lambda: os.kill(-other, 0)),
    }
    places = {"own": "self", "thread": "thread-self", "other": other, "parent": parent, "child": child}
    found["score"] = {who: can(lambda: put(place)) for who, place in places.items()}
    os.kill(child, signal.SIGKILL)
    found["killed"] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if number == 0:
        print(json.dumps(found), flush=True)
    peer.send(b"done")
    peer.recv(100)
    os._exit(0)

parent, own = os.getpid(), b"cellhouse-test-%d" % os.getpid()
sock = listen(own)
peers = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
pids = []
for number in (0, 1):
    pids.append(os.fork())
    if pids[-1] == 0:
        neighbour(number, peers[number])
for pid in pids:
    os.waitpid(pid, 0)
"""


def run(how: str) -> dict[str, Any]:
    argv = [sys.executable, "-I", "-S", "-B", "-c", SCRIPT, str(NATIVE), how]
    done = subprocess.run(argv, capture_output=True, timeout=60, check=True)
    assert done.stderr == b""
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture
def inside() -> dict[str, Any]:
    found = run("in")
    if not found["entered"]:
        pytest.skip("this kernel has no Landlock with scopes (ABI 6, Linux 6.12)")
    return found


def test_a_neighbour_is_out_of_reach(inside: dict[str, Any]) -> None:
    refused = dict.fromkeys(("signal", "memory", "descriptors", "socket"), "PermissionError")
    assert inside["other"] == refused
    assert inside["group"] == "PermissionError"


def test_so_is_what_both_were_forked_from(inside: dict[str, Any]) -> None:
    assert set(inside["parent"].values()) == {"PermissionError"}


def test_what_it_starts_is_its_own(inside: dict[str, Any]) -> None:
    assert set(inside["child"].values()) == {"yes"}
    assert inside["killed"] == -9


def test_of_what_stands_in_proc_only_one_s_own_can_be_written_to(inside: dict[str, Any]) -> None:
    """Not even that of a child: no rule can name what is not there yet."""
    refused = dict.fromkeys(("other", "parent", "child"), "PermissionError")
    assert inside["score"] == {"own": "yes", "thread": "yes", **refused}


def test_without_it_all_of_this_is_possible() -> None:
    found = run("out")
    assert set(found["score"].values()) == {"yes"}
    assert set(found["other"].values()) == {"yes"}
    assert set(found["parent"].values()) == {"yes"}
