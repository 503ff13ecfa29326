"""Every endpoint of the management API that the client uses, with some of the errors of that API; every error occurs.

test_refusals.py has the messages and hints of the errors, which do not depend on the endpoint.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import pytest
from refused_answers import REFUSALS, in_turn, pairs
from scripted_server import Answer, ScriptedServer, as_json, as_text

from pipemagic import errors
from pipemagic.client import transport
from pipemagic.management_api.client import Management

TOKEN, PASSWORD = "a-secret-token", "hunter2-hunter2"
ATTEMPTS = 3
ORG = "/v1/organizations/acme"
GROUP, PLACE, DATABASE = f"{ORG}/groups/edge", f"{ORG}/groups/edge/locations/nrt", f"{ORG}/databases/flights"


@dataclass(frozen=True)
class Endpoint:
    """A method of the client, and the request that it sends."""

    request: str
    ask: Callable[[Management], Any]


ENDPOINTS = {
    "signup": Endpoint("POST /v1/auth/signup", lambda api: api.signup("ada", PASSWORD)),
    "login": Endpoint("POST /v1/auth/login", lambda api: api.login("ada", PASSWORD)),
    "invalidate_logins": Endpoint("POST /v1/auth/invalidate", lambda api: api.invalidate_logins()),
    "exchange_code": Endpoint("POST /v1/auth/code", lambda api: api.exchange_code("K7QF2MXB", PASSWORD)),
    "username": Endpoint("GET /v1/user", lambda api: api.username()),
    "validate": Endpoint("GET /v1/auth/validate", lambda api: api.validate()),
    "api_tokens": Endpoint("GET /v1/auth/api-tokens", lambda api: api.api_tokens()),
    "create_api_token": Endpoint("POST /v1/auth/api-tokens/ci", lambda api: api.create_api_token("ci")),
    "revoke_api_token": Endpoint("DELETE /v1/auth/api-tokens/ci", lambda api: api.revoke_api_token("ci")),
    "organization_tokens": Endpoint(f"GET {ORG}/api-tokens", lambda api: api.organization_tokens()),
    "revoke_organization_token": Endpoint(f"DELETE {ORG}/api-tokens/x", lambda api: api.revoke_organization_token("x")),
    "locations": Endpoint("GET /v1/locations", lambda api: api.locations()),
    "closest": Endpoint("GET /v1/closest", lambda api: api.closest()),
    "organizations": Endpoint("GET /v1/organizations", lambda api: api.organizations()),
    "organization": Endpoint(f"GET {ORG}", lambda api: api.organization()),
    "create_organization": Endpoint("POST /v1/organizations", lambda api: api.create_organization("Team")),
    "update_organization": Endpoint(f"PATCH {ORG}", lambda api: api.update_organization(overages=True)),
    "members": Endpoint(f"GET {ORG}/members", lambda api: api.members()),
    "add_member": Endpoint(f"POST {ORG}/members", lambda api: api.add_member("grace")),
    "remove_member": Endpoint(f"DELETE {ORG}/members/grace", lambda api: api.remove_member("grace")),
    "audit_logs": Endpoint(f"GET {ORG}/audit-logs", lambda api: api.audit_logs()),
    "subscription": Endpoint(f"GET {ORG}/subscription", lambda api: api.subscription()),
    "plans": Endpoint(f"GET {ORG}/plans", lambda api: api.plans()),
    "usage": Endpoint(f"GET {ORG}/usage", lambda api: api.usage()),
    "groups": Endpoint(f"GET {ORG}/groups", lambda api: api.groups()),
    "group": Endpoint(f"GET {GROUP}", lambda api: api.group("edge")),
    "create_group": Endpoint(f"POST {ORG}/groups", lambda api: api.create_group("edge", "ams")),
    "delete_group": Endpoint(f"DELETE {GROUP}", lambda api: api.delete_group("edge")),
    "protect_group": Endpoint(f"PATCH {GROUP}/configuration", lambda api: api.protect_group("edge")),
    "unprotect_group": Endpoint(f"PATCH {GROUP}/configuration", lambda api: api.unprotect_group("edge")),
    "unarchive_group": Endpoint(f"POST {GROUP}/unarchive", lambda api: api.unarchive_group("edge")),
    "add_location": Endpoint(f"POST {PLACE}", lambda api: api.add_location("edge", "nrt")),
    "remove_location": Endpoint(f"DELETE {PLACE}", lambda api: api.remove_location("edge", "nrt")),
    "wait_for_location": Endpoint(f"GET {PLACE}/wait", lambda api: api.wait_for_location("edge", "nrt")),
    "pause_location": Endpoint(f"POST {PLACE}/pause", lambda api: api.pause_location("edge", "nrt")),
    "resume_location": Endpoint(f"POST {PLACE}/resume", lambda api: api.resume_location("edge", "nrt")),
    "create_group_token": Endpoint(f"POST {GROUP}/auth/tokens", lambda api: api.create_group_token("edge")),
    "invalidate_group_tokens": Endpoint(f"POST {GROUP}/auth/rotate", lambda api: api.invalidate_group_tokens("edge")),
    "databases": Endpoint(f"GET {ORG}/databases", lambda api: api.databases()),
    "database": Endpoint(f"GET {DATABASE}", lambda api: api.database("flights")),
    "create_database": Endpoint(f"POST {ORG}/databases", lambda api: api.create_database("flights", "edge")),
    "database_usage": Endpoint(f"GET {DATABASE}/usage", lambda api: api.database_usage("flights")),
    "top_queries": Endpoint(f"GET {DATABASE}/stats", lambda api: api.top_queries("flights")),
    "delete_database": Endpoint(f"DELETE {DATABASE}", lambda api: api.delete_database("flights")),
    "suspend_database": Endpoint(f"PATCH {DATABASE}/configuration", lambda api: api.suspend_database("flights")),
    "resume_database": Endpoint(f"PATCH {DATABASE}/configuration", lambda api: api.resume_database("flights")),
    "protect_database": Endpoint(f"PATCH {DATABASE}/configuration", lambda api: api.protect_database("flights")),
    "unprotect_database": Endpoint(f"PATCH {DATABASE}/configuration", lambda api: api.unprotect_database("flights")),
    "instances": Endpoint(f"GET {DATABASE}/instances", lambda api: api.instances("flights")),
    "create_token": Endpoint(f"POST {DATABASE}/auth/tokens", lambda api: api.create_token("flights")),
    "create_code": Endpoint(f"POST {DATABASE}/auth/codes", lambda api: api.create_code("flights", expiration="2h")),
    "invalidate_tokens": Endpoint(f"POST {DATABASE}/auth/rotate", lambda api: api.invalidate_tokens("flights")),
}

WORDS = {  # of the client alone: those of a session know of notebooks
    "PROTOCOL": "check that this is the address of a management API",
    "AUTH 401": "use another token; the database token and the platform token are different",
    "NOT_FOUND": "check the name; groups and databases belong to one organization",
    "402": "the organization's plan does not include this",
}


@pytest.fixture(scope="module")
def server():
    server = ScriptedServer()
    yield server
    server.close()


@pytest.fixture
def api(server, monkeypatch):
    monkeypatch.setattr(transport, "BUSY_PAUSES", (0.0,) * (ATTEMPTS - 1))
    server.calls.clear()
    with Management(server.url, TOKEN, organization="acme") as api:
        yield api


def test_every_method_of_the_client_is_here():
    own = {name for name, _ in inspect.getmembers(Management, inspect.isfunction)}
    others = {"close", "default_group", "create_reading_token"}  # the last calls create_token
    assert {name for name in own if not name.startswith("_")} - others == set(ENDPOINTS)


def requests(server):
    return [f"{call.method} {call.path.partition('?')[0]}" for call in server.calls]


PAIRS = pairs(ENDPOINTS, in_turn())
assert {status for _, status in PAIRS} == set(REFUSALS)


@pytest.mark.parametrize(("name", "status"), PAIRS)
def test_a_refusal(api, server, name, status):
    endpoint, refusal = ENDPOINTS[name], REFUSALS[status]
    server.answer = lambda _: refusal.answer
    with pytest.raises(errors.PipemagicError) as caught:
        endpoint.ask(api)
    error = caught.value
    creates = endpoint.request.startswith("POST")
    code = "SERVER" if refusal.code == "ALREADY_EXISTS" and not creates else refusal.code
    assert error.code == code
    assert refusal.says.rpartition(": ")[2] in error.message
    if isinstance(error, errors.ServerError):
        assert error.status == refusal.answer.status
    login = endpoint.request.endswith(("/signup", "/login", "/code")) and code == "AUTH"
    hint = WORDS.get(code) or WORDS.get(str(refusal.answer.status)) or WORDS.get(f"{code} {refusal.answer.status}", "")
    if not login:
        assert hint in error.hint
    if refusal.answer.status >= 500:
        assert error.hint.startswith("nothing was changed" if endpoint.request.startswith("GET") else "parts of")
    # Nothing else is sent twice, also what only asks; nor is a request before the time that the server names.
    sent = ATTEMPTS if refusal.answer.status == 429 and "Retry-After" not in (refusal.answer.headers or {}) else 1
    assert requests(server) == [endpoint.request] * sent
    assert not [secret for secret in (TOKEN, PASSWORD) if secret in f"{error}{error!r}{error.__dict__}"]


EVERYWHERE = ("validate", "revoke_api_token", "locations", "update_organization", "group", "create_group",
              "add_location", "database", "create_database")  # fmt: skip
"""Endpoints where a 404 always means an unknown name."""


@pytest.mark.parametrize("name", ENDPOINTS)
def test_an_endpoint_that_is_not_there(api, server, name):
    server.answer = lambda _: as_text("404 page not found", 404)
    with pytest.raises((errors.UnsupportedError, errors.NotFound)) as caught:
        ENDPOINTS[name].ask(api)
    assert type(caught.value) is (errors.NotFound if name in EVERYWHERE else errors.UnsupportedError)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [(Answer(404), errors.NotFound), (Answer(405), errors.UnsupportedError), (Answer(501), errors.UnsupportedError)],
    ids=["404", "405", "501"],
)
def test_an_endpoint_of_every_service_that_is_not_there(api, server, answer, kind):
    server.answer = lambda _: answer
    with pytest.raises((errors.UnsupportedError, errors.NotFound)) as caught:
        api.group("edge")
    assert type(caught.value) is kind


NEEDED = {
    **dict.fromkeys(
        ["signup", "login", "exchange_code", "create_api_token", "create_group_token", "create_token", "create_code"],
        "no token",
    ),
    **dict.fromkeys(
        [
            "api_tokens",
            "organization_tokens",
            "organizations",
            "members",
            "audit_logs",
            "plans",
            "groups",
            "databases",
            "instances",
        ],
        "no list of",
    ),
}
"""What a response without a body lacks, by endpoint; the objects of others have what the request said."""


@pytest.mark.parametrize(("name", "status"), [*zip(ENDPOINTS, cycle([200, 201, 202, 204]))])
def test_success_without_a_body(api, server, name, status):
    server.answer = lambda _: Answer(status)
    if name in NEEDED:
        with pytest.raises(errors.ProtocolError, match=NEEDED[name]):
            ENDPOINTS[name].ask(api)
        return
    ENDPOINTS[name].ask(api)
    assert requests(server) == [ENDPOINTS[name].request]


@pytest.mark.parametrize("name", ["delete_database", "create_database"])
def test_after_a_204_with_a_body_the_next_answer_is_read_right(api, server, name):
    """No body may follow a 204; if a server sends one, it is not part of the next response."""
    server.answer = lambda _: Answer(204, b'{"database": "flights"}')
    try:
        ENDPOINTS[name].ask(api)
    except errors.PipemagicError as error:
        raise AssertionError(f"a success became {error.code}") from error
    server.answer = lambda _: as_json({"locations": {"ams": "Amsterdam"}})
    assert [location.code for location in api.locations()] == ["ams"]


def test_a_wait_after_429_ends_with_the_answer(api, server):
    answers = iter([Answer(429), Answer(429), as_json({"locations": {"ams": "Amsterdam"}})])
    server.answer = lambda _: next(answers)
    assert [location.code for location in api.locations()] == ["ams"]
    assert requests(server) == ["GET /v1/locations"] * 3
