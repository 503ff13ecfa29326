"""Profiles of tables, compared with pandas and with values computed by hand."""

from __future__ import annotations

import html
import math
import re

import numpy as np
import pandas as pd
import pytest

from pipemagic.errors import AnswerTimeout, ParameterError, StatementError, UnknownName
from pipemagic.explore import round_trip
from pipemagic.explore.profile import BINS, profile
from pipemagic.explore.profile_result import ValueCount
from pipemagic.explore.schema_reader import read_relation, read_schema

HEADS = ["column", "type", "count", "nulls", "distinct", "min", "25%", "50%", "75%", "max", "mean", "distribution"]
HOSTILE = """sel'ect "<script>alert(1)</script> 😀 é"""
QUOTED = '"' + HOSTILE.replace('"', '""') + '"'


def table_of(found):
    """Return the cells of each row of the HTML by their headings."""
    page = found._repr_html_()
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", page)]
    heads, *lines = [[html.unescape(re.sub(r"<[^>]*>", "", cell)) for cell in row] for row in rows]
    assert heads == HEADS
    return {line[0]: dict(zip(HEADS, line, strict=True)) for line in lines}


@pytest.fixture
def mixed(database):
    for sql in (
        "CREATE TABLE m (id INTEGER PRIMARY KEY, any, day DATE, t TEXT COLLATE NOCASE, void INT, b BLOB)",
        """INSERT INTO m VALUES
            (1, 1, '2024-01-03', 'a', NULL, x''), (2, 1.0, '2024-01-01', 'A', NULL, x'00ff'),
            (3, '1', '2024-01-02', 'b', NULL, x''), (4, x'31', NULL, NULL, NULL, NULL),
            (5, 2.5, '2024-02-01', 'b', NULL, NULL), (6, NULL, '2024-01-09 10:00:00', '', NULL, zeroblob(1000))""",
    ):
        database.execute(sql)
    return database


def test_figures_equal_those_of_pandas(embedded):
    random = np.random.default_rng(1)
    frame = pd.DataFrame({
        "i": random.integers(-50, 50, 137), "f": random.normal(size=137), "one": np.repeat(7, 137),
        "gaps": np.where(random.random(137) < 0.3, np.nan, random.normal(size=137)),
    })  # fmt: skip
    embedded.load(frame, "t")
    found = profile(embedded, "t").frame.set_index("column")
    described = frame.describe()
    for name in frame:
        assert found.loc[name, "count"] == described.loc["count", name]
        assert found.loc[name, "nulls"] == frame[name].isna().sum()
        assert found.loc[name, "distinct"] == frame[name].nunique()
        for figure in ("min", "25%", "50%", "75%", "max", "mean"):
            assert math.isclose(found.loc[name, figure], described.loc[figure, name], rel_tol=1e-12), (name, figure)
    assert found.loc["i", "top count"] == frame["i"].value_counts().max()


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8])
def test_quartiles_of_few_numbers(embedded, size):
    embedded.execute(f"CREATE TABLE t AS SELECT j.value * j.value AS v FROM json_each('{list(range(size))}') AS j")
    squares = pd.Series([number**2 for number in range(size)])
    assert profile(embedded, "t")["v"].quartiles == tuple(squares.quantile([0.25, 0.5, 0.75]))


@pytest.mark.parametrize("database", ["embedded", "on_sqld", "on_seed"], indirect=True)
def test_columns_of_each_type(mixed):
    found = profile(mixed, "m")
    anything = found["any"]
    assert anything.stored == {"integer": 1, "real": 2, "text": 1, "blob": 1}
    assert (anything.kind, anything.rows, anything.nulls, anything.distinct) == ("number", 6, 1, 4)
    assert (anything.minimum, anything.maximum, anything.mean) == (1, b"1", 1.5)
    assert anything.quartiles == (1, 1, 1.75)
    assert anything.common[0].count == 2
    day = found["day"]
    assert (day.kind, day.minimum, day.maximum) == ("date", "2024-01-01", "2024-02-01")
    assert day.quartiles == ("2024-01-02", "2024-01-03", "2024-01-09 10:00:00")
    assert day.bins == (3, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1)
    text = found["t"]
    assert (text.kind, text.distinct, text.minimum, text.maximum, text.quartiles[1]) == ("text", 3, "", "b", None)
    assert text.common[1] == ValueCount("b", 2)
    void = found["void"]
    assert (void.kind, void.nulls, void.count, void.common, void.bins) == ("empty", 6, 0, (), ())
    assert (void.minimum, void.mean, void.quartiles) == (None, None, (None, None, None))
    blob = found["b"]
    assert (blob.kind, blob.distinct, blob.minimum) == ("blob", 3, b"")
    assert blob.common == (ValueCount(b"", 2), ValueCount(bytes(20), 1, complete=False), ValueCount(b"\x00\xff", 1))


