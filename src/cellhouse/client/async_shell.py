"""Carries flows out on an event loop."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import httpx

from cellhouse.client.address import Address
from cellhouse.client.failures import RAISED, failure, silence
from cellhouse.client.options import ClientOptions, own_error
from cellhouse.client.outgoing import Outgoing
from cellhouse.client.steps import Flow, Give, Left, Pause, Read, Reply, Request, Send, Shut, Step, Work
from cellhouse.model import CallReason, Unavailable

T = TypeVar("T")


class AsyncShell:
    """An httpx.AsyncClient and the steps that are done with it. Owned by one event loop."""

    def __init__(
        self, address: Address, options: ClientOptions, sleep: Callable[[float], Awaitable[object]]
    ) -> None:
        self._address, self._options, self._sleep = address, options, sleep
        self._http = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(**options.transport(address)), **options.http(address)
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def run(self, flow: Flow[T]) -> T:
        """To its end, and what it gives."""
        try:
            step = next(flow)
            while True:
                try:
                    done = await self._do(step)
                except BaseException as error:
                    step = flow.throw(error)
                else:
                    step = flow.send(done)
        except StopIteration as end:
            result: T = end.value
            return result

    async def iterate(self, flow: Flow[None]) -> AsyncGenerator[Any, None]:
        """The values that it gives. Left early, it lets go of what it holds."""
        try:
            step = next(flow)
            while True:
                if isinstance(step, Give):
                    yield step.value
                    step = flow.send(None)
                    continue
                try:
                    done = await self._do(step)
                except BaseException as error:
                    step = flow.throw(error)
                else:
                    step = flow.send(done)
        except StopIteration:
            return
        except GeneratorExit:
            await self._end(flow)
            raise

    async def _end(self, flow: Flow[None]) -> None:
        """Let a flow put away what it holds."""
        try:
            step = flow.throw(Left())
            while True:
                step = flow.send(await self._do(step))
        except (StopIteration, Left):
            return

    async def _do(self, step: Step) -> Any:
        match step:
            case Send(request):
                return await self._send(request)
            case Read(reply, seconds):
                return await self._read(reply, seconds)
            case Shut(reply):
                return await self._shut(reply)
            case Pause(seconds):
                await self._sleep(seconds)
                return None
            case Work(work):
                return await asyncio.to_thread(work)
            case Give():
                raise TypeError("this flow gives values; it is to be iterated over")

    async def _send(self, request: Request) -> Reply:
        if self._http.is_closed:
            raise Unavailable("this client is closed", reason=CallReason.SHUTTING_DOWN)
        body = request.body.pieces() if isinstance(request.body, Outgoing) else request.body
        try:
            made = self._http.build_request(
                request.method,
                f"{self._address.origin}{self._address.prefix}{request.target}",
                headers=dict(request.headers),
                content=body,
                timeout=self._options.timeout(request),
            )
            response = await self._http.send(made, stream=True)
        except RAISED as error:
            if (own := own_error(request)) is not None:
                raise own from None
            raise failure(error, request, str(self._address)) from error
        return Reply(response.status_code, dict(response.headers), request, response, response.aiter_raw())

    async def _read(self, reply: Reply, seconds: float | None) -> bytes:
        pieces: AsyncIterator[bytes] = reply.pieces
        try:
            async with asyncio.timeout(seconds):
                return await anext(pieces, b"")
        except TimeoutError:
            raise silence(reply.request, str(self._address), seconds or 0.0) from None
        except RAISED as error:
            raise failure(error, reply.request, str(self._address), connected=True) from error

    async def _shut(self, reply: Reply) -> None:
        try:
            await reply.pieces.aclose()
            await reply.response.aclose()
        except RAISED:
            pass  # it was to go, and it has gone
