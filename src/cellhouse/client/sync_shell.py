"""Carries flows out in the thread that calls."""

from collections.abc import Callable, Generator, Iterator
from typing import Any, TypeVar

import httpx

from cellhouse.client.address import Address
from cellhouse.client.failures import RAISED, failure
from cellhouse.client.options import ClientOptions, own_error
from cellhouse.client.steps import Flow, Give, Left, Pause, Read, Reply, Request, Send, Shut, Step, Work
from cellhouse.model import CallReason, Unavailable

T = TypeVar("T")


class SyncShell:
    """An httpx.Client and the steps that are done with it. Any thread may use it, each flow in one thread."""

    def __init__(self, address: Address, options: ClientOptions, sleep: Callable[[float], object]) -> None:
        self._address, self._options, self._sleep = address, options, sleep
        self._http = httpx.Client(
            transport=httpx.HTTPTransport(**options.transport(address)), **options.http(address)
        )

    def close(self) -> None:
        self._http.close()

    def run(self, flow: Flow[T]) -> T:
        """To its end, and what it gives."""
        try:
            step = next(flow)
            while True:
                try:
                    done = self._do(step)
                except BaseException as error:
                    step = flow.throw(error)
                else:
                    step = flow.send(done)
        except StopIteration as end:
            result: T = end.value
            return result

    def iterate(self, flow: Flow[None]) -> Generator[Any, None, None]:
        """The values that it gives. Left early, it lets go of what it holds."""
        try:
            step = next(flow)
            while True:
                if isinstance(step, Give):
                    yield step.value
                    step = flow.send(None)
                    continue
                try:
                    done = self._do(step)
                except BaseException as error:
                    step = flow.throw(error)
                else:
                    step = flow.send(done)
        except StopIteration:
            return
        except GeneratorExit:
            self._end(flow)
            raise

    def _end(self, flow: Flow[None]) -> None:
        """Let a flow put away what it holds."""
        try:
            step = flow.throw(Left())
            while True:
                step = flow.send(self._do(step))
        except (StopIteration, Left):
            return

    def _do(self, step: Step) -> Any:
        match step:
            case Send(request):
                return self._send(request)
            case Read(reply):
                return self._read(reply)
            case Shut(reply):
                return self._shut(reply)
            case Pause(seconds):
                self._sleep(seconds)
                return None
            case Work(work):
                return work()
            case Give():
                raise TypeError("this flow gives values; it is to be iterated over")

    def _send(self, request: Request) -> Reply:
        if self._http.is_closed:
            raise Unavailable("this client is closed", reason=CallReason.SHUTTING_DOWN)
        try:
            made = self._http.build_request(
                request.method,
                f"{self._address.origin}{self._address.prefix}{request.target}",
                headers=dict(request.headers),
                content=request.body,
                timeout=self._options.timeout(request),
            )
            response = self._http.send(made, stream=True)
        except RAISED as error:
            if (own := own_error(request)) is not None:
                raise own from None
            raise failure(error, request, str(self._address)) from error
        return Reply(response.status_code, dict(response.headers), request, response, response.iter_raw())

    def _read(self, reply: Reply) -> bytes:
        """A blocking read can't be given up in the middle: the request's own time between two pieces ends it."""
        pieces: Iterator[bytes] = reply.pieces
        try:
            return next(pieces, b"")
        except RAISED as error:
            raise failure(error, reply.request, str(self._address), connected=True) from error

    def _shut(self, reply: Reply) -> None:
        try:
            reply.pieces.close()
            reply.response.close()
        except RAISED:
            pass  # it was to go, and it has gone
