"""Hints for refusals of the management API in a notebook."""

from __future__ import annotations

import pytest
from scripted_server import Answer, ScriptedServer, as_json

from pipemagic.client import transport
from pipemagic.client.secrets import BearerToken
from pipemagic.errors import AuthError, PipemagicError
from pipemagic.session import Session
from pipemagic.session.services import Embedded

SHOWN = "; %pipedb groups and %pipedb databases list the existing ones"


class Api(ScriptedServer):
    """Takes one token; ``refusal`` is answered to all that would change something."""

    token = "first-token"
    refusal: Answer | None = None

    def answer(self, call):
        if call.headers.get("authorization") != f"Bearer {self.token}":
            return as_json({"error": "could not parse jwt id"}, 401)
        if call.method != "GET":
            return self.refusal or as_json({})
        kind = call.path.rpartition("/")[2]
        return as_json({kind: {"ams": "Amsterdam"} if kind == "locations" else []})


@pytest.fixture
def api(monkeypatch):
    monkeypatch.setattr(transport, "BUSY_PAUSES", ())
    api = Api()
    yield api
    api.close()


@pytest.fixture
def session(api):
    variables = {"API_TOKEN": api.token}
    with Session(environ=variables) as session:
        session.variables = variables
        session.choose_organization("acme", at=api.url, token_env="API_TOKEN")
        yield session


@pytest.mark.parametrize(
    ("status", "words", "hint"),
    [
        (400, "group not found", "%pipedb groups lists the existing ones"),
        (400, "invalid location: xyz", "%pipedb locations lists the existing ones"),
        (400, "Invalid expiration format", "write it as 7d, 1w2d6h or never"),
        (400, "something else", ""),
        (402, "paid plans only", "the organization's plan does not include this; %pipedb usage shows the usage"),
        (403, "out of scope", "this requires another role in the organization, or a token with more permissions"),
        (404, "group not found", "%pipedb groups lists the existing ones"),
        (404, "could not find database with name x: record not found", "%pipedb databases lists the existing ones"),
        (404, "organization not found", "%pipedb organizations lists the existing ones"),
        (409, "group already exists", "choose another name, or use the existing one with --if-not-exists"),
        (422, "name not available", "choose another name, or use the existing one with --if-not-exists"),
        (429, "slow down", "nothing was run; close connections that are not needed, or try again later"),
        (500, "oh no", f"parts of the request may have been applied{SHOWN}"),
    ],
)
def test_the_hint_has_the_line_to_type(session, api, status, words, hint):
    api.refusal = as_json({"error": words}, status)
    with pytest.raises(PipemagicError) as caught:
        session.organization.create_group("edge", "ams")
    assert words in caught.value.message
    assert caught.value.hint == hint


def test_a_token_that_is_no_longer_valid_is_replaced_and_all_goes_on(session, api):
    api.token = "second-token"
    with pytest.raises(AuthError) as caught:
        session.organization.groups()
    line = f"%pipedb organization acme --at {api.url} --token-env API_TOKEN"
    assert caught.value.hint == f"put a valid platform token into the variable API_TOKEN, then {line}"
    assert caught.value.message == "the token was not accepted: could not parse jwt id"
    session.variables["API_TOKEN"] = "second-token"
    session.choose_organization("acme", at=api.url, token_env="API_TOKEN")  # what the line does
    assert session.organization.groups().complete


@pytest.mark.parametrize("variable", ["PIPEMAGIC_API_TOKEN", "TURSO_API_TOKEN"])
def test_the_usual_variable_is_named_where_the_token_came_from_it(api, variable):
    with Session(environ={variable: "wrong", "PIPEMAGIC_API_URL": api.url}) as session:
        with pytest.raises(AuthError) as caught:
            session.organization.groups()
        line = f"%pipedb organization --at {api.url} --token-env {variable}"
        assert caught.value.hint == f"put a valid platform token into the variable {variable}, then {line}"


def test_an_embedded_service_that_does_not_take_its_own_token(monkeypatch, local_service):
    embedded = Embedded(local_service.folder)
    try:
        again = embedded.management().transport
        for transport in (embedded.organization.api.transport, again):
            transport.token = BearerToken("wrong")
        monkeypatch.setattr(embedded.organization.api.transport, "find_again", lambda _: again)
        with pytest.raises(AuthError) as caught:
            embedded.organization.groups()
        assert caught.value.hint == "%pipedb stop, then %pipedb connect, restarts the service"
    finally:
        embedded.close()
