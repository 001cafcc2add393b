"""What is known of a token, and all of them as one document."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from cellhouse.model import InvalidArgument, check_id, parse_rfc3339
from cellhouse.tokens.scope import Scope
from cellhouse.tokens.text import is_id

LOCAL_TENANT: Final = "local"
"""The tenant that a token has where none is named; its house is the state directory itself."""
MAX_TOKENS: Final = 10_000
LABEL_CHARS: Final = 100


def _id(value: str) -> str:
    if not is_id(value):
        raise ValueError("is no token's id")
    return value


def _tenant(value: str) -> str:
    return check_id(value, "tenant")


def _time(value: str) -> str:
    parse_rfc3339(value)
    return value


def _label(value: str) -> str:
    if not value.isprintable():
        raise ValueError("takes printable characters only")
    return value


class Token(BaseModel):
    """One token, without its secret: `sha256` is that of its whole text. `expires` absent: it does not."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Annotated[str, AfterValidator(_id)]
    tenant: Annotated[str, AfterValidator(_tenant)]
    scopes: Annotated[frozenset[Scope], Field(min_length=1)]
    created: Annotated[str, AfterValidator(_time)]
    expires: Annotated[str, AfterValidator(_time)] | None = None
    label: Annotated[str, Field(max_length=LABEL_CHARS), AfterValidator(_label)] = ""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

    def is_expired(self, now: datetime) -> bool:
        return self.expires is not None and parse_rfc3339(self.expires) <= now

    def told(self, now: datetime) -> dict[str, Any]:
        """What may be shown of it, as JSON."""
        return {
            "id": self.id,
            "tenant": self.tenant,
            "scopes": sorted(self.scopes),
            "created": self.created,
            **({} if self.expires is None else {"expires": self.expires}),
            "expired": self.is_expired(now),
            "label": self.label,
        }


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1]
    tokens: Annotated[tuple[Token, ...], Field(max_length=MAX_TOKENS)]


def tokens_of(data: bytes) -> tuple[Token, ...]:
    """The tokens in a document. ValueError, which repeats nothing of it, where it is none of ours."""
    try:
        tokens = _Document.model_validate_json(data).tokens
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"])) or "the document"
        raise ValueError(f"{field}: {first['msg']}") from None
    except InvalidArgument as error:
        raise ValueError(error.message) from None
    if len({token.id for token in tokens}) != len(tokens):
        raise ValueError("two tokens have one id")
    return tokens


def document_of(tokens: tuple[Token, ...]) -> bytes:
    """The document with these tokens."""
    document = _Document(version=1, tokens=tokens)
    return document.model_dump_json(indent=1, exclude_none=True).encode() + b"\n"
