"""Kernels behind one interface, and one execute request driven to its true end."""

from cellhouse.kernel.base import (
    Died,
    Kernel,
    KernelGone,
    KernelInfo,
    KernelItem,
    KernelProcess,
    KernelStartFailed,
    Trouble,
)
from cellhouse.kernel.conversation import Conversation, End, ExecuteRequest, InputAsked, Output, Stray
from cellhouse.kernel.jupyter import JupyterKernel, Launch
from cellhouse.kernel.native import Launch as NativeLaunch, NativeKernel, SourceLimits

__all__ = [
    "Conversation",
    "Died",
    "End",
    "ExecuteRequest",
    "InputAsked",
    "JupyterKernel",
    "Kernel",
    "KernelGone",
    "KernelInfo",
    "KernelItem",
    "KernelProcess",
    "KernelStartFailed",
    "Launch",
    "NativeKernel",
    "NativeLaunch",
    "Output",
    "SourceLimits",
    "Stray",
    "Trouble",
]
