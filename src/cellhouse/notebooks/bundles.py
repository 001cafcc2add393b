"""A bundle read back from /content as an output of a notebook. Code may have written anything into it."""

import json
import math
import re
from typing import Any, Final

from cellhouse.notebooks.notes import MARK, NotebookOutput
from cellhouse.notebooks.text import clean, quoted

DEPTH: Final = 100
_TYPE: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9!#$&^_.+-]{0,126}/[a-zA-Z0-9][a-zA-Z0-9!#$&^_.+-]{0,126}")


class NotHeld(ValueError):
    """A value that no notebook can hold; the message says why."""


def output_of(bundle: dict[str, Any], execution_count: int | None) -> tuple[NotebookOutput | None, list[str]]:
    """The output, None where nothing of it holds, and what was left out of it and why."""
    faults: list[str] = []
    data = bundle.get("data")
    held: dict[str, Any] = {}
    for name, value in data.items() if isinstance(data, dict) else ():
        try:
            held[_type(name)] = _value(name, value)
        except NotHeld as error:
            faults.append(f"{quoted(name, 100)}: {error}")
    if not held:
        return None, faults or ["it has no data"]
    try:
        metadata = json_value(bundle.get("metadata", {}))
        if not isinstance(metadata, dict):
            raise NotHeld("no object")
    except NotHeld as error:
        faults.append(f"metadata: {error}")
        metadata = {}
    metadata.pop(MARK, None)  # nobody but we makes notes
    output: NotebookOutput = {"output_type": "display_data", "data": held, "metadata": metadata}
    if bundle.get("output_type") == "execute_result":
        output |= {"output_type": "execute_result", "execution_count": execution_count}
    return output, faults


def _type(name: str) -> str:
    if not _TYPE.fullmatch(name):
        raise NotHeld("not a MIME type")
    return name


def _value(name: str, value: Any) -> Any:
    if name == "application/json" or name.endswith("+json"):
        value = json_value(value)
        if name.startswith("application/") or isinstance(value, str):
            return value
        return json.dumps(value, ensure_ascii=False)  # of all others the schema takes only text
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        value = "".join(value)
    if not isinstance(value, str):
        raise NotHeld("not a text")
    return clean(value)


def json_value(value: Any, depth: int = 0) -> Any:
    """Strict JSON without lone surrogates. Raises NotHeld."""
    if depth > DEPTH:
        raise NotHeld(f"nested more than {DEPTH} deep")
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise NotHeld("a number that is none in JSON")
    if isinstance(value, list):
        return [json_value(each, depth + 1) for each in value]
    if isinstance(value, dict):
        return {clean(key): json_value(each, depth + 1) for key, each in value.items()}
    return value
