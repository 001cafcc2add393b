"""Inputs of a runtime: where each was put, and what they are made from."""

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Final

from cellhouse.artifacts import BoundStore
from cellhouse.model import (
    INPUTS_DIR,
    INPUTS_VARIABLE,
    InvalidArgument,
    StagedInput,
    check_input,
    input_file_name,
    inputs_variable,
)

BLOCK: Final = 1 << 20
STAGED_BYTES: Final = 1 << 62
"""No limit of its own for an input that a program stages: /content has one."""


class Inputs:
    """What is staged in one runtime. `version` goes up with every change, so that a session sees that there is one."""

    def __init__(self, content: str) -> None:
        """`content` is the path of /content as the code has it."""
        self._content = content
        self.paths: dict[str, str] = {}
        self.version = 0
        self.variable = ""

    def place(self, name: str) -> str:
        """Where an input of this name belongs, relative to /content. RESOURCE_EXHAUSTED where there are too many."""
        path = f"{INPUTS_DIR}/{input_file_name(name)}"
        inputs_variable({**self.paths, name: f"{self._content}/{path}"})
        return path

    def add(self, name: str, path: str) -> str:
        """It stands there now; its absolute path."""
        paths = {**self.paths, name: f"{self._content}/{path}"}
        self.variable = inputs_variable(paths)
        self.paths = paths
        self.version += 1
        return paths[name]

    def environment(self) -> dict[str, str]:
        return {INPUTS_VARIABLE: self.variable} if self.paths else {}


def checked_inputs(inputs: Mapping[str, StagedInput]) -> dict[str, StagedInput]:
    """All of them, looked at before any is staged. INVALID_ARGUMENT."""
    if not isinstance(inputs, Mapping):
        raise InvalidArgument.of_field("inputs", "it takes a mapping of names to inputs")
    return {name: check_input(name, value) for name, value in inputs.items()}


async def pieces_of(name: str, value: StagedInput, artifacts: BoundStore) -> AsyncGenerator[bytes, None]:
    """The bytes of an input. NOT_FOUND for an artifact, INVALID_ARGUMENT for a file that can't be read."""
    if isinstance(value, bytes):
        yield value
    elif isinstance(value, str):
        async with await artifacts.get(value) as reading:
            async with aclosing(aiter(reading)) as pieces:  # type: ignore[type-var]
                async for piece in pieces:
                    yield piece
    else:
        try:
            with await asyncio.to_thread(open, value, "rb") as file:
                while block := await asyncio.to_thread(file.read, BLOCK):
                    yield block
        except OSError as error:
            raise InvalidArgument.of_field(
                "inputs",
                f"{name[:80]!a}: {os.fspath(value)!r}: {error.strerror}; give a file that can be read",
            ) from None
