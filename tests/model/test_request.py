"""ExecuteCodeRequest: what it takes, and how it refuses."""

import hashlib
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest

from cellhouse.model import (
    OUTPUT_LIMIT_MAX,
    ExecuteCodeRequest,
    InvalidArgument,
    RuntimeName,
    SessionLimits,
    SessionName,
)

SESSION = "runtimes/a/sessions/b"


def test_a_request_from_the_wire() -> None:
    request = ExecuteCodeRequest.from_json(
        b'{"code": "1", "session": "runtimes/a/sessions/b", "executionId": "x", "executionTimeout": 5,'
        b' "waitTimeout": 0.5, "outputLimit": 100, "storeHistory": false, "allowStdin": true,'
        b' "environment": {"A": "1"}, "runtime": null, "unknown": [null]}'
    )
    assert request == ExecuteCodeRequest(
        code="1",
        session=SESSION,
        execution_id="x",
        execution_timeout=5.0,
        wait_timeout=0.5,
        output_limit=100,
        store_history=False,
        allow_stdin=True,
        environment={"A": "1"},
    )
    assert request.check() == SessionName("a", "b")
    jsonschema.validate(request.to_wire(), ExecuteCodeRequest.json_schema("input"))


def test_a_request_at_its_defaults() -> None:
    request = ExecuteCodeRequest(runtime="runtimes/a")
    assert request.check() == RuntimeName("a")
    assert request.to_wire() == {"runtime": "runtimes/a", "storeHistory": True, "allowStdin": False}
    assert request.code_sha256 == hashlib.sha256(b"").hexdigest()


def refused(request: Callable[[], Any], field: str, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words) as caught:
        request()
    assert caught.value.metadata["field"] == field
    assert field in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({}, "session", "neither session nor runtime"),
        ({"session": "", "runtime": ""}, "session", "neither session nor runtime"),
        ({"session": SESSION, "runtime": "runtimes/a"}, "session", "both session and runtime"),
        ({"session": "b"}, "session", "form runtimes/"),
        ({"session": "runtimes/a/sessions/B"}, "session", "1 to 63"),
        ({"runtime": SESSION}, "runtime", "form runtimes/"),
        ({"session": SESSION, "executionId": "a/b"}, "executionId", "1 to 128"),
        ({"session": SESSION, "executionId": "a" * 129}, "executionId", "1 to 128"),
        ({"session": SESSION, "executionTimeout": 0}, "executionTimeout", "above 0"),
        ({"session": SESSION, "executionTimeout": -1}, "executionTimeout", "above 0"),
        ({"session": SESSION, "waitTimeout": float("nan")}, "waitTimeout", "above 0"),
        ({"session": SESSION, "waitTimeout": float("inf")}, "waitTimeout", "above 0"),
        ({"session": SESSION, "waitTimeout": float("-inf")}, "waitTimeout", "above 0"),
        ({"session": SESSION, "outputLimit": 0}, "outputLimit", "1 to"),
        ({"session": SESSION, "outputLimit": OUTPUT_LIMIT_MAX + 1}, "outputLimit", "1 to"),
        ({"session": SESSION, "environment": {"": "x"}}, "environment", "no name of a variable"),
        ({"session": SESSION, "environment": {"A=B": "x"}}, "environment", "no name of a variable"),
        ({"session": SESSION, "environment": {"9": "x"}}, "environment", "no name of a variable"),
        ({"session": SESSION, "environment": {"A\n": "x"}}, "environment", "no name of a variable"),
        ({"session": SESSION, "environment": {"É": "x"}}, "environment", "no name of a variable"),
        ({"session": SESSION, "environment": {"A": "x\0"}}, "environment", "NUL"),
        ({"session": SESSION, "environment": {"A": "\ud800"}}, "environment", "lone surrogate"),
        ({"session": SESSION, "code": "a\ud800"}, "code", "character 1 is a lone surrogate"),
    ],
)
def test_a_request_that_breaks_a_rule(fields: dict[str, Any], field: str, words: str) -> None:
    refused(lambda: ExecuteCodeRequest.from_wire({"code": "1", **fields}).check(), field, words)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"code": 1}, "code"),
        ({"session": 1}, "session"),
        ({"executionTimeout": "5"}, "executionTimeout"),
        ({"executionTimeout": True}, "executionTimeout"),
        ({"waitTimeout": []}, "waitTimeout"),
        ({"outputLimit": 1.5}, "outputLimit"),
        ({"outputLimit": "5"}, "outputLimit"),
        ({"storeHistory": "yes"}, "storeHistory"),
        ({"allowStdin": 1}, "allowStdin"),
        ({"environment": []}, "environment"),
        ({"environment": {"A": 1}}, "environment.A"),
    ],
)
def test_a_field_of_the_wrong_type(fields: dict[str, Any], field: str) -> None:
    refused(lambda: ExecuteCodeRequest.from_wire(fields), field, "executeCode: ")
    refused(lambda: ExecuteCodeRequest(**fields), field, "executeCode: ")


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"1", b"null", b'{"code": NaN}', b"\xff", b"[" * 10_000])
def test_what_is_no_request_at_all(text: bytes) -> None:
    refused(lambda: ExecuteCodeRequest.from_json(text), "executeCode", "executeCode: the request")


def test_code_is_measured_in_bytes() -> None:
    limits = SessionLimits(code_bytes=4)
    ExecuteCodeRequest(code="éé", session=SESSION).check(limits)
    refused(
        lambda: ExecuteCodeRequest(code="ééa", session=SESSION).check(limits), "code", "5 bytes .* limit of 4"
    )


def test_the_default_limit_of_code_is_four_mebibytes() -> None:
    ExecuteCodeRequest(code="#" * 2**22, session=SESSION).check()
    refused(lambda: ExecuteCodeRequest(code="#" * (2**22 + 1), session=SESSION).check(), "code", "code_bytes")


def test_an_environment_is_bounded() -> None:
    limits = SessionLimits(environment_variables=1, environment_bytes=8)
    ExecuteCodeRequest(session=SESSION, environment={"A": "12345"}).check(limits)
    many = ExecuteCodeRequest(session=SESSION, environment={"A": "", "B": ""})
    refused(lambda: many.check(limits), "environment", "environment_variables")
    big = ExecuteCodeRequest(session=SESSION, environment={"A": "123456"})
    refused(lambda: big.check(limits), "environment", "environment_bytes")


@pytest.mark.parametrize("code", ["a\ud800", "\udc80"])
def test_a_request_that_is_still_to_be_refused_can_be_written(code: str) -> None:
    assert ExecuteCodeRequest(code=code, session=SESSION).to_json().encode()
