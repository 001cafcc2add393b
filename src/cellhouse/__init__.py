"""Cellhouse: code in live Jupyter kernels inside sandboxes, and the truth about what happened."""

from cellhouse.house import House
from cellhouse.model import (
    CellhouseError,
    ExecuteCodeRequest,
    ExecuteCodeResult,
    Outcome,
    RuntimeSpec,
)
from cellhouse.runtime import ExecutionHandle, Settings

__version__ = "0.1.0"

__all__ = [
    "CellhouseError",
    "ExecuteCodeRequest",
    "ExecuteCodeResult",
    "ExecutionHandle",
    "House",
    "Outcome",
    "RuntimeSpec",
    "Settings",
    "__version__",
]
