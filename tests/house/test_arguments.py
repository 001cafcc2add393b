"""Every bad input is refused: the field is named, the rule is said, and nothing of the call is left."""

import math
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from cellhouse import ExecuteCodeRequest, House
from cellhouse.model import CallReason, InvalidArgument, SessionLimits
from cellhouse.model.limits import OUTPUT_LIMIT_MAX
from tests.runtime.support import Place, within

LIMITS = SessionLimits()
GOOD = {"code": "print x", "session": "{session}"}
NO_TIMES = [0, -1, -0.001, math.nan, math.inf, -math.inf]

# What differs from a good request, the field that is named, and words of the rule.
BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"runtime": "{runtime}"}, "session", "both session and runtime are set; give exactly one"),
    ({"session": None}, "session", "neither session nor runtime is set; give exactly one"),
    ({"session": ""}, "session", "neither session nor runtime is set"),
    ({"session": "main"}, "session", "runtimes/{runtime}/sessions/{session}"),
    ({"session": "{runtime}/sessions/"}, "session", "1 to 63 lower-case letters"),
    ({"session": "{runtime}/sessions/Main"}, "session", "1 to 63 lower-case letters"),
    ({"session": "{runtime}/sessions/a/executions/b"}, "session", "runtimes/{runtime}/sessions/{session}"),
    ({"session": "{runtime}/sessions/../../x"}, "session", "runtimes/{runtime}/sessions/{session}"),
    ({"session": "{runtime}/sessions/a\n"}, "session", "1 to 63 lower-case letters"),
    ({"session": None, "runtime": "x"}, "runtime", "runtimes/{runtime}"),
    ({"session": None, "runtime": "runtimes/" + "a" * 64}, "runtime", "1 to 63"),
    ({"execution_id": "a b"}, "executionId", "1 to 128 letters, digits"),
    ({"execution_id": "a/b"}, "executionId", "1 to 128"),
    ({"execution_id": "ä"}, "executionId", "1 to 128"),
    ({"execution_id": "a" * 129}, "executionId", "1 to 128"),
    *(({"execution_timeout": float(bad)}, "executionTimeout", "seconds above 0") for bad in NO_TIMES),
    *(({"wait_timeout": float(bad)}, "waitTimeout", "seconds above 0") for bad in NO_TIMES),
    *(
        ({"output_limit": bad}, "outputLimit", f"1 to {OUTPUT_LIMIT_MAX} characters")
        for bad in (0, -1, OUTPUT_LIMIT_MAX + 1, 10**30)
    ),
    ({"code": "x\ud800y"}, "code", "character 1 is a lone surrogate"),
    ({"code": "x" * (LIMITS.code_bytes + 1)}, "code", f"over the limit of {LIMITS.code_bytes} (code_bytes)"),
    (
        {"code": "ä" * (LIMITS.code_bytes // 2 + 1)},
        "code",
        f"over the limit of {LIMITS.code_bytes} (code_bytes)",
    ),
    ({"environment": {"": "x"}}, "environment", "no name of a variable"),
    ({"environment": {"1A": "x"}}, "environment", "no digit first"),
    ({"environment": {"A=B": "x"}}, "environment", "no name of a variable"),
    ({"environment": {"A" * 129: "x"}}, "environment", "1 to 128 letters"),
    ({"environment": {"A": "x\0y"}}, "environment", "the value of A holds a NUL"),
    ({"environment": {"A": "\udfff"}}, "environment", "the value of A holds a lone surrogate"),
    (
        {"environment": {f"A{number}": "" for number in range(LIMITS.environment_variables + 1)}},
        "environment",
        "(environment_variables)",
    ),
    ({"environment": {"A": "x" * LIMITS.environment_bytes}}, "environment", "(environment_bytes)"),
]


def shown(row: tuple[dict[str, Any], str, str]) -> str:
    (what, value), *_ = row[0].items()
    return f"{what}={value!r:.30}".encode("ascii", "backslashreplace").decode()


@pytest.mark.parametrize(("change", "field", "rule"), BAD, ids=[shown(row) for row in BAD])
async def test_a_bad_request(place: Place, change: dict[str, Any], field: str, rule: str) -> None:
    fields = {**GOOD, **change}
    for name in ("session", "runtime"):
        if isinstance(fields.get(name), str):
            filled = fields[name].replace("{session}", place.session()).replace("{runtime}", place.runtime)
            fields[name] = filled
    with pytest.raises(InvalidArgument) as refused:
        await place.house.execute(ExecuteCodeRequest(**fields))
    error = refused.value
    assert (error.status, error.http, error.metadata["field"]) == ("INVALID_ARGUMENT", 400, field)
    assert error.message.startswith(f"{field}: ")
    assert rule in error.message
    assert len(error.message) < 500
    error.message.encode()
    assert place.house.list_sessions(place.runtime) == []
    assert place.house.list_executions(place.session()).entries == []


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"code": 3}, "code"),
        ({"code": None}, "code"),
        ({"executionTimeout": "5"}, "executionTimeout"),
        ({"waitTimeout": True}, "waitTimeout"),
        ({"outputLimit": 1.5}, "outputLimit"),
        ({"storeHistory": "yes"}, "storeHistory"),
        ({"allowStdin": 1}, "allowStdin"),
        ({"environment": []}, "environment"),
        ({"environment": {"A": 1}}, "environment.A"),
        ({"session": 7}, "session"),
    ],
)
def test_a_value_of_the_wrong_kind(change: dict[str, Any], field: str) -> None:
    body = {"code": "1", "session": "runtimes/r/sessions/s", **change}
    if change.get("code", 1) is None:  # null is taken as left out
        assert ExecuteCodeRequest.from_wire(body).code == ""
        return
    with pytest.raises(InvalidArgument) as refused:
        ExecuteCodeRequest.from_wire(body)
    assert refused.value.metadata["field"] == field


