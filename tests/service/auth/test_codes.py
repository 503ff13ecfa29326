"""One-time codes at the management API: what they give, when they end, and which requests are limited."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
from account_calls import person
from asgi_calls import call

from pipemagic.codes import CHARACTERS
from pipemagic.service.files import KEY_FILE
from pipemagic.service.service import Service

DATABASES = "/v1/organizations/local/databases"
CODES = f"{DATABASES}/flights/auth/codes"
KEY, OTHER = "k" * 22, "o" * 22


@pytest.fixture
def folder(new_folder, tmp_path):
    shutil.copytree(new_folder, tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture
def service(folder, wall):
    service = Service(folder, clock=wall, now=wall)
    yield service
    service.close()


@pytest.fixture
def operator(service):
    operator = person(service, "local")
    operator.ok("POST", DATABASES, {"name": "flights", "group": "default"})
    return operator


def new_code(operator, expiration="2h", path=CODES, **body):
    return operator.ok("POST", path, body, {"expiration": expiration})["code"]


def send(service, code, key=KEY, client="10.0.0.1", **headers):
    body = json.dumps({"code": code, "key": key}).encode()
    headers = {"host": "127.0.0.1:8080", "content-type": "application/json", **headers}
    return call(service, "POST", "/v1/auth/code", headers=headers, body=body, client=client)


def exchange(service, code, key=KEY, client="10.0.0.1"):
    """Return the status, and the body or the code of the error."""
    reply = send(service, code, key, client)
    body = json.loads(reply.read())
    return (200, body) if reply.status == 200 else (reply.status, body["code"])


def rights(service, token):
    grant = service.tokens.check_database(f"Bearer {token}", None)
    return grant.database.name, grant.read_only, grant.subject


def test_a_code_is_exchanged_for_a_token_that_ends_with_it(service, operator, wall):
    answer = operator.ok("POST", CODES, {}, {"expiration": "2h"})
    code = answer["code"]
    assert (len(code), set(code) <= set(CHARACTERS)) == (8, True)
    status, body = exchange(service, code)
    assert (status, body["database"], body["expires_at"]) == (200, "flights", answer["expires_at"])
    assert "url" not in body
    assert rights(service, body["jwt"]) == ("flights", False, "local")
    grant = service.tokens.check_database(f"Bearer {body['jwt']}", None)
    assert 7199 <= grant.expires - wall() <= 7201


def test_a_code_of_a_read_only_token(service, operator):
    code = operator.ok("POST", CODES, None, {"expiration": "2h", "authorization": "read-only"})["code"]
    assert rights(service, exchange(service, code)[1]["jwt"]) == ("flights", True, "local")


@pytest.mark.parametrize(("expiration", "length"), [("24h", 8), ("25h", 12), ("366d", 12)])
def test_a_code_that_is_valid_for_long_is_longer(operator, expiration, length):
    assert len(new_code(operator, expiration)) == length


@pytest.mark.parametrize("expiration", ["never", "367d"])
def test_a_code_must_expire(operator, expiration):
    refusal = operator.refused("POST", CODES, {}, {"expiration": expiration})
    assert refusal == (400, 'a code must expire: "expiration" must be at most 366d')


def test_what_people_type_is_forgiven(service, operator):
    codes = [new_code(operator) for _ in range(40)]
    for code in codes:
        lazy = code.lower().replace("0", "o").replace("1", "l")
        assert exchange(service, f" {lazy[:4]}-{lazy[4:6]} {lazy[6:]}\n")[0] == 200


def test_a_code_is_valid_once_and_its_client_can_repeat_the_request(service, operator):
    code = new_code(operator)
    assert exchange(service, code, KEY)[0] == 200
    assert exchange(service, code, OTHER) == (403, "CODE_USED")
    assert exchange(service, code, KEY)[0] == 200


def test_of_clients_that_send_a_code_at_once_exactly_one_gets_the_token(service, operator):
    for _ in range(20):
        code = new_code(operator)
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda number, code=code: exchange(service, code, f"{number}" * 22)[0], range(4)))
        assert sorted(found) == [200, 403, 403, 403]


def test_a_code_ends_with_its_time(service, operator, wall):
    unused, used = new_code(operator), new_code(operator)
    assert exchange(service, used)[0] == 200
    wall.advance(7200)
    assert exchange(service, used) == exchange(service, unused) == (403, "CODE_EXPIRED")
    wall.advance(31 * 86400)
    new_code(operator)  # removes what is long over
    assert exchange(service, unused) == (401, "CODE_WRONG")


def test_a_new_code_replaces_the_earlier_ones_of_its_database_only_if_it_shall(service, operator):
    operator.ok("POST", DATABASES, {"name": "ships", "group": "default"})
    first, other = new_code(operator), new_code(operator, path=f"{DATABASES}/ships/auth/codes")
    token = exchange(service, first)[1]["jwt"]
    second = new_code(operator)
    third = new_code(operator, replace=True)
    assert exchange(service, first) == exchange(service, second) == (403, "CODE_EXPIRED")
    assert exchange(service, third)[0] == exchange(service, other)[0] == 200
    assert rights(service, token)[0] == "flights"  # tokens are not recorded


@pytest.mark.parametrize(
    "path", [f"{DATABASES}/flights/auth/rotate", "/v1/organizations/local/groups/default/auth/rotate"]
)
def test_a_rotation_of_tokens_ends_codes(service, operator, path):
    code = new_code(operator)
    operator.ok("POST", path)
    assert exchange(service, code) == (403, "CODE_EXPIRED")


def test_the_codes_of_a_deleted_database_open_no_new_one_of_that_name(service, operator):
    code = new_code(operator)
    operator.ok("DELETE", f"{DATABASES}/flights")
    operator.ok("POST", DATABASES, {"name": "flights", "group": "default"})
    assert exchange(service, code) == (401, "CODE_WRONG")


def test_codes_survive_a_restart_and_are_not_in_the_data_folder(service, operator, folder, wall):
    codes = [new_code(operator) for _ in range(3)]
    assert exchange(service, codes[0])[0] == 200
    service.close()
    again = Service(folder, clock=wall, now=wall)
    try:
        assert [exchange(again, code, OTHER)[0] for code in codes] == [403, 200, 200]
        stored = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
        for secret in (*codes, KEY, OTHER):
            assert secret.encode() not in stored
    finally:
        again.close()


def test_a_copy_of_the_catalog_without_the_key_of_the_service_opens_nothing(service, operator, folder, wall):
    code = new_code(operator)
    service.close()
    (folder / KEY_FILE).unlink()
    other = Service(folder, clock=wall, now=wall)
    try:
        assert exchange(other, code) == (401, "CODE_WRONG")
    finally:
        other.close()


def test_only_wrong_codes_of_an_address_are_limited(service, operator, wall):
    codes = [new_code(operator) for _ in range(3)]
    assert [exchange(service, f"WRNG{number:04}")[0] for number in range(31)] == [401] * 30 + [429]
    reply = send(service, "WRNGWRNG")
    assert (reply.status, reply.headers["retry-after"]) == (429, "2")
    assert exchange(service, codes[0])[0] == 200  # the limit does not lock out those behind the same address
    assert exchange(service, codes[0], OTHER) == (403, "CODE_USED")
    assert exchange(service, "WRNGWRNG", client="10.0.0.2")[0] == 401
    wall.advance(2)
    assert [exchange(service, "WRNGWRNG")[0] for _ in range(2)] == [401, 429]
    wall.advance(60)
    assert [exchange(service, "WRNGWRNG")[0] for _ in range(31)] == [401] * 30 + [429]


def test_wrong_codes_of_many_addresses_are_limited_together(service, operator, wall):
    code = new_code(operator)
    found = [exchange(service, "WRNGWRNG", client=f"10.0.{number // 20}.1")[0] for number in range(301)]
    assert found == [401] * 300 + [429]
    assert exchange(service, code)[0] == 200
    wall.advance(60)
    assert exchange(service, "WRNGWRNG")[0] == 401


def test_right_codes_are_never_limited(service, operator):
    codes = [new_code(operator) for _ in range(200)]
    assert [exchange(service, code, f"{number:022}")[0] for number, code in enumerate(codes)] == [200] * 200
    assert exchange(service, "WRNGWRNG") == (401, "CODE_WRONG")  # those have used up nothing


def test_requests_that_are_malformed(service, operator):
    code = new_code(operator)
    assert exchange(service, code, "short") == (400, "BAD_REQUEST")
    assert send(service, code, **{"content-type": "text/plain"}).status == 400  # a form of another web page
    assert exchange(service, "") == exchange(service, "Ü\u0131") == (401, "CODE_WRONG")
    assert exchange(service, code)[0] == 200


def test_who_may_create_codes(service, operator):
    service.catalog.open_account("vera")
    operator.ok("POST", "/v1/organizations", {"name": "Acme"})
    operator.ok("POST", "/v1/organizations/acme/groups", {"name": "g", "location": "ams"})
    operator.ok("POST", "/v1/organizations/acme/databases", {"name": "flights", "group": "g"})
    operator.ok("POST", "/v1/organizations/acme/members", {"username": "vera", "role": "viewer"})
    vera, path = person(service, "vera"), "/v1/organizations/acme/databases/flights/auth/codes"
    assert vera.call("POST", path, {}, {"expiration": "2h"})[0] == 403
    assert vera.call("POST", path, {}, {"expiration": "2h", "authorization": "read-only"})[0] == 200
    entries = operator.ok("GET", "/v1/organizations/acme/audit-logs")["audit_logs"]
    assert (entries[0]["code"], entries[0]["author"], entries[0]["data"]) == (
        "db-code-create", "vera", {"database": "flights"},
    )  # fmt: skip
