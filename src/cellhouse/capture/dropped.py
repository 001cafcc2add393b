"""A display that its kernel dropped for its size: what the kernel says of it, in the place of a bundle."""

from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from cellhouse.capture.bundle import Bundle, shown_name, single
from cellhouse.capture.mime import PLAIN, InvalidValue, is_mime_type, text_of
from cellhouse.messages import LongText
from cellhouse.model import CaptureLimits, DropReason

MAX_FIGURE: Final = 2**63 - 1


class DroppedBundle(Bundle):
    """The content of an iopub message `display_dropped`, which only native kernels send.

    `{kind, reason: "OUTPUT_TOO_LARGE", mimeTypes: [...], sizeBytes, limitBytes, data: {"text/plain": ...}?, transient}`.
    Where it names no MIME type but text/plain it isn't rich; where its reason or a figure is none, it isn't valid.
    """

    __slots__ = ()

    def __init__(self, content: Mapping[str, Any], limits: CaptureLimits) -> None:
        self.faults = []
        self.plain = self._plain(content.get("data"))
        self._parts = []
        self.mime_types, unusable = self._names(content.get("mimeTypes"), limits)
        left_out = self.faults  # what these faults are about goes, and the entry stays
        self.faults = []
        self.size = self._figure("sizeBytes", content)
        self.dropped_above = self._figure("limitBytes", content)
        if content.get("reason") != DropReason.OUTPUT_TOO_LARGE:
            self._fault(f"its reason is not {DropReason.OUTPUT_TOO_LARGE}")
        self.valid = not unusable and not self.faults
        if self.mime_types and not self.valid:
            self.size = 0
        self.faults += left_out

    def _names(self, names: Any, limits: CaptureLimits) -> tuple[tuple[str, ...], bool]:
        """Those that a display with these representations would be listed with, and whether it would be invalid."""
        if not isinstance(names, list):
            self._fault("mimeTypes is no list")
            return (), True
        if not names:
            self._fault("it names no MIME type")
        too_many = len(names) > limits.mime_types
        if too_many:
            self._fault(f"{len(names)} MIME types, which is more than {limits.mime_types}")
        good: dict[str, None] = {}
        bad: dict[str, None] = {}
        for name in islice(names, limits.mime_types):
            if name == PLAIN:
                continue
            if is_mime_type(name, limits.mime_type_chars):
                good[name] = None
            else:
                shown = next(name.chunks(), "") if isinstance(name, LongText) else name
                bad[shown_name(shown, limits.mime_type_chars)] = None
                self._fault(f"{shown_name(shown, 64)}: not a MIME type")
        return tuple(good or bad), too_many or not good

    def _plain(self, data: Any) -> str | LongText | None:
        if data is None:
            return None
        if not isinstance(data, Mapping):
            self._fault("data is no object")
            return None
        if PLAIN not in data:
            return None
        try:
            return single(text_of(data[PLAIN]))
        except InvalidValue as error:
            self._fault(f"{PLAIN}: {error}")
            return None

    def _figure(self, name: str, content: Mapping[str, Any]) -> int:
        """Bytes; 0 where it tells none."""
        figure = content.get(name)
        if type(figure) is int and 0 < figure <= MAX_FIGURE:
            return figure
        self._fault(f"its {name} is no number of bytes")
        return 0
