"""The languages that a child process can run, and how."""

import shutil
import sys
from dataclasses import dataclass
from typing import Final

from cellhouse.model import CallReason, FailedPrecondition, InvalidArgument


@dataclass(frozen=True, slots=True)
class Language:
    """A program that runs a file of code. It writes through, so that what was printed survives its end."""

    name: str
    program: str
    options: tuple[str, ...]
    file: str

    def command(self, file: str) -> list[str]:
        """FAILED_PRECONDITION where the program is not here."""
        found = shutil.which(self.program)
        if found is None:
            raise FailedPrecondition(
                f"{self.name} can't be run here: there is no {self.program!r} on the PATH; install it, or name another language",
                reason=CallReason.RUNNER_UNSUITABLE,
                metadata={"language": self.name},
            )
        return [found, *self.options, file]


LANGUAGES: Final = {
    language.name: language
    for language in (
        Language("python", sys.executable, ("-u", "-X", "utf8"), "main.py"),
        Language("node", "node", (), "main.js"),
        Language("bash", "bash", (), "main.sh"),
    )
}


def find_language(name: str) -> Language:
    """INVALID_ARGUMENT where it is none of these."""
    if name not in LANGUAGES:
        raise InvalidArgument.of_field(
            "language", f"{str(name)[:80]!a} is not known here; it takes {', '.join(LANGUAGES)}"
        )
    return LANGUAGES[name]
