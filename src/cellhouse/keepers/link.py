"""One connection between a service and a keeper: calls, their answers, and streams that a slow reader holds back."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping
from typing import Any, Final, cast

from cellhouse.keepers.frames import Frames, Kind, ProtocolError, decode_json, encode, encode_json
from cellhouse.keepers.pieces import Incoming, LinkLost, Outgoing
from cellhouse.keepers.place import Peer
from cellhouse.model import CallReason, CellhouseError, Internal, Unavailable, error_from_wire
from cellhouse.runtime.logs import logger

_logger = logger()

PIECE_BYTES: Final = 64 << 10
MAX_CALLS: Final = 16_384
"""Calls of one connection that are being answered. A service lets in fewer."""

_CREDIT: Final = struct.Struct("!Q")


class Asked:
    """A call of the other side's, with what it sends and takes besides."""

    def __init__(self, link: "Link", number: int, method: str, arguments: Mapping[str, Any]) -> None:
        self.method, self.arguments = method, arguments
        self.outgoing = Outgoing(link, number)
        self.incoming = Incoming(link, number)
        self.task: asyncio.Task[None] | None = None
        self.breakable = True
        """Whether the work ends with its caller; what changes something is seen through."""
        self.later: Callable[[], Awaitable[Any]] | None = None
        """What is to be told behind the answer, unasked, when it is known."""


Answer = Callable[[Asked], Awaitable[Any]]


