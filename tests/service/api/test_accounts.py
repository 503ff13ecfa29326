"""Sign-up, log-in, log-out and passwords; attacks by other users."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from hashlib import scrypt

import httpx
import pytest
from account_calls import Person
from asgi_calls import call, runtime
from served_apps import serving
from service_calls import Clock, new_service
from waiting import PATIENCE, until

from pipemagic.service.auth import logins

PASSWORD = "correct horse"


@pytest.fixture
def service(tmp_path, clock):
    with new_service(tmp_path, clock=clock, signup=True) as service:
        yield service


def send(service, path, body, content_type="application/json", client="127.0.0.1"):
    headers = {"host": "127.0.0.1", "content-type": content_type}
    data = json.dumps(body).encode()
    return call(service, "POST", f"/v1/auth/{path}", headers=headers, body=data, client=client)


def post(service, path, body, content_type="application/json", client="127.0.0.1"):
    response = send(service, path, body, content_type, client)
    return response.status, json.loads(response.read())


def sign_up(service, username="grace", password=PASSWORD):
    return post(service, "signup", {"username": username, "password": password})


def log_in(service, username="grace", password=PASSWORD, client="127.0.0.1"):
    return post(service, "login", {"username": username, "password": password}, client=client)


@pytest.fixture
def cheap_passwords(monkeypatch):
    """Hash passwords with little work, for tests that do not measure it."""
    monkeypatch.setattr(logins, "_COST", 2**6)


@pytest.mark.usefixtures("cheap_passwords")
def test_from_signing_up_to_logging_out(tmp_path):
    wall = Clock()
    wall.time = 1_700_000_000.0
    with new_service(tmp_path, now=wall, signup=True) as service:
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
def test_a_wrong_password_and_an_unknown_name_have_the_same_response(service):
    sign_up(service)
    refusal = log_in(service, password="wrong horse")
    assert refusal == (
        401,
        {
            "error": "wrong username or password", "message": "wrong username or password",
            "code": "UNAUTHORIZED",
        },
    )  # fmt: skip
    assert log_in(service, username="nobody", password="wrong horse") == refusal
    assert log_in(service, username="local", password="wrong horse") == refusal  # it has no password at all


def test_an_unknown_name_costs_as_much_work(service, monkeypatch):
    work = []

    def counted(password, *, n, r, p, **options):
        work.append((n, r, p))
        return scrypt(password, n=n, r=r, p=p, **options)

    monkeypatch.setattr(logins, "scrypt", counted)
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
    assert [log_in(service, password="wrong horse")[0] for _ in range(6)] == [401] * 5 + [429]  # reset by success


@pytest.mark.usefixtures("cheap_passwords")
def test_the_rate_limiter_cuts_long_names(service):
    statuses = [log_in(service, username="x" * 33 + str(number) * 1000)[0] for number in range(6)]
    assert statuses == [401] * 5 + [429]


@pytest.mark.parametrize("password", ["seven77", "x" * 1025])
def test_invalid_passwords(service, password):
    assert sign_up(service, password=password) == (
        400,
        {"error": "a password must have between 8 and 1024 characters",
         "message": "a password must have between 8 and 1024 characters", "code": "BAD_REQUEST"},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("username", "status"),
    [("Grace", 400), ("a b", 400), ("", 400), ("x" * 33, 400), ("www", 422), ("local", 409), ("../x", 400)],
)
def test_invalid_usernames(service, username, status):
    assert sign_up(service, username=username)[0] == status


def test_a_name_that_an_organization_has_is_taken(service, ada):
    status, answer = sign_up(service, username="acme")
    assert (status, answer["error"]) == (409, "organization acme already exists")
    assert service.catalog.accounts.find("acme") is None


def test_a_form_of_a_web_page_cannot_sign_up(service):
    status, answer = post(service, "signup", {"username": "grace", "password": PASSWORD}, "text/plain;charset=UTF-8")
    assert (status, answer["error"]) == (400, "send the body with Content-Type: application/json")
    assert service.catalog.accounts.find("grace") is None


@pytest.mark.usefixtures("cheap_passwords")
def test_sign_up_is_off_by_default_and_the_operator_creates_accounts(tmp_path):
    with new_service(tmp_path) as service:  # sign-up is off by default
        status, answer = sign_up(service)
        assert (status, answer["error"]) == (
            403, "sign-up is off at this service; ask its operator for an account",
        )  # fmt: skip
        operator = Person(service, "local", (tmp_path / "data" / "platform-token").read_text().strip())
        assert operator.ok("POST", "/v1/users", {"username": "grace", "password": PASSWORD})["user"]["name"] == "grace"
        assert log_in(service)[0] == 200


@pytest.mark.usefixtures("cheap_passwords")
def test_change_a_password(service):
    grace = Person(service, "grace", sign_up(service)[1]["token"])
    body = {"password": "another horse", "current": "wrong horse"}
    assert grace.refused("POST", "/v1/auth/password", body) == (401, "wrong username or password")
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


@pytest.mark.usefixtures("cheap_passwords")
def test_wrong_passwords_from_elsewhere_do_not_lock_the_owner_out(service):
    sign_up(service)
    assert [log_in(service, password="wrong horse", client="192.0.2.6")[0] for _ in range(6)] == [401] * 5 + [429]
    assert log_in(service, client="192.0.2.7")[0] == 200


@pytest.mark.usefixtures("cheap_passwords")
def test_an_address_has_a_limit_of_its_own(service, clock):
    sign_up(service, username="ada")
    statuses = [log_in(service, f"name-{number}", client="192.0.2.6")[0] for number in range(301)]
    assert statuses == [401] * 300 + [429]
    assert log_in(service, "ada", client="192.0.2.7")[0] == 200
    clock.advance(2)
    assert log_in(service, "ada", client="192.0.2.6")[0] == 200


@pytest.mark.usefixtures("cheap_passwords")
@pytest.mark.parametrize(("first", "second", "status"), [
    ("2001:db8:1:2::3", "2001:db8:1:2:ffff::4", 429), ("2001:db8:1:2::3", "2001:db8:1:3::3", 200),
    ("192.0.2.6", "::ffff:192.0.2.6", 429),
])  # fmt: skip
def test_the_addresses_of_one_network_are_one_client(service, first, second, status):
    sign_up(service)
    for _ in range(5):
        log_in(service, password="wrong horse", client=first)
    assert log_in(service, client=second)[0] == status


@pytest.mark.usefixtures("cheap_passwords")
def test_a_429_has_a_retry_after_header(service, clock):
    for _ in range(5):
        log_in(service, "nobody")
    clock.advance(0.5)
    response = send(service, "login", {"username": "nobody", "password": PASSWORD})
    assert (response.status, response.headers["retry-after"]) == (429, "12")


def test_passwords_of_others_wait_in_turn_and_hold_no_thread(service, monkeypatch):
    """Of two slots and any number of log-ins under way, another address gets the next slot."""
    busy, order = threading.Semaphore(0), []

    def slow(password, **options):
        order.append(password.decode())
        assert busy.acquire(timeout=PATIENCE)
        return scrypt(password, **{**options, "n": 2**6, "p": 1})

    monkeypatch.setattr(logins, "scrypt", slow)
    semaphore = service.logins._slots
    with ThreadPoolExecutor(20) as pool:
        flood = [pool.submit(log_in, service, f"name-{n}", f"flood {n}", "192.0.2.6") for n in range(12)]
        until(lambda: sum(map(len, semaphore._queues.values())) == 10)
        other = pool.submit(log_in, service, "ada", "ada's password", "192.0.2.7")
        until(lambda: len(semaphore._queues) == 2)
        assert runtime().executor.workers < 5
        for _ in range(13):
            busy.release()
        assert {future.result()[0] for future in [*flood, other]} == {401}
    assert order.index("ada's password") <= 3


@pytest.mark.usefixtures("cheap_passwords")
def test_the_queue_of_an_address_is_bounded(service):
    queue = service.logins._slots
    waiting = [queue.acquire("192.0.2.6") for _ in range(302)]
    assert [waiter.granted for waiter in waiting] == [True] * 2 + [False] * 300
    response = send(service, "login", {"username": "ada", "password": PASSWORD}, client="192.0.2.6")
    assert (response.status, response.headers["retry-after"]) == (429, "5")
    for _ in waiting:
        queue.release()
    assert log_in(service, client="192.0.2.6")[0] == 401


@pytest.mark.usefixtures("cheap_passwords")
def test_a_log_in_is_no_attempt_if_the_queue_is_full(service):
    """Its password was not checked: a class that logs in at once may try again."""
    sign_up(service)
    queue = service.logins._slots
    waiting = [queue.acquire("192.0.2.6") for _ in range(302)]
    responses = [log_in(service, client="192.0.2.6") for _ in range(310)]
    assert {(status, "are waiting" in body["error"]) for status, body in responses} == {(429, True)}
    for _ in waiting:
        queue.release()
    assert log_in(service, client="192.0.2.6")[0] == 200


@pytest.mark.usefixtures("cheap_passwords")
@pytest.mark.parametrize(("proxies", "status"), [([], 429), (["127.0.0.1"], 401)])
def test_the_address_of_a_client_comes_from_a_trusted_proxy(service, proxies, status):
    with serving(service, proxies=proxies) as served:

        def attempt(client):
            body = {"username": "ada", "password": "wrong horse"}
            headers = {"x-forwarded-for": client}
            return httpx.post(f"{served.url}/v1/auth/login", json=body, headers=headers, timeout=PATIENCE).status_code

        assert [attempt("192.0.2.6") for _ in range(6)] == [401] * 5 + [429]
        assert attempt("192.0.2.7") == status
