"""EXPLAIN shows no addresses of the process (first promise: no boundary falls; addresses help whoever attacks one)."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from by_columns import HEADERS, rows_of, rows_of_part
from plain_values import python
from promises import Promise
from service_calls import Caller, caller_of, new_service

pytestmark = pytest.mark.promise(Promise.BOUNDARIES)

ADDRESS = re.compile(r"(?<![0-9A-Fa-f])[0-9A-Fa-f]{8,16}(?![0-9A-Fa-f])|0x[0-9A-Fa-f]{6,}")
SCHEMA = """
CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT COLLATE NOCASE UNIQUE, c REAL NOT NULL CHECK (c > 0), d DEFAULT 1);
CREATE INDEX i ON t(b, c) WHERE c > 1;
CREATE VIRTUAL TABLE f USING fts5(x);
CREATE VIRTUAL TABLE r USING rtree(id, low, high);
CREATE VIEW v AS SELECT * FROM t;
CREATE TABLE child(t REFERENCES t(a) ON DELETE CASCADE);
CREATE TRIGGER tr AFTER INSERT ON t BEGIN INSERT INTO f VALUES (new.b); END
"""
STATEMENTS = [
    "SELECT * FROM f WHERE f MATCH 'x' ORDER BY rank", "SELECT highlight(f, 0, 'a', 'b') FROM f",
    "SELECT * FROM r WHERE low > 1", "SELECT e.value FROM json_each('[1]') AS e, json_tree('{}')",
    "SELECT * FROM generate_series(1, 5)", "SELECT * FROM pragma_table_info('t')", "SELECT * FROM pragma_table_list",
    "INSERT INTO t VALUES (1, 2, 3, 4)", "INSERT INTO f VALUES ('x')", "DELETE FROM f", "UPDATE r SET low = 1",
    "UPDATE t SET b = 1 FROM f", "DELETE FROM t WHERE a IN (SELECT rowid FROM f)", "DROP TABLE f", "DROP TABLE t",
    "CREATE VIRTUAL TABLE g USING fts5(y)", "ALTER TABLE f RENAME TO g", "ALTER TABLE t ADD COLUMN z",
    "SELECT row_number() OVER (PARTITION BY b ORDER BY c), sum(a) OVER (ROWS 2 PRECEDING) FROM t",
    "SELECT group_concat(a ORDER BY b), min(b), count(DISTINCT c), median(a) FROM t GROUP BY c HAVING count(*) > 1",
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 5) SELECT * FROM n",
    "SELECT * FROM t WHERE b LIKE 'a%' AND c IN (1, 2, 3) OR a IN (SELECT 1)", "CREATE INDEX j ON t(c)", "REINDEX",
    "CREATE TABLE k AS SELECT * FROM f", "SELECT 9223372036854775807, 1.5, x'0102', 'a', CAST('a' AS BLOB)",
    "INSERT INTO t(b, c) VALUES ('x', 1) ON CONFLICT DO UPDATE SET b = 1 RETURNING *", "VACUUM", "ANALYZE",
    "PRAGMA integrity_check", "PRAGMA quick_check", "PRAGMA foreign_key_check", "SELECT * FROM dbstat",
    "SELECT json_group_array(a) FILTER (WHERE b), regexp('a', b), date_trunc('day', b), abs(c) FROM t",
    "SELECT * FROM v JOIN f ON f.rowid = v.a LEFT JOIN r ON r.id = v.a",
    "SELECT * FROM t UNION SELECT * FROM t ORDER BY 2",
]  # fmt: skip


@pytest.fixture(scope="module")
def caller(tmp_path_factory):
    with new_service(tmp_path_factory.mktemp("addresses")) as service:
        caller = caller_of(service, "db")
        assert set(caller.run(*SCHEMA.strip().split(";\n")).codes) == {"ok"}
        yield caller


def rows_in_all_forms(caller, text):
    """Return the rows of a statement by a pipeline and a cursor, in rows and by columns."""
    forms = []
    for client in (caller, Caller(caller.service, caller.token, {**caller.headers, **HEADERS})):
        answer = client.run(text)
        assert answer.codes[0] == "ok", (text, answer.codes)
        forms.append(rows_of(answer.response()["result"], python))
        entries = client.read(text).entries
        parts = [entry["part"] for entry in entries if entry["type"] == "rows"]
        rows = [list(map(python, entry["row"])) for entry in entries if entry["type"] == "row"]
        forms.append([*rows, *(row for part in parts for row in rows_of_part(part, python))])
    return forms


@pytest.mark.parametrize("text", STATEMENTS)
def test_explain_shows_no_addresses(caller, text):
    first, *others = rows_in_all_forms(caller, f"EXPLAIN {text}")
    addresses = [row[0] for row in first]  # the programs of triggers begin with 0 again
    assert all(after in (0, before + 1) for before, after in pairwise(addresses))
    assert all(other == first for other in others)
    for row in first:
        assert not any(ADDRESS.search(cell) for cell in row if isinstance(cell, str)), row


def test_virtual_tables_are_named_without_their_address(caller):
    rows = rows_in_all_forms(caller, "EXPLAIN INSERT INTO f VALUES ('x')")[0]
    assert [row[5] for row in rows if row[1] in ("VBegin", "VUpdate")] == ["vtab", "vtab"]
    checks = rows_in_all_forms(caller, "EXPLAIN PRAGMA integrity_check")[0]
    assert {row[5] for row in checks if row[1] == "VCheck"} == {None}


LOOKS_THE_SAME = "vtab:55D1C0FFEE08"


def test_what_only_looks_like_an_address_stays(caller):
    for form in rows_in_all_forms(caller, f"SELECT '{LOOKS_THE_SAME}'"):
        assert form == [[LOOKS_THE_SAME]]
    for form in rows_in_all_forms(caller, f"EXPLAIN SELECT '{LOOKS_THE_SAME}' FROM t"):
        assert LOOKS_THE_SAME in [row[5] for row in form]
    for form in rows_in_all_forms(caller, f"EXPLAIN QUERY PLAN SELECT * FROM f AS [{LOOKS_THE_SAME}]"):
        assert [row[3] for row in form] == [f"SCAN {LOOKS_THE_SAME} VIRTUAL TABLE INDEX 0:"]
