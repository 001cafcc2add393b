"""MIME bundles on their way out: what is too large never leaves, and says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .frames import encode
from .link import Link
from .own import base64

MIME_TYPES = 64  # named of a bundle that was dropped
OVERHEAD_BYTES = 1_024


class Bundles:
    """Sends displays and values, each no larger than `bundle_bytes`; long plain text is cut to `text_chars`."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self.bundle_bytes = 64 << 20
        self.text_chars = 32 << 20

    def send(self, msg_type: str, content: dict[str, Any], parent: str, *, more: bool = False) -> None:
        """`more`: the next message may take it along. `content` as Jupyter messaging 5.4 has it for display_data, update_display_data and execute_result."""
        data = content["data"]
        plain = data.get("text/plain")
        if type(plain) is str and len(plain) > self.text_chars:
            content["data"] = data = {**data, "text/plain": self._cut(plain)}
        size = sum(len(value) for value in data.values() if isinstance(value, (str, bytes)))
        if size > self.bundle_bytes:
            self._drop(msg_type, content, size, parent)
            return
        content["data"] = encode_binary(data)
        body = encode(content)
        if len(body) > self.bundle_bytes + OVERHEAD_BYTES:
            self._drop(msg_type, content, len(body), parent)
            return
        self._link.send(msg_type, body, parent=parent, more=more)

    def _drop(self, kind: str, content: Mapping[str, Any], size: int, parent: str) -> None:
        data = content["data"]
        told: dict[str, Any] = {
            "kind": kind,
            "reason": "OUTPUT_TOO_LARGE",
            "mimeTypes": [str(name)[:256] for name in list(data)[:MIME_TYPES]],
            "sizeBytes": size,
            "limitBytes": self.bundle_bytes,
            "transient": content.get("transient") or {},
        }
        plain = data.get("text/plain")
        if isinstance(plain, str) and len(plain) <= self.text_chars and 4 * len(plain) <= self.bundle_bytes:
            told["data"] = {"text/plain": plain}
        self._link.send("display_dropped", told, parent=parent)

    def _cut(self, text: str) -> str:
        half = self.text_chars // 2
        gone = len(text) - 2 * half
        return (
            f"{text[:half]}\n[… {gone} of {len(text)} characters are left out here: the kernel hands on at most "
            f"{self.text_chars} of one value …]\n{text[-half:]}"
        )


def encode_binary(data: Mapping[str, Any]) -> dict[str, Any]:
    """Bytes as base64, as the protocol has them; Jupyter messaging 5.4, display_data."""
    return {
        name: base64.b64encode(value).decode("ascii") if isinstance(value, (bytes, bytearray)) else value
        for name, value in data.items()
    }
