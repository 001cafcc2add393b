"""The template: a process that has imported everything a keeper needs, has one thread, and forks when asked.

`python -m cellhouse.keepers.template FD`: FD is a socket of datagrams. Each asks for one keeper: JSON {"directory": …}, with
the socket it is to listen on; answered by {"pid": …}, {"error": an error of a call} or {"failed": …}. The end of that socket is the template's own end, and
of nobody else: keepers are in sessions of their own.
"""

import concurrent.futures.thread  # noqa: F401 - asyncio imports it with the first thread
import ctypes
import encodings.ascii  # noqa: F401 - as does whoever first encodes
import gc
import json
import os
import signal
import socket
import sys
from functools import partial
from typing import Any, Final

import uvloop  # noqa: F401 - each keeper's loop is one of its

from cellhouse.keepers.keeper import keep
from cellhouse.keepers.place import rehearse_settings
from cellhouse.keepers.rights import Errand
from cellhouse.model import parse_event
from cellhouse.sandbox.privileged import DEFAULT_UIDS
from cellhouse.sandbox.privileged.uids import has_account

REQUEST_BYTES: Final = 16_384
ANSWER_BYTES: Final = 65_536
PR_SET_NAME: Final = 15
LIBC: Final = ctypes.CDLL(None)
NAME: Final = b"cellhouse-tmpl"


def main(descriptor: int) -> None:
    """Until the service is gone."""
    LIBC.prctl(PR_SET_NAME, NAME, 0, 0, 0)
    os.chdir("/")
    # Nobody waits for keepers: they are let go of as they end.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = socket.socket(fileno=descriptor)
    os.set_inheritable(descriptor, False)
    _warm()
    control.send(b'{"ready": true}')
    gc.collect()
    gc.freeze()  # what is there now is shared by all keepers, so nobody's collector is to write into it
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, REQUEST_BYTES, 1)
        if not data:
            return
        if len(descriptors) == 1:
            control.send(json.dumps(fork(control, data, descriptors[0])).encode())


def _warm() -> None:
    """What is otherwise made when it is first needed would be each keeper's own."""
    for kind in ("queued", "started"):
        parse_event({"type": kind})
    rehearse_settings()
    has_account(DEFAULT_UIDS.first)  # loads what the machine looks for accounts with
    LIBC.malloc_trim(0)


def fork(control: socket.socket, data: bytes, descriptor: int) -> dict[str, Any]:
    """One keeper."""
    listening, told = os.pipe()
    try:
        errand = Errand.from_wire(data)
        pid = os.fork()
        if pid == 0:
            control.close()
            os.close(listening)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            keep(errand, socket.socket(fileno=descriptor), partial(_tell, told))
        os.close(told)
        told = -1
        said = _heard(listening)  # its end: whoever connects from now on is not refused
    except (OSError, ValueError, KeyError, TypeError) as error:
        return {"failed": str(error)}
    else:
        return said or {"pid": pid}
    finally:
        os.close(listening)
        os.close(descriptor)
        if told >= 0:
            os.close(told)


def _tell(told: int, answer: dict[str, Any]) -> None:
    if answer:
        os.write(told, json.dumps(answer).encode()[:ANSWER_BYTES])
    os.close(told)


def _heard(listening: int) -> dict[str, Any]:
    said = b""
    while piece := os.read(listening, ANSWER_BYTES):
        said += piece
    found = json.loads(said) if said else {}
    return found if isinstance(found, dict) else {}


if __name__ == "__main__":
    main(int(sys.argv[1]))
