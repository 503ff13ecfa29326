"""The OpenAPI description is complete and correct."""

from __future__ import annotations

import json

from account_calls import person
from asgi_calls import call, runtime

from pipemagic.service.api import openapi
from pipemagic.service.api.operations import OPERATIONS
from pipemagic.service.database_api.endpoints import LINES, GreetingEndpoint


def get(service, path="/openapi.json", method="GET", host="127.0.0.1:80"):
    response = call(service, method, path, headers={"host": host})
    return response.status, response.read()


def test_the_description_needs_no_token_at_the_address_of_the_service(service, make_caller):
    status, body = get(service)
    assert status == 200
    assert json.loads(body)["openapi"] == "3.1.0"
    make_caller("db")
    assert get(service, host="db-local.localhost")[0] == 404
    assert get(service, method="DELETE")[0] == 405


POSTED = ["/v2/pipeline", "/v3/pipeline", "/v3/cursor", "/v1/execute", "/v1/batch"]


def test_the_description_has_exactly_the_existing_routes(service):
    described = {
        (method.upper(), path) for path, methods in openapi.description()["paths"].items() for method in methods
    }
    operations = {(operation.method, operation.path) for operation in OPERATIONS}
    served = {
        ("GET" if isinstance(route.app, GreetingEndpoint) else route.app.method, route.path)
        for route in service.engine.api.routes(runtime())
    }
    assert served == {("GET", path) for path in (*LINES, "/health")} | {("POST", path) for path in POSTED}
    own = served | {("GET", openapi.PATH)}
    assert described == operations | own


def test_it_describes_the_header_for_columns():
    described = openapi.description()["paths"]
    asked = [path for path in POSTED if described[path]["post"].get("parameters")]
    assert asked == ["/v2/pipeline", "/v3/pipeline", "/v3/cursor"]
    for path in asked:
        (header,) = described[path]["post"]["parameters"]
        assert (header["in"], header["name"], header["required"]) == ("header", "Pipemagic-Rows", False)
        assert header["schema"]["enum"] == ["columns"]


def test_every_documented_field_of_a_body_is_read(service):
    """A value of the wrong type is refused, with the name that is documented."""
    operator, tried = person(service, "local"), 0
    operator.ok("POST", "/v1/organizations/local/groups", {"name": "group", "location": "ams"})
    described = openapi.description()
    for path, method, schema in bodies(described):
        for name, kind in schema["properties"].items():
            wrong = {} if "array" in json.dumps(kind) else []
            body = json.dumps({**dict.fromkeys(schema["required"], "x"), name: wrong}).encode()
            headers = {
                "host": "127.0.0.1", "content-type": "application/json", "authorization": f"Bearer {operator.token}",
            }  # fmt: skip
            response = call(service, method, filled_in(path), headers=headers, body=body)
            assert (response.status, f'"{name}" must be' in json.loads(response.read())["error"]) == (400, True), (
                method, path, name,
            )  # fmt: skip
            tried += 1
    assert tried > 25


def bodies(described):
    """Yield the path, the method and the schema of each body of the management API."""
    for route in OPERATIONS:
        operation = described["paths"][route.path][route.method.lower()]
        if "requestBody" in operation:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            if "$ref" in schema:
                schema = described["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
            yield route.path, route.method, schema


def filled_in(path):
    return path.replace("{org}", "local").replace("{slug}", "local").replace("{", "").replace("}", "")
