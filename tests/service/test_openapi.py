"""The description that the service serves is true and whole."""

from __future__ import annotations

import json

import pytest
from asgi_calls import call, runtime

from pipemagic.service import openapi
from pipemagic.service.database_api.endpoints import LINES, GreetingEndpoint
from pipemagic.service.management import ROUTES


def get(service, path="/openapi.json", method="GET", host="127.0.0.1:80"):
    response = call(service, method, path, headers={"host": host})
    return response.status, response.read()


def test_it_is_served_without_a_token_at_the_service_s_own_address(service, make_caller):
    status, body = get(service)
    assert status == 200
    assert json.loads(body)["openapi"] == "3.1.0"
    make_caller("db")
    assert get(service, host="db-local.localhost")[0] == 404
    assert get(service, method="DELETE")[0] == 405


POSTED = ["/v2/pipeline", "/v3/pipeline", "/v3/cursor", "/v1/execute", "/v1/batch"]


def test_it_has_the_routes_that_exist_and_no_others(service):
    described = {
        (method.upper(), path) for path, methods in openapi.description()["paths"].items() for method in methods
    }
    routes = {(route.method, route.path) for route in ROUTES}
    served = {
        ("GET" if isinstance(route.app, GreetingEndpoint) else route.app.method, route.path)
        for route in service.api.routes(runtime())
    }
    assert served == {("GET", path) for path in (*LINES, "/health")} | {("POST", path) for path in POSTED}
    own = served | {("GET", openapi.PATH)}
    assert described == routes | own


def test_what_is_written_by_hand_is_about_routes_that_exist():
    routes = {f"{route.method} {route.path}" for route in ROUTES}
    assert set(openapi.BODIES) <= routes
    assert set(openapi.QUERIES) <= routes


def test_it_says_what_a_client_that_reads_columns_sends():
    described = openapi.description()["paths"]
    asked = [path for path in POSTED if described[path]["post"].get("parameters")]
    assert asked == ["/v2/pipeline", "/v3/pipeline", "/v3/cursor"]
    for path in asked:
        (header,) = described[path]["post"]["parameters"]
        assert (header["in"], header["name"], header["required"]) == ("header", "Pipemagic-Rows", False)
        assert header["schema"]["enum"] == ["columns"]


def test_every_operation_says_what_it_does():
    for methods in openapi.description()["paths"].values():
        for operation in methods.values():
            assert operation["summary"]
            assert operation["responses"]


@pytest.mark.parametrize("path", sorted(openapi.description()["paths"]))
def test_every_described_path_answers(service, path):
    for method in openapi.description()["paths"][path]:
        status, _ = get(service, path.replace("{", "").replace("}", ""), method.upper())
        assert status in (200, 400, 401), (method, path)
