"""`cellhouse logs`: what an execution, or everything in a session, has said and is saying."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from cellhouse.cli.record import StateDir, recorded_in
from cellhouse.cli.service import OK, Url, exit_with, print_json, read_name, with_service
from cellhouse.cli.show import Show
from cellhouse.house import House
from cellhouse.model import (
    CallReason,
    Event,
    ExecutionName,
    ExecutionState,
    ExecutionSummary,
    FinishedEvent,
    InvalidArgument,
    NotFound,
    NoticeReason,
    RuntimeName,
    SessionName,
    TailFrame,
)

if TYPE_CHECKING:
    from cellhouse.client import AsyncClient  # httpx is slow to load, and not for who only runs some code

PAGE_BYTES: Final = 1 << 20
LOOK_SECONDS: Final = 1.0
"""How often a session in which nothing runs is looked at."""


class Text(StrEnum):
    """The texts of an execution that can be had whole."""

    STDOUT = "stdout"
    STDERR = "stderr"


def logs(
    name: Annotated[str, typer.Argument(metavar="RUNTIME[/SESSION[/EXECUTION]]")],
    url: Url = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on while it runs; for a session, until it is deleted.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print events, one JSON document a line.")] = False,
    text: Annotated[
        Text | None,
        typer.Option("--text", help="Print one whole text of one execution and nothing else."),
    ] = None,
    session_log: Annotated[
        bool,
        typer.Option(
            "--session-log", help="Print what the session's kernels said that belongs to no execution."
        ),
    ] = False,
    network_log: Annotated[
        bool,
        typer.Option("--network-log", help="Print each decision about the network of a runtime."),
    ] = False,
    state_dir: StateDir = None,
) -> None:
    """Print what was printed: stdout and stderr each to its own, outputs and errors in a line of their own.

    Without --url they are read from a state directory, as `cellhouse show` does it. Leaving (Ctrl-C) interrupts nothing. Without -f, of what still runs, the text so far; with --json its events to the end.
    """

    async def work(client: "AsyncClient") -> int:
        if session_log or network_log:
            return await _log(client, _whose(name, text, follow=follow, network=network_log), json)
        target = _target(name, text)
        if text is not None:
            return await _whole(client, str(target), text)
        shower = _Shower(json)
        if isinstance(target, ExecutionName):
            result = await client.get_execution(str(target))
            await shower.show(client, str(target), result.state, follow=follow)
            return OK
        async with aclosing(_executions(client, str(target), follow=follow)) as executions:
            async for each in executions:
                shower.head(each.execution, each.create_time)
                await shower.show(client, each.execution, each.state, follow=follow)
        return OK

    async def local() -> int:
        if session_log or network_log:
            whose = _whose(name, text, follow=follow, network=network_log)
            async with House(recorded_in(state_dir, whose.runtime)) as house:
                return await _log(house, whose, json)
        target = _target(name, text)
        shower = _Shower(json)
        async with House(recorded_in(state_dir, target.runtime)) as house:
            if text is not None:
                return await _whole(house, str(target), text)
            if isinstance(target, ExecutionName):
                await shower.follow(house, str(target))
                return OK
            token = ""
            while True:
                page = house.list_executions(str(target), page_token=token)
                for entry in page.entries:
                    shower.head(entry.name, entry.created)
                    await shower.follow(house, entry.name)
                if not page.entries and not token:
                    raise NotFound(
                        f"nothing is on record of {target} in {house.state_dir}; name a session in which code was "
                        "executed, or another directory with --state-dir",
                        reason=CallReason.NO_SUCH_SESSION,
                    )
                if not (token := page.next_page_token):
                    return OK

    if session_log and network_log:
        raise typer.BadParameter("one log at a time; leave out --session-log or --network-log")
    if url and state_dir is None:
        with_service("logs", url, work)
    exit_with("logs", local)


async def _executions(
    client: "AsyncClient", session: str, *, follow: bool
) -> AsyncGenerator[ExecutionSummary, None]:
    """Those of a session, oldest first; following, until the session is gone."""
    token, seen = "", 0
    while True:
        page = await client.list_executions(session, page_token=token)
        for each in page.executions[seen:]:
            yield each
        seen = len(page.executions)
        if page.next_page_token:
            token, seen = page.next_page_token, 0
            continue
        if not follow:
            return
        try:
            await client.get_session(session)
        except NotFound:
            return
        await asyncio.sleep(LOOK_SECONDS)


class _Shower:
    """Writes events for a person, or as JSON."""

    def __init__(self, json: bool) -> None:
        self._show = None if json else Show()

    def head(self, name: str, created: str) -> None:
        if self._show is not None:
            self._show.remark(f"{name} ({created})", "bold")

    async def show(self, client: "AsyncClient", name: str, state: ExecutionState, *, follow: bool) -> None:
        if self._show is not None and state is not ExecutionState.FINISHED and not follow:
            await self._texts(client, name)
            self._show.remark(f"{name}: {state}; -f goes on", "dim")
            return
        await self.follow(client, name)

    async def follow(self, source: "AsyncClient | House", name: str) -> None:
        """Every event up to the end."""
        async with aclosing(source.events(name, tails=self._show is not None)) as events:
            async for event in events:
                self._one(event)

    def _one(self, event: Event | TailFrame) -> None:
        if self._show is None:
            print_json(event.to_wire())
            return
        self._show.event(event)
        if isinstance(event, FinishedEvent):
            if any(each.reason == NoticeReason.EVENT_TEXT_LIMIT for each in event.result.notices or ()):
                self._show.remark(
                    "the text above is not whole: --text stdout (or stderr) prints one whole", "bold"
                )
            self._show.remark(f"{event.result.outcome}; {event.result.execution}", "dim")

    async def _texts(self, client: "AsyncClient", name: str) -> None:
        """All that has been printed so far, also what is no event any more."""
        for which, out in (("stdout", sys.stdout), ("stderr", sys.stderr)):
            assert self._show is not None
            async with aclosing(_pages(client, name, Text(which))) as pages:
                async for text in pages:
                    self._show.text(which, text)
            out.flush()


def _target(name: str, text: Text | None) -> SessionName | ExecutionName:
    """What is asked for; one text is of one execution."""
    target = (
        read_name(name, ExecutionName) if text is not None else read_name(name, SessionName, ExecutionName)
    )
    assert isinstance(target, SessionName | ExecutionName)
    return target


def _whose(name: str, text: Text | None, *, follow: bool, network: bool) -> SessionName | RuntimeName:
    """Whose own log is asked for."""
    log, kind = ("--network-log", RuntimeName) if network else ("--session-log", SessionName)
    for given, option in ((text is not None, "--text"), (follow, "--follow")):
        if given:
            raise InvalidArgument.of_field(
                option, f"it is of executions, and {log} of none; leave one of them out"
            )
    whose = read_name(name, kind)
    assert isinstance(whose, SessionName | RuntimeName)
    return whose


async def _log(source: "AsyncClient | House", whose: SessionName | RuntimeName, json: bool) -> int:
    """Its own log, or that of its network: a head and the text of each entry, or one JSON document a line."""
    show, token = Show(), ""
    while True:
        read = source.page_session_log if isinstance(whose, SessionName) else source.page_network_log
        found = read(str(whose), page_token=token)
        page = await found if isinstance(found, Awaitable) else found
        for entry in page.entries:
            if json:
                print_json(entry.to_wire())
                continue
            show.remark(f"{entry.kind} ({entry.time})", "bold")
            show.text("stdout", entry.text if entry.text.endswith("\n") else f"{entry.text}\n")
            if entry.omitted_chars or entry.omitted_bytes:
                what = (
                    f"{entry.omitted_chars} characters"
                    if entry.omitted_chars
                    else f"{entry.omitted_bytes} bytes"
                )
                show.remark(f"{what} more are not kept", "dim")
        if not (token := page.next_page_token):
            return OK


async def _whole(source: "AsyncClient | House", name: str, which: Text) -> int:
    """All that was printed, as it was: its bytes are the code's."""
    async with aclosing(_pages(source, name, which)) as pages:
        async for text in pages:
            sys.stdout.buffer.write(text.encode())
    sys.stdout.buffer.flush()
    return OK


async def _pages(source: "AsyncClient | House", name: str, which: Text) -> AsyncGenerator[str, None]:
    offset = 0
    while True:
        found = source.read_text(name, which.value, offset=offset, limit=PAGE_BYTES)
        part = await found if isinstance(found, Awaitable) else found
        if part.text:
            yield part.text
        if part.eof or part.next_offset <= offset:
            return
        offset = part.next_offset
