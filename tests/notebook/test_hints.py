"""Hints in error messages."""

from __future__ import annotations

import pytest
from magic_shell import make_database

from pipemagic.session import messages

TABLES = """%%sql
CREATE TABLE city (name TEXT, mayor TEXT, "first name" TEXT);
CREATE TABLE "we""ird" ("a b" TEXT)
"""


def session_of(shell):
    return shell.ip.magics_manager.registry["PipeMagics"].session


@pytest.mark.parametrize(("server", "ahead"), [("embedded", True), ("sqld", False)])
def test_did_you_mean(db, ahead):
    db(TABLES)
    schema = session_of(db).connection().schema
    assert schema.ready.wait(30)
    if not ahead:  # the tables are then unknown and read once
        schema._started, schema._version = False, None
        schema.forget_temporary()
        schema._known.clear()
    assert "did you mean city?" in db.fails("%sql SELECT * FROM citty").out
    assert 'did you mean "we""ird"?' in db.fails("%sql SELECT * FROM weird").out
    assert "did you mean mayor?" in db.fails("%sql SELECT mayr FROM city").out
    assert 'did you mean "first name"?' in db.fails("%sql SELECT c.first_name FROM city AS c").out
    assert "did you mean name?" in db.fails("%sql INSERT INTO city (nmae) VALUES (1)").out
    assert "did you mean count?" in db.fails("%sql SELECT cuont(*) FROM city").out
    assert "city has name, mayor," in db.fails("%sql SELECT zzz FROM city").out
    assert "%pipedb tables lists the tables" in db.fails("%sql SELECT * FROM zzz").out
    assert 'a b" is a column of "we""ird"' in db.fails("%sql SELECT [a b] FROM city").out


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("name RLIKE 'x'", "write name GLOB '*x*'"),
        ("EXTRACT(year FROM name)", "write CAST(strftime('%Y', name) AS INTEGER)"),
        ("DATE '2024-01-01'", "dates are text: write '2024-01-01'"),
        ("name::text", "write CAST(name AS TEXT)"),
    ],
)
def test_syntax_and_functions_of_other_databases(db, expression, hint):
    db(TABLES)
    out = db.fails(f"%sql SELECT {expression} FROM city").out
    assert hint in out
    assert "did you mean" not in out


ODD = """%%sql
CREATE TABLE batting (player TEXT, "2B" INTEGER, "2019_sales" REAL, "Order ID" INTEGER, "sepal length (cm)" REAL,
    " points" INTEGER, "unit-price" REAL, "re\u0301gion" TEXT, "\ufeffid" INTEGER);
CREATE TABLE "order items" (n INTEGER)
"""


@pytest.mark.parametrize("server", ["embedded", "sqld"])
@pytest.mark.parametrize(
    ("statement", "hint"),
    [
        ("SELECT player, 2B FROM batting", 'write the name of the column in quotes: "2B"'),
        ("SELECT player FROM batting WHERE 2b > 3", 'write the name of the column in quotes: "2B"'),
        ("SELECT 2019_sales FROM batting", 'write the name of the column in quotes: "2019_sales"'),
        ("SELECT Order ID FROM batting", 'write the name of the column in quotes: "Order ID"'),
        ("SELECT 1 FROM batting WHERE order id = 3", 'write the name of the column in quotes: "Order ID"'),
        ("SELECT sepal  length (cm) FROM batting", 'write the name of the column in quotes: "sepal length (cm)"'),
        ("SELECT unit-price FROM batting", 'write the name of the column in quotes: "unit-price"'),
        ("SELECT * FROM order items", 'write the name of the table in quotes: "order items"'),
        ("CREATE TABLE t (3B INTEGER)", 'if 3B is a name, write it in quotes: "3B"'),
        ("SELECT points FROM batting", 'did you mean " points"? the name begins with a space'),
        ("SELECT r\u00e9gion FROM batting", 'did you mean "re\u0301gion"? the name writes \u00e9 as e and U+0301'),
        ("SELECT id FROM batting", "the name begins with a byte order mark (U+FEFF); encoding='utf-8-sig' reads"),
    ],
)
def test_names_that_need_quotes(db, statement, hint):
    db(ODD)
    assert hint in db.fails(f"%sql {statement}").out


@pytest.mark.parametrize(
    "statement",
    ["SELECT 0x1G", "SELECT 'Order ID' FROM batting WHERE", 'SELECT "Order ID", FROM batting',
     "SELECT player, order FROM batting", "SELECT zzz FROM batting"],
)  # fmt: skip
def test_no_hint_on_quotes_for_other_errors(db, statement):
    db(ODD)
    assert "in quotes" not in db.fails(f"%sql {statement}").out


