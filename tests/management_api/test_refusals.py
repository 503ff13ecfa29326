"""Every way in which a management API refuses: what is raised, with the server's words and what helps."""

from __future__ import annotations

import json

import pytest
from scripted_server import Answer, ScriptedServer, as_json, as_text

from pipemagic import errors
from pipemagic.client import transport
from pipemagic.management_api.client import Management

TOKEN = "a-secret-token"
TAKEN = "choose another name, or use the existing one"
WHICH = "check the name; groups and databases belong to one organization"
PLAN = "the organization's plan does not include this"
PERHAPS = "parts of the request may have been applied"
OTHER_TOKEN = "use another token; the database token and the platform token are different"
BUSY = "nothing was run; close connections that are not needed, or try again later"


def said(text, status, **more):
    return as_json({"error": text, **more}, status)


def after(answer, when):
    return Answer(answer.status, answer.body, answer.content_type, {"Retry-After": when})


def create(api):
    api.create_database("flights", "edge")


def look(api):
    api.database("flights")


def delete(api):
    api.delete_database("flights")


def replicate(api):
    api.add_location("edge", "xyz")


def refused(words, status):
    return f"the server refused the request (HTTP {status}): {words}"


REFUSALS = {
    "400 group": (create, said("group not found", 400), errors.ServerError, refused("group not found", 400), ""),
    "400 taken": (
        create, said("database with same name already exists", 400), errors.AlreadyExists,
        "database with same name already exists", TAKEN,
    ),
    "401": (
        look, said("could not parse jwt id", 401), errors.AuthError,
        "the token was not accepted: could not parse jwt id", OTHER_TOKEN,
    ),
    "402": (replicate, said("needs a payment method", 402), errors.ServerError,
            refused("needs a payment method", 402), PLAN),
    "403": (
        create, said("out of scope", 403), errors.AuthError, "the token does not allow this: out of scope",
        "a token that is limited to a group needs the scope db:create",
    ),
    "403 scope": (
        create, said("the token lacks db:create", 403), errors.AuthError,
        "the token does not allow this: the token lacks db:create", "create a platform token with the scope db:create",
    ),
    "403 role": (
        create, said("your role in acme is viewer", 403), errors.AuthError,
        "the token does not allow this: your role in acme is viewer", "",
    ),
    "403 organization": (
        lambda api: api.create_group("edge", "ams"),
        said("group-scoped token cannot access org-level resources", 403), errors.AuthError,
        "the token does not allow this: group-scoped token cannot access org-level resources", "",
    ),
    "403 blocked": (create, said("quota used up", 403, code="BLOCKED"), errors.ServerError, "quota used up", ""),
    "404 database": (
        look, said("could not find database with name flights: record not found", 404), errors.NotFound,
        "not found: could not find database with name flights: record not found", WHICH,
    ),
    "404 organization": (
        create, said("organization not found", 404), errors.NotFound, "not found: organization not found", WHICH,
    ),
    "404 no endpoint": (
        delete, as_text("404 page not found", 404), errors.UnsupportedError,
        "this management API does not offer deleting databases", "",
    ),
    "405": (delete, Answer(405), errors.UnsupportedError, "this management API does not offer that", ""),
    "409": (create, said("group already exists", 409), errors.AlreadyExists, "group already exists", TAKEN),
    "409 deleting": (delete, said("in use", 409), errors.ServerError, refused("in use", 409), ""),
    "422 taken": (
        create, said("name not available", 422), errors.AlreadyExists, "name not available", TAKEN,
    ),
    "422 other": (create, said("no such size", 422), errors.ServerError, refused("no such size", 422), ""),
    "429": (create, said("slow down", 429), errors.BusyError, "the server is busy: slow down", BUSY),
    "429 seconds": (
        create, after(said("slow down", 429), "30"), errors.BusyError, "the server is busy: slow down",
        "nothing was run; close connections that are not needed; try again in 30 s",
    ),
    "429 date": (
        create, after(said("slow down", 429), "Sun, 06 Nov 1994 08:49:37 GMT"), errors.BusyError,
        "the server is busy: slow down",
        "nothing was run; close connections that are not needed; try again after 1994-11-06 08:49:37 UTC",
    ),
    "429 nonsense": (
        create, after(said("slow down", 429), "soon <b>"), errors.BusyError, "the server is busy: slow down", BUSY,
    ),
    "500": (create, said("oh no", 500), errors.ServerError, refused("oh no", 500), PERHAPS),
    "500 looking": (
        look, said("oh no", 500), errors.ServerError, refused("oh no", 500), "nothing was changed; try again later",
    ),
    "502 page": (
        create, as_text("<html>Bad <b>gateway</b></html>", 502), errors.ServerError,
        refused("received an HTML page instead of a response of the database", 502), PERHAPS,
    ),
    "503 later": (
        look, after(Answer(503), "5"), errors.ServerError, refused("the response has no text", 503),
        "nothing was changed; try again in 5 s",
    ),
    "200 no JSON": (
        look, as_text("hello", 200), errors.ProtocolError, "is not JSON",
            "check that this is the address of a management API",
    ),
}  # fmt: skip
"""The request and the response; the class, the message, and the hint of the error."""

