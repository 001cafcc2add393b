"""Inputs that are staged into a runtime: what one may be, and the file name that its name becomes."""

import hashlib
import json
import os
import unicodedata
from collections.abc import Mapping
from typing import Final, TypeAlias

from cellhouse.model.enums import CallReason
from cellhouse.model.errors import InvalidArgument, ResourceExhausted
from cellhouse.model.names import check_artifact_id

StagedInput: TypeAlias = bytes | os.PathLike[str] | str
"""Bytes themselves, the path of a local file, or (a `str`) the ref of an artifact."""

INPUTS_DIR: Final = "inputs"
"""Below /content."""
INPUTS_VARIABLE: Final = "CELLHOUSE_INPUTS"
INPUT_NAME_CHARS: Final = 1_024
INPUTS_BYTES: Final = 65_536
"""Of the JSON that names them all: a program's environment has little room, and each variable of it."""
_FILE_NAME_BYTES: Final = 200
_EXTENSION_BYTES: Final = 16
_WRITTEN_OUT: Final = frozenset("/\\%:\"'`$*?<>|&;!~#")
_CATEGORIES: Final = ("C", "Zl", "Zp")


def check_input_name(name: object) -> str:
    """The name itself where an input may have it; else InvalidArgument."""
    if not isinstance(name, str) or not name:
        raise InvalidArgument.of_field(
            "inputs", f"{str(name)[:80]!a} is no name; it takes a text that is not empty"
        )
    if len(name) > INPUT_NAME_CHARS:
        raise InvalidArgument.of_field(
            "inputs", f"{name[:80]!a}… has {len(name)} characters; a name takes at most {INPUT_NAME_CHARS}"
        )
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument.of_field(
            "inputs", f"{name[:80]!a}: character {error.start} is a lone surrogate; send whole characters"
        ) from None
    return name


def check_input(name: str, value: object) -> StagedInput:
    """The input itself; InvalidArgument where it is none of the three."""
    check_input_name(name)
    if isinstance(value, str):
        return check_artifact_id(value, f"inputs[{name[:80]!a}]")
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, bytes | os.PathLike):
        return value
    raise InvalidArgument.of_field(
        "inputs",
        f"{name[:80]!a} is a {type(value).__name__}; it takes bytes, a Path of a local file, or the ref of an artifact",
    )


def input_file_name(name: str) -> str:
    """The name of the file that holds an input: other names become other file names, and none leads anywhere.

    Most names stay as they are. What a shell or a file system could take for something else is written `%XX`, byte
    by byte of its UTF-8, a dot at the beginning too; a name that is too long keeps its beginning and its extension,
    and has `%~` and its SHA-256 in between.
    """
    raw = "".join(map(_written, check_input_name(name)))
    if raw[0] in ".- ":
        raw = f"%{ord(raw[0]):02X}{raw[1:]}"
    if len(raw.encode()) <= _FILE_NAME_BYTES:
        return raw
    digest = hashlib.sha256(name.encode()).hexdigest()
    _, dot, extension = raw.rpartition(".")
    ending = f".{extension}" if dot and len(extension.encode()) <= _EXTENSION_BYTES else ""
    head = raw.encode()[: _FILE_NAME_BYTES - 2 - len(digest) - len(ending.encode())]
    return f"{head.decode(errors='ignore')}%~{digest}{ending}"


def _written(char: str) -> str:
    if (
        char in _WRITTEN_OUT
        or unicodedata.category(char)[0] == "C"
        or unicodedata.category(char) in _CATEGORIES
    ):
        return "".join(f"%{byte:02X}" for byte in char.encode())
    return char


def inputs_variable(paths: Mapping[str, str]) -> str:
    """What the variable holds. RESOURCE_EXHAUSTED where that is more than a program's environment has room for."""
    told = json.dumps(dict(paths), ensure_ascii=False, separators=(",", ":"))
    if len(told.encode()) > INPUTS_BYTES:
        raise ResourceExhausted(
            f"the names and paths of {len(paths)} inputs have more than {INPUTS_BYTES} bytes, which is the limit "
            f"(of {INPUTS_VARIABLE}); put many files into one archive, or into /content as files",
            reason=CallReason.QUOTA_EXCEEDED,
            limit=INPUTS_VARIABLE,
            retryable=False,
        )
    return told
