"""Tools that read what an execution left: read_output, read_rich_output."""

import re
from base64 import b64encode
from typing import Any, Final

from mcp import types

from cellhouse.doors.mcp import arguments
from cellhouse.doors.mcp.answers import amount, call, one_line, told
from cellhouse.doors.mcp.guest import Context, Guest
from cellhouse.doors.mcp.images import SHRINKABLE, fitted
from cellhouse.doors.mcp.uris import output_uri
from cellhouse.model import (
    CallReason,
    ExecutionName,
    Int32,
    InvalidArgument,
    NotFound,
    RichOutput,
    Text,
    Wire,
    plain_text,
)

_READABLE: Final = ("text/markdown", "text/latex", "application/json", "text/html", "image/svg+xml")
"""Texts, the most readable first."""
_DATA_URI: Final = re.compile(r"(data:[\w.+/-]{1,100};base64,)([A-Za-z0-9+/=]{64,})")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]{512,}={0,2}")


class RichOutputRead(Wire):
    """What read_rich_output says besides the content itself."""

    index: Int32
    mime_type: Text
    mime_types: tuple[Text, ...]
    # Bytes of this representation as it is, and of what is in the answer.
    bytes: Int32
    shown_bytes: Int32
    modified: bool | None = None


async def read_output(guest: Guest, context: Context, given: dict[str, Any]) -> types.CallToolResult:
    asked = arguments.ReadOutput.read("read_output", given)
    name, stream = str(ExecutionName.parse(asked.execution)), asked.stream
    offset, limit = asked.offset or 0, asked.limit or arguments.TEXT_BYTES
    if asked.tail is not None:
        if asked.offset is not None or asked.limit is not None:
            raise InvalidArgument.of_field(
                "tail", "both tail and offset or limit are set; give one or the other"
            )
        total = (await guest.place.read_text(name, stream, offset=0, limit=1)).total_bytes
        offset, limit = max(0, total - asked.tail), asked.tail
    part = await guest.place.read_text(name, stream, offset=offset, limit=limit)
    where = f"bytes {part.offset} to {part.next_offset} of {part.total_bytes} of {stream}"
    if part.next_offset < part.total_bytes:
        more = call("read_output", execution=name, stream=stream, offset=part.next_offset)
        where += f"; to read on: {more}"
    elif not part.eof:
        where += "; the code still runs, and there may be more"
    return told(
        part, f"{part.text}{'' if part.text.endswith(chr(10)) or not part.text else chr(10)}[{where}]"
    )


async def read_rich_output(guest: Guest, context: Context, given: dict[str, Any]) -> types.CallToolResult:
    asked = arguments.ReadRichOutput.read("read_rich_output", given)
    name = str(ExecutionName.parse(asked.execution))
    output = await guest.place.get_rich_output(name, asked.index)
    mime_type = _chosen(output, asked.mime_type)
    found = await guest.place.get_output_data(name, asked.index, mime_type)
    link = types.ResourceLink(
        uri=output_uri(name, asked.index, mime_type),
        name=f"output-{asked.index}",
        mime_type=mime_type,
        size=len(found.data),
    )
    content: list[types.TextContent | types.ImageContent]
    if mime_type in SHRINKABLE:
        picture = await fitted(found.data, mime_type, asked.max_bytes or arguments.IMAGE_BYTES)
        shown = len(picture.data)
        content = [
            types.ImageContent(
                type="image", data=b64encode(picture.data).decode(), mime_type=picture.mime_type
            ),
            _words(
                f"rich output {asked.index}, {mime_type}{f': {picture.note}' if picture.note else ''}",
                output,
                found.modified,
            ),
        ]
    else:
        text, shown, note = _text(found.data, asked.max_bytes or arguments.TEXT_BYTES)
        content = [
            _words(
                f"{text}\n[rich output {asked.index}, {one_line(mime_type)}: {note}]", output, found.modified
            )
        ]
    read = RichOutputRead(
        index=asked.index,
        mime_type=mime_type,
        mime_types=output.mime_types,
        bytes=len(found.data),
        shown_bytes=shown,
        modified=found.modified or None,
    )
    return types.CallToolResult(content=[*content, link], structured_content=read.to_wire())


def _words(text: str, output: RichOutput, modified: bool) -> types.TextContent:
    if modified:
        text += "\nThe code has changed this file since it was written."
    if len(output.mime_types) > 1:
        text += f"\nIts representations: {one_line(', '.join(output.mime_types), 400)} (mimeType)."
    return types.TextContent(type="text", text=plain_text(text))


def _chosen(output: RichOutput, asked: str | None) -> str:
    """The representation to show. NOT_FOUND where it was dropped, or has no such one."""
    if output.error_info is not None:
        info = output.error_info
        raise NotFound(
            f"rich output {output.index} was dropped ({info.reason}), so there is nothing to read; have the code show less, "
            "or write it to a file",
            reason=info.reason,
            metadata=info.metadata,
        )
    there = output.mime_types
    if asked is not None:
        if asked not in there:
            raise NotFound(
                f"rich output {output.index} has no {asked[:100]!a}; it has {one_line(', '.join(there), 400)}",
                reason=CallReason.NO_SUCH_OUTPUT,
            )
        return asked
    for kind in (*SHRINKABLE, *_READABLE):
        if kind in there:
            return kind
    return there[0]


def _text(data: bytes, budget: int) -> tuple[str, int, str]:
    """Text within the budget in bytes, how many of the bytes are shown, and what was left out. Base64 in it is not shown."""
    try:
        whole = data.decode()
    except UnicodeDecodeError:
        return "", 0, f"binary, {amount(len(data), 'byte')}; its resource has them"
    bare = _DATA_URI.sub(lambda found: f"{found[1]}({len(found[2])} characters of base64 left out)", whole)
    bare = _BASE64.sub(lambda found: f"({len(found[0])} characters of base64 left out)", bare)
    shown = bare.encode()[:budget].decode("utf-8", "ignore")
    size = len(shown.encode())
    note = f"{amount(len(data), 'byte')}"
    if len(bare) < len(whole):
        note += f", {amount(len(whole) - len(bare), 'character')} of base64 left out"
    if size < len(bare.encode()):
        note += f", cut after {amount(size, 'byte')}; a larger maxBytes shows more, and its resource has all"
    return shown, size, note
