"""Which outputs show which display id: what an update of one kernel's displays finds again, across executions."""

from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final

from cellhouse.capture.bundle import Bundle
from cellhouse.capture.ledger import Ledger
from cellhouse.capture.sink import Sink
from cellhouse.capture.store import BundleStore, Drop, refusal
from cellhouse.files import Written
from cellhouse.model import CaptureLimits

SHOWINGS: Final = 256
"""Outputs that show one display id and are updated with it; of more, the last ones."""
OWN_SHOWINGS: Final = 20_000
"""Outputs of one execution that are updated at all; of more, the last ones."""
_ID_CHARS: Final = 128


class Origin:
    """An execution whose outputs may be updated later: all that is kept of it once it has ended."""

    __slots__ = ("execution", "ledger", "sink", "uid", "written", "written_bytes")

    def __init__(self, uid: str, execution: str, sink: Sink, ledger: Ledger) -> None:
        self.uid = uid
        self.execution = execution
        self.sink = sink
        self.ledger: Ledger | None = ledger  # while it can still change
        self.written = 0
        self.written_bytes = 0

    def freeze(self) -> None:
        """The result is recorded: from now on updates change only the files."""
        if self.ledger is not None:
            self.written, self.written_bytes = self.ledger.written, self.ledger.written_bytes
            self.ledger = None


class Showing:
    """One output that shows a display: a rich one by its index, or printed text by its slot, where it has one."""

    __slots__ = ("_revision", "_size", "display", "index", "line_end", "origin", "slot")

    def __init__(
        self,
        display: "Display",
        origin: Origin,
        *,
        index: int = -1,
        slot: int | None = None,
        line_end: str = "",
    ) -> None:
        self.display = display
        self.origin = origin
        self.index = index
        self.slot = slot
        self.line_end = line_end  # what text needs behind it in that slot
        self._size = 0  # of the bundle of a recorded output; 0 where it was dropped
        self._revision = 0

    @property
    def rich(self) -> bool:
        return self.index >= 0

    def freeze(self) -> None:
        """Keeps of the ledger what a later update needs. Before its origin is frozen."""
        if self.rich and self.origin.ledger is not None:
            self._size = self.origin.ledger.size(self.index) or 0

    def rewrite(
        self, bundle: Bundle, store: BundleStore, limits: CaptureLimits, failed: Callable[[OSError], None]
    ) -> int | Drop:
        """Shows the bundle; its size, or why it was dropped. `failed` is told where its record could not take the note.

        A recorded output keeps its older state where the newer one can't be written: it is not the ledger's any more.
        """
        origin = self.origin
        if origin.ledger is not None:
            origin.ledger.update(self.index, bundle)
            return origin.ledger.drop(self.index) or bundle.size
        others, others_bytes = origin.written - (self._size > 0), origin.written_bytes - self._size
        if refused := refusal(limits, bundle, others, others_bytes):
            return refused
        result = store.write(origin.uid, self.index, bundle)
        if isinstance(result, Drop):
            return result
        origin.written, origin.written_bytes = others + 1, others_bytes + result.size
        self._size = result.size
        self._revision += 1
        try:
            origin.sink.note("revision", bundle_note(self.index, result, self._revision))
        except OSError as error:
            # A record that was evicted is gone: nobody can ask for its outputs any more.
            if not isinstance(error, FileNotFoundError):
                failed(error)
        return result.size


def bundle_note(index: int, written: Written, revision: int) -> dict[str, int | str]:
    """What the record keeps of a bundle that was written."""
    return {"index": index, "sha256": written.sha256, "sizeBytes": written.size, "revision": revision}


class Display:
    """One display id."""

    __slots__ = ("crowded", "last_write", "showings")

    def __init__(self) -> None:
        self.showings: list[Showing] = []
        self.last_write = float("-inf")
        self.crowded = False

    def show(self, showing: Showing) -> None:
        self.showings.append(showing)
        if len(self.showings) > SHOWINGS:
            del self.showings[0]
            self.crowded = True

    def hide(self, showing: Showing) -> None:
        if showing in self.showings:
            self.showings.remove(showing)


class DisplayRegistry:
    """The display ids of one kernel, the longest unused forgotten first."""

    __slots__ = ("_displays", "_most")

    def __init__(self, most: int = CaptureLimits().display_ids) -> None:
        self._most = most
        self._displays: OrderedDict[str, Display] = OrderedDict()

    def __len__(self) -> int:
        return len(self._displays)

    def find(self, display_id: str) -> Display | None:
        """The display, if anything shows it."""
        key = _key(display_id)
        display = self._displays.get(key)
        if display is None or not display.showings:
            return None
        self._displays.move_to_end(key)
        return display

    def get(self, display_id: str) -> Display:
        """The display, made if need be."""
        key = _key(display_id)
        display = self._displays.get(key)
        if display is None:
            display = self._displays[key] = Display()
            if len(self._displays) > self._most:
                self._displays.popitem(last=False)
        self._displays.move_to_end(key)
        return display


def _key(display_id: str) -> str:
    """An id of any length in few bytes."""
    if len(display_id) <= _ID_CHARS:
        return display_id
    return "sha256:" + sha256(display_id.encode("utf-8", "surrogatepass")).hexdigest()


def display_id_of(content: Any) -> str | None:
    """The display id of a message's content (Jupyter messaging 5.4: `transient.display_id`); None where there is none."""
    transient = content.get("transient")
    if not isinstance(transient, dict):
        return None
    display_id = transient.get("display_id")
    return display_id if isinstance(display_id, str) and display_id else None
