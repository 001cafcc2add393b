"""One cell of the corpus: code, what comes before it, and what is known of how kernels differ in it."""

from dataclasses import dataclass
from textwrap import dedent


@dataclass(frozen=True, slots=True)
class Cell:
    """Code that every kernel is given, with the same to follow from it.

    `before`: cells of the same session that come first, held to the same. `answers`: what input requests get, in
    their order. `alone`: in a kernel of its own, since it ends it or bends it. `loose`: the order of its lines is
    left to chance. `whole_traceback`: every line of it counts, not only where it went and what it says.
    `terminal`: a kernel may run a command of it in a terminal, whose line ends are not its own.
    `difference`: why the native kernel does not tell the same as ipykernel; see differences.py.
    """

    name: str
    code: str
    before: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    alone: bool = False
    loose: bool = False
    whole_traceback: bool = False
    terminal: bool = False
    allow_stdin: bool = True
    silent: bool = False
    store_history: bool = True
    difference: str = ""


def cell(
    name: str,
    code: str,
    *,
    before: str | tuple[str, ...] = (),
    answers: tuple[str, ...] = (),
    alone: bool = False,
    loose: bool = False,
    whole_traceback: bool = False,
    terminal: bool = False,
    allow_stdin: bool = True,
    silent: bool = False,
    store_history: bool = True,
) -> Cell:
    """A cell from code as it is written down: indented with what is round it."""
    first = (before,) if isinstance(before, str) else before
    return Cell(
        name,
        _flush_left(code),
        tuple(_flush_left(part) for part in first),
        answers,
        alone,
        loose,
        whole_traceback,
        terminal,
        allow_stdin,
        silent,
        store_history,
    )


def _flush_left(code: str) -> str:
    return dedent(code).strip("\n")
