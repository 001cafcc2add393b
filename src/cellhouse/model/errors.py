"""The errors of a call, each with its status and its HTTP code (contract, section 6).

    CellhouseError
    ├── InvalidArgument       INVALID_ARGUMENT      400   malformed name, id, limit; both or neither target
    ├── Unauthenticated       UNAUTHENTICATED       401   no token, or a bad one
    ├── PermissionDenied      PERMISSION_DENIED     403   the token lacks the scope
    ├── NotFound              NOT_FOUND             404   no such thing; EVICTED; RUNTIME_DELETED
    ├── AlreadyExists         ALREADY_EXISTS        409   the id is taken
    ├── FailedPrecondition    FAILED_PRECONDITION   400   what was asked for can't be had here
    ├── ResourceExhausted     RESOURCE_EXHAUSTED    429   queue, quota, rate; 507: the server's disk or memory
    ├── DeadlineExceeded      DEADLINE_EXCEEDED     504   waitTimeout passed; the code runs on
    ├── Unavailable           UNAVAILABLE           503   try the identical call again
    └── Internal              INTERNAL              500   our fault; an id that the log also has

A failure of the code is never one of these: it is a result.
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self

from pydantic import ValidationError

from cellhouse.model.enums import CallReason
from cellhouse.model.error_info import ErrorInfo
from cellhouse.model.minting import mint_uid
from cellhouse.model.result import ExecuteCodeResult
from cellhouse.model.wire import plain_text

VIOLATIONS = 20
"""Fields that are named in one error, at most."""


class CellhouseError(Exception):
    """An error of a call. Its message names the thing, what was wrong with it, and what would work."""

    status: ClassVar[str] = "INTERNAL"
    http: int = 500

    def __init__(
        self,
        message: str,
        *,
        reason: str,
        metadata: Mapping[str, str] | None = None,
        execution: str | None = None,
        partial_result: ExecuteCodeResult | None = None,
    ) -> None:
        super().__init__(message)
        self.message = plain_text(message)
        self.info = ErrorInfo(reason=str(reason), metadata=dict(metadata or {}))
        # Whatever the call had got to see, where the code behind it runs on.
        self.execution = execution
        self.partial_result = partial_result
        # (field, what was wrong with it), where it is fields that were.
        self.violations: tuple[tuple[str, str], ...] = ()

    @property
    def reason(self) -> str:
        return self.info.reason

    @property
    def metadata(self) -> dict[str, str]:
        return self.info.metadata

    def __str__(self) -> str:
        return self.message

    def to_wire(self) -> dict[str, Any]:
        """The body of the response: `{"error": {code, status, message, details, execution?, partialResult?}}`.

        `details` begins with the ErrorInfo; behind it comes `{"fieldViolations": [{field, description}, …]}` where fields
        were wrong.
        """
        body: dict[str, Any] = {
            "code": self.http,
            "status": self.status,
            "message": self.message,
            "details": [self.info.to_wire()],
        }
        if self.violations:
            found = [{"field": field, "description": text} for field, text in self.violations]
            body["details"].append({"fieldViolations": found})
        if self.execution is not None:
            body["execution"] = self.execution
        if self.partial_result is not None:
            body["partialResult"] = self.partial_result.to_wire()
        return {"error": body}


class InvalidArgument(CellhouseError):
    """Something in the request is malformed; `metadata["field"]` says what."""

    status = "INVALID_ARGUMENT"
    http = 400

    @classmethod
    def of_field(cls, field: str, rule: str, *, reason: str = CallReason.INVALID_FIELD) -> Self:
        """For the field with this wire name; the rule says what was wrong and what would work."""
        return cls(f"{field}: {rule}", reason=reason, metadata={"field": field}).of_violations(
            [(field, rule)]
        )

    @classmethod
    def of_validation(cls, what: str, error: ValidationError) -> Self:
        """For the first thing that a model found wrong; what was sent is not repeated."""
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        more = error.error_count() - 1
        others = f" ({more} more like it)" if more else ""
        made = cls(
            f"{what}: {field or 'the document'}: {first['msg']}{others}",
            reason=CallReason.INVALID_FIELD,
            metadata={"field": plain_text(field)} if field else {},
        )
        found = error.errors(include_url=False, include_context=False, include_input=False)[:VIOLATIONS]
        return made.of_violations((".".join(map(str, each["loc"])), each["msg"]) for each in found)

    def of_violations(self, violations: Iterable[tuple[str, str]]) -> Self:
        """The same with each field that was wrong, and what was."""
        self.violations = tuple((plain_text(field), plain_text(text)) for field, text in violations)
        return self


class Unauthenticated(CellhouseError):
    """There is no token, or it is none of ours."""

    status = "UNAUTHENTICATED"
    http = 401


class PermissionDenied(CellhouseError):
    """The token is good, but lacks the scope. A thing of another tenant is NotFound instead."""

    status = "PERMISSION_DENIED"
    http = 403


class NotFound(CellhouseError):
    """No such thing, or it is gone: then the reason says how."""

    status = "NOT_FOUND"
    http = 404


class AlreadyExists(CellhouseError):
    """The id is taken, or the executionId was used with other code."""

    status = "ALREADY_EXISTS"
    http = 409


class FailedPrecondition(CellhouseError):
    """The isolation, limit or policy that was asked for can't be had here. Nothing falls back to less."""

    status = "FAILED_PRECONDITION"
    http = 400


