"""Common mistakes and failures, with their short error messages, against real servers."""

from __future__ import annotations

import ssl

import pytest
import trustme
from scripted_server import Answer, ScriptedServer, good
from sqld_server import free_port

from pipemagic.errors import (
    AddressError,
    AuthError,
    ConnectError,
    NotFound,
    ProtocolError,
    SessionError,
    StatementError,
    UnknownOutcome,
)

HTML = Answer(body=b"<!DOCTYPE html><title>Sign in</title>", content_type="text/html")


@pytest.fixture
def scripted(shell):
    shell("%config PipeMagic.read_ahead = False")  # each request has its place in the script
    servers = []

    def start(*script, **options):
        servers.append(ScriptedServer(*script))
        servers[-1].pages.update(options)
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def untrusted():
    """The address of a server with an untrusted certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    server = ScriptedServer()
    server._http.socket = context.wrap_socket(server._http.socket, server_side=True)
    yield server.url.replace("http://", "https://")
    server.close()


def few_lines(cell, kind, *texts):
    """Check the class and texts of an error, and that it is short, without a traceback, and printed once."""
    assert isinstance(cell.error, kind), cell.error
    assert cell.err == ""
    assert len(cell.out.splitlines()) <= 6
    assert "Traceback" not in cell.out
    assert "site-packages" not in cell.out
    for text in texts:
        assert text in cell.out


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("postgres://host/db", "postgres:// is not an address of a database server"),
        ("http://", "no valid host name"),
        ("http://a b", "%pipedb help connect shows the usage"),
        ("http://host:99999", "not a number from 1 to 65535"),
        ("http://user:secret@host", "contains a token or a password"),
    ],
)
def test_a_wrong_address(shell, address, text):
    cell = shell.fails(f"%pipedb connect {address}")
    assert text in cell.out + cell.err
    assert "secret" not in cell.out + cell.err


def test_a_refused_connection(shell):
    few_lines(shell.fails(f"%pipedb connect http://127.0.0.1:{free_port()}"), ConnectError, "connection refused")


def test_an_unknown_host(shell):
    few_lines(shell.fails("%pipedb connect http://nowhere.invalid"), ConnectError, "nowhere.invalid")


def test_an_untrusted_certificate(shell, untrusted):
    few_lines(shell.fails(f"%pipedb connect {untrusted}"), ConnectError, "is not trusted")


def test_http_instead_of_https_and_the_reverse(shell, untrusted, scripted):
    plain = untrusted.replace("https://", "http://")
    few_lines(shell.fails(f"%pipedb connect {plain}"), UnknownOutcome, "ended before the response was complete")
    tls = scripted().url.replace("http://", "https://")
    few_lines(shell.fails(f"%pipedb connect {tls}"), ConnectError, "use http:// for a server")


def test_a_web_page_instead_of_a_database(shell, scripted):
    server = scripted(HTML, **{"/v3": HTML})
    few_lines(shell.fails(f"%pipedb connect {server.url}"), ProtocolError, "received an HTML page")


def test_a_truncated_body(shell, scripted):
    server = scripted(good, Answer(body=b'{"baton": null, "results": []}', cut=12))
    shell(f"%pipedb connect {server.url} --as db")
    few_lines(shell.fails("%sql INSERT INTO t VALUES (1)"), UnknownOutcome, "may have run", "check the data")
    assert len([call for call in server.calls if "INSERT" in str(call.body)]) == 1  # never sent twice


def test_wrong_and_expired_tokens(shell, sqld_database, monkeypatch):
    monkeypatch.setenv("WRONG", "not.a.token")
    monkeypatch.setenv("EXPIRED", sqld_database.mint(exp=1_000_000))
    for variable in ("WRONG", "EXPIRED"):
        cell = shell.fails(f"%pipedb connect {sqld_database.url} --token-env {variable}")
        few_lines(cell, AuthError, "the token was not accepted", f"put a new token into the variable {variable}")
    assert isinstance(shell.fails(f"%pipedb connect {sqld_database.url} --token-env NOT_SET").error, SessionError)


def test_a_missing_database(shell, sqld_database, monkeypatch):
    monkeypatch.setenv("PIPEMAGIC_TOKEN", sqld_database.token)
    nowhere = sqld_database.url.replace(sqld_database.name, "nowhere")
    few_lines(shell.fails(f"%pipedb connect {nowhere}"), NotFound, "not found")


def test_an_address_that_redirects(shell, scripted):
    server = scripted(Answer(302, headers={"Location": "https://elsewhere.example/v3/pipeline"}))
    few_lines(shell.fails(f"%pipedb connect {server.url}"), AddressError, "redirects to elsewhere.example")


@pytest.mark.parametrize(
    "query",
    [
        r"""SELECT '["a\ud800b"]' ->> 0 AS s""",
        r"""SELECT json_extract('["\ud83d"]', '$[0]') || 'x' AS s, 1 AS ok""",
        r"""WITH n(i) AS (SELECT value FROM generate_series(1, 11))
        SELECT i, CASE i WHEN 11 THEN json_extract('["\ud83d"]', '$[0]') END AS s FROM n""",
    ],
)
def test_half_an_emoji_out_of_json_is_a_plain_error_and_the_connection_stays(db, query):
    db("%sql CREATE TEMP TABLE seen (a); BEGIN; INSERT INTO seen VALUES (1)")
    failed = db.fails(f"%%sql\n{query}").error
    assert isinstance(failed, StatementError)
    assert "not valid UTF-8" in failed.message
    assert "CAST(... AS BLOB)" in str(failed)
    assert db("%sql SELECT a FROM seen").value["a"].tolist() == [1]
    db("%sql COMMIT")
