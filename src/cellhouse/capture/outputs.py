"""What an execution displays: rich outputs in the ledger, text in the printer, and whatever is updated by its display id."""

from collections import OrderedDict
from typing import Final

from cellhouse.capture.bundle import Bundle
from cellhouse.capture.decode import clean, cleaned
from cellhouse.capture.displays import OWN_SHOWINGS, Display, DisplayRegistry, Origin, Showing, bundle_note
from cellhouse.capture.emit import Emitter
from cellhouse.capture.ledger import Ledger
from cellhouse.capture.printer import Printer
from cellhouse.capture.sink import Sink
from cellhouse.capture.store import BundleStore, Drop
from cellhouse.capture.text import SLOT_CHARS
from cellhouse.capture.updates import Updates
from cellhouse.files import Written
from cellhouse.messages import LongText
from cellhouse.model import (
    CaptureLimits,
    Clock,
    DisplayEvent,
    DisplayUpdatedEvent,
    DropReason,
    NoticeReason,
    RichOutput,
    StreamSource,
)

_SHOWN_CHARS: Final = 64


class Outputs:
    """The displays of one execution; an update may reach those of earlier ones."""

    def __init__(
        self,
        *,
        uid: str,
        execution: str,
        limits: CaptureLimits,
        sink: Sink,
        store: BundleStore,
        displays: DisplayRegistry,
        clock: Clock,
        emitter: Emitter,
        printer: Printer,
    ) -> None:
        self._limits = limits
        self._clock = clock
        self._store = store
        self._displays = displays
        self._emitter = emitter
        self._printer = printer
        self._ledger = Ledger(uid, limits, store, self._written)
        self._origin = Origin(uid, execution, sink, self._ledger)
        self._showings: OrderedDict[Showing, None] = OrderedDict()  # ours
        self._updates = Updates(limits, clock, self._rewrite)
        self.next_due = self._updates.next_due
        self.run_due = self._updates.run_due

    # Showing

    def add(self, bundle: Bundle, display_id: str | None) -> None:
        """A rich output: an entry of the ledger, written or dropped."""
        self._printer.output()
        index = self._ledger.add(bundle)
        if index is None:
            return
        self._emitter.always(
            DisplayEvent(
                index=index,
                mime_types=self._ledger.mime_types(index),
                size_bytes=self._ledger.size(index),
                error_info=self._ledger.error_info(index),
            )
        )
        self._tell_failure(self._ledger.drop(index))
        if bundle.valid and bundle.faults:
            self._tell(DropReason.INVALID_OUTPUT, f"left out of rich output {index}: {bundle.cause}")
        self.show(display_id, index=index)

    def print(self, text: str | LongText, display_id: str | None, source: StreamSource) -> None:
        """A display that has only text: printed with a line end, in a slot if it may be updated."""
        if display_id is None or isinstance(text, LongText) or len(text) > SLOT_CHARS:
            self._printer.print("stdout", cleaned(text, "\n"), source)
            self.show(display_id)
        else:
            self.show(display_id, slot=self._printer.print_in_slot(clean(text), source))

    def keep_place(self, display_id: str | None) -> None:
        """A display of nothing: what an update of its id shows will stand here."""
        if display_id is not None:
            self.show(display_id, slot=self._printer.keep_place(), line_end="\n")

    def show(
        self, display_id: str | None, *, index: int = -1, slot: int | None = None, line_end: str = ""
    ) -> None:
        """From now on an update of the id reaches what was shown here."""
        if display_id is None:
            return
        display = self._displays.get(display_id)
        showing = Showing(display, self._origin, index=index, slot=slot, line_end=line_end)
        display.show(showing)
        display.last_write = self._clock.monotonic()
        self._showings[showing] = None
        if len(self._showings) > OWN_SHOWINGS:
            oldest, _ = self._showings.popitem(last=False)
            oldest.display.hide(oldest)
            oldest.display.crowded = True

    def clear(self) -> None:
        """The code cleared what is shown: nothing of it can be updated any more."""
        self._ledger.clear()
        for showing in self._showings:
            showing.display.hide(showing)
        self._showings.clear()

    # Updating

    def update(self, bundle: Bundle, display_id: str) -> None:
        """Whatever shows the id shows the bundle."""
        display = self._displays.find(display_id)
        named = f"display id {clean(display_id)[:_SHOWN_CHARS]!r}"
        if display is None:
            self._tell(
                NoticeReason.UNKNOWN_DISPLAY, f"an update of {named} was ignored: nothing shows that id"
            )
            return
        if display.crowded:
            self._tell(
                NoticeReason.UNKNOWN_DISPLAY,
                f"{named} is shown more often than an update reaches; the last of its outputs were updated",
            )
        if not bundle.rich:
            if bundle.plain is not None:
                self._update_text(display, display_id, bundle.plain)
        elif any(showing.rich for showing in display.showings):
            self._updates.put(display, bundle)
        else:
            self.add(bundle, display_id)

    def _update_text(self, display: Display, display_id: str, text: str | LongText) -> None:
        """In place where this execution printed it; what an earlier one printed is recorded, so it is printed anew."""
        own = [showing for showing in display.showings if showing.origin is self._origin and not showing.rich]
        taken = [False] * len(own)
        if isinstance(text, str):
            line = clean(text)
            taken = [self._printer.replace(showing.slot, line + showing.line_end) for showing in own]
            if own and all(taken):
                self._printer.count_line(line, "displayUpdate")
                return
        for showing, took in zip(own, taken, strict=True):
            if not took:
                display.hide(showing)
                self._showings.pop(showing, None)
        self.print(text, display_id, "displayUpdate")

    def _rewrite(self, display: Display, bundle: Bundle) -> None:
        """Every rich output that shows the display shows the bundle."""
        for showing in display.showings:
            if not showing.rich:
                continue
            execution = showing.origin.execution
            result = showing.rewrite(bundle, self._store, self._limits, self._emitter.failed)
            drop = result if isinstance(result, Drop) else None
            self._emitter.maybe(
                DisplayUpdatedEvent(
                    execution=execution,
                    index=showing.index,
                    size_bytes=None if isinstance(result, Drop) else result,
                    error_info=None if drop is None else drop.error_info(bundle.size),
                )
            )
            self._tell_failure(drop)
            if drop is not None and showing.origin is not self._origin:
                self._tell(
                    drop.reason,
                    f"an update of rich output {showing.index} of {execution} could not be written; "
                    "it shows its older state",
                )

    # Telling

    def _tell(self, reason: str, text: str) -> None:
        self._emitter.notices.add(reason, text, caused=True)

    def _tell_failure(self, drop: Drop | None) -> None:
        """A disk that is full is more than one output's matter."""
        if drop is not None and drop.reason in (DropReason.DISK_FULL, DropReason.WRITE_FAILED):
            cause = dict(drop.metadata).get("cause", "unknown cause")
            self._emitter.notices.add(
                drop.reason,
                f"rich outputs could not be written to the content directory ({cause}); they are listed with the reason",
            )

    def _written(self, index: int, written: Written, revision: int) -> None:
        self._emitter.note("bundle", bundle_note(index, written, revision))

    # Results

    def freeze(self) -> None:
        """The last states are written; from now on the ledger stays as it is."""
        self._updates.flush()
        for showing in self._showings:
            showing.freeze()
        self._showings.clear()
        self._origin.freeze()

    def ledger(self) -> tuple[RichOutput, ...]:
        return self._ledger.outputs()
