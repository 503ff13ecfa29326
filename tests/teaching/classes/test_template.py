"""The SQL text of a template, as a server sends it: only statements of a dump reach the databases of students."""

from __future__ import annotations

import httpx
import pytest

from pipemagic.client.database import Database
from pipemagic.errors import UnsupportedError
from pipemagic.teaching.classes.template import read_template

DUMP = """
PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE IF NOT EXISTS "t"(a INTEGER PRIMARY KEY, b TEXT DEFAULT 'x' /* ; */, CHECK (a > 0)) STRICT;
INSERT INTO "t"(rowid,"a","b") VALUES(1,1,'SELECT; END');
INSERT INTO t VALUES(2,CAST(X'00' AS TEXT));
DELETE FROM sqlite_sequence;
ANALYZE sqlite_schema;
CREATE UNIQUE INDEX i ON t(b) WHERE b <> 'WITH';
CREATE VIEW v AS WITH c AS (SELECT 1) SELECT * FROM c;
CREATE TRIGGER r AFTER INSERT ON t BEGIN SELECT 1; DELETE FROM t WHERE a = 3; END;
PRAGMA user_version=7;
COMMIT;
PRAGMA ignore_check_constraints=OFF;
"""


def read(text):
    server = httpx.MockTransport(lambda _: httpx.Response(200, text=text, headers={"content-type": "application/sql"}))
    with httpx.Client(transport=server) as http, Database("http://127.0.0.1:8080", "token", http=http) as database:
        return read_template(database).statements


def test_the_statements_of_a_dump():
    statements = read(DUMP)
    assert [statement.split()[0] for statement in statements] == [
        "CREATE", "INSERT", "INSERT", "DELETE", "ANALYZE", "CREATE", "CREATE", "CREATE", "PRAGMA",
    ]  # fmt: skip


@pytest.mark.parametrize("statement", [
    "END", "ROLLBACK", "COMMIT AND CHAIN", "SAVEPOINT x", "ATTACH 'x' AS x", "DROP TABLE pipemagic_progress", "VACUUM",
    'PRAGMA "writable_schema"=ON', "PRAGMA user_version(7)", "CREATE TABLE u AS SELECT 1", "CREATE TEMP TABLE u(a)",
    "INSERT INTO t SELECT 1, 2", "INSERT INTO t VALUES((SELECT 1), 2)", "INSERT INTO t VALUES(1,2) RETURNING a",
    "INSERT INTO main.t VALUES(1,2)", "INSERT OR REPLACE INTO t VALUES(1,2)", "UPDATE t SET a = 1", "DELETE FROM t",
    "CREATE TRIGGER q AFTER INSERT ON t BEGIN SELECT 1; END; DROP TABLE t", "SELECT load_extension('x')",
    "CREATE VIEW w AS SELECT 'x",
])  # fmt: skip
def test_other_statements_are_refused(statement):
    with pytest.raises(UnsupportedError) as caught:
        read(DUMP.replace("COMMIT;\n", f"{statement};\nCOMMIT;\n"))
    assert caught.value.hint
