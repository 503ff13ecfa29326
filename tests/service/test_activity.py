"""What counts as use: a service that does not stay ends some time after its last lease or request with a token."""

from __future__ import annotations

import json
from functools import partial

import pytest
from asgi_calls import call

from pipemagic.service.endpoint import Runtime
from pipemagic.service.metrics import Metrics
from pipemagic.service.operator_api import Leases, operator_routes

ORG = "/v1/organizations/local"
SELECT = json.dumps({"requests": [{"type": "execute", "stmt": {"sql": "SELECT 1"}}]}).encode()
STATEMENT = json.dumps({"stmt": {"sql": "SELECT 1"}}).encode()
ROWS = """WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
    SELECT i, hex(zeroblob(500)) FROM n"""


class Used:
    """A service with its operator's routes, and the activity that the test reads."""

    def __init__(self, service, database, clock):
        self.service, self.clock, self.runtime = service, clock, Runtime(clock=clock)
        about = {"port": 8080, "url": "http://127.0.0.1:8080"}
        operator = operator_routes(
            self.runtime, service.tokens, Leases(), Metrics(), lambda: None, service.folder, about
        )  # fmt: skip
        self.call = partial(call, service, run_in=self.runtime, more_routes=operator, cors=["https://a.example"])
        platform = (service.folder / "platform-token").read_text().strip()
        self.tokens = {"database": database.token, "platform": platform, "wrong": f"{database.token}x", "none": ""}

    def begin(self, method, path, *, token, **options):
        """Send a request a minute after the last use, and return the reply as far as it was sent."""
        self.clock.advance(60)
        assert self.runtime.idle_time >= 60
        headers = {"host": "127.0.0.1:8080", **options.pop("headers", {})}
        if token != "none":
            headers["authorization"] = f"Bearer {self.tokens[token]}"
        return self.call(method, path, headers=headers, **options)


@pytest.fixture
def used(service, db, clock):
    return Used(service, db, clock)


@pytest.mark.parametrize(("method", "path", "token", "status", "body"), [
    ("POST", "/v2/pipeline", "database", 200, SELECT),
    ("POST", "/v3/pipeline", "database", 200, SELECT),
    ("POST", "/v3/pipeline", "database", 400, b"not JSON"),
    ("POST", "/v1/execute", "database", 200, STATEMENT),
    ("POST", "/v1/upload", "database", 409, b""),
    ("GET", "/info", "database", 200, b""),
    ("GET", "/dump", "database", 200, b""),
    ("GET", "/export/1", "database", 200, b""),
    ("GET", f"{ORG}/databases", "platform", 200, b""),
    ("GET", "/v1/auth/validate", "platform", 200, b""),
    ("DELETE", f"{ORG}/databases/none", "platform", 404, b""),
])  # fmt: skip
def test_requests_with_a_valid_token_are_use(used, method, path, token, status, body):
    reply = used.begin(method, path, token=token, body=body)
    reply.read()
    assert (reply.status, used.runtime.idle_time) == (status, 0)


@pytest.mark.parametrize(("method", "path", "token", "status"), [
    ("GET", "/health", "none", 200),
    ("GET", "/health", "database", 200),
    ("GET", "/version", "none", 200),
    ("GET", "/version", "database", 200),
    ("GET", "/v2", "database", 200),
    ("GET", "/metrics", "platform", 200),
    ("GET", f"/pipemagic/proof?nonce={'0' * 64}", "none", 404),
    ("GET", "/pipemagic/lease", "database", 401),
    ("GET", "/openapi.json", "platform", 200),
    ("GET", "/v1/closest", "none", 200),
    ("GET", "/nothing", "platform", 404),
    ("OPTIONS", "/v2/pipeline", "none", 200),
    ("POST", "/v2/pipeline", "none", 401),
    ("POST", "/v2/pipeline", "wrong", 401),
    ("POST", "/v2/pipeline", "platform", 401),
    ("GET", "/dump", "wrong", 401),
    ("GET", f"{ORG}/databases", "none", 401),
    ("GET", f"{ORG}/databases", "wrong", 401),
    ("GET", f"{ORG}/databases", "database", 401),
])  # fmt: skip
def test_other_requests_are_no_use(used, method, path, token, status):
    preflight = {"origin": "https://a.example", "access-control-request-method": "POST"} if method == "OPTIONS" else {}
    reply = used.begin(method, path, token=token, headers=preflight)
    reply.read()
    assert (reply.status, used.runtime.idle_time) == (status, 60)


def test_a_token_that_was_rotated_is_no_use(used):
    used.begin("POST", "/v2/pipeline", token="database", body=SELECT).read()
    used.service.catalog.rotate_database("local", "flights")
    reply = used.begin("POST", "/v2/pipeline", token="database", body=SELECT)
    reply.read()
    assert (reply.status, used.runtime.idle_time) == (401, 60)


def test_a_cursor_is_use_while_its_client_reads(used):
    body = json.dumps({"batch": {"steps": [{"stmt": {"sql": ROWS}}]}}).encode()
    reply = used.begin("POST", "/v3/cursor", token="database", body=body)
    assert next(reply.chunks)
    used.clock.advance(3)
    assert used.runtime.idle_time == 0
    reply.chunks.close()
    assert used.runtime.idle_time == 0
    used.clock.advance(3)
    assert used.runtime.idle_time == 3


def test_a_lease_is_use_until_its_client_disconnects(used):
    reply = used.begin("GET", "/pipemagic/lease", token="platform")
    assert json.loads(next(reply.chunks))["port"] == 8080
    used.clock.advance(60)
    assert used.runtime.idle_time == 0
    reply.chunks.close()
    used.clock.advance(60)
    assert used.runtime.idle_time == 60
