"""Comparison of two tables of one or two databases, checked against a comparison in Python."""

from __future__ import annotations

import math
import random
import re
from collections import Counter

import pytest

from pipemagic.client.database import Database
from pipemagic.client.stream import Dialect
from pipemagic.errors import ParameterError, UnknownName, UnsupportedError
from pipemagic.explore.diff import diff

# Values that are easily confused.
TRICKY = [
    "1", "1.0", "'1'", "x'31'", "NULL", "''", "x''", "0", "0.0", "-0.0", "'a'", "'A'", "'a' || char(0) || 'b'", "'a '",
    "9223372036854775807", "9223372036854775806", "9223372036854775807.0", "'é'", "char(128512)", "char(65533)", "0.1",
    "0.1 + 0.2", "0.3", "'<b>'", "x'00ff'", "-1",
]  # fmt: skip


PAIRS = {
    "one database": ("embedded", "embedded"), "embedded and sqld": ("embedded", "on_sqld"),
    "sqld": ("on_sqld", "on_sqld"), "two": ("embedded", "embedded_too"), "seed": ("on_seed", "on_seed"),
}  # fmt: skip
EVERY_PAIR = pytest.mark.parametrize("pair", PAIRS, indirect=True)


@pytest.fixture(params=["one database", "embedded and sqld"])
def pair(request):
    """Two databases, or the same one twice, with the tables a and b."""
    one, two = PAIRS[request.param]
    return request.getfixturevalue(one), request.getfixturevalue(two)


def fill(database, name, rows, columns="k, v, w", kind=""):
    database.execute(f"CREATE TABLE {name} ({columns}) {kind}")
    for start in range(0, len(rows), 100):
        values = ", ".join(f"({', '.join(row)})" for row in rows[start : start + 100])
        database.execute(f"INSERT INTO {name} VALUES {values}")


def compared(pair, a="a", b="b", **options):
    one, two = pair
    return diff(one, a, b, other=None if one is two else two, **options)


def exact(database, name):
    rows = database.execute(f"SELECT * FROM {name}").rows
    return [tuple((type(value).__name__, value) for value in row) for row in rows]


def test_equal_tables(pair):
    rows = [(str(number), value, "NULL") for number, value in enumerate(TRICKY)]
    fill(pair[0], "a", rows)
    fill(pair[1], "b", rows[::-1])
    found = compared(pair)
    assert found.same
    assert str(found) == f"a and b are equal: {len(rows)} rows, compared by whole rows."
    assert compared(pair, key=["k"]).same
    assert str(compared(pair, key=["k"])) == f"a and b are equal: {len(rows)} rows, compared by k."


@EVERY_PAIR
def test_whole_rows_are_a_multiset(pair):
    chance = random.Random(1)
    some = chance.sample(TRICKY, 6)

    def rows():
        return [tuple(chance.choice(some) for _ in range(3)) for _ in range(chance.randrange(60, 120))]

    fill(pair[0], "a", rows())
    fill(pair[1], "b", rows())
    found = compared(pair, limit=1000)
    one, two = Counter(exact(pair[0], "a")), Counter(exact(pair[1], "b"))
    assert (found.only_a_count, found.only_b_count) == ((one - two).total(), (two - one).total())
    assert found.same_rows == (one & two).total()
    for frame, more in ((found.only_a, one - two), (found.only_b, two - one)):
        told = {
            tuple((type(value).__name__, value) for value in row[:-1]): row[-1] for row in frame.itertuples(index=False)
        }
        assert told == dict(more)


