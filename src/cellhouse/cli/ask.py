"""Asks a person at the terminal for a line, without holding anything else up."""

import asyncio
import os
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager

from cellhouse.cli.show import tame

LINE_BYTES = 65_536
END_OF_INPUT = "\x04"


async def ask(prompt: str, password: bool) -> str:
    """The line that is typed; `END_OF_INPUT` where there will be none. Can be cancelled at any moment."""
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[bytes] = loop.create_future()
    fd = sys.stdin.fileno()
    sys.stdout.write(tame(prompt)[0])
    sys.stdout.flush()

    def read() -> None:
        loop.remove_reader(fd)
        if not typed.done():
            typed.set_result(os.read(fd, LINE_BYTES))

    loop.add_reader(fd, read)
    try:
        with _no_echo(fd, password):
            line = (await typed).decode("utf-8", "replace")
    finally:
        loop.remove_reader(fd)
    if password:
        sys.stdout.write("\n")
    return line.removesuffix("\n") if line else END_OF_INPUT


@contextmanager
def _no_echo(fd: int, password: bool) -> Iterator[None]:
    if not password:
        yield
        return
    before = termios.tcgetattr(fd)
    silent = termios.tcgetattr(fd)
    silent[3] &= ~termios.ECHO
    termios.tcsetattr(fd, termios.TCSADRAIN, silent)
    try:
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
