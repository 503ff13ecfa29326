"""Pages of Explore against plain Python, on both engines: what comes is what the cell that it shows gives."""

from __future__ import annotations

import random
from functools import cmp_to_key

import pytest

from pipemagic.errors import ParameterError
from pipemagic.explore.glance import first_rows
from pipemagic.explore.profile import profile
from pipemagic.explore.schema import read_schema
from pipemagic.explore.sending import NotText
from pipemagic.notebook.panels.explore.cells import Whole
from pipemagic.notebook.panels.explore.paging import (
    Condition,
    Look,
    count_rows,
    filter_sql,
    read_page,
    read_value,
    rows_sql,
)

WORDS = ("JFK", "jfk", "", "a'b", "50%", "x_y", "\\", "NULL", "7", " ", "ä")


@pytest.fixture
def database(db):
    """The database, of either engine, that the shell is connected to."""
    return db.ip.magics_manager.registry["PipeMagics"].session.connection().database


def rank(value):
    """SQLite's order: NULL, numbers, texts."""
    return (0,) if value is None else (1, value) if isinstance(value, int | float) else (2, value.encode())


def holds(value, operator, wanted):
    """What SQL says of a comparison of values of one type."""
    if operator in ("is null", "is not null"):
        return (value is None) == (operator == "is null")
    if value is None:
        return False
    if operator in ("contains", "starts with"):
        text, part = (_folded(str(one)) for one in (value, wanted))
        return part in text if operator == "contains" else text.startswith(part)
    one, other = rank(value), rank(wanted)
    order = (one > other) - (one < other)
    return {"=": order == 0, "<>": order != 0, "<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[
        operator
    ]


def _folded(text):
    """LIKE takes only ASCII letters for the same in small and capitals."""
    return "".join(char.lower() if char.isascii() else char for char in text)


def expected(rows, look, kinds):
    """The ids of all rows of a look, in their order."""
    kept = rows
    for one in look.conditions:
        place = {"id": 0, "n": 1, "r": 2, "t": 3}[one.column]
        wanted = one.value if kinds[place] is str else float(one.value or 0)
        wanted = one.value if one.operator in ("contains", "starts with") else wanted
        kept = [row for row in kept if holds(row[place], one.operator, wanted)]
    if look.sort is not None:
        place = {"id": 0, "n": 1, "r": 2, "t": 3}[look.sort]

        def compare(a, b):
            one, other = rank(a[place]), rank(b[place])
            order = (one > other) - (one < other)
            return (-order if look.descending else order) or (a[0] - b[0])

        kept = sorted(kept, key=cmp_to_key(compare))
    return [row[0] for row in kept]


def looks(chance):
    """Looks of any kind."""
    while True:
        conditions = []
        for _ in range(chance.randrange(3)):
            column = chance.choice("nrt")
            operators = ["=", "<>", "<", "<=", ">", ">=", "is null", "is not null"]
            operator = chance.choice([*operators, "contains", "starts with"] if column == "t" else operators)
            value = chance.choice(WORDS) if column == "t" else str(chance.randrange(-3, 4))
            conditions.append(Condition(column, operator, "" if operator.startswith("is ") else value))
        yield Look(
            "db", "data", tuple(dict.fromkeys(conditions)), "", chance.choice([None, "id", "n", "r", "t"]),
            chance.random() < 0.5, 25, chance.choice([0, 0, 25, 50, 100]),
        )  # fmt: skip


@pytest.mark.parametrize("made", ["", "WITHOUT ROWID"])
def test_random_pages(db, database, made):
    chance = random.Random(20)
    rows = [
        (
            number,
            chance.choice([None, *range(-3, 4), 2**53 + 1]),
            chance.choice([None, 0.5, -1.25, 2.0, 1e300]),
            chance.choice([None, *WORDS]),
        )
        for number in range(120)
    ]
    database.execute(f"CREATE TABLE data(id INTEGER PRIMARY KEY, n INTEGER, r REAL, t TEXT) {made}")
    database.batch([("INSERT INTO data VALUES (?, ?, ?, ?)", row) for row in rows])
    relation = read_schema(database).relation("data")
    for number, look in zip(range(60), looks(chance), strict=False):
        ids = expected(rows, look, (int, float, float, str))
        page = read_page(database, look, relation)
        shown = [int(cells[0].words) for cells in page.rows]
        assert shown == ids[look.offset : look.offset + 25], look
        assert page.more == (len(ids) > look.offset + 25)
        assert count_rows(database, look, relation) == len(ids)
        if number % 4 == 0:
            frame = db(f"%%sql\n{rows_sql(look, relation)}").value
            assert frame["id"].tolist() == shown


