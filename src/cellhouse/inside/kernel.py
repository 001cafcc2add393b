"""Starts one fresh native kernel: `python kernel.py FD`, FD being its end of the socket, 1 and 2 its pipes."""

from __future__ import annotations

import os
import socket
import sys

NAME = "cellhouse_native"


def load() -> None:
    """Make the package `native` beside this file importable, under a name that can't be the user's."""
    import importlib.util

    here = os.path.dirname(os.path.abspath(__file__))
    # A cell's imports must not see this directory. The working directory, which other sessions can fill, has no say
    # either before this one's walls stand.
    sys.path[:] = [entry for entry in sys.path if entry and os.path.abspath(entry) != here]
    place = os.path.join(here, "native")
    spec = importlib.util.spec_from_file_location(
        NAME, os.path.join(place, "__init__.py"), submodule_search_locations=[place]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = module
    spec.loader.exec_module(module)


def main() -> None:
    load()
    from importlib import import_module

    sock = socket.socket(fileno=int(sys.argv[1]))
    sock.set_inheritable(False)
    sys.argv[1:] = []
    import_module(f"{NAME}.host").run(sock)


if __name__ == "__main__":
    main()
