"""Fake kernels for the tests of MCP."""

from tests.runtime.conftest import fakes

__all__ = ["fakes"]
