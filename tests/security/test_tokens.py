"""Forged, foreign and stolen tokens and batons."""

from __future__ import annotations

import base64
import json
import time

import jwt
import pytest
from account_calls import person
from asgi_calls import call
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from promises import Promise
from service_calls import CLOSE, Caller, caller_of, execute

pytestmark = pytest.mark.promise(Promise.BOUNDARIES)


def public_key(service, encoding="PEM"):
    key = serialization.load_pem_private_key((service.folder / "signing-key.pem").read_bytes(), None).public_key()
    if encoding == "Raw":
        return key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return key.public_bytes(getattr(serialization.Encoding, encoding), serialization.PublicFormat.SubjectPublicKeyInfo)


def part(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def claims_of(token):
    return jwt.decode(token, options={"verify_signature": False})


def symmetric(header, claims, secret):
    """Return a token signed symmetrically; the library refuses to sign with a public key."""
    import hmac

    head = f"{part({'typ': 'JWT', **header})}.{part(claims)}"
    seal = hmac.digest(secret, head.encode(), "sha256")
    return f"{head}.{base64.urlsafe_b64encode(seal).rstrip(b'=').decode()}"


def status(db, token, **more):
    return Caller(db.service, token, {**db.headers, **more}).post(execute("SELECT a FROM t"), CLOSE).status


def test_a_token_without_a_signature_is_refused(db):
    claims = claims_of(db.token)
    for algorithm in ("none", "None", "NONE", "nOnE", "", None):
        for signature in ("", db.token.rpartition(".")[2]):
            assert status(db, f"{part({'alg': algorithm, 'typ': 'JWT'})}.{part(claims)}.{signature}") == 401


def test_the_public_key_cannot_be_used_as_a_symmetric_key(service, db):
    claims = claims_of(db.token)
    for secret in (public_key(service), public_key(service, "DER"), public_key(service, "Raw"), b"", b"secret"):
        for algorithm in ("HS256", "EdDSA", "Ed25519"):
            assert status(db, symmetric({"alg": algorithm}, claims, secret)) == 401


def test_a_token_cannot_bring_its_own_key(service, db):
    mine = Ed25519PrivateKey.generate()
    raw = mine.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": base64.urlsafe_b64encode(raw).rstrip(b"=").decode()}
    for header in (
        {"jwk": jwk}, {"jku": "http://127.0.0.1:1/keys"}, {"x5u": "http://127.0.0.1:1/c"}, {"kid": "../../../dev/null"},
        {"kid": "' UNION SELECT 'x"}, {"kid": "/proc/self/environ"}, {"x5c": ["MIIB"]}, {"cty": "JWT"},
        {"crit": ["b64"], "b64": False},
    ):  # fmt: skip
        assert status(db, jwt.encode(claims_of(db.token), mine, "EdDSA", headers=header)) == 401


def test_a_valid_token_with_changed_claims_is_refused(db, other):
    head, _, signature = db.token.split(".")
    for change in (
        {"a": "rw", "x": 1},
        {"id": claims_of(other.token)["id"]},
        {"sub": "root"},
        {"exp": 9e9},
        {"iat": 0},
    ):
        assert status(db, f"{head}.{part({**claims_of(db.token), **change})}.{signature}") == 401


def test_a_token_of_another_database_cannot_read(service, db, other):
    host = service.catalog.database("local", "db").hostname
    assert status(db, other.token, host=host) == 404
    answer = other.post(execute("SELECT a FROM t"), CLOSE)
    assert "no such table" in answer.error()["message"]


def test_a_read_only_token_cannot_write_by_any_request(service, db):
    reader = caller_of(service, "db", read_only=True)
    write = "INSERT INTO t VALUES ('hers')"
    stored = {"type": "store_sql", "sql_id": 1, "sql": write}
    by_id = {"type": "execute", "stmt": {"sql_id": 1}}
    batch = {"type": "batch", "batch": {"steps": [{"stmt": {"sql": write}}]}}
    explained = execute(f"EXPLAIN {write}")
    for requests in (
        [execute(write)],
        [stored, by_id],
        [batch],
        [{"type": "sequence", "sql": f"SELECT 1; {write}"}],
        [explained],
    ):
        assert reader.post(*requests, CLOSE).status in (200, 403)
        assert db.run("SELECT count(*) FROM t").rows() == [["1"]]
    for sql in (
        "BEGIN IMMEDIATE",
        "VACUUM",
        "ANALYZE",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA wal_checkpoint(TRUNCATE)",
    ):
        reader.post(execute(sql), execute(write), CLOSE)
        assert db.run("SELECT count(*) FROM t").rows() == [["1"]]


def test_an_expired_token_and_a_token_that_is_not_yet_valid_are_refused(service, db):
    key = serialization.load_pem_private_key((service.folder / "signing-key.pem").read_bytes(), None)
    for change in (
        {"exp": int(time.time()) - 1},
        {"nbf": int(time.time()) + 1000},
        {"exp": "never"},
        {"exp": True},
        {"exp": -1},
    ):
        assert status(db, jwt.encode({**claims_of(db.token), **change}, key, "EdDSA")) == 401
    assert status(db, jwt.encode({**claims_of(db.token), "exp": int(time.time()) + 1000}, key, "EdDSA")) == 200


def test_a_database_token_cannot_manage_and_a_platform_token_cannot_read(service, db):
    platform = (service.folder / "platform-token").read_text().strip()
    assert status(db, platform) == 401
    for method, path in (("GET", "/v1/organizations"), ("DELETE", "/v1/organizations/local/databases/db")):
        response = call(service, method, path, headers={"host": "127.0.0.1", "authorization": f"Bearer {db.token}"})
        assert response.status == 401


def test_a_baton_is_invalid_for_another_subject_other_rights_or_another_database(service, db, other):
    baton = db.post(execute("BEGIN"), execute("INSERT INTO t VALUES ('draft')")).baton
    thief, reader = caller_of(service, "db", subject="eve"), caller_of(service, "db", read_only=True)
    for caller in (thief, reader, other):
        assert caller.post(execute("COMMIT"), baton=baton).status == 400
        assert caller.cursor("COMMIT", baton=baton).status == 400
    of_reader = reader.post(execute("BEGIN")).baton
    assert db.post(execute("INSERT INTO t VALUES ('hers')"), execute("COMMIT"), baton=of_reader).status == 400
    for forged in (baton[:-4] + "AAAA", baton.swapcase(), baton + "=", baton[4:], "", "AAAA" * 16, baton * 2):
        assert db.post(execute("COMMIT"), baton=forged).status == 400
    assert db.run("SELECT count(*) FROM t").rows() == [["1"]]
    assert db.post(execute("COMMIT"), CLOSE, baton=baton).codes == ["ok", "ok"]


def test_batons_cannot_be_guessed_from_one_another(db):
    batons = [base64.urlsafe_b64decode(db.post(execute("SELECT 1")).baton) for _ in range(20)]
    assert len({baton[:12] for baton in batons}) == len({baton[16:] for baton in batons}) == 20


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""), ("PATCH", ""), ("GET", "/databases"), ("POST", "/databases"), ("GET", "/databases/db"),
        ("DELETE", "/databases/db"), ("POST", "/databases/db/auth/tokens"), ("POST", "/databases/db/auth/rotate"),
        ("GET", "/groups"), ("DELETE", "/groups/default"), ("POST", "/groups/default/locations/fra"),
        ("GET", "/databases/db/instances"), ("GET", "/members"), ("POST", "/members/eve"),
    ],
)  # fmt: skip
def test_another_organization_looks_like_one_that_does_not_exist(service, db, method, path):
    headers = {"host": "127.0.0.1", "authorization": f"Bearer {person(service, 'eve').token}"}
    answers = []
    for slug in ("local", "nowhere"):
        response = call(service, method, f"/v1/organizations/{slug}{path}", headers=headers, body=b"{}")
        answers.append((response.status, response.read().replace(slug.encode(), b"SLUG")))
    assert answers[0][0] == 404
    assert answers[0] == answers[1]
    assert db.run("SELECT a FROM t").rows() == [["mine"]]
