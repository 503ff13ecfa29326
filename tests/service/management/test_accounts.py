"""Signing up, logging in and out, passwords; what strangers can find out and how fast."""

from __future__ import annotations

import json

import pytest
from account_calls import Person
from asgi_calls import call
from service_calls import Clock, new_service

from pipemagic.service.auth import passwords

PASSWORD = "correct horse"


def post(service, path, body, content_type="application/json"):
    headers = {"host": "127.0.0.1", "content-type": content_type}
    response = call(service, "POST", f"/v1/auth/{path}", headers=headers, body=json.dumps(body).encode())
    return response.status, json.loads(response.read())


def sign_up(service, username="grace", password=PASSWORD):
    return post(service, "signup", {"username": username, "password": password})


def log_in(service, username="grace", password=PASSWORD):
    return post(service, "login", {"username": username, "password": password})


@pytest.fixture
def cheap_passwords(monkeypatch):
    """Hash passwords with little work, where the work is not the point."""
    monkeypatch.setattr(passwords, "_COST", 2**6)


class Wall:
    """Unix time that tests move."""

    def __init__(self):
        self.time = 1_700_000_000.0

    def __call__(self):
        return self.time


@pytest.mark.usefixtures("cheap_passwords")
def test_from_signing_up_to_logging_out(tmp_path):
    wall, clock = Wall(), Clock()
    with new_service(tmp_path, now=wall, clock=clock) as service:
        status, answer = sign_up(service)
        assert (status, answer["username"], answer["organization"]) == (200, "grace", "grace")
        grace = Person(service, "grace", answer["token"])
        assert grace.ok("GET", "/v1/user") == grace.ok("GET", "/v1/current-user")
        assert grace.ok("GET", "/v1/user")["user"]["username"] == "grace"
        assert grace.ok("GET", "/v1/auth/validate") == {"exp": 1_700_000_000 + 7 * 86400}
        made = grace.ok("POST", "/v1/auth/api-tokens/laptop")["token"]

        again = Person(service, "grace", log_in(service)[1]["token"])
        assert again.token != grace.token
        assert again.ok("POST", "/v1/auth/invalidate") == {"ValidFrom": 1_700_000_000}
        assert [grace.status("GET", "/v1/user"), again.status("GET", "/v1/user")] == [401, 401]
        assert Person(service, "grace", made).ok("GET", "/v1/auth/validate") == {"exp": -1}

        last = Person(service, "grace", log_in(service)[1]["token"])
        wall.time += 7 * 86400 - 1
        assert last.status("GET", "/v1/user") == 200
        wall.time += 1
        assert last.status("GET", "/v1/user") == 401


def test_passwords_and_tokens_are_not_in_the_catalog(service, tmp_path):
    token = sign_up(service)[1]["token"]
    service.close()
    stored = b"".join(path.read_bytes() for path in (tmp_path / "data").glob("catalog.sqlite*"))
    assert b"scrypt$16384$8$5$" in stored
    assert PASSWORD.encode() not in stored
    assert token.encode() not in stored


@pytest.mark.usefixtures("cheap_passwords")
def test_a_wrong_password_and_an_unknown_name_are_answered_alike(service):
    sign_up(service)
    refusal = log_in(service, password="wrong horse")
    assert refusal == (
        401,
        {
            "error": "the username or the password is wrong", "message": "the username or the password is wrong",
            "code": "UNAUTHORIZED",
        },
    )  # fmt: skip
    assert log_in(service, username="nobody", password="wrong horse") == refusal
    assert log_in(service, username="local", password="wrong horse") == refusal  # it has no password at all


def test_an_unknown_name_costs_as_much_work(service, monkeypatch):
    work = []
    derive = passwords._derive
    monkeypatch.setattr(passwords, "_derive", lambda *args: work.append(args[2:]) or derive(*args))
    log_in(service, username="nobody")
    log_in(service, username="local")
    assert work == [(2**14, 8, 5)] * 2


