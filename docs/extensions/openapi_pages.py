"""Add the endpoints of the OpenAPI description to the pages of the reference, as Markdown with real examples.

The comment `<!-- openapi: TAG -->` of a page is replaced by the endpoints with that tag of the description.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from api_examples import Example, examples

from pipemagic.service.api.openapi import description

PLACE = re.compile(r"^<!-- openapi: (\w+) -->$", re.MULTILINE)
WIDTH = 88

Operation = dict[str, Any]


def setup(app: Any) -> dict[str, bool]:
    """Register the extension."""
    app.connect("source-read", _fill)
    return {"parallel_read_safe": True}


def _fill(_app: Any, _page: str, source: list[str]) -> None:
    source[0] = PLACE.sub(lambda place: render(place[1]), source[0])


def render(tag: str) -> str:
    """Return the endpoints with a tag as Markdown; several paths of one endpoint are one section."""
    groups: dict[tuple[str, str], list[tuple[str, str, Operation]]] = {}
    for path, methods in description()["paths"].items():
        for method, operation in methods.items():
            if operation["tags"] == [tag]:
                groups.setdefault((method, operation["summary"]), []).append((method.upper(), path, operation))
    return "\n\n".join(_section(*first, [path for _, path, _ in others]) for first, *others in groups.values())


@cache
def _examples() -> dict[tuple[str, str], Example]:
    return examples()


def _section(method: str, path: str, operation: Operation, others: list[str]) -> str:
    text = _markdown(operation.get("description", ""))
    also = f"The same: {', '.join(f'`{method} {other}`' for other in others)}." if others else ""
    parts = [f"### `{method} {path}`", _sentence(operation["summary"]), text, also, _parameters(operation)]
    if "requestBody" in operation:
        parts.append(_fields(operation["requestBody"]))
    if (example := _examples().get((method, path))) is not None:
        parts += _example(method, example)
    return "\n\n".join(filter(None, parts))


def _sentence(text: str) -> str:
    return _markdown(text.rstrip(".") + ".")


def _markdown(text: str) -> str:
    """Return the text of a docstring as Markdown."""
    return re.sub(r"``([^`]+)``", r"`\1`", text)


def _parameters(operation: Operation) -> str:
    """Return the parameters that are not in the path, whose names describe those."""
    rows = [
        f"| `{parameter['name']}` | {parameter['in']} | {_type(parameter['schema'])} | "
        f"{parameter.get('description', '')} |"
        for parameter in operation.get("parameters", [])
        if parameter["in"] != "path"
    ]
    return "\n".join(["| Parameter | In | Type | Meaning |", "|---|---|---|---|", *rows]) if rows else ""


def _fields(body: dict[str, Any]) -> str:
    schema = _resolved(body["content"]["application/json"]["schema"])
    required = schema.get("required", [])
    rows = [
        f"| `{name}` | {_type(schema_)} | {'yes' if name in required else _default(schema_)} |"
        for name, schema_ in schema["properties"].items()
    ]
    text = _markdown(schema.get("description", ""))
    if not rows:
        return text
    return "\n".join([text, "", "| Field | Type | Required |", "|---|---|---|", *rows])


def _default(schema: dict[str, Any]) -> str:
    value = schema.get("default")
    return "no" if value is None else f"no, default `{json.dumps(value)}`"


def _resolved(schema: dict[str, Any]) -> dict[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    found: dict[str, Any] = description()["components"]["schemas"][name] if name else schema
    return found


def _type(schema: dict[str, Any]) -> str:
    """Return a type in words; null is left out, since it is the same as a missing field."""
    if "discriminator" in schema:
        kinds = ", ".join(f"`{kind}`" for kind in schema["discriminator"]["mapping"])
        return f"objects, whose `type` is {kinds}"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(part) for part in schema["anyOf"] if part.get("type") != "null"))
    if "$ref" in schema:
        found = _resolved(schema)
        return (
            _type(found)
            if "properties" not in found
            else "object: " + ", ".join(f"`{name}`" for name in found["properties"])
        )
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    return str(schema.get("type", "any value"))


def _example(method: str, example: Example) -> Iterator[str]:
    """Yield the request and the response."""
    body = "" if example.body in (None, {}) else f"\n\n{_json(example.body)}"
    yield f"```text\n{method} {example.path}{body}\n```"
    if isinstance(example.response, str) and example.response:
        yield f"```text\n{example.response}\n```"
    elif example.response != "":
        yield f"```json\n{_json(example.response)}\n```"


def _json(value: Any, indent: str = "") -> str:
    """Return JSON in which values that fit into a line have one."""
    line = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(line) <= WIDTH or not isinstance(value, dict | list):
        return line
    inner, start, end = f"{indent}  ", *("{}" if isinstance(value, dict) else "[]")
    names = [f"{json.dumps(name)}: " for name in value] if isinstance(value, dict) else [""] * len(value)
    values = value.values() if isinstance(value, dict) else value
    lines = [f"{inner}{name}{_json(item, inner)}" for name, item in zip(names, values, strict=True)]
    return "\n".join([start, ",\n".join(lines), indent + end])