@EVERY_PAIR
def test_rows_matched_by_key(pair):
    chance = random.Random(1)

    def rows():
        keys = chance.sample(range(-50, 50), chance.randrange(60, 80))
        return [(str(key), chance.choice(TRICKY[:6]), chance.choice(TRICKY[:3])) for key in keys]

    fill(pair[0], "a", rows(), "k INTEGER PRIMARY KEY, v, w")
    fill(pair[1], "b", rows(), "k INTEGER PRIMARY KEY, v, w")
    found = compared(pair, limit=1000)
    assert found.key == ("k",)
    one, two = ({row[0]: row for row in exact(database, name)} for database, name in zip(pair, "ab", strict=True))
    changed = [key for key in one.keys() & two.keys() if one[key] != two[key]]
    assert found.only_a_count == len(one.keys() - two.keys())
    assert found.only_b_count == len(two.keys() - one.keys())
    assert found.changed_count == len(changed)
    assert found.same_rows == len(one.keys() & two.keys()) - len(changed)
    assert found.only_a["k"].tolist() == sorted(key for _, key in one.keys() - two.keys())
    told = {(row.k, row.column): (row.a, row.b) for row in found.changed.itertuples()}
    wanted = {
        (key[1], name): (one[key][place][1], two[key][place][1])
        for key in changed
        for place, name in enumerate("kvw")
        if one[key][place] != two[key][place]
    }
    assert told == wanted
    assert found.changed_columns == dict(Counter(sorted(name for _, name in wanted)))


@pytest.mark.parametrize("seed", range(3))
def test_few_differences_in_many_rows(embedded, embedded_too, seed):
    chance = random.Random(seed)
    first = {key: (chance.choice(TRICKY), chance.choice(TRICKY)) for key in range(1500)}
    second = dict(first)
    for key in chance.sample(range(1500), chance.randrange(6)):
        second[key] = ("'changed'", first[key][1])
    for key in chance.sample(range(1500), chance.randrange(4)):
        del second[key]
    second |= {2000 + number: ("1", "2") for number in range(chance.randrange(3))}
    for database, name, rows in ((embedded, "a", first), (embedded_too, "b", second)):
        fill(database, name, [(str(key), *values) for key, values in rows.items()])
    both = first.keys() & second.keys()
    changed = sum(first[key] != second[key] for key in both)
    found = compared((embedded, embedded_too), key=["k"])
    counts = (found.same_rows, found.changed_count, found.only_a_count, found.only_b_count)
    assert counts == (len(both) - changed, changed, len(first) - len(both), len(second) - len(both))
    whole = compared((embedded, embedded_too))
    assert whole.same_rows == len(both) - changed
    assert (whole.only_a_count, whole.only_b_count) == (len(first) - whole.same_rows, len(second) - whole.same_rows)


@pytest.mark.parametrize("at", [0, 63, 64, 1498])
def test_a_duplicate_key_in_many_rows(embedded, embedded_too, at):
    rows = [(str(number if number != at + 1 else at), "1", "2") for number in range(1500)]
    fill(embedded, "a", rows)
    fill(embedded_too, "b", rows)
    with pytest.raises(ParameterError, match="k is not a unique key"):
        compared((embedded, embedded_too), key=["k"])


def test_types_are_part_of_a_value(pair):
    fill(pair[0], "a", [("1", "1", "NULL"), ("2", "'a'", "0"), ("3", "x'61'", "''"), ("4", "1.0", "0.1 + 0.2")])
    fill(pair[1], "b", [("1", "1.0", "0"), ("2", "'A'", "0.0"), ("3", "'a'", "x''"), ("4", "'1.0'", "0.3")])
    found = compared(pair, key=["k"])
    assert found.changed_columns == {"v": 4, "w": 4}
    assert str(found).splitlines()[-1].split() == ["4", "w", "0.30000000000000004", "0.3"]
    assert "'1.0'" in str(found)


def test_keys_of_other_types(pair):
    fill(pair[0], "a", [("1", "5", "5"), ("'2'", "5", "5"), ("NULL", "5", "5"), ("'x'", "5", "5")])
    fill(pair[1], "b", [("1.0", "5", "5"), ("2", "5", "5"), ("NULL", "5", "6"), ("'X'", "5", "5")])
    found = compared(pair, key=["k"])
    assert sorted(map(str, found.only_a["k"])) == ["2", "x"]
    assert sorted(map(str, found.only_b["k"])) == ["2", "X"]
    assert found.changed_columns == {"k": 1, "w": 1} or found.changed_columns == {"w": 1}
    assert found.changed_count == 2  # 1 and 1.0 are one key and two values
    assert {(row.column, row.a, row.b) for row in found.changed.itertuples()} == {("k", 1, 1.0), ("w", 5, 6)}


