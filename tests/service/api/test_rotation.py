"""Tokens of databases and groups, and the effects of rotations on them and their streams."""

from __future__ import annotations

import jwt
import pytest
from service_calls import CLOSE, Caller, execute

ACME = "/v1/organizations/acme"
EDGE, FLIGHTS = f"{ACME}/groups/edge", f"{ACME}/databases/flights"


def reader(service, token, host="flights-acme.localhost"):
    return Caller(service, token, {"host": host})


def token(person, path, **query):
    return person.ok("POST", f"{path}/auth/tokens", None, query)["jwt"]


@pytest.fixture
def planes(ada):
    ada.ok("POST", f"{ACME}/databases", {"name": "planes", "group": "edge"})
    return "planes-acme.localhost"


def test_a_group_token_is_valid_for_all_databases_of_the_group(ada, service):
    group_token = token(ada, EDGE)
    assert reader(service, group_token).run("CREATE TABLE t (a)", "INSERT INTO t VALUES (1)").codes == ["ok"] * 3
    ada.ok("POST", f"{ACME}/databases", {"name": "late", "group": "edge"})
    assert reader(service, group_token, "late-acme.localhost").run("SELECT 1").rows() == [["1"]]


def test_a_group_token_is_invalid_for_other_groups(ada, service):
    ada.ok("POST", f"{ACME}/groups", {"name": "core", "location": "ams"})
    ada.ok("POST", f"{ACME}/databases", {"name": "secret", "group": "core"})
    answer = reader(service, token(ada, EDGE), "secret-acme.localhost").run("SELECT 1")
    assert (answer.status, answer.body["error"]) == (404, "Namespace `secret` doesn't exist")


def test_a_group_token_needs_an_address_that_names_the_database(ada, service):
    answer = reader(service, token(ada, EDGE), "127.0.0.1:8080").run("SELECT 1")
    assert answer.status == 400
    assert answer.body["error"].startswith("this token is for a group, so the address must name the database")


def test_a_group_token_is_invalid_once_its_group_was_deleted(ada, service):
    group_token = token(ada, EDGE)
    ada.ok("DELETE", EDGE)
    ada.ok("POST", f"{ACME}/groups", {"name": "edge", "location": "ams"})
    ada.ok("POST", f"{ACME}/databases", {"name": "flights", "group": "edge"})
    assert reader(service, group_token).run("SELECT 1").status == 404


def test_claims_are_those_of_libsql_servers(ada, service):
    group = service.catalog.group("acme", "edge")
    claims = jwt.decode(token(ada, EDGE, authorization="read-only"), options={"verify_signature": False})
    assert {key: claims[key] for key in ("p", "sub", "gen")} == {
        "p": {"ro": {"tags": [group.id]}}, "sub": "ada", "gen": 0,
    }  # fmt: skip
    claims = jwt.decode(token(ada, EDGE), options={"verify_signature": False})
    assert claims["p"] == {"rw": {"tags": [group.id]}}


def test_a_viewer_creates_read_only_tokens(ada, join, service):
    vera = join("vera", "viewer")
    for path in (FLIGHTS, EDGE):
        assert vera.refused("POST", f"{path}/auth/tokens") == (
            403, "your role in acme is viewer: request a read-only token",
        )  # fmt: skip
        made = token(vera, path, authorization="read-only")
        assert reader(service, made).run("SELECT 1").rows() == [["1"]]
        assert reader(service, made).run("CREATE TABLE t (a)").status == 403


def test_rotating_a_database_invalidates_its_tokens(ada, service, planes):
    before, group_before, other = token(ada, FLIGHTS), token(ada, EDGE), token(ada, f"{ACME}/databases/planes")
    assert reader(service, before).run("SELECT 1").status == 200
    assert ada.ok("POST", f"{FLIGHTS}/auth/rotate") == {}
    for void in (before, group_before):
        answer = reader(service, void).run("SELECT 1")
        assert (answer.status, answer.body["error"]) == (
            401, "Unauthorized: `The JWT is invalid`: the tokens of its database or group were rotated",
        )  # fmt: skip
    assert reader(service, other, planes).run("SELECT 1").status == 200
    assert reader(service, group_before, planes).run("SELECT 1").status == 200  # only that database was rotated
    assert reader(service, token(ada, FLIGHTS)).run("SELECT 1").status == 200


