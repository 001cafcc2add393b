"""The table of tools: what each is called, what it says to a model, what it takes and gives, what it may."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from mcp import types

from cellhouse.doors.callers import Scope
from cellhouse.doors.mcp import arguments, files, reading, rooms, running
from cellhouse.doors.mcp.guest import Context, Guest
from cellhouse.doors.mcp.schemas import output_schema
from cellhouse.model import (
    ExecuteCodeResult,
    FileList,
    FileWritten,
    Runtime,
    RuntimeList,
    RuntimeSpecs,
    SessionList,
    TextPart,
    Wire,
)

Handler = Callable[[Guest, Context, dict[str, Any]], Awaitable[types.CallToolResult]]


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool. `reads`: it changes nothing; `destroys`: it can take something away; `repeats`: twice is as once.

    `reaches`: code of it can reach beyond the house, where the runtime's network policy lets it.
    """

    name: str
    title: str
    description: str
    takes: type[arguments.Arguments]
    gives: type[Wire]
    handle: Handler
    scope: Scope
    reads: bool = False
    destroys: bool = False
    repeats: bool = True
    reaches: bool = False

    def told(self) -> types.Tool:
        """As `tools/list` tells it."""
        return types.Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=self.takes.taken(),
            output_schema=output_schema(self.gives),
            annotations=types.ToolAnnotations(
                title=self.title,
                read_only_hint=self.reads,
                destructive_hint=self.destroys,
                idempotent_hint=self.repeats,
                open_world_hint=self.reaches,
            ),
        )


_EXECUTE: Final = """\
Run code in a live kernel (Python unless the runtime has another), like a notebook cell: variables, imports and files stay in \
the session for the next call. Give `code` and exactly one of `session` (made on first use) or `runtime` (a new session). \
The code runs in a sandbox, without network unless its runtime was given one; its files are in /content.
Answers with stdout, stderr, the value of the last expression, the exception, what was displayed (images, tables: by \
reference) and the files that it made. Long text is cut to the head and the tail; each cut says which call of read_output \
reads the rest. Costs the time of the code: up to `waitTimeout`, 50 s by default. Each session runs one call at a time.
If it fails: an exception in the code is a result, whose variables are kept; mend the code and call again. DEADLINE_EXCEEDED \
means that the code still runs: call again with the same arguments, `executionId` included, or wait with get_execution; \
interrupt_session ends it. Without an `executionId` a second call runs the code a second time. NOT_FOUND: the runtime is \
gone; create_runtime makes one.
Going away, or closing the response, never interrupts the code, even where the protocol calls that cancellation (revision \
2026-07-28): only notifications/cancelled, where the transport has it, and interrupt_session do."""