class ResourceExhausted(CellhouseError):
    """A queue, quota or rate is full (HTTP 429), or the server's own disk or memory (`server=True`, HTTP 507).

    Metadata always names the `limit`, and says in `retryable` whether the same call can work later.
    """

    status = "RESOURCE_EXHAUSTED"
    http = 429

    def __init__(
        self,
        message: str,
        *,
        reason: str,
        limit: str = "",
        retryable: bool = True,
        server: bool = False,
        metadata: Mapping[str, str] | None = None,
        execution: str | None = None,
        partial_result: ExecuteCodeResult | None = None,
    ) -> None:
        told = {
            "limit": limit or str(reason),
            "retryable": "true" if retryable else "false",
            **(metadata or {}),
        }
        super().__init__(
            message, reason=reason, metadata=told, execution=execution, partial_result=partial_result
        )
        if server:
            self.http = 507


class DeadlineExceeded(CellhouseError):
    """The call waited as long as it was allowed to; the code runs on. Repeat the identical call to reattach."""

    status = "DEADLINE_EXCEEDED"
    http = 504


class Unavailable(CellhouseError):
    """Try the identical call again."""

    status = "UNAVAILABLE"
    http = 503


class Internal(CellhouseError):
    """Our fault. `metadata["errorId"]` is an id that the log also has; one is made where none is given."""

    status = "INTERNAL"
    http = 500

    def __init__(
        self,
        message: str,
        *,
        reason: str = CallReason.INTERNAL,
        metadata: Mapping[str, str] | None = None,
        execution: str | None = None,
        partial_result: ExecuteCodeResult | None = None,
    ) -> None:
        told = dict(metadata or {})
        told.setdefault("errorId", mint_uid())
        super().__init__(
            message, reason=reason, metadata=told, execution=execution, partial_result=partial_result
        )

    @property
    def error_id(self) -> str:
        return self.metadata["errorId"]


_BY_STATUS: dict[str, type[CellhouseError]] = {
    cls.status: cls
    for cls in (
        InvalidArgument,
        Unauthenticated,
        PermissionDenied,
        NotFound,
        AlreadyExists,
        FailedPrecondition,
        ResourceExhausted,
        DeadlineExceeded,
        Unavailable,
        Internal,
    )
}


def error_from_wire(body: Any) -> CellhouseError:
    """The error that a response's body stands for. ValueError where the body is no error of this contract."""
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        raise ValueError(
            'the body holds no error; it must look like {"error": {"status": …, "details": […]}}'
        )
    cls = _BY_STATUS.get(str(error.get("status")))
    details = error.get("details")
    if cls is None or not isinstance(details, list) or not details:
        raise ValueError(f"status {error.get('status')!r} with its details is no error of this contract")
    info = ErrorInfo.from_wire(details[0])
    partial = error.get("partialResult")
    execution = error.get("execution")
    made = cls(
        str(error.get("message", "")),
        reason=info.reason,
        metadata=info.metadata,
        execution=None if execution is None else str(execution),
        partial_result=None if partial is None else ExecuteCodeResult.from_wire(partial),
    )
    if isinstance(code := error.get("code"), int):
        made.http = code
    for detail in details[1:]:
        if isinstance(detail, dict) and isinstance(found := detail.get("fieldViolations"), list):
            made.violations = tuple(
                (str(each.get("field", "")), str(each.get("description", "")))
                for each in found
                if isinstance(each, dict)
            )
    return made
