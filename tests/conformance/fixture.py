"""What the suite's scenarios ask a server to have and a house has no use for, on the stack that `/mcp` has."""

import asyncio
import base64
import hashlib
import hmac
import secrets
import warnings
from collections.abc import Awaitable, Callable
from typing import Any, Final

from mcp import types
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

Context = ServerRequestContext[Any, Any]
Document = dict[str, Any]

PNG: Final = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108020000009077"
        "53de0000000c4944415408d763f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
    )
).decode()
WAV: Final = base64.b64encode(
    b"RIFF\x25\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x40\x1f\0\0\x01\0\x08\0data\x01\0\0\0\x80"
).decode()
_KEY: Final = secrets.token_bytes(32)
_HINT: Final = CacheHint(60_000, "public")
_SCHEMA: Final[Document] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def text(words: str) -> Document:
    return {"type": "text", "text": words}


def said(*content: Document, **more: Any) -> Document:
    return {"content": list(content), **more}


def image() -> Document:
    return {"type": "image", "data": PNG, "mimeType": "image/png"}


def embedded(uri: str, words: str, mime_type: str = "text/plain") -> Document:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": words}}


def form(message: str, properties: Document, *required: str) -> Document:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return {
        "method": "elicitation/create",
        "params": {"mode": "form", "message": message, "requestedSchema": schema},
    }


def sampling(words: str, tokens: int = 50) -> Document:
    message = {"role": "user", "content": text(words)}
    return {"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": tokens}}


def needs(requests: Document, state: str | None = None) -> Document:
    """An interim result: what the client is asked for."""
    made: Document = {"resultType": "input_required", "inputRequests": requests}
    return made if state is None else {**made, "requestState": sealed(state)}


def sealed(state: str) -> str:
    return f"{state}.{hmac.new(_KEY, state.encode(), hashlib.sha256).hexdigest()}"


def unsealed(given: str | None) -> str:
    state, _, _ = (given or "").rpartition(".")
    if not hmac.compare_digest(sealed(state), given or ""):
        raise MCPError(code=types.INVALID_PARAMS, message="requestState is none of this server's")
    return state


def answers(params: Any) -> Document:
    """What the client answered, by the names of the requests; what has no form of an answer is none."""
    return {
        name: answer if isinstance(answer, dict) else answer.model_dump(by_alias=True, exclude_none=True)
        for name, answer in (params.input_responses or {}).items()
    }


# tools, by name


async def simple(context: Context, params: Any) -> Document:
    return said(text("This is a simple text response for testing."))


async def pictured(context: Context, params: Any) -> Document:
    return said(image())


async def heard(context: Context, params: Any) -> Document:
    return said({"type": "audio", "data": WAV, "mimeType": "audio/wav"})


async def resource(context: Context, params: Any) -> Document:
    return said(embedded("test://embedded-resource", "This is an embedded resource content."))


async def mixed(context: Context, params: Any) -> Document:
    document = embedded("test://mixed-content-resource", '{"test":"data","value":123}', "application/json")
    return said(text("Multiple content types test:"), image(), document)


async def failing(context: Context, params: Any) -> Document:
    return said(text("This tool intentionally returns an error for testing"), isError=True)


async def progressing(context: Context, params: Any) -> Document:
    for number in (0, 50, 100):
        await context.session.report_progress(number, 100)
        await asyncio.sleep(0.05)
    return said(text("done"))


async def logging(context: Context, params: Any) -> Document:
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await quietly(context.session.send_log_message("info", words, related_request_id=context.request_id))
        await asyncio.sleep(0.05)
    return said(text("done"))


