"""ErrorInfo: a reason that a program can act on, with its figures."""

import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from cellhouse.model.wire import Text, Wire, proto3

DOMAIN: Final = "cellhouse"
REASON_PATTERN: Final = r"^[A-Z][A-Z0-9_]{0,62}$"
METADATA_KEY_PATTERN: Final = r"^[a-z][a-zA-Z0-9]{0,62}$"

_KEY = re.compile(METADATA_KEY_PATTERN[1:-1])


def _checked_metadata(metadata: dict[str, str]) -> dict[str, str]:
    for key in metadata:
        if not _KEY.fullmatch(key):
            raise ValueError(
                f"metadata key {key!r} must be lowerCamelCase, 1 to 63 letters and digits, a letter first"
            )
    return metadata


# UPPER_SNAKE_CASE, at most 63 characters, as google.rpc.ErrorInfo asks.
Reason = Annotated[str, Field(pattern=REASON_PATTERN)]

Metadata = Annotated[
    dict[str, Text],
    AfterValidator(_checked_metadata),
    Field(json_schema_extra={"propertyNames": {"pattern": METADATA_KEY_PATTERN}}),
]


class ErrorInfo(Wire):
    """The cause of something, for programs: a reason, its domain, and figures with the unit in the key."""

    reason: Reason
    domain: Text = DOMAIN
    metadata: Annotated[Metadata, proto3] = Field(default_factory=dict)