@EVERY_PAIR
def test_infinities(pair):
    fill(pair[0], "a", [("1", "9e999", "0"), ("2", "-9e999", "0"), ("9e999", "1", "1"), ("-9e999", "1", "1")])
    fill(pair[1], "b", [("1", "9e999", "0"), ("2", "9e999", "0"), ("9e999", "1", "1"), ("5", "1", "1")])
    found = compared(pair, key=["k"])
    assert (found.same_rows, found.only_a_count, found.only_b_count, found.changed_count) == (2, 1, 1, 1)
    assert {math.copysign(1, float(value)) for value in found.changed[["a", "b"]].iloc[0]} == {1, -1}
    whole = compared(pair)
    assert (whole.same_rows, whole.only_a_count, whole.only_b_count) == (2, 2, 2)


def test_infinities_of_two_servers_that_send_no_signs(sqld_database):
    with (
        Database(sqld_database.url, sqld_database.token) as one,
        Database(sqld_database.url, sqld_database.token) as two,
    ):
        fill(one, "a", [("1", "-9e999", "0")])
        fill(one, "b", [("1", "9e999", "0")])
        assert compared((one, two), key=["k"]).changed.values.tolist() == [[1, "v", -math.inf, math.inf]]


@pytest.mark.parametrize("key", [["k"], []])
def test_texts_that_are_not_utf8(pair, key):
    texts = "(1, 'Porto'), (2, CAST(x'5ae97a65' AS TEXT)), (3, CAST(x'ff' AS TEXT)), (4, CAST(x'fe' AS TEXT))"
    for database, name in zip(pair, "ab", strict=True):
        database.execute(f"CREATE TABLE {name}(k, v)")
        database.execute(f"INSERT INTO {name} VALUES {texts}")
    pair[1].execute("UPDATE b SET v = x'fe' WHERE k = 4")
    assert compared(pair, "SELECT * FROM a WHERE k < 4", "SELECT * FROM b WHERE k < 4", key=key).same_rows == 3
    result = compared(pair, key=key)
    assert (result.same_rows, result.changed_count, result.only_a_count) == ((3, 1, 0) if key else (3, 0, 1))
    assert "x'fe' (not UTF-8)" in str(result)


def test_an_infinity_differs_from_text(pair):
    fill(pair[0], "a", [("1", "9e999", "'Inf'"), ("2", "'Inf'", "'Inf'"), ("3", "-9e999", "'-Inf'")], "k, v, w TEXT")
    fill(pair[1], "b", [("1", "'Inf'", "'Inf'"), ("2", "'Inf'", "'Inf'"), ("4", "9e999", "'x'")], "k, v, w TEXT")
    found = compared(pair, key=["k"])
    assert found.changed.values.tolist() == [[1, "v", math.inf, "Inf"]]
    assert found.only_a.values.tolist() == [[3, -math.inf, "-Inf"]]
    assert found.only_b.values.tolist() == [[4, math.inf, "x"]]
    whole = compared(pair)
    assert sorted(row[:3] for row in whole.only_a.values.tolist()) == [[1, math.inf, "Inf"], [3, -math.inf, "-Inf"]]
    assert " inf " in str(whole)


def test_long_values_are_shown_around_their_first_difference(embedded):
    long = "a note that is longer than what is shown of it, "
    fill(embedded, "a", [("1", f"'{long}red'", "x'" + "00" * 40 + "0102'"), ("2", f"'{long}'", "1")])
    fill(embedded, "b", [("1", f"'{long}blue'", "x'" + "00" * 40 + "03'"), ("2", f"'{long} '", "1.0")])
    told = str(diff(embedded, "a", "b", key=["k"]))
    for a, b in (
        ("…' of it, red'", "…' of it, blue'"), ("…x'00000000000000000102'", "…x'000000000000000003'"),
        ("…' of it, '", "…' of it,  '"), ("1 ", "1.0"),
    ):  # fmt: skip
        assert re.search(rf"{re.escape(a)} +{re.escape(b)}", told), told


