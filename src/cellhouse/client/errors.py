"""What can go wrong on the way to a service and back, in the tree of the model's errors.

    CellhouseError
    ├── (those of the model: what the service itself said)
    ├── Unavailable
    │   └── TransportError            no connection, a lost one, silence for too long, a gateway instead of a service
    │       └── IncompleteStreamError the events ended without `finished`, and could not be read on
    └── ResponseError                 what answered does not keep the contract, or holds more than is taken

A TransportError says by its class that the identical call may work later. Each tells in its metadata what was tried.
"""

from collections.abc import Mapping
from enum import StrEnum

from cellhouse.model import CellhouseError, Unavailable


class ClientReason(StrEnum):
    """The reasons that only a client gives; all others are the service's own."""

    # Nothing of the call has arrived.
    CONNECT_FAILED = "CONNECT_FAILED"
    TLS_FAILED = "TLS_FAILED"
    CONNECTIONS_EXHAUSTED = "CONNECTIONS_EXHAUSTED"
    # It may have arrived.
    CONNECTION_LOST = "CONNECTION_LOST"
    TIMED_OUT = "TIMED_OUT"
    GATEWAY = "GATEWAY"
    STREAM_INCOMPLETE = "STREAM_INCOMPLETE"
    # Something answered, but not as it should.
    REDIRECTED = "REDIRECTED"
    MALFORMED_RESPONSE = "MALFORMED_RESPONSE"
    RESPONSE_TOO_LARGE = "RESPONSE_TOO_LARGE"
    DIGEST_MISMATCH = "DIGEST_MISMATCH"


class TransportError(Unavailable):
    """The call did not get through, or its answer did not.

    `may_have_arrived`: whether the service may have done what was asked all the same. Metadata: `arrived` ("no",
    "maybe"), and once it is final `attempts`, `elapsedSeconds` and `notRepeated` (why there was no further attempt).
    """

    def __init__(
        self,
        message: str,
        *,
        reason: str,
        may_have_arrived: bool,
        hopeless: str = "",
        metadata: Mapping[str, str] | None = None,
        execution: str | None = None,
    ) -> None:
        """`hopeless`: why another attempt would end no better."""
        told = {"arrived": "maybe" if may_have_arrived else "no", **(metadata or {})}
        super().__init__(message, reason=reason, metadata=told, execution=execution)
        self.may_have_arrived = may_have_arrived
        self.hopeless = hopeless


class IncompleteStreamError(TransportError):
    """The events of an execution ended without `finished`. What becomes of the execution is not known; it may run on.

    Metadata has `lastSeq` too, the number of the last event that came: `events(name, after=lastSeq)` reads on.
    """

    def __init__(self, message: str, *, execution: str, last_seq: int, cause: TransportError) -> None:
        super().__init__(
            message,
            reason=ClientReason.STREAM_INCOMPLETE,
            may_have_arrived=True,
            metadata={**cause.metadata, "cause": cause.reason, "lastSeq": str(last_seq), "arrived": "maybe"},
            execution=execution,
        )

    @property
    def last_seq(self) -> int:
        return int(self.metadata["lastSeq"])


class ResponseError(CellhouseError):
    """What answered is no service of this contract, or its answer is larger than this client takes. Never repeated."""

    status = "INTERNAL"
    http = 502
