"""The service: listening sockets, uvicorn on them, and an end in which nothing is lost."""

import asyncio
import contextlib
import ipaddress
import os
import signal
import socket
import ssl
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import uvicorn

from cellhouse.doors.app import make_app
from cellhouse.doors.callers import LOCAL_TENANT, Authenticator, LocalAuthenticator
from cellhouse.doors.limits import DoorLimits
from cellhouse.doors.mcp.http import McpDoor
from cellhouse.doors.origins import Origins
from cellhouse.doors.protocol import BoundedHttp
from cellhouse.doors.tenants import Tenants
from cellhouse.keepers import Template, kept_opener, open_direct
from cellhouse.model import FailedPrecondition, InvalidArgument
from cellhouse.runtime import Settings
from cellhouse.runtime.logs import logger

_logger = logger()

BACKLOG: Final = 2_048
CLOSING_SECONDS: Final = 5
"""What connections get to write out what they hold, once everything has ended."""


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Where a service listens, and who may call. `port` 0 takes a free one; `uds` is a unix socket instead of TCP."""

    host: str = "127.0.0.1"
    port: int = 0
    uds: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    allowed_hosts: tuple[str, ...] = ()
    cors_origins: tuple[str, ...] = ()
    limits: DoorLimits = field(default_factory=DoorLimits)
    keepers: bool = False
    """Each runtime in a process of its own, which outlives this one; else they all live here."""
    keep: bool = False
    """Leave the keepers to the next service when this one is told to stop."""


class _Server(uvicorn.Server):
    """Leaves signals to whoever runs it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Service:
    """Houses on the network. An async context manager, owned by one event loop: entered, it listens.

    Leaving it drains: nothing new is accepted, what runs may end by itself for `drain_seconds`, then it is interrupted, and
    whatever is left ends with its house. Every execution has its end on record then, and every stream has told of it.
    Unless the keepers are to be kept: then nothing ends, and streams are read on at the next service.
    """

    def __init__(
        self,
        settings: Settings,
        options: ServeOptions | None = None,
        *,
        authenticator: Authenticator | None = None,
    ) -> None:
        """Without an authenticator everybody may everything, which is refused for addresses that others can reach."""
        self._options = options or ServeOptions()
        if authenticator is None:
            _check_local(self._options)
        limits = self._options.limits
        self._template = Template() if self._options.keepers else None
        self._keep = self._options.keepers and self._options.keep
        self.tenants = Tenants(
            settings, limits, open_direct if self._template is None else kept_opener(self._template)
        )
        self._origins = Origins(
            None if self._options.uds else (self._options.host, *self._options.allowed_hosts),
            self._options.cors_origins,
        )
        self._mcp = McpDoor(limits)
        self.app = make_app(
            self.tenants,
            authenticator or LocalAuthenticator(),
            origins=self._origins,
            limits=limits,
            mcp=self._mcp,
        )
        self._opens_local = authenticator is None
        self._socket: socket.socket | None = None
        self.url = ""
        """Where it listens, once it does."""
        self._server: _Server
        self._serving: asyncio.Task[None]
        self._hurry = asyncio.Event()
        self._closing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        config = self._config()
        try:
            if self._opens_local:
                await self.tenants.get(LOCAL_TENANT)
            if self._template is not None:
                self._template.start()
                await self.tenants.find()
            self._socket = _listen(self._options)
            self.url = _url(self._options, self._socket)
            self._server = _Server(config)
            self._serving = asyncio.ensure_future(self._server.serve([self._socket]))
            while not self._server.started:
                if self._serving.done():
                    self._serving.result()
                    raise RuntimeError("the server ended before it began")
                await asyncio.sleep(0)  # it starts without waiting for anything else
        except BaseException:
            self._forget_socket()
            await (self.tenants.leave() if self._template is not None else self.tenants.close())
            await self._end_template()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def hurry(self) -> None:
        """Do not wait for what runs any longer: interrupt it."""
        self._hurry.set()

    def keep(self) -> None:
        """When it is closed, runtimes that live in keepers go on for the next service."""
        self._keep = self._template is not None

    @property
    def keeping(self) -> bool:
        """Whether they will."""
        return self._keep

    async def close(self) -> None:
        """Drain, close the houses, let the connections write out what they hold. May be called twice."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        for server in self._server.servers:
            server.close()  # nobody new; who is connected may still read
        limits = self._options.limits
        try:
            await (self.tenants.leave() if self._keep else self._drain(limits))
        finally:
            try:
                await self.tenants.close()
            finally:
                await self._mcp.close()
                await self._end_template()
                self._server.should_exit = True
                await asyncio.wait([self._serving])
                self._forget_socket()
        self._serving.result()

    async def _end_template(self) -> None:
        if self._template is not None:
            await asyncio.to_thread(self._template.close)

    async def _drain(self, limits: DoorLimits) -> None:
        seconds = 0.0 if self._hurry.is_set() else limits.drain_seconds
        draining = asyncio.ensure_future(self.tenants.drain(seconds=seconds, grace=limits.grace_seconds))
        hurry = asyncio.ensure_future(self._hurry.wait())
        try:
            await asyncio.wait([draining, hurry], return_when=asyncio.FIRST_COMPLETED)
            if not draining.done() and seconds:
                draining.cancel()
                await asyncio.wait([draining])
                await self.tenants.drain(seconds=0.0, grace=limits.grace_seconds)
            else:
                await draining
        finally:
            hurry.cancel()
            draining.cancel()

    async def run(self) -> None:
        """Until SIGTERM or SIGINT; a second one hurries. SIGUSR2 keeps the keepers. To be called within its context."""
        loop = asyncio.get_running_loop()
        asked = asyncio.Event()

        def stop() -> None:
            if asked.is_set():
                self.hurry()
            asked.set()

        def leave() -> None:
            self.keep()
            stop()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop)
        if self._template is not None:
            loop.add_signal_handler(signal.SIGUSR2, leave)
        waiting = asyncio.ensure_future(asked.wait())
        await asyncio.wait([waiting, self._serving], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()

    def _config(self) -> uvicorn.Config:
        options = self._options
        limits = options.limits
        bounds = {"head_seconds": limits.head_seconds, "stall_seconds": limits.stall_seconds}
        protocol = type("Http", (BoundedHttp,), bounds)
        config = uvicorn.Config(
            self.app,
            loop="asyncio",
            http=protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            backlog=BACKLOG,
            timeout_keep_alive=limits.keep_alive_seconds,
            timeout_graceful_shutdown=CLOSING_SECONDS,
            ssl_certfile=options.certificate,
            ssl_keyfile=options.key,
        )
        try:
            config.load()
        except (OSError, ssl.SSLError) as error:
            raise InvalidArgument.of_field(
                "certificate",
                f"{options.certificate}: {error}; name a PEM file with the chain, and one with its key",
            ) from None
        return config

    def _forget_socket(self) -> None:
        if self._socket is not None:
            self._socket.close()
            if self._options.uds is not None:
                self._options.uds.unlink(missing_ok=True)


def is_local(host: str) -> bool:
    """Whether an address is reached from this machine only. Of names, only localhost: who knows what others mean."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_local(options: ServeOptions) -> None:
    if options.uds is None and not is_local(options.host):
        raise FailedPrecondition(
            f"--host {options.host}: others can reach this address, and there are no tokens: whoever calls could run code. "
            "Make a token first, or listen on 127.0.0.1 or a unix socket (--uds)",
            reason="TOKENS_NEEDED",
            metadata={"host": options.host},
        )


