"""The native kernel: IPython behind one socket and two pipes. Standard library and IPython only, Python 3.9 and later."""

from __future__ import annotations


def prepare() -> None:
    """Build the shell and warm it up, so that what is forked afterwards begins with both."""
    from .host import prepare as prepare_host

    prepare_host()
