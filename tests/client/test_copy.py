"""Tables from one database to another."""

from __future__ import annotations

import math
import re
import sqlite3
from contextlib import closing

import pytest

from pipemagic import errors
from pipemagic.client.bulk import batches
from pipemagic.client.cursor import Cursor
from pipemagic.client.stream import Dialect
from pipemagic.hrana.values import Float
from pipemagic.service.limits import Limits

VALUES = [
    1,
    -(2**63),
    2**63 - 1,
    0.1,
    1 / 3,
    -0.0,
    5e-324,
    math.inf,
    -math.inf,
    "text",
    "1",
    "a\0b",
    "é😀'\"",
    b"\0\xff",
    b"",
    None,
]


def schema(database) -> list[tuple[str, str, str]]:
    asked = "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'libsql%' ORDER BY name"
    return database.execute(asked).rows


def kept(database, table: str = "t") -> list[tuple]:
    """Return all cells of a table with their types, and doubles bit for bit."""
    names = [name for (name,) in database.execute("SELECT name FROM pragma_table_xinfo(?)", [table]).rows]
    quoted = ['"' + name.replace('"', '""') + '"' for name in names]
    shown = ", ".join(f"typeof({name}), {name}, {name} > 0" for name in quoted)
    rows = database.execute(f'SELECT {shown} FROM "{table.replace(chr(34), chr(34) * 2)}"').rows
    return [tuple(exact(cell) if isinstance(cell, float) else cell for cell in row) for row in rows]


def exact(number: float) -> str:
    """Write a double with all its bits; sqld sends infinities without a sign, which another column has."""
    return number.hex() if math.isfinite(number) else "infinite"


@pytest.fixture(params=["embedded to sqld", "sqld to embedded"])
def pair(request, embedded, on_sqld):
    """A source and a target."""
    return (embedded, on_sqld) if request.param == "embedded to sqld" else (on_sqld, embedded)


def fill(database, values=VALUES) -> None:
    database.execute("CREATE TABLE t(x)")
    for value in values:
        if value in (math.inf, -math.inf):
            database.execute(f"INSERT INTO t VALUES ({'-' if value < 0 else ''}9e999)")
        else:
            database.execute("INSERT INTO t VALUES (?)", [value])


def test_every_value_arrives_as_it_is(pair) -> None:
    source, target = pair
    fill(source)
    assert source.copy("t", target) == len(VALUES)
    assert kept(target) == kept(source)


TEXTS = ["x'5ae97a65'", "x'ff00fe'", "x'c3a9'", "x'efbfbd'"]
"""Latin-1, invalid with a NUL, a letter of two bytes, and the character that stands for invalid ones."""


@pytest.mark.parametrize("columns", ["n, t", "n INTEGER, t TEXT", "n, t DATE, o INT DEFAULT 2"])
def test_texts_that_are_not_utf8_are_copied_as_they_are(pair, columns) -> None:
    source, target = pair
    source.execute(f"CREATE TABLE t({columns})")
    for number, text in enumerate(TEXTS):
        source.execute(f"INSERT INTO t(n, t) VALUES ({number}, CAST({text} AS TEXT)), ({number}.5, {text})")
    source.execute("INSERT INTO t(n, t) VALUES (9e999, -9e999), (NULL, NULL), ('1x', 2), (x'', 'it''s')")
    assert source.copy("t", target) == 12
    query = "SELECT hex(n), typeof(n), hex(t), typeof(t) FROM t ORDER BY rowid"
    copied = target.execute(query).rows
    assert copied == source.execute(query).rows
    assert copied[0][2:] == ("5AE97A65", "text")
    source.execute("CREATE TABLE u(a PRIMARY KEY, n INT, t TEXT)")
    source.execute("CREATE VIEW v AS SELECT n, t FROM t WHERE typeof(n) = 'integer'")
    assert source.copy("v", target, "t", if_exists="append") == 4  # the rows of a view, into a table
    assert target.execute(query).rows == copied + [row for row in copied if row[1] == "integer"]


def test_a_text_that_is_not_utf8_is_explained(pair) -> None:
    source, _ = pair
    source.batch(["CREATE TABLE t(a TEXT)", "INSERT INTO t VALUES (CAST(x'ff' AS TEXT))"])
    with pytest.raises(errors.PipemagicError, match=r"CAST\((?:a|\.\.\.) AS BLOB\)"):
        source.execute("SELECT a FROM t")


