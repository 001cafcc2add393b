"""Clients of a Cellhouse service: the methods of a House, over the network."""

from cellhouse.client.address import Tls
from cellhouse.client.async_client import AsyncClient, AsyncExecutionHandle
from cellhouse.client.calls import OutputData, TextName
from cellhouse.client.errors import ClientReason, IncompleteStreamError, ResponseError, TransportError
from cellhouse.client.outgoing import AsyncSource, Progress, Source
from cellhouse.client.settings import ClientLimits, RetryPolicy, Timeouts
from cellhouse.client.sync_client import Client, ExecutionHandle
from cellhouse.client.transfer import FilePart

__all__ = [
    "AsyncClient",
    "AsyncExecutionHandle",
    "AsyncSource",
    "Client",
    "ClientLimits",
    "ClientReason",
    "ExecutionHandle",
    "FilePart",
    "IncompleteStreamError",
    "OutputData",
    "Progress",
    "ResponseError",
    "RetryPolicy",
    "Source",
    "TextName",
    "Timeouts",
    "Tls",
    "TransportError",
]
