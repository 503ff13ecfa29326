"""Compression, other origins, health, the statement time limit."""

from __future__ import annotations

import json
import threading
import zlib

import apsw
import pytest
from asgi_calls import call
from service_calls import CLOSE, Caller, caller_of, entries_of, execute

from pipemagic.service import embedded
from pipemagic.service.limits import Limits
from pipemagic.service.responses import accepts_gzip
from pipemagic.service.service import Service

LONG = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 20000) SELECT n, 'row ' || n FROM c"
ENDLESS = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c"


def send(db: Caller, method, path, body=None, *, cors=(), **headers):
    """Send a request with the database's token; names of headers have underscores."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    full = {**db.headers, "authorization": f"Bearer {db.token}", **named}
    options = {"cors": cors} if cors else {}
    return call(db.service, method, path, headers=full, body=json.dumps(body).encode() if body else b"", **options)


def read(response):
    return response.read()


# Compression.


@pytest.mark.parametrize(
    ("header", "taken"),
    [
        ("gzip", True), ("br, GZip;q=0.5", True), ("*", True), ("x-gzip", True), ("gzip;q=1", True),
        ("", False), ("identity", False), ("gzip;q=0", False), ("gzip; q=0.000, *", False), ("*;q=0", False),
    ],
)  # fmt: skip
def test_clients_that_accept_gzip(header, taken):
    assert accepts_gzip(header) is taken


def test_a_cursor_is_compressed_piece_by_piece(db):
    body = {"batch": {"steps": [{"stmt": {"sql": LONG}}]}}
    answer = send(db, "POST", "/v3/cursor", body, accept_encoding="gzip")
    assert answer.headers["content-encoding"] == "gzip"
    unpack = zlib.decompressobj(16 + zlib.MAX_WBITS)
    pieces = [unpack.decompress(piece) for piece in answer.chunks]
    assert unpack.eof
    assert len(pieces) > 1
    assert b'"row"' in pieces[0]  # it can be read before the second exists
    assert len(entries_of(b"".join(pieces)).rows()) == 20_000


# Other origins.

PREFLIGHT = {"origin": "https://app.example.org", "access_control_request_method": "POST"}


def test_no_origin_is_allowed_by_default(db):
    assert send(db, "OPTIONS", "/v2/pipeline", **PREFLIGHT).status == 405
    answer = send(db, "POST", "/v1/execute", {"stmt": {"sql": "SELECT 1"}}, origin="https://app.example.org")
    assert not [name for name in answer.headers if name.startswith("access-control") or name == "vary"]


@pytest.mark.parametrize(
    ("cors", "allowed"), [(["https://app.example.org"], "https://app.example.org"), (["*"], "*"), (["https://x"], None)]
)
def test_the_named_origins_are_allowed(db, cors, allowed):
    preflight = {**PREFLIGHT, "access_control_request_headers": "authorization,x-a"}
    asked = send(db, "OPTIONS", "/v3/cursor", cors=cors, **preflight)
    body = {"stmt": {"sql": "SELECT 1"}}
    answer = send(db, "POST", "/v1/execute", body, cors=cors, origin="https://app.example.org")
    refused = send(db, "POST", "/v2/pipeline", cors=cors, origin="https://app.example.org", authorization="")
    for reply in (asked, answer, refused):
        assert reply.headers.get("access-control-allow-origin") == allowed
    for reply in (answer, refused):  # a cache must not return a response for one origin to another
        assert cors == ["*"] or "origin" in reply.headers["vary"].lower()
    assert (asked.status, read(asked), refused.status) == (
        (400, b"Disallowed CORS origin", 401) if allowed is None else (200, b"OK", 401)
    )
    if allowed is not None:
        assert asked.headers["access-control-allow-headers"] == "authorization,x-a"
        assert "POST" in asked.headers["access-control-allow-methods"]


def test_a_foreign_host_is_refused_whatever_its_origin(db):
    """The response to a preflight is the same for every host; the request that follows it is refused."""
    answer = send(db, "POST", "/v2/pipeline", cors=["*"], origin="https://evil.org", host="evil.org")
    assert answer.status == 421


# Health.


def health(db):
    answer = send(db, "GET", "/health")
    assert (read(answer), answer.content_type) == (b"", "")
    return answer.status


def test_health_is_checked_at_most_once_a_second(db, clock, service, monkeypatch):
    looks = []
    write = service.engine.health._write
    monkeypatch.setattr(service.engine.health, "_write", lambda: looks.append(write()))
    assert [health(db) for _ in range(5)] == [200] * 5
    assert len(looks) == 1
    clock.advance(1)
    assert health(db) == 200
    assert len(looks) == 2
    assert not list(service.folder.glob("health*"))


def test_a_catalog_that_was_removed_or_damaged_under_the_service_is_unhealthy(db, service, clock, caplog):
    path, aside = service.folder / "catalog.sqlite", service.folder / "aside"
    assert health(db) == 200
    path.rename(aside)
    clock.advance(1)
    assert health(db) == 503
    path.write_bytes(aside.read_bytes())  # the same, but it is not the one that is written to
    clock.advance(1)
    assert health(db) == 503
    assert "removed or replaced" in caplog.text
    aside.rename(path)
    clock.advance(1)
    assert health(db) == 200
    for damaged in (path, service.folder / "catalog.sqlite-wal"):
        with damaged.open("r+b") as file:
            file.write(bytes(damaged.stat().st_size))
    clock.advance(1)
    assert health(db) == 503


def test_a_disk_that_hangs_is_unhealthy_and_holds_one_caller_only(db, clock, service, monkeypatch):
    begun, go_on = threading.Event(), threading.Event()

    def hang():
        begun.set()
        assert go_on.wait(10)

    monkeypatch.setattr(service.engine.health, "_write", hang)
    stuck = threading.Thread(target=health, args=(db,))
    stuck.start()
    assert begun.wait(10)
    assert health(db) == 200
    clock.advance(5)
    assert health(db) == 503
    go_on.set()
    stuck.join(10)
    assert health(db) == 200


# The statement time limit.


@pytest.fixture
def hasty(tmp_path, monkeypatch):
    """A service with a real clock whose statements may run for 0.3 s, which is checked more often."""
    monkeypatch.setattr(embedded, "SWEEP_EVERY", 0.1)
    service = Service(tmp_path / "hasty", limits=Limits(statement_time=0.3))
    service.catalog.create_group("local", "default", "ams")
    service.start()
    yield caller_of(service, "flights")
    service.close()


def test_an_endless_statement_is_stopped_and_the_stream_continues(hasty):
    answer = hasty.post(execute(ENDLESS), execute("SELECT 1"))
    assert answer.codes == ["STATEMENT_TIMEOUT", "ok"]
    assert "ran for more than 0.3 s" in answer.error()["message"]
    assert "rolled back" not in answer.error()["message"]
    assert hasty.post(CLOSE, baton=answer.baton).status == 200


def test_an_endless_read_keeps_its_transaction_and_an_endless_write_does_not(hasty):
    hasty.run("CREATE TABLE t(a)")
    insert = "INSERT INTO t VALUES ({})".format
    reading = hasty.post(*map(execute, ["BEGIN", insert(1), ENDLESS, "COMMIT"]), CLOSE)
    assert reading.codes == ["ok", "ok", "STATEMENT_TIMEOUT", "ok", "ok"]
    writing = hasty.post(*map(execute, ["BEGIN", insert(2), f"INSERT INTO t {ENDLESS}", insert(3), "COMMIT"]))
    assert writing.codes == ["ok", "ok", "STATEMENT_TIMEOUT", "TRANSACTION_TIMEOUT", "TRANSACTION_TIMEOUT"]
    assert "its transaction was rolled back with it" in writing.error(2)["message"]
    after = hasty.post(execute("SELECT a FROM t"), CLOSE, baton=writing.baton)
    assert after.rows() == [["1"]]


def test_an_endless_write_outside_of_a_transaction_applies_nothing_and_reports_it(hasty):
    hasty.run("CREATE TABLE t(a)")
    endless = "INSERT INTO t WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n FROM c"
    answer = hasty.post(execute(endless), execute("INSERT INTO t VALUES (7)"), execute("SELECT a FROM t"), CLOSE)
    assert answer.codes == ["STATEMENT_TIMEOUT", "ok", "ok", "ok"]
    assert "nothing of it was applied" in answer.error()["message"]
    assert answer.rows(2) == [["7"]]


def test_an_endless_step_of_a_cursor_is_stopped(hasty):
    assert hasty.read(ENDLESS, "SELECT 1").kinds == ["step_error STATEMENT_TIMEOUT", "step_begin", "row", "step_end"]


# Other failures.

LARGE_CURSOR = {"baton": None, "batch": {"steps": [{"stmt": {"sql": "BEGIN IMMEDIATE"}}, {"stmt": {"sql": LONG}}]}}
SMALL_CURSOR = {"baton": None, "batch": {"steps": [{"stmt": {"sql": "BEGIN IMMEDIATE"}}]}}
PIPELINE = {"baton": None, "requests": [execute("BEGIN IMMEDIATE")]}
ALONE = {"stmt": {"sql": "SELECT 1"}}


@pytest.mark.parametrize(
    ("path", "body", "owner", "what"),
    [
        ("/v2/pipeline", PIPELINE, "", "_address"),
        ("/v2/pipeline", PIPELINE, "_tokens", "recheck"),
        ("/v3/cursor", SMALL_CURSOR, "", "_address"),
        ("/v3/cursor", LARGE_CURSOR, "", "_address"),
        ("/v3/cursor", SMALL_CURSOR, "_streams", "next_baton"),
        ("/v1/execute", ALONE, "", "_address"),
    ],
)
def test_a_request_that_fails_outside_of_statements_leaves_no_stream(db, service, monkeypatch, path, body, owner, what):
    """Such as without memory: a stream that stayed in use would keep the write lock."""
    db.run("CREATE TABLE t(a)")

    def fail(*_):
        raise apsw.NoMemError("out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(getattr(service.engine.api, owner) if owner else service.engine.api, what, fail)
        assert send(db, "POST", path, body).status >= 500
    assert len(service.engine.streams) == 0
    assert db.run("INSERT INTO t VALUES (1)", "SELECT * FROM t").rows(1) == [["1"]]