def test_texts_that_are_not_utf8_in_many_columns(pair) -> None:
    source, target = pair
    names = [f"c{number}" for number in range(130)]
    source.execute(f"CREATE TABLE t({', '.join(names)})")
    texts = [f"CAST(x'41{number:02x}' AS TEXT)" if number % 3 else str(number) for number in range(130)]
    source.execute(f"INSERT INTO t VALUES ({', '.join(texts)})")
    source.copy("t", target)
    query = f"SELECT {', '.join(f'hex({name}), typeof({name})' for name in names)} FROM t"
    assert target.execute(query).rows == source.execute(query).rows


def test_many_rows_in_bounded_batches(pair, monkeypatch) -> None:
    monkeypatch.setattr(batches, "AIM", 5_000)
    source, target = pair
    source.batch(["CREATE TABLE t(n INTEGER PRIMARY KEY, s)", """INSERT INTO t WITH RECURSIVE c(n) AS
        (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 5000) SELECT n, 'row ' || n FROM c"""])  # fmt: skip
    seen: list[int] = []
    assert source.copy("t", target, progress=seen.append) == 5000
    assert len(seen) > 10
    assert seen == sorted(seen)
    assert kept(target) == kept(source)


def test_large_values(pair) -> None:
    source, target = pair
    source.batch(["CREATE TABLE t(a, b)", "INSERT INTO t VALUES (hex(zeroblob(2300000)), 1), ('x', zeroblob(2000000))"])
    source.copy("t", target)
    assert target.execute("SELECT length(a), length(b), typeof(b) FROM t").rows == [
        (4_600_000, 1, "integer"), (1, 2_000_000, "blob")]  # fmt: skip


DEFINED = [
    """CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, b VARCHAR(9) NOT NULL DEFAULT 'd' CHECK (b <> ''),
       c GENERATED ALWAYS AS (id * 2), d DATE UNIQUE)""",
    "CREATE INDEX plain ON t(b)",
    "CREATE UNIQUE INDEX part ON t(b, c) WHERE id > 1",
    "CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT 1; END",
    "INSERT INTO t(id, b, d) VALUES (5, 'x', '2024-01-31'), (7, 'y', NULL)",
]


def test_a_new_table_has_the_definition_and_the_indexes(pair) -> None:
    source, target = pair
    source.batch(DEFINED)
    source.copy("T", target, "t")
    assert kept(target) == kept(source)
    copied = {name: text for _, name, text in schema(target)}
    assert copied["t"].replace('"t"', "t") == DEFINED[0]
    assert {name for name in copied if not name.startswith("sqlite")} == {"t", "plain", "part"}
    target.execute("INSERT INTO t(b) VALUES ('z')")
    assert target.execute("SELECT max(id) FROM t").rows == [(8,)]


@pytest.mark.parametrize("name", ['a"b', "[x]", "é😀", "a;DROP TABLE t"])
def test_hostile_names(pair, name) -> None:
    source, target = pair
    quoted = '"' + name.replace('"', '""') + '"'
    source.batch([f"CREATE TABLE {quoted}({quoted} PRIMARY KEY) WITHOUT ROWID", f"INSERT INTO {quoted} VALUES (1), (2)",
                  f'CREATE INDEX "i{quoted[1:]} ON {quoted}({quoted})'])  # fmt: skip
    source.copy(name, target)
    source.copy(name, target, f"{name} 2")
    source.copy(name, target, if_exists="replace")
    assert kept(target, name) == kept(target, f"{name} 2") == kept(source, name)


UNUSUAL = [
    ("t.u", "CREATE TABLE [t.u](`a``b` [long text], 'c' \"INT\" -- ; )\n, [d e] /* ( */) -- end", "[d e]"),
    ("été", "CREATE TABLE été(\"É\" INT CHECK (\"É\" <> ';'), é, x AS (é || ')') STORED)", "É, é DESC"),
    ("t", "create table t(a integer primary key, b text collate nocase default ('a;''b')) strict", "b, a"),
    ("T", "CREATE TABLE IF NOT EXISTS main.T(a INT, b INT DEFAULT 2, PRIMARY KEY (b)) WITHOUT ROWID, STRICT", "abs(a)"),
    ("begin", "CREATE TABLE begin(end, CONSTRAINT ck CHECK (end IN (1, 2)))", "end COLLATE nocase DESC"),
]


