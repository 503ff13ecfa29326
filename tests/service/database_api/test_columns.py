"""Rows by columns have the same values as in rows, and are sent only to clients that request them."""

from __future__ import annotations

import math
import random
import struct
from itertools import repeat

import pytest
from by_columns import HEADERS, rows_of, rows_of_part
from plain_values import python, wire
from service_calls import CLOSE, Caller, caller_of, execute

from pipemagic.hrana.columns import MOST_ROWS
from pipemagic.service.database_api.results import MIN_COLUMN_ROWS, read
from pipemagic.service.limits import Limits
from pipemagic.service.service import Service

MANY = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {}) SELECT n, 'row ' || n FROM c"
COLUMNS = ["null", "integer", "float", "ascii", "text", "blob", "mixed"]


def by_columns(db):
    """Return the same client, reading columns."""
    return Caller(db.service, db.token, {**db.headers, **HEADERS})


@pytest.fixture
def reader(db):
    return by_columns(db)


# Values.


def random_value(choose, kind, holes):
    if choose.random() < holes:
        return None
    match kind:
        case "null":
            return None
        case "integer":
            return choose.choice([0, -1, 2**63 - 1, -(2**63), choose.randrange(-(2**40), 2**40)])
        case "float":
            double = struct.unpack("<d", choose.randbytes(8))[0]
            return double if math.isfinite(double) else -0.0
        case "ascii":
            return "".join(choose.choices("ab \0\n\"'\\", k=choose.randrange(6)))
        case "text":
            return "".join(choose.choices("aé日😀\0\u2028", k=choose.randrange(6)))
        case "blob":
            return choose.randbytes(choose.randrange(5))
    return random_value(choose, choose.choice(COLUMNS[:-1]), holes)


def exact(rows):
    """Distinguish values of different types, and minus zero from zero."""
    return [[(type(cell), repr(cell)) for cell in row] for row in rows]


def result_of(answer, index=0):
    assert answer.codes[index] == "ok", answer.error(index)
    return answer.response(index)["result"]


def rows_of_cursor(entries):
    rows = []
    for entry in entries.entries:
        if entry["type"] == "row":
            rows.append([python(cell) for cell in entry["row"]])
        elif entry["type"] == "rows":
            rows += rows_of_part(entry["part"], python)
    return rows


@pytest.mark.parametrize("size", [0, 1, MIN_COLUMN_ROWS - 1, MIN_COLUMN_ROWS, MIN_COLUMN_ROWS + 1, 2000])
def test_a_random_table_is_the_same_in_every_form(db, reader, size):
    choose = random.Random(size)
    kinds = [(kind, holes) for kind in COLUMNS for holes in (0, 0.5, 0.001)]
    wanted = [[random_value(choose, kind, holes) for kind, holes in kinds] for _ in range(size)]
    db.run(f"CREATE TABLE t({', '.join(f'c{number}' for number in range(len(kinds)))})")
    insert = f"INSERT INTO t VALUES ({', '.join('?' * len(kinds))})"
    answer = db.post(execute("BEGIN"), *(execute(insert, *map(wire, row)) for row in wanted), execute("COMMIT"), CLOSE)
    assert set(answer.codes) == {"ok"}
    listed, columns = result_of(db.run("SELECT * FROM t")), result_of(reader.run("SELECT * FROM t"))
    assert isinstance(listed["rows"], list)
    assert isinstance(columns["rows"], dict if size >= MIN_COLUMN_ROWS else list)
    assert exact(rows_of(listed, python)) == exact(wanted)
    assert exact(rows_of(columns, python)) == exact(wanted)
    assert {**columns, "rows": 0, "query_duration_ms": 0} == {**listed, "rows": 0, "query_duration_ms": 0}
    assert exact(rows_of_cursor(db.read("SELECT * FROM t"))) == exact(wanted)
    assert exact(rows_of_cursor(reader.read("SELECT * FROM t"))) == exact(wanted)


@pytest.mark.parametrize("size", [2, MIN_COLUMN_ROWS])
def test_infinities_have_a_sign(db, reader, size):
    sql = (
        f"SELECT CASE n % 2 WHEN 0 THEN 9e999 ELSE -9e999 END, CASE n % 2 WHEN 0 THEN 9e999 ELSE 'a' END "
        f"FROM ({MANY.format(size)})"
    )
    signed, plain = [[-math.inf, "a"], [math.inf, math.inf]], [[None, "a"], [None, None]]
    assert rows_of(result_of(reader.run(sql)), python)[:2] == signed
    assert rows_of_cursor(reader.read(sql))[:2] == signed
    listed = result_of(db.run(sql))
    assert rows_of(listed, python)[:2] == rows_of_cursor(db.read(sql))[:2] == plain
    assert listed["rows"][0][0] == {"type": "float", "value": None}


@pytest.mark.parametrize("columns", [1, 2000])
def test_any_number_of_columns(reader, columns):
    sql = f"SELECT {', '.join(['n'] * columns)} FROM ({MANY.format(MIN_COLUMN_ROWS)})"
    assert rows_of(result_of(reader.run(sql)), python) == [[n + 1] * columns for n in range(MIN_COLUMN_ROWS)]


# Requests.


