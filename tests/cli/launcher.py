"""Stands in for one command that a template (`template.py`) runs: ends as it ends, and hands on what signals say.

Started with nothing but the standard library: `python -IS launcher.py NAME ARGUMENT…`; NAME is that of the template's
abstract socket.
"""

import array
import json
import os
import signal
import socket
import sys

NUMBER_BYTES = 8


def main(name: str, arguments: list[str]) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(f"\0{name}")
        command = {"arguments": arguments, "environment": dict(os.environ), "directory": os.getcwd()}
        text = json.dumps(command).encode()
        descriptors = array.array("i", (0, 1, 2))
        connection.sendmsg(
            [len(text).to_bytes(NUMBER_BYTES, "big")],
            [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)],
        )
        connection.sendall(text)
        for descriptor in descriptors:
            os.close(descriptor)  # its ends of pipes are the command's alone
        pid = _number(connection)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, frame: os.kill(pid, number))
        status = _number(connection)
    if os.WIFSIGNALED(status):
        signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status))


def _number(connection: socket.socket) -> int:
    data = b""
    while len(data) < NUMBER_BYTES:
        if not (piece := connection.recv(NUMBER_BYTES - len(data))):
            os._exit(1)  # the template is gone
        data += piece
    return int.from_bytes(data, "big")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
