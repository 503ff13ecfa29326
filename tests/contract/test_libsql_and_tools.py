"""What libSQL adds to SQLite's SQL, and the PRAGMAs that tools read."""

import pytest
from contract_wire import CLOSE, execute


def test_the_list_of_databases_has_one_row_without_a_path(db):
    answer = db.run("PRAGMA database_list")
    assert answer.rows() == [[0, "main", ""]]
    assert [col["name"] for col in answer.response(0)["result"]["cols"]] == ["seq", "name", "file"]
    assert db.rows("SELECT * FROM pragma_database_list") == [[0, "main", ""]]
    assert db.rows("pragma main.database_list ; -- all of them") == [[0, "main", ""]]
    assert db.rows("SELECT t.schema FROM pragma_table_list AS t JOIN pragma_database_list AS d ON d.name = t.schema "
                   "WHERE t.name = 'sqlite_schema'") == [["main"]]  # fmt: skip


PRAGMAS = ["mmap_size", "threads", "analysis_limit", "stats", "wal_autocheckpoint", "locking_mode", "encoding"]


@pytest.mark.parametrize("name", PRAGMAS)
def test_tools_may_read_a_pragma(db, name):
    assert db.post(execute(f"PRAGMA {name}"), CLOSE).codes == ["ok", "ok"]


@pytest.mark.parametrize("begin", ["BEGIN READONLY", "begin readonly transaction;"])
def test_a_transaction_that_only_reads(db, begin):
    db.run("CREATE TABLE t(a)")
    answer = db.post(
        execute(begin), execute("SELECT count(*) FROM t"), execute("INSERT INTO t VALUES (1)"),
        execute("SELECT count(*) FROM t"), execute("COMMIT"), execute("INSERT INTO t VALUES (2)"),
        execute("SELECT a FROM t"), CLOSE,
    )  # fmt: skip
    assert answer.codes == ["ok", "ok", "SQLITE_READONLY", "ok", "ok", "ok", "ok", "ok"]
    assert (answer.rows(1), answer.rows(3), answer.rows(6)) == ([[0]], [[0]], [[2]])


def test_begin_readonly_opens_no_transaction_in_a_transaction(db):
    answer = db.post(execute("BEGIN"), execute("BEGIN READONLY"), CLOSE)
    assert answer.codes == ["ok", "SQLITE_ERROR", "ok"]


CONSTRAINTS = [
    "ALTER TABLE t ALTER COLUMN a SET NOT NULL",
    "ALTER TABLE t ADD CONSTRAINT positive CHECK (a > 0)",
]


@pytest.mark.parametrize("sql", CONSTRAINTS)
def test_a_changed_constraint_returns_no_columns(db, sql):
    db.run("CREATE TABLE t(a)", "INSERT INTO t VALUES (1)")
    answer = db.post({"type": "describe", "sql": sql}, execute(sql), execute("INSERT INTO t VALUES (NULL), (-1)"), CLOSE)
    assert answer.codes == ["ok", "ok", "SQLITE_CONSTRAINT", "ok"]
    assert answer.response(0)["result"]["cols"] == []
    assert answer.response(1)["result"]["cols"] == []