@pytest.mark.usefixtures("cheap_passwords")
def test_attempts_are_throttled_for_each_name(service, clock):
    sign_up(service)
    assert [log_in(service, password="wrong horse")[0] for _ in range(5)] == [401] * 5
    status, answer = log_in(service)
    assert (status, answer["message"]) == (429, "too many attempts; try again in 12 s")
    assert log_in(service, username="nobody")[0] == 401
    clock.advance(12)
    assert log_in(service)[0] == 200
    assert [log_in(service, password="wrong horse")[0] for _ in range(6)] == [401] * 5 + [429]  # success forgave them


@pytest.mark.usefixtures("cheap_passwords")
def test_names_that_nobody_has_are_not_remembered_at_length(service):
    statuses = [log_in(service, username="x" * 33 + str(number) * 1000)[0] for number in range(6)]
    assert statuses == [401] * 5 + [429]


@pytest.mark.parametrize("password", ["seven77", "x" * 1025])
def test_unfit_passwords(service, password):
    assert sign_up(service, password=password) == (
        400,
        {"error": "a password has between 8 and 1024 characters",
         "message": "a password has between 8 and 1024 characters", "code": "BAD_REQUEST"},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("username", "status"),
    [("Grace", 400), ("a b", 400), ("", 400), ("x" * 33, 400), ("www", 422), ("local", 409), ("../x", 400)],
)
def test_unfit_usernames(service, username, status):
    assert sign_up(service, username=username)[0] == status


def test_a_name_that_an_organization_has_is_taken(service, ada):
    status, answer = sign_up(service, username="acme")
    assert (status, answer["error"]) == (409, "organization acme already exists")
    assert service.catalog.accounts.find("acme") is None


def test_a_web_page_cannot_sign_up_behind_ones_back(service):
    status, answer = post(service, "signup", {"username": "grace", "password": PASSWORD}, "text/plain;charset=UTF-8")
    assert (status, answer["error"]) == (400, "send the body with Content-Type: application/json")
    assert service.catalog.accounts.find("grace") is None


@pytest.mark.usefixtures("cheap_passwords")
def test_where_strangers_may_not_sign_up_the_operator_makes_accounts(tmp_path):
    with new_service(tmp_path, signup=False) as service:
        status, answer = sign_up(service)
        assert (status, answer["error"]) == (
            403, "this service lets nobody sign up; ask the one who runs it for an account",
        )  # fmt: skip
        operator = Person(service, "local", (tmp_path / "data" / "platform-token").read_text().strip())
        assert operator.ok("POST", "/v1/users", {"username": "grace", "password": PASSWORD})["user"]["name"] == "grace"
        assert log_in(service)[0] == 200


@pytest.mark.usefixtures("cheap_passwords")
def test_change_a_password(service):
    grace = Person(service, "grace", sign_up(service)[1]["token"])
    body = {"password": "another horse", "current": "wrong horse"}
    assert grace.refused("POST", "/v1/auth/password", body) == (401, "the username or the password is wrong")
    assert grace.ok("POST", "/v1/auth/password", {**body, "current": PASSWORD}) == {}
    assert grace.status("GET", "/v1/user") == 401  # logged out everywhere
    assert log_in(service)[0] == 401
    assert log_in(service, password="another horse")[0] == 200


@pytest.mark.usefixtures("cheap_passwords")
def test_the_operator_sets_a_first_and_a_forgotten_password(service, operator):
    sign_up(service)
    operator.ok("POST", "/v1/auth/password", {"password": "the first one"})
    assert log_in(service, username="local", password="the first one")[0] == 200
    operator.ok("POST", "/v1/auth/password", {"username": "grace", "password": "was forgotten"})
    assert log_in(service, password="was forgotten")[0] == 200
    assert operator.refused("POST", "/v1/auth/password", {"username": "zoe", "password": "long enough"}) == (
        404, "user zoe not found",
    )  # fmt: skip


def test_only_so_many_passwords_are_worked_on_at_once(service):
    passwords = service.logins._passwords
    held = [passwords._door.acquire(blocking=False) for _ in range(8)]
    assert all(held)
    status, answer = sign_up(service)
    assert (status, answer["code"]) == (429, "TOO_MANY_REQUESTS")
    for _ in held:
        passwords._door.release()
    assert sign_up(service)[0] == 200
