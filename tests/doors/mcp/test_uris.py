"""Names of resources: what is made is read again, and nothing else is."""

import pytest
from hypothesis import given, strategies as st

from cellhouse.doors.mcp.uris import (
    ExecutionUri,
    FileUri,
    OutputUri,
    TextUri,
    execution_uri,
    file_uri,
    output_uri,
    parse_uri,
    text_uri,
)
from cellhouse.model import CellhouseError, InvalidArgument

EXECUTION = "runtimes/r/sessions/s/executions/E.1_~-"


def test_there_and_back() -> None:
    assert parse_uri(execution_uri(EXECUTION)) == ExecutionUri(EXECUTION)
    assert parse_uri(text_uri(EXECUTION, "stderr")) == TextUri(EXECUTION, "stderr")
    assert parse_uri(f"{text_uri(EXECUTION, 'stdout')}?offset=5&limit=9") == TextUri(
        EXECUTION, "stdout", 5, 9
    )
    for kind in ("image/svg+xml", "text/html; charset=a&b", "ü"):
        assert parse_uri(output_uri(EXECUTION, 7, kind)) == OutputUri(EXECUTION, 7, kind)
    assert parse_uri(f"cellhouse://{EXECUTION}/richOutputs/0") == OutputUri(EXECUTION, 0, "")


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60))
def test_any_file(path: str) -> None:
    assert parse_uri(file_uri("runtimes/r", path)) == FileUri("runtimes/r", path)


@pytest.mark.parametrize(
    "uri",
    [
        "", "cellhouse://", "file:///etc/passwd", "cellhouse://runtimes", "cellhouse://runtimes/R/files/x",
        "cellhouse://runtimes/r/files", "cellhouse://runtimes/r/sessions/s", f"cellhouse://{EXECUTION}/stdin",
        f"cellhouse://{EXECUTION}/richOutputs/-1", f"cellhouse://{EXECUTION}/richOutputs/99999999999",
        f"cellhouse://{EXECUTION}/stdout?offset=-1", f"cellhouse://{EXECUTION}/stdout?offset=٣",
        f"cellhouse://{EXECUTION}/stdout/x", "cellhouse://[", "cellhouse://" + "r" * 10_000,
    ],
)  # fmt: skip
def test_what_names_nothing(uri: str) -> None:
    with pytest.raises(InvalidArgument):
        parse_uri(uri)


@given(st.text(max_size=80))
def test_whatever_is_said_is_an_error_at_most(text: str) -> None:
    try:
        parse_uri(f"cellhouse://{text}")
    except CellhouseError:
        return
