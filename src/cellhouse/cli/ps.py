"""`cellhouse ps`: what lives in a service, and what runs there."""

from typing import TYPE_CHECKING

from cellhouse.cli.service import OK, Json, Url, print_json, print_table, with_service
from cellhouse.model import NotFound, Runtime, Session

if TYPE_CHECKING:
    from cellhouse.client import AsyncClient  # httpx is slow to load, and not for who only runs some code

HEAD = ("RUNTIME", "SESSION", "STATUS", "KERNEL", "RUNS", "QUEUED", "EXPIRES")


def ps(url: Url = None, json: Json = False) -> None:
    """List the runtimes of a service, their sessions, and the execution that runs in each."""

    async def work(client: "AsyncClient") -> int:
        found = [(runtime, await _sessions(client, runtime)) for runtime in await client.list_runtimes()]
        if json:
            print_json(
                {
                    "runtimes": [
                        {**runtime.to_wire(), "sessions": [session.to_wire() for session in sessions]}
                        for runtime, sessions in found
                    ]
                }
            )
        else:
            print_table(HEAD, [row for runtime, sessions in found for row in _rows(runtime, sessions)])
        return OK

    with_service("ps", url, work)


async def _sessions(client: "AsyncClient", runtime: Runtime) -> list[Session]:
    try:
        return await client.list_sessions(runtime.name)
    except NotFound:  # it has ended meanwhile
        return []


def _rows(runtime: Runtime, sessions: list[Session]) -> list[tuple[str, ...]]:
    name = runtime.name.removeprefix("runtimes/")
    if not sessions:
        status = f"{runtime.status or ''}"
        return [(name, "", status, runtime.kernel or "", "", "", runtime.expire_time or "")]
    return [
        (
            name,
            session.name.rpartition("/")[2],
            f"{session.status or ''}",
            session.kernel or "",
            (session.execution or "").rpartition("/")[2],
            f"{session.queued or ''}",
            session.expire_time or "",
        )
        for session in sessions
    ]
