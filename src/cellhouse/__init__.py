"""Cellhouse: code in live Jupyter kernels inside sandboxes, and the truth about what happened."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cellhouse.house import House as House
    from cellhouse.model import (
        CellhouseError as CellhouseError,
        ExecuteCodeRequest as ExecuteCodeRequest,
        ExecuteCodeResult as ExecuteCodeResult,
        Outcome as Outcome,
        RuntimeSpec as RuntimeSpec,
    )
    from cellhouse.runtime import ExecutionHandle as ExecutionHandle, Settings as Settings

__version__ = "0.1.0"

# Loaded when first asked for: whoever needs only a lower floor doesn't pay for the upper ones.
_HOMES = {
    "CellhouseError": "cellhouse.model",
    "ExecuteCodeRequest": "cellhouse.model",
    "ExecuteCodeResult": "cellhouse.model",
    "ExecutionHandle": "cellhouse.runtime",
    "House": "cellhouse.house",
    "Outcome": "cellhouse.model",
    "RuntimeSpec": "cellhouse.model",
    "Settings": "cellhouse.runtime",
}

__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