@pytest.mark.parametrize(("name", "text", "columns"), UNUSUAL, ids=[name for name, _, _ in UNUSUAL])
def test_unusual_definitions_are_copied(pair, name, text, columns) -> None:
    source, target = pair
    source.batch([
        text, f'INSERT INTO "{name}" DEFAULT VALUES',
        f'CREATE INDEX IF NOT EXISTS main.[i;j] ON "{name}"({columns}) WHERE (1) /* end */',
        f"CREATE UNIQUE INDEX 'it''s' ON \"{name}\"({columns}) -- end",
    ])  # fmt: skip
    source.copy(name, target)
    source.copy(name, target, f"{name} 2")
    source.execute(f'ALTER TABLE "{name}" RENAME TO "a new ""name"""')
    source.copy('a new "name"', target, name, "replace")
    assert kept(target, name) == kept(target, f"{name} 2") == kept(source, 'a new "name"')
    indexes = {name for kind, name, _ in schema(target) if kind == "index"}
    assert indexes == {"i;j", "it's", f"{name} 2_i;j", f"{name} 2_it's"}


def test_names_that_differ_only_in_letters_beyond_ascii(pair) -> None:
    source, target = pair
    source.batch(["CREATE TABLE É(É, é)", "INSERT INTO É VALUES (1, 2)"])
    source.copy("É", target)
    source.copy("É", source, "é")
    assert target.execute("SELECT É, é FROM É").rows == source.execute("SELECT * FROM é").rows == [(1, 2)]


def test_types_with_signs_are_copied_from_a_view(pair) -> None:
    source, target = pair
    source.batch(['CREATE TABLE t(a "br]c", b "INT); DROP", c [my int])', "INSERT INTO t VALUES ('1', '2', '3')",
                  "CREATE VIEW v AS SELECT * FROM t"])  # fmt: skip
    source.copy("v", target)
    types = "SELECT type FROM pragma_table_info(?)"
    assert target.execute(types, ["v"]).rows == source.execute(types, ["t"]).rows
    assert target.execute("SELECT * FROM v").rows == source.execute("SELECT * FROM t").rows


def test_a_trigger_may_have_any_name(pair) -> None:
    source, target = pair
    source.batch(["CREATE TABLE t(a)", "INSERT INTO t VALUES (1)"])
    target.batch(["CREATE TABLE y(a)", "CREATE TRIGGER t AFTER INSERT ON y BEGIN SELECT 1; END"])
    source.copy("t", target)
    target.execute("CREATE TRIGGER [{staging}] AFTER INSERT ON y BEGIN INSERT INTO t VALUES (new.a); END")
    source.copy("t", target, if_exists="replace")
    assert [name for _, name, _ in schema(target)] == ["t", "t", "y", "{staging}"]
    target.execute("INSERT INTO y VALUES (5)")
    assert target.execute("SELECT * FROM t").rows == [(1,), (5,)]


def test_a_view_becomes_a_table(pair) -> None:
    source, target = pair
    source.batch([*DEFINED, 'CREATE VIEW v AS SELECT d, b AS "B b", count(*) AS n FROM t GROUP BY 1, 2'])
    source.copy("v", target)
    assert schema(target) == [("table", "v", 'CREATE TABLE "v" ("d" DATE, "B b" VARCHAR(9), "n")')]
    assert target.execute("SELECT * FROM v").rows == source.execute("SELECT * FROM v").rows


def test_append(pair) -> None:
    source, target = pair
    source.batch(["CREATE TABLE t(a, b)", "INSERT INTO t VALUES ('007', 1)"])
    target.batch(["CREATE TABLE t(b INTEGER, a TEXT, c DEFAULT 5)", "CREATE TABLE u(a INT, b)", "CREATE TABLE w(a)"])
    source.copy("t", target, if_exists="append")
    assert target.execute("SELECT * FROM t").rows == [(1, "007", 5)]
    with pytest.raises(errors.LoadError, match="'007' would become another value"):
        source.copy("t", target, "u", "append")
    with pytest.raises(errors.LoadError, match="the table has no b"):
        source.copy("t", target, "w", "append")
    with pytest.raises(errors.LoadError, match="table u already exists"):
        source.copy("t", target, "u")
    assert [name for _, name, _ in schema(target)] == ["t", "u", "w"]


