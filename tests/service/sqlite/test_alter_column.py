"""What ALTER COLUMN refuses here and libSQL servers accept: changes after which SQLite does not find rows."""

from __future__ import annotations

import pytest
from service_calls import CLOSE, caller_of, execute, new_service


@pytest.fixture
def db(tmp_path):
    with new_service(tmp_path) as service:
        yield caller_of(service, "db")


@pytest.mark.parametrize("key", ["INTEGER PRIMARY KEY", "TEXT PRIMARY KEY DESC", "PRIMARY KEY"])
def test_a_key_keeps_its_order_and_its_affinity(db, key):
    """Otherwise an UPDATE of the rows that are there would do nothing."""
    db.run("CREATE TABLE t(a TEXT PRIMARY KEY, b) WITHOUT ROWID", "INSERT INTO t VALUES ('1', 1), ('22', 2)",
           "CREATE INDEX i ON t(b)")  # fmt: skip
    answer = db.post(execute(f"ALTER TABLE t ALTER COLUMN a TO a {key}"), CLOSE)
    assert "PRIMARY KEY cannot be altered" in answer.error()["message"]
    db.run("ALTER TABLE t ALTER COLUMN a TO a VARCHAR(9) PRIMARY KEY", "UPDATE t SET b = 5 WHERE b = 2")
    assert db.run("SELECT a, b FROM t ORDER BY a").rows() == [["1", "1"], ["22", "5"]]


@pytest.mark.parametrize(("column", "name", "code"), [
    ("k", "K", "ok"), ("k", "\u212a", "SQLITE_ERROR"), ("é", "É", "SQLITE_ERROR"),
])  # fmt: skip
def test_names_that_differ_beyond_ascii_are_others(db, column, name, code):
    db.run('CREATE TABLE t(a, k, "é")')
    assert db.run(f'ALTER TABLE t ALTER COLUMN "{column}" TO "{name}" TEXT').codes[0] == code
