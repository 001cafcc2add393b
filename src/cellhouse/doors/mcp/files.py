"""Tools for files of /content: list_files, read_file, write_file."""

import base64
import binascii
import codecs
import mimetypes
from typing import Any, Final

from mcp import types

from cellhouse.doors.mcp import arguments
from cellhouse.doors.mcp.answers import amount, call, compact, one_line, told
from cellhouse.doors.mcp.guest import Context, Guest
from cellhouse.doors.mcp.uris import file_uri
from cellhouse.model import FileEntry, Int64, InvalidArgument, RuntimeName, Text, Wire

_LISTED: Final = 200
"""Names that are in the words; the structured content has all."""


class FileRead(Wire):
    """A part of a file that is text; of one that is binary, what it is and how long."""

    name: Text
    text: Text | None = None
    offset: Int64
    next_offset: Int64
    total_bytes: Int64
    eof: bool
    binary: bool
    media_type: Text | None = None


async def list_files(guest: Guest, context: Context, given: dict[str, Any]) -> types.CallToolResult:
    asked = arguments.ListFiles.read("list_files", given)
    runtime = str(RuntimeName.parse(asked.runtime))
    found = await guest.place.list_files(runtime, asked.path, recursive=asked.recursive)
    lines = [_line(entry) for entry in found.files[:_LISTED]]
    if len(found.files) > _LISTED:
        lines.append(
            f"… {amount(len(found.files) - _LISTED, 'name')} more; name a directory as path to see less …"
        )
    if found.incomplete:
        lines.append(f"… not everything was listed: {', '.join(found.incomplete)} …")
    return told(found, "\n".join(lines) or "There is nothing in it.")


def _line(entry: FileEntry) -> str:
    size = "" if entry.bytes is None else f", {amount(entry.bytes, 'byte')}"
    kind = "" if entry.kind == "file" else f" ({entry.kind})"
    return f"{one_line(entry.name, 300)}{kind}{size}"


async def read_file(guest: Guest, context: Context, given: dict[str, Any]) -> types.CallToolResult:
    asked = arguments.ReadFile.read("read_file", given)
    runtime, path = str(RuntimeName.parse(asked.runtime)), asked.path
    part = await guest.place.read_file(runtime, path, offset=asked.offset, limit=asked.limit)
    media_type = mimetypes.guess_type(path)[0]
    link = types.ResourceLink(uri=file_uri(runtime, path), name=path, mime_type=media_type, size=part.total)
    end = asked.offset + len(part.data)
    text, skipped, left = _text(part.data, whole=end >= part.total)
    if text is None:
        read = FileRead(
            name=path,
            offset=asked.offset,
            next_offset=asked.offset,
            total_bytes=part.total,
            eof=part.total == 0,
            binary=True,
            media_type=media_type,
        )
        words = f"{one_line(path)} is binary: {amount(part.total, 'byte')}, {media_type or 'of unknown type'}. Its resource has it; code in a session of {runtime} can open /content/{one_line(path)}."
        return told(read, words, [link])
    begin, end = min(asked.offset, part.total) + skipped, end - left
    read = FileRead(
        name=path,
        text=text,
        offset=begin,
        next_offset=max(begin, end),
        total_bytes=part.total,
        eof=end >= part.total,
        binary=False,
        media_type=media_type,
    )
    where = f"bytes {begin} to {max(begin, end)} of {part.total}"
    if end < part.total:
        where += f"; to read on: {call('read_file', runtime=runtime, path=path, offset=end)}"
    return told(read, f"{text}{'' if text.endswith(chr(10)) or not text else chr(10)}[{where}]", [link])


def _text(data: bytes, *, whole: bool) -> tuple[str | None, int, int]:
    """The data as text, and how many bytes of characters that are cut were left out at its beginning and end; None: binary."""
    skipped = 0
    while skipped < min(3, len(data)) and 0x80 <= data[skipped] < 0xC0:
        skipped += 1
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        text = decoder.decode(data[skipped:], final=whole)
    except UnicodeDecodeError:
        return None, 0, 0
    if "\0" in text:
        return None, 0, 0
    return text, skipped, len(decoder.getstate()[0])


async def write_file(guest: Guest, context: Context, given: dict[str, Any]) -> types.CallToolResult:
    asked = arguments.WriteFile.read("write_file", given)
    if (asked.text is None) is (asked.data is None):
        raise InvalidArgument.of_field("text", "give exactly one of text and data")
    if asked.text is not None:
        data = asked.text.encode()
    else:
        try:
            data = base64.b64decode(asked.data or "", validate=True)
        except (binascii.Error, ValueError) as error:
            raise InvalidArgument.of_field("data", f"it is no base64: {error}") from None
    runtime = str(RuntimeName.parse(asked.runtime))
    written = await guest.place.write_file(runtime, asked.path, data)
    link = types.ResourceLink(
        uri=file_uri(runtime, asked.path),
        name=asked.path,
        mime_type=mimetypes.guess_type(asked.path)[0],
        size=written.bytes,
    )
    return told(written, compact(written.to_wire()), [link])
