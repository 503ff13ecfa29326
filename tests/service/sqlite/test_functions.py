"""Functions whose time grows with the product of their arguments' sizes: bounded, with the results of SQLite."""

from __future__ import annotations

import sqlite3
import time
import tracemalloc
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st
from service_calls import caller_of, execute, new_service

from pipemagic.service.limits import Limits
from pipemagic.service.sqlite import functions
from pipemagic.service.sqlite.statement import parse

M = 1024 * 1024
TWO = ("instr", "trim", "ltrim", "rtrim", "unhex")

text = st.text(alphabet="aAbé€😀\0 01.-", max_size=6)
values = st.one_of(
    st.none(),
    text,
    text.map(str.encode),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-20, 20),
    st.floats(),
    st.binary(max_size=4),
)


@pytest.fixture(scope="module")
def both():
    plain, bounded = apsw.Connection(":memory:"), apsw.Connection(":memory:")
    functions.bound(bounded, 128 * M, lambda: False)
    return plain, bounded


def check(connections, sql, *arguments):
    """Compare with SQLite's own function; BLOBs that are not UTF-8 cannot be made text here."""
    plain, bounded = connections
    try:
        found = bounded.execute(sql, arguments).get
    except UnicodeDecodeError:
        with pytest.raises(UnicodeDecodeError):
            b"\n".join(one for one in arguments if isinstance(one, bytes)).decode()
    else:
        assert found == plain.execute(sql, arguments).get


@given(st.sampled_from(TWO), values, values)
def test_functions_of_two_arguments_are_sqlites(both, name, first, second):
    check(both, f"SELECT json_array(hex({name}(?1, ?2)), typeof({name}(?1, ?2)))", first, second)


@given(values, values, values)
def test_replace_is_sqlites(both, first, second, third):
    check(both, "SELECT json_array(hex(replace(?1, ?2, ?3)), typeof(replace(?1, ?2, ?3)))", first, second, third)