DATES = [
    "2013-01-01", "2013-01-01 00:00:00", "2013-01-01T00:00", "2013-01-01 00:00:00.000000", None, 20130101, "",
    "01.05.2024",
]  # fmt: skip


NAIVE, AWARE = "2013-01-01 05:17:00.500000", "2013-01-01 05:17:00.500000+00:00"


@pytest.mark.parametrize(("own", "other"), [(NAIVE, AWARE), (AWARE, NAIVE)])
def test_times_with_an_offset_are_not_added_to_those_without_one(pair, own, other) -> None:
    source, target = pair
    for database, text in ((source, own), (target, other)):
        database.batch(["CREATE TABLE t (at TIMESTAMP)", f"INSERT INTO t VALUES ('{text}')"])
    with pytest.raises(errors.LoadError, match=r"column at: the times of t have (an|no) offset") as caught:
        source.copy("t", target, if_exists="append")
    source.execute(f"CREATE VIEW v AS SELECT {caught.value.hint.partition('with ')[2]} FROM t")
    source.copy("v", target, "t", if_exists="append")
    assert target.execute("SELECT at FROM t").rows == [(other,), (other,)]


@pytest.mark.parametrize("kind", ["DATE", "DATETIME", "TIMESTAMP", "TEXT", ""])
def test_appended_dates_have_the_form_of_the_declared_type(pair, kind) -> None:
    source, target = pair
    source.execute(f"CREATE TABLE t(d {kind})")
    source.batch([("INSERT INTO t VALUES (?)", [date]) for date in DATES])
    target.batch(["CREATE TABLE day(d DATE)", "CREATE TABLE moment(d DATETIME)", "CREATE TABLE same(d)"])
    if kind == "TEXT":  # a column of numbers would convert the number
        source.execute("DELETE FROM t WHERE d = '20130101'")
    stored = [date for (date,) in source.execute("SELECT d FROM t").rows]
    source.copy("t", target)
    source.copy("t", target, "same", "append")
    source.copy("t", target, "day", "append")
    source.copy("t", target, "moment", "append")
    as_day = dict.fromkeys(DATES[:4], "2013-01-01")
    as_moment = {"2013-01-01": "2013-01-01 00:00:00"}
    expected = {
        "t": stored,
        "same": stored,
        "day": stored if kind == "DATE" else [as_day.get(date, date) for date in stored],
        "moment": stored if kind in ("DATETIME", "TIMESTAMP") else [as_moment.get(date, date) for date in stored],
    }
    for name, values in expected.items():
        assert [date for (date,) in target.execute(f"SELECT d FROM {name}").rows] == values, name


@pytest.mark.parametrize("late", ["2013-01-01 05:17:00", "2013-01-01 00:00:00+00:00", "2013-01-01T00:00:00.001"])
def test_a_time_of_day_is_refused_in_a_date_column(pair, late) -> None:
    source, target = pair
    source.batch(["CREATE TABLE t(at DATETIME)", "INSERT INTO t VALUES ('2013-01-01 00:00:00')"])
    source.execute("INSERT INTO t VALUES (?)", [late])
    source.execute("CREATE VIEW days AS SELECT date(at) AS at FROM t")
    target.execute("CREATE TABLE t(at DATE)")
    message = re.escape(f"column at: t declares it DATE, but '{late}' has a time of day (row 2); nothing was changed")
    with pytest.raises(errors.LoadError, match=message) as caught:
        source.copy("t", target, if_exists="append")
    assert 'copy a view that selects date("at")' in caught.value.hint
    assert target.execute("SELECT count(*) FROM t").rows == [(0,)]
    source.copy("days", target, "t", "append")
    assert target.execute("SELECT * FROM t").rows == [("2013-01-01",)] * 2


def test_replace_keeps_views_and_triggers_and_takes_over_the_indexes(pair) -> None:
    source, target = pair
    source.batch(["CREATE TABLE t(a, b)", "CREATE INDEX mine ON t(b)", "INSERT INTO t VALUES (1, 2)"])
    target.batch(["CREATE TABLE t(a)", "CREATE INDEX theirs ON t(a)", "CREATE VIEW v AS SELECT a FROM t",
                  "CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT new.a; END"])  # fmt: skip
    source.copy("t", target, if_exists="replace")
    assert [name for _, name, _ in schema(target)] == ["g", "mine", "t", "v"]
    assert target.execute("SELECT * FROM v").rows == [(1,)]


