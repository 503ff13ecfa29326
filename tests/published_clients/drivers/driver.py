"""Drive one published package for the tests: each input line of JSON is a call, each output line its result.

The same lines and tagged values as in driver.mjs. This runs in the environment of the packages, which has neither
pipemagic nor pytest.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def read(value: Any) -> Any:
    match value:
        case {"int": digits}:
            return int(digits)
        case {"float": number}:
            return number
        case {"blob": digits}:
            return bytes.fromhex(digits)
        case dict():
            return {name: read(item) for name, item in value.items()}
        case list():
            return [read(item) for item in value]
    return value


def show(value: Any) -> Any:
    match value:
        case bool() | int():
            return {"int": str(int(value))}
        case float():
            return {"float": value}
        case bytes() | bytearray() | memoryview():
            return {"blob": bytes(value).hex()}
    return value


def rows_of(rows: Any) -> list[list[Any]]:
    return [[show(value) for value in row] for row in rows]


def drive(client: object) -> None:
    """Call the method that each line names, with the line's other members; at the end, `close` if there is one."""
    for line in sys.stdin:
        call = json.loads(line)
        try:
            answer = {"ok": getattr(client, call.pop("do"))(**call)}
        except Exception as error:  # noqa: BLE001 - whatever the package raises is the answer
            code = getattr(error, "code", None)
            answer = {"error": {"kind": type(error).__name__, "code": code, "message": str(error)}}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    getattr(client, "close", lambda: None)()