@pytest.mark.parametrize(
    ("sql", "arguments"),
    [
        ("SELECT instr(?, ?)", ("a" * 8 * M, "a" * M + "b")),
        ("SELECT instr(?, ?)", (b"a" * 8 * M, b"a" * M + b"b")),
        ("SELECT length(replace(?, ?, ''))", ("a" * 8 * M, "a" * M + "b")),
        ("SELECT length(ltrim(?, ?))", ("a" * 8 * M, "bcdefghijk" * (M // 10) + "a")),
        ("SELECT unhex(?, ?)", ("z" * 8 * M, "bcdefghijk" * (M // 10) + "z")),
        ("SELECT instr(?, ?)", (b"a" * 8 * M, "a" * M + "b")),
        ("SELECT length(replace(?, 'a', ?))", ("a" * M, "b" * M)),
        ("SELECT ? LIKE ?", ("a" * 8 * M, "%" + "a" * M + "b")),
        ("SELECT ? GLOB ?", ("a" * 8 * M, "*" + "a" * M + "b")),
    ],
)
def test_large_arguments_end(db, sql, arguments):
    wire = [
        {"type": "text", "value": one} if isinstance(one, str) else {"type": "blob", "base64": b64encode(one).decode()}
        for one in arguments
    ]
    with ThreadPoolExecutor(1) as pool:
        pool.submit(db.post, execute(sql, *wire)).result(120)  # with the product of their sizes it would be hours


def test_a_row_of_many_calls_ends_at_the_statement_limit(tmp_path):
    """SQLite does not check for interrupts between the calls of one row."""
    with new_service(tmp_path, clock=time.monotonic, limits=Limits(statement_time=0.2)) as service:
        service.start()
        db = caller_of(service, "db")
        arguments = [{"type": "text", "value": "a" * 10_000}, {"type": "text", "value": "bcde" * 5000 + "a"}]
        calls = ", ".join(["ltrim(?1, ?2)"] * 70)
        answer = db.post(execute(f"SELECT {calls}", *arguments))
        assert answer.codes == ["STATEMENT_TIMEOUT"]


def test_indexes_with_these_functions_are_readable_by_other_programs(db, service):
    db.run(
        "CREATE TABLE t(a CHECK (instr(a, 'x') = 0), g AS (replace(a, 'b', 'c')))",
        "CREATE INDEX i ON t(ltrim(a, '0'))", "INSERT INTO t(a) VALUES ('00ab'), ('0ü')",
    )  # fmt: skip
    path = service.engine.databases.in_use()[0].path
    with sqlite3.connect(path) as plain:
        assert plain.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        query = "SELECT a, g FROM t INDEXED BY i WHERE ltrim(a, '0') = 'ab'"
        assert plain.execute(query).fetchall() == [("00ab", "00ac")]
        plain.execute("INSERT INTO t(a) VALUES ('000')")
    plain.close()
    assert db.run("PRAGMA integrity_check").rows() == [["ok"]]


def test_like_still_uses_an_index(db):
    db.run("CREATE TABLE t(a TEXT COLLATE NOCASE)", "CREATE INDEX i ON t(a)")
    assert "SEARCH" in db.run("EXPLAIN QUERY PLAN SELECT * FROM t WHERE a LIKE 'ab%'").rows()[0][3]


TOO_COMPLEX = "LIKE or GLOB pattern too complex"
LARGE = f"hex(zeroblob({9 * M}))"
"""A value of 18 MB."""


@pytest.mark.parametrize(("sql", "arguments", "expected"), [
    ("SELECT 'a' LIKE ?", ["x" * 4097], TOO_COMPLEX),
    (f"SELECT length({LARGE}) WHERE 'a' LIKE ?", ["a%"], str(18 * M)),
    (f"SELECT length({LARGE}) WHERE 'a' LIKE ?", ["x" * 256], None),
    (f"SELECT length({LARGE}) WHERE 'a' NOT LIKE ?", ["x" * 257], "string or blob too big"),
    ("SELECT length(?) WHERE 'a' LIKE 'a%'", ["x" * 17 * M], str(17 * M)),
    ("SELECT length(?) WHERE 'a' LIKE ?", ["x" * 17 * M, "x" * 257], TOO_COMPLEX),
    (f"SELECT length({LARGE})", [], str(18 * M)),  # after the long patterns
    (f"SELECT length({LARGE}) AS likes WHERE ? IS NOT NULL", ["x" * 300], str(18 * M)),  # not the word
    (f"SELECT length('{'like ' * (3 * M + M // 2)}')", [], str(35 * M // 2)),
    (f"SELECT length('{'x' * (17 * M)}') WHERE 'a' LIKE 'a%'", [], str(17 * M)),
    ("SELECT 'a' LIKE x FROM (SELECT hex(zeroblob(129)) AS x)", [], TOO_COMPLEX),  # made by SQL
    ('SELECT "like"(?, \'a\')', ["x" * 4096], "0"),
])  # fmt: skip
def test_long_patterns_are_for_values_of_up_to_16_mb(tmp_path, sql, arguments, expected):
    with new_service(tmp_path) as service:
        caller = caller_of(service, "db")
        first = execute("SELECT 'a' LIKE ?", {"type": "text", "value": "x" * 4096})
        answer = caller.post(first, execute(sql, *({"type": "text", "value": value} for value in arguments)))
    assert answer.codes[0] == "ok"
    if answer.codes[1] == "ok":
        assert answer.rows(1) == ([] if expected is None else [[expected]])
    else:
        assert answer.error(1)["message"] == f"SQLite error: {expected}"


@pytest.mark.parametrize("sql", ["SELECT 'a' LIKE 'b'", "ALTER TABLE t ALTER COLUMN a TO a DEFAULT (0)"])
def test_a_long_statement_needs_no_list_of_its_tokens(sql):
    """Tokens need a hundred times the memory of their text."""
    long = f"{sql}, {'1,' * 200_000} 1"
    tracemalloc.start()
    try:
        parse(long)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20 * len(long)


def test_all_patterns_may_be_long_if_all_values_are_small(tmp_path):
    with new_service(tmp_path, limits=Limits(value=16 * M)) as service:
        assert caller_of(service, "db").run("SELECT 'a' LIKE x FROM (SELECT hex(zeroblob(2048)) AS x)").codes[0] == "ok"


@pytest.mark.parametrize(
    "change",
    ["INSERT INTO pragma_database_list VALUES (1, 2, 3)", "UPDATE pragma_database_list SET name = 1",
     "DELETE FROM pragma_database_list"],
)  # fmt: skip
def test_the_list_of_databases_cannot_be_changed(db, change):
    assert db.post(execute(change)).error()["message"].endswith("table pragma_database_list may not be modified")


@pytest.mark.parametrize(
    "call",
    ["stddev(x)", "corr(x, 1)", "median(x)", "percentile_cont(1, x)", "date_trunc('day', x)",
     "date_trunc(x, '2024-01-01')"],
)  # fmt: skip
def test_text_that_is_not_utf8_is_an_error_of_the_statement(db, call):
    answer = db.post(execute(f"SELECT {call} FROM (SELECT CAST(x'ff' AS TEXT) AS x)"))
    assert (answer.status, answer.codes) == (200, ["SQLITE_MISMATCH"])
