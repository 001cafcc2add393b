"""The page at /docs: the OpenAPI document as plain HTML, without a script and without anything from elsewhere."""

from html import escape
from typing import Any

_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "code{background:#8882;padding:.1em .3em;border-radius:3px}h2{margin-top:2rem}"
    "dt{margin-top:1rem;font-weight:600}dd{margin:0 0 0 1.5rem}"
)
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
}


def docs_page(document: dict[str, Any]) -> str:
    """Every call with its parameters, its body and its answers."""
    calls: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, call in methods.items():
            calls.setdefault((call.get("tags") or ["service"])[0], []).append(_call(method, path, call))
    title = escape(document["info"]["title"])
    parts = [f"<h2>{escape(tag)}</h2><dl>{''.join(found)}</dl>" for tag, found in calls.items()]
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        f"<h1>{title}</h1><p>{escape(document['info'].get('description', ''))} "
        f'The whole, for programs: <a href="/openapi.json">openapi.json</a>.</p>{"".join(parts)}</html>'
    )


def _call(method: str, path: str, call: dict[str, Any]) -> str:
    lines = [f"<dt><code>{method.upper()} {escape(path)}</code></dt>"]
    for parameter in call.get("parameters", ()):
        if parameter["in"] == "query":
            text = escape(parameter.get("description", ""))
            lines.append(f"<dd><code>?{escape(parameter['name'])}=</code> {text}</dd>")
    if (body := call.get("requestBody")) is not None:
        lines.append(f"<dd>takes {_content(body['content'])}</dd>")
    for code, answer in sorted(call["responses"].items()):
        content = f": {_content(answer['content'])}" if answer.get("content") else ""
        lines.append(f"<dd>{escape(code)} {escape(answer['description'])}{content}</dd>")
    return "".join(lines)


def _content(content: dict[str, Any]) -> str:
    named = []
    for kind, each in content.items():
        name = each.get("schema", {}).get("$ref", "").rpartition("/")[2]
        named.append(f"<code>{escape(kind)}</code>" + (f" {escape(name)}" if name else ""))
    return ", ".join(named)
