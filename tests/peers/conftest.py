"""The command line for the analyses."""

from tests.cli.conftest import cli, quick

__all__ = ["cli", "quick"]