def test_declared_collations_are_ignored(pair):
    fill(
        pair[0],
        "a",
        [("'a'", "'x'", "1"), ("'B'", "'y'", "1")],
        "k TEXT COLLATE NOCASE PRIMARY KEY, v COLLATE RTRIM, w",
    )
    fill(
        pair[1],
        "b",
        [("'A'", "'x'", "1"), ("'B'", "'y '", "1")],
        "k TEXT COLLATE NOCASE PRIMARY KEY, v COLLATE RTRIM, w",
    )
    found = compared(pair)
    assert (found.only_a["k"].tolist(), found.only_b["k"].tolist()) == (["a"], ["A"])
    assert found.changed.values.tolist() == [["B", "v", "y", "y "]]


def test_a_key_of_several_columns_without_rowid(pair):
    fill(pair[0], "a", [("1", "'x'", "1"), ("1", "'y'", "1")], "k, v, w, PRIMARY KEY (v, k)", "WITHOUT ROWID")
    fill(pair[1], "b", [("1", "'x'", "2"), ("2", "'y'", "1")], "w, v, K, PRIMARY KEY (V, K)", "WITHOUT ROWID")
    found = compared(pair)
    assert found.key == ("v", "k")
    assert found.only_a[["v", "k", "w"]].values.tolist() == [["x", 1, 1]]
    assert found.only_b[["v", "k", "w"]].values.tolist() == [["x", 2, 1]]
    assert found.changed.values.tolist() == [["y", 1, "w", 1, 2]]


def test_different_columns_and_types(pair):
    fill(pair[0], "a", [("1", "2", "3")], "id INT PRIMARY KEY, old TEXT, Area REAL")
    fill(pair[1], "b", [("1", "3.0", "4")], "id INT PRIMARY KEY, area TEXT, new")
    found = compared(pair)
    assert (found.columns_a, found.columns_b) == (("old",), ("new",))
    assert found.retyped == (("Area", "REAL", "TEXT"),)
    assert found.changed.values.tolist() == [[1, "Area", 3.0, "3.0"]]
    assert str(found).splitlines()[:5] == [
        "a and b, compared by id", "  column old only in a", "  column new only in b",
        "  column Area: REAL in a, TEXT in b", "  0 rows equal, 1 changed (Area 1)",
    ]  # fmt: skip
    assert not found.same


DAYS = ["2013-01-01", "2013-01-02", "2013-01-03", None, 20130101, "01.05.2024"]


@EVERY_PAIR
@pytest.mark.parametrize(("key", "kind"), [(None, "DATETIME"), (["n"], "TIMESTAMP")], ids=str)
def test_a_day_equals_its_midnight(pair, key, kind):
    """Each form of midnight that is stored is the day, whichever side has it; a time of day is another value."""
    pair[0].execute("CREATE TABLE a (d DATE PRIMARY KEY, n INT)")
    pair[1].execute(f"CREATE TABLE b (n INT, d {kind} PRIMARY KEY)")
    forms = ["2013-01-01 00:00:00", "2013-01-02T00:00", "2013-01-03 00:00:00.000000", *DAYS[3:]]
    for number, (day, moment) in enumerate(zip(DAYS, forms, strict=True)):
        pair[0].execute("INSERT INTO a VALUES (?, ?)", [day, number])
        pair[1].execute("INSERT INTO b VALUES (?, ?)", [number, moment])
    types, results = (
        [("DATE", kind), (kind, "DATE")],
        [compared(pair, key=key), compared(pair[::-1], "b", "a", key=key)],
    )
    if pair[0].dialect is not Dialect.SEED:  # which sends no types of the columns of a SELECT
        types.append(("DATE", kind))
        results.append(compared(pair, "SELECT * FROM a", "SELECT * FROM b"))
    for found in results:
        assert (found.same_rows, found.only_a_count, found.only_b_count, found.changed_count) == (6, 0, 0, 0)
        assert found.retyped == (("d", *types.pop(0)),)  # which is said
    pair[1].execute("UPDATE b SET d = '2013-01-02 05:17:00' WHERE n = 1")
    found = compared(pair, key=["n"])
    assert found.changed.values.tolist() == [[1, "d", "2013-01-02", "2013-01-02 05:17:00"]]