def test_a_text_that_is_not_utf8_is_shown_as_its_bytes(database):
    database.execute("CREATE TABLE odd(id INTEGER PRIMARY KEY, t TEXT, b BLOB)")
    database.execute("INSERT INTO odd SELECT 1, CAST(x'ff61' AS TEXT), CAST(x'fe' AS TEXT)")
    database.execute("INSERT INTO odd SELECT 2, CAST(zeroblob(0) || x'ff' || 'a' AS TEXT), x'ff61'")
    database.execute("INSERT INTO odd SELECT 3, CAST(x'e4' || printf('%.30c', 'a') AS TEXT), 'ä'")
    database.execute("INSERT INTO odd SELECT 5, '', x''")
    database.execute("INSERT INTO odd SELECT 4, CAST(printf('%.999c', 'a') || x'ff' AS TEXT), 9e999")
    relation = read_schema(database).relation("odd")
    look = Look("db", "odd")
    page = read_page(database, look, relation)
    assert [[cell.words for cell in row] for row in page.rows] == [
        ["1", "x'ff61' (2 bytes of text, not UTF-8)", "x'fe' (1 byte of text, not UTF-8)"],
        ["2", "x'ff61' (2 bytes of text, not UTF-8)", "x'ff61' (2 bytes)"],
        ["3", f"x'e4{'61' * 15}…' (31 bytes of text, not UTF-8)", "ä"],
        ["4", "a" * 80 + "…", "Inf"],
        ["5", "''", "x'' (0 bytes)"],
    ]
    assert [row[1].cut for row in page.rows] == [False, False, True, True, False]
    assert page.rows[2][1].whole == Whole(f"x'e4{'61' * 30}'", "31 bytes of text, not UTF-8")
    assert read_value(database, page, 3, 1) == Whole(f"x'{'61' * 999}ff'", "1,000 bytes of text, not UTF-8")


def test_profile_and_preview_of_texts_that_are_not_utf8(db, database):
    database.execute("CREATE TABLE odd(t)")
    database.execute("INSERT INTO odd SELECT CAST(x'ff61' AS TEXT) UNION ALL SELECT CAST(x'ff61' AS TEXT)")
    database.execute("INSERT INTO odd VALUES ('ä'), (-9e999)")
    told = repr(db("%pipedb profile odd").value)
    assert told.endswith("x'ff61' (not UTF-8)  -inf  x'ff61' (not UTF-8) ×2, -inf ×1, 'ä' ×1")
    rows = first_rows(database, "odd").rows
    assert rows == [[b"\xffa"], [b"\xffa"], ["ä"], [float("-inf")]]
    assert [type(row[0]) for row in rows] == [NotText, NotText, str, float]


def test_columns_that_are_named_true_and_false(database):
    long = "x" * 999
    database.execute("CREATE TABLE t(label TEXT, `true` INTEGER, `FALSE` TEXT, PRIMARY KEY (`true`)) WITHOUT ROWID")
    database.execute("INSERT INTO t VALUES ('a', 3, 'few'), ('b', 1, ?), ('c', 2, 'none')", (long,))
    relation = read_schema(database).relation("t")
    look = Look("db", "t", (Condition("true", "<", "3"),), "t.`false` <> 'none'", "FALSE")
    page = read_page(database, look, relation)
    assert [[cell.words for cell in row] for row in page.rows] == [["b", "1", "x" * 80 + "…"]]
    assert [one.name for one in page.columns] == ["label", "true", "FALSE"]
    assert read_value(database, page, 0, 2).text == long
    told = profile(database, relation, ["true", "FALSE"], where=filter_sql(look, relation))
    assert (told.rows, told["true"].maximum, told["FALSE"].distinct) == (1, 1, 1)


def test_a_value_is_never_that_of_another_row(database):
    database.execute("CREATE TABLE long(id INTEGER PRIMARY KEY, t TEXT)")
    database.execute("INSERT INTO long VALUES (2, printf('%.999c', 'b')), (3, printf('%.999c', 'c'))")
    page = read_page(database, Look("db", "long"), read_schema(database).relation("long"))
    assert read_value(database, page, 0, 1).text == "b" * 999
    database.execute("INSERT INTO long VALUES (1, printf('%.999c', 'a'))")
    with pytest.raises(ParameterError, match="another row is at this place now"):
        read_value(database, page, 0, 1)
    database.execute("DELETE FROM long WHERE id < 3")
    with pytest.raises(ParameterError, match="the row is not there any more"):
        read_value(database, page, 1, 1)
