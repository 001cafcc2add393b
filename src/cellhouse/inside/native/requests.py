"""Requests besides execute: completion, inspection, completeness, history; Jupyter messaging 5.4, shell channel."""

from __future__ import annotations

import warnings
from typing import Any

from IPython.core.completer import provisionalcompleter, rectify_completions
from IPython.utils.tokenutil import token_at_cursor

MATCHES = 2_000


def complete(shell: Any, code: str, cursor: int | None) -> dict[str, Any]:
    """complete_reply."""
    position = len(code) if cursor is None else cursor
    with provisionalcompleter():
        found = list(rectify_completions(code, shell.Completer.completions(code, position)))[:MATCHES]
    types = [
        {"start": c.start, "end": c.end, "text": c.text, "type": c.type, "signature": c.signature}
        for c in found
    ]
    return {
        "status": "ok",
        "matches": [c.text for c in found],
        "cursor_start": found[0].start if found else position,
        "cursor_end": found[0].end if found else position,
        "metadata": {"_jupyter_types_experimental": types},
    }


def inspect(shell: Any, code: str, cursor: int | None, detail_level: int) -> dict[str, Any]:
    """inspect_reply."""
    name = token_at_cursor(code, len(code) if cursor is None else cursor)
    try:
        bundle = shell.object_inspect_mime(name, detail_level=detail_level)
    except KeyError:
        bundle = None
    if not shell.enable_html_pager and bundle:
        bundle.pop("text/html", None)
    return {"status": "ok", "found": bundle is not None, "data": bundle or {}, "metadata": {}}


def is_complete(shell: Any, code: str) -> dict[str, Any]:
    """is_complete_reply."""
    transformer = getattr(shell, "input_transformer_manager", None) or shell.input_splitter
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        status, indent = transformer.check_complete(code)
    reply = {"status": status}
    if status == "incomplete":
        reply["indent"] = " " * (indent or 0)
    return reply


def history(shell: Any, wanted: dict[str, Any]) -> dict[str, Any]:
    """history_reply; of this session only, which is all that is remembered."""
    raw, output = bool(wanted.get("raw", True)), bool(wanted.get("output", False))
    manager = shell.history_manager
    kind = wanted.get("hist_access_type", "tail")
    if kind == "range":
        start, stop = int(wanted.get("start", 0)), wanted.get("stop")
    else:
        start, stop = 1, None
    entries = [list(entry) for entry in manager.get_range(0, start, stop, raw=raw, output=output)]
    if kind == "search":
        import fnmatch

        pattern = str(wanted.get("pattern", "*"))
        entries = [e for e in entries if fnmatch.fnmatch(str(e[2][0] if output else e[2]), pattern)]
    count = wanted.get("n")
    if isinstance(count, int) and kind != "range":
        entries = entries[-count:] if count > 0 else []
    return {"status": "ok", "history": entries}


def tail(
    manager: Any, n: int = 10, raw: bool = True, output: bool = False, include_latest: bool = False
) -> list[Any]:
    """The last `n` inputs of this session, in the place of HistoryManager.get_tail, which looks into a file only.

    What `%rerun` and `%recall` ask for: the latest input is their own, and is left out unless wanted.
    """
    entries = list(manager.get_range(0, raw=raw, output=output))
    if not include_latest:
        entries = entries[:-1]
    return entries[-n:] if n > 0 else []
