"""Requests leave no reference cycles: collecting those of thousands of requests would stop the service for 0.1 s."""

from __future__ import annotations

import gc
import http.client
import json
from collections import Counter

import pytest
from served_apps import serving
from service_calls import caller_of, execute

WARM, REQUESTS = 5, 20
CLOSE = {"type": "close"}
LONG = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 500000) SELECT count(*) FROM c"
"""Takes long enough for the service to watch for a disconnect of its client."""
REQUEST_KINDS = {
    "a pipeline": ("/v2/pipeline", {"requests": [execute("SELECT 1"), CLOSE]}, 200),
    "a long pipeline": ("/v2/pipeline", {"requests": [execute(LONG), CLOSE]}, 200),
    "a failing statement": ("/v2/pipeline", {"requests": [execute("SELECT no_such_column"), CLOSE]}, 200),
    "a write": ("/v2/pipeline", {"requests": [execute("PRAGMA user_version = 1"), CLOSE]}, 200),
    "a cursor": ("/v3/cursor", {"batch": {"steps": [{"stmt": {"sql": "SELECT 1"}}]}}, 200),
    "a malformed body": ("/v2/pipeline", {"requests": [{"type": "no such type"}]}, 400),
    "an unknown path": ("/v2/nothing", {}, 404),
    "the management API": ("/v1/organizations/local/databases", {}, 401),
}
SERVER = ("pipemagic", "uvicorn", "starlette", "apsw", "builtins.traceback")


@pytest.mark.parametrize(("path", "body", "status"), REQUEST_KINDS.values(), ids=REQUEST_KINDS)
def test_a_request_leaves_no_reference_cycles(service, path, body, status):
    headers, content = {"authorization": f"Bearer {caller_of(service, 'flights').token}"}, json.dumps(body)
    with serving(service) as app:
        connection = http.client.HTTPConnection("127.0.0.1", app.port)

        def request():
            connection.request("POST", path, content, headers)
            response = connection.getresponse()
            response.read()
            assert response.status == status

        for _ in range(WARM):
            request()
        gc.freeze()  # only objects of the requests are examined
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            for _ in range(REQUESTS):
                request()
            gc.collect()
            types = Counter(f"{type(found).__module__}.{type(found).__qualname__}" for found in gc.garbage)
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.unfreeze()
            connection.close()
    of_server = {name: count for name, count in types.items() if name.startswith(SERVER) and count >= REQUESTS}
    assert not of_server
