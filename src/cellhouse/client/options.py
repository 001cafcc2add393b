"""What both clients are made with, and what of httpx they share."""

import os
import random
import ssl
from dataclasses import dataclass, field
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Final

import httpx

from cellhouse.client.address import TOKEN_VARIABLE, Address, Tls, checked_token
from cellhouse.client.core import Core
from cellhouse.client.local_token import local_token
from cellhouse.client.outgoing import Outgoing
from cellhouse.client.settings import ClientLimits, RetryPolicy, Timeouts
from cellhouse.client.steps import Request
from cellhouse.model import Clock, SystemClock

KEEP_ALIVE_SECONDS: Final = 15.0
"""An idle connection is kept so long: shorter than services keep theirs, so that none is used as it closes."""


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """All that can be set besides the URL. A token that is not given is that of CELLHOUSE_TOKEN, where there is one.

    Else, for a service on this machine, it is that of the file that `serve` keeps for this account.
    """

    token: str | None = field(default=None, repr=False)
    tls: Tls = field(default_factory=Tls)
    timeouts: Timeouts = field(default_factory=Timeouts)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    limits: ClientLimits = field(default_factory=ClientLimits)
    clock: Clock = field(default_factory=SystemClock)
    rng: random.Random = field(default_factory=random.Random, repr=False)

    def core(self, address: Address) -> Core:
        return Core(
            str(address),
            limits=self.limits,
            timeouts=self.timeouts,
            retry=self.retry,
            clock=self.clock,
            rng=self.rng,
        )

    def headers(self, address: Address) -> dict[str, str]:
        """What every request says."""
        made = {
            "accept": "application/json",
            "accept-encoding": "identity",
            "user-agent": "cellhouse-client",
        }
        token = self.token or os.environ.get(TOKEN_VARIABLE)
        if not token and address.is_local:
            token = local_token()
        if token:
            made["authorization"] = f"Bearer {checked_token(token)}"
        return made

    def http(self, address: Address) -> dict[str, Any]:
        """Of httpx.Client and httpx.AsyncClient alike: nothing from the environment, no redirects, no cookies."""
        return {
            "headers": self.headers(address),
            "follow_redirects": False,
            "trust_env": False,
            "cookies": CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        }

    def transport(self, address: Address) -> dict[str, Any]:
        """Of httpx.HTTPTransport and httpx.AsyncHTTPTransport alike."""
        limits = httpx.Limits(
            max_connections=self.limits.connections,
            max_keepalive_connections=self.limits.connections,
            keepalive_expiry=KEEP_ALIVE_SECONDS,
        )
        made: dict[str, Any] = {"limits": limits, "trust_env": False}
        if address.socket is not None:
            made["uds"] = str(address.socket)
        # Without TLS one that trusts nobody: it is never used, and costs no reading of certificates.
        tls = address.origin.startswith("https:")
        made["verify"] = self.tls.context() if tls else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return made

    def timeout(self, request: Request) -> httpx.Timeout:
        times = self.timeouts
        return httpx.Timeout(
            connect=times.connect, read=request.read_seconds, write=times.write, pool=times.pool
        )


def options_of(
    token: str | None,
    tls: Tls | None,
    timeouts: Timeouts | None,
    retry: RetryPolicy | None,
    limits: ClientLimits | None,
    clock: Clock | None,
    rng: random.Random | None,
) -> ClientOptions:
    """What was given, and the defaults for what was not."""
    return ClientOptions(
        token,
        tls or Tls.of_environment(),
        timeouts or Timeouts(),
        retry or RetryPolicy(),
        limits or ClientLimits(),
        clock or SystemClock(),
        rng or random.Random(),
    )


def own_error(request: Request) -> BaseException | None:
    """What the source of a request's body raised while it was being sent."""
    return request.body.failed if isinstance(request.body, Outgoing) else None
