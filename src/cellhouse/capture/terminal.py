"""The folding terminal: what a reader of a screen would see in the end of text full of carriage returns and escapes."""

import re
from collections.abc import Callable
from enum import Enum, auto
from typing import Final

COLUMNS: Final = 4_096
ROWS: Final = 100
"""Rows that are still on the screen, and so can change. What has scrolled off is final."""
ESCAPE_CHARS: Final = 4_096
"""An escape sequence that is longer and unfinished is given up: so much is removed, the rest is text."""
PARAMETER_CHARS: Final = 32
"""Characters kept of the parameters of a control sequence; one with more is not applied."""
_LAST_LINES_CHARS: Final = 80 * ROWS  # in which the last rows mostly are
SHORT_CHARS: Final = 512
"""Up to here one search with a pattern is quicker than a search for each control."""

# C0 without tab and line feed, and delete. For long text, `in` for each of them is by far the quickest search.
_CONTROLS = tuple(chr(code) for code in (*range(9), *range(11, 32), 127))
_CONTROL_BYTES = tuple(control.encode() for control in _CONTROLS)
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_C1_BYTES = re.compile(rb"\xc2[\x80-\x9f]")
_CONTROL_OR_NEWLINE = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f]")
_COLOUR = re.compile(r"\x1b\[[0-9;:]{0,64}m")
_SEQUENCE = re.compile(r"(?:\x1b\[|\x9b)([0-?]{0,32})([ -/]{0,8})([@-~])")
_STRING = re.compile("\x1b[]PX^_]|[\x90\x98\x9d\x9e\x9f]")
_STRING_END = re.compile("[\x07\x18\x1a\x1b\x9c]")
_NUMBER = re.compile(r"([0-9]*)(?:[;:]|\Z)")


class _State(Enum):
    """Where in an escape sequence the text was cut, after the parser of the VT500."""

    GROUND = auto()
    ESCAPE = auto()
    INTERMEDIATE = auto()  # ESC and 0x20 to 0x2F, awaiting the final
    PARAMETERS = auto()  # of a control sequence
    AFTER_PARAMETERS = auto()
    STRING = auto()  # OSC, DCS, SOS, PM, APC: until ST, or BEL


