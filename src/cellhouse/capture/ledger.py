"""The ledger of rich outputs: dense, in order of emission, every entry written or dropped with its reason."""

from array import array
from collections.abc import Callable
from typing import Final

from cellhouse.capture.bundle import Bundle
from cellhouse.capture.store import BundleStore, Drop, file_path, refusal
from cellhouse.files import Written
from cellhouse.model import CaptureLimits, DropReason, ErrorInfo, RichOutput

NAMES_BYTES: Final = 4 * 1024 * 1024
"""Distinct lists of MIME types that one ledger remembers; past it an output with a new one is invalid."""
DROPS: Final = 1_000
"""Distinct causes of drops that one ledger remembers; past it only the reason is."""

_SHORT_NAME_CHARS: Final = 40
_OBJECT_BYTES: Final = 64
_TOO_MANY_NAMES: Final = Drop(DropReason.INVALID_OUTPUT, (("limitNamesBytes", str(NAMES_BYTES)),))

Noted = Callable[[int, Written, int], None]
"""Told of each bundle that was written: index, what was written, revision."""


class Ledger:
    """Compact: an entry is a few numbers, and references to what entries share."""

    __slots__ = (
        "_cleared_to", "_dropped", "_known_drops", "_known_names", "_limits", "_mime_types", "_names_bytes", "_noted", "_omitted",
        "_revisions", "_sizes", "_store", "_uid", "written", "written_bytes",
    )  # fmt: skip

    def __init__(self, uid: str, limits: CaptureLimits, store: BundleStore, noted: Noted) -> None:
        self._uid = uid
        self._limits = limits
        self._store = store
        self._noted = noted
        self._mime_types: list[tuple[str, ...]] = []
        self._sizes = array("q")  # of the bundle, or what a dropped one would have had
        self._revisions = array("q")  # how often it was written, less one
        self._dropped: dict[int, Drop] = {}
        self._known_names: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._names_bytes = 0
        self._known_drops: dict[Drop, Drop] = {}
        self.written = 0  # bundles that are there now, and their bytes
        self.written_bytes = 0
        self._cleared_to = 0
        self._omitted = 0

    def __len__(self) -> int:
        return len(self._mime_types)

    def mime_types(self, index: int) -> tuple[str, ...]:
        return self._mime_types[index]

    def size(self, index: int) -> int | None:
        """Bytes of the bundle; None where it was dropped."""
        return None if index in self._dropped else self._sizes[index]

    def drop(self, index: int) -> Drop | None:
        return self._dropped.get(index)

    def error_info(self, index: int) -> ErrorInfo | None:
        drop = self._dropped.get(index)
        return None if drop is None else drop.error_info(self._sizes[index])

    # Changes

    def add(self, bundle: Bundle) -> int | None:
        """Takes the next output; its index, or None where the last entry now stands for it too."""
        index = len(self._mime_types)
        if index == self._limits.rich_entries:
            self._omit(index - 1)
            return None
        names = self._remembered(bundle.mime_types)
        self._mime_types.append(names or (bundle.mime_types[0][:_SHORT_NAME_CHARS],))
        self._sizes.append(0)
        self._revisions.append(-1)
        self._dropped[index] = Drop(DropReason.INVALID_OUTPUT)
        if names is None:
            self._set_dropped(index, _TOO_MANY_NAMES)
        else:
            self._write(index, bundle)
        return index

    def update(self, index: int, bundle: Bundle) -> None:
        """The output shows something else now. Where that can't be written it is dropped: an older state would be a lie."""
        if self._omitted and index == len(self._mime_types) - 1:
            return  # it stands for many
        names = self._remembered(bundle.mime_types)
        if names is None:
            self._set_dropped(index, _TOO_MANY_NAMES)
        else:
            self._mime_types[index] = names
            self._write(index, bundle)

    def clear(self) -> None:
        """Everything so far was cleared by the code. The entry that stands for others stays."""
        end = len(self._mime_types) - (1 if self._omitted else 0)
        for index in range(self._cleared_to, end):
            self._set_dropped(index, Drop(DropReason.OUTPUT_CLEARED))
        self._cleared_to = max(self._cleared_to, end)

    def _write(self, index: int, bundle: Bundle) -> None:
        before = self.size(index)
        others, others_bytes = self.written - (before is not None), self.written_bytes - (before or 0)
        if refused := refusal(self._limits, bundle, others, others_bytes):
            drop = refused
        else:
            result = self._store.write(self._uid, index, bundle)
            if isinstance(result, Written):
                self._dropped.pop(index, None)
                self.written, self.written_bytes = others + 1, others_bytes + result.size
                self._sizes[index] = result.size
                self._revisions[index] += 1
                self._noted(index, result, self._revisions[index])
                return
            drop = result
        self._set_dropped(index, drop, bundle.size)

    def _set_dropped(self, index: int, drop: Drop, size: int = 0) -> None:
        before = self.size(index)
        if before is not None and self._store.remove(self._uid, index):
            self.written -= 1
            self.written_bytes -= before
        if drop not in self._known_drops and len(self._known_drops) >= DROPS:
            drop = Drop(drop.reason)
        self._dropped[index] = self._known_drops.setdefault(drop, drop)
        self._sizes[index] = size

    def _omit(self, index: int) -> None:
        """The last entry stands for one output more."""
        if not self._omitted:
            self._set_dropped(index, Drop(DropReason.TOO_MANY_OUTPUTS))
            self._omitted = 1
        self._omitted += 1
        figures = (
            ("omittedOutputs", str(self._omitted)),
            ("limitOutputs", str(self._limits.rich_entries)),
        )
        self._dropped[index] = Drop(DropReason.TOO_MANY_OUTPUTS, figures)

    def _remembered(self, names: tuple[str, ...]) -> tuple[str, ...] | None:
        """The same list as before, so that entries share it."""
        known = self._known_names.get(names)
        if known is None:
            size = _OBJECT_BYTES + sum(_OBJECT_BYTES + len(name) for name in names)
            if self._names_bytes + size > NAMES_BYTES:
                return None
            self._names_bytes += size
            known = self._known_names[names] = names
        return known

    # Results

    def outputs(self) -> tuple[RichOutput, ...]:
        """Every entry, as the result has it."""
        shared: dict[tuple[Drop, int], ErrorInfo] = {}
        made = []
        for index, names in enumerate(self._mime_types):
            drop, size = self._dropped.get(index), self._sizes[index]
            if drop is None:
                path = file_path(self._uid, index)
                made.append(RichOutput(index=index, mime_types=names, size_bytes=size, file_path=path))
                continue
            info = shared.get((drop, size))
            if info is None:
                info = shared[drop, size] = drop.error_info(size)
            made.append(RichOutput(index=index, mime_types=names, error_info=info))
        return tuple(made)
