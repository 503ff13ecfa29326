"""The description of both APIs in OpenAPI 3.1, at ``GET /openapi.json``.

The paths of the management API are those of its routes. Bodies are described by the structs that decode them.
"""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from functools import cache
from http import HTTPStatus
from typing import Any

import msgspec

from pipemagic.hrana import columns
from pipemagic.hrana.cursors import CursorRequest
from pipemagic.hrana.messages import BatchBody, ExecuteBody, PipelineRequest, PipelineResponse
from pipemagic.service.api.routing import ORG, ROUTES, Route
from pipemagic.service.responses import JSON
from pipemagic.service.responses import TEXT as PLAIN
from pipemagic.version import __version__

PATH = "/openapi.json"
DATABASE_API = "database"
"""The tag of the database API; those of the management API are the names of its modules."""

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}

READING = (200, 400, 401, 403, 404, 413, 429, 503)
CHANGING = (*READING, 409, 422, 507)
AT_DATABASE = (200, 400, 401, 403, 404, 409, 413, 429, 503, 507)


class ApiError(msgspec.Struct):
    """An error; ``error`` is the same as ``message``."""

    error: str
    message: str
    code: str


class StatementResponse(msgspec.Struct):
    """The result of a statement or of a batch."""

    result: dict[str, Any]


_BY_COLUMNS = {
    "name": columns.HEADER, "in": "header", "required": False, "schema": {"type": "string", "enum": [columns.VALUE]},
    "description": "the client can read large results by columns",
}  # fmt: skip

_DATABASE_API: tuple[tuple[str, str, type, type | None, list[Schema]], ...] = (
    ("/v2/pipeline", "Run requests on a stream", PipelineRequest, PipelineResponse, [_BY_COLUMNS]),
    ("/v3/pipeline", "Run requests on a stream", PipelineRequest, PipelineResponse, [_BY_COLUMNS]),
    ("/v3/cursor", "Run one batch and stream its rows as JSON lines", CursorRequest, None, [_BY_COLUMNS]),
    ("/v1/execute", "Run one statement", ExecuteBody, StatementResponse, []),
    ("/v1/batch", "Run one batch", BatchBody, StatementResponse, []),
)  # fmt: skip
"""POST requests: path, summary, body, response (None: lines of text) and parameters."""

_WITHOUT_TOKEN: tuple[tuple[str, str, Schema], ...] = (
    ("/v2", "Confirm that version 2 is supported", {PLAIN: {"schema": TEXT}}),
    ("/v3", "Confirm that version 3 is supported", {PLAIN: {"schema": TEXT}}),
    ("/version", "Return the version", {PLAIN: {"schema": TEXT}}),
    (PATH, "Describe the API", {JSON: {"schema": {"type": "object"}}}),
)
"""GET requests: path, summary and content of the response."""


@cache
def description() -> dict[str, Any]:
    """Return the description as one JSON object."""
    paths: dict[str, dict[str, Any]] = defaultdict(dict)
    healthy = {"200": {"description": "healthy"}, "503": {"description": "not healthy"}}
    paths["/health"]["get"] = {
        "tags": [DATABASE_API],
        "summary": "Check the service",
        "security": [],
        "responses": healthy,
    }
    for path, summary, content in _WITHOUT_TOKEN:
        paths[path]["get"] = {
            "tags": [DATABASE_API], "summary": summary, "security": [], "responses": _responses((200,), content),
        }  # fmt: skip
    for path, summary, body, response, parameters in _DATABASE_API:
        content = {PLAIN: {"schema": TEXT}} if response is None else {JSON: {"schema": _ref(response)}}
        paths[path]["post"] = {
            "tags": [DATABASE_API], "summary": summary, "security": [{"database": []}], "parameters": parameters,
            "requestBody": _body(body), "responses": _responses(AT_DATABASE, content),
        }  # fmt: skip
    for route in ROUTES:
        paths[route.path][route.method.lower()] = _operation(route)
    schemes = {"platform": "a platform token", "database": "a token of the database"}
    return {
        "openapi": "3.1.0",
        "info": {"title": "pipemagic", "version": __version__, "description": (__doc__ or "").partition("\n")[0]},
        "paths": paths,
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {
                name: {"type": "http", "scheme": "bearer", "description": token} for name, token in schemes.items()
            },
        },
    }


def _operation(route: Route) -> dict[str, Any]:
    statuses = READING if route.method == "GET" else CHANGING
    summary, _, details = inspect.cleandoc(route.endpoint.__doc__ or "").partition("\n\n")
    operation: dict[str, Any] = {
        "tags": [route.endpoint.__module__.rpartition(".")[2]],
        "summary": summary,
        "description": "\n\n".join(filter(None, [details, _who_may(route)])),
        "parameters": [
            *({"name": name, "in": "path", "required": True, "schema": TEXT}
              for name in re.findall(r"\{(\w+)\}", route.path)),
            *({"name": name, "in": "query", "required": False, "schema": schema}
              for name, schema in route.query.items()),
        ],
        "security": [] if route.public else [{"platform": []}],
        "responses": _responses(statuses, {JSON: {"schema": {"type": ["object", "array"]}}}),
    }  # fmt: skip
    if route.body is not None:
        operation["requestBody"] = _body(route.body, required=not route.body.optional)
    return operation


def _who_may(route: Route) -> str:
    """Return a sentence about who may use a route."""
    if route.public:
        return "This needs no token."
    if route.operator:
        return f"Only the operator {route.operator}."
    if ORG in route.path:
        operator = " The operator may use it for every organization." if route.for_operator else ""
        return f"The account needs the role {route.needs.label} in the organization, or a higher one.{operator}"
    return "All accounts may use this."


def _body(kind: type, *, required: bool = True) -> dict[str, Any]:
    return {"required": required, "content": {JSON: {"schema": _ref(kind)}}}


def _ref(kind: type) -> Schema:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}


def _responses(statuses: tuple[int, ...], content: dict[str, Any]) -> dict[str, Any]:
    """Describe the responses; an error is JSON, or one line of text in the database API."""
    error = {JSON: {"schema": _ref(ApiError)}, PLAIN: {"schema": TEXT}}
    return {
        str(status): {"description": HTTPStatus(status).phrase, "content": content if status == 200 else error}
        for status in statuses
    }


def _schemas() -> dict[str, Schema]:
    """Return the schemas of all structs that a path refers to."""
    kinds: set[type] = {route.body for route in ROUTES if route.body is not None}
    for _, _, body, response, _ in _DATABASE_API:
        kinds |= {body, response or ApiError}
    return msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")[1]
