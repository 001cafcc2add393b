"""Errors as they are told: the exception's own class and words, one frame an entry, plain."""

from __future__ import annotations

import builtins
import inspect
import os
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

NAME_CHARS = 1_024
VALUE_CHARS = 1 << 20
ENTRY_CHARS = 1 << 20
ENTRIES = 4_096
CHAIN = 100
_HERE = os.path.dirname(__file__) + os.sep

_groups: Any = getattr(builtins, "BaseExceptionGroup", None)


@dataclass
class Report:
    """An exception as it goes out."""

    value: BaseException | None
    name: str
    text: str
    traceback: list[str]

    @classmethod
    def of(cls, kind: Any, value: Any, entries: Sequence[Any]) -> Report:
        return cls(
            value if isinstance(value, BaseException) else None,
            str(getattr(kind, "__name__", kind))[:NAME_CHARS],
            text_of(value),
            [_cut(str(entry), ENTRY_CHARS) for entry in _middle_out(list(entries))],
        )

    def content(self) -> dict[str, Any]:
        return {"ename": self.name, "evalue": self.text, "traceback": self.traceback}


def text_of(value: Any) -> str:
    """str(), also where that raises (the words are those of Python's own tracebacks)."""
    try:
        return _cut(str(value), VALUE_CHARS)
    except Exception:
        return f"<exception {'str' if isinstance(value, BaseException) else 'repr'}() failed>"


def unusual(
    kind: Any, value: BaseException, trace: TracebackType | None, options: Mapping[str, Any]
) -> Report | None:
    """What IPython can't tell whole: exception groups, and exceptions whose `str` raises. Else None."""
    if isinstance(value, SyntaxError) or not isinstance(value, BaseException):
        return None
    if not (_has_group(value, 0) or _has_no_text(value)):
        return None
    if options.get("exception_only"):
        entries = traceback.format_exception_only(kind, value)
    else:
        # The shell's own frame is in no other traceback either.
        if trace is not None and trace.tb_next is not None and trace.tb_frame.f_code.co_name == "run_code":
            trace = trace.tb_next
        entries = traceback.format_exception(kind, value, trace)
    return Report.of(kind, value, [entry.rstrip("\n") for entry in entries])


def without_ours(error: BaseException | None, trace: TracebackType | None) -> TracebackType | None:
    """The traceback without frames of this kernel, which are nobody's business; also in what it was raised from."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen and len(seen) < CHAIN:
        seen.add(id(error))
        if _has_ours(error.__traceback__):
            error.__traceback__ = _without(error.__traceback__)
        error = error.__cause__ or error.__context__
    return _without(trace) if _has_ours(trace) else trace


def _has_ours(trace: TracebackType | None) -> bool:
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.startswith(_HERE):
            return True
        trace = trace.tb_next
    return False


def _without(trace: TracebackType | None) -> TracebackType | None:
    kept = []
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(_HERE):
            kept.append(trace)
        trace = trace.tb_next
    made: TracebackType | None = None
    for entry in reversed(kept):
        line: int | None = entry.tb_lineno  # None where an interrupt landed on an instruction of no line
        made = TracebackType(
            made, entry.tb_frame, entry.tb_lasti, line or entry.tb_frame.f_code.co_firstlineno
        )
    return made


def _has_group(error: BaseException | None, depth: int) -> bool:
    if error is None or _groups is None or depth > 100:
        return False
    return isinstance(error, _groups) or _has_group(error.__context__, depth + 1)


def _has_no_text(error: BaseException) -> bool:
    try:
        str(error)
    except Exception:
        return True
    return False


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters are left out here …]\n{text[-half:]}"


def _middle_out(entries: list[Any]) -> list[Any]:
    if len(entries) <= ENTRIES:
        return entries
    half = ENTRIES // 2
    gone = len(entries) - 2 * half
    return [*entries[:half], f"[… {gone} frames are left out here …]", *entries[-half:]]


def without_overhead() -> None:
    """IPython asks for the module of each frame's file, and inspect looks through all of sys.modules for it."""
    known = getattr(inspect, "modulesbyfile", None)
    if not isinstance(known, dict):
        return
    get_module = inspect.getmodule

    def getmodule(thing: Any, _filename: str | None = None) -> Any:
        name = getattr(getattr(thing, "f_code", None), "co_filename", None) or _filename
        if isinstance(name, str) and name.startswith(("<ipython-input-", "<string>")):
            return None
        return get_module(thing, _filename)

    inspect.getmodule = getmodule  # type: ignore[assignment]
