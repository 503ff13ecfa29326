"""Format bodies as short JSON: long lists are counted, long values shortened, and secrets masked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from pipemagic.client.arguments import ROWS_OF
from pipemagic.errors import ProtocolError
from pipemagic.frames.columns import read_columns
from pipemagic.hrana import columns
from pipemagic.text import mask_passwords

Json: TypeAlias = Any
"""A JSON value: dict, list, str, int, float, bool, None."""

ITEMS = 20
"""Items of a list that are shown."""

ROWS = 3
"""Rows of a result that are shown."""

LENGTH = 200
"""Characters of a text that are shown; SQL may be longer."""

SQL_LENGTH = 2000

CURSOR_LINES = 5
"""Lines of the response to a cursor that are shown."""

WIDTH = 100
"""Characters of a line of JSON."""

_BLOB = 40

_DECODER: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
_NO_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

SECRETS = (
    (re.compile(r"eyJ[\w-]{5,}\.[\w-]+(\.[\w-]*)?"), "***"),  # a JWT
    (re.compile(r"pm[pl]_[\w-]{8,}"), "***"),
    (re.compile(r"(?i)((?:auth_?token|jwt|access_token|api_?key|token)=)[^&\s'\"]+"), r"\1***"),
    (re.compile(r"(?i)(bearer\s+)[^\s'\"]{4,}"), r"\1***"),
)


def redact(text: str) -> str:
    """Mask text that looks like a token, and passwords in addresses."""
    for pattern, replacement in SECRETS:
        text = pattern.sub(replacement, text)
    return mask_passwords(text)


def outline(value: Any, key: str = "") -> Json:
    """Return an outline of a message or parsed JSON, which counts omitted items. Read only what is shown."""
    if isinstance(value, msgspec.Struct):
        value = _fields(value)
    if isinstance(value, dict):
        rows = _rows_of_columns(value, key)
        if rows is not None:
            return outline(rows, "rows")
        if str(value.get("name")).startswith(ROWS_OF):
            return {"name": value["name"], "value": "…"}
        return {_short_text(name, "name"): outline(inner, name) for name, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        limit = ROWS if key == "rows" else ITEMS
        items = [outline(inner) for inner in value[:limit]]
        return [*items, f"… {len(value) - limit:,} more"] if len(value) > limit else items
    return _short_text(value, key) if isinstance(value, str) else value


def _rows_of_columns(value: dict[str, Any], key: str) -> list[Any] | None:
    """Return the rows of columnar JSON, None for anything else: base64 would hide a secret from `redact`."""
    try:
        if key == "rows":
            parts = msgspec.convert(value, columns.Columns).parts
        elif key == "part":
            parts = [msgspec.convert(value, columns.Part)]
        else:
            return None
        return [
            list(row) for part in parts for row in zip(*(column.wire() for column in read_columns(part)), strict=True)
        ]
    except (msgspec.ValidationError, ProtocolError):
        return None


def _fields(message: msgspec.Struct) -> dict[str, Any]:
    """Return the fields of a message as in its JSON."""
    config = message.__struct_config__
    members = {} if config.tag is None else {str(config.tag_field): config.tag}
    for field in msgspec.structs.fields(message):
        value = getattr(message, field.name)
        if not config.omit_defaults or value != field.default:
            members[field.encode_name] = value
    return members


def _short_text(text: str, key: str) -> str:
    if key == "base64" and len(text) > _BLOB:
        return f"{text[:_BLOB]}… {len(text) * 3 // 4:,} bytes"
    limit = SQL_LENGTH if key == "sql" else LENGTH
    if len(text) <= limit:
        return redact(text)
    return f"{redact(text[: limit + LENGTH])[:limit]}… {len(text) - limit:,} more characters"


def parse_body(body: bytes | Json) -> Json:
    """Return a body as JSON: a cursor's response as its first lines, other text as a string, an outline unchanged."""
    if not isinstance(body, bytes):
        return body
    try:
        return msgspec.json.decode(body) if body else None
    except _NO_JSON:
        lines = b"\n".join(body.split(b"\n")[:-1][:CURSOR_LINES])  # the last line may be cut
    try:
        return [*_DECODER.decode_lines(lines), "…"] if lines else body.decode("utf-8", "replace")
    except _NO_JSON:
        return body.decode("utf-8", "replace")


def baton_of(body: bytes | Json) -> str:
    """Return the baton of a request or a response; '' if it has none."""
    baton = _head(body).get("baton")
    return baton if isinstance(baton, str) else ""


def idle_limit_of(body: bytes | Json) -> float | None:
    """Return the seconds without a request for which a stream lives after a response; None if it does not say it."""
    limit = _head(body).get("stream_ttl_ms")
    return limit / 1000 if isinstance(limit, int | float) else None


def _head(body: bytes | Json) -> dict[str, Json]:
    """Return the object with the baton: the body, or the first line of the response to a cursor."""
    parsed = parse_body(body)
    if isinstance(parsed, list) and parsed:
        parsed = parsed[0]
    return parsed if isinstance(parsed, dict) else {}


def format_json(value: Json, indent: int = 0) -> str:
    """Return JSON for people, on one line if it fits."""
    flat = msgspec.json.format(msgspec.json.encode(value), indent=0).decode("utf-8")
    if not isinstance(value, dict | list) or not value or len(flat) + indent <= WIDTH:
        return flat
    if isinstance(value, dict):
        parts = [f"{format_json(key)}: {format_json(inner, indent + 2)}" for key, inner in value.items()]
    else:
        parts = [format_json(inner, indent + 2) for inner in value]
    inside = ",\n".join(" " * (indent + 2) + part for part in parts)
    return f"{flat[0]}\n{inside}\n{' ' * indent}{flat[-1]}"


def format_seconds(seconds: float) -> str:
    """Return a short time with its unit: ``0.42 ms``."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.2f} ms"
