"""The table of tools: complete, and in words that every client takes."""

import re

import jsonschema
import pytest

from cellhouse.doors.mcp.server import EMBEDDED, OF_SERVICE
from cellhouse.doors.mcp.tools import BY_NAME, TOOLS, Tool

NAMES = {
    "list_runtime_specs", "list_runtimes", "create_runtime", "delete_runtime", "list_sessions", "delete_session",
    "execute_code", "get_execution", "read_output", "read_rich_output", "interrupt_session", "restart_session",
    "list_files", "read_file", "write_file",
}  # fmt: skip


def test_all_are_there() -> None:
    assert set(BY_NAME) == NAMES
    assert len(TOOLS) == len(NAMES)


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_each_is_told_whole(tool: Tool) -> None:
    told = tool.told()
    assert told.title
    assert told.description
    assert len(told.description) > 40
    assert told.annotations is not None
    hints = told.annotations.model_dump(exclude={"title"})
    assert all(isinstance(hint, bool) for hint in hints.values())
    assert not (told.annotations.read_only_hint and told.annotations.destructive_hint)
    assert told.output_schema is not None
    for schema in (told.input_schema, told.output_schema):
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
        assert not {"oneOf", "anyOf", "allOf", "$ref", "$defs"} & set(schema)
        assert "$ref" not in repr(schema)


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_each_argument_is_described(tool: Tool) -> None:
    for name, schema in tool.told().input_schema["properties"].items():
        assert schema.get("description"), name
        assert re.fullmatch(r"[a-z][A-Za-z]*", name)


def test_closing_a_response_is_said_not_to_interrupt() -> None:
    description = BY_NAME["execute_code"].description
    assert "closing the response" in description
    assert "notifications/cancelled" in description


def test_a_model_is_told_where_to_begin() -> None:
    assert "runtimes/default/sessions/main" in EMBEDDED
    assert "create_runtime" in OF_SERVICE


def test_what_reads_is_for_readers() -> None:
    for tool in TOOLS:
        assert tool.reads is (tool.scope.value == "read"), tool.name
