"""A notebook that was given, read and found good: what is to be run, and what is only kept."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from cellhouse.notebooks.notes import MARK

Cell = dict[str, Any]
"""A cell as nbformat 4.5 has it: `source` is one text, `metadata.tags`, where it is there, a list of texts."""

SKIPPED: Final = "skip-execution"
"""nbclient's tag: the cell is left as it is."""
MAY_RAISE: Final = "raises-exception"
"""nbclient's tag: an exception of this cell is no failure."""


@dataclass(frozen=True, slots=True)
class Given:
    """The cells in their order. `remarks` tell what was put right while it was read."""

    name: str
    cells: list[Cell]
    metadata: dict[str, Any]
    minor: int = 5
    remarks: list[str] = field(default_factory=list)

    @property
    def language(self) -> str:
        """The language that the notebook says it is in, in lower case; "" where it says nothing."""
        spec, info = self._part("kernelspec"), self._part("language_info")
        return str(spec.get("language") or info.get("name") or "").lower()

    @property
    def kernel(self) -> str | None:
        """The kernel that its kernelspec names; None for the environment's own, as where it is Python or says nothing.

        The name of a Python kernel is that of whoever wrote the notebook, and says nothing about an environment here.
        """
        name = self._part("kernelspec").get("name")
        language = self.language
        if not isinstance(name, str) or not name or language in ("python", "ipython"):
            return None
        return None if not language and name.startswith("python") else name

    def _part(self, key: str) -> dict[str, Any]:
        found = self.metadata.get(key)
        return found if isinstance(found, dict) else {}


def tags_of(cell: Cell) -> tuple[str, ...]:
    return tuple(cell["metadata"].get("tags", ()))


def runs(cell: Cell) -> bool:
    """Whether the cell is run at all: as nbclient does it, one without code or with the tag `skip-execution` is not."""
    return cell["cell_type"] == "code" and bool(cell["source"].strip()) and SKIPPED not in tags_of(cell)


def first_tagged(cells: Iterable[Cell], tag: str) -> int | None:
    return next((at for at, cell in enumerate(cells) if tag in tags_of(cell)), None)


def without_mark(metadata: dict[str, Any]) -> dict[str, Any]:
    """Without what an earlier run has said, which is not so of this one."""
    return {key: value for key, value in metadata.items() if key != MARK}