def test_a_date_column_that_holds_midnights(pair):
    """As earlier versions wrote them: the same texts on both sides are no difference."""
    for at, kind in enumerate(("DATE", "DATETIME")):
        fill(pair[at], "ab"[at], [("'2013-01-01 00:00:00'", "1"), ("'2013-01-02 05:17:00'", "2")], f"d {kind}, n")
    assert compared(pair, key=["n"]).same_rows == compared(pair).same_rows == 2


@pytest.mark.parametrize(("one", "other"), [("DATE", "DATE"), ("DATETIME", "TIMESTAMP"), ("DATE", "TEXT"), ("", "")])
def test_other_types_compare_what_is_stored(pair, one, other):
    fill(pair[0], "a", [("'2013-01-01'", "1")], f"d {one}, n")
    fill(pair[1], "b", [("'2013-01-01 00:00:00'", "1")], f"d {other}, n")
    assert compared(pair, key=["n"]).changed_count == 1


def test_views_and_queries(pair):
    fill(pair[0], "a", [("1", "2", "3"), ("2", "2", "3")])
    fill(pair[1], "b", [("1", "2", "3"), ("2", "4", "3")])
    pair[0].execute("CREATE VIEW va AS SELECT k, v FROM a")
    found = compared(pair, "va", "WITH x AS (SELECT * FROM b) SELECT k, v FROM x -- all of it;", key=["k"])
    assert found.changed.values.tolist() == [[2, "v", 2, 4]]
    assert found.b == "WITH x AS (SELECT * FROM b) SELECT k, v…"
    assert compared(
        pair, "SELECT k FROM a", "VALUES (1), (2)".replace("VALUES", "SELECT column1 AS k FROM (VALUES") + ")"
    ).same
    with pytest.raises(ParameterError, match="the SELECT has an unbalanced quote or parenthesis"):
        compared(pair, "a", "SELECT 1) UNION SELECT (2")
    with pytest.raises(ParameterError, match="one SELECT, not several"):
        compared(pair, "SELECT 1; SELECT 2")


def test_columns_of_queries_are_named_without_comments(pair):
    fill(pair[0], "a", [("1", "2", "3")])
    fill(pair[1], "b", [("1", "4", "3")])
    found = compared(pair, "SELECT k, v + 1 /* new */ FROM a", "SELECT k, v + 1 FROM b -- all", key=["k"])
    assert found.changed.values.tolist() == [[1, "v + 1", 3, 5]]


def test_empty_tables(pair):
    fill(pair[0], "a", [])
    fill(pair[1], "b", [("1", "2", "3")] * 3)
    assert compared(pair, "a", "SELECT * FROM b WHERE 0").same
    found = compared(pair)
    assert (found.same_rows, found.only_b_count, found.only_b["times"].tolist()) == (0, 3, [3])
    assert str(found).splitlines() == [
        "a and b, compared by whole rows", "  0 rows equal, 3 only in b", "", "only in b:", "  k  v  w  times",
        "  1  2  3  3",
    ]  # fmt: skip