def _url(options: ServeOptions, listening: socket.socket) -> str:
    if options.uds is not None:
        return f"unix:{options.uds}"
    host, port = listening.getsockname()[:2]
    scheme = "https" if options.certificate else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _listen(options: ServeOptions) -> socket.socket:
    """A listening socket. InvalidArgument where the address can't be had."""
    try:
        return _listen_unix(options.uds) if options.uds is not None else _listen_tcp(options)
    except OSError as error:
        where = options.uds or f"{options.host}:{options.port}"
        raise InvalidArgument.of_field(
            "host",
            f"can't listen on {where}: {error.strerror or error}; name another (--port 0 takes a free one)",
        ) from None


def _listen_tcp(options: ServeOptions) -> socket.socket:
    (family, kind, protocol, _, address), *_ = socket.getaddrinfo(
        options.host, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    # With its protocol named, asyncio sets TCP_NODELAY on what is accepted: the last piece goes out at once.
    made = socket.socket(family, kind, protocol or socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(BACKLOG)
    except BaseException:
        made.close()
        raise
    made.setblocking(False)
    return made


def _listen_unix(path: Path) -> socket.socket:
    """Only this user can connect. A socket that nobody listens on any more is replaced, nothing else is."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise FileExistsError(17, "something else than a socket is there")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                probe.connect(os.fspath(path))
            except ConnectionRefusedError:
                path.unlink()
            else:
                raise FileExistsError(17, "somebody listens there")
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        made.bind(os.fspath(path))
        made.listen(BACKLOG)
    except BaseException:
        made.close()
        raise
    finally:
        os.umask(before)
    made.setblocking(False)
    return made
