"""A caller with automatic resume: whatever dies, it repeats the identical call and reads on from the number it had."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.chaos.schedule import Kind

REFUSED = {400, 404, 409, 429}


@dataclass
class Call:
    """One execution as its caller sees it: every event it was given, over all its connections."""

    path: str
    id: str
    kind: Kind
    code: str
    name: str = ""
    seen: list[dict[str, Any]] = field(default_factory=list)
    refused: str = ""
    connections: int = 0
    response: httpx.Response | None = None

    @property
    def last(self) -> int:
        return int(self.seen[-1]["seq"]) if self.seen else 0

    @property
    def ended(self) -> bool:
        return bool(self.seen) and self.seen[-1]["type"] == "finished"

    async def follow(self, client: httpx.AsyncClient, up: asyncio.Event) -> None:
        """Until the end, or a refusal."""
        while not self.ended and not self.refused:
            await up.wait()
            try:
                await self._connect(client)
            except (httpx.TransportError, httpx.StreamError, ConnectionError):
                await asyncio.sleep(0.02)  # as a client does before it comes again

    async def _connect(self, client: httpx.AsyncClient) -> None:
        headers = {"accept": "application/x-ndjson"}
        if self.seen:
            headers["last-event-id"] = str(self.last)
        body = {"code": self.code, "executionId": self.id, "waitTimeout": 300.0}
        self.connections += 1
        async with client.stream("POST", f"{self.path}:executeCode", json=body, headers=headers) as response:
            if response.status_code != 200:
                error = json.loads(await response.aread())["error"]
                if response.status_code in REFUSED:
                    self.refused = f"{error['status']} {error['details'][0]['reason']}"
                elif response.status_code != 503:
                    raise AssertionError(f"{self.id}: {error}")
                else:
                    await asyncio.sleep(0.02)
                return
            self.name = response.headers["cellhouse-execution"]
            self.response = response
            async for line in response.aiter_lines():
                document = json.loads(line)
                if "error" in document:
                    assert document["error"]["status"] == "UNAVAILABLE", document
                    return
                if document["type"] not in ("tail", "keepAlive"):
                    self.seen.append(document)

    async def disconnect(self) -> None:
        """Cut the connection that it reads from now; it comes again."""
        if self.response is not None and not self.ended:
            await self.response.aclose()
