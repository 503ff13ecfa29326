from __future__ import annotations

import socket
from contextlib import suppress

import httpx
import pandas as pd
import pytest
from scripted_server import Answer, good

import pipemagic
from pipemagic import errors
from pipemagic.client.database import Database
from pipemagic.client.stream import Dialect
from pipemagic.hrana.messages import Execute, Stmt


def sql(text: str) -> Execute:
    return Execute(Stmt(text))


def count(database: Database, table: str = "t") -> int:
    return database.execute(f"SELECT count(*) FROM {table}").rows[0][0]


# -- every server


def test_a_result(database) -> None:
    result = database.execute("SELECT ?1 AS a, ?2 AS a, NULL AS \"\", x'00ff' AS blob", [2**53 + 1, "é\0😀"])
    assert result.columns == ("a", "a", "", "blob")
    assert result.rows == [(2**53 + 1, "é\0😀", None, b"\0\xff")]
    assert result.affected_row_count == 0


def test_writes_are_counted(database) -> None:
    database.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)")
    inserted = database.execute("INSERT INTO t(b) VALUES ('x'), ('y')")
    assert inserted.affected_row_count == 2
    assert inserted.last_insert_rowid == 2
    assert database.execute("UPDATE t SET b = 'z'").affected_row_count == 2


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM nope",
        "SELECT nope FROM t",
        "INSERT INTO t (nope) VALUES (1)",
        "DROP VIEW nope",
        "CREATE INDEX i ON nope (a)",
        "ALTER TABLE t RENAME COLUMN nope TO b",
    ],
)
def test_unknown_tables_and_columns_have_one_code(database, statement) -> None:
    database.execute("CREATE TABLE t(a)")
    with pytest.raises(errors.StatementError, match="nope") as caught:
        database.execute(statement)
    assert caught.value.code == errors.UnknownName.code == "UNKNOWN_NAME"
    with pytest.raises(errors.StatementError, match="nope") as caught:
        database.batch(["SELECT 1", statement])
    assert caught.value.code == "UNKNOWN_NAME"


def test_other_errors_keep_the_code_of_the_server(database) -> None:
    database.execute("CREATE TABLE t(a)")
    database.execute(
        "CREATE TRIGGER refuse BEFORE INSERT ON t BEGIN SELECT RAISE(ABORT, 'no such table: t in this year'); END"
    )
    raising = ["INSERT INTO t VALUES (1)"] if database.dialect is not Dialect.SEED else []  # which has one code for all
    for statement in (*raising, "SELECT nope(1)", "SELEC 1", "CREATE TABLE t(a)"):
        with pytest.raises(errors.StatementError) as caught:
            database.execute(statement)
        assert caught.value.code not in ("UNKNOWN_NAME", ""), statement


def test_a_frame(database) -> None:
    database.execute("CREATE TABLE t(a INTEGER, b BOOLEAN, c DATETIME)")
    database.execute(
        "INSERT INTO t VALUES (?, ?, ?), (NULL, 0, NULL)", [2**53 + 1, True, pd.Timestamp("2024-01-31 12:30")]
    )
    frame = database.query("SELECT * FROM t")
    assert isinstance(frame, pd.DataFrame)
    assert frame["a"].tolist() == [2**53 + 1, pd.NA]
    if database.dialect is not Dialect.SEED:  # which does not tell declared types
        assert [str(kind) for kind in frame.dtypes] == ["Int64", "boolean", "datetime64[us]"]
        assert frame["c"][0] == pd.Timestamp("2024-01-31 12:30")


def test_an_atomic_batch_applies_all_or_nothing(database) -> None:
    database.execute("CREATE TABLE t(a UNIQUE)")
    results = database.batch(["INSERT INTO t VALUES (1)", ("INSERT INTO t VALUES (?)", [2]), "SELECT a FROM t"])
    assert results[2].rows == [(1,), (2,)]
    with pytest.raises(errors.StatementError, match=r"UNIQUE constraint failed: t\.a") as caught:
        database.batch(["INSERT INTO t VALUES (3)", "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (4)"])
    assert caught.value.index == 1
    assert caught.value.message.endswith("\nNothing was applied.")
    assert count(database) == 2


def test_a_plain_batch_stops_at_the_first_error(database) -> None:
    database.execute("CREATE TABLE t(a UNIQUE)")
    with pytest.raises(errors.StatementError) as caught:
        database.batch(
            ["INSERT INTO t VALUES (3)", "INSERT INTO t VALUES (3)", "INSERT INTO t VALUES (4)"], atomic=False
        )
    assert caught.value.index == 1
    assert caught.value.message.endswith("\n1 of 3 statements ran before it.")
    assert database.execute("SELECT a FROM t").rows == [(3,)]


def test_a_transaction_commits(database) -> None:
    database.execute("CREATE TABLE t(a)")
    with database.transaction() as inside:
        inside.execute("INSERT INTO t VALUES (?)", [1])
        inside.batch(["INSERT INTO t VALUES (2)", "INSERT INTO t VALUES (3)"])
        assert inside.query("SELECT sum(a) AS s FROM t")["s"][0] == 6
    assert count(database) == 3


def test_a_transaction_that_raises_is_rolled_back(database) -> None:
    database.execute("CREATE TABLE t(a)")

    def work() -> None:
        with database.transaction() as inside:
            inside.execute("INSERT INTO t VALUES (1)")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert count(database) == 0


