"""The command line: a thin translation of House for people and scripts."""

from cellhouse.cli.app import main

__all__ = ["main"]