CODES = {
    errors.AlreadyExists: "ALREADY_EXISTS", errors.AuthError: "AUTH", errors.NotFound: "NOT_FOUND",
    errors.BusyError: "BUSY", errors.UnsupportedError: "UNSUPPORTED", errors.ProtocolError: "PROTOCOL",
    errors.ServerError: "SERVER",
}  # fmt: skip


@pytest.fixture
def api(monkeypatch):
    monkeypatch.setattr(transport, "BUSY_PAUSES", ())
    server = ScriptedServer()
    with Management(server.url, TOKEN, organization="acme") as api:
        api.server = server
        yield api
    server.close()


@pytest.mark.parametrize("name", REFUSALS)
def test_raised_errors(api, name):
    ask, answer, kind, message, hint = REFUSALS[name]
    api.server.answer = lambda _: answer
    with pytest.raises(errors.PipemagicError) as caught:
        ask(api)
    error = caught.value
    assert type(error) is kind
    assert (message in error.message) if kind is errors.ProtocolError else (error.message == message)
    assert error.hint == hint
    assert error.code == ("BLOCKED" if "blocked" in name else CODES[kind])
    if isinstance(error, errors.ServerError):
        assert error.status == answer.status
    assert TOKEN not in f"{error}{error!r}"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"error": "plain words"}, "plain words"),
        ({"error": "paid only", "code": "feature_not_available_for_starter_plan"}, "paid only"),
        ({"error": {"message": "inside"}}, "inside"),
        ({"error": {"reason": "odd", "at": [1]}}, '{"reason":"odd","at":[1]}'),
        ({"error": ["one", "two"]}, '{"error": ["one", "two"]}'),
        ({"error": None}, '{"error": null}'),
        ({"error": ""}, '{"error": ""}'),
        ({"detail": "elsewhere"}, '{"detail": "elsewhere"}'),
        ({}, "{}"),
        ([], "[]"),
        ("bare", '"bare"'),
        (None, "null"),
    ],
)
def test_the_error_member_may_be_any_json(api, body, words):
    api.server.answer = lambda _: as_json(body, 400)
    with pytest.raises(errors.ServerError) as caught:
        create(api)
    assert caught.value.message == refused(words, 400)


def test_a_code_of_the_server_is_kept(api):
    api.server.answer = lambda _: said("paid only", 402, code="feature_not_available_for_starter_plan")
    with pytest.raises(errors.ServerError) as caught:
        create(api)
    assert caught.value.code == "feature_not_available_for_starter_plan"


def test_a_server_that_repeats_the_token_does_not_get_it_shown(api):
    api.server.answer = lambda call: said(f"bad token {json.dumps(call.headers['authorization'])}", 401)
    with pytest.raises(errors.AuthError) as caught:
        look(api)
    assert "bad token" in caught.value.message
    assert TOKEN not in str(caught.value)


def test_no_answer_at_all(api):
    api.server.answer = lambda _: Answer(vanish=True)
    with pytest.raises(errors.UnknownOutcome) as caught:
        create(api)
    assert caught.value.hint == "check the data before you run it again"
