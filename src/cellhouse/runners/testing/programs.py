"""The programs that the conformance suite runs, in each language that it knows."""

from dataclasses import dataclass
from typing import Final

from cellhouse.model import InvalidArgument


@dataclass(frozen=True, slots=True)
class Programs:
    """What to say in one language. Each takes what is in its braces; `{text}` is letters and digits only."""

    # Prints {text} and a line end, on stdout or stderr.
    out: str
    err: str
    # Prints {text} {count} times without a line end, on stdout or stderr.
    many_out: str
    many_err: str
    # Writes {count} letters into the file {name}, directories of which there are.
    write: str
    make_directory: str
    # Prints the file {name} as it is.
    read: str
    # Runs for ever.
    forever: str
    # Fails with the word {text} in the message.
    fail: str
    # Ends the process with {status}.
    exit: str
    # Puts {text} into a variable; prints that variable or the word "unset".
    remember: str
    recall: str
    comment: str


_PYTHON: Final = Programs(
    out="print('{text}', flush=True)",
    err="import sys; print('{text}', file=sys.stderr, flush=True)",
    many_out="import sys; _ = sys.stdout.write('{text}' * {count})",
    many_err="import sys; _ = sys.stderr.write('{text}' * {count})",
    write="open('{name}', 'w').write('x' * {count}) and None",
    make_directory="import os; os.makedirs('{name}', exist_ok=True)",
    read="print(open('{name}').read(), end='')",
    forever="while True: pass",
    fail="raise ValueError('{text}')",
    exit="import os; os._exit({status})",
    remember="held = '{text}'",
    recall="print(globals().get('held', 'unset'))",
    comment="# nothing",
)
_NODE: Final = Programs(
    out="console.log('{text}')",
    err="console.error('{text}')",
    many_out="require('fs').writeSync(1, ''); process.stdout.write('{text}'.repeat({count}))",
    many_err="process.stderr.write('{text}'.repeat({count}))",
    write="require('fs').writeFileSync('{name}', 'x'.repeat({count}))",
    make_directory="require('fs').mkdirSync('{name}', {{recursive: true}})",
    read="process.stdout.write(require('fs').readFileSync('{name}'))",
    forever="while (true) {{}}",
    fail="throw new Error('{text}')",
    exit="process.exit({status})",
    remember="globalThis.held = '{text}'",
    recall="console.log(globalThis.held ?? 'unset')",
    comment="// nothing",
)
_BASH: Final = Programs(
    out="echo '{text}'",
    err="echo '{text}' >&2",
    many_out="for ((i = 0; i < {count}; i++)); do printf '%s' '{text}'; done",
    many_err="for ((i = 0; i < {count}; i++)); do printf '%s' '{text}' >&2; done",
    write="printf '%0{count}d' 0 | tr 0 x > '{name}'",
    make_directory="mkdir -p '{name}'",
    read="cat '{name}'",
    forever="while :; do :; done",
    fail="echo '{text}' >&2; exit 1",
    exit="exit {status}",
    remember="held='{text}'",
    recall='echo "${{held:-unset}}"',
    comment="# nothing",
)

PROGRAMS: Final = {"python": _PYTHON, "node": _NODE, "bash": _BASH}


def programs_for(language: str) -> Programs:
    """INVALID_ARGUMENT where the suite does not speak it."""
    if language not in PROGRAMS:
        raise InvalidArgument.of_field(
            "language",
            f"the suite has no programs in {language[:80]!a}; it has {', '.join(PROGRAMS)}, and takes others",
        )
    return PROGRAMS[language]
