"""Text of hostile code: as a notebook shows it, and as a line of ours may quote it."""

import re
from typing import Final

QUOTED_CHARS: Final = 2_000
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]{0,64}m")
# An escape sequence whole, or any control character but tab and line end.
_CONTROL: Final = re.compile(
    r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|[\]PX^_][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)?|[ -/]{1,8}[0-~]|[ -~])?"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)


def clean(text: str) -> str:
    """Lone surrogates, which no UTF-8 can hold, become `\\udXXX` text."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def quoted(text: str, most: int = QUOTED_CHARS) -> str:
    """On one line, printable, with at most so many characters."""
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text[:most])
    return shown if len(text) <= most else f"{shown} … ({len(text)} characters)"


def folded(text: str) -> str:
    """Backspaces and carriage returns applied as a notebook's page does it. Linear, also for one line of many of them.

    A backspace takes back the character before it in its line; what follows a carriage return covers what stood there.
    """
    if "\r" not in text and "\b" not in text:
        return text
    return "\n".join(map(_folded_line, text.split("\n")))


def _folded_line(line: str) -> str:
    if "\b" in line:
        kept: list[str] = []
        for char in line:
            if char != "\b":
                kept.append(char)
            elif kept and kept[-1] != "\r":
                kept.pop()
        line = "".join(kept)
    if "\r" not in line:
        return line
    # From the last one back: each earlier one shows only what sticks out behind those that came later.
    shown: list[str] = []
    covered = 0
    for part in reversed(line.split("\r")):
        if len(part) > covered:
            shown.append(part[covered:])
            covered = len(part)
    return "".join(shown)


def coloured(text: str) -> str:
    """With colours, tabs and line ends left of all that is no print."""
    return _CONTROL.sub(lambda found: found[0] if _COLOUR.fullmatch(found[0]) else "", text)


def plain(text: str) -> str:
    """With tabs and line ends left of all that is no print."""
    return _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
