"""Convert values of the protocol without code of pipemagic, for comparison with it."""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from typing import Any


def python(value: dict[str, Any]) -> Any:
    """Convert a value of the protocol to a Python value."""
    match value["type"]:
        case "null":
            return None
        case "integer":
            return int(value["value"])
        case "blob":
            return b64decode(value["base64"] + "=" * (-len(value["base64"]) % 4))
        case "float" if "sign" in value:
            assert value["value"] is None
            return math.copysign(math.inf, value["sign"])
    return value["value"]


def wire(value: Any) -> dict[str, Any]:
    """Convert a Python value to a value of the protocol."""
    match value:
        case None:
            return {"type": "null"}
        case int():
            return {"type": "integer", "value": str(value)}
        case float():
            return {"type": "float", "value": value}
        case str():
            return {"type": "text", "value": value}
    return {"type": "blob", "base64": b64encode(value).decode()}
