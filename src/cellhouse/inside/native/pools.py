"""Holes in the memory of a process that is to be forked: filled, so that forks write into pages of their own."""

from __future__ import annotations

import os
import re
import sys
from typing import Any

ROUNDS = 3
_ROW = re.compile(r"\s*\d+\s+(\d+)\s+\d+\s+\d+\s+(\d+)\s*")
_kept: list[Any] = []
"""What fills them; for ever."""


def fill_pools() -> None:
    """Take every free block that CPython's allocator for small objects has in pages that are in use already.

    A fork that got such a block would copy its page, and nearly every block it gets stands in another page. Where the
    allocator does not tell of its blocks, all stays as it is.
    """
    tell = getattr(sys, "_debugmallocstats", None)
    if tell is None:
        return
    for _ in range(ROUNDS):  # the filling itself takes some, and gives some back
        for size, free in _free_blocks(tell):
            content = size - bytes.__basicsize__
            if content > 0:
                _kept.extend(bytes(content) for _ in range(free))
            else:
                _kept.extend(object() for _ in range(free if size == object.__basicsize__ else 0))


def _free_blocks(tell: Any) -> list[tuple[int, int]]:
    """By size in bytes, how many blocks are free."""
    sys.stderr.flush()
    file = os.memfd_create("cellhouse-pools", os.MFD_CLOEXEC)
    stderr = os.dup(2)
    try:
        os.dup2(file, 2)
        tell()
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
    text = os.pread(file, 1 << 20, 0).decode("ascii", "replace")
    os.close(file)
    rows = (_ROW.fullmatch(line) for line in text.splitlines())
    return [(int(row[1]), int(row[2])) for row in rows if row is not None]
