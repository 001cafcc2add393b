"""A naive model of the folding terminal: one character at a time, one cell at a time."""

import re


class NaiveTerminal:
    def __init__(self, columns: int, rows: int, escape_chars: int) -> None:
        self.columns, self.height, self.escape_chars = columns, rows, escape_chars
        self.gone = ""
        self.rows: list[tuple[str, list[str]]] = [("", [])]
        self.x = self.y = 0
        self.escape = ""  # the unfinished escape, as it came

    def feed(self, text: str) -> None:
        for character in text:
            self.one(character)

    def folded(self) -> str:
        return self.gone + "".join(lead + "".join(cells) for lead, cells in self.rows)

    def one(self, character: str) -> None:
        if self.escape:
            self.in_escape(character)
        elif character in "\x1b\x9b\x90\x98\x9d\x9e\x9f":
            self.escape = character
        elif character == "\n":
            self.down()
            self.x = 0
        elif character == "\r":
            self.x = 0
        elif character == "\b":
            self.x = max(0, self.x - 1)
        elif character == "\t" or not (character < " " or "\x7f" <= character <= "\x9f"):
            self.print(character)

    def in_escape(self, character: str) -> None:
        if re.match(r"\x1b[]PX^_]|[\x90\x98\x9d\x9e\x9f]", self.escape):
            if character in "\x07\x18\x1a\x9c":
                self.escape = ""
            elif character == "\x1b":
                self.escape = character
            else:
                self.escape += character
        elif not " " <= character <= "~":
            self.escape = ""
            self.one(character)
            return
        else:
            self.escape += character
            if re.fullmatch(r"\x1b([ -/]+[0-~]|[0-OQ-WYZ\\`-~])|(\x1b\[|\x9b)[ -?]*[@-~]", self.escape):
                self.finished(self.escape)
                self.escape = ""
        if len(self.escape) >= self.escape_chars:
            self.escape = ""

    def finished(self, escape: str) -> None:
        found = re.fullmatch(r"(?:\x1b\[|\x9b)(([0-9]*)(?:[;:][0-?]*)?)([A-GK])", escape)
        if found is None or len(found[1]) > 32:
            return
        number, final = int(found[2] or 0), found[3]
        cells = self.rows[self.y][1]
        if final == "K":
            if number == 0:
                del cells[self.x :]
            elif number == 1 and self.x + 1 < len(cells):
                cells[: self.x + 1] = [" "] * (self.x + 1)
            elif number in (1, 2):
                cells.clear()
            return
        number = number or 1
        if final in "AF":
            self.y = max(0, self.y - number)
        if final in "BE":
            self.y = min(len(self.rows) - 1, self.y + number)
        if final in "EF":
            self.x = 0
        if final == "C" and self.x < self.columns:
            self.x = min(self.columns - 1, self.x + number)
        if final == "D":
            self.x = max(0, self.x - number)
        if final == "G":
            self.x = min(self.columns, number) - 1

    def down(self, lead: str = "\n") -> None:
        self.y += 1
        if self.y == len(self.rows):
            self.rows.append((lead, []))
            if len(self.rows) > self.height:
                first, cells = self.rows.pop(0)
                self.gone += first + "".join(cells)
                self.y -= 1
        elif not lead:
            self.rows[self.y] = ("", self.rows[self.y][1])

    def print(self, character: str) -> None:
        if self.x == self.columns:
            self.down("")
            self.x = 0
        cells = self.rows[self.y][1]
        cells += [" "] * (self.x - len(cells))
        cells[self.x : self.x + 1] = [character]
        self.x += 1
