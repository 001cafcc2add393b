"""Parameters of a notebook: read from `NAME=VALUE`, and put into a cell of their own as papermill does."""

import json
import keyword
import math
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any, Final

from cellhouse.model import InvalidArgument
from cellhouse.notebooks.cell import cell_id
from cellhouse.notebooks.given import Cell, Given, first_tagged
from cellhouse.notebooks.text import clean, quoted

PARAMETERS: Final = "parameters"
INJECTED: Final = "injected-parameters"
LANGUAGES: Final = ("python", "bash")
"""Languages in which a cell of parameters can be written."""
_WORDS: Final = {"True": True, "False": False, "None": None}
_NAME: Final = re.compile(r"[^\W\d]\w*")
_SHELL_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

Value = Any
"""What JSON can say, and floats that it can't."""


def read_parameters(given: Iterable[str]) -> dict[str, Value]:
    """The parameters by name; of one that is given twice the last. INVALID_ARGUMENT."""
    found: dict[str, Value] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not _NAME.fullmatch(name) or keyword.iskeyword(name):
            raise _bad(text, "takes NAME=VALUE, where NAME can be a variable")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise _bad(text, "is no UTF-8") from None
        found[name] = _value(name, value)
    return found


def _value(name: str, text: str) -> Value:
    """papermill's rule (`papermill -p`): True, False and None, an int, a float, else a string; here JSON besides."""
    if text in _WORDS:
        return _WORDS[text]
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        pass
    else:
        if math.isinf(number) and any(char.isdigit() for char in text):
            raise _bad(
                f"{name}={text}",
                "is more than a number can be here; as a string it is written in JSON's quotes",
            )
        return number
    if text[:1] in ("{", "[", '"'):
        try:
            return json.loads(text)
        except RecursionError:
            raise _bad(f"{name}={text}", "is nested too deep") from None
        except ValueError as error:
            raise _bad(
                f"{name}={text}",
                f"begins as JSON and is none: {error}; as a string that begins so it is written in JSON's quotes",
            ) from None
    return text


def with_parameters(given: Given, parameters: Mapping[str, Value], language: str) -> int:
    """Put the cell of parameters in: in the place of an earlier one, else behind the first cell with the tag `parameters`, else
    in front. Its index. INVALID_ARGUMENT where the language has no such cells.
    """
    cells = given.cells
    cell: Cell = {
        "cell_type": "code",
        "id": cell_id(f"{INJECTED} {len(cells)}"),
        "metadata": {"tags": [INJECTED]},
        "source": _code(parameters, language),
        "execution_count": None,
        "outputs": [],
    }
    at = first_tagged(cells, INJECTED)
    if at is not None:
        cells[at] = {**cell, "id": cells[at]["id"]}
        return at
    ids = {each["id"] for each in cells}
    while cell["id"] in ids:
        cell["id"] = cell_id(cell["id"])
    behind = first_tagged(cells, PARAMETERS)
    if behind is None:
        given.remarks.append(f"no cell has the tag {PARAMETERS!r}; the parameters stand in front")
    at = 0 if behind is None else behind + 1
    cells.insert(at, cell)
    return at


def storable(value: Value) -> Any:
    """The value as a notebook's metadata can hold it: floats that JSON has not are texts."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, list):
        return [storable(each) for each in value]
    if isinstance(value, dict):
        return {clean(key): storable(each) for key, each in value.items()}
    return value


def _code(parameters: Mapping[str, Value], language: str) -> str:
    if language in ("python", "ipython"):
        lines = [f"{name} = {_python(value)}" for name, value in parameters.items()]
    elif language == "bash":
        lines = [_bash(name, value) for name, value in parameters.items()]
    else:
        raise InvalidArgument.of_field(
            "--parameters",
            f"they are written in {', '.join(LANGUAGES)}, and this notebook is in {quoted(language, 60) or 'no known language'}; "
            "put the values into a file and give it with --input",
        )
    return "\n".join(["# Parameters", *lines, ""])


def _python(value: Value) -> str:
    """An expression that is the value, also where that is a float that has no literal."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({str(value)!r})"
    if isinstance(value, list):
        return f"[{', '.join(map(_python, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {_python(each)}' for key, each in value.items())}}}"
    return repr(value)


def _bash(name: str, value: Value) -> str:
    if not _SHELL_NAME.fullmatch(name):
        raise _bad(f"{name}=…", "is no name of a variable in bash")
    if isinstance(value, list | dict):
        raise _bad(f"{name}=…", "is no value of a variable in bash; give a text or a number")
    text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return f"{name}={shlex.quote(text)}"


def _bad(text: str, rule: str) -> InvalidArgument:
    return InvalidArgument.of_field("--parameters", f"{quoted(text, 100)!a} {rule}")
