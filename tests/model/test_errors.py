"""The errors of a call against the table of the contract, section 6."""

import json

import pytest

from cellhouse.model import (
    AlreadyExists,
    CallReason,
    CellhouseError,
    DeadlineExceeded,
    ExecuteCodeResult,
    ExecutionState,
    FailedPrecondition,
    Internal,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    RuntimeSpec,
    Unauthenticated,
    Unavailable,
    error_from_wire,
    errors,
)

TABLE = [
    (InvalidArgument, "INVALID_ARGUMENT", 400),
    (Unauthenticated, "UNAUTHENTICATED", 401),
    (PermissionDenied, "PERMISSION_DENIED", 403),
    (NotFound, "NOT_FOUND", 404),
    (AlreadyExists, "ALREADY_EXISTS", 409),
    (FailedPrecondition, "FAILED_PRECONDITION", 400),
    (ResourceExhausted, "RESOURCE_EXHAUSTED", 429),
    (DeadlineExceeded, "DEADLINE_EXCEEDED", 504),
    (Unavailable, "UNAVAILABLE", 503),
    (Internal, "INTERNAL", 500),
]


@pytest.mark.parametrize(("cls", "status", "http"), TABLE)
def test_an_error_has_the_code_of_the_table(cls: type[CellhouseError], status: str, http: int) -> None:
    error = cls("the thing: the rule; the remedy", reason="SOME_REASON", metadata={"sizeBytes": "3"})
    assert (error.status, error.http) == (status, http)
    body = error.to_wire()["error"]
    assert (body["code"], body["status"], body["message"]) == (
        http,
        status,
        "the thing: the rule; the remedy",
    )
    (detail,) = body["details"]
    assert (detail["reason"], detail["domain"]) == ("SOME_REASON", "cellhouse")
    assert detail["metadata"]["sizeBytes"] == "3"
    assert "execution" not in body
    assert "partialResult" not in body


def test_the_tree_is_the_table_and_is_drawn() -> None:
    # Others have some of their own below it, where a test before this one has loaded them.
    ours = {cls for cls in CellhouseError.__subclasses__() if cls.__module__ == errors.__name__}
    assert ours == {cls for cls, _, _ in TABLE}
    for cls, status, http in TABLE:
        (line,) = [line for line in (errors.__doc__ or "").splitlines() if f" {cls.__name__} " in line]
        assert f" {status} " in line
        assert f" {http} " in line


def test_the_servers_own_shortage_is_507() -> None:
    error = ResourceExhausted(
        "the disk is full", reason=CallReason.SERVER_DISK_FULL, limit="disk", retryable=False, server=True
    )
    assert error.to_wire()["error"]["code"] == 507
    assert error.metadata == {"limit": "disk", "retryable": "false"}
    assert ResourceExhausted.http == 429


def test_a_quota_names_its_limit_and_whether_to_retry() -> None:
    error = ResourceExhausted("the queue is full", reason=CallReason.QUEUE_FULL, metadata={"queued": "64"})
    assert error.metadata == {"limit": "QUEUE_FULL", "retryable": "true", "queued": "64"}


def test_our_own_fault_has_an_id_that_the_log_can_have_too() -> None:
    error = Internal("something broke")
    assert len(error.error_id) == 32
    assert error.to_wire()["error"]["details"][0]["metadata"]["errorId"] == error.error_id
    assert Internal("again", metadata={"errorId": "known"}).error_id == "known"


@pytest.mark.parametrize(("cls", "status", "http"), TABLE)
def test_an_error_round_trips(cls: type[CellhouseError], status: str, http: int) -> None:
    partial = ExecuteCodeResult(execution="e", state=ExecutionState.RUNNING, stdout="so far")
    error = cls("wait", reason="SOME_REASON", metadata={"a": "é"}, execution="e", partial_result=partial)
    body = json.loads(json.dumps(error.to_wire()))
    assert body["error"]["execution"] == "e"
    assert body["error"]["partialResult"] == {"stdout": "so far", "execution": "e", "state": "RUNNING"}
    read = error_from_wire(body)
    assert type(read) is cls
    assert (read.message, read.http, read.info, read.execution, read.partial_result) == (
        "wait",
        http,
        error.info,
        "e",
        partial,
    )


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {},
        {"error": "no"},
        {"error": {}},
        {"error": {"status": "TEAPOT", "details": [{"reason": "A"}]}},
        {"error": {"status": "INTERNAL", "details": []}},
        {"error": {"status": "INTERNAL", "details": [{}]}},
    ],
)
def test_a_body_that_is_no_error_of_ours_is_refused(body: object) -> None:
    with pytest.raises(ValueError, match=r"error|reason"):
        error_from_wire(body)


def test_a_message_can_always_be_sent() -> None:
    error = NotFound("no file \udc80", reason=CallReason.NO_SUCH_OUTPUT, metadata={"name": "\udc80"})
    assert json.dumps(error.to_wire(), ensure_ascii=False).encode()
    assert str(error) == "no file \\udc80"


def test_fields_that_are_wrong_are_named_one_by_one() -> None:
    error = InvalidArgument.of_field("pageSize", "it takes 0 or more")
    body = json.loads(json.dumps(error.to_wire()))
    assert body["error"]["details"][1] == {
        "fieldViolations": [{"field": "pageSize", "description": "it takes 0 or more"}]
    }
    assert error_from_wire(body).violations == error.violations
    with pytest.raises(InvalidArgument) as refused:
        RuntimeSpec.from_wire({"environment": 1, "start": "never"})
    assert [field for field, _ in refused.value.violations] == ["environment", "start"]


@pytest.mark.parametrize("reason", ["", "lower", "HAS SPACE", "9A", "A" * 64, "A\n"])
def test_a_reason_is_upper_snake_case(reason: str) -> None:
    with pytest.raises(ValueError, match="reason"):
        NotFound("gone", reason=reason)


@pytest.mark.parametrize("key", ["", "Upper", "snake_case", "9a", "a\n", "a" * 64])
def test_a_metadata_key_is_lower_camel_case(key: str) -> None:
    with pytest.raises(ValueError, match="lowerCamelCase"):
        NotFound("gone", reason="GONE", metadata={key: "1"})