class Terminal:
    """Folds text. Each row that leaves the screen is handed to `emit`, its line end before it.

    Carriage return, backspace, erase-line (`CSI K`) and the cursor movements `CSI A B C D E F G` are applied; colours
    and all other escapes are removed, and so are other controls except tab. A line longer than the screen is wide goes
    on in the next row, which adds no line end. A tab takes one cell. How the text is cut into chunks makes no difference.
    """

    __slots__ = (
        "_columns", "_count", "_emit", "_escape_chars", "_height", "_leads", "_parameters", "_rows", "_state", "_x", "_y",
        "newlines_gone",
    )  # fmt: skip

    def __init__(
        self,
        emit: Callable[[str], None],
        *,
        columns: int = COLUMNS,
        rows: int = ROWS,
        escape_chars: int = ESCAPE_CHARS,
    ) -> None:
        self._emit = emit
        self._columns = columns
        self._height = rows
        self._escape_chars = escape_chars
        self.newlines_gone = 0  # line ends in what was emitted
        self._rows = [""]
        self._leads = [""]  # before each row its line end, none where a line goes on; and anchors
        self._y = 0
        self._x = 0
        self._state = _State.GROUND
        self._count = 0  # characters of the unfinished escape
        self._parameters = ""

    @property
    def column(self) -> int:
        return self._x

    def screen(self) -> str:
        """The rows that can still change."""
        if self._leads.count("\n") == len(self._leads):
            return "\n" + "\n".join(self._rows)
        return "".join([part for pair in zip(self._leads, self._rows, strict=True) for part in pair])

    def shows(self, text: str) -> bool:
        """Whether a row on the screen contains the text."""
        return any(text in row for row in self._rows) or any(text in lead for lead in self._leads)

    def clear(self) -> None:
        """An empty screen, as at the start. An unfinished escape goes on."""
        self._rows, self._leads = [""], [""]
        self._y = self._x = 0

    def feed(self, text: str, data: bytes | None = None, newlines: int | None = None) -> None:
        """Takes a chunk; `data` is the same in UTF-8, `newlines` the count of its line feeds, for a caller that has them."""
        if "\r" in text and self._state is _State.GROUND and not _STRING.search(text):
            text = text.replace(
                "\r\n", "\n"
            )  # a line feed goes to column 0 anyway; in a string each of them counts
            data = None
        if self._state is _State.GROUND:
            if not _has_control(text, data):
                self._put(text, newlines)
                return
            if "\x1b" in text:
                plain = _COLOUR.sub("", text)
                if not _CONTROL.search(plain):
                    self._put(plain, newlines)
                    return
        self._run(text)

    def put_character(self, character: str) -> None:
        """One character that is no control, whatever escape is unfinished."""
        self._write(character)

    def put_anchor(self, character: str) -> None:
        """A character that takes no cell, before what the cursor stands on. Only within a line it takes one."""
        if self._x:
            self._write(character)
        else:
            self._leads[self._y] += character  # where nothing writes over it

    # Parsing

    def _run(self, text: str) -> None:
        at, end = 0, len(text)
        while at < end:
            if self._state is _State.GROUND:
                at = self._ground(text, at)
            elif self._state is _State.STRING:
                at = self._string(text, at)
            else:
                at = self._escape(text, at)

    def _ground(self, text: str, at: int) -> int:
        """Text up to the next escape, and that too where it is whole."""
        while found := _CONTROL_OR_NEWLINE.search(text, at):
            start = found.start()
            if start > at:
                self._write(text[at:start])
            control = text[start]
            if control == "\n":
                self._newline()
            elif control == "\r":
                self._x = 0
            elif control == "\b":
                if self._x:
                    self._x -= 1
            elif control == "\x1b" or control == "\x9b":
                if whole := _SEQUENCE.match(text, start):
                    self._apply(whole[1], whole[2], whole[3])
                    at = whole.end()
                    continue
                after = text[start + 1 : start + 2]
                if not after or after >= " ":  # else it ends where it begins
                    self._begin(control)
                    return start + 1
            elif control in "\x90\x98\x9d\x9e\x9f":
                self._begin(control)
                return start + 1
            at = start + 1
        self._write(text[at:])
        return len(text)

    def _begin(self, control: str) -> None:
        self._count = 1
        self._parameters = ""
        if control == "\x1b":
            self._state = _State.ESCAPE
        elif control == "\x9b":
            self._state = _State.PARAMETERS
        else:
            self._state = _State.STRING

    def _string(self, text: str, at: int) -> int:
        stop = min(len(text), at + self._escape_chars - self._count)
        found = _STRING_END.search(text, at, stop)
        if found is None:
            self._count += stop - at
            if self._count >= self._escape_chars:
                self._state = _State.GROUND
            return stop
        if found[0] == "\x1b":
            self._begin("\x1b")  # its backslash ends the string; anything else is a sequence of its own
        else:
            self._state = _State.GROUND
        return found.end()

    def _escape(self, text: str, at: int) -> int:
        """One character of an escape that is no string. What can't belong to it ends it and is looked at anew."""
        character = text[at]
        if not " " <= character <= "~":
            self._state = _State.GROUND
            return at
        self._count += 1
        state = self._state
        if state is _State.ESCAPE:
            if character == "[":
                self._state = _State.PARAMETERS
            elif character in "]PX^_":
                self._state = _State.STRING
            else:
                self._state = _State.INTERMEDIATE if character <= "/" else _State.GROUND
        elif state is _State.INTERMEDIATE:
            if character > "/":
                self._state = _State.GROUND
        elif character >= "@":
            self._state = _State.GROUND
            self._apply(self._parameters, "", character)
        elif character > "/" and state is _State.PARAMETERS:
            kept = self._parameters
            # A space in front is in no parameters, so nothing is applied.
            self._parameters = kept + character if len(kept) < PARAMETER_CHARS else " "
        else:
            self._parameters = " "
            self._state = _State.AFTER_PARAMETERS
        if self._count >= self._escape_chars:
            self._state = _State.GROUND
        return at + 1

    # Moving

    def _apply(self, parameters: str, intermediates: str, final: str) -> None:
        """A control sequence. Private ones and those with intermediates are other sequences altogether."""
        number = None if intermediates else _NUMBER.match(parameters)
        if number is None or final not in "ABCDEFGK":
            return
        value = int(number[1] or 0)
        if final == "K":
            self._erase(value)
            return
        many = value or 1
        if final == "A" or final == "F":
            self._y = max(0, self._y - many)
        elif final == "B" or final == "E":
            self._y = min(len(self._rows) - 1, self._y + many)
        elif final == "C":
            self._x = min(max(self._x, self._columns - 1), self._x + many)
        elif final == "D":
            self._x = max(0, self._x - many)
        elif final == "G":
            self._x = min(self._columns, many) - 1
        if final == "E" or final == "F":
            self._x = 0

    def _erase(self, mode: int) -> None:
        row, x = self._rows[self._y], self._x
        if mode == 0:
            row = row[:x]
        elif mode == 1:
            row = " " * (x + 1) + row[x + 1 :] if x + 1 < len(row) else ""
        elif mode == 2:
            row = ""
        self._rows[self._y] = row

    def _newline(self) -> None:
        self._x = 0
        if self._y == len(self._rows) - 1:
            self._add_row("\n")
        else:
            self._y += 1

    def _add_row(self, lead: str) -> None:
        self._rows.append("")
        self._leads.append(lead)
        if len(self._rows) > self._height:
            gone = self._leads.pop(0)
            self.newlines_gone += gone.count("\n")
            self._emit(gone + self._rows.pop(0))
        self._y = len(self._rows) - 1

    # Writing

    def _write(self, text: str) -> None:
        """Text without any control, over what stands at the cursor."""
        at, end = 0, len(text)
        while at < end:
            if self._x >= self._columns:
                if self._y == len(self._rows) - 1:
                    self._add_row("")
                else:
                    self._y += 1
                    self._leads[self._y] = self._leads[self._y].removeprefix("\n")
                self._x = 0
            x = self._x
            part = text[at : at + self._columns - x] if at or end > self._columns - x else text
            row = self._rows[self._y]
            size = len(row)
            if x == size:
                row += part
            elif x > size:
                row = row.ljust(x) + part
            else:
                row = row[:x] + part + row[x + len(part) :]
            self._rows[self._y] = row
            self._x = x + len(part)
            at += len(part)

    def _put(self, text: str, newlines: int | None) -> None:
        """Text whose only controls are line feeds and tabs."""
        if "\n" not in text:
            self._write(text)
            return
        if self._y == len(self._rows) - 1:
            text = self._scroll(text, newlines)
        if not text:
            return
        first, *rest = text.split("\n")
        self._write(first)
        if self._y == len(self._rows) - 1 and len(rest) > 1 and max(map(len, rest)) <= self._columns:
            self._add_lines(rest)
            return
        for line in rest:
            self._newline()
            if line:
                self._write(line)

    def _add_lines(self, lines: list[str]) -> None:
        """Lines that each fit a row, behind the last row; what that moves off the screen is emitted in one piece."""
        self._rows += lines
        self._leads += ["\n"] * len(lines)
        if (gone := len(self._rows) - self._height) > 0:
            leads, rows = self._leads[:gone], self._rows[:gone]
            del self._leads[:gone], self._rows[:gone]
            self.newlines_gone += "".join(leads).count("\n")
            self._emit("".join([part for pair in zip(leads, rows, strict=True) for part in pair]))
        self._y = len(self._rows) - 1
        self._x = len(lines[-1])

    def _scroll(self, text: str, newlines: int | None) -> str:
        """Moves at once whatever the text moves off the screen; what is left to write. The cursor is in the last row."""
        lines = _last_lines(text, self._height)
        if len(lines) < self._height:
            return text
        first, cut = text.find("\n"), len(text) - sum(map(len, lines)) - self._height
        self._write(text[:first])
        self.newlines_gone += "".join(self._leads).count("\n")
        self._emit(self.screen())
        if first < cut:  # in one piece of its own: it is nearly all of the text, and not copied twice
            self.newlines_gone += (text.count("\n") if newlines is None else newlines) - self._height
            self._emit(text[first:cut])
        if max(map(len, lines)) > self._columns:
            self._rows, self._leads = [""], ["\n"]
            self._y = self._x = 0
            return "\n".join(lines)
        self._rows, self._leads = lines, ["\n"] * len(lines)
        self._y = len(lines) - 1
        self._x = len(lines[-1])
        return ""


def _last_lines(text: str, count: int) -> list[str]:
    """The last lines that have a line end before them: so many, or as many as there are."""
    end = text[-_LAST_LINES_CHARS:]
    lines = end.rsplit("\n", count)
    if len(lines) <= count and len(end) < len(text):
        lines = text.rsplit("\n", count)
    return lines[1:]


def _has_control(text: str, data: bytes | None) -> bool:
    if len(text) <= SHORT_CHARS:
        return _CONTROL.search(text) is not None
    if text.isascii():
        return any(control in text for control in _CONTROLS)
    if data is None:
        return _CONTROL.search(text) is not None
    if any(control in data for control in _CONTROL_BYTES):
        return True
    return b"\xc2" in data and _C1_BYTES.search(data) is not None


def fold(text: str) -> str:
    """The whole text folded at once."""
    parts: list[str] = []
    terminal = Terminal(parts.append)
    terminal.feed(text)
    parts.append(terminal.screen())
    return "".join(parts)