def test_only_the_first_rows(pair):
    fill(pair[0], "a", [(str(number), "0", "0") for number in range(50)], "k INTEGER PRIMARY KEY, v, w")
    fill(pair[1], "b", [(str(number), "1", "0") for number in range(30, 90)], "k INTEGER PRIMARY KEY, v, w")
    found = compared(pair, limit=2)
    assert (found.only_a_count, found.only_b_count, found.changed_count) == (30, 40, 20)
    assert (found.only_a["k"].tolist(), found.only_b["k"].tolist(), found.changed["k"].tolist()) == (
        [0, 1],
        [50, 51],
        [30, 31],
    )
    assert "only in b, the first 2 of 40:" in str(found)
    assert "changed, the first 2 of 20:" in str(found)


def test_invalid_keys_and_inputs(pair):
    fill(pair[0], "a", [("1", "2", "3"), ("1", "2", "4")])
    fill(pair[1], "b", [("1", "2", "3")])
    with pytest.raises(ParameterError, match="k is not a unique key: several rows have the same value"):
        compared(pair, key=["k"])
    with pytest.raises(ParameterError, match="is not a unique key"):
        compared(pair, "SELECT 5 AS k", "SELECT 7 AS k UNION ALL SELECT 7", key=["k"])
    with pytest.raises(UnknownName, match="a has no column 'kk'\nHint: did you mean k"):
        compared(pair, key=["kk"])
    with pytest.raises(UnknownName, match="table or view 'bb' does not exist\nHint: did you mean b"):
        compared(pair, b="bb")
    with pytest.raises(UnsupportedError, match="0 columns in common"):
        compared(pair, "SELECT 1 AS x", "SELECT 1 AS y")


def test_only_differences_are_sent(embedded):
    database = embedded
    for name in ("a", "b"):
        database.execute(f"CREATE TABLE {name} (k INTEGER PRIMARY KEY, v TEXT)")
        database.execute(
            f"INSERT INTO {name} WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 20000)"
            " SELECT i, hex(i * 1.5) FROM c"
        )
    database.execute("UPDATE b SET v = 'x' WHERE k = 777")
    sizes, send = [], database.transport.send
    database.transport.send = lambda message: (sizes.append(len((answer := send(message)).body)), answer)[1]
    assert diff(database, "a", "b").changed_columns == {"v": 1}
    assert diff(database, "SELECT v FROM a", "SELECT v FROM b").only_a_count == 1
    assert sum(sizes) < 20_000


@pytest.mark.parametrize("pair", ["embedded and sqld"], indirect=True)
def test_wide_tables(pair):
    names = ", ".join(f"c{number}" for number in range(500))
    for database, name, last in ((pair[0], "a", "0"), (pair[1], "b", "1")):
        fill(database, name, [("1", *["0"] * 498, last)], names)
    found = compared(pair, key=["c0"])
    assert found.changed.values.tolist() == [[1, "c499", 0, 1]]
    assert compared(pair).only_a_count == 1
    wide = "SELECT " + ", ".join(f"1 AS c{number}" for number in range(700))
    with pytest.raises(UnsupportedError, match="have 700 columns in common"):
        compared(pair, wide, wide)


def test_parameters_of_selects(embedded, embedded_too):
    for database in (embedded, embedded_too):
        database.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b)")
        database.execute("INSERT INTO t VALUES (1, 'x'), (2, 'y'), (3, 'z')")
    queries = "SELECT * FROM t WHERE a < :most", "SELECT * FROM t WHERE a > @least"
    for other in (None, embedded_too):
        for key in (["a"], None):
            found = diff(embedded, *queries, other=other, key=key, params={"most": 3, "least": 1})
            assert (found.same_rows, found.only_a_count, found.only_b_count) == (1, 1, 1)
    with pytest.raises(ParameterError, match="@least has no value"):
        diff(embedded, *queries, params={"most": 3})


@pytest.mark.parametrize("count", [63, 64, 65, 192])
def test_an_integer_and_an_equal_real_are_the_same_key(pair, count):
    rows = [(str(number), "0", "0") for number in range(1, count + 1)] + [(f"{count}.0", "0", "0")]
    fill(pair[0], "a", rows)
    fill(pair[1], "b", rows)
    with pytest.raises(ParameterError, match="k is not a unique key: several rows have the same value"):
        compared(pair, key=["k"])
