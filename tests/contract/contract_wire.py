"""Requests and responses as plain JSON, without code of pipemagic."""

from __future__ import annotations

import base64
import json
import math
from dataclasses import dataclass, field
from typing import Any

import httpx

CLOSE = {"type": "close"}
GET_AUTOCOMMIT = {"type": "get_autocommit"}


def value(python: Any) -> dict[str, Any]:
    match python:
        case None:
            return {"type": "null"}
        case bool() | int():
            return {"type": "integer", "value": str(int(python))}
        case float():
            return {"type": "float", "value": python}
        case str():
            return {"type": "text", "value": python}
        case bytes():
            return {"type": "blob", "base64": base64.b64encode(python).decode()}
    raise TypeError(python)


def python(wire: dict[str, Any]) -> Any:
    """Convert a value of a response to Python; assert that it has the form of the specification."""
    match wire:
        case {"type": "null", **rest} if not rest:
            return None
        case {"type": "integer", "value": str(digits), **rest} if not rest:
            assert str(int(digits)) == digits
            return int(digits)
        case {"type": "float", "value": float(number), **rest} if not rest:
            return number
        case {"type": "float", "value": None, **rest} if not rest:
            return math.nan  # an infinity of unknown sign
        case {"type": "text", "value": str(text), **rest} if not rest:
            return text
        case {"type": "blob", "base64": str(data), **rest} if not rest:
            assert not data.endswith("=")
            return base64.b64decode(data + "=" * (-len(data) % 4), validate=True)
    raise AssertionError(f"no value of an answer: {wire!r}")


def stmt(sql: str, *args: Any, **fields: Any) -> dict[str, Any]:
    made = {"sql": sql, **fields}
    if args:
        made["args"] = [value(arg) for arg in args]
    return made


def execute(sql: str, *args: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "execute", "stmt": stmt(sql, *args, **fields)}


def named(sql: str, **values: Any) -> dict[str, Any]:
    return execute(sql, named_args=[{"name": name, "value": value(argument)} for name, argument in values.items()])


def batch(*steps: str | tuple[str, dict[str, Any] | None] | dict[str, Any]) -> dict[str, Any]:
    """Return a batch request of texts, (text, condition) or complete steps."""
    made = []
    for step in steps:
        if isinstance(step, str):
            step = (step, None)
        if isinstance(step, tuple):
            step = {"stmt": {"sql": step[0]}} | ({"condition": step[1]} if step[1] is not None else {})
        made.append(step)
    return {"type": "batch", "batch": {"steps": made}}


def ok(step: int) -> dict[str, Any]:
    return {"type": "ok", "step": step}


def error(step: int) -> dict[str, Any]:
    return {"type": "error", "step": step}


def not_(cond: dict[str, Any]) -> dict[str, Any]:
    return {"type": "not", "cond": cond}


@dataclass
class Answer:
    """An HTTP response, and the parts of the response to a pipeline."""

    http: httpx.Response
    body: Any = field(init=False)

    def __post_init__(self) -> None:
        self.body = json.loads(self.http.text) if self.content_type == "application/json" else self.http.text

    @property
    def status(self) -> int:
        return self.http.status_code

    @property
    def content_type(self) -> str:
        return self.http.headers.get("content-type", "")

    @property
    def fault(self) -> str:
        """The text of an HTTP error, in any of its forms."""
        if isinstance(self.body, dict):
            return self.body.get("message") or self.body.get("error") or ""
        return self.body

    @property
    def results(self) -> list[dict[str, Any]]:
        assert self.status == 200, self.http.text
        return self.body["results"]

    @property
    def baton(self) -> str | None:
        assert self.status == 200, self.http.text
        return self.body["baton"]

    @property
    def codes(self) -> list[str]:
        """'ok', or the error's code, for each request."""
        return ["ok" if result["type"] == "ok" else result["error"]["code"] for result in self.results]

    def error(self, index: int = 0) -> dict[str, Any]:
        assert self.results[index]["type"] == "error", self.results[index]
        return self.results[index]["error"]

    def response(self, index: int = 0) -> dict[str, Any]:
        assert self.results[index]["type"] == "ok", self.results[index]
        return self.results[index]["response"]

    def result(self, index: int = 0) -> dict[str, Any]:
        return self.response(index)["result"]

    def rows(self, index: int = 0) -> list[list[Any]]:
        return [[python(cell) for cell in row] for row in self.result(index)["rows"]]

    def steps(self, index: int = 0) -> list[str]:
        """'ok', 'skipped' or the error's code, for each step of a batch."""
        result = self.result(index)
        return [
            failure["code"] if failure else "ok" if done else "skipped"
            for done, failure in zip(result["step_results"], result["step_errors"], strict=True)
        ]


def rows_of(result: dict[str, Any]) -> list[list[Any]]:
    return [[python(cell) for cell in row] for row in result["rows"]]
