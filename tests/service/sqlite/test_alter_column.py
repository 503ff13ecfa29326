"""What ALTER COLUMN refuses here and libSQL servers accept: changes after which SQLite does not find rows."""

from __future__ import annotations

import apsw
import pytest
from service_calls import CLOSE, File, caller_of, execute, new_service

from pipemagic.service.sqlite.connection import Connection
from pipemagic.service.sqlite.sandbox import Sandbox
from pipemagic.service.sqlite.statement import parse


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


def test_a_name_in_another_case_than_that_of_the_definition(tmp_path):
    """As in a file that was made by hand and uploaded."""
    connection = Connection(File(tmp_path / "db"), writable=True)
    with apsw.Connection(str(tmp_path / "db")) as other:
        other.execute("CREATE TABLE t(a, b); PRAGMA writable_schema = ON; UPDATE sqlite_schema SET name = 'T'")
    with pytest.raises(apsw.SQLError, match="another name"):
        connection.run(parse("ALTER TABLE t ALTER COLUMN b TO b INT"), (), may_write=True)
    connection.finish()
    connection.close()


@pytest.mark.parametrize("out_of_memory", [False, True])
def test_an_interrupt_leaves_the_sandbox_as_it_was(tmp_path, monkeypatch, out_of_memory):
    """At each call of the authorizer: the statements before it ran."""
    connection, calls, last = Connection(File(tmp_path / "db"), writable=True), 0, 0
    authorize, heap = Sandbox.authorize, apsw.hard_heap_limit(-1)

    def run(sql):
        try:
            return list(connection.run(parse(sql), (), may_write=True).rows)
        finally:
            connection.finish()
            connection.stopped = False

    def interrupted(sandbox, *arguments):
        nonlocal calls
        calls += sandbox is connection.sandbox
        if calls == last and sandbox is connection.sandbox:
            if out_of_memory:
                apsw.hard_heap_limit(apsw.memory_used())
            else:
                connection.stop()
        return authorize(sandbox, *arguments)

    run("CREATE TABLE t(a, b)")
    run("CREATE INDEX i ON t(b)")
    before = run("SELECT sql FROM sqlite_schema")
    monkeypatch.setattr(Sandbox, "authorize", interrupted)
    connection.raw.authorizer = connection.sandbox.authorize
    while calls >= last:
        last, calls = last + 1, 0
        run("SAVEPOINT outer")
        calls = 0
        try:
            run("ALTER TABLE t ALTER COLUMN b TO b INT COLLATE NOCASE")
        except (apsw.InterruptError, apsw.NoMemError, MemoryError):
            changed = False
        else:
            changed = True
        apsw.hard_heap_limit(heap)
        apsw.soft_heap_limit(heap)  # otherwise, SQLite goes on as if its memory was nearly used up
        count, calls = calls, last + 1
        assert connection.raw.config(apsw.SQLITE_DBCONFIG_WRITABLE_SCHEMA, -1) == 0
        assert connection.raw.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, -1) == 1
        with pytest.raises(apsw.Error):
            run("UPDATE sqlite_schema SET sql = ''")
        with pytest.raises(apsw.AuthError):
            run("ATTACH 'x' AS x")
        assert changed or run("SELECT sql FROM sqlite_schema") == before
        if connection.raw.in_transaction:
            run("ROLLBACK")
        calls = count
    assert last > 50
    connection.close()