def test_within_one_database_under_another_name(full) -> None:
    full.batch(DEFINED)
    full.copy("t", full, "t2")
    assert kept(full, "t2") == kept(full)
    assert {"plain", "t2_plain"} <= {name for _, name, _ in schema(full)}
    with pytest.raises(errors.LoadError, match="onto itself"):
        full.copy("t", full, "T", "replace")


def test_a_source_that_is_cut_off_in_the_middle_leaves_nothing(pair, monkeypatch) -> None:
    source, target = pair
    source.batch(["CREATE TABLE t(a)", "INSERT INTO t VALUES (1), (2)"])
    target.batch(["CREATE TABLE t(old)", "INSERT INTO t VALUES (9)"])

    def cut(self):
        yield [[Float(1.0) for _ in self.cols]]
        raise errors.UnknownOutcome("the connection ended in the middle of a response")

    monkeypatch.setattr(batches, "FIRST", 1)
    monkeypatch.setattr(Cursor, "__iter__", cut)
    with pytest.raises(errors.LoadError, match="nothing was changed"):
        source.copy("t", target, if_exists="replace")
    assert target.execute("SELECT * FROM t").rows == [(9,)]
    assert [name for _, name, _ in schema(target)] == ["t"]


def test_an_interrupt_leaves_nothing(pair) -> None:
    source, target = pair
    fill(source, [1, 2])

    def interrupt(_):
        raise KeyboardInterrupt

    with pytest.raises(errors.InterruptedRequest, match="interrupted while rows were received; nothing was changed"):
        source.copy("t", target, progress=interrupt)
    assert schema(target) == []


def test_more_rows_than_one_response_without_cursors(on_sqld, embedded) -> None:
    numbers = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 12) SELECT n FROM c"
    on_sqld.batch(["CREATE TABLE t(n, x)", f"INSERT INTO t SELECT n, zeroblob(1000000) FROM ({numbers})"])
    on_sqld._dialect = Dialect.SEED
    with pytest.raises(errors.LoadError, match="nothing was changed") as caught:
        on_sqld.copy("t", embedded)
    assert "no cursors: copy views of parts of it, with append" in caught.value.hint
    assert schema(embedded) == []


def test_a_source_with_the_seed_alone(on_seed, embedded) -> None:
    on_seed.execute("CREATE TABLE t(a, b)")
    on_seed.execute("INSERT INTO t VALUES (1, 'x'), (0.1, NULL)")
    assert on_seed.copy("t", embedded) == 2
    assert kept(embedded) == kept(on_seed)


def test_values_beyond_the_limit_of_the_source_are_read(tmp_path, limited, embedded) -> None:
    """The query builds nothing, not even the signs of infinite numbers."""
    file, value = tmp_path / "file", "x" * 6_000_000
    with closing(sqlite3.connect(file)) as db:
        db.execute("CREATE TABLE t(a, b, c)")
        db.executemany("INSERT INTO t VALUES (?, ?, ?)", [(value, math.inf, -math.inf), ("small", -math.inf, 1)])
        db.commit()
    service, source = limited(Limits(value=1_000_000))
    service.engine.databases.place(service.catalog.database("local", "flights").id, file)
    assert source.copy("t", embedded, "copy") == 2
    rows = embedded.execute("SELECT length(a), b, c FROM copy").rows
    assert rows == [(6_000_000, math.inf, -math.inf), (5, -math.inf, 1)]
    with pytest.raises(errors.LoadError, match="row 1 has 6,000,016 bytes, 6,000,000 of them in column a;"):
        embedded.copy("copy", source, "back")
    assert [name for _, name, _ in schema(source)] == ["t"]


def test_signs_of_many_columns(pair) -> None:
    """More than the bits of one integer."""
    source, target = pair
    numbers = [(-1) ** (place // 2) * 9e999 if place % 3 else place / 4 for place in range(150)]
    names = [f"c{place}" for place in range(150)]
    source.execute(f"CREATE TABLE t({', '.join(names)})")
    source.execute(f"INSERT INTO t VALUES ({', '.join(repr(number).replace('inf', '9e999') for number in numbers)})")
    assert source.copy("t", target) == 1
    positive = ", ".join(f"{name} > 0" for name in names)
    assert target.execute(f"SELECT {positive} FROM t").rows == [tuple(int(number > 0) for number in numbers)]
    assert kept(target) == kept(source)