def test_rotating_a_group_invalidates_the_tokens_of_its_databases(ada, service, planes):
    before = [(token(ada, FLIGHTS), None), (token(ada, f"{ACME}/databases/planes"), planes), (token(ada, EDGE), planes)]
    assert ada.ok("POST", f"{EDGE}/auth/rotate") == {}
    for void, host in before:
        assert reader(service, void, host or "flights-acme.localhost").run("SELECT 1").status == 401
    fresh = token(ada, EDGE)
    assert reader(service, fresh).run("SELECT 1").status == 200
    assert reader(service, fresh, planes).run("SELECT 1").status == 200


def test_two_rotations_in_one_second_are_distinguished(ada, service):
    first = token(ada, FLIGHTS)
    ada.ok("POST", f"{FLIGHTS}/auth/rotate")
    second = token(ada, FLIGHTS)
    ada.ok("POST", f"{FLIGHTS}/auth/rotate")
    third = token(ada, FLIGHTS)
    assert [reader(service, secret).run("SELECT 1").status for secret in (first, second, third)] == [401, 401, 200]


def test_rotations_of_deleted_databases_are_still_counted(ada, service, planes):
    ada.ok("POST", f"{ACME}/databases/planes/auth/rotate")
    ada.ok("DELETE", f"{ACME}/databases/planes")
    between = token(ada, FLIGHTS)
    ada.ok("POST", f"{FLIGHTS}/auth/rotate")
    assert reader(service, between).run("SELECT 1").status == 401


@pytest.mark.parametrize("path", [FLIGHTS, EDGE])
def test_a_rotation_ends_the_open_streams(ada, service, path):
    before = reader(service, token(ada, FLIGHTS))
    before.run("CREATE TABLE t (a)")
    baton = before.post(execute("BEGIN IMMEDIATE"), execute("INSERT INTO t VALUES (1)")).baton
    assert len(service.engine.streams) == 1
    ada.ok("POST", f"{path}/auth/rotate")
    assert len(service.engine.streams) == 0
    assert before.post(execute("COMMIT"), baton=baton).status == 401
    after = reader(service, token(ada, FLIGHTS))
    assert after.post(execute("COMMIT"), CLOSE, baton=baton).status == 400
    assert after.run("SELECT count(*) FROM t").rows() == [["0"]]  # rolled back, and the write lock is free


def test_a_rotation_during_a_request_invalidates_its_token(ada, service, monkeypatch):
    """The rotation comes after the token is checked and before the stream is registered."""
    caller = reader(service, token(ada, FLIGHTS))
    opened = service.engine.streams.open

    def rotate_first(*args, **options):
        ada.ok("POST", f"{FLIGHTS}/auth/rotate")
        return opened(*args, **options)

    monkeypatch.setattr(service.engine.streams, "open", rotate_first)
    assert caller.post(execute("SELECT 1")).status == 401
    assert len(service.engine.streams) == 0


def test_streams_of_other_databases_continue(ada, service, planes):
    caller = reader(service, token(ada, f"{ACME}/databases/planes"), planes)
    baton = caller.post(execute("SELECT 1")).baton
    ada.ok("POST", f"{FLIGHTS}/auth/rotate")
    assert caller.post(execute("SELECT 2"), CLOSE, baton=baton).rows() == [["2"]]


def test_rotating_unknown_databases_and_groups(ada):
    assert ada.status("POST", f"{ACME}/groups/nope/auth/rotate") == 404
    assert ada.status("POST", f"{ACME}/databases/nope/auth/rotate") == 404
    assert ada.status("POST", f"{ACME}/groups/nope/auth/tokens") == 404


@pytest.mark.parametrize(
    "claims",
    [
        {"p": {"rw": {"tags": ["GROUP"]}, "ro": {"tags": ["GROUP"]}}},
        {"p": {"rw": {"tags": ["GROUP"], "ns": ["x"]}}},
        {"p": {"ddl": {"tags": ["GROUP"]}}},
        {"p": {"rw": {"tags": []}}},
        {"p": {"rw": {}}},
        {"p": None, "id": "DATABASE", "a": "rw"},
        {"id": "DATABASE", "a": "rw", "gen": "9"},
        {"id": "DATABASE", "a": "rw", "gen": True},
        {"id": "DATABASE", "a": "roa"},
    ],
)
def test_tokens_with_other_claims_are_refused(ada, service, claims):
    database = service.catalog.database("acme", "flights")
    text = {"GROUP": database.group_id, "DATABASE": database.id}

    def fill(value):
        match value:
            case dict():
                return {key: fill(item) for key, item in value.items()}
            case list():
                return [fill(item) for item in value]
            case str():
                return text.get(value, value)
        return value

    signed = jwt.encode({"sub": "ada", "iat": 1, **fill(claims)}, service.tokens._key, algorithm="EdDSA")
    assert reader(service, signed).run("SELECT 1").status == 401
