"""The service's own description in OpenAPI 3.1, at ``GET /openapi.json``: for people, generators and fuzzers.

The paths of the management API come from its table of routes, the bodies of the database API from the structs that
decode them. The rest is written here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from http import HTTPStatus
from typing import Any

import msgspec

from pipemagic import __version__
from pipemagic.hrana import columns
from pipemagic.hrana.cursors import CursorRequest
from pipemagic.hrana.messages import BatchBody, ExecuteBody, PipelineRequest
from pipemagic.service.management import ROUTES
from pipemagic.service.management.routing import Route

PATH = "/openapi.json"

Schema = dict[str, Any]


def _object(required: str = "", /, **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": required.split()}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _many(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _maybe(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


ANY: Schema = {"type": "object"}
TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
COUNT: Schema = {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}
SIZE: Schema = {"anyOf": [COUNT, {"type": "string", "pattern": "^[0-9]{1,9}([kmgt]b)?$"}]}
NAME: Schema = {"type": "string", "pattern": "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", "maxLength": 30}
ROLE: Schema = {"type": "string", "enum": ["owner", "admin", "member", "viewer"]}

_CREDENTIALS = _object("username password", username=TEXT, password=TEXT)
_CONFIGURATION = _object(size_limit=SIZE, block_reads=FLAG, block_writes=FLAG, delete_protection=FLAG)
_QUOTAS = _object(rows_read=COUNT, rows_written=COUNT, storage_bytes=SIZE)
_ORG = "/v1/organizations/{org}"

BODIES: dict[str, Schema] = {
    "POST /v1/auth/signup": _CREDENTIALS,
    "POST /v1/auth/login": _CREDENTIALS,
    "POST /v1/auth/password": _object("password", username=TEXT, password=TEXT, current_password=TEXT),
    "POST /v1/users": _CREDENTIALS,
    "POST /v1/organizations": _object("name", name=TEXT),
    f"PATCH {_ORG}": _object("overages", overages=FLAG),
    f"POST {_ORG}/members": _object("username", username=TEXT, role=ROLE),
    f"PATCH {_ORG}/members/{{username}}": _object("role", role=ROLE),
    f"POST {_ORG}/groups": _object("name location", name=NAME, location={"type": "string", "examples": ["ams"]}),
    f"PATCH {_ORG}/groups/{{group}}/configuration": _object(delete_protection=FLAG),
    f"POST {_ORG}/databases": _object(
        "name group", name=NAME, group=NAME, size_limit=SIZE, seed=_object("type", type=TEXT, name=TEXT)
    ),
    f"PATCH {_ORG}/databases/{{db}}/configuration": _CONFIGURATION,
    "PATCH /v1/quotas": _QUOTAS,
    "PATCH /v1/quotas/{slug}": _QUOTAS,
}
"""Bodies of management requests; the others have none."""

_TOKEN_QUERY = {
    "expiration": {"type": "string", "examples": ["never", "2w1d30m"]},
    "authorization": {"type": "string", "enum": ["full-access", "read-only"]},
}
QUERIES: dict[str, Mapping[str, Schema]] = {
    f"GET {_ORG}/databases": {"group": TEXT},
    f"POST {_ORG}/databases/{{db}}/auth/tokens": _TOKEN_QUERY,
    f"POST {_ORG}/groups/{{group}}/auth/tokens": _TOKEN_QUERY,
    f"GET {_ORG}/databases/{{db}}/usage": {"from": TEXT, "to": TEXT},
    "POST /v1/organizations": {"dry_run": {"type": "string", "enum": ["true", "false"]}},
}

_BY_COLUMNS = {
    "name": columns.HEADER, "in": "header", "required": False, "schema": {"type": "string", "enum": [columns.VALUE]},
    "description": "the client reads many rows by columns, too",
}  # fmt: skip

READING = (200, 400, 401, 403, 404, 413, 429, 503)
CHANGING = (*READING, 409, 422, 507)
AT_DATABASE = (200, 400, 401, 403, 404, 409, 413, 429, 503, 507)

_BODY_TYPES = (PipelineRequest, CursorRequest, ExecuteBody, BatchBody)
SCHEMAS: dict[str, Schema] = {
    **msgspec.json.schema_components(_BODY_TYPES, ref_template="#/components/schemas/{name}")[1],
    "Error": _object("error message code", error=TEXT, message=TEXT, code=TEXT),
    "StatementResponse": _object("result", result=ANY),
    "PipelineResponse": _object(
        "baton base_url results", baton=_maybe(TEXT), base_url=_maybe(TEXT),
        results=_many(_object("type", type={"enum": ["ok", "error"]}, response=ANY, error=ANY)),
    ),
}  # fmt: skip


@cache
def description() -> dict[str, Any]:
    """Return the description as one JSON object."""
    paths: dict[str, dict[str, Any]] = {path: dict(methods) for path, methods in _database_paths().items()}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "pipemagic", "version": __version__, "description": (__doc__ or "").partition("\n")[0]},
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {
                "platform": {"type": "http", "scheme": "bearer", "description": "a platform token"},
                "database": {"type": "http", "scheme": "bearer", "description": "a token of the database"},
            },
        },
    }


def _operation(route: Route) -> dict[str, Any]:
    key = f"{route.method} {route.path}"
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": TEXT} for name in re.findall(r"\{(\w+)\}", route.path)
    ] + [
        {"name": name, "in": "query", "required": False, "schema": schema}
        for name, schema in QUERIES.get(key, {}).items()
    ]  # fmt: skip
    operation: dict[str, Any] = {
        "summary": (route.endpoint.__doc__ or "").partition("\n")[0],
        "parameters": parameters,
        "security": [] if route.public else [{"platform": []}],
        "responses": _responses(READING if route.method == "GET" else CHANGING, {"type": ["object", "array"]}),
    }
    if key in BODIES:
        operation["requestBody"] = _body(BODIES[key])
    return operation


def _body(schema: Schema) -> dict[str, Any]:
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _responses(statuses: tuple[int, ...], good: Schema) -> dict[str, Any]:
    """Describe the responses; an error is JSON, or one line of text in the database API."""
    error = {"application/json": {"schema": _ref("Error")}, "text/plain": {"schema": TEXT}}
    return {
        str(status): {
            "description": HTTPStatus(status).phrase,
            "content": {"application/json": {"schema": good}} if status == 200 else error,
        }
        for status in statuses
    }


def _database_paths() -> dict[str, dict[str, Any]]:
    """Describe the database interface: at a database's host name, or at the service's own with a token."""
    lines = {
        "/v2": "Tell that version 2 is spoken",
        "/v3": "Tell that version 3 is spoken",
        "/version": "Tell the version",
    }
    text = {"200": {"description": "OK", "content": {"text/plain": {"schema": TEXT}}}}
    empty = {"200": {"description": "well"}, "503": {"description": "not well"}}
    paths: dict[str, dict[str, Any]] = {
        path: {"get": {"summary": what, "security": [], "responses": text}} for path, what in lines.items()
    }
    paths["/health"] = {"get": {"summary": "Check the service", "security": [], "responses": empty}}
    paths[PATH] = {
        "get": {"summary": "Describe the API", "security": [], "responses": _responses((200,), {"type": "object"})}
    }
    for path in ("/v2/pipeline", "/v3/pipeline"):
        paths[path] = {"post": _posted("Run requests on a stream", "PipelineRequest", "PipelineResponse")}
    paths["/v1/execute"] = {"post": _posted("Run one statement", "ExecuteBody", "StatementResponse")}
    paths["/v1/batch"] = {"post": _posted("Run one batch", "BatchBody", "StatementResponse")}
    cursor = paths["/v3/cursor"] = {
        "post": _posted("Run one batch, its rows streamed as JSON lines", "CursorRequest", "PipelineResponse")
    }
    cursor["post"]["responses"]["200"]["content"] = {"text/plain": {"schema": TEXT}}
    for path in ("/v2/pipeline", "/v3/pipeline", "/v3/cursor"):
        paths[path]["post"]["parameters"] = [_BY_COLUMNS]
    return paths


def _posted(summary: str, body: str, answer: str) -> dict[str, Any]:
    return {
        "summary": summary, "security": [{"database": []}], "requestBody": _body(_ref(body)),
        "responses": _responses(AT_DATABASE, _ref(answer)),
    }  # fmt: skip
