"""Tokens of a state directory of their own."""

from pathlib import Path

import pytest

from cellhouse.tokens import TokenBook, TokenStore
from tests.tokens.support import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> TokenStore:
    return TokenStore(tmp_path / "state", clock)


@pytest.fixture
def book(store: TokenStore, clock: Clock) -> TokenBook:
    """As a running service has it."""
    return TokenBook(store.place, clock)
