"""Houses with fake kernels, as the tests of runtimes have them."""

from tests.runtime.conftest import fakes, house, place

__all__ = ["fakes", "house", "place"]