def test_nothing_runs_outside_a_transaction_that_a_statement_ended(database) -> None:
    database.execute("CREATE TABLE t(a UNIQUE)")

    def work() -> None:
        with database.transaction() as inside:
            inside.execute("INSERT INTO t VALUES (1)")
            with pytest.raises(errors.StatementError):
                inside.execute("INSERT OR ROLLBACK INTO t VALUES (1)")
            inside.execute("INSERT INTO t VALUES (2)")

    with pytest.raises(errors.TransactionLost, match="nothing was run outside it"):
        work()
    assert count(database) == 0


def test_reprs_hide_the_token(database) -> None:
    assert repr(database) == f"Database('{database.url}')"
    token = database.transport.token.value.decode().removeprefix("Bearer ")
    assert token not in f"{database!r} {vars(database)} {vars(database.transport)}"


# -- what a server offers


def test_offers(embedded, on_sqld, on_seed) -> None:
    assert embedded.offers() == on_sqld.offers() == {2, 3}
    assert on_seed.offers() == frozenset()


def test_a_server_without_version_3_is_sent_only_what_every_server_has(scripted) -> None:
    server = scripted(good)
    del server.pages["/v3"]
    with Database(server.url) as database:
        assert database.offers() == frozenset()
        database.batch(["SELECT 1", "SELECT 2"])
    assert [call.path for call in server.calls] == ["/v3", *["/v2/pipeline"] * 4]
    assert [call.sql for call in server.posts] == [["BEGIN IMMEDIATE"], ["SELECT 1"], ["SELECT 2"], ["COMMIT"]]


def test_arguments_that_are_ignored_are_an_error_too(scripted) -> None:
    def ignores(call):
        return Answer(body=good(call).body.replace(b'"rows": []', b'"rows": [[{"type": "null"}]]'))

    server = scripted(ignores)
    server.pages.clear()
    with Database(server.url) as database, pytest.raises(errors.UnsupportedError, match="does not support parameters"):
        database.execute("INSERT INTO t VALUES (?)", [1])
    assert [call.sql for call in server.posts] == [["SELECT ?"]]


# -- servers that really behave so


def test_the_connection_of_a_refusal_is_used_again(scripted) -> None:
    server = scripted(Answer(401, b'{"error":"no"}'), good)
    with Database(server.url, "nonsense") as database:
        with pytest.raises(errors.AuthError):
            database.execute("SELECT 1")
        database.execute("SELECT 1")
        database.execute("SELECT 1")
    assert len({call.port for call in server.posts}) == 1


# -- addresses that do not work


def test_a_token_with_a_line_break_is_refused() -> None:
    with pytest.raises(errors.ConnectError, match="the token contains a line break"):
        pipemagic.connect("http://127.0.0.1:1", "a\nb")


@pytest.fixture
def ipv6_first(monkeypatch) -> None:
    """A resolver that names [::1] first for localhost, as on most machines."""
    resolve = socket.getaddrinfo

    def getaddrinfo(host, port, *options, **named):
        if str(host).lower().rstrip(".").endswith("localhost"):
            return [*resolve("::1", port, *options, **named), *resolve("127.0.0.1", port, *options, **named)]
        return resolve(host, port, *options, **named)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


@pytest.mark.usefixtures("ipv6_first")
@pytest.mark.parametrize(("scheme", "host"), [("http", "localhost"), ("ws", "LOCALHOST."), ("libsql", "db.localhost")])
def test_localhost_is_127_0_0_1(scripted, scheme, host) -> None:
    """Whoever listens at [::1], which the resolver may name first, gets nothing."""
    server = scripted(good)
    with socket.create_server(("::1", server.port), family=socket.AF_INET6) as stranger:
        stranger.setblocking(False)
        address = f"{scheme}://{host}:{server.port}"
        with pipemagic.connect(address, "t") as database, pipemagic.management(address, "t") as api:
            database.execute("SELECT 1")
            with suppress(errors.PipemagicError):
                api.locations()
        with pytest.raises(BlockingIOError):
            stranger.accept()
    name = host.lower().rstrip(".")
    assert {call.headers["host"] for call in server.calls} == {f"{name}:{server.port}"}


@pytest.mark.usefixtures("ipv6_first")
def test_localhost_with_a_client_of_the_caller(scripted) -> None:
    server = scripted(good)
    with (
        socket.create_server(("::1", server.port), family=socket.AF_INET6) as stranger,
        httpx.Client() as http,
        pipemagic.connect(f"http://localhost:{server.port}", "t", http=http) as database,
    ):
        stranger.setblocking(False)
        database.execute("SELECT 1")
        with pytest.raises(BlockingIOError):
            stranger.accept()
    assert server.posts[0].headers["host"] == f"localhost:{server.port}"


@pytest.mark.usefixtures("ipv6_first")
def test_a_server_at_ipv6_only_is_named_by_its_address() -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as listener:
        port = listener.getsockname()[1]
        with (
            pipemagic.connect(f"http://localhost:{port}") as database,
            pytest.raises(errors.ConnectError, match=f"nothing is listening at http://localhost:{port}") as refused,
        ):
            database.execute("SELECT 1")
    assert f"localhost means 127.0.0.1, for IPv6 write http://[::1]:{port}" in refused.value.hint


def test_a_client_of_ones_own_stays_open(scripted) -> None:
    server = scripted(good)
    with httpx.Client() as http, pipemagic.connect(server.url, http=http) as database:
        database.execute("SELECT 1")
        assert not http.is_closed


def test_the_first_statement_uses_the_connection_of_the_probe(scripted):
    server = scripted()
    with Database(server.url) as database:
        assert database.dialect == 3
        database.execute("SELECT 1")
    assert len(server.calls) == 2
    assert len({call.port for call in server.calls}) == 1
