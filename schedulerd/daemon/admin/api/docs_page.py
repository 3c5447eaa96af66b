"""The schema as a page to read: made once from OpenAPI, without scripts, and without requests to anywhere else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

STYLE = """\
:root { color-scheme: light dark; --line: #8884; --dim: #666; --code: #8882; --accent: #0a58ca; }
@media (prefers-color-scheme: dark) { :root { --dim: #aaa; --accent: #7ab0ff; } }
body { font: 14px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.5rem 0 .25rem; }
code { font: 13px ui-monospace, monospace; background: var(--code); padding: 0 .25rem; border-radius: 3px; }
table { border-collapse: collapse; width: 100%; table-layout: fixed; overflow-wrap: anywhere; margin: .25rem 0 .75rem; }
td, th { text-align: left; vertical-align: top; padding: .2rem .75rem .2rem 0; border-bottom: 1px solid var(--line); }
td:nth-child(1) { width: 25%; } td:nth-child(2) { color: var(--dim); width: 30%; }
h1, h2, h3, p { overflow-wrap: anywhere; }
a { color: var(--accent); } p { margin: .25rem 0; }
"""


def page(schema: Mapping[str, Any]) -> str:
    """The page for an OpenAPI schema."""
    info = schema["info"]
    body = [
        f"<h1>{escape(info['title'])}</h1><p>{_text(info['description'])}</p>",
        '<p>The same for machines: <a href="openapi.json">openapi.json</a> (OpenAPI 3.1).</p>',
        "<h2>Routes</h2>",
        *_routes(schema),
        "<h2>Models</h2>",
        *_models(schema),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(info['title'])}</title>"
        '<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="docs.css"></head>'
        f"<body><main>{''.join(body)}</main></body></html>"
    )


_CODE = re.compile("`([^`]*)`")
_PAGE_OF = re.compile(r"^(\w+?)_(\w+?)_$")


def _text(text: str) -> str:
    """A description, with names as code."""
    return _CODE.sub(r"<code>\1</code>", escape(text))


def _model(name: str) -> str:
    """The name of a model as people say it: `Page of ApplicationItem` for `Page_ApplicationItem_`."""
    return _PAGE_OF.sub(r"\1 of \2", name)


def _routes(schema: Mapping[str, Any]) -> Iterator[str]:
    prefix = str(next(iter(schema.get("servers", ())), {"url": ""})["url"])
    for path, methods in schema["paths"].items():
        for method, one in methods.items():
            yield f"<h3><code>{method.upper()} {escape(prefix + path)}</code></h3>"
            yield f"<p>{_text(one.get('description', ''))} {_answer(one)}</p>"
            parameters = [_row(each["name"], each["schema"], each.get("description", "")) for each in _named(one)]
            body = one.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
            if body:
                yield f"<p>Body: {_type(body)}</p>"
            if parameters:
                yield f"<table>{''.join(parameters)}</table>"


def _named(route: Mapping[str, Any]) -> list[Any]:
    return [one for one in route.get("parameters", []) if one["in"] in ("query", "path")]


def _answer(route: Mapping[str, Any]) -> str:
    content = route.get("responses", {}).get("200", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema")
    return f"Answer: {_type(schema)}" if schema else ""


def _models(schema: Mapping[str, Any]) -> Iterator[str]:
    for name, one in sorted(schema.get("components", {}).get("schemas", {}).items()):
        about = _text(one.get("description", ""))
        yield f'<h3 id="{escape(name, quote=True)}">{escape(_model(name))}</h3><p>{about}</p>'
        rows = [_row(field, each, each.get("description", "")) for field, each in one.get("properties", {}).items()]
        if rows:
            yield f"<table>{''.join(rows)}</table>"


def _row(name: str, schema: Mapping[str, Any], description: str) -> str:
    return f"<tr><td><code>{escape(name)}</code></td><td>{_type(schema)}</td><td>{_text(description)}</td></tr>"


def _type(schema: Mapping[str, Any]) -> str:
    """The type of a value in words, with links to models."""
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return f'<a href="#{escape(name, quote=True)}">{escape(_model(name))}</a>'
    if "anyOf" in schema or "oneOf" in schema:
        return " or ".join(map(_type, schema.get("anyOf") or schema["oneOf"]))
    if "enum" in schema or "const" in schema:
        return ", ".join(escape(repr(one)) for one in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}" if "items" in schema else "list"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"map to {_type(schema['additionalProperties'])}"
    return escape(str(schema.get("type", "")))
