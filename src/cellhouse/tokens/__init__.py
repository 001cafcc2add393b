"""Tokens: who may call a service, kept as digests in one file of its state directory."""

from cellhouse.tokens.book import TokenBook
from cellhouse.tokens.expiry import parse_expires
from cellhouse.tokens.place import TokenPlace
from cellhouse.tokens.scope import Scope
from cellhouse.tokens.store import NewToken, TokenStore
from cellhouse.tokens.token import LOCAL_TENANT, MAX_TOKENS, Token

__all__ = [
    "LOCAL_TENANT",
    "MAX_TOKENS",
    "NewToken",
    "Scope",
    "Token",
    "TokenBook",
    "TokenPlace",
    "TokenStore",
    "parse_expires",
]
