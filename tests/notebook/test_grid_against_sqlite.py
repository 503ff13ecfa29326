"""The rows, order, counts and summaries of a grid, compared with SQLite on the same file, and with pandas."""

from __future__ import annotations

import math
import random
import sqlite3
from collections import Counter
from contextlib import closing
from uuid import uuid4

import pandas as pd
import pytest
from waiting import until

from pipemagic.client.result import Result
from pipemagic.explore.page_query import OPERATORS, rows_sql

NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400)"
TABLES = f"""
CREATE TABLE t (id INTEGER PRIMARY KEY, few INTEGER, word TEXT, half REAL, mixed, day DATE);
{NUMBERS} INSERT INTO t SELECT i, (i * 7) % 3, substr('abcABCäß', i % 5 + 1, 1), iif(i % 11 = 0, NULL, (i % 8) / 2.0),
    CASE i % 6 WHEN 0 THEN NULL WHEN 1 THEN i % 4 WHEN 2 THEN i / 4.0 WHEN 3 THEN '0' || i % 9 WHEN 4 THEN x'00ff'
    ELSE 'x' END, date('2024-01-01', (i % 20) || ' days') FROM n;
CREATE TABLE u (few INTEGER, label TEXT);
INSERT INTO u VALUES (0, 'none'), (1, 'one'), (1, 'also one'), (3, 'three');
CREATE INDEX t_few ON t (few);
CREATE INDEX t_word ON t (word, few)
"""
EXPRESSIONS = [
    "id", "few", "word", "half", "mixed", "day", "few * 2 AS twice", "upper(word) AS w", "half IS NULL AS missing",
    "coalesce(mixed, 'none') AS m", "id % 2", "word || few", "typeof(mixed) AS kind",
]  # fmt: skip
SELECTS = [
    "SELECT {columns} FROM t {order}",
    "SELECT {columns} FROM t WHERE few <> 1 {order}",
    "SELECT DISTINCT {columns} FROM t {order}",
    "SELECT {columns}, label FROM t JOIN u USING (few) {order}",
    "SELECT {columns}, label FROM t LEFT JOIN u USING (few) {order}",
    "SELECT {columns}, row_number() OVER (PARTITION BY few ORDER BY id) AS rank FROM t {order}",
    "SELECT {columns}, count(*) AS n, sum(half) AS total FROM t GROUP BY few, word {order}",
    "WITH low AS (SELECT * FROM t WHERE id < 300) SELECT {columns} FROM low {order}",
    "SELECT {columns} FROM t WHERE id < 150 UNION ALL SELECT {columns} FROM t WHERE id > 250 {order}",
    "SELECT {columns} FROM t {order} LIMIT 333 OFFSET 7",
]
PAGE = 100


@pytest.fixture
def plain(db, service):
    """Create the tables; return a connection of the sqlite3 module to the file of the database."""
    mark = f"mark_{uuid4().hex}"  # the service has the databases of other tests, too
    db(f"%%sql --quiet --confirm\n{TABLES};\nCREATE TABLE {mark} (a)")
    (path,) = [path for path in service.folder.glob("databases/*/primary.sqlite") if _has_table(path, mark)]
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        yield connection


def _has_table(path, name) -> bool:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return bool(connection.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", [name]).fetchall())


def random_select(rng: random.Random) -> tuple[str, int | None]:
    """Return a SELECT, and the place of the column that orders it, most of them with many ties; None if none does."""
    columns = rng.sample(EXPRESSIONS, rng.randint(1, 4))
    place = rng.randrange(len(columns)) if rng.random() < 0.5 else None
    order = "" if place is None else f"ORDER BY {place + 1}{rng.choice(['', ' DESC'])}"
    return rng.choice(SELECTS).format(columns=", ".join(columns), order=order).strip(), place


def done(model):
    until(lambda: model.reading.wait(0) and model.counting.wait(0))
    assert model.reading.error is None, model.reading.error
    return model


def all_pages(model) -> list[tuple]:
    """Return the rows of all pages, from the first one."""
    rows = []
    model.turn(0)
    while True:
        page = done(model).page
        assert len(page.rows) == PAGE or not page.more
        rows += Result(page.result).rows
        if not page.more:
            assert model.total == len(rows)
            return rows
        model.turn(len(rows))


def same(rows) -> Counter:
    """Return rows as a multiset, in which 1 and 1.0 differ."""
    return Counter(tuple((type(value), value) for value in row) for row in rows)


def grid(db, select):
    model = db(f"%%sql --grid\n{select}").value.model
    model.resize(PAGE)
    return done(model)


@pytest.mark.parametrize("seed", range(4))
def test_pages_of_random_selects(db, plain, seed, soak):
    rng = random.Random(seed)
    for _ in range(200 if soak else 5):
        select, ordered = random_select(rng)
        expected = plain.execute(select).fetchall()
        model = grid(db, select)
        rows = all_pages(model)
        assert same(rows) == same(expected), select
        if ordered is not None:
            assert [row[ordered] for row in rows] == [row[ordered] for row in expected], select
        name = rng.choice(model.page.columns).name
        for _ in range(2):  # ascending and descending
            model.sort(name)
            done(model)
            place = [column.name for column in model.page.columns].index(name)
            rows = all_pages(model)
            sql = rows_sql(model.query, model.relation, limit=False)
            assert same(rows) == same(expected), sql
            assert [row[place] for row in rows] == [row[place] for row in plain.execute(sql)], sql
            assert rows == all_pages(model), sql  # the order is stable
        model.sort(name)
        column, operator = rng.choice(done(model).page.columns).name, rng.choice(OPERATORS)
        model.add_filter(column, operator, rng.choice(["1", "0.5", "a", "A", "'01'", "2024-01-05", "x", "%", "-1"]))
        done(model)
        filtered = plain.execute(rows_sql(model.query, model.relation, limit=False)).fetchall()
        assert same(all_pages(model)) == same(filtered), (select, model.query.filters)


def test_summaries(db, plain):
    select = "SELECT *, half * 2 AS twice, upper(word) AS w FROM t"
    model = grid(db, select)
    for where in ("", "few = 1", "id < 0"):
        model.set_condition(where)
        done(model)
        model.start_profile()
        until(lambda: model.profiling.wait(0))
        assert model.profiling.error is None
        rows = plain.execute(f"SELECT * FROM ({select}) WHERE {where or 1}")
        names = [column[0] for column in rows.description]
        frame = pd.DataFrame(rows.fetchall(), columns=names, dtype=object)
        assert list(model.profiles) == names
        for name, found in model.profiles.items():
            column = frame[name]
            count, nulls, distinct, low, high = plain.execute(
                f"SELECT count(*), count(*) - count({name}), count(DISTINCT {name}), min({name}), max({name}) "
                f"FROM ({select}) WHERE {where or 1}"
            ).fetchone()
            assert (found.rows, found.nulls, found.distinct) == (count, nulls, distinct), name
            assert (found.rows, found.nulls) == (len(column), column.isna().sum()), name
            assert (found.minimum, found.maximum) == (low, high), name
            numbers = pd.Series([value for value in column if isinstance(value, int | float)], dtype=float)
            if not len(numbers):
                assert found.mean is None
                continue
            assert math.isclose(found.mean, numbers.mean()), name
            assert found.quartiles == pytest.approx(numbers.quantile([0.25, 0.5, 0.75]).tolist()), name
            assert sum(found.bins) == len(numbers), name
