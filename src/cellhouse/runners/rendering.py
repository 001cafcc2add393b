"""A result as text for a model: every fact that is not output first, then the output."""

import json
from collections.abc import Iterator, Mapping
from typing import Final, Literal

from cellhouse.excerpt import shorten
from cellhouse.model import (
    CodeArtifact,
    CodeDisplay,
    CodeResult,
    InvalidArgument,
    Outcome,
    SessionState,
)

MAX_CHARS: Final = 8_000
"""Characters of stdout and stderr together, unless said otherwise."""
LEAST_CHARS: Final = 200
LISTED: Final = 50
"""Files, and displays, that are named one by one."""
_NAME_CHARS: Final = 200
_NOTICE_CHARS: Final = 500
_NOTICES: Final = 20

_STATES: Final = {
    SessionState.RESTORED: "session: restored from a checkpoint; what came after that is gone",
    SessionState.RESET: "session: reset; variables and imports are gone, files stay, the next call gets a fresh kernel",
    SessionState.GONE: "session: gone, with its variables and files; the next call gets a new one",
}


def render(result: CodeResult, *, max_chars: int = MAX_CHARS, inputs: Mapping[str, str] | None = None) -> str:
    """The result in words. `max_chars` is for stdout and stderr together; what is not shown of them is stated.

    Facts come before output, since output may imitate them. `inputs` are the paths of what was staged.
    """
    if type(max_chars) is not int or max_chars < LEAST_CHARS:
        raise InvalidArgument.of_field(
            "max_output_chars", f"{max_chars!r} can't be; it takes characters, at least {LEAST_CHARS}"
        )
    shown = _shown(result, max_chars)
    lines = [
        *_end(result),
        *_cuts(result, shown),
        *_notices(result),
        *(f"input {_quoted(name)}: {path}" for name, path in (inputs or {}).items()),
        *_listed("files", [_artifact(each) for each in result.artifacts or ()]),
        *_listed("shown", [_display(each) for each in result.displays or ()]),
    ]
    if not result.stdout and not result.stderr:
        lines.append("printed nothing")
    for name, text in shown.items():
        if text:
            lines += [f"{name}:", text.removesuffix("\n")]
    return "\n".join(lines)


def _end(result: CodeResult) -> Iterator[str]:
    outcome = result.outcome
    if result.ok:
        yield "ok" if outcome in (None, Outcome.OK) else f"ok: {outcome}"
    else:
        info = result.outcome_info
        details = ", ".join(f"{key} {value}" for key, value in info.metadata.items()) if info else ""
        reason = f", {info.reason}" if info else ""
        yield f"failed: {outcome or 'ERROR'}{reason}{f' ({details})' if details else ''}"
    if result.exit_code:
        yield f"exit status: {result.exit_code}"
    if result.session_state in _STATES:
        yield _STATES[result.session_state]


def _shown(result: CodeResult, max_chars: int) -> dict[str, str]:
    """Both streams within the budget; one that needs less than its half leaves the rest to the other."""
    half = max_chars // 2
    out = min(len(result.stdout), max(half, max_chars - len(result.stderr)))
    err = min(len(result.stderr), max_chars - out)
    return {
        "stdout": _fit("stdout", result, out),
        "stderr": _fit("stderr", result, err),
    }


def _fit(name: Literal["stdout", "stderr"], result: CodeResult, limit: int) -> str:
    text = result.stdout if name == "stdout" else result.stderr
    pointer = f"{name} of {result.execution}" if result.execution else ""
    shown = shorten(text, limit, pointer)
    whole = _whole(name, result)
    if not shown.omitted_chars or whole is None:
        return shown.text
    # What was cut before counts too; how many lines that had is not known.
    head, tail = text[: shown.head_chars], text[len(text) - shown.tail_chars :]
    omitted = whole - shown.head_chars - shown.tail_chars
    line_end = "" if not head or head.endswith("\n") else "\n"
    where = f"read {pointer}" if pointer else "they were not kept"
    return f"{head}{line_end}… {omitted} characters not shown; {where} …\n{tail}"


def _whole(name: Literal["stdout", "stderr"], result: CodeResult) -> int | None:
    """How many characters a stream had that the runner cut; None where it did not."""
    cuts = result.truncated
    if cuts is None or not (cuts.stdout if name == "stdout" else cuts.stderr):
        return None
    chars = cuts.stdout_chars if name == "stdout" else cuts.stderr_chars
    return chars if chars is not None else cuts.of_chars


def _cuts(result: CodeResult, shown: Mapping[str, str]) -> Iterator[str]:
    names: tuple[Literal["stdout", "stderr"], ...] = ("stdout", "stderr")
    for name in names:
        text = result.stdout if name == "stdout" else result.stderr
        cut = result.truncated is not None and getattr(result.truncated, name)
        if cut or shown[name] != text:
            whole = _whole(name, result) or ("more" if cut else len(text))
            yield f"{name} was cut: only its beginning and its end are shown; it had {whole} characters"


def _notices(result: CodeResult) -> Iterator[str]:
    notices = result.notices or ()
    for notice in notices[:_NOTICES]:
        yield f"notice {notice.reason}: {shorten(_one_line(notice.text), _NOTICE_CHARS, '').text}"
    if len(notices) > _NOTICES:
        yield f"and {len(notices) - _NOTICES} more notices"


def _listed(what: str, items: list[str]) -> Iterator[str]:
    if not items:
        return
    yield f"{what}:"
    yield from items[:LISTED]
    if len(items) > LISTED:
        yield f"- and {len(items) - LISTED} more, not listed here"


def _artifact(artifact: CodeArtifact) -> str:
    size = f"{artifact.bytes} byte{'s' if artifact.bytes != 1 else ''}"
    parts = [_quoted(artifact.name), size, artifact.media_type, artifact.uri]
    parts.append(f"ref {artifact.ref}" if artifact.ref else "no ref")
    return f"- {', '.join(part for part in parts if part)}"


def _display(display: CodeDisplay) -> str:
    parts = [f"{display.index}: {' '.join(display.mime_types)}"]
    if display.error_info is not None:
        parts.append(f"dropped: {display.error_info.reason}")
    else:
        parts += [f"{display.bytes} bytes"] if display.bytes is not None else []
        parts += [f"ref {display.ref}" if display.ref else f"in {display.path}"]
    return f"- {', '.join(parts)}"


def _quoted(name: str) -> str:
    """A hostile name on one line."""
    shown = name if len(name) <= _NAME_CHARS else f"{name[:_NAME_CHARS]}… ({len(name)} characters)"
    return json.dumps(_one_line(shown), ensure_ascii=False)


def _one_line(text: str) -> str:
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)
