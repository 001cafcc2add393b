"""Documents that are written where the command line says."""

import os
import sys
from pathlib import Path

from cellhouse.cli.service import drop_stdout
from cellhouse.files import write_atomic
from cellhouse.model import InvalidArgument


def write_document(text: str, output: str) -> None:
    """To a file, put in place whole or not at all, or to standard output, which is `-`. INVALID_ARGUMENT for a directory."""
    data = text.encode()
    if output == "-":
        try:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            drop_stdout()
            raise
        return
    check_document(output)
    path = Path(output)
    mode = 0o666 & ~_umask()
    if path.exists() and not path.is_file():  # a pipe or a device: there is nothing to put in place
        path.write_bytes(data)
    else:
        write_atomic(path, data, mode=mode)


def check_document(output: str) -> None:
    """INVALID_ARGUMENT where no document can be put there, as far as that can be told before there is one."""
    path = Path(output)
    if path.is_dir():
        raise InvalidArgument.of_field("--output", f"{path} is a directory; give the name of a file")
    if output != "-" and not path.parent.is_dir():
        raise InvalidArgument.of_field("--output", f"there is no directory {path.parent}; make it first")


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