def test_very_large_and_infinite_numbers(database):
    database.execute("CREATE TABLE t (big INT, wide REAL, infinite REAL, both REAL)")
    database.execute("""INSERT INTO t VALUES (9223372036854775807, 1.7e308, 1, 9e999),
        (9223372036854775806, -1.7e308, 9e999, -9e999), (-9223372036854775807 - 1, 0, 2, 0)""")
    found = profile(database, "t")
    assert found["big"].quartiles[1] == 9223372036854775806
    assert (found["big"].minimum, found["big"].maximum) == (-(2**63), 2**63 - 1)
    assert sum(found["wide"].bins) == 3
    assert found["wide"].bins[0] == found["wide"].bins[-1] == 1
    assert (found["infinite"].maximum, found["infinite"].mean) == (math.inf, math.inf)
    assert (found["both"].minimum, found["both"].mean, found["both"].quartiles[1]) == (-math.inf, None, 0)
    assert not found.frame.map(lambda figure: isinstance(figure, float) and math.isnan(figure)).any().any()


@pytest.mark.parametrize(
    ("numbers", "middle"),
    [
        ("(1), (9e999)", math.inf), ("(-9e999), (1)", -math.inf), ("(-9e999), (9e999)", None),
        ("(1.7e308), (-1.7e308)", 0.0), ("(1.5), (2)", 1.75), ("(9e999), (9e999)", math.inf),
    ],
)  # fmt: skip
def test_medians_of_two_numbers(embedded, numbers, middle):
    embedded.execute("CREATE TABLE t (a)")
    embedded.execute(f"INSERT INTO t VALUES {numbers}")
    assert profile(embedded, "t")["a"].quartiles[1] == middle


def test_long_values_are_truncated(embedded):
    embedded.execute("CREATE TABLE t (a)")
    embedded.execute("INSERT INTO t VALUES (?)", ["é" * 1_000_000])
    (one,) = profile(embedded, "t")["a"].common
    assert one == ValueCount("é" * 100, 1, complete=False)
    assert len(str(profile(embedded, "t"))) < 300


def test_an_empty_table(database):
    database.execute("CREATE TABLE t (a, b INT)")
    found = profile(database, "t")
    assert (found.rows, [column.kind for column in found.columns]) == (0, ["empty", "empty"])
    assert len(table_of(found)) == 2
    assert str(found).splitlines()[0] == "t: 0 rows, 2 columns"


def test_views_keyed_tables_and_hostile_names(database):
    # Tables may have the names that the statement uses.
    for table, kind in ((HOSTILE, ""), ("g", "WITHOUT ROWID"), ("s", "")):
        name = '"' + table.replace('"', '""') + '"'
        database.execute(f"CREATE TABLE {name} ({QUOTED} TEXT PRIMARY KEY, v, n INT) {kind}")
        database.execute(f"INSERT INTO {name} VALUES ('<b>x</b>', NULL, 4)")
        found = profile(database, table)
        assert found[HOSTILE].common == (ValueCount("<b>x</b>", 1),)
        assert (found["v"].nulls, found["n"].mean) == (1, 4.0)
        page = found._repr_html_()
        assert "<script>" not in page
        assert "<b>x</b>" not in page
        assert "&lt;b&gt;x&lt;/b&gt;" in page
    database.execute(f"CREATE VIEW o AS SELECT n * 2 AS n FROM {QUOTED}")
    assert profile(database, "O")["n"].minimum == 8


@pytest.mark.slow
def test_five_hundred_columns_in_one_round_trip(embedded, count_requests):
    names = [f"c{number}" for number in range(500)]
    embedded.execute(f"CREATE TABLE wide ({', '.join(names)})")
    embedded.execute(f"INSERT INTO wide VALUES ({', '.join(map(str, range(500)))})")
    relation = read_relation(embedded, "wide")
    sent = count_requests(embedded)
    found = profile(embedded, relation)
    assert len(sent) == 1
    assert [column.minimum for column in found.columns] == list(range(500))
    assert len(str(found).splitlines()) == 502


def test_a_write_during_the_profile_is_noted(embedded, monkeypatch):
    embedded.execute("CREATE TABLE t (a)")
    assert not profile(embedded, "t").inconsistent
    monkeypatch.setattr(round_trip, "_VERSIONS", "SELECT 1, random()")
    found = profile(embedded, "t")
    assert found.inconsistent
    assert str(found).endswith(round_trip.note_on(True))
    assert round_trip.note_on(True) in found._repr_html_()


def test_the_hint_after_a_timeout(embedded, monkeypatch):
    embedded.execute("CREATE TABLE t (a)")
    relation = read_relation(embedded, "t")

    def too_late(*_args, **_options):
        raise AnswerTimeout("it did not respond in time", hint="check the data before you run it again")

    monkeypatch.setattr(embedded.transport, "send", too_late)
    with pytest.raises(AnswerTimeout, match="profile fewer columns at once with --columns"):
        profile(embedded, relation)


