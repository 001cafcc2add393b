"""A process that has loaded the command line, and is forked for each command: to load it anew costs most of a second.

A command has arguments, environment, directory and descriptors of its own, and the interpreter ends with it as with any.
For whoever waits for a process of his own, `launcher.py` stands in. That a command starts by itself is shown by the tests
of signals, of `serve` and of the README, which start real ones.
"""

import array
import contextlib
import gc
import json
import os
import runpy
import selectors
import signal
import socket
import sys
from typing import Any

LOADED = (
    "cellhouse.cli.app",
    "cellhouse.cli.remote",
    "cellhouse.client",
    "cellhouse.doctor",
    "cellhouse.doors.server",
    "cellhouse.keepers",
    "cellhouse.notebooks",
)
NUMBER_BYTES = 8

Command = dict[str, Any]


def main(server: socket.socket) -> tuple[Command, list[int]] | None:
    """Serve launchers until standard input ends: then None. In each fork, the command that it is to be."""
    selector = selectors.DefaultSelector()
    selector.register(server, selectors.EVENT_READ)
    selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fd == sys.stdin.fileno():
                return None
            if key.data is not None:
                _end(key, selector)
            elif (begun := _begin(server, selector)) is not None:
                _let_go(selector)
                return begun


def _begin(server: socket.socket, selector: selectors.BaseSelector) -> tuple[Command, list[int]] | None:
    connection, _ = server.accept()
    command, descriptors = receive(connection)
    pid = os.fork()
    if pid == 0:
        connection.close()
        return command, descriptors
    for descriptor in descriptors:
        os.close(descriptor)
    connection.sendall(pid.to_bytes(NUMBER_BYTES, "big"))
    ended = os.pidfd_open(pid)
    selector.register(ended, selectors.EVENT_READ, (pid, ended, connection))
    selector.register(connection, selectors.EVENT_READ, (pid, ended, connection))
    return None


def _end(key: selectors.SelectorKey, selector: selectors.BaseSelector) -> None:
    """Either the command has ended, or who waits for it has: then it has to end, too."""
    pid, ended, connection = key.data
    if key.fd not in selector.get_map():
        return  # both at once
    selector.unregister(ended)
    selector.unregister(connection)
    if key.fd != ended:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    os.close(ended)
    with connection, contextlib.suppress(ConnectionError):
        connection.sendall(status.to_bytes(NUMBER_BYTES, "big"))


def _let_go(selector: selectors.BaseSelector) -> None:
    """In a fork: of everything that is the template's."""
    for key in list(selector.get_map().values()):
        if isinstance(key.fileobj, socket.socket):
            key.fileobj.close()
        elif key.fd != sys.stdin.fileno():
            os.close(key.fd)
    selector.close()


def receive(connection: socket.socket) -> tuple[Command, list[int]]:
    """The command as its launcher describes it, with its descriptors."""
    data, ancillary, _, _ = connection.recvmsg(NUMBER_BYTES, socket.CMSG_SPACE(3 * 4))
    descriptors = array.array("i")
    for _, _, payload in ancillary:
        descriptors.frombytes(payload)
    left, text = int.from_bytes(data, "big"), b""
    while len(text) < left:
        text += connection.recv(left - len(text))
    return json.loads(text), list(descriptors)


def become(command: Command, descriptors: list[int]) -> None:
    """This process is the command from here on."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(command["environment"])
    os.chdir(command["directory"])
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.argv = ["cellhouse", *command["arguments"]]


if __name__ == "__main__":
    listening = socket.socket(fileno=int(sys.argv[1]))
    for name in LOADED:
        __import__(name)
    gc.freeze()
    if (begun := main(listening)) is not None:
        become(*begun)
        runpy.run_module("cellhouse", run_name="__main__", alter_sys=True)
