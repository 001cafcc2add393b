"""Normal form: what chance decides (addresses, ids, times, places) is replaced by what it stands for."""

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cellhouse.messages import LongText, text_chunks

ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")

_PATTERNS: Sequence[tuple[re.Pattern[str], str]] = [
    (
        re.compile(
            r"(?:<directory>|~)/ipykernel_\d+/\d+\.py|(?:(?:<directory>|~)/)?<ipython-input-\d+-[0-9a-f]+>"
        ),
        "<cell's file>",
    ),
    (re.compile(r"\(\d{5,}\.py,"), "(<cell's file>,"),  # as a SyntaxError names it
    (re.compile(r"\b(In|Out) ?\[ ?\d+\]"), r"\1[N]"),
    (re.compile(r"0x[0-9a-fA-F]{6,}"), "<address>"),
    (re.compile(r"\[\d\d:\d\d<[^\]\n]*\]"), "[<rate>]"),
    (re.compile(r"\b\d+(\.\d+)?(e[+-]?\d+)?( ?)(ns|[µμu]s|ms|s|min|seconds)\b"), r"<time>"),
    (re.compile(r"\bpid[=: ]+\d+"), "pid <pid>"),
    (re.compile(r"\bTask-\d+"), "Task-<number>"),
    (
        re.compile(r"\bfigure_\d+\.html"),
        "figure_<number>.html",
    ),  # plotly's, of the history's length where it is kept
    (re.compile(r"\bT_[0-9a-f]{5}"), "T_<id>"),  # a table's style
    (re.compile(r"/tmp/[a-z0-9_.]*(?=/|\b)"), "<temporary>"),
]
_ID = re.compile(
    r"\b(?:[0-9a-f]{64}|[0-9a-f]{32}|(?=[0-9]*[a-f])[0-9a-f]{16}|[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})\b"
)
_SVG_DETAIL = re.compile(r"<dc:date>.*?</dc:date>|\b(?:id|href|xlink:href|clip-path)=\"[^\"]*\"", re.DOTALL)


class Normal:
    """Replaces in the texts of one cell; ids are numbered as they come, so that the same ones stay the same."""

    def __init__(self, directory: Path) -> None:
        self._directory = str(directory)
        self._ids: dict[str, str] = {}

    def identity(self, name: str) -> str:
        """An id in full: a random one by its number, one that the code chose as it is."""
        return self.text(name)

    def text(self, text: str) -> str:
        text = text.replace(self._directory, "<directory>")
        text = _ID.sub(self._numbered, text)
        for pattern, replacement in _PATTERNS:
            text = pattern.sub(replacement, text)
        return text

    def value(self, value: Any) -> Any:
        """JSON content: texts replaced, however deep, and pictures told by their size."""
        if isinstance(value, LongText):
            value = "".join(text_chunks(value))
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.value(item) for key, item in value.items()}
        if isinstance(value, Sequence):
            return [self.value(item) for item in value]
        return value

    def bundle(self, data: Any) -> Any:
        """A MIME bundle, in the order in which it came."""
        if not isinstance(data, Mapping):
            return self.value(data)
        return {kind: self._of_kind(kind, item) for kind, item in data.items()}

    def _of_kind(self, kind: str, value: Any) -> Any:
        if isinstance(value, LongText):
            value = "".join(text_chunks(value))
        picture = _PICTURES.get(kind)
        if picture is not None and isinstance(value, str):
            return picture(value)
        return self.value(value)

    def _numbered(self, match: re.Match[str]) -> str:
        return self._ids.setdefault(match[0], f"<id {len(self._ids) + 1}>")


def size_class(size: int) -> str:
    """A size to the power of two: pictures of the same are not the same to the byte everywhere."""
    return f"2**{size.bit_length()}"


def _raster(value: str) -> str:
    try:
        data = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return f"<not base64: {value[:80]!r}>"
    if data.startswith(b"\x89PNG") and len(data) >= 24:
        width, height = (int.from_bytes(data[at : at + 4], "big") for at in (16, 20))
        return f"<png {width}x{height}, {size_class(len(data))} bytes>"
    lines = "" if value.count("\n") == 0 else f", {value.count(chr(10))} line ends"
    return f"<{data[:3]!r}, {size_class(len(data))} bytes{lines}>"


def _vector(value: str) -> str:
    plain = _SVG_DETAIL.sub("", value)
    if len(plain) <= 1000:
        return plain
    return f"<svg {' '.join(re.findall(r'(?:width|height)=.[^ ]*', plain)[:2])}, {size_class(len(plain))} characters>"


_PICTURES: Mapping[str, Callable[[str], str]] = {
    "image/png": _raster,
    "image/jpeg": _raster,
    "image/svg+xml": _vector,
}