def test_the_text_form(mixed):
    lines = str(profile(mixed, "m")).splitlines()
    assert lines[0] == "m: 6 rows, 6 columns"
    assert lines[1].split() == HEADS
    by_name = {line.split()[0]: line for line in lines[2:]}
    assert by_name["any"].endswith("1 ×2, 2.5 ×1, '1' ×1") or by_name["any"].endswith("1.0 ×2, 2.5 ×1, '1' ×1")
    assert by_name["any"].split()[5:9] == ["5", "(83.3%)", "1", "4"]
    assert by_name["void"].split() == ["void", "INT", "0", "(0.0%)", "6", "0"]
    assert by_name["b"].endswith("x'' ×2, x'00000000000000000… ×1, x'00ff' ×1")
    assert str(profile(mixed, "m")) == "\n".join(lines)


def test_text_and_html_count_the_same_as_pandas(embedded):
    random = np.random.default_rng(3)
    values = {
        f"c{number}": np.where(random.random(4_001) < share, np.nan, random.integers(0, 9, 4_001))
        for number, share in enumerate((0, 0.0004, 0.025, 0.5, 0.9996, 1))
    }
    frame = pd.DataFrame({**values, "t": random.choice(["UA", "B6", None], 4_001)})
    embedded.load(frame, "t")
    found = profile(embedded, "t")
    text = {line.split()[0]: line for line in str(found).splitlines()[2:]}
    shown = table_of(found)
    for name in frame:
        count, nulls = int(frame[name].count()), int(frame[name].isna().sum())
        percent = f"{100 * count / len(frame):.1f}%"
        percent = ">99.9%" if count and percent == "100.0%" else "<0.1%" if count and percent == "0.0%" else percent
        cells = [f"{count:,}{f' ({percent})' if nulls else ''}", f"{nulls:,}", str(frame[name].nunique())]
        assert [shown[name][head] for head in ("count", "nulls", "distinct")] == cells
        assert re.search(r"  +".join(map(re.escape, cells)), text[name])
    assert len({cells["count"].partition("(")[2] for cells in shown.values()}) >= 6


def test_histograms(embedded):
    embedded.execute(f"CREATE TABLE t AS SELECT j.value AS v FROM json_each('{list(range(120))}') AS j")
    found = profile(embedded, "t")
    assert found["v"].bins == (10,) * BINS
    assert str(found).splitlines()[-1].endswith("  " + "█" * BINS)
    assert found._repr_html_().count("<rect") == BINS


@pytest.mark.parametrize(
    "change",
    ["ADD COLUMN new DEFAULT 7", "DROP COLUMN void", "RENAME COLUMN any TO some"],
)
def test_an_outdated_schema_is_detected(mixed, change):
    known = read_schema(mixed)
    mixed.execute(f"ALTER TABLE m {change}")
    columns = [column.name for column in read_relation(mixed, "m").columns]
    assert [column.name for column in profile(mixed, "m", known=known).columns] == columns
    assert profile(mixed, "m", columns[-1:], known=known).columns[0].name == columns[-1]


def test_tables_renamed_since_the_schema_was_read(mixed):
    known = read_schema(mixed)
    mixed.execute("ALTER TABLE m RENAME TO n")
    assert profile(mixed, "n", known=known).rows == 6
    with pytest.raises(UnknownName):
        profile(mixed, "m", known=known)
    with pytest.raises(UnknownName, match="has no column 'nope'"):
        profile(mixed, "n", ["nope"], known=known)


def test_rows_selected_by_a_condition(mixed):
    found = profile(mixed, "m", where="m.id < 4 AND t <> 'b' -- the first ones")
    assert (found.rows, found["id"].maximum) == (2, 2)
    assert str(found).startswith("m where m.id < 4 AND t <> 'b' -- the first ones: 2 rows, 6 columns\n")
    assert "<b>m where m.id &lt; 4 AND" in found._repr_html_()
    mixed.execute("CREATE TABLE g AS SELECT 3 AS id")
    assert profile(mixed, "m", ["id"], where="id IN (SELECT id FROM g)")["id"].minimum == 3
    assert profile(mixed, "m", ["id"], where="0", known=read_schema(mixed)).rows == 0


@pytest.mark.parametrize("known", [False, True])
def test_an_invalid_condition(embedded, known):
    embedded.execute("CREATE TABLE t (a)")
    schema = read_schema(embedded) if known else None
    with pytest.raises(StatementError, match="no such column: nope"):
        profile(embedded, "t", where="nope > 1", known=schema)
    for wrong in ("1) OR (1", "a = 'x", "1; DROP TABLE t", "a = ?", "a = :b"):
        with pytest.raises(ParameterError):
            profile(embedded, "t", where=wrong, known=schema)
