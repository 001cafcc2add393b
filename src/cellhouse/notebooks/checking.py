"""Cells of a given notebook, held against the schema of nbformat 4.5."""

import re
from collections.abc import Callable
from typing import Any, Final

from cellhouse.messages import LongText
from cellhouse.notebooks.bundles import NotHeld, json_value, output_of
from cellhouse.notebooks.cell import cell_id
from cellhouse.notebooks.given import Cell, runs, without_mark
from cellhouse.notebooks.limits import CELL_OUTPUTS
from cellhouse.notebooks.notes import NotebookOutput
from cellhouse.notebooks.text import clean, quoted

_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_KINDS: Final = ("code", "markdown", "raw")
_COMMON: Final = frozenset(("id", "cell_type", "metadata", "source"))
_KEYS: Final = {
    "code": _COMMON | {"outputs", "execution_count"},
    "markdown": _COMMON | {"attachments"},
    "raw": _COMMON | {"attachments"},
}
REMARKS: Final = 20
"""Remarks on one notebook; a generated one can break the same rule ten thousand times."""


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())


# What the schema says of metadata that it knows; anything else is whoever's wrote it.
_CELL_METADATA: Final[dict[str, Callable[[Any], bool]]] = {
    "name": lambda value: isinstance(value, str) and re.match(r"^.+$", value) is not None,
    "jupyter": lambda value: isinstance(value, dict),
}
_CODE_METADATA: Final[dict[str, Callable[[Any], bool]]] = {
    "collapsed": _flag,
    "scrolled": lambda value: isinstance(value, bool) or value == "auto",
    "execution": _texts,
}
_LANGUAGE_INFO: Final[dict[str, Callable[[Any], bool]]] = {
    "name": _text,
    "codemirror_mode": lambda value: isinstance(value, str | dict),
    "file_extension": _text,
    "mimetype": _text,
    "pygments_lexer": _text,
}


class Wrong(ValueError):
    """The notebook can't be run as it is; the message names the cell and the rule."""


