"""Shows a running execution to a person: text as it comes, everything else named."""

import re
import sys
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.text import Text

from cellhouse.model import (
    Artifact,
    ClearedEvent,
    DisplayEvent,
    DisplayUpdatedEvent,
    ErrorEvent,
    Event,
    ExecuteCodeResult,
    ExecutionName,
    NoticeEvent,
    Outcome,
    ResultEvent,
    StreamEvent,
    TailFrame,
)
from cellhouse.model.result import is_successful_exit

_KEPT_ESCAPES = re.compile(r"\x1b\[[0-9;]{0,32}[mKA]")
_ESCAPE = re.compile(
    r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|[\]PX^_][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)?|[ -~])?"
    r"|[\x00-\x07\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]"
)
_CUT_ESCAPE = re.compile(r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}|[\]PX^_][^\x07\x1b]{0,4096})?$")
_UNITS = ("B", "kB", "MB", "GB", "TB")


class Show:
    """Writes to this process's stdout and stderr. On a terminal, hostile escape sequences are left out."""

    def __init__(self, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self._out, self._err = out or sys.stdout, err or sys.stderr
        self._console = Console(file=self._out, highlight=False, soft_wrap=True)
        self._remarks = Console(file=self._err, highlight=False, soft_wrap=True)
        self._rest = {"stdout": "", "stderr": ""}
        self._at_line_start = True

    def event(self, event: Event | TailFrame) -> None:
        match event:
            case StreamEvent(source="result" | "error"):
                pass  # shown already, when it was told of as a value or as an error
            case StreamEvent(name=name, text=text):
                self.text(name, text)
            case TailFrame(name=name, text=text, skipped_bytes=skipped):
                self._line(f"[… {skipped} bytes not shown live]", "dim") if skipped else None
                self.text(name, text)
            case ResultEvent(text=text):
                self._line(text, "bold")
            case DisplayEvent(index=index, mime_types=types, size_bytes=size, error_info=drop):
                what = f"dropped: {drop.reason}" if drop is not None else size_text(size or 0)
                self._line(f"[output {index}: {', '.join(types)}, {what}]", "cyan")
            case DisplayUpdatedEvent(index=index, size_bytes=size):
                self._line(f"[output {index} updated: {size_text(size or 0)}]", "dim cyan")
            case ErrorEvent(name="SystemExit", value=value) if is_successful_exit("SystemExit", value):
                pass  # the code's way of ending well; the summary says that it did
            case ErrorEvent(traceback=frames, name=name, value=value):
                self._line("\n".join(frames) or f"{name}: {value}", "red")
            case ClearedEvent():
                self._line("[output cleared]", "dim")
            case NoticeEvent(reason=reason, text=text):
                self.remark(f"notice {reason}: {text}", "yellow")
            case _:
                pass

    def summary(
        self, result: ExecuteCodeResult, *, saved: list[Path], state_dir: Path | None, place: str = ""
    ) -> None:
        """What is to be said once it has ended: in a state directory here, or at a place that is elsewhere."""
        self._fresh_line()
        for output in result.rich_outputs:
            if output.file_path is not None:
                what = f"{output.mime_types[0]}, {size_text(output.size_bytes)}"
                if state_dir is not None:
                    what = f"{what}, {_on_the_host(result, output.file_path, state_dir)}"
                self.remark(f"output {output.index}: {what}", "cyan")
        for artifact in result.artifacts or ():
            self.remark(f"file: {file_text(artifact)}", "cyan")
        for path in saved:
            self.remark(f"saved: {path}", "green")
        if result.outcome not in (Outcome.OK, Outcome.ERROR):
            error = result.execution_error
            self.remark(f"{result.outcome}: {(error.value or error.name) if error else ''}", "bold red")
        ending = exit_text(result)
        if ending is not None:
            self.remark(ending[1], "bold")
        seconds = result.usage.wall_seconds if result.usage else None
        took = f" in {seconds:.2f} s" if seconds is not None else ""
        end = ending[0] if ending is not None else result.outcome
        self.remark(f"{end}{took}; {result.execution} in {state_dir or place}", "dim")

    def text(self, name: str, text: str) -> None:
        """Of stdout or stderr, as it was printed."""
        file = self._out if name == "stdout" else self._err
        if file.isatty():
            text, self._rest[name] = tame(self._rest[name] + text)
        if text:
            file.write(text)
            file.flush()
            self._at_line_start = text.endswith("\n")

    def _line(self, text: str, style: str) -> None:
        self._fresh_line()
        self._console.print(Text(tame(text)[0], style=style))
        self._out.flush()

    def remark(self, text: str, style: str) -> None:
        """A line of ours, on stderr."""
        self._fresh_line()
        self._remarks.print(Text(tame(text)[0], style=style))

    def _fresh_line(self) -> None:
        if not self._at_line_start:
            self._out.write("\n")
            self._out.flush()
            self._at_line_start = True


def _on_the_host(result: ExecuteCodeResult, file_path: str, state_dir: Path) -> Path:
    """Where the bundle lies for whoever stands outside the walls."""
    runtime = ExecutionName.parse(result.execution).runtime
    return state_dir / "runtimes" / runtime / file_path.removeprefix("/")


def exit_text(result: ExecuteCodeResult) -> tuple[str, str] | None:
    """What a person is told of code that ended itself by SystemExit, in a word and in a sentence; None where it did not.

    On record that is an ERROR (the session lives on), also where the code meant to say that all is well.
    """
    error = result.execution_error
    if result.outcome is not Outcome.ERROR or error is None or error.name != "SystemExit":
        return None
    call = f"sys.exit({error.value[:200]})"
    if is_successful_exit(error.name, error.value):
        return (
            call,
            f"the code ended itself with {call}, which is no failure; on record it is an ERROR, as every SystemExit",
        )
    return f"{result.outcome}", f"the code ended itself with {call}, which is a failure"


def tame(text: str) -> tuple[str, str]:
    """The text with only colours, erase-line and cursor-up left of its escapes, and an escape still unfinished."""
    cut = _CUT_ESCAPE.search(text)
    rest = text[cut.start() :] if cut else ""
    body = text[: cut.start()] if cut else text
    return _ESCAPE.sub(lambda m: m[0] if _KEPT_ESCAPES.fullmatch(m[0]) else "", body), rest


def size_text(size: int) -> str:
    """A size in bytes as a person reads it."""
    value, unit = float(size), _UNITS[0]
    for unit in _UNITS:
        if value < 1000 or unit == _UNITS[-1]:
            break
        value /= 1000
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"


def file_text(artifact: Artifact) -> str:
    """A file in a line: its size, what is the matter with it, and whose it is where that is not the execution's own."""
    parts = [artifact.name]
    if artifact.bytes is not None:
        parts.append(size_text(artifact.bytes))
    if artifact.error_info is not None:
        parts.append(artifact.error_info.metadata.get("kind", artifact.error_info.reason))
    parts += [each for each in (artifact.attribution, artifact.ref) if each]
    return ", ".join(parts)