def test_the_form_of_each_result_of_a_batch_depends_on_its_size(reader):
    steps = [{"stmt": {"sql": sql}} for sql in (MANY.format(1000), "SELECT 1", MANY.format(300))]
    answer = reader.post({"type": "batch", "batch": {"steps": steps}}, CLOSE, version=2)
    results = result_of(answer)["step_results"]
    assert [len(rows_of(result, python)) for result in results] == [1000, 1, 300]
    assert [type(result["rows"]) for result in results] == [dict, list, dict]


def test_no_rows_are_sent_without_want_rows(reader):
    assert result_of(reader.post(execute(MANY.format(1000), want_rows=False), CLOSE))["rows"] == []
    answer = reader.read({"stmt": {"sql": MANY.format(1000), "want_rows": False}})
    assert answer.kinds == ["step_begin", "step_end"]


@pytest.mark.parametrize("value", ["", "rows", "columns, rows"])
def test_another_value_of_the_header_is_ignored(db, value):
    caller = Caller(db.service, db.token, {**db.headers, "pipemagic-rows": value})
    assert isinstance(result_of(caller.run(MANY.format(1000)))["rows"], list)


def test_rows_of_a_write_are_sent_by_columns_after_its_end(db, reader):
    """They are kept in a file meanwhile."""
    db.run("CREATE TABLE t(a, b)")
    answer = reader.read(f"INSERT INTO t SELECT n, hex(zeroblob(100)) FROM ({MANY.format(20_000)}) RETURNING a, b")
    assert [row[0] for row in rows_of_cursor(answer)] == list(range(1, 20_001))
    assert answer.entries[-1]["affected_row_count"] == 20_000


# Errors.


@pytest.mark.parametrize("rows", [10, MIN_COLUMN_ROWS, 20_000])
def test_text_that_is_not_utf8_is_the_error_of_its_statement(reader, rows):
    text = f"SELECT n, CASE WHEN n = {rows} THEN CAST(x'ff' AS TEXT) END FROM ({MANY.format(rows)})"
    assert reader.run(text, "SELECT 1").codes == ["SQLITE_MISMATCH", "ok", "ok"]
    assert reader.read(text, "SELECT 'after'").kinds[-4:] == [
        "step_error SQLITE_MISMATCH", "step_begin", "row", "step_end"
    ]  # fmt: skip


@pytest.mark.parametrize(("query", "place", "read"), [
    ("SELECT * FROM city", "column name, row 2", "name"),
    ('SELECT id, "a b" FROM (SELECT *, name AS "a b" FROM city) -- all', "column a b, row 2", '"a b"'),
    ("SELECT id, name || '' AS s FROM city ORDER BY id DESC;", "column s, row 1", "..."),
    ("WITH n AS (SELECT * FROM city WHERE id >= ?) SELECT 1, name FROM n", "column name, row 1", "name"),
])  # fmt: skip
def test_the_error_of_such_a_text_has_its_column_and_row(db, query, place, read):
    db.run("CREATE TABLE city(id INTEGER PRIMARY KEY, name TEXT)")
    db.run("INSERT INTO city VALUES (1, 'Porto'), (2, CAST(x'5ae97a65' AS TEXT))")
    args = [{"type": "integer", "value": "2"}] if "?" in query else []
    message = db.post(execute(query, *args)).error()["message"]
    assert f"({place}: " in message
    assert f"CAST({read} AS BLOB)" in message


def test_the_error_of_such_a_text_says_that_rows_are_changed(db):
    db.run("CREATE TABLE city(id INTEGER PRIMARY KEY, name TEXT)", "INSERT INTO city VALUES (1, CAST(x'ff' AS TEXT))")
    answer = db.run("UPDATE city SET id = 2 RETURNING name", "SELECT id FROM city")
    assert answer.error()["message"].endswith("CAST(... AS BLOB); what the statement changed stays applied")
    assert answer.rows(1) == [["2"]]


def test_a_response_has_its_limit_in_columns_too(tmp_path, clock):
    service = Service(tmp_path / "data", clock=clock, limits=Limits(response=100_000))
    try:
        service.catalog.create_group("local", "default", "ams")
        reader = by_columns(caller_of(service, "flights"))
        answer = reader.run(MANY.format(20_000), MANY.format(1000))
        assert answer.codes == ["RESPONSE_TOO_LARGE", "ok", "ok"]  # the first one released its memory
        assert len(rows_of(result_of(answer, 1), python)) == 1000
    finally:
        service.close()


def test_nulls_count_for_the_limit_though_they_have_no_bytes_in_columns(tmp_path, clock):
    """The client would refuse them: it sends the statement again as a cursor instead."""
    service = Service(tmp_path / "data", clock=clock, limits=Limits(response=1_000_000))
    try:
        service.catalog.create_group("local", "default", "ams")
        reader = by_columns(caller_of(service, "flights"))
        nulls = f"SELECT NULL, NULL, NULL, NULL, NULL FROM ({MANY})"
        assert reader.run(nulls.format(26_000), nulls.format(24_000)).codes == ["RESPONSE_TOO_LARGE", "ok", "ok"]
    finally:
        service.close()


def test_rows_that_are_all_null_are_sent_in_parts_of_limited_size():
    """They take no bytes by columns, so only their number limits a part."""
    source = repeat((None,), 4 * MOST_ROWS)
    sizes = [len(rows) for rows in iter(lambda: read(source)[0], [])]
    assert max(sizes) <= MOST_ROWS
    assert sum(sizes) == 4 * MOST_ROWS
