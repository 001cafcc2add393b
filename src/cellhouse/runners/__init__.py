"""Runners: what an agent plugs in to have its code run, with results that say what happened."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cellhouse.model import (
        CodeArtifact as CodeArtifact,
        CodeDisplay as CodeDisplay,
        CodeResult as CodeResult,
        CodeTruncated as CodeTruncated,
    )
    from cellhouse.runners.base import (
        CodeRunner as CodeRunner,
        CodeSession as CodeSession,
        Input as Input,
        RunnerTraits as RunnerTraits,
        Scope as Scope,
    )
    from cellhouse.runners.blocking import BlockingRunner as BlockingRunner
    from cellhouse.runners.local import LocalCodeRunner as LocalCodeRunner
    from cellhouse.runners.pool import (
        Eviction as Eviction,
        EvictionReason as EvictionReason,
        PoolLimits as PoolLimits,
    )
    from cellhouse.runners.rendering import render as render
    from cellhouse.runners.session import SessionCodeRunner as SessionCodeRunner
    from cellhouse.runners.tool import (
        CheckIn as CheckIn,
        CodeAnswer as CodeAnswer,
        CodeTool as CodeTool,
        code_runner_tool as code_runner_tool,
    )

# Loaded when first asked for: a child process needs nothing of houses.
_HOMES = {
    "BlockingRunner": "cellhouse.runners.blocking",
    "CheckIn": "cellhouse.runners.tool",
    "CodeAnswer": "cellhouse.runners.tool",
    "CodeArtifact": "cellhouse.model",
    "CodeDisplay": "cellhouse.model",
    "CodeResult": "cellhouse.model",
    "CodeRunner": "cellhouse.runners.base",
    "CodeSession": "cellhouse.runners.base",
    "CodeTool": "cellhouse.runners.tool",
    "CodeTruncated": "cellhouse.model",
    "Eviction": "cellhouse.runners.pool",
    "EvictionReason": "cellhouse.runners.pool",
    "Input": "cellhouse.runners.base",
    "LocalCodeRunner": "cellhouse.runners.local",
    "PoolLimits": "cellhouse.runners.pool",
    "RunnerTraits": "cellhouse.runners.base",
    "Scope": "cellhouse.runners.base",
    "SessionCodeRunner": "cellhouse.runners.session",
    "code_runner_tool": "cellhouse.runners.tool",
    "render": "cellhouse.runners.rendering",
}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
