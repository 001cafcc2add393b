"""Resource names and ids: parsing, checking, making them."""

import re
from dataclasses import dataclass
from typing import Final, Self, TypeVar

from cellhouse.model.enums import CallReason
from cellhouse.model.errors import InvalidArgument
from cellhouse.model.minting import mint_artifact_id, mint_id, mint_uid

__all__ = [
    "ExecutionName",
    "RuntimeName",
    "SessionName",
    "check_artifact_id",
    "check_execution_id",
    "check_id",
    "mint_artifact_id",
    "mint_id",
    "mint_uid",
]

ID_MAX: Final = 63
EXECUTION_ID_MAX: Final = 128

_ID = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")
_EXECUTION_ID = re.compile(r"[A-Za-z0-9._~-]{1,128}")
_ARTIFACT_ID = re.compile(r"art_[0-9A-Za-z]{22}")
_SHOWN: Final = 80

_ID_RULE: Final = "1 to 63 lower-case letters, digits and hyphens, a letter first, a letter or digit last"
_EXECUTION_ID_RULE: Final = "1 to 128 letters, digits, '.', '_', '~' and '-' (a UUID is advised)"


def _shown(value: object) -> str:
    """What was given, short and printable, for a message."""
    if not isinstance(value, str):
        return f"a {type(value).__name__}"
    return ascii(value) if len(value) <= _SHOWN else f"{value[:_SHOWN]!a}… ({len(value)} characters)"


def _bad(field: str, value: object, rule: str) -> InvalidArgument:
    return InvalidArgument.of_field(
        field, f"{_shown(value)} is not valid; it takes {rule}", reason=CallReason.INVALID_NAME
    )


def check_id(value: object, field: str = "id") -> str:
    """The id itself where it is a good runtime or session id; else InvalidArgument that names the field."""
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise _bad(field, value, _ID_RULE)
    return value


def check_execution_id(value: object, field: str = "executionId") -> str:
    """The id itself where a client may use it for an execution; else InvalidArgument that names the field."""
    if not isinstance(value, str) or not _EXECUTION_ID.fullmatch(value):
        raise _bad(field, value, _EXECUTION_ID_RULE)
    return value


def check_artifact_id(value: object, field: str = "artifact") -> str:
    """The id itself where it is `art_` and 22 base-62 characters; else InvalidArgument that names the field."""
    if not isinstance(value, str) or not _ARTIFACT_ID.fullmatch(value):
        raise _bad(field, value, "art_ and 22 letters and digits")
    return value


def _segments(value: object, field: str, *collections: str) -> list[str]:
    parts = value.split("/", 2 * len(collections)) if isinstance(value, str) else []
    if len(parts) != 2 * len(collections) or tuple(parts[::2]) != collections:
        form = "/".join(f"{collection}/{{{collection[:-1]}}}" for collection in collections)
        raise _bad(field, value, f"a name of the form {form}")
    return parts[1::2]


_Name = TypeVar("_Name")


def _of_checked(cls: type[_Name], **ids: str) -> _Name:
    """A name made of ids that have been looked at already."""
    made = object.__new__(cls)
    for field, value in ids.items():
        object.__setattr__(made, field, value)
    return made


@dataclass(frozen=True, slots=True)
class RuntimeName:
    """`runtimes/{runtime}`"""

    runtime: str

    def __post_init__(self) -> None:
        check_id(self.runtime, "runtime")

    @classmethod
    def parse(cls, value: str, field: str = "runtime") -> Self:
        """Reads a full name; InvalidArgument names the field and the rule."""
        (runtime,) = _segments(value, field, "runtimes")
        return _of_checked(cls, runtime=check_id(runtime, field))

    def session(self, session: str) -> "SessionName":
        return SessionName(self.runtime, session)

    def __str__(self) -> str:
        return f"runtimes/{self.runtime}"


@dataclass(frozen=True, slots=True)
class SessionName:
    """`runtimes/{runtime}/sessions/{session}`"""

    runtime: str
    session: str

    def __post_init__(self) -> None:
        check_id(self.runtime, "runtime")
        check_id(self.session, "session")

    @classmethod
    def parse(cls, value: str, field: str = "session") -> Self:
        """Reads a full name; InvalidArgument names the field and the rule."""
        runtime, session = _segments(value, field, "runtimes", "sessions")
        return _of_checked(cls, runtime=check_id(runtime, field), session=check_id(session, field))

    @property
    def runtime_name(self) -> RuntimeName:
        return _of_checked(RuntimeName, runtime=self.runtime)

    def execution(self, execution: str) -> "ExecutionName":
        check_execution_id(execution, "execution")
        return _of_checked(ExecutionName, runtime=self.runtime, session=self.session, execution=execution)

    def __str__(self) -> str:
        return f"runtimes/{self.runtime}/sessions/{self.session}"


@dataclass(frozen=True, slots=True)
class ExecutionName:
    """`runtimes/{runtime}/sessions/{session}/executions/{execution}`"""

    runtime: str
    session: str
    execution: str

    def __post_init__(self) -> None:
        check_id(self.runtime, "runtime")
        check_id(self.session, "session")
        check_execution_id(self.execution, "execution")

    @classmethod
    def parse(cls, value: str, field: str = "execution") -> Self:
        """Reads a full name; InvalidArgument names the field and the rule."""
        runtime, session, execution = _segments(value, field, "runtimes", "sessions", "executions")
        return _of_checked(
            cls,
            runtime=check_id(runtime, field),
            session=check_id(session, field),
            execution=check_execution_id(execution, field),
        )

    @property
    def runtime_name(self) -> RuntimeName:
        return _of_checked(RuntimeName, runtime=self.runtime)

    @property
    def session_name(self) -> SessionName:
        return _of_checked(SessionName, runtime=self.runtime, session=self.session)

    def __str__(self) -> str:
        return f"runtimes/{self.runtime}/sessions/{self.session}/executions/{self.execution}"
