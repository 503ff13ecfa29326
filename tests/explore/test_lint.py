"""Notes on SQL that SQLite runs without an error, and correct SQL that gets none."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from service_calls import Clock
from service_http import ServiceTransport

from pipemagic.client.database import Database
from pipemagic.explore.lint import LONGEST, lint
from pipemagic.explore.query import Query
from pipemagic.explore.schema import Column, Relation
from pipemagic.explore.schema_reader import read_schema
from pipemagic.explore.token_tree import Group
from pipemagic.notebook.notes import FOUND_IN
from pipemagic.service.service import Service

TABLES = [
    "CREATE TABLE flight (id INTEGER PRIMARY KEY, carrier TEXT, origin TEXT, dest TEXT, dep_time INTEGER, "
    "dep_delay INTEGER, distance REAL, day DATE, cancelled BOOLEAN, seats BIGINT)",
    "CREATE TABLE airline (carrier TEXT PRIMARY KEY, name TEXT, country TEXT)",
    'CREATE TABLE "my table" ("first name" TEXT, "2013" INTEGER)',
    "CREATE VIEW late AS SELECT id, carrier, dep_delay FROM flight WHERE dep_delay > 15",
    "INSERT INTO flight (carrier, origin, dep_time, dep_delay, distance, seats) VALUES ('AA', 'JFK', 930, 7, 2.5, 3)",
    "INSERT INTO airline VALUES ('AA', 'American', 'US')",
]


class Undone(Exception):
    """Raised to roll back a transaction."""


@pytest.fixture(scope="module")
def flights(tmp_path_factory) -> Iterator[Database]:
    clock = Clock()
    service = Service(tmp_path_factory.mktemp("lint") / "data", clock=clock, signup=True)
    service.catalog.create_group("local", "default", "ams")
    record = service.catalog.create_database("local", "flights", "default")
    token = service.tokens.issue_database(record, read_only=False, expires_in=None, subject="ada")
    http = httpx.Client(transport=ServiceTransport(service))
    with Database("http://127.0.0.1:8080", token, http=http, clock=clock) as database:
        for statement in TABLES:
            database.execute(statement)
        yield database
    service.close()


@pytest.fixture(scope="module")
def tables(flights: Database) -> dict[str, Relation]:
    return {relation.name.lower(): relation for relation in read_schema(flights).relations}


@pytest.fixture(scope="module")
def notes(flights, tables):
    """Run a statement without an error, and undo it; return the notes on it."""

    def run(text: str) -> list[str]:
        with suppress(Undone), flights.transaction() as transaction:
            transaction.execute(text)
            raise Undone
        found = lint(text, {}, tables)
        assert not found or FOUND_IN.search(text)  # cells without a match are skipped
        return found

    return run


QUOTED = "use single quotes"


@pytest.mark.parametrize(
    "text",
    [
        'SELECT count(*) FROM flight WHERE carrier = "AA"',
        'SELECT count(*) FROM flight WHERE carrier IN ("AA", "UA")',
        'SELECT id, "AA" AS code FROM flight',
        'SELECT f.id FROM flight AS f JOIN airline AS a ON a.carrier = f.carrier AND name LIKE "A%"',
        'SELECT CASE WHEN origin = "JFK" THEN 1 ELSE 0 END FROM flight',
        'SELECT id FROM flight WHERE carrier = (SELECT carrier FROM airline WHERE name = "American")',
        "INSERT INTO airline VALUES (\"B6\", 'JetBlue', 'US')",
        "UPDATE airline SET name = 'x' WHERE carrier = \"AA\"",
        'WITH x AS (SELECT carrier FROM flight) SELECT * FROM x WHERE carrier = "AA"',
        'SELECT id FROM late WHERE carrier = "AA"',
    ],
)
def test_double_quoted_string(notes, text):
    (note,) = notes(text)
    assert QUOTED in note
    assert '"' in note.partition(" is not a column")[0]


@pytest.mark.parametrize(
    ("column", "name", "difference"),
    [
        (" points", "points", "the name begins with a space"),
        ("re\u0301gion", "r\u00e9gion", "the name writes \u00e9 as e and U+0301"),
        ("a\tb", "a b", "the name contains a tab"),
        (
            "\ufeffid",
            "id",
            "the name begins with a byte order mark (U+FEFF); encoding='utf-8-sig' reads a file without it",
        ),
    ],
)
def test_a_string_that_looks_like_a_column(column, name, difference):
    tables = {"t": Relation("t", columns=(Column("a"), Column(column)))}
    assert lint(f'SELECT "{name}" FROM t', {}, tables) == [
        f'"{name}" is not a column; SQLite reads it as the string \'{name}\': write "{column}"; {difference}'
    ]
    assert lint(f'SELECT "{column}" FROM t', {}, tables) == []


def test_the_note_shows_the_string_in_single_quotes(notes):
    assert notes('SELECT id FROM flight WHERE carrier = "it\'s"') == [
        "\"it's\" is not a column; SQLite reads it as the string 'it''s': use single quotes"
    ]


@pytest.mark.parametrize(
    "text",
    [
        'SELECT "carrier", "Dep_Delay" FROM "flight" WHERE "origin" = \'JFK\'',
        'SELECT "first name", "2013" FROM "my table" ORDER BY "2013"',
        'SELECT carrier AS "the carrier", count(*) "n flights" FROM flight GROUP BY "the carrier" ORDER BY "n flights"',
        'SELECT (1) "one" FROM flight ORDER BY "one"',
        'SELECT "f"."id", "f"."carrier" FROM flight AS "f"',
        'WITH "a b"("c d") AS (SELECT 1), "e" AS (SELECT 2 AS "g") SELECT "c d", "g" FROM "a b", "e"',
        'SELECT "x" FROM (SELECT carrier AS "x" FROM flight)',
        'SELECT "count(*)" FROM (SELECT count(*) FROM flight)',
        'SELECT "column1" FROM (VALUES (1), (2))',
        'SELECT "rowid", "_ROWID_" FROM flight',
        "INSERT INTO airline (\"carrier\", \"name\") VALUES ('B6', 'x')",
        'INSERT INTO airline ("carrier") VALUES (\'AA\') ON CONFLICT ("carrier") DO UPDATE SET "name" = excluded.name',
        'UPDATE airline SET "name" = "name" || \'!\'',
        'SELECT sum(seats) OVER "w" FROM flight WINDOW "w" AS (PARTITION BY "origin" ORDER BY "id")',
        'SELECT * FROM flight JOIN airline USING ("carrier")',
        'SELECT upper(carrier) COLLATE "nocase" FROM flight',
        'SELECT "type", "name" FROM sqlite_master',
        "SELECT \"key\" FROM json_each('[1]')",
        'SELECT "id" FROM "late"',
        "SELECT [carrier], `origin` FROM flight",
        "CREATE TABLE IF NOT EXISTS other (\"a b\" TEXT DEFAULT 'x')",
        'SELECT \'"AA"\' -- "AA"',
    ],
)
def test_no_note_on_names_in_double_quotes(notes, text):
    assert not [note for note in notes(text) if QUOTED in note]


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("SELECT * FROM flight WHERE carrier = NULL", "= NULL is never true: write IS NULL"),
        ("SELECT * FROM flight WHERE NOT carrier <> NULL", "<> NULL is never true: write IS NOT NULL"),
        ("SELECT * FROM flight WHERE NULL == carrier", "== NULL is never true: write IS NULL"),
        ("SELECT id FROM flight WHERE (id > 1 OR carrier != null)", "!= NULL is never true: write IS NOT NULL"),
        ("SELECT CASE WHEN carrier = NULL THEN 1 END FROM flight", "= NULL is never true: write IS NULL"),
        ("UPDATE flight SET carrier = NULL WHERE origin = NULL", "= NULL is never true: write IS NULL"),
        ("DELETE FROM flight WHERE carrier = NULL", "= NULL is never true: write IS NULL"),
        ("UPDATE flight SET cancelled = carrier = NULL WHERE id = 1", "= NULL is never true: write IS NULL"),
        ("SELECT * FROM flight WHERE carrier IN (NULL)", "IN (NULL) is never true: write IS NULL"),
        ("SELECT * FROM flight WHERE id > 1 AND carrier in (null, NULL)", "IN (NULL) is never true: write IS NULL"),
        (
            "SELECT * FROM flight WHERE NOT flight.carrier IN ('AA', NULL)",
            "NOT IN with a NULL in its list is never true: remove the NULL",
        ),
        ("SELECT * FROM flight WHERE NOT id = 1 AND carrier IN (NULL)", "IN (NULL) is never true: write IS NULL"),
    ],
)
def test_comparison_with_null(notes, text, note):
    assert notes(text) == [note]


@pytest.mark.parametrize(
    "text",
    [
        "UPDATE flight SET carrier = NULL, origin = NULL WHERE id = 9",
        "INSERT INTO airline (carrier) VALUES ('AA') ON CONFLICT DO UPDATE SET name = NULL, country = NULL",
        "SELECT * FROM flight WHERE carrier IS NULL OR carrier IS NOT NULL",
        "SELECT * FROM flight WHERE carrier IN ('AA', NULL) OR carrier IN (SELECT NULL) OR carrier IN ()",
        "SELECT * FROM flight WHERE NOT id = 1 AND carrier IN ('AA', NULL)",
        "CREATE TABLE gate (id INTEGER CHECK (id IN (1, NULL)))",
        "SELECT * FROM flight WHERE carrier = NULLIF(origin, 'JFK')",
        "SELECT ' = NULL' -- = NULL",
        "SELECT NULL AS x, coalesce(carrier, NULL) FROM flight",
        "WITH x AS (SELECT NULL AS a) SELECT a FROM x",
    ],
)
def test_no_note_on_null_without_a_comparison(notes, text):
    assert notes(text) == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("SELECT carrier, count(*) FROM flight", "carrier"),
        ("SELECT origin, dest, avg(dep_delay) FROM flight GROUP BY origin", "dest"),
        ("SELECT origin, upper(dest) || '!', sum(distance) FROM flight GROUP BY 1", "dest"),
        ("SELECT *, count(*) FROM flight", "*"),
        ("SELECT f.carrier, max(distance), min(distance) FROM flight AS f", "carrier"),
        ("SELECT carrier FROM flight GROUP BY origin HAVING count(*) > 0", "carrier"),
        ("SELECT dest FROM flight GROUP BY origin", "dest"),
        ("SELECT 1 WHERE 0 UNION ALL SELECT dep_delay + count(*) FROM flight", "dep_delay"),
        ("SELECT * FROM (SELECT origin, count(*) AS n FROM flight)", "origin"),
        ("SELECT day, count(*) FROM flight GROUP BY origin COLLATE NOCASE", "day"),
        ("SELECT origin o, dest d, count(*) FROM flight GROUP BY o", "dest"),
        ("SELECT origin, sum(dep_delay) OVER (), count(*) FROM flight GROUP BY origin", "dep_delay"),
        ("SELECT origin, count(*) FILTER (WHERE dep_delay > 5) FROM flight", "origin"),
    ],
)
def test_bare_column(notes, text, name):
    (note,) = notes(text)
    assert note.startswith(f"{name} is neither aggregated nor grouped: it comes from an arbitrary row")
    assert note.endswith(" of each group") == ("GROUP BY" in text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT carrier, max(distance) FROM flight",
        "SELECT *, min(dep_delay) FROM flight GROUP BY origin",
        "SELECT carrier, max(distance), count(*) FROM flight",
        "SELECT origin, dest, count(*) FROM flight GROUP BY origin, dest",
        "SELECT f.origin, count(*) FROM flight f GROUP BY Origin",
        "SELECT origin, count(*) FROM flight f GROUP BY f.origin",
        "SELECT upper(origin) AS o, count(*) FROM flight GROUP BY o",
        "SELECT upper(origin), count(*) FROM flight GROUP BY upper(origin)",
        "SELECT 'from ' || upper(origin), count(*) FROM flight GROUP BY upper( origin )",
        "SELECT dep_time + 1, count(*) FROM flight GROUP BY dep_time",
        "SELECT origin o, upper(dest), count(*) FROM flight GROUP BY 1, 2",
        "SELECT id, carrier, count(*) FROM flight GROUP BY id",
        "SELECT name, country, count(*) FROM airline GROUP BY carrier",
        "SELECT name, count(*) FROM flight f JOIN airline USING (carrier) GROUP BY f.carrier",
        "SELECT carrier, avg(dep_delay) FROM flight WHERE carrier = 'AA'",
        "SELECT carrier, count(*) OVER (PARTITION BY id), row_number() OVER w FROM flight WINDOW w AS (ORDER BY id)",
        "SELECT carrier, (SELECT count(*) FROM airline) FROM flight",
        "SELECT count(*), sum(distance) / total(seats), count(DISTINCT carrier), 'x' FROM flight",
        "SELECT origin, sum(count(*)) OVER () FROM flight GROUP BY origin",
        "SELECT max(dep_time, dep_delay), carrier FROM flight",
        "SELECT count(*) * 1.0 / t.n FROM flight, (SELECT count(*) AS n FROM airline) AS t",
        "SELECT id, count(*) FROM late GROUP BY carrier",
        "SELECT DISTINCT origin FROM flight",
        "SELECT carrier c, count(*) FROM flight GROUP BY c",
        "SELECT strftime('%m', day) m, count(*) FROM flight GROUP BY m",
        "SELECT distance / 100 * 100 bin, count(*) FROM flight GROUP BY bin",
        "SELECT CASE WHEN dep_delay > 15 THEN 'late' ELSE 'ok' END half, count(*) FROM flight GROUP BY half",
        "SELECT CASE WHEN dep_delay > 15 THEN 'late' ELSE 'ok' END, count(*) FROM flight "
        "GROUP BY CASE WHEN dep_delay > 15 THEN 'late' ELSE 'ok' END",
        "SELECT upper(origin) origin, count(*) FROM flight GROUP BY origin",
        'SELECT upper(origin) "The Origin", count(*) FROM flight GROUP BY "the origin"',
        "SELECT carrier, count(*) FROM flight GROUP BY carrier COLLATE NOCASE",
        "SELECT carrier, max(id) - min(id) FROM flight WHERE carrier IN ('AA')",
        "SELECT carrier, count(*) FROM flight WHERE (carrier = 'AA')",
        "SELECT name, count(*) FROM flight JOIN airline USING (carrier)",
        "SELECT origin, rank() OVER (ORDER BY count(*)) FROM flight GROUP BY origin",
        "SELECT id, carrier, rowid, count(*) FROM flight GROUP BY rowid",
        "SELECT name, count(*) FROM sqlite_master",
        "INSERT INTO airline (carrier, name) SELECT dest, origin FROM flight WHERE id < 0 GROUP BY dest, origin",
    ],
)
def test_no_note_on_determined_columns_beside_an_aggregate(notes, text):
    assert notes(text) == []


@pytest.mark.parametrize("call", ["mode(distance)", "entropy(distance, 2)", "jsonb_group_array(id)"])
def test_no_note_beside_a_possible_aggregate(tables, call):
    assert lint(f"SELECT carrier, count(*), {call} FROM flight", {}, tables) == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("SELECT dep_delay / seats FROM flight", "dep_delay / seats"),
        ("SELECT f.dep_time/60 FROM flight f", "f.dep_time / 60"),
        ("SELECT 5 / 2", "5 / 2"),
        ("SELECT count(carrier) / count(*) FROM flight", "count(carrier) / count(*)"),
        ("SELECT 100 * sum(dep_delay) / count(*) FROM flight", "100 * sum(dep_delay) / count(*)"),
        ("SELECT round((dep_time + dep_delay) / 7, 2) FROM flight", "(dep_time + dep_delay) / 7"),
        ("SELECT sum(dest = 'LAX') / count(*) FROM flight", "sum(dest = 'LAX') / count(*)"),
        (
            "SELECT sum(CASE WHEN dest = 'LAX' THEN 1 ELSE 0 END) / count(*) FROM flight",
            "sum(CASE WHEN dest = 'LAX' THEN 1 ELSE 0 END) / count(*)",
        ),
        (
            "SELECT count(id) * 100 / (SELECT count(*) FROM flight) FROM flight WHERE dest = 'LAX'",
            "count(id) * 100 / (SELECT count(*) FROM flight)",
        ),
        ("SELECT CAST(distance AS INTEGER) / 2 FROM flight", "CAST(distance AS INTEGER) / 2"),
        ("SELECT count(carrier) / count(*) * 100 FROM flight", "count(carrier) / count(*)"),
        ("SELECT length(carrier) / 2 FROM flight", "length(carrier) / 2"),
        ("SELECT sum(seats) / nullif(count(*), 0) FROM flight", "sum(seats) / nullif(count(*), 0)"),
        ("SELECT sum(seats IN (1, 2) OR dest LIKE 'L%') / count(*) FROM flight", "sum(seats IN (1, 2) OR dest LIKE"),
        ("SELECT id FROM flight WHERE distance > (SELECT sum(seats) / count(*) FROM flight)", "sum(seats) / count(*)"),
        ("SELECT CASE WHEN seats > 0 THEN dep_delay / seats END FROM flight", "dep_delay / seats"),
        (
            "SELECT count(*) FILTER (WHERE dep_delay > 5) / count(*) FROM flight",
            "count(*) FILTER (WHERE dep_delay > 5) / count(*)",
        ),
        ("SELECT dep_delay / -seats FROM flight", "dep_delay / - seats"),
        ("SELECT 1 + dep_delay / seats * 1.5 FROM flight", "dep_delay / seats"),
        ("SELECT CAST(dep_delay / seats AS REAL) FROM flight", "dep_delay / seats"),
    ],
)
def test_division_of_integers(notes, text, shown):
    (note,) = notes(text)
    assert note.startswith(shown)
    assert "drops the fraction: write 1.0 * " in note


@pytest.mark.parametrize("declared", ["DECIMAL(10,2)", "NUMERIC"])
def test_division_of_decimals_that_are_stored_as_integers(declared):
    """10.00 / 4 is 2 in a column of DECIMAL, and 2.5 in one of REAL."""
    columns = (Column("price", declared), Column("cost", "REAL"), Column("n", "INTEGER"))
    tables = {"sale": Relation("sale", columns=columns)}
    where = f"divides integers where values of price ({declared}) are whole and drops the fraction: write 1.0 * "
    for divided in ("price / 4", "price / n", "sum(price) / count(*)", "n / price"):
        assert lint(f"SELECT {divided} FROM sale", {}, tables) == [f"{divided} {where}{divided}"]
    for divided in ("price / 4.0", "cost / 4", "avg(price) / 4", "price / cost"):
        assert lint(f"SELECT {divided} FROM sale", {}, tables) == []


@pytest.mark.parametrize(
    "text",
    [
        "SELECT distance / seats, dep_delay / distance FROM flight",
        "SELECT 1.0 * dep_delay / seats, dep_delay * 1.0 / seats, dep_delay / 60.0 FROM flight",
        "SELECT CAST(dep_delay AS REAL) / seats FROM flight",
        "SELECT (seats + 2) / 3 AS quarter, count(*) FROM flight GROUP BY quarter",
        "SELECT seats / 3, count(*) FROM flight GROUP BY seats / 3",
        "SELECT 'Q' || (seats / 3), count(*) FROM flight GROUP BY (seats / 3)",
        "SELECT f.seats / 3, count(*) FROM flight f GROUP BY seats / 3",
        "WITH x AS (SELECT seats / 10 AS bin FROM flight) SELECT bin, count(*) FROM x GROUP BY x.bin",
        "SELECT rank() OVER (PARTITION BY seats / 10 ORDER BY id), seats / 10 FROM flight",
        "SELECT (CAST(strftime('%m', day) AS INTEGER) + 2) / 3, CAST(substr(day, 1, 4) AS INTEGER) / 10 FROM flight",
        "SELECT (id / 10) * 10, 10 * (id / 10), 10 * (f.id / 10) FROM flight f",
        "SELECT floor(id / 10), CAST(id / 60 AS INTEGER), printf('%d h', dep_time / 60) FROM flight",
        "SELECT id FROM flight WHERE id / 100 = 3 OR seats / 100 IN (1, 2) ORDER BY id / 10",
        "SELECT sum(dep_time / 100 = 5) FROM flight",
        "SELECT DISTINCT seats / 10 FROM flight",
        "SELECT count(DISTINCT seats / 10) FROM flight",
        "SELECT substr(carrier, length(carrier) / 2) FROM flight",
        "UPDATE flight SET seats = seats / 2 WHERE id = 1",
        "INSERT INTO flight (seats) SELECT seats / 2 FROM flight",
        "SELECT dep_time / 100, dep_time % 100 FROM flight",
        "SELECT dep_delay / 10 * 10, count(*) FROM flight GROUP BY 1",
        "SELECT 3600 / 60, dep_delay / 1 FROM flight",
        "SELECT avg(dep_delay) / count(*), total(seats) / 2 FROM flight",
        "SELECT cancelled / seats, day / seats, '7' / seats FROM flight",
        "SELECT julianday(day) / 7, length(carrier) / 2.0 FROM flight",
        "SELECT dep_delay / nullif(distance, 0) FROM flight",
        "SELECT '1/2' -- 1/2",
        "SELECT x / y FROM (SELECT dep_delay * 1.0 AS x, seats AS y FROM flight)",
        "SELECT dep_delay / (SELECT avg(seats) FROM flight) FROM flight",
        "SELECT (dep_delay + 0.5) / seats FROM flight",
        "SELECT dep_delay || 1 / seats FROM flight",
        "SELECT dep_delay / seats || 'x' FROM (SELECT 1.5 AS dep_delay, 2 AS seats)",
    ],
)
def test_no_note_on_exact_intended_or_unknown_divisions(notes, text):
    assert notes(text) == []


@pytest.mark.parametrize(
    "text",
    ["SELECT dep_delay / 0 FROM flight", "SELECT distance / 0.0 FROM flight", "SELECT seats % 0 FROM flight",
     "SELECT 1 / (0)", "SELECT id FROM flight WHERE 5 / 0 > 1"],
)  # fmt: skip
def test_division_by_zero(notes, text):
    (note,) = notes(text)
    assert note.endswith(" is NULL: SQLite raises no error")


def test_division_by_a_parameter(tables):
    text = "SELECT dep_delay / :n FROM flight"
    assert lint(text, {":n": 0}, tables) == ["a division by :n, which is 0, is NULL: SQLite raises no error"]
    assert lint(text, {":n": 2.0}, tables) == []
    assert lint(text, {":n": 2}, tables) == [
        "dep_delay / :n divides integers and drops the fraction: write 1.0 * dep_delay / :n"
    ]
    assert lint("SELECT CASE WHEN :n > 0 THEN 1.0 * dep_delay / :n END FROM flight", {":n": 0}, tables) == []
    assert lint("SELECT dep_delay / 10, 0 / seats, 10 / 0.5 FROM flight", {}, tables)[0].startswith(
        "dep_delay / 10 div"
    )


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("dep_delay", "seats"),
        ("-dep_delay", "seats"),
        ("dep_delay", "-seats"),
        ("(dep_time + dep_delay)", "seats"),
        ("dep_time * dep_delay", "(seats + 1)"),
        ("dep_time % 100", "seats"),
        ("CASE WHEN seats > 2 THEN dep_time ELSE 7 END", "seats"),
        ("100 * sum(dep_delay)", "count(*)"),
        ("sum(dep_delay > 5)", "nullif(count(*) + 1, 0)"),
        ("count(*) FILTER (WHERE dep_delay > 5)", "(SELECT 2)"),
        ("sum(dep_time)", "sum(sum(seats)) OVER ()"),
        ("(SELECT max(dep_time) FROM flight)", "(SELECT count(*) + 6 FROM flight)"),
        ("CAST(seats AS INTEGER)", "2"),
    ],
)
def test_what_the_note_says_to_write_is_the_quotient(flights, tables, left, right):
    (note,) = lint(f"SELECT {left} / {right} FROM flight", {}, tables)
    write = note.partition("write ")[2]
    rows = [flights.execute(f"SELECT {text} FROM flight").rows for text in (left, right, write)]
    ((dividend,),), ((divisor,),), ((quotient,),) = rows
    assert isinstance(quotient, float)
    assert quotient == pytest.approx(dividend / divisor)


def test_the_fix_of_the_first_division_is_that_of_its_chain(flights, tables):
    text = "SELECT dep_time / seats / 7 * 2 + (dep_time / 11) / seats FROM flight"
    found = lint(text, {}, tables)
    assert [note.partition(" divides")[0] for note in found] == ["dep_time / seats", "dep_time / 11"]
    for note in found:
        text = text.replace(note.partition(" divides")[0], note.partition("write ")[2])
    assert flights.execute(text).rows == [(pytest.approx(930 / 3 / 7 * 2 + 930 / 11 / 3),)]


@pytest.mark.parametrize(
    ("kind", "depth"), [("(SELECT n FROM {})", 180), ("(SELECT * FROM {}) AS q", 44), ("({})", 60)]
)
def test_what_is_nested_is_read_once(monkeypatch, kind, depth):
    """The number of parts that are read grows with the length of a statement, not with its square."""
    read: list[Group] = []
    sources_in = Query.sources_in
    monkeypatch.setattr(Query, "sources_in", lambda query, part: read.append(part) or sources_in(query, part))
    counts = []
    for levels in (depth // 2, depth):
        text = "flight"
        for _ in range(levels):
            text = kind.format(text)
        lint(f"SELECT n / 2.5 FROM {text}", {}, {"flight": WIDE})
        counts.append(len(read))
        read.clear()
    assert counts[1] <= 2.5 * counts[0]


def test_one_note_for_each_cause(notes):
    found = notes(
        'SELECT "AA", 5 / 2, 7 / 2, 5/2, 1 / 0, carrier, count(*) FROM flight WHERE id = NULL OR id <> NULL OR "B" = 1'
    )
    assert [note.split()[0] for note in found] == ['"AA"', "=", "carrier", "a", "5", "7"]


def test_no_notes_on_unknown_tables():
    for text in ('SELECT "AA" FROM flight', "SELECT carrier, count(*) FROM flight", "SELECT a / b FROM flight"):
        assert lint(text, {}, {}) == []


WORDS = """
SELECT FROM flight WHERE carrier = NULL / % * ( ) , . "AA" count max OVER FILTER GROUP BY 1 0 :n AS AND CASE WHEN THEN
END UNION WITH x INSERT INTO VALUES UPDATE SET f 'a' - || HAVING dep_delay seats
"""
PIECES = st.sampled_from(WORDS.split())


@given(st.lists(PIECES, max_size=25))
def test_any_text_is_accepted(pieces):
    names = ("carrier", "dep_delay", "seats")
    flight = Relation("flight", columns=tuple(Column(name, "INTEGER") for name in names))
    for start in ("", "SELECT ", "SELECT carrier, count(*) FROM flight WHERE "):
        lint(start + " ".join(pieces), {":n": 0}, {"flight": flight})


NAMES = ("id", "carrier", "day", "n")
WIDE = Relation("flight", columns=tuple(Column(name, "TEXT" if name == "carrier" else "INTEGER") for name in NAMES))
MANY = {f"t{number}": replace(WIDE, name=f"t{number}") for number in range(1_000)}
MANY["flight"] = WIDE


def repeated(start: str, piece: str, between: str, end: str) -> str:
    """Return a statement of repeated pieces with the maximum length that `lint` reads."""
    count = (LONGEST - len(start + end)) // len(piece + between)
    return start + between.join([piece] * count) + end


@pytest.mark.parametrize(
    "text",
    [
        repeated("SELECT ", "id", "/", " FROM flight"),
        repeated("SELECT ", "(id+day)", "/", " FROM flight"),
        repeated("INSERT INTO flight VALUES ", "(1,'a',2,3)", ",", ""),
        "SELECT " + "n," * (LONGEST // 5) + "count(*) FROM flight GROUP BY " + "1," * (LONGEST // 5) + "n",
        repeated("SELECT ", "(SELECT n/2.5 FROM flight)", ",", ""),
        repeated("SELECT * FROM ", "(SELECT carrier FROM flight)", ",", ' WHERE carrier = "n"'),
        "SELECT " + "(" * (LONGEST // 3) + "1" + ")" * (LONGEST // 3),
    ],
    ids=lambda text: text[:30],
)
def test_the_time_is_bounded(text):
    assert len(text) <= LONGEST

    begun = time.process_time()
    lint(text, {}, MANY)
    assert time.process_time() - begun < 5  # about 0.05 s; a minute if the time is quadratic


def test_longer_statements_are_skipped():
    assert lint("SELECT 5 / 2", {}, {}) != []
    assert lint("SELECT 5 / 2" + " " * LONGEST, {}, {}) == []


# -- numbers compared with TEXT columns


IF_NUMBERS = " if each text is a number such as 1234.5"

TEXT_COMPARISONS = {
    "SELECT carrier FROM flight WHERE carrier > :p":
        "carrier is declared TEXT and :p is a number, so > compares them as text: write CAST(carrier AS REAL) > :p",
    "SELECT f.id FROM flight AS f WHERE :p <= f.origin":
        "f.origin is declared TEXT and :p is a number, so <= compares them as text: write :p <= CAST(f.origin AS REAL)",
    "SELECT id FROM flight WHERE carrier NOT BETWEEN '1' AND :p":
        "carrier is declared TEXT and :p is a number, so BETWEEN compares them as text: "
        "write CAST(carrier AS REAL) instead of carrier",
    "SELECT x FROM (SELECT carrier AS x FROM flight) WHERE x >= :p":
        "x is declared TEXT and :p is a number, so >= compares them as text: write CAST(x AS REAL) >= :p",
    "UPDATE airline SET name = 'x' WHERE carrier < :p":
        "carrier is declared TEXT and :p is a number, so < compares them as text: write CAST(carrier AS REAL) < :p",
}  # fmt: skip

EQUALITIES = {
    "SELECT id FROM flight WHERE carrier = :p": "= compares them as text: write CAST(carrier AS REAL) = :p",
    "SELECT id FROM flight WHERE :p <> carrier": "<> compares them as text: write :p <> CAST(carrier AS REAL)",
    "SELECT id FROM flight WHERE carrier IS NOT :p":
        "IS compares them as text: write CAST(carrier AS REAL) instead of carrier",
    "SELECT id FROM flight WHERE carrier IN (:p, 'x')":
        "IN compares them as text: write CAST(carrier AS REAL) instead of carrier",
}  # fmt: skip


@pytest.mark.parametrize(("text", "note"), TEXT_COMPARISONS.items())
@pytest.mark.parametrize("number", [9.5, 9])
def test_an_order_of_texts_for_a_number(tables, text, note, number):
    assert lint(text, {":p": number}, tables) == [note + IF_NUMBERS]
    assert FOUND_IN.search(text)
    assert lint(text, {":p": "9.5"}, tables) == lint(text, {":p": None}, tables) == lint(text, {}, tables) == []


@pytest.mark.parametrize(("text", "end"), EQUALITIES.items())
def test_a_float_is_never_sure_to_equal_a_text(tables, text, end):
    (note,) = lint(text, {":p": 9.5}, tables)
    assert note == f"carrier is declared TEXT and :p is a number, so {end}{IF_NUMBERS}"
    assert lint(text, {":p": 9}, tables) == []  # the text of an integer is its digits


def test_floats_in_a_list(tables):
    text = "SELECT id FROM flight WHERE carrier IN :prices"
    assert lint(text, {":prices_1": 9, ":prices_2": 9.5}, tables) == [
        "carrier is declared TEXT and :prices contains numbers, so IN compares them as text: "
        f"write CAST(carrier AS REAL) instead of carrier{IF_NUMBERS}"
    ]
    assert lint(text, {":prices__1": 9.5}, tables)
    assert lint(text, {":prices_1": 9, ":price_2": 9.5, ":prices_x": 9.5}, tables) == []


@pytest.mark.parametrize(
    "condition",
    [
        "CAST(carrier AS REAL) > :p", "+carrier > :p", "distance > :p", "seats = :p", "day > :p",
        "max(carrier, 'x') > :p", "carrier LIKE :p", "nope > :p", "length(carrier) > :p", "distance > 9.5",
    ],
)  # fmt: skip
def test_no_note_where_numbers_are_compared_or_nothing_is_known(tables, condition):
    assert lint(f"SELECT id FROM flight WHERE {condition}", {":p": 9.5}, tables) == []


def test_sqlite_compares_text_where_the_note_says_so(flights):
    """What the note warns of: 10.25 is more than 9.5, but its text is less; CAST finds it."""
    with suppress(Undone), flights.transaction() as transaction:
        transaction.execute("CREATE TABLE price (price TEXT)")
        transaction.execute("INSERT INTO price VALUES ('9.50'), ('10.25'), ('100')")
        count = "SELECT count(*) FROM price WHERE "
        assert transaction.execute(count + "price > :p", {"p": 9.5}).rows == [(1,)]
        assert transaction.execute(count + "CAST(price AS REAL) > :p", {"p": 9.5}).rows == [(2,)]
        assert transaction.execute(count + "price = :p", {"p": 9.5}).rows == [(0,)]
        assert transaction.execute(count + "CAST(price AS REAL) = :p", {"p": 9.5}).rows == [(1,)]
        assert transaction.execute(count + "price = :p", {"p": 100}).rows == [(1,)]
        raise Undone


@pytest.mark.parametrize(
    ("text", "note"),
    [
        (
            "INSERT INTO flight (id, day) VALUES (1, :at)",
            "day is declared DATE and :at has a time (2024-01-01 00:0",
        ),
        ("INSERT INTO flight (id, day) VALUES (1, NULL), (2, :at)", "write date(:at)"),
        ("REPLACE INTO event VALUES (:at, :at, 1)", "day is declared DATE and :at has a time (2024-01-01 00:0"),
        ("UPDATE flight SET carrier = 'x', day = :at WHERE id = 1", "write date(:at)"),
        ("INSERT INTO event (day) VALUES (:day) ON CONFLICT DO UPDATE SET day = :at", "write date(:at)"),
        (
            "UPDATE event SET at = :day",
            "at is declared TIMESTAMP and :day has no time (2024-01-01): write",
        ),
        ('INSERT INTO main.event ("at") VALUES (:day)', "write datetime(:day)"),
        ("UPDATE event SET at = :at, day = :day", ""),
        ("INSERT INTO event (day, at) VALUES (:day, :at), (date(:at), datetime(:day))", ""),
        ("INSERT INTO event (n) VALUES (:at)", ""),
        (
            "UPDATE event SET day = day WHERE day = :at",
            "day is declared DATE and :at has a time, so they are never equal",
        ),
        ("INSERT INTO event SELECT :at, :day, 1", ""),
        ("INSERT INTO unknown VALUES (:at)", ""),
    ],
)
def test_moments_stored_in_a_column_of_another_form(tables, text, note) -> None:
    """They are not equal to those of the column: a filter of the same value finds no row."""
    columns = (Column("day", "DATE"), Column("at", "TIMESTAMP"), Column("n", ""))
    args = {":at": "2024-01-01 00:00:00", ":day": "2024-01-01"}
    found = lint(text, args, {**tables, "event": Relation("event", columns=columns)})
    assert len(found) == bool(note), found
    assert note in "".join(found)
