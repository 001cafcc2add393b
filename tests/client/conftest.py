"""A service with fake kernels, as the doors' tests have it, and a client of it."""

from collections.abc import AsyncIterator

import pytest

from cellhouse.client import AsyncClient
from tests.client.support import client_of
from tests.doors.conftest import door, fakes
from tests.doors.support import Door

__all__ = ["door", "fakes"]


@pytest.fixture
async def client(door: Door) -> AsyncIterator[AsyncClient]:
    async with client_of(door.service.url) as made:
        yield made
