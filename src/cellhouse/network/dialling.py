"""From a name to a connection: resolved once, judged, and exactly that address dialled."""

import asyncio
import contextlib
import ipaddress
import socket
import threading
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from cellhouse.model import NetworkPolicy, NetworkSettings
from cellhouse.model.addresses import Address, plain, why_not_public
from cellhouse.model.hosts import Host, show_host
from cellhouse.model.network import in_the_way
from cellhouse.network.decisions import Reason, Refused

RESOLVERS: Final = 4  # names that are looked up at a time for one runtime
ADDRESSES: Final = 8  # of one name that are tried
ATTEMPT_SECONDS: Final = 5.0  # for one address, where there are more

Resolve = Callable[[str], Awaitable[Iterable[str]]]
"""A name's addresses as texts; OSError where it has none."""


class Resolver:
    """The host's own way to look up names, in threads of its own: a slow one holds up nobody else's."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(RESOLVERS)

    async def __call__(self, name: str) -> list[str]:
        await self._free.acquire()
        loop = asyncio.get_running_loop()
        found: asyncio.Future[list[str]] = loop.create_future()

        def tell(addresses: list[str] | OSError) -> None:
            self._free.release()
            if found.done():
                return  # nobody waits for it any more
            if isinstance(addresses, OSError):
                found.set_exception(addresses)
            else:
                found.set_result(addresses)

        def look_up() -> None:
            told: list[str] | OSError
            try:
                entries = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
                told = list(dict.fromkeys(f"{entry[4][0]}" for entry in entries))
            except OSError as error:
                told = error
            except UnicodeError as error:
                told = OSError(f"{error}")
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(tell, told)

        threading.Thread(target=look_up, name="cellhouse-resolve", daemon=True).start()
        return await found


def is_own(address: Address) -> bool:
    """Whether an address is one of this host's: what is sent there would come from there."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((f"{address}", 9))  # a datagram socket asks for a route and sends nothing
            return plain(ipaddress.ip_address(probe.getsockname()[0].partition("%")[0])) == address
        except OSError:
            return False  # no route; it can't be dialled either


class Dialler:
    """Judges and dials for one runtime."""

    def __init__(self, policy: NetworkPolicy, settings: NetworkSettings, resolve: Resolve) -> None:
        self._policy, self._settings, self._resolve = policy, settings, resolve
        self._patterns = policy.patterns
        self._private = settings.private_networks

    def check_named(self, host: Host, port: int) -> None:
        """Refused where no pattern names it."""
        if not any(pattern.matches(host, port) for pattern in self._patterns):
            raise Refused(403, Reason.NOT_NAMED, in_the_way(self._policy, show_host(host), port))

    async def dial(self, host: Host, port: int) -> tuple[socket.socket, Address]:
        """A connection that stands, and to which address. Refused says why there is none."""
        self.check_named(host, port)
        try:
            async with asyncio.timeout(self._settings.connect_seconds):
                addresses = await self._judged(host, port)
                return await self._first(addresses, host, port)
        except TimeoutError:
            raise Refused(
                504,
                Reason.NOT_REACHED,
                f"{show_host(host)}:{port} did not answer within {self._settings.connect_seconds:g} s (connect_seconds)",
            ) from None

    async def _judged(self, host: Host, port: int) -> list[Address]:
        """The addresses that may be dialled: of those that there are, the public ones and those that are named."""
        found = [host] if not isinstance(host, str) else await self._resolved(host)
        good, bad = [], {}
        for address in dict.fromkeys(map(plain, found)):
            why = why_not_public(address) or ("this host itself" if is_own(address) else "")
            if why and not self._is_named(address, port):
                bad[address] = why
            else:
                good.append(address)
        if not good:
            kinds = ", ".join(dict.fromkeys(bad.values()))
            raise Refused(
                403,
                Reason.NOT_PUBLIC,
                f"{show_host(host)}:{port} is not on the public internet ({kinds}); such an address is reached only where "
                "the runtime's network policy names it by its number and the service's operator has it in network.private",
                detail=", ".join(f"{address}" for address in bad),
            )
        return good[:ADDRESSES]

    def _is_named(self, address: Address, port: int) -> bool:
        named = any(pattern.matches(address, port) for pattern in self._patterns)
        return named and any(address in network for network in self._private)

    async def _resolved(self, name: str) -> list[Address]:
        try:
            texts = await self._resolve(name)
            return [ipaddress.ip_address(text.partition("%")[0]) for text in texts]
        except (OSError, ValueError) as error:
            raise Refused(
                502, Reason.NOT_RESOLVED, f"{name} has no address; is it spelt right?", detail=f"{error}"
            ) from None

    async def _first(self, addresses: list[Address], host: Host, port: int) -> tuple[socket.socket, Address]:
        errors = []
        for address in addresses:
            try:
                async with asyncio.timeout(ATTEMPT_SECONDS if len(addresses) > 1 else None):
                    return await _connect(address, port), address
            except TimeoutError:
                errors.append(f"{address}: no answer")
            except OSError as error:
                errors.append(f"{address}: {error.strerror or error}")
        last = errors[-1].partition(": ")[2]
        raise Refused(
            502,
            Reason.NOT_REACHED,
            f"{show_host(host)}:{port} could not be reached: {last}",
            detail="; ".join(errors),
        )


async def _connect(address: Address, port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6, socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(made, (f"{address}", port))
    except BaseException:
        made.close()
        raise
    return made
