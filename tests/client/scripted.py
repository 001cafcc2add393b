"""A service of tests that answers with bytes that were written down, one answer a connection."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

HEAD_END = b"\r\n\r\n"


class Scripted:
    """`requests` are the heads that came. The last answer is given for ever; `hold` keeps connections open after it."""

    def __init__(self, answers: list[bytes], *, hold: bool = False) -> None:
        self._answers = answers
        self._hold = hold
        self.requests: list[str] = []
        self.sent = 0
        self._server: asyncio.Server
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"http://{host}:{port}"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)

    async def close(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._answer(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(HEAD_END)
            self.requests.append(head.decode())
            answer = self._answers[min(len(self.requests), len(self._answers)) - 1]
            for start in range(0, len(answer), 65_536):
                writer.write(answer[start : start + 65_536])
                await writer.drain()
                self.sent = max(self.sent, start)
            if self._hold:
                await reader.read()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


def answer(body: bytes | dict[str, Any], status: str = "200 OK", **headers: str) -> bytes:
    """A whole response."""
    if isinstance(body, dict):
        headers.setdefault("content_type", "application/json")
        body = json.dumps(body).encode()
    return head(status, content_length=str(len(body)), **headers) + body


def head(status: str = "200 OK", **headers: str) -> bytes:
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "connection: close", "", ""]).encode()


def stream(*lines: dict[str, Any] | bytes, end: bool = True) -> bytes:
    """A stream of events; `end`: as one that the service has ended, and not a connection that broke."""
    made = head(
        content_type="application/x-ndjson",
        transfer_encoding="chunked",
        cellhouse_execution="runtimes/a/sessions/b/executions/c",
    )
    for line in lines:
        data = line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n"
        made += b"%x\r\n%b\r\n" % (len(data), data)
    return made + (b"0\r\n\r\n" if end else b"")


def error(code: int, status: str, reason: str, **metadata: str) -> bytes:
    info = {"reason": reason, "domain": "cellhouse", "metadata": metadata}
    body = {"error": {"code": code, "status": status, "message": "no", "details": [info]}}
    return answer(body, f"{code} No")


QUEUED = {"seq": 1, "time": "2031-01-01T00:00:00.000Z", "type": "queued"}
STARTED = {"seq": 2, "time": "2031-01-01T00:00:00.000Z", "type": "started"}
RESULT = {"execution": "runtimes/a/sessions/b/executions/c", "state": "FINISHED", "outcome": "OK"}
FINISHED = {"seq": 3, "time": "2031-01-01T00:00:00.000Z", "type": "finished", "result": RESULT}


@asynccontextmanager
async def scripted(*answers: bytes, hold: bool = False) -> AsyncIterator[Scripted]:
    made = Scripted(list(answers), hold=hold)
    await made.start()
    try:
        yield made
    finally:
        await made.close()
