"""The description of both APIs in OpenAPI 3.1, at ``GET /openapi.json``.

The paths of the management API are those of its operations. Bodies are described by the structs that decode them.
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
from pipemagic.service.api.operations import OPERATIONS, ORG, Operation
from pipemagic.service.responses import JSON
from pipemagic.service.responses import TEXT as PLAIN
from pipemagic.version import __version__

PATH = "/openapi.json"
DATABASE_API = "database"
"""The tag of the database API; those of the management API are the names of its modules."""

JsonSchema = dict[str, Any]

TEXT: JsonSchema = {"type": "string"}

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

_DATABASE_API: tuple[tuple[str, str, type, type | None, list[JsonSchema]], ...] = (
    ("/v2/pipeline", "Run requests on a stream", PipelineRequest, PipelineResponse, [_BY_COLUMNS]),
    ("/v3/pipeline", "Run requests on a stream", PipelineRequest, PipelineResponse, [_BY_COLUMNS]),
    ("/v3/cursor", "Run one batch and stream its rows as JSON lines", CursorRequest, None, [_BY_COLUMNS]),
    ("/v1/execute", "Run one statement", ExecuteBody, StatementResponse, []),
    ("/v1/batch", "Run one batch", BatchBody, StatementResponse, []),
)  # fmt: skip
"""POST requests: path, summary, body, response (None: lines of text) and parameters."""

_WITHOUT_TOKEN: tuple[tuple[str, str, JsonSchema], ...] = (
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
    for operation in OPERATIONS:
        paths[operation.path][operation.method.lower()] = _describe(operation)
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


def _describe(operation: Operation) -> dict[str, Any]:
    statuses = READING if operation.method == "GET" else CHANGING
    summary, _, details = inspect.cleandoc(operation.function.__doc__ or "").partition("\n\n")
    description: dict[str, Any] = {
        "tags": [operation.function.__module__.rpartition(".")[2]],
        "summary": summary,
        "x-permission": _permission(operation),
        "parameters": [
            *({"name": name, "in": "path", "required": True, "schema": TEXT}
              for name in re.findall(r"\{(\w+)\}", operation.path)),
            *({"name": name, "in": "query", "required": False, "schema": schema}
              for name, schema in operation.query.items()),
        ],
        "security": [] if operation.public else [{"platform": []}],
        "responses": _responses(statuses, {JSON: {"schema": {"type": ["object", "array"]}}}),
    }  # fmt: skip
    if details:
        description["description"] = details
    if operation.body is not None:
        description["requestBody"] = _body(operation.body, required=not operation.body.optional)
    return description


def _permission(operation: Operation) -> str:
    """Return who may use an operation; a role includes the higher ones."""
    if operation.public:
        return "no token needed"
    if operation.operator:
        return "operator"
    if ORG in operation.path:
        return f"{operation.needs.label}{' or operator' if operation.for_operator else ''}"
    return "any account"


def _body(kind: type, *, required: bool = True) -> dict[str, Any]:
    return {"required": required, "content": {JSON: {"schema": _ref(kind)}}}


def _ref(kind: type) -> JsonSchema:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}


def _responses(statuses: tuple[int, ...], content: dict[str, Any]) -> dict[str, Any]:
    """Describe the responses; an error is JSON, or one line of text in the database API."""
    error = {JSON: {"schema": _ref(ApiError)}, PLAIN: {"schema": TEXT}}
    return {
        str(status): {"description": HTTPStatus(status).phrase, "content": content if status == 200 else error}
        for status in statuses
    }


def _schemas() -> dict[str, JsonSchema]:
    """Return the schemas of all structs that a path refers to."""
    kinds: set[type] = {operation.body for operation in OPERATIONS if operation.body is not None}
    for _, _, body, response, _ in _DATABASE_API:
        kinds |= {body, response or ApiError}
    return msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")[1]