async def test_what_is_just_good_enough(place: Place) -> None:
    result = await place.run(
        "print " + "x" * (LIMITS.code_bytes - 6),
        "a" * 63,
        execution_id="~" * 128,
        execution_timeout=1e9,
        wait_timeout=1e9,
        output_limit=OUTPUT_LIMIT_MAX,
        environment={"_" + "A" * 127: ""},
    )
    assert len(result.stdout) == LIMITS.code_bytes - 5
    assert (await place.run("", execution_id="-")).outcome == "OK"


@pytest.mark.parametrize(
    "name", ["", "x", "runtimes", "runtimes/", "runtimes/A", "runtimes/a/", "sessions/a", "/"]
)
async def test_names_that_are_none(house: House, name: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: house.get_runtime(name),
        lambda: house.list_sessions(name),
        lambda: house.get_session(name),
        lambda: house.session_log(name),
        lambda: house.network_log(name),
        lambda: house.list_executions(name),
        lambda: house.open_content(name),
        lambda: house.read_text(name, "stdout"),
        lambda: house.events(name),
    ]
    for call in calls:
        with pytest.raises(InvalidArgument) as refused:
            call()
        assert refused.value.reason == CallReason.INVALID_NAME
    waits: list[Callable[[], Awaitable[object]]] = [
        lambda: house.keep_alive(name),
        lambda: house.delete_runtime(name),
        lambda: house.create_session(name),
        lambda: house.interrupt(name),
        lambda: house.restart(name),
        lambda: house.delete_session(name),
        lambda: house.get_execution(name),
        lambda: house.cancel(name),
        lambda: house.provide_input(name, ""),
        lambda: house.get_rich_output(name, 0),
        lambda: house.get_bundle(name, 0),
        lambda: house.get_output_data(name, 0, "text/html"),
        lambda: house.put_file(name, "x", []),
    ]
    for wait in waits:
        with pytest.raises(InvalidArgument) as refused:
            await wait()
        assert refused.value.reason == CallReason.INVALID_NAME


@pytest.mark.parametrize(
    "path",
    ["", "/etc/passwd", "../x", "a/../../x", "a/./b", "a//b", "a/", ".", "x" * 256, "a/" * 3000 + "b", "nul\0", "\\q"],
)  # fmt: skip
async def test_paths_that_are_none(place: Place, path: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        await place.house.put_file(place.runtime, path, [b"x"])
    assert refused.value.metadata["field"] == "path"
    assert list(place.sandbox.content.iterdir()) == []


async def test_files_are_put_where_they_belong(place: Place) -> None:
    house, content = place.house, place.sandbox.content
    assert await house.put_file(place.runtime, "a/b/c.bin", [b"one", b"two"]) == 6
    assert (content / "a" / "b" / "c.bin").read_bytes() == b"onetwo"
    assert await house.put_file(place.runtime, "a/b/c.bin", []) == 0
    assert (content / "a" / "b" / "c.bin").read_bytes() == b""
    with house.open_content(place.runtime) as held:
        assert held.read("a/b/c.bin", 10) == b""


async def test_files_are_put_nowhere_else(place: Place, tmp_path_factory: pytest.TempPathFactory) -> None:
    house, content = place.house, place.sandbox.content
    outside = tmp_path_factory.mktemp("outside")
    (outside / "precious").write_text("kept")
    (content / "link").symlink_to(outside)
    (content / "to a file").symlink_to(outside / "precious")
    (content / "directory").mkdir()
    (content / "file").touch()
    for path in ("link/x", "link/precious", "directory", "file/x"):
        with pytest.raises(InvalidArgument) as refused:
            await house.put_file(place.runtime, path, [b"mine"])
        assert refused.value.metadata["field"] == "path"
        assert str(content) not in refused.value.message  # where it lies on the host is nobody's business
    # A link is replaced, never followed.
    await house.put_file(place.runtime, "to a file", [b"mine"])
    assert (content / "to a file").read_text() == "mine"
    assert [(path.name, path.read_text()) for path in outside.iterdir()] == [("precious", "kept")]


async def test_pages_of_executions(place: Place) -> None:
    names = [(await place.run(f"print {number}")).execution for number in range(5)]
    page = place.house.list_executions(place.session(), page_size=2)
    seen = [entry.name for entry in page.entries]
    while page.next_page_token:
        page = place.house.list_executions(place.session(), page_size=2, page_token=page.next_page_token)
        seen += [entry.name for entry in page.entries]
    assert seen == names
    for bad, field in (({"page_size": -1}, "pageSize"), ({"page_token": "§"}, "pageToken")):
        with pytest.raises(InvalidArgument) as refused:
            place.house.list_executions(place.session(), **bad)
        assert refused.value.metadata["field"] == field


async def test_pages_of_text(place: Place) -> None:
    handle = await place.running("print ä€😀\nerr no\nvalue 4\nhold")
    page = place.house.read_text(str(handle.name), "stdout")
    assert (page.text, page.eof) == ("ä€😀\n", True)
    place.kernel.release.set()
    await within(handle)
    text, offset = "", 0
    while True:
        page = place.house.read_text(str(handle.name), "stdout", offset=offset, limit=5)
        text, offset = text + page.text, page.next_offset
        if page.eof:
            break
    assert (text, offset) == ("ä€😀\n", len("ä€😀\n".encode()))
    assert place.house.read_text(str(handle.name), "stderr").text == "no\n"
    assert place.house.read_text(str(handle.name), "result").text == "4"
    assert place.house.read_text(str(handle.name), "traceback").text == ""
