"""What httpx and the system raise, as errors of this client: no other names reach a caller."""

import socket
import ssl
from typing import Final

import httpx

from cellhouse.client.errors import ClientReason, TransportError
from cellhouse.client.steps import Request

RAISED: Final = (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, OSError)
"""All that sending and reading may raise besides what a body's own source does."""
_NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol, httpx.InvalidURL)


def failure(error: Exception, request: Request, service: str, *, connected: bool = False) -> TransportError:
    """The error that a caller gets. `connected`: it was a response that was being read."""
    what = f"{request} at {service}"
    detail = str(error)[:300] or type(error).__name__
    if isinstance(error, httpx.PoolTimeout):
        return TransportError(
            f"{what}: all connections of this client are in use, and none came free (connections, pool); "
            "read streams to their end or close them, or raise `connections` in ClientLimits",
            reason=ClientReason.CONNECTIONS_EXHAUSTED,
            may_have_arrived=False,
            hopeless="it would wait for the same connections",
        )
    if not connected and isinstance(error, (*_NOT_SENT, OSError)):
        if _is_tls(error):
            return TransportError(
                f"{what}: no trusted TLS connection ({detail}); check the URL's host, the CA bundle (Tls.ca) and the "
                "client's certificate",
                reason=ClientReason.TLS_FAILED,
                may_have_arrived=False,
                hopeless="what is not trusted now is not trusted in a second either",
            )
        return TransportError(
            f"{what}: no connection ({detail}); check the URL, and that the service runs",
            reason=ClientReason.CONNECT_FAILED,
            may_have_arrived=False,
            hopeless="there is no such host" if _is_unknown_host(error) else "",
        )
    if isinstance(error, httpx.TimeoutException):
        return TransportError(
            f"{what}: nothing came or went for too long (Timeouts)",
            reason=ClientReason.TIMED_OUT,
            may_have_arrived=True,
        )
    return TransportError(
        f"{what}: the connection was lost ({detail})",
        reason=ClientReason.CONNECTION_LOST,
        may_have_arrived=True,
    )


def silence(request: Request, service: str, seconds: float) -> TransportError:
    """Nothing came for so many seconds."""
    return TransportError(
        f"{request} at {service}: nothing came for {seconds:g} s",
        reason=ClientReason.TIMED_OUT,
        may_have_arrived=True,
    )


def _chain(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


def _is_tls(error: BaseException) -> bool:
    return any(isinstance(each, ssl.SSLError) for each in _chain(error))


def _is_unknown_host(error: BaseException) -> bool:
    return any(
        isinstance(each, socket.gaierror) and each.errno == socket.EAI_NONAME for each in _chain(error)
    )