async def quietly(work: Awaitable[Any]) -> Any:
    """The SDK warns of what newer revisions have given up; older ones have it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return await work


async def sampled(context: Context, params: Any) -> Document:
    message = types.SamplingMessage(
        role="user", content=types.TextContent(type="text", text=str((params.arguments or {}).get("prompt")))
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answer = await context.session.create_message([message], max_tokens=100)
    return said(text(f"LLM response: {getattr(answer.content, 'text', '')}"))


def elicits(properties: Document, *required: str, words: str = "Elicitation completed") -> "Tool":
    async def tool(context: Context, params: Any) -> Document:
        message = str((params.arguments or {}).get("message", "Please answer"))
        schema = {"type": "object", "properties": properties, "required": list(required)}
        answer = await context.session.elicit_form(message, schema, related_request_id=context.request_id)
        return said(text(f"{words}: action={answer.action}, content={answer.content}"))

    return tool


async def name_asked(context: Context, params: Any) -> Document:
    answer = answers(params).get("user_name", {})
    name = (answer.get("content") or {}).get("name")
    if not isinstance(name, str):
        return needs({"user_name": form("What is your name?", {"name": {"type": "string"}}, "name")})
    return said(text(f"Hello, {name}!"))


async def capital_asked(context: Context, params: Any) -> Document:
    given = answers(params)
    if "capital_question" not in given:
        return needs({"capital_question": sampling("What is the capital of France?", 100)})
    return said(text(f"{given['capital_question'].get('content')}"))


async def roots_asked(context: Context, params: Any) -> Document:
    given = answers(params)
    if "client_roots" not in given:
        return needs({"client_roots": {"method": "roots/list", "params": {}}})
    return said(text(f"{given['client_roots'].get('roots')}"))


async def with_state(context: Context, params: Any) -> Document:
    if params.input_responses is None:
        return needs({"confirm": form("Please confirm", {"ok": {"type": "boolean"}}, "ok")}, "confirm")
    unsealed(params.request_state)
    return said(text("state-ok"))


async def with_many(context: Context, params: Any) -> Document:
    given = answers(params)
    if not {"user_name", "greeting", "client_roots"} <= set(given):
        requests = {
            "user_name": form("What is your name?", {"name": {"type": "string"}}, "name"),
            "greeting": sampling("Generate a greeting"),
            "client_roots": {"method": "roots/list", "params": {}},
        }
        return needs(requests, "many")
    unsealed(params.request_state)
    return said(text(f"all of {', '.join(sorted(given))}"))


async def with_rounds(context: Context, params: Any) -> Document:
    if params.request_state is None:
        return needs({"step1": form("Step 1: What is your name?", {"name": {"type": "string"}}, "name")}, "1")
    if unsealed(params.request_state) == "1":
        return needs({"step2": form("Step 2: Which colour?", {"color": {"type": "string"}}, "color")}, "2")
    return said(text("both rounds are done"))


async def as_declared(context: Context, params: Any) -> Document:
    declared = context.session.client_capabilities
    if declared is not None and declared.sampling is not None:
        return needs({"greeting": sampling("Generate a greeting")})
    if declared is not None and declared.elicitation is not None:
        return needs({"user_name": form("What is your name?", {"name": {"type": "string"}}, "name")})
    return said(text("nothing to ask with"))


async def undeclared(context: Context, params: Any) -> Document:
    declared = context.session.client_capabilities
    if declared is None or declared.sampling is None:
        raise MCPError(
            code=types.MISSING_REQUIRED_CLIENT_CAPABILITY,
            message="this tool needs sampling",
            data={"requiredCapabilities": {"sampling": {}}},
        )
    return said(text("declared"))


Tool = Callable[[Context, Any], Awaitable[Document]]
_DEFAULTS: Final[Document] = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}
_OPTIONS: Final = ["option1", "option2", "option3"]
_TITLED: Final = [{"const": f"value{number}", "title": f"Choice {number}"} for number in (1, 2, 3)]
_ENUMS: Final[Document] = {
    "untitledSingle": {"type": "string", "enum": _OPTIONS},
    "titledSingle": {"type": "string", "oneOf": _TITLED},
    "legacyEnum": {
        "type": "string",
        "enum": ["opt1", "opt2", "opt3"],
        "enumNames": ["Option One", "Option Two", "Option Three"],
    },
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": _OPTIONS}},
    "titledMulti": {"type": "array", "items": {"anyOf": _TITLED}},
}
_USER: Final[Document] = {"username": {"type": "string"}, "email": {"type": "string"}}

TOOLS: Final[dict[str, Tool]] = {
    "test_simple_text": simple,
    "test_image_content": pictured,
    "test_audio_content": heard,
    "test_embedded_resource": resource,
    "test_multiple_content_types": mixed,
    "test_error_handling": failing,
    "test_tool_with_progress": progressing,
    "test_tool_with_logging": logging,
    "test_logging_tool": logging,
    "test_sampling": sampled,
    "test_elicitation": elicits(_USER, "username", "email", words="User response"),
    "test_elicitation_sep1034_defaults": elicits(_DEFAULTS),
    "test_elicitation_sep1330_enums": elicits(_ENUMS),
    "test_streaming_elicitation": name_asked,
    "test_missing_capability": undeclared,
    "test_input_required_result_elicitation": name_asked,
    "test_input_required_result_sampling": capital_asked,
    "test_input_required_result_list_roots": roots_asked,
    "test_input_required_result_request_state": with_state,
    "test_input_required_result_tampered_state": with_state,
    "test_input_required_result_multiple_inputs": with_many,
    "test_input_required_result_multi_round": with_rounds,
    "test_input_required_result_capabilities": as_declared,
    "json_schema_2020_12_tool": simple,
    "mirrored": simple,
}
_SCHEMAS: Final[dict[str, Document]] = {
    "json_schema_2020_12_tool": _SCHEMA,
    "mirrored": {
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}, "query": {"type": "string"}},
        "required": ["region"],
    },
}
_PROMPTS: Final = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}
_RESOURCES: Final[dict[str, Document]] = {
    "test://static-text": {
        "mimeType": "text/plain",
        "text": "This is the content of the static text resource.",
    },
    "test://static-binary": {"mimeType": "image/png", "blob": PNG},
    "test://watched-resource": {"mimeType": "text/plain", "text": "watched"},
}


async def _list_tools(context: Context, params: Any) -> Any:
    made = []
    for name in TOOLS:
        schema = _SCHEMAS.get(name, {"type": "object"})
        made.append({"name": name, "description": f"What the suite calls {name}.", "inputSchema": schema})
    return {"tools": made}


async def _call_tool(context: Context, params: types.CallToolRequestParams) -> Any:
    tool = TOOLS.get(params.name)
    if tool is None:
        raise MCPError(code=types.INVALID_PARAMS, message=f"Unknown tool: {params.name}")
    return await tool(context, params)


async def _list_resources(context: Context, params: Any) -> Any:
    return {
        "resources": [
            {"uri": uri, "name": uri, "mimeType": document["mimeType"]}
            for uri, document in _RESOURCES.items()
        ]
    }


async def _list_templates(context: Context, params: Any) -> Any:
    return {"resourceTemplates": [{"uriTemplate": "test://template/{id}/data", "name": "template"}]}


async def _read_resource(context: Context, params: types.ReadResourceRequestParams) -> Any:
    uri = str(params.uri)
    if uri in _RESOURCES:
        return {"contents": [{"uri": uri, **_RESOURCES[uri]}]}
    found = uri.removeprefix("test://template/").removesuffix("/data")
    if uri == f"test://template/{found}/data" and found:
        words = f'{{"id":"{found}","templateTest":true,"data":"Data for ID: {found}"}}'
        return {"contents": [{"uri": uri, "mimeType": "application/json", "text": words}]}
    raise MCPError(code=types.INVALID_PARAMS, message="Resource not found", data={"uri": uri})


async def _list_prompts(context: Context, params: Any) -> Any:
    return {
        "prompts": [
            {
                "name": name,
                "description": name,
                "arguments": [{"name": each, "required": True} for each in needed],
            }
            for name, needed in _PROMPTS.items()
        ]
    }


async def _get_prompt(context: Context, params: types.GetPromptRequestParams) -> Any:
    given = params.arguments or {}
    match params.name:
        case "test_simple_prompt":
            content = [text("This is a simple prompt for testing.")]
        case "test_prompt_with_arguments":
            content = [text(f"Prompt with arguments: arg1='{given.get('arg1')}', arg2='{given.get('arg2')}'")]
        case "test_prompt_with_embedded_resource":
            uri = str(given.get("resourceUri"))
            content = [
                embedded(uri, "Embedded resource content for testing."),
                text("Please process the embedded resource above."),
            ]
        case "test_prompt_with_image":
            content = [image(), text("Please analyze the image above.")]
        case "test_input_required_result_prompt":
            if "user_context" not in answers(params):
                asked = form("What context should be used?", {"context": {"type": "string"}}, "context")
                return needs({"user_context": asked})
            content = [text("With the context that was given.")]
        case _:
            raise MCPError(code=types.INVALID_PARAMS, message=f"Unknown prompt: {params.name}")
    return {"messages": [{"role": "user", "content": each} for each in content]}


async def _complete(context: Context, params: Any) -> Any:
    return {"completion": {"values": ["paris", "park"], "total": 2, "hasMore": False}}


async def _nothing(context: Context, params: Any) -> types.EmptyResult:
    return types.EmptyResult()


def _whole(
    handler: Callable[[Context, Any], Awaitable[Document]],
) -> Callable[[Context, Any], Awaitable[Any]]:
    """With what revision 2026-07-28 has in every result, and older ones leave out."""

    async def told(context: Context, params: Any) -> Document:
        return {"resultType": "complete", **await handler(context, params)}

    return told


def fixture_server() -> Server[Any]:
    """The server of the suite's own wishes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # logging, which newer revisions have given up
        return Server(
            "fixture",
            version="1",
            cache_hints={
                "tools/list": _HINT,
                "prompts/list": _HINT,
                "resources/list": _HINT,
                "resources/templates/list": _HINT,
                "resources/read": _HINT,
            },
            on_list_tools=_whole(_list_tools),
            on_call_tool=_whole(_call_tool),
            on_list_resources=_whole(_list_resources),
            on_list_resource_templates=_whole(_list_templates),
            on_read_resource=_whole(_read_resource),
            on_subscribe_resource=_nothing,
            on_unsubscribe_resource=_nothing,
            on_list_prompts=_whole(_list_prompts),
            on_get_prompt=_whole(_get_prompt),
            on_completion=_whole(_complete),
            on_set_logging_level=_nothing,
        )
