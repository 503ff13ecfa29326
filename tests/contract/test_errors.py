"""Errors of statements: codes, messages, positions (section 10)."""

import pytest
from contract_wire import CLOSE, execute

SCHEMA = [
    "CREATE TABLE p(id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, age INTEGER CHECK (age >= 0))",
    "CREATE TABLE c(p REFERENCES p(id))",
    "CREATE TABLE s(a INTEGER) STRICT",
    "CREATE TRIGGER tr BEFORE DELETE ON p BEGIN SELECT RAISE(ABORT, 'keep it'); END",
    "INSERT INTO p VALUES (1, 'x', 1)",
]

# SQL, code, part of the message.
FAILURES = [
    ("INSERT INTO p VALUES (2, 'x', 1)", "SQLITE_CONSTRAINT", "UNIQUE constraint failed: p.name"),
    ("INSERT INTO p VALUES (1, 'y', 1)", "SQLITE_CONSTRAINT", "UNIQUE constraint failed: p.id"),
    ("INSERT INTO p VALUES (2, NULL, 1)", "SQLITE_CONSTRAINT", "NOT NULL constraint failed: p.name"),
    ("INSERT INTO p VALUES (2, 'y', -1)", "SQLITE_CONSTRAINT", "CHECK constraint failed: age >= 0"),
    ("INSERT INTO c VALUES (99)", "SQLITE_CONSTRAINT", "FOREIGN KEY constraint failed"),
    ("INSERT INTO s VALUES ('x')", "SQLITE_CONSTRAINT", "cannot store TEXT value in INTEGER column s.a"),
    ("DELETE FROM p", "SQLITE_CONSTRAINT", "keep it"),
    ("INSERT INTO p VALUES ('x', 'y', 1)", "SQLITE_MISMATCH", "datatype mismatch"),
    ("SELECT nope FROM p", "SQL_INPUT_ERROR", "no such column: nope (at offset 7)"),
    ("SELECT id FROM p, p AS q", "SQL_INPUT_ERROR", "ambiguous column name: id (at offset 7)"),
    ("SELECT 'é😀', nope", "SQL_INPUT_ERROR", "no such column: nope (at offset 17)"),
    ("CREATE TABLE p(a)", "SQL_INPUT_ERROR", "table p already exists (at offset 13)"),
    ("SELECT nope(1)", "SQL_INPUT_ERROR", "no such function: nope"),
    ("SELEC 1", "SQL_PARSE_ERROR", "SQL string could not be parsed: "),
    ("SELECT 'open", "SQL_PARSE_ERROR", "SQL string could not be parsed: "),
    ("SELECT (1", "SQL_PARSE_ERROR", "SQL string could not be parsed: "),
    ("SELECT * FROM nope", None, "no such table: nope"),
    ("SELECT abs(-9223372036854775808)", None, "integer overflow"),
    ("SELECT json('{')", None, "malformed JSON"),
    ("COMMIT", None, "no transaction is active"),
]


@pytest.fixture(scope="module")
def schema(server):
    database = server.database()
    database.run(*SCHEMA)
    return database


@pytest.mark.parametrize(("sql", "code", "message"), FAILURES, ids=[sql for sql, _, _ in FAILURES])
def test_a_failure_has_its_code_and_message(schema, fact, sql, code, message):
    error = schema.post(execute(sql), CLOSE).error()
    assert error["code"] == (code or fact("the code of errors that SQLite calls generic"))
    assert message in error["message"]


# SQL, extended code.
CONSTRAINTS = [
    ("INSERT INTO p VALUES (2, 'x', 1)", "SQLITE_CONSTRAINT_UNIQUE"),
    ("INSERT INTO p VALUES (1, 'y', 1)", "SQLITE_CONSTRAINT_PRIMARYKEY"),
    ("INSERT INTO p VALUES (2, NULL, 1)", "SQLITE_CONSTRAINT_NOTNULL"),
    ("INSERT INTO p VALUES (2, 'y', -1)", "SQLITE_CONSTRAINT_CHECK"),
    ("INSERT INTO c VALUES (99)", "SQLITE_CONSTRAINT_FOREIGNKEY"),
    ("INSERT INTO s VALUES ('x')", "SQLITE_CONSTRAINT_DATATYPE"),
    ("DELETE FROM p", "SQLITE_CONSTRAINT_TRIGGER"),
]


@pytest.mark.parametrize(("sql", "extended_code"), CONSTRAINTS, ids=[code for _, code in CONSTRAINTS])
def test_a_constraint_has_its_extended_code(schema, sql, extended_code):
    answer = schema.post(execute(sql), {"type": "batch", "batch": {"steps": [{"stmt": {"sql": sql}}]}}, CLOSE)
    step_error = answer.response(1)["result"]["step_errors"][0]
    for error in (answer.error(), step_error):
        assert (error["code"], error.get("extended_code")) == ("SQLITE_CONSTRAINT", extended_code)


@pytest.mark.parametrize("sql", ["SELECT * FROM nope", "SELECT nope", "SELEC 1", "INSERT INTO p VALUES ('x', 'y', 1)"])
def test_an_error_without_an_extended_code_has_none(schema, sql):
    assert schema.post(execute(sql), CLOSE).error().keys() == {"message", "code"}


def test_messages_of_sqlite_have_a_prefix(schema):
    answer = schema.post(execute("SELECT * FROM nope"), execute("SELECT nope"), CLOSE)
    assert answer.error(0)["message"].startswith("SQLite error: ")
    assert answer.error(1)["message"].startswith("SQL input error: ")


@pytest.mark.parametrize(
    ("before", "bytes_before"),
    [("-- é\n", 6), ("  ", 2), ("/* 😀 */ ", 11), (";", 1)],
    ids=["line", "blanks", "emoji", "semicolon"],
)
def test_the_offset_counts_bytes_of_the_whole_text(schema, before, bytes_before):
    error = schema.post(execute(before + "SELECT nope"), CLOSE).error()
    assert error["message"].endswith(f"(at offset {bytes_before + 7})")


def test_each_failure_has_its_position(db):
    answer = db.post(*[execute("CREATE TABLE t(a)")] * 4, CLOSE)
    assert answer.codes == ["ok", *["SQL_INPUT_ERROR"] * 3, "ok"]
    assert {answer.error(number)["message"] for number in (1, 2, 3)} == {
        "SQL input error: table t already exists (at offset 13)"
    }


def test_a_failed_insert_of_many_rows_inserts_none(db):
    db.run("CREATE TABLE t(a UNIQUE)")
    assert db.post(execute("INSERT INTO t VALUES (1), (2), (1)"), CLOSE).codes == ["SQLITE_CONSTRAINT", "ok"]
    assert db.rows("SELECT * FROM t") == []