TOOLS: Final = (
    Tool(
        "execute_code",
        "Run code",
        _EXECUTE,
        arguments.ExecuteCode,
        ExecuteCodeResult,
        running.execute_code,
        Scope.EXECUTE,
        destroys=True,
        repeats=False,
        reaches=True,
    ),
    Tool(
        "get_execution",
        "Result of an execution",
        "The result of an execution, or where it stands and its output up to now while it runs. With `waitTimeout` it waits so "
        "many seconds for the end. Cheap. The record outlives the session and the runtime. Closing the response interrupts "
        "nothing. NOT_FOUND: there is no such execution, or its record was evicted (EVICTED).",
        arguments.GetExecution,
        ExecuteCodeResult,
        running.get_execution,
        Scope.READ,
        reads=True,
    ),
    Tool(
        "read_output",
        "Read a text of an execution",
        "Page through the whole stdout, stderr, value (result) or traceback of an execution, also while it runs: from "
        "`offset` on `limit` bytes, or the last `tail` bytes. Use it for what a result says was cut. Cheap. Each page says "
        "where the next one begins.",
        arguments.ReadOutput,
        TextPart,
        reading.read_output,
        Scope.READ,
        reads=True,
    ),
    Tool(
        "read_rich_output",
        "Look at a rich output",
        "See an image, table or other thing that an execution displayed, by its `index` in the result: an image as an image, "
        "scaled down to fit `maxBytes`, anything else as text, cut to it. Costs as many tokens as the image or text has. Where "
        "the output was dropped, the error says why; have the code show less, or write it to a file.",
        arguments.ReadRichOutput,
        reading.RichOutputRead,
        reading.read_rich_output,
        Scope.READ,
        reads=True,
    ),
    Tool(
        "interrupt_session",
        "Interrupt what runs",
        "Interrupt the code that runs in a session now, as Ctrl-C does; its variables stay, and what waits behind it goes on. "
        "Tells whether something ran. Code that ignores it is ended by restart_session.",
        arguments.OfSession,
        rooms.Interrupted,
        rooms.interrupt_session,
        Scope.EXECUTE,
        destroys=True,
        repeats=False,
    ),
    Tool(
        "restart_session",
        "Restart a session",
        "End what runs and waits in a session, and its variables with it; the next execution gets a fresh kernel and is told "
        "so. Files in /content stay. For code that can't be interrupted, or a namespace that is spoilt.",
        arguments.OfSession,
        rooms.Empty,
        rooms.restart_session,
        Scope.EXECUTE,
        destroys=True,
        repeats=False,
    ),
    Tool(
        "list_files",
        "List files",
        "The names in a directory of /content of a runtime, which its sessions share: at most 10,000, and it says where there "
        "are more. Cheap.",
        arguments.ListFiles,
        FileList,
        files.list_files,
        Scope.READ,
        reads=True,
    ),
    Tool(
        "read_file",
        "Read a file",
        "A part of a text file of /content: `limit` bytes from `offset` on, each page saying where the next begins. Of a binary "
        "file only what it is and a link; let code in a session open it.",
        arguments.ReadFile,
        files.FileRead,
        files.read_file,
        Scope.READ,
        reads=True,
    ),
    Tool(
        "write_file",
        "Write a file",
        "Write a file of /content whole, from `text` or from base64 `data`; what stood there is replaced, and directories that "
        "are missing are made. For large data let code fetch or make it.",
        arguments.WriteFile,
        FileWritten,
        files.write_file,
        Scope.EXECUTE,
        destroys=True,
    ),
    Tool(
        "list_runtime_specs",
        "What can be had",
        "Which environments, kernels, isolation levels and limits a new runtime can have here, looked at just now. Costs up to "
        "some seconds the first time. Rarely needed: create_runtime without arguments gives the defaults.",
        arguments.Nothing,
        RuntimeSpecs,
        rooms.list_runtime_specs,
        Scope.READ,
        reads=True,
    ),
    Tool(
        "list_runtimes",
        "List runtimes",
        "The runtimes that live, by name: their limits, walls, sessions and when each will be closed. Cheap.",
        arguments.Pages,
        RuntimeList,
        rooms.list_runtimes,
        Scope.READ,
        reads=True,
    ),
    Tool(
        "create_runtime",
        "Make a runtime",
        "Make a runtime: a sandbox with a /content of its own, in which sessions run. Takes up to some seconds and memory for as "
        "long as it lives; it is closed after half an hour in which nothing runs. ALREADY_EXISTS: the id is taken. "
        "FAILED_PRECONDITION: what was asked for can't be had here; list_runtime_specs tells what can. RESOURCE_EXHAUSTED: "
        "delete one first.",
        arguments.CreateRuntime,
        Runtime,
        rooms.create_runtime,
        Scope.EXECUTE,
        repeats=False,
    ),
    Tool(
        "delete_runtime",
        "Delete a runtime",
        "End a runtime, all its sessions and what runs in them, and remove its files. The records of its executions stay.",
        arguments.OfRuntime,
        rooms.Empty,
        rooms.delete_runtime,
        Scope.EXECUTE,
        destroys=True,
    ),
    Tool(
        "list_sessions",
        "List sessions",
        "The live sessions of a runtime, by name: what each runs, and how much waits behind that. Cheap.",
        arguments.ListSessions,
        SessionList,
        rooms.list_sessions,
        Scope.READ,
        reads=True,
    ),
    Tool(
        "delete_session",
        "Delete a session",
        "End a session and what runs in it; its variables are gone, files in /content and records stay. Do it when you are done, "
        "since each session keeps memory.",
        arguments.OfSession,
        rooms.Empty,
        rooms.delete_session,
        Scope.EXECUTE,
        destroys=True,
    ),
)
"""All of them, in the order in which they are listed: what is used most comes first."""

BY_NAME: Final = {tool.name: tool for tool in TOOLS}
