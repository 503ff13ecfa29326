"""Why a statement finds no row: each reason is true for the data, and names the value that was perhaps meant."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing

import pytest

from pipemagic.explore import no_rows
from pipemagic.explore.schema import Relation

PENGUINS = [
    ("id", "INTEGER"), ("species", "TEXT"), ("island", "TEXT"), ("mass", "REAL"), ("year", "INTEGER"), ("seen", "DATE"),
    ("code", "TEXT"), ("sex", "TEXT"),
]  # fmt: skip
ISLANDS = [("name", "TEXT"), ("area", "INTEGER"), ("note", "TEXT")]
TABLES = {
    name: Relation.of(name, columns)
    for name, columns in {"penguins": PENGUINS, "islands": ISLANDS, "empty": [("x", "")]}.items()
}
ROWS = [
    (1, "Adelie", "Torgersen", 3750.5, 2007, "2007-01-05", "007", "NA"),
    (2, "Adelie", "Biscoe", 3800.5, 2008, "2008-02-01", "20", "f"),
    (3, "Adelie", "Torgersen", None, 2009, "2009-01-01", "30", "m"),
    (4, "Gentoo", "Biscoe", 5700.5, 2007, "2007-03-04 10:00:00", "8", "f"),
    (5, "Chinstrap", "Dream ", 3500.5, 2009, "2009-12-31", "9", "m"),
    (6, "Adelie Penguin", "Dream", 4000.5, 2010, "2010-12-31", "9", "m"),
]


@pytest.fixture
def database():
    with closing(sqlite3.connect(":memory:")) as connection:
        for name, columns in {"penguins": PENGUINS, "islands": ISLANDS}.items():
            connection.execute(f"CREATE TABLE {name} ({', '.join(map(' '.join, columns))})")
        connection.execute("CREATE TABLE empty (x)")
        connection.executemany("INSERT INTO penguins VALUES (?, ?, ?, ?, ?, ?, ?, ?)", ROWS)
        connection.executemany("INSERT INTO islands VALUES (?, ?, NULL)", [("Torgersen", 1), ("Anvers", 2432)])
        yield connection


def select(database):
    """Return the function that runs the queries: None for one that fails."""

    def run(query):
        try:
            return database.execute(query).fetchall()
        except sqlite3.Error:
            return None

    return run


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("island = 'torgersen'", "has island = 'torgersen'; there is 'Torgersen'"),
        ("'torgersen' = island", "has 'torgersen' = island; there is 'Torgersen'"),
        ('island = "torgersen"', "has island = \"torgersen\"; there is 'Torgersen'"),
        ("island = 'dream'", "has island = 'dream'; there are 'Dream ' and 'Dream', with blanks"),
        ("island = ' Biscoe'", "has island = ' Biscoe'; there is 'Biscoe'"),
        ("island = 'Bisco'", "has island = 'Bisco'; there is 'Biscoe'"),
        ("island = 'Torgresen'", "has island = 'Torgresen'; there is 'Torgersen'"),
        ("species = 'Penguin'", "has species = 'Penguin'; there is 'Adelie Penguin'"),
        ("sex = 'x'", "has sex = 'x': the values are 'NA', 'f' and 'm'"),
        ("sex IS NULL", "has sex IS NULL; there is 'NA'"),
        ("species IS NULL", "has species IS NULL"),
        ("island = :wanted", "has island = 'biscoe'; there is 'Biscoe'"),
        ("island IN ('biscoe', 'x')", "has island IN ('biscoe', 'x'); there is 'Biscoe'"),
        ("island = 'x' OR island = 'biscoe'", "fulfils island = 'x' OR island = 'biscoe'; there is 'Biscoe'"),
        ("island LIKE 'Bisc'", "has island LIKE 'Bisc': without % it compares the whole text; LIKE 'Bisc%' finds rows"),
        ("island LIKE 'B*'", "has island LIKE 'B*': the wildcards of LIKE are % and _, write LIKE 'B%'"),
        ("island LIKE 'iscoe%'", "has island LIKE 'iscoe%': LIKE '%iscoe%' finds rows"),
        ("island = 'B%'", "has island = 'B%': = does not know %; write island LIKE 'B%'"),
        ("island GLOB 'b*'", "has island GLOB 'b*'; there is 'Biscoe': GLOB is case-sensitive"),
        ("island GLOB 'B%'", "has island GLOB 'B%': the wildcard of GLOB is *, write GLOB 'B*'"),
        ("mass > 10000", "has mass > 10000: the largest is 5700.5"),
        ("10000 < mass", "has 10000 < mass: the largest is 5700.5"),
        ("mass < 10", "has mass < 10: the smallest is 3500.5"),
        ("mass BETWEEN 4000 AND 3000", "has mass BETWEEN 4000 AND 3000: BETWEEN needs the smaller value first"),
        ("mass BETWEEN 1 AND 3", "has mass BETWEEN 1 AND 3: the values are from 3500.5 to 5700.5"),
        ("id = 99", "has id = 99: the values are from 1 to 6"),
        ("id = 1.25", "has id = 1.25: the nearest value is 1"),
        ("year = '2011'", "has year = '2011': the values are 2007, 2008, 2009 and 2010"),
        ("strftime('%Y', seen) = 2007", "has strftime('%Y', seen) = 2007; there is the text '2007'"),
        ("code = '7'", "has code = '7'; there is '007'"),
        ("seen = '5.1.2007'", "has seen = '5.1.2007'; there is '2007-01-05'"),
        ("seen = '2007-1-5'", "has seen = '2007-1-5'; there is '2007-01-05'"),
        ("seen = '2007-03-04'", "has seen = '2007-03-04'; there is '2007-03-04 10:00:00'"),
        ("lower(island) = 'Biscoe'", "has lower(island) = 'Biscoe'; there is 'biscoe'"),
        ("NOT mass > 1", "fulfils NOT mass > 1"),
        ("mass < id", "has mass < id"),
        ("1 BETWEEN mass AND 9000", "fulfils 1 BETWEEN mass AND 9000"),
        ("mass BETWEEN id AND id + 1", "has mass BETWEEN id AND id + 1"),
        ("1 = 2", "fulfils 1 = 2"),
        ("species = 'Adelie_Penguin'", "has species = 'Adelie_Penguin'; there is 'Adelie Penguin'"),
        ("mass > 1 AND island = 'biscoe'", "has island = 'biscoe'; there is 'Biscoe'"),
        ("mass > 4500 AND island = 'Dream'", "fulfils both mass > 4500 and island = 'Dream'"),
        ("(mass > 4500 OR id > 99) AND island = 'biscoe'", "has island = 'biscoe'; there is 'Biscoe'"),
    ],
)
def test_a_condition_that_no_row_fulfils(database, condition, reason):
    statement = f"SELECT id FROM penguins WHERE {condition}"
    args = {":wanted": "biscoe"}
    assert no_rows.reason(statement, args, TABLES, select(database)) == f"no row of penguins {reason}"
    if ":" not in condition:
        assert database.execute(statement).fetchall() == []


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("SELECT id FROM penguins WHERE mass = NULL", "= NULL is never true: write IS NULL"),
        ("SELECT id FROM penguins WHERE mass > NULL", "> NULL is never true"),
        ("SELECT id FROM penguins WHERE mass != :none", "!= NULL is never true: write IS NOT NULL"),
        ("SELECT name FROM islands WHERE note = 'x'", "no row of islands has note = 'x': note is NULL in every row"),
        (
            "SELECT id FROM penguins WHERE island = 'Biscoe' AND island = 'Dream'",
            "island cannot be both 'Biscoe' and 'Dream': write IN ('Biscoe', 'Dream')",
        ),
        (
            "SELECT name FROM islands JOIN penguins ON island = name WHERE island = species AND island = 'Anvers'",
            "no row of penguins has island = species",
        ),
        (
            "SELECT id FROM penguins WHERE year = 2007 AND year = mass - 1491.5",
            "no row of penguins fulfils both year = 2007 and year = mass - 1491.5",
        ),
        ("SELECT id FROM penguins WHERE NULL = mass", "= NULL is never true: write IS NULL"),
        ("SELECT x FROM empty WHERE x > 1", "empty has no rows"),
        ("SELECT id FROM penguins, empty", "empty has no rows"),
        ("SELECT x FROM empty LEFT JOIN penguins ON x = id", "empty has no rows"),
        ("SELECT id FROM penguins JOIN islands ON mass = area LEFT JOIN empty ON x = id", ""),
        ("SELECT id FROM penguins LIMIT 0", "LIMIT 0 returns no rows"),
        ("SELECT id FROM penguins LIMIT 1,000", "LIMIT 1, 000 returns no rows"),
        ("SELECT id FROM penguins LIMIT 5 OFFSET 10", "OFFSET skips all 6 rows"),
        ("SELECT id FROM penguins LIMIT 10, 5", "OFFSET skips all 6 rows"),
        (
            "SELECT id FROM penguins JOIN islands ON island = area",
            "ON island = area is true for no rows of the tables: for example, island is 'Torgersen' and area is 1",
        ),
        (
            "SELECT id FROM penguins p JOIN islands i ON p.island = i.name WHERE i.name = 'anvers'",
            "no row of islands has i.name = 'anvers'; there is 'Anvers'",
        ),
        (
            "SELECT id FROM penguins p JOIN islands i ON p.island = i.name WHERE i.name = 'Anvers'",
            "no row of the join has i.name = 'Anvers'",
        ),
        (
            "SELECT id FROM penguins JOIN islands ON island = name AND area > 9999",
            "no row of islands has area > 9999: the largest is 2432",
        ),
        (
            "SELECT name FROM islands LEFT JOIN penguins ON island = name WHERE id IS NULL AND area < 2",
            "no row fulfils both id IS NULL and area < 2",
        ),
        (
            "SELECT species, count(*) AS n FROM penguins GROUP BY species HAVING n > 10",
            "no group has n > 10: the largest is 3",
        ),
        (
            "SELECT species FROM penguins GROUP BY species HAVING sum(mass) < 10",
            "no group has sum(mass) < 10: the smallest is 3500.5",
        ),
        (
            "SELECT year FROM penguins GROUP BY year HAVING mass >= 25000",
            "HAVING mass >= 25000 compares mass of an arbitrary row of each group: write WHERE, or an aggregate",
        ),
        (
            "SELECT p.year FROM penguins p GROUP BY p.year HAVING count(*) > 0 AND p.mass >= 25000",
            "HAVING p.mass >= 25000 compares p.mass of an arbitrary row of each group: write WHERE, or an aggregate",
        ),
        ("SELECT year FROM penguins GROUP BY year HAVING year > 2010", "no group has year > 2010: the largest is 2010"),
        ("SELECT year AS y FROM penguins GROUP BY y HAVING y > 2010", "no group has y > 2010: the largest is 2010"),
        ("SELECT year AS y FROM penguins GROUP BY 1 HAVING year > 2010", "no group has year > 2010"),
        (
            "SELECT year, max(mass) FROM penguins GROUP BY year HAVING id > 9",  # that of the row with the maximum
            "no group has id > 9: the largest is 6",
        ),
        (
            "SELECT id, mass / 1000 AS kg FROM penguins WHERE kg > 100",
            "no row of penguins has kg > 100: the largest is 5.7005",
        ),
        (
            "WITH b AS (SELECT * FROM penguins WHERE island = 'biscoe') SELECT id FROM b",
            "b has no rows: no row of penguins has island = 'biscoe'; there is 'Biscoe'",
        ),
        (
            "WITH b AS (SELECT * FROM penguins) SELECT id FROM b WHERE year = 1",
            "no row of b has year = 1: the values are",
        ),
        (
            "SELECT * FROM (SELECT * FROM penguins WHERE island = 'biscoe') AS b JOIN islands ON b.island = name",
            "b has no rows: no row of penguins has island = 'biscoe'; there is 'Biscoe'",
        ),
        ("SELECT id FROM (SELECT id FROM penguins WHERE mass < 9)", "the subquery has no rows: no row of penguins has"),
        (
            "SELECT max(mass) FROM penguins WHERE island = 'biscoe'",
            "no row of penguins has island = 'biscoe'; there is",
        ),
        ("UPDATE penguins SET mass = 1 WHERE island = 'biscoe'", "no row of penguins has island = 'biscoe'; there is"),
        ("DELETE FROM penguins WHERE island = 'biscoe'", "no row of penguins has island = 'biscoe'; there is 'Biscoe'"),
        ("SELECT id FROM penguins WHERE id > 9 UNION SELECT id FROM penguins WHERE id > 8", ""),
        ("SELECT 1 WHERE 0", ""),
        ("INSERT INTO penguins (id) SELECT id FROM penguins WHERE id > 9", ""),
        ("SELECT id FROM penguins WHERE", ""),
        ("SELECT nothing FROM nowhere WHERE nothing = 1", ""),
        ("SELECT id FROM penguins", ""),
    ],
)
def test_a_statement_without_a_row(database, statement, reason):
    shown = no_rows.reason(statement, {":none": None}, TABLES, select(database))
    assert shown.startswith(reason)
    assert bool(shown) == bool(reason)


def test_the_largest_value_of_groups_is_no_reason_beside_another_value_of_each(database):
    statement = "SELECT year FROM penguins GROUP BY year HAVING count(*) > avg(id) * 9"
    assert no_rows.reason(statement, {}, TABLES, select(database)) == "no group has count(*) > avg(id) * 9"


def test_a_value_that_is_not_found_beside_others(database):
    def unmatched(condition):
        return no_rows.unmatched(f"SELECT id FROM penguins WHERE {condition}", {}, TABLES, select(database))

    expected = "no row of penguins has island = 'biscoe'; there is 'Biscoe'"
    assert unmatched("island IN ('biscoe', 'Dream')") == expected
    assert unmatched("island = 'Dream' OR island = 'biscoe'") == expected
    assert unmatched("island IN ('Mars', 'Dream')") == "no row of penguins has island = 'Mars': the values are " + (
        "'Biscoe', 'Dream', 'Dream ' and 'Torgersen'"
    )
    assert unmatched("island IN ('Biscoe', 'Dream')") == ""
    assert unmatched("island = 'Dream' AND mass > 1") == ""


@pytest.mark.parametrize(
    ("query", "group", "column"),
    [
        ("island, count(*) FROM penguins GROUP BY species", "species", "island"),
        ("p.island, count(*) FROM penguins AS p JOIN islands AS i ON i.name = p.island OR p.id > 2 GROUP BY i.name",
         "i.name", "p.island"),
        ("species, island AS place FROM penguins GROUP BY 1", "1", "island"),
        ("island FROM penguins WHERE year < 2009 GROUP BY species HAVING count(*) > 1 AND species <> 'x'",
         "species", "island"),
        ("island, count(*) FROM penguins GROUP BY island", "", ""),
        ("island AS place, count(*) FROM penguins GROUP BY place", "", ""),
        ("island, species, count(*) FROM penguins GROUP BY id", "", ""),  # each group has one row
        ("island, max(mass) FROM penguins GROUP BY species", "", ""),  # the island of the largest mass
        ("island FROM penguins WHERE year < 2008 GROUP BY species", "", ""),
        ("island FROM penguins GROUP BY species HAVING count(*) < 2", "", ""),
        ("count(*) FROM penguins GROUP BY species", "", ""),
        ("island, count(*) FROM penguins", "", ""),
    ],
)  # fmt: skip
def test_a_column_with_different_values_in_one_group(database, query, group, column):
    said = no_rows.mixed_group(f"SELECT {query}", {}, TABLES, select(database))
    words = f"GROUP BY {group} puts different values of {column} into one group: is {column} missing in it?"
    assert said == (words if column else "")


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("mass IN (NULL)", "IN (NULL) is never true: write IS NULL"),
        ("mass IN (:none)", "IN (NULL) is never true: write IS NULL"),
        ("id > 1 AND mass IN (NULL, NULL)", "IN (NULL) is never true: write IS NULL"),
        ("mass NOT IN (1, NULL)", "NOT IN with a NULL in its list is never true: remove the NULL"),
        ("NOT mass IN (1, NULL)", "NOT IN with a NULL in its list is never true: remove the NULL"),
        ("NOT (mass NOT IN (NULL))", "IN (NULL) is never true: write IS NULL"),
        ("mass NOT IN (NULL)", "NOT IN (NULL) is never true: write IS NOT NULL"),
        ("NOT mass IN (NULL, NULL)", "NOT IN (NULL) is never true: write IS NOT NULL"),
        ("mass BETWEEN 1 AND NULL", "BETWEEN with NULL as a bound is never true"),
        (
            "mass BETWEEN 1 AND NULL OR mass = 1",
            "no row of penguins fulfils mass BETWEEN 1 AND NULL OR mass = 1: BETWEEN with NULL as a bound is",
        ),
        ("mass NOT BETWEEN NULL AND 9000", "no row of penguins has mass NOT BETWEEN NULL AND 9000"),
        ("mass IN (1, NULL)", "no row of penguins has mass IN (1, NULL): the values are "),
    ],
)
def test_a_list_or_a_range_with_null(database, condition, why):
    text = f"SELECT id FROM penguins WHERE {condition}"
    assert database.execute(text, {"none": None} if ":none" in text else {}).fetchall() == []
    assert no_rows.reason(text, {":none": None}, TABLES, select(database)).startswith(why)


def test_no_query_runs_after_the_last_one_that_is_allowed(database):
    left, run = 3, select(database)

    def few(query):
        nonlocal left
        left -= 1
        return run(query) if left >= 0 else None

    assert no_rows.reason("SELECT id FROM penguins WHERE island = 'x' AND mass > 9", {}, TABLES, few) == (
        "no row of penguins has island = 'x'"
    )


def test_reasons_for_random_conditions_are_true(database):
    chosen = random.Random(7)
    values = ["'biscoe'", "'Biscoe'", "'x'", "'2007'", "2007", "3500.5", "NULL", "'%e%'", "''", "'9'", "9", "-1", "1e9"]

    def term():
        column = chosen.choice([name for name, _ in PENGUINS] + ["lower(island)", "mass / 2", "abs(id)"])
        value, other = chosen.choices(values, k=2)
        return chosen.choice([
            f"{column} {chosen.choice(['=', '<', '>', '<=', '<>', 'LIKE', 'GLOB', 'IS', '=='])} {value}",
            f"{column} IN ({value}, {other})", f"{column} NOT IN ({value}, {other})",
            f"{column} BETWEEN {value} AND {other}", f"{column} IS NULL", f"NOT {column} = {value}",
            f"({column} = {value} OR {column} > {other})",
        ])  # fmt: skip

    reasons = 0
    for _ in range(3000):
        terms = [term() for _ in range(chosen.randint(1, 3))]
        statement = f"SELECT id FROM penguins WHERE {' AND '.join(terms)}"
        if database.execute(statement).fetchall():
            continue
        reason = no_rows.reason(statement, {}, TABLES, select(database))
        assert reason, statement
        reasons += 1
        false = [text for text in terms if not database.execute(f"SELECT 1 FROM penguins WHERE {text}").fetchall()]
        if reason.startswith(("no row of penguins has ", "no row of penguins fulfils ")) and " both " not in reason:
            assert any(text.strip("()") in reason for text in false), (statement, reason)
        for there in reason.partition("; there is ")[2:]:
            value = there.partition(": ")[0].removeprefix("the text ").removeprefix("the number ").split(", with")[0]
            columns = ", ".join(f"{name} = {value}" for name, _ in PENGUINS) if value else "1"
            matches = columns.replace(", ", " OR ") + f" OR lower(island) = {value or 1} OR mass / 2 = {value or 1}"
            assert database.execute(f"SELECT 1 FROM penguins WHERE {matches}").fetchall(), (statement, reason)
    assert reasons > 1000