def test_no_suggestion_for_dissimilar_names(db):
    db(TABLES)
    assert "did you mean" not in db.fails("%sql SELECT initcap(name) FROM city").out
    assert "did you mean" not in db.fails("%sql SELECT regexes(name) FROM city").out


def test_no_hint_if_all_names_are_known(db):
    db(TABLES)
    cell = db.fails("%sql SELECT name FROM city WHERE")
    assert "did you mean" not in cell.out
    assert "lists the tables" not in db.fails("%sql INSERT INTO city VALUES (1)").out


def test_a_table_of_another_connection(shell, service, monkeypatch):
    for name in ("one", "two"):
        url, token = make_database(service, f"hints-{name}")
        monkeypatch.setenv("DB_TOKEN", token)
        shell(f"%pipedb connect {url} --as {name} --token-env DB_TOKEN")
    shell("%sql --on one CREATE TABLE orders (id)\n%sql CREATE TABLE city (name)")
    assert "orders is a table of the connection one: --on one" in shell.fails("%sql SELECT * FROM orders").out


@pytest.mark.parametrize(
    ("code", "message", "hint"),
    [
        ("TRANSACTION_TIMEOUT", "Transaction timed out", "a transaction has a time limit"),
        ("STREAM_EXPIRED", "The stream has expired due to inactivity", "idle for too long"),
        ("STATEMENT_TIMEOUT", "the statement took too long", "EXPLAIN QUERY PLAN"),
        ("RESPONSE_TOO_LARGE", "Response is too large", "LIMIT"),
        ("SQLITE_ERROR", "too many SQL variables", "32766 parameters"),
        ("SQLITE_TOOBIG", "string or blob too big", "larger than the server accepts"),
        ("SQLITE_FULL", "database or disk is full", "size limit"),
        ("SQLITE_BUSY", "database is locked", "BEGIN IMMEDIATE"),
    ],
)
def test_hints_on_limits(code, message, hint):
    assert hint in messages.limit_hint(code, message)


@pytest.mark.parametrize("server", ["embedded", "sqld"])
def test_no_hint_contradicts_the_remedy_in_a_message(db):
    db("%sql CREATE TABLE t (a)")
    db("%sql BEGIN; SELECT * FROM t")
    session_of(db).connection().database.execute("INSERT INTO t VALUES (1)")
    refused = db.fails("%sql INSERT INTO t VALUES (2)")
    assert "ROLLBACK" in refused.out
    assert "BEGIN IMMEDIATE" in refused.out
    assert "is writing: run the cell again" not in refused.out


@pytest.mark.parametrize("server", ["embedded", "sqld"])
def test_hint_on_a_limit_that_a_server_reports(db):
    big = db.fails("%sql SELECT zeroblob(2000000000)")
    assert "larger than the server accepts" in big.out


def test_the_hint_on_an_expired_token_names_its_source(shell, sqld_database, monkeypatch, tmp_path):
    monkeypatch.setenv("MY_TOKEN", sqld_database.token)
    shell(f"%pipedb connect {sqld_database.url} --as db --token-env MY_TOKEN")
    session_of(shell).connection().database.renew_token(sqld_database.mint(exp=1_000_000))
    out = shell.fails("%sql SELECT 1").out
    assert "put a new token into the variable MY_TOKEN, then connect again" in out
    assert "If someone gave you the token, ask them for a new one." in out
    assert f"%pipedb connect {sqld_database.url} --as db --token-env MY_TOKEN" in out
    shell(f"%pipedb connect {sqld_database.url} --as db --token-env MY_TOKEN")
    assert shell("%sql SELECT 1 AS a").value["a"].tolist() == [1]
    file = tmp_path / "token"
    file.write_text(sqld_database.token)
    file.chmod(0o600)
    shell(f"%pipedb connect {sqld_database.url} --as db --token-file {file}")
    session_of(shell).connection().database.renew_token(sqld_database.mint(exp=1_000_000))
    assert f"put a new token into the file {file}" in shell.fails("%sql SELECT 1").out


def test_a_new_token_continues_the_transaction_in_which_the_old_one_expired(shell, sqld_database, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", sqld_database.token)
    shell(f"%pipedb connect {sqld_database.url} --as db --token-env MY_TOKEN\n%sql CREATE TABLE t (a)")
    shell("%sql BEGIN; INSERT INTO t VALUES (1)")
    session_of(shell).connection().database.renew_token(sqld_database.mint(exp=1_000_000))
    assert "an open transaction stays open until its time limit" in shell.fails("%sql INSERT INTO t VALUES (2)").out
    shell(f"%pipedb connect {sqld_database.url} --as db --token-env MY_TOKEN")
    shell("%sql INSERT INTO t VALUES (3); COMMIT")
    assert shell("%sql SELECT a FROM t").value["a"].tolist() == [1, 3]
