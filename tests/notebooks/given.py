"""Notebooks for tests, as files have them."""

import json
from typing import Any

import nbformat

from cellhouse.notebooks import Given, ReadLimits, read_notebook


def code(source: Any, *tags: str, **fields: Any) -> dict[str, Any]:
    cell = {"cell_type": "code", "metadata": {}, "source": source, "outputs": [], "execution_count": None}
    if tags:
        cell["metadata"] = {"tags": list(tags)}
    return {**cell, **fields}


def text(source: Any, **fields: Any) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": source, **fields}


def file_of(*cells: Any, minor: int = 5, **fields: Any) -> bytes:
    made = [
        {"id": f"cell-{at}", **cell} if minor > 4 and isinstance(cell, dict) else cell
        for at, cell in enumerate(cells)
    ]
    return json.dumps(
        {"nbformat": 4, "nbformat_minor": minor, "metadata": {}, "cells": made, **fields}
    ).encode()


def read(raw: bytes, limits: ReadLimits | None = None) -> Given:
    """Read, and held against nbformat's schema."""
    given = read_notebook("it.ipynb", raw, limits)
    nbformat.validate(
        {"cells": given.cells, "metadata": given.metadata, "nbformat": 4, "nbformat_minor": given.minor},
        version=4,
        version_minor=given.minor,
    )
    return given