class Link(asyncio.Protocol):
    """Both ends are this class: the service calls, the keeper answers. Belongs to one event loop."""

    def __init__(
        self,
        *,
        answer: Answer | None = None,
        on_hello: Callable[["Link", dict[str, Any]], None] | None = None,
        on_lost: Callable[["Link"], None] | None = None,
    ) -> None:
        self._answer, self._on_hello, self._on_lost = answer, on_hello, on_lost
        self._frames = Frames()
        self._transport: asyncio.Transport | None = None
        self._numbers = 0
        self._results: dict[int, asyncio.Future[Any]] = {}
        self._streams: dict[int, Incoming] = {}
        self._uploads: dict[int, Outgoing] = {}
        self._asked: dict[int, Asked] = {}
        self._later: dict[int, asyncio.Future[Any]] = {}
        self._telling: set[asyncio.Task[None]] = set()
        self._writable = asyncio.Event()
        self._writable.set()
        loop = asyncio.get_running_loop()
        self.hello: asyncio.Future[dict[str, Any]] = loop.create_future()
        """What the other side has said of itself; cancelled where it never did."""
        self.lost: asyncio.Future[None] = loop.create_future()
        self.greeted = False

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # not every loop's is a subclass of it

    def data_received(self, data: bytes) -> None:
        try:
            for kind, call, body in self._frames.feed(data):
                self._take(kind, call, body)
        except ProtocolError as error:
            _logger.error("a connection between service and keeper is broken off", why=str(error))
            self.abort()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._writable.set()
        if not self.lost.done():
            self.lost.set_result(None)
        self.hello.cancel()
        for result in self._results.values():
            if not result.done():
                result.set_exception(LinkLost())
        for stream in self._streams.values():
            stream.end(LinkLost())
        for upload in self._uploads.values():
            upload.grant(1 << 62)
        for later in self._later.values():
            if not later.done():
                later.set_exception(LinkLost())
        for asked in self._asked.values():
            self._break_off(asked)
        for telling in self._telling:
            telling.cancel()
        self._later.clear()
        self._results.clear()
        self._streams.clear()
        self._uploads.clear()
        if self._on_lost is not None:
            self._on_lost(self)

    # Sending

    @property
    def alive(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def asked(self) -> list[Asked]:
        """Calls of the other side's that have no answer yet."""
        return list(self._asked.values())

    def peer(self) -> Peer:
        """Who is at the other end. LinkLost."""
        if self._transport is None:
            raise LinkLost
        return Peer.of(self._transport.get_extra_info("socket"))

    def send(self, kind: Kind, call: int, body: bytes = b"") -> None:
        """Write one frame. LinkLost."""
        if self._transport is None or self._transport.is_closing():
            raise LinkLost
        self._transport.write(encode(kind, call, body))

    def say_hello(self, **told: Any) -> None:
        self.send(Kind.HELLO, 0, encode_json(told))

    async def writable(self) -> None:
        """Until the socket takes more."""
        await self._writable.wait()
        if not self.alive:
            raise LinkLost

    @property
    def is_waiting(self) -> bool:
        """Whether anything was asked that has no end yet: a call, or a stream."""
        return bool(self._results or self._later)

    def give_up(self, error: CellhouseError) -> None:
        """Whoever waits for something waits no more and gets this error; the connection stays, and can be asked again."""
        for number, result in list(self._results.items()):
            if not result.done():
                result.set_exception(error)
                with contextlib.suppress(LinkLost):
                    self.send(Kind.CANCEL, number)
        for later in self._later.values():
            if not later.done():
                later.set_exception(error)
        self._later.clear()

    def close(self) -> None:
        """Close it once what was written has gone out."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # Calling

    async def call(self, method: str, arguments: Mapping[str, Any]) -> Any:
        """The answer, as it came. Raises the error of the call, or LinkLost. Who is cancelled says so to the keeper."""
        number, result = self._begin(method, arguments)
        try:
            return await result
        finally:
            self._forget(number, result)

    async def call_with_later(
        self, method: str, arguments: Mapping[str, Any]
    ) -> tuple[Any, asyncio.Future[Any]]:
        """The answer, and what is told behind it some day. That raises LinkLost where it can't come any more."""
        number, result = self._begin(method, arguments)
        later = self._later[number] = asyncio.get_running_loop().create_future()
        later.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody has to ask for it
        try:
            return await result, later
        except BaseException:
            self._later.pop(number, None)
            raise
        finally:
            self._forget(number, result)

    async def upload(self, method: str, arguments: Mapping[str, Any], chunks: AsyncIterable[bytes]) -> Any:
        """The same with bytes that go with it. Errors of `chunks` break the call off and are the caller's own."""
        number, result = self._begin(method, arguments)
        sending = self._uploads[number] = Outgoing(self, number)
        try:
            async for chunk in chunks:
                view = memoryview(chunk)
                for at in range(0, len(view), PIECE_BYTES):
                    if result.done():
                        return result.result()
                    await self._unless_answered(sending.send(bytes(view[at : at + PIECE_BYTES])), result)
            if not result.done():
                self.send(Kind.END, number)
            return await result
        finally:
            self._forget(number, result)

    @staticmethod
    async def _unless_answered(sending: Any, result: asyncio.Future[Any]) -> None:
        """A piece may wait for ever where the keeper has refused the rest."""
        task = asyncio.ensure_future(sending)
        try:
            await asyncio.wait([task, result], return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait([task])

    def stream(self, method: str, arguments: Mapping[str, Any]) -> tuple[int, Incoming]:
        """Begin a stream: its number, for `cancel`, and what comes. LinkLost."""
        number, result = self._begin(method, arguments)
        incoming = self._streams[number] = Incoming(self, number)

        def ended(done: asyncio.Future[Any]) -> None:
            self._results.pop(number, None)
            self._streams.pop(number, None)
            incoming.end(None if done.cancelled() else done.exception())

        result.add_done_callback(ended)
        return number, incoming

    def cancel(self, number: int) -> None:
        """Let go of a stream: nothing is sent for it any more."""
        result = self._results.pop(number, None)
        if result is not None and not result.done():
            result.cancel()
            with contextlib.suppress(LinkLost):
                self.send(Kind.CANCEL, number)

    def grant(self, number: int, count: int) -> None:
        with contextlib.suppress(LinkLost):
            self.send(Kind.CREDIT, number, _CREDIT.pack(count))

    def _begin(self, method: str, arguments: Mapping[str, Any]) -> tuple[int, asyncio.Future[Any]]:
        number = self._numbers = self._numbers % 0xFFFF_FFFF + 1
        body = encode_json({"method": method, "arguments": arguments})
        self.send(Kind.CALL, number, body)
        result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._results[number] = result
        return number, result

    def _forget(self, number: int, result: asyncio.Future[Any]) -> None:
        self._results.pop(number, None)
        self._uploads.pop(number, None)
        if not result.done() or result.cancelled():
            result.cancel()
            with contextlib.suppress(LinkLost):
                self.send(Kind.CANCEL, number)
        else:
            result.exception()  # looked at, so that nobody complains

    # Taking

    def _take(self, kind: Kind, call: int, body: bytes) -> None:
        match kind:
            case Kind.RESULT | Kind.ERROR:
                self._answered(kind, call, body)
            case Kind.DATA:
                if (stream := self._streams.get(call) or self._asking(call)) is not None:
                    stream.put(body)
            case Kind.CREDIT:
                sender = self._uploads.get(call)
                if sender is None and (asked := self._asked.get(call)) is not None:
                    sender = asked.outgoing
                if sender is not None:
                    sender.grant(_credit_of(body))
            case Kind.CALL:
                self._called(call, body)
            case Kind.END:
                if (incoming := self._asking(call)) is not None:
                    incoming.end()
            case Kind.CANCEL:
                if (asked := self._asked.get(call)) is not None:
                    self._break_off(asked)
            case Kind.LATER:
                if (later := self._later.pop(call, None)) is not None and not later.done():
                    later.set_result(decode_json(body))
            case Kind.HELLO:
                told = decode_json(body)
                if not isinstance(told, dict) or self.hello.done():
                    raise ProtocolError("a greeting that is none, or a second one")
                self.hello.set_result(told)
                if self._on_hello is not None:
                    self._on_hello(self, told)

    def _asking(self, call: int) -> Incoming | None:
        asked = self._asked.get(call)
        return None if asked is None else asked.incoming

    def _answered(self, kind: Kind, call: int, body: bytes) -> None:
        result = self._results.get(call)
        if result is None or result.done():
            return  # nobody waits for it any more
        document = decode_json(body)
        if kind is Kind.RESULT:
            result.set_result(document)
            return
        try:
            result.set_exception(error_from_wire(document))
        except ValueError as error:
            raise ProtocolError(f"an error that is none: {error}") from None

    # Answering

    def _called(self, call: int, body: bytes) -> None:
        document = decode_json(body)
        method = document.get("method") if isinstance(document, dict) else None
        arguments = document.get("arguments") if isinstance(document, dict) else None
        if self._answer is None or not self.greeted or call in self._asked:
            raise ProtocolError("a call where none is taken")
        if not isinstance(method, str) or not isinstance(arguments, dict):
            raise ProtocolError("a call without a method or its arguments")
        asked = Asked(self, call, method, arguments)
        if len(self._asked) >= MAX_CALLS:
            self._tell(call, _too_many())
            return
        self._asked[call] = asked
        asked.task = asyncio.get_running_loop().create_task(self._serve(call, asked), name=f"call {method}")

    async def _serve(self, call: int, asked: Asked) -> None:
        try:
            assert self._answer is not None
            result = await self._answer(asked)
            self._reply(Kind.RESULT, call, encode_json(result))
            if asked.later is not None and len(self._telling) < MAX_CALLS:
                telling = asyncio.get_running_loop().create_task(self._tell_later(call, asked.later))
                self._telling.add(telling)
                telling.add_done_callback(self._telling.discard)
        except CellhouseError as error:
            self._tell(call, error)
        except LinkLost:
            return
        except Exception as error:
            told = Internal(
                f"{asked.method}: the keeper failed ({type(error).__name__}); the id is in its log"
            )
            _logger.exception("a call failed in a keeper", call=asked.method, error_id=told.error_id)
            self._tell(call, told)
        finally:
            self._asked.pop(call, None)

    async def _tell_later(self, call: int, later: Callable[[], Awaitable[Any]]) -> None:
        try:
            found = await later()
        except CellhouseError:
            found = {}  # whoever wants to know asks, and is told why not
        self._reply(Kind.LATER, call, encode_json(found))

    def _tell(self, call: int, error: CellhouseError) -> None:
        self._reply(Kind.ERROR, call, encode_json(error.to_wire()))

    def _reply(self, kind: Kind, call: int, body: bytes) -> None:
        with contextlib.suppress(LinkLost):  # who asked is gone, and what was done stands in the journal
            self.send(kind, call, body)

    @staticmethod
    def _break_off(asked: Asked) -> None:
        asked.incoming.end(ConnectionAbortedError("whoever sent this has gone"))
        asked.outgoing.grant(1 << 62)
        if asked.breakable and asked.task is not None:
            asked.task.cancel()


def _credit_of(body: bytes) -> int:
    if len(body) != _CREDIT.size:
        raise ProtocolError("a credit that is no number")
    return int(_CREDIT.unpack(body)[0])


def _too_many() -> CellhouseError:
    return Unavailable(
        f"{MAX_CALLS} calls are being answered by this keeper, which is the limit; try again when some have ended",
        reason=CallReason.TRY_AGAIN,
    )
