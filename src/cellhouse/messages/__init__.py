"""Jupyter-shaped messages: what kernels produce and capture consumes, whatever carried them."""

from cellhouse.messages.long_text import LongText, text_chunks
from cellhouse.messages.message import Message, RawText
from cellhouse.messages.strict_json import MAX_DEPTH, BadJson, JsonLimits, parse_object

__all__ = [
    "MAX_DEPTH",
    "BadJson",
    "JsonLimits",
    "LongText",
    "Message",
    "RawText",
    "parse_object",
    "text_chunks",
]
