"""JSON Schemas of tools: of the models themselves, whole in one piece, in the words that every client takes."""

from typing import Any, Final

from cellhouse.model import Wire, wire_schema

Schema = dict[str, Any]
_DEFINITIONS: Final = "#/$defs/"


def input_schema(model: type[Wire]) -> Schema:
    """Of a tool's arguments. Nothing besides them is taken.

    Without `oneOf` and the like at its root, which the APIs of models refuse; the description and the error say such rules.
    """
    made = _whole(wire_schema(model, "input"))
    return {**_object(made), "additionalProperties": False}


def output_schema(model: type[Wire]) -> Schema:
    """Of a tool's `structuredContent`: an object, as revisions before 2026-07-28 have it."""
    return _object(_whole(model.json_schema()))


def _object(schema: Schema) -> Schema:
    """What older revisions of the protocol have at the root, and nothing more."""
    kept = {key: schema[key] for key in ("properties", "required") if schema.get(key)}
    return {"type": "object", "properties": {}, **kept}


def _whole(schema: Schema) -> Schema:
    """Without references, which not every client follows; none of ours refers to itself."""
    definitions = schema.get("$defs", {})

    def resolved(node: Any) -> Any:
        if isinstance(node, list):
            return [resolved(item) for item in node]
        if not isinstance(node, dict):
            return node
        if isinstance(reference := node.get("$ref"), str):
            beside = {key: value for key, value in node.items() if key != "$ref"}
            return resolved({**definitions[reference.removeprefix(_DEFINITIONS)], **beside})
        # A title that pydantic makes of a field's name says nothing; a property called `title` is no text but a schema.
        return {
            key: resolved(value)
            for key, value in node.items()
            if key not in ("$defs", "$schema") and not (key == "title" and isinstance(value, str))
        }

    whole: Schema = resolved(schema)
    return whole
