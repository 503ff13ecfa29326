"""Messages as short, readable JSON: long lists counted, long values cut, secrets removed, batons named."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from pipemagic.errors import ProtocolError
from pipemagic.frames.columns import read_part
from pipemagic.hrana import columns
from pipemagic.hrana.values import Value

Json: TypeAlias = Any
"""What JSON holds: dict, list, str, int, float, bool, None."""

ITEMS = 20
"""How many items of a list are shown."""

ROWS = 3
"""How many rows of a result are shown."""

LENGTH = 200
"""How many characters of a text are shown; SQL may be longer."""

SQL_LENGTH = 2000

_BLOB = 40

SECRETS = (
    (re.compile(r"eyJ[\w-]{5,}\.[\w-]+(\.[\w-]*)?"), "***"),  # a JWT
    (re.compile(r"pm[pl]_[\w-]{8,}"), "***"),
    (re.compile(r"(?i)((?:auth_?token|jwt|access_token|api_?key|token)=)[^&\s'\"]+"), r"\1***"),
    (re.compile(r"(?i)(bearer\s+)[^\s'\"]{4,}"), r"\1***"),
    (re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://)[^/\s'\"@]+@"), r"\1***@"),  # user:password@host
)


def redact(text: str) -> str:
    """Blot out whatever looks like a token or a password in an address."""
    for pattern, instead in SECRETS:
        text = pattern.sub(instead, text)
    return text


def outline(value: Any, key: str = "") -> Json:
    """Give a message, or JSON as it was read, in short; what is left out is counted. Takes what is shown, not more."""
    if isinstance(value, msgspec.Struct):
        return {name: outline(inner, name) for name, inner in _fields(value)}
    if isinstance(value, dict):
        rows = _rows_of_columns(value, key)
        if rows is not None:
            return outline(rows, "rows")
        return {_text(str(name), "name"): outline(inner, str(name)) for name, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        limit = ROWS if key == "rows" else ITEMS
        shown = [outline(inner) for inner in value[:limit]]
        return [*shown, f"… {len(value) - limit:,} more"] if len(value) > limit else shown
    return _text(value, key) if isinstance(value, str) else value


def _rows_of_columns(value: dict[str, Any], key: str) -> list[list[Value]] | None:
    """Give the rows that JSON holds by columns, None if it is something else: a secret does not show in base64."""
    try:
        if key == "rows":
            parts = msgspec.convert(value, columns.Columns).parts
        elif key == "part":
            parts = [msgspec.convert(value, columns.Part)]
        else:
            return None
        rows = [zip(*(column.wire() for column in read_part(part)), strict=True) for part in parts]
        return [list(row) for some in rows for row in some]
    except (msgspec.ValidationError, ProtocolError):
        return None


def _fields(message: msgspec.Struct) -> list[tuple[str, Any]]:
    """Give the fields of a message as they stand on the wire."""
    config = message.__struct_config__
    tag = [(str(config.tag_field), config.tag)] if config.tag is not None else []
    fields = [(field, getattr(message, field.name)) for field in msgspec.structs.fields(message)]
    written = [
        (field.encode_name, value) for field, value in fields if not config.omit_defaults or value != field.default
    ]  # fmt: skip
    return [*tag, *written]


def _text(text: str, key: str) -> str:
    if key == "base64" and len(text) > _BLOB:
        return f"{text[:_BLOB]}… {len(text) * 3 // 4:,} bytes"
    limit = SQL_LENGTH if key == "sql" else LENGTH
    if len(text) <= limit:
        return redact(text)
    return f"{redact(text[: limit + LENGTH])[:limit]}… {len(text) - limit:,} more characters"
