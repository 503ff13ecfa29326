"""Every idiom in a hint runs and returns the result of the function of the other database."""

from __future__ import annotations

import pytest

from pipemagic.client.database import Database
from pipemagic.explore.hints import idioms

EVERY = sorted({one for several in idioms.IDIOMS.values() for one in several})


@pytest.fixture
def t(embedded: Database) -> Database:
    embedded.execute("CREATE TABLE t (x TEXT, y TEXT, n REAL, d TEXT, e TEXT)")
    embedded.execute(
        "INSERT INTO t VALUES ('a-b', 'c', 4, '2024-02-29 13:05:07', '2024-02-27'), "
        "('Abc', 'd', 2, '2013-01-01', '2013-01-01'), ('xyz', 'e', 9, '2024-12-31', '2024-12-30')"
    )
    return embedded


def run(database: Database, idiom: str) -> list[object]:
    text = idiom if idiom.startswith(("SELECT", "WITH")) else f"SELECT {idiom} FROM t"
    return [row[0] for row in database.execute(text).rows]


@pytest.mark.parametrize("idiom", EVERY)
def test_every_idiom_runs(t, idiom):
    rows = run(t, idiom)
    assert rows
    assert rows[0] is not None


@pytest.mark.parametrize(
    ("function", "values"),
    [
        ("date_trunc", ["2024-02-01", "2013-01-01", "2024-12-01"]),
        ("year", [2024, 2013, 2024]),
        ("month", [2, 1, 12]),
        ("day", [29, 1, 31]),
        ("hour", [13, 0, 0]),
        ("quarter", [1, 1, 4]),
        ("datediff", [pytest.approx(2.545, abs=1e-3), 0, 1]),
        ("dateadd", ["2024-03-01", "2013-01-02", "2025-01-01"]),
        ("last_day", ["2024-02-29", "2013-01-31", "2024-12-31"]),
        ("to_char", ["2024-02-29", "2013-01-01", "2024-12-31"]),
        ("left", ["a-", "Ab", "xy"]),
        ("right", ["-b", "bc", "yz"]),
        ("split_part", ["a", "", ""]),
        ("charindex", [1, 0, 0]),
        ("concat", ["a-bc", "Abcd", "xyze"]),
        ("string_agg", ["a-b, Abc, xyz"]),
        ("repeat", ["ababab"] * 3),
        ("lpad", ["00004", "00002", "00009"]),
        ("regexp", [0, 1, 0]),
        ("ilike", [1, 1, 0]),
        ("greatest", [4, 2, 9]),
        ("median", [4]),
        ("variance", [pytest.approx(13)]),
        ("stddev", [pytest.approx(13**0.5)]),
        ("var_pop", [pytest.approx(26 / 3)]),
        ("countif", [3]),
        ("trunc", [4, 2, 9]),
        ("generate_series", list(range(1, 11))),
    ],
)
def test_an_idiom_returns_the_result_of_the_function(t, function, values):
    assert run(t, idioms.IDIOMS[function][0]) == values


def test_the_median_of_an_even_number_of_values(t):
    t.execute("INSERT INTO t (n) VALUES (5), (NULL)")
    assert run(t, idioms.IDIOMS["median"][0]) == [4.5]


@pytest.mark.parametrize(
    ("function", "value"), [("variance", 4 / 3), ("stddev", (4 / 3) ** 0.5), ("var_pop", 1), ("stddev_pop", 1)]
)
def test_the_variance_of_large_values(t, function, value):
    t.execute("DELETE FROM t")
    t.execute("INSERT INTO t (n) VALUES (1e9 + 1), (1e9 + 1), (1e9 + 3), (1e9 + 3), (NULL)")
    assert run(t, idioms.IDIOMS[function][0]) == [pytest.approx(value)]


def test_the_hint_on_regexp_replace_names_its_limit():
    hint = "SQLite has no regexp_replace; replace(x, 'a', 'b') replaces plain text"
    assert idioms.of_function("REGEXP_REPLACE") == hint


@pytest.mark.parametrize(
    ("text", "at", "hint"),
    [
        ("SELECT x FROM t WHERE x ILIKE 'a%'", "ILIKE", "write x LIKE 'a%'"),
        ("SELECT TOP 5 * FROM t", "5", "write LIMIT 5 at the end"),
        ("SELECT x FROM t FETCH FIRST 5 ROWS ONLY", "FIRST", "write LIMIT 5 at the end"),
        ("SELECT EXTRACT(year FROM d) FROM t", "FROM", "write CAST(strftime('%Y', d) AS INTEGER)"),
        ("SELECT isnull(n, 0) FROM t", "isnull", "write ifnull(n, 0)"),
        ("SHOW TABLES", "SHOW", "%pipedb tables"),
        ("DESCRIBE t", "DESCRIBE", "%pipedb columns TABLE"),
        ("TRUNCATE TABLE t", "TRUNCATE", "write %sql --confirm DELETE FROM t"),
        ("SELECT x FROM t WHERE FROM t", "FROM t WHERE", ""),
        ("SELEC 1", "SELEC", ""),
        ("SELECT max(x FROM t", "FROM", ""),
    ],
)
def test_syntax_of_other_databases(text, at, hint):
    assert idioms.of_syntax(text, text.index(at)) == hint
