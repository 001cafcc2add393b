"""What the service counts of itself, in the text format of Prometheus."""

import asyncio
import os
import time
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from cellhouse.doors.tenants import Tenant, Tenants
from cellhouse.files.threads import in_thread
from cellhouse.sandbox.resident import resident_below

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)
CONTENT_TYPE: Final = CONTENT_TYPE_LATEST


class Metrics:
    """Counters of one service. Labels are routes and codes only: nothing that a caller makes up."""

    def __init__(self, tenants: Tenants) -> None:
        self._tenants = tenants
        self._registry = CollectorRegistry()
        self._now = CollectorRegistry()  # of what is so now, which can be told of one tenant, too
        self._requests = Counter(
            "cellhouse_http_requests",
            "Requests that were answered.",
            ("method", "route", "code"),
            registry=self._registry,
        )
        self._first = Histogram(
            "cellhouse_http_response_start_seconds",
            "From a request's head to the head of its response.",
            ("route",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._runtimes = Gauge("cellhouse_runtimes", "Runtimes that live.", registry=self._now)
        self._unfinished = Gauge(
            "cellhouse_executions_unfinished", "Executions that run or wait.", registry=self._now
        )
        self._kernels = Gauge("cellhouse_kernels", "Kernels of sessions that live.", registry=self._now)
        self._ahead = Gauge(
            "cellhouse_pool_kernels",
            "Kernels that were forked ahead, for sessions to come.",
            registry=self._now,
        )
        self._streams = Gauge("cellhouse_streams", "Streams of events that are open.", registry=self._now)
        self._answering = Gauge(
            "cellhouse_http_requests_in_progress", "Requests being answered.", registry=self._now
        )
        self._network = Gauge(
            "cellhouse_network_requests",
            "Requests for something outside that were decided, of runtimes that live.",
            ("decision",),
            registry=self._now,
        )
        self._network_bytes = Gauge(
            "cellhouse_network_bytes",
            "Bytes through the proxies of runtimes that live, both ways.",
            registry=self._now,
        )
        self._started = Gauge(
            "cellhouse_start_time_seconds", "When the service started.", registry=self._registry
        )
        self._started.set(time.time())
        self._memory = Gauge(
            "cellhouse_runtime_memory_bytes",
            "Resident memory of all processes below the service: kernels, their walls, keepers.",
            registry=self._registry,
        )
        ProcessCollector(registry=self._registry)

    def answered(self, method: str, route: str, code: int, seconds: float) -> None:
        """One response has begun, so many seconds after its request."""
        self._requests.labels(method, route, str(code)).inc()
        self._first.labels(route).observe(seconds)

    async def text(self, tenant: Tenant | None = None) -> bytes:
        """All of it, as it is now; or what one tenant has now, for counts of requests would tell it of others."""
        tenants = self._tenants.open if tenant is None else [tenant]
        found = await asyncio.gather(*(each.house.census() for each in tenants))
        self._runtimes.set(sum(each.runtimes for each in found))
        self._kernels.set(sum(each.kernels for each in found))
        self._ahead.set(sum(each.ahead for each in found))
        self._network.labels("allowed").set(sum(each.network.allowed for each in found))
        self._network.labels("refused").set(sum(each.network.refused for each in found))
        self._network_bytes.set(sum(each.network.bytes for each in found))
        self._unfinished.set(sum(each.unfinished for each in found))
        self._streams.set(sum(each.streams for each in tenants))
        self._answering.set(sum(each.requests for each in tenants))
        now = generate_latest(self._now)
        if tenant is not None:
            return now
        keepers = [pid for each in found for pid in each.keepers]  # some may be an earlier service's children
        self._memory.set(await in_thread(resident_below, os.getpid(), keepers))
        return now + generate_latest(self._registry) + generate_latest(self._tenants.executions.registry)