class Checker:
    """Takes the cells one after the other. `newer`: a minor version whose rules are not known, so that keys stay."""

    def __init__(
        self, name: str, code_bytes: int, remarks: list[str], *, newer: bool, keeps_ids: bool
    ) -> None:
        self._name = name
        self._code_bytes = code_bytes
        self._remarks = remarks
        self._more = 0
        self._newer, self._keeps_ids = newer, keeps_ids
        self._ids: set[str] = set()

    def cell(self, number: int, cell: Any) -> Cell:
        """The cell with all that nbformat 4.5 wants of it. Wrong."""
        if not isinstance(cell, dict):
            raise Wrong(f"cell {number} is {_kind(cell)}; each cell is a JSON object")
        kind = cell.get("cell_type")
        if self._newer and isinstance(kind, str) and kind not in _KINDS:
            return self._unknown(f"cell {number}", number, cell)
        if kind not in _KINDS:
            said = quoted(repr(kind), 60) if isinstance(kind, str) else _kind(kind)
            raise Wrong(f"cell {number}: `cell_type` is {said}; there are {', '.join(_KINDS)}")
        what = f"cell {number} ({kind})"
        made: Cell = {
            "cell_type": kind,
            "id": self._id(what, number, cell),
            "metadata": self._metadata(what, kind, cell.get("metadata", {})),
            "source": self._source(what, kind, cell.get("source", "")),
        }
        if kind == "code":
            self._code(what, made, cell)
        elif "attachments" in cell:
            self._attach(what, made, cell["attachments"])
        for key in cell.keys() - _KEYS[kind]:
            if self._newer:
                made[key] = self._json(f"{what}: `{quoted(key, 60)}`", cell[key])
            elif cell[key] not in (None, [], {}):
                self._remark(f"{what}: {quoted(repr(key), 60)} has no place in such a cell and was left out")
        return made

    def notebook_metadata(self, metadata: Any) -> dict[str, Any]:
        """The notebook's own metadata. Wrong."""
        if not isinstance(metadata, dict):
            raise Wrong(f"the notebook's `metadata` is {_kind(metadata)}; it is a JSON object")
        made = without_mark(self._json("the notebook's `metadata`", metadata))
        made.pop("orig_nbformat", None)  # never to be written, by the schema
        spec = made.get("kernelspec")
        if spec is not None:
            if not isinstance(spec, dict) or not isinstance(spec.get("name"), str):
                self._drop(made, "kernelspec", "the notebook")
            elif not isinstance(spec.get("display_name"), str):
                spec["display_name"] = spec["name"]
        info = made.get("language_info")
        if info is not None and not (
            isinstance(info, dict)
            and "name" in info
            and all(holds(info[key]) for key, holds in _LANGUAGE_INFO.items() if key in info)
        ):
            self._drop(made, "language_info", "the notebook")
        for key, kind in (("title", str), ("authors", list), ("kernelspec", dict), ("language_info", dict)):
            if key in made and not isinstance(made[key], kind):
                self._drop(made, key, "the notebook")
        if self._more:
            self._remarks.append(f"{self._more:,} more remarks like these")
        return made

    def _unknown(self, what: str, number: int, cell: dict[str, Any]) -> Cell:
        """A kind of cell of a later minor version: it stays as it is."""
        made: Cell = self._json(what, cell)
        if not isinstance(made.get("metadata"), dict):
            raise Wrong(f"{what}: `metadata` is {_kind(made.get('metadata'))}; it is a JSON object")
        made["metadata"] = self._metadata(what, "", made["metadata"])
        made["id"] = self._id(what, number, cell)
        return made

    # Parts of a cell

    def _id(self, what: str, number: int, cell: dict[str, Any]) -> str:
        found = cell.get("id") if self._keeps_ids else None
        if isinstance(found, str) and _ID.fullmatch(found) and found not in self._ids:
            self._ids.add(found)
            return found
        if self._keeps_ids:
            twice = isinstance(found, str) and found in self._ids
            why = "is that of an earlier cell" if twice else "is missing, or can't be one"
            self._remark(f"{what}: its id {why}; it has got a new one")
        made = cell_id(f"{number}")
        while made in self._ids:
            made = cell_id(made)
        self._ids.add(made)
        return made

    def _metadata(self, what: str, kind: str, metadata: Any) -> dict[str, Any]:
        if not isinstance(metadata, dict):
            raise Wrong(f"{what}: `metadata` is {_kind(metadata)}; it is a JSON object")
        made = without_mark(self._json(f"{what}: `metadata`", metadata))
        rules = dict(_CELL_METADATA)
        if kind == "code":
            rules |= _CODE_METADATA
        elif kind == "raw":
            rules["format"] = _text
        for key, holds in rules.items():
            if key in made and not holds(made[key]):
                self._drop(made, key, what)
        if "tags" in made:
            made["tags"] = self._tags(what, made["tags"])
        return made

    def _tags(self, what: str, tags: Any) -> list[str]:
        # A tag decides whether code is run: nothing is guessed here.
        if not isinstance(tags, list) or not all(isinstance(tag, str) and tag for tag in tags):
            raise Wrong(f"{what}: `metadata.tags` is to be a list of texts; mend or remove it")
        kept = [tag for tag in dict.fromkeys(tags) if re.match(r"^[^,]+$", tag)]
        if kept != tags:
            self._remark(f"{what}: tags that stand twice or have a comma were left out")
        return kept

    def _source(self, what: str, kind: str, source: Any) -> str:
        lines = source if isinstance(source, list) else [source]
        size = 0
        for line in lines:
            if not isinstance(line, str | LongText):
                raise Wrong(f"{what}: `source` has {_kind(line)} in it; it is a text or a list of texts")
            size += len(line)
        if kind == "code" and size > self._code_bytes:
            raise Wrong(
                f"{what}: code of more than {self._code_bytes:,} bytes; put data into a file and give it with --input"
            )
        text = "".join(map(_whole_text, lines))
        if kind != "code":
            return clean(text)
        try:
            encoded = len(text.encode())
        except UnicodeEncodeError as error:
            raise Wrong(
                f"{what}: character {error.start + 1} of the code is a lone surrogate; write it as an escape"
            ) from None
        if encoded > self._code_bytes:
            raise Wrong(
                f"{what}: code of {encoded:,} bytes, over {self._code_bytes:,}; put data into a file and give it with --input"
            )
        return text

    def _code(self, what: str, made: Cell, cell: dict[str, Any]) -> None:
        made["execution_count"], made["outputs"] = None, []
        if runs(made):
            return
        # It stays as it is, and so do its outputs.
        count = cell.get("execution_count")
        if isinstance(count, int) and not isinstance(count, bool) and count >= 0:
            made["execution_count"] = count
        outputs = cell.get("outputs", [])
        if not isinstance(outputs, list):
            raise Wrong(f"{what}: `outputs` is {_kind(outputs)}; it is a list")
        if len(outputs) > CELL_OUTPUTS:
            raise Wrong(
                f"{what}: {len(outputs):,} outputs are kept of a cell that is not run, over {CELL_OUTPUTS:,}; clear them"
            )
        for output in outputs:
            if (kept := self._output(_whole(output))) is not None:
                made["outputs"].append(kept)
            else:
                self._remark(f"{what}: an output that is none by the format was left out")

    @staticmethod
    def _output(output: Any) -> NotebookOutput | None:
        if not isinstance(output, dict):
            return None
        match output.get("output_type"):
            case "stream":
                text = _joined(output.get("text"))
                name = output.get("name")
                if text is None or not isinstance(name, str):
                    return None
                return {"output_type": "stream", "name": clean(name), "text": text}
            case "error":
                parts = [output.get("ename"), output.get("evalue")]
                lines = output.get("traceback")
                if not isinstance(lines, list) or not all(isinstance(each, str) for each in (*parts, *lines)):
                    return None
                name, value = map(clean, map(str, parts))
                return {
                    "output_type": "error",
                    "ename": name,
                    "evalue": value,
                    "traceback": list(map(clean, lines)),
                }
            case "display_data" | "execute_result":
                count = output.get("execution_count")
                return output_of(output, count if type(count) is int and count >= 0 else None)[0]
        return None

    def _attach(self, what: str, made: Cell, attachments: Any) -> None:
        whole = self._json(f"{what}: `attachments`", attachments)
        if isinstance(whole, dict) and all(
            isinstance(bundle, dict)
            and all(
                _joined(value) is not None or re.match(r"^application/(.*\+)?json$", kind)
                for kind, value in bundle.items()
            )
            for bundle in whole.values()
        ):
            made["attachments"] = whole
        elif whole is not None:
            raise Wrong(f"{what}: `attachments` is to be an object of files, each with its data by MIME type")

    def _json(self, what: str, value: Any) -> Any:
        try:
            return json_value(_whole(value))
        except NotHeld as error:
            raise Wrong(f"{what}: {error}") from None

    def _drop(self, metadata: dict[str, Any], key: str, what: str) -> None:
        del metadata[key]
        self._remark(f"{what}: `metadata.{key}` is not what the format has there, and was left out")

    def _remark(self, text: str) -> None:
        if len(self._remarks) < REMARKS:
            self._remarks.append(text)
        else:
            self._more += 1


def _whole(value: Any) -> Any:
    """With the long strings as strings."""
    if isinstance(value, LongText):
        return _whole_text(value)
    if isinstance(value, list):
        return [_whole(each) for each in value]
    if isinstance(value, dict):
        return {key: _whole(each) for key, each in value.items()}
    return value


def _whole_text(text: str | LongText) -> str:
    return text if isinstance(text, str) else "".join(text.chunks())


def _joined(value: Any) -> str | None:
    """A text that may stand as a list of its lines; None where it is none."""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        value = "".join(value)
    return clean(value) if isinstance(value, str) else None


def _kind(value: Any) -> str:
    for kinds, word in (
        ((type(None),), "missing or null"),
        ((bool,), "true or false"),
        ((int, float), "a number"),
        ((str, LongText), "a text"),
        ((list,), "a list"),
    ):
        if isinstance(value, kinds):
            return word
    return "an object"
