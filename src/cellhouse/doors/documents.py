"""What the OpenAPI document says of bodies: the schemas of the models themselves, by name."""

from typing import Any, Final

from cellhouse.model import (
    ArtifactEvictionList,
    ArtifactList,
    ErrorInfo,
    ExecuteCodeRequest,
    ExecuteCodeResult,
    ExecutionCode,
    ExecutionList,
    FileList,
    FileWritten,
    RichOutput,
    Runtime,
    RuntimeList,
    RuntimeSpec,
    RuntimeSpecs,
    Session,
    SessionList,
    SessionLogPage,
    StagedInputs,
    StoredArtifact,
    TailFrame,
    TextPart,
    event_json_schema,
    wire_schema,
)

Schema = dict[str, Any]

_COMPONENTS: Final = "#/components/schemas/"
_MADE: Final = (
    ArtifactEvictionList,
    ArtifactList,
    ErrorInfo,
    ExecuteCodeResult,
    ExecutionCode,
    ExecutionList,
    FileList,
    FileWritten,
    RichOutput,
    Runtime,
    RuntimeList,
    RuntimeSpecs,
    Session,
    SessionList,
    SessionLogPage,
    StagedInputs,
    StoredArtifact,
    TailFrame,
    TextPart,
)
_ID: Final[Schema] = {"type": "string", "pattern": "^[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?$"}
_CLIENT_ID: Final[Schema] = {"type": "string", "pattern": "^[A-Za-z0-9._~-]{1,128}$"}

_ARTIFACT_ID: Final[Schema] = {"type": "string", "pattern": "^art_[0-9A-Za-z]{22}$"}

IDS: Final = {"runtime": _ID, "session": _ID, "execution": _CLIENT_ID, "artifact": _ARTIFACT_ID}
"""What the parameters of a path take. Held by the names themselves, whose error says more than a router's."""


def ref(name: str) -> Schema:
    return {"$ref": _COMPONENTS + name}


# Of one event of the stream; tail frames and errors of the call have no id.
_SSE: Final[Schema] = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "pattern": "^[0-9]+$"},
        "event": {"type": "string"},
        "data": {"type": "string", "contentMediaType": "application/json", "contentSchema": ref("Event")},
    },
    "required": ["event", "data"],
}


def json_body(schema: Schema) -> Schema:
    """Content that is JSON."""
    return {"application/json": {"schema": schema}}


def answers(name: str, text: str) -> dict[int | str, Schema]:
    """The responses of a call that gives one document, or an error."""
    return {200: {"description": text, "content": json_body(ref(name))}, **errors()}


def errors() -> dict[int | str, Schema]:
    return {"default": {"description": "An error of the call.", "content": json_body(ref("Error"))}}


def streams(text: str) -> dict[int | str, Schema]:
    """The responses of a call that streams events."""
    return {
        200: {
            "description": text,
            "content": {
                "text/event-stream": {"schema": _SSE},
                "application/x-ndjson": {"schema": {"type": "string", "description": "Each line an Event."}},
            },
        },
        **errors(),
    }


def data(text: str, *types: str, partial: bool = False) -> dict[int | str, Schema]:
    """The responses of a call that gives bytes."""
    content: Schema = {each: {"schema": {}} for each in types or ("*/*",)}
    made: dict[int | str, Schema] = {200: {"description": text, "content": content}, **errors()}
    if partial:
        made[206] = {"description": "The part that Range asked for.", "content": content}
    return made


def takes(schema: Schema, *, required: bool = True) -> Schema:
    """`openapi_extra` of a call with a JSON body."""
    return {"requestBody": {"required": required, "content": json_body(schema)}}


def components() -> dict[str, Schema]:
    """Every schema that a call refers to."""
    made: dict[str, Schema] = {"Error": _error(), "Empty": {"type": "object"}}
    for model in _MADE:
        _add(made, model.__name__, model.json_schema())
    _add(made, "Event", event_json_schema())
    _add(made, "ExecuteCodeRequest", wire_schema(ExecuteCodeRequest, "input"))
    _add(made, "RuntimeSpec", wire_schema(RuntimeSpec, "input"))
    made["CreateRuntimeRequest"] = {
        "type": "object",
        "properties": {"runtimeId": _ID, "requestId": _CLIENT_ID, "runtime": ref("RuntimeSpec")},
    }
    made["CreateSessionRequest"] = {"type": "object", "properties": {"sessionId": _ID}}
    made["ProvideInputRequest"] = {
        "type": "object",
        "properties": {"value": {"type": "string"}},
        "required": ["value"],
    }
    made["StageInputsRequest"] = {
        "type": "object",
        "properties": {
            "inputs": {
                "type": "object",
                "additionalProperties": {
                    "oneOf": [
                        {
                            "type": "object",
                            "properties": {"data": {"type": "string", "contentEncoding": "base64"}},
                            "required": ["data"],
                        },
                        {"type": "object", "properties": {"ref": _ARTIFACT_ID}, "required": ["ref"]},
                    ]
                },
            }
        },
        "required": ["inputs"],
    }
    made["InterruptResponse"] = {
        "type": "object",
        "properties": {"interrupted": {"type": "boolean"}},
        "required": ["interrupted"],
    }
    # The target is in the path.
    made["ExecuteCodeRequest"].pop("oneOf", None)
    for name in ("session", "runtime"):
        made["ExecuteCodeRequest"]["properties"].pop(name, None)
    bundle = dict(made["RichOutput"]["properties"], bundle={"type": "object"})
    made["RichOutput"] = {**made["RichOutput"], "properties": bundle}
    return made


def _add(made: dict[str, Schema], name: str, schema: Schema) -> None:
    schema.pop("$schema", None)
    for nested, each in schema.pop("$defs", {}).items():
        made.setdefault(nested, _moved(each))
    made[name] = _moved(schema)


def _moved(schema: Any) -> Any:
    """With references into the document's components, where the definitions stand now."""
    if isinstance(schema, dict):
        return {
            key: value.replace("#/$defs/", _COMPONENTS)
            if key == "$ref" and isinstance(value, str)
            else {word: target.replace("#/$defs/", _COMPONENTS) for word, target in value.items()}
            if key == "mapping"
            else _moved(value)
            for key, value in schema.items()
        }
    if isinstance(schema, list):
        return [_moved(each) for each in schema]
    return schema


def _error() -> Schema:
    violation = {
        "type": "object",
        "properties": {"field": {"type": "string"}, "description": {"type": "string"}},
        "required": ["field", "description"],
    }
    violations = {
        "type": "object",
        "properties": {"fieldViolations": {"type": "array", "items": violation}},
        "required": ["fieldViolations"],
    }
    error = {
        "type": "object",
        "properties": {
            "code": {"type": "integer"},
            "status": {"type": "string"},
            "message": {"type": "string"},
            "details": {
                "type": "array",
                "minItems": 1,
                "prefixItems": [ref("ErrorInfo")],
                "items": violations,
            },
            "execution": {"type": "string"},
            "partialResult": ref("ExecuteCodeResult"),
        },
        "required": ["code", "status", "message", "details"],
    }
    return {"type": "object", "properties": {"error": error}, "required": ["error"]}
