"""Values of the wire, read and written with nothing of pipemagic: what its own code is held against."""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from typing import Any


def python(value: dict[str, Any]) -> Any:
    """Give the Python value of one of the wire."""
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
    """Give the value of the wire for a Python value."""
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
