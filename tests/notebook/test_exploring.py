"""%pipedb tables, columns, schema, profile, rules, diff."""

from __future__ import annotations

import pandas as pd
import pytest
from magic_shell import make_database

HOSTILE = """sel'ect "<script>alert(1)</script> 😀 é"""
QUOTED = '"' + HOSTILE.replace('"', '""') + '"'


def test_tables_columns_and_schema(db):
    db(
        "%%sql\nCREATE TABLE city (id INTEGER PRIMARY KEY, name TEXT NOT NULL);\n"
        "INSERT INTO city (name) VALUES ('a'), ('b');\n"
        f"CREATE TABLE {QUOTED} ({QUOTED});\nCREATE INDEX named ON city (name)"
    )
    assert db("%pipedb tables").value.to_dict("list") == {"table": ["city", HOSTILE], "type": ["table", "table"]}
    assert db("%pipedb tables ITY --rows").value.to_dict("records") == [{"table": "city", "type": "table", "rows": 2}]
    assert db("%pipedb tables c?t* --on db").value["table"].tolist() == ["city"]
    assert db("%pipedb columns city").value["column"].tolist() == ["id", "name"]
    assert db(f"%pipedb columns {QUOTED}").value["column"].tolist() == [HOSTILE]
    assert "<script>" not in db(f"%pipedb columns {QUOTED}").value.to_html()
    shown = db("%pipedb schema city")
    assert str(shown.value) == (
        "CREATE TABLE city (id INTEGER PRIMARY KEY, name TEXT NOT NULL);\nCREATE INDEX named ON city (name);"
    )
    assert shown.out.endswith(f"{shown.value}\n")
    assert str(db("%pipedb schema").value).count("CREATE") == 3
    for command in ("columns", "schema"):
        failed = db.fails(f"%pipedb {command} citi")
        assert failed.out == "UNKNOWN_NAME: table or view 'citi' does not exist\nHint: did you mean city?\n"


def test_profile(db):
    db(
        f'%%sql\nCREATE TABLE {QUOTED} (id INTEGER PRIMARY KEY, {QUOTED} TEXT, "a,b" REAL);\n'
        f"INSERT INTO {QUOTED} VALUES (1, '<i>', 0.5), (2, '<i>', 2.5), (3, NULL, NULL)"
    )
    shown = db(f"%pipedb profile {QUOTED}")
    assert shown.value.frame["nulls"].tolist() == [0, 1, 1]
    assert shown.value["a,b"].quartiles == (1.0, 1.5, 2.0)
    assert "3 rows, 3 columns" in shown.out
    assert "<i> ×2" in shown.out
    assert "<i>" not in shown.value._repr_html_()
    few = db(f"""%pipedb profile {QUOTED} --on db --columns 'ID,"a,b"'""").value
    assert [column.name for column in few.columns] == ["id", "a,b"]
    assert "did you mean id?" in db.fails(f"%pipedb profile {QUOTED} --columns idd").out


def test_profile_is_one_round_trip_once_the_schema_is_known(db):
    db("%%sql\nCREATE TABLE city (name); INSERT INTO city VALUES ('a')")
    connection = db.ip.magics_manager.registry["PipeMagics"].session.connection("db")
    assert connection.schema.ready.wait(30)

    def round_trips():
        return int(db("%pipedb wire").value.loc["db", "round trips"])

    before = round_trips()
    assert db("%pipedb profile city").value.rows == 1
    assert round_trips() == before + 1
    with connection.database.sibling() as other:
        other.execute("ALTER TABLE city ADD COLUMN mayor")
    assert [column.name for column in db("%pipedb profile city").value.columns] == ["name", "mayor"]


ONLY_CELLS = "the table is temporary or not committed yet; query it with %%sql"


def test_uncommitted_tables(db):
    db("%%sql\nBEGIN; CREATE TABLE late (a)")
    for line in ("profile late", "columns LATE", "schema late", "rules late --not-null a", "diff late nope"):
        assert ONLY_CELLS in db.fails(f"%pipedb {line}").out
    assert ONLY_CELLS not in db.fails("%pipedb profile nope").out
    db("%sql ROLLBACK")
    assert ONLY_CELLS not in db.fails("%pipedb profile late").out


def test_main_before_a_name_is_the_schema(db):
    db('%%sql\nCREATE TABLE city (a INTEGER PRIMARY KEY); INSERT INTO city VALUES (7); CREATE TABLE "main.city" (b)')
    for name in ("main.city", "MAIN.City", '\'"main"."city"\'', "[city]"):
        assert db(f"%pipedb columns {name}").value["column"].tolist() == ["a"]
    assert db("%pipedb columns '\"main.city\"'").value["column"].tolist() == ["b"]
    assert str(db("%pipedb schema main.city").value).startswith("CREATE TABLE city")
    for line in ("profile main.city", "profile main.city --where 'a > 1'"):
        assert db(f"%pipedb {line}").value["a"].maximum == 7
    checked = "%pipedb rules main.city --not-null a --references a=main.city.a"
    assert db(checked).lines == ["city: 2 rules passed, 1 row."]
    assert "are equal: 1 row" in db("%pipedb diff main.city city").out
    for line in ("plot bar main.city --x a", "plot bar main.city --x a --where 'a > 1'"):
        assert "Plot of city." in db(f"%pipedb {line}").out
    assert "a  INTEGER  PK" in db("%pipedb diagram main.city").out
    assert db.fails("%pipedb profile main.citi").out.endswith("did you mean city?\n")


def test_a_temporary_table_is_refused_with_a_sentence(db):
    db("%sql CREATE TEMP TABLE t (a)")
    for line in ("columns temp.t", "profile temp.t", "diff temp.t temp.t", "copy temp.t --to db"):
        failed = db.fails(f"%pipedb {line}")
        assert "temp.t is a temporary table, which only cells can see" in failed.out
        assert "query it with %%sql" in failed.out


def test_a_table_with_a_point_in_its_name(db):
    db('%%sql\nCREATE TABLE "main.old" (b); CREATE TABLE "a.b" (c)')
    assert db.fails("%pipedb columns main.old").out.endswith(
        "write '\"main.old\"' for the table with a dot in its name\n"
    )
    assert db("%pipedb columns '\"main.old\"'").value["column"].tolist() == ["b"]
    assert db("%pipedb columns a.b").value["column"].tolist() == ["c"]  # schema a does not exist


def test_rules(db):
    db(
        f'%%sql\nCREATE TABLE {QUOTED} (id INTEGER PRIMARY KEY, {QUOTED} TEXT, "a,b" REAL REFERENCES other (x));\n'
        "CREATE TABLE other (x UNIQUE);\n"
        f"INSERT INTO {QUOTED} (id, {QUOTED}) VALUES (1, '<i>'), (2, '<i>'), (3, NULL)"
    )
    line = (
        f"%pipedb rules {QUOTED} --on db --not-null id --unique id --unique 'id,\"a,b\"' --range id=1..3 "
        "--range id=-1.5.. --references '\"a,b\"=other.x' --foreign-keys --rows \"id <> 4 AND 'x' = 'x'\""
    )
    assert db(line).lines == [f"{HOSTILE}: 8 rules passed, 3 rows."]
    both = f"id,{QUOTED}".replace("'", "''")
    failed = db.fails(f"%pipedb rules {QUOTED} --not-null '{both}' --rows 'id < 2'")
    assert failed.lines[0] == f"{HOSTILE} is not null: 1 row fails"
    assert "id < 2: 2 rows fail" in failed.lines
    assert failed.out.endswith(
        f"RULES: {HOSTILE}: 2 of 3 rules failed, 3 rows\n  {HOSTILE} is not null: 1 row fails\n  id < 2: 2 rows fail\n"
    )
    assert [len(failure.frame) for failure in failed.error.failures] == [1, 2]
    assert "did you mean id?" in db.fails(f"%pipedb rules {QUOTED} --not-null idd").out


FLIGHTS = """%%sql
CREATE TABLE flight (id INTEGER PRIMARY KEY, carrier TEXT, delay INTEGER, jwt TEXT, token TEXT);
INSERT INTO flight VALUES (1, 'AA', 5, 'x', 'abc'), (2, 'AA', 7, 'y', 'abc'), (3, 'it''s', 20, 'x', NULL)
"""


def test_parameters_as_in_a_cell(db):
    db(FLIGHTS)
    db.names.update(code="it's", codes=["AA", "it's"], most=10, column="carrier")
    profile = db("%pipedb profile flight --where 'carrier = :code'").value
    assert (profile.rows, profile.where) == (1, "carrier = :code")
    assert profile["delay"].maximum == 20
    assert db("%pipedb profile flight --where 'carrier IN :codes AND delay < @most'").value.rows == 2
    assert db("%pipedb profile flight --where '{column} = $code -- of the :others'").value.rows == 1
    assert db("%pipedb rules flight --rows 'delay < :most + 11' --rows 'carrier IN :codes'").lines == [
        "flight: 2 rules passed, 3 rows."
    ]
    failed = db.fails("%pipedb rules flight --rows 'delay < :most' --not-null token")
    assert "  delay < :most: " in failed.out
    assert [failure.frame["id"].tolist() for failure in failed.error.failures] == [[3], [3]]
    db.names["limit"] = 0.1 + 0.2 + 7  # the shortest form of which careless servers read as another number
    assert db("%pipedb profile flight --where 'delay < :limit'").value.rows == 2
    assert db("%pipedb plot bar flight --x carrier --where 'delay < :limit'").error is None
    drawn = db("%pipedb plot bar flight --x carrier --where 'carrier IN :codes AND delay < :most'")
    assert drawn.error is None
    found = db('%pipedb diff "SELECT * FROM flight WHERE delay < :most" "SELECT * FROM flight WHERE carrier IN :codes"')
    assert (found.value.same_rows, found.value.only_b_count) == (2, 1)


DAYS = """%%sql
CREATE TABLE d (day DATE, at DATETIME, n INTEGER);
INSERT INTO d VALUES ('2013-01-30', '2013-01-30 23:59:59', 1), ('2013-01-31', '2013-01-31 00:00:00', 2),
    ('2013-01-31', '2013-01-31 05:17:00', 3), ('2013-02-01', '2013-02-01 00:00:00', 4);
CREATE VIEW e AS SELECT at AS day, n FROM d
"""


def test_days_are_the_same_in_cells_and_commands(db):
    """A Timestamp at midnight is a day for DATE columns, in each place that takes a parameter; pandas counts."""
    db(DAYS)
    db.names.update(day=pd.Timestamp("2013-01-31"), days=pd.date_range("2013-01-31", "2013-02-01"), n=0)
    moments = ["2013-01-30 23:59:59", "2013-01-31", "2013-01-31 05:17:00", "2013-02-01"]
    at = pd.Series(pd.to_datetime(moments, format="ISO8601"))
    day = at.dt.normalize()
    for condition, right in {
        "day = :day": day == "2013-01-31",
        "day > :day": day > "2013-01-31",
        "at = :day": at == "2013-01-31",
        "at <= :day": at <= "2013-01-31",
        "day IN :days": day.isin(db.names["days"]),
        "day IN :days AND n > :n": day >= "2013-01-31",
        "d.day >= @day AND d.day < date(@day, '+1 day')": day == "2013-01-31",
    }.items():
        count = int(right.sum())
        assert db(f"%sql SELECT count(*) FROM d WHERE {condition}").value.iloc[0, 0] == count, condition
        assert db(f'%pipedb profile d --where "{condition}"').value.rows == count
        assert f"{4 - count} row" in db.fails(f'%pipedb rules d --rows "{condition}"').out
        plotted = db(f'%pipedb plot bar d --x n --where "{condition}"').value
        assert len(plotted.axes.patches) == count  # a bar for each n
    db.names["given"] = {"day": db.names.pop("day").to_pydatetime()}
    assert len(db("%%sql --params given\nSELECT * FROM d WHERE day = :day").value) == 2
    db.names["day"] = db.names["given"]["day"]
    db("%sql --save recent SELECT * FROM d WHERE day >= :day")
    assert db("%sql --with recent SELECT count(*) FROM recent WHERE day > :day").value.iloc[0, 0] == 1
    assert db("%pipedb plot bar --with recent --x n").value.axes.patches[0].get_height() == 1
    db("%sql --save added SELECT n + 1 /* new */ FROM d WHERE day >= :day")
    assert db("%pipedb plot bar --with added --x 'n + 1'").value.axes.get_xlabel() == "n + 1"
    shown = db('%pipedb diff "SELECT n FROM d WHERE day = :day" "SELECT n FROM e WHERE day = :day"').value
    assert (shown.same_rows, shown.only_a_count, shown.only_b_count) == (1, 1, 0)  # e.day is a DATETIME


def test_ranges_of_days(db):
    db(DAYS)
    for column in ("day", "at"):
        assert "1 rule passed" in db(f"%pipedb rules d --range {column}=2013-01-30..2013-02-01").out
        failed = db.fails(f"%pipedb rules d --range {column}=2013-01-31..2013-01-31").out
        assert f"{column} is in 2013-01-31..2013-01-31: 2 rows fail" in failed
        failed = db.fails(f"%pipedb rules d --range '{column}=2013-01-31 00:00:00..'").out
        assert f"{column} is in 2013-01-31 00:00:00..: 1 row fails" in failed


@pytest.mark.parametrize(
    "line",
    [
        "%sql SELECT * FROM flight WHERE carrier = :cod",
        "%pipedb profile flight --where 'carrier = :cod'",
        "%pipedb rules flight --rows 'carrier = :cod'",
        "%pipedb plot bar flight --x carrier --where 'carrier = :cod'",
        "%pipedb diff flight 'SELECT * FROM flight WHERE carrier = :cod'",
    ],
)
def test_a_parameter_without_a_value_is_the_same_error_everywhere(db, line):
    db(FLIGHTS)
    db.names.update(code="AA")
    assert db.fails(line).out == (
        "PARAMETER: line 1: :cod has no value: name 'cod' is not defined\nHint: did you mean :code?\n"
    )


TYPED = {
    "profile flight --where {}": "SELECT * FROM flight WHERE ",
    "plot bar flight --x carrier --where {}": "SELECT * FROM flight WHERE ",
    "plot bar --with early --x carrier --where {}": "SELECT * FROM early WHERE ",
    "rules flight --not-null id --rows 'id > 0' --rows {}": "SELECT * FROM flight WHERE ",
    "diff flight {}": "",
}
"""Lines with SQL of the user, and what a cell has before that SQL."""


CONDITIONS = [
    "order > 3", "CASE WHEN 1 THEN 2", "delay 3", "delay > 'a", "delay >> 1 AND", "(delay > 1", "delay > 1)",
    "dely > 1", "id > 1 AND lenght(carrier) = 3", "upper() = 1", "max(delay) > 5", "z.carrier = 'AA'",
    "nvl(carrier, 'x') = 'AA'", "carrier ILIKE 'a%'", "id IN (SELECT id FROM nosuch)", "(id, delay) > 5",
    "{column} = :code AND dely > 1", "carrier IN :codes AND lenght(:code) > 1", "json(carrier) > 5",
]  # fmt: skip


@pytest.mark.parametrize("line", TYPED)
def test_typed_sql_has_the_error_of_a_cell(db, line):
    """The SQL runs in a statement of the command, of which the error must not tell."""
    db(FLIGHTS)
    db("%sql --save early SELECT * FROM flight WHERE delay < 100")
    db.names.update(code="it's", codes=["AA", "it's"], column="carrier")
    start = TYPED[line]
    for condition in CONDITIONS:
        typed = condition if start else f"SELECT * FROM flight WHERE {condition}"
        cell = db.fails(f"%sql {'--with early ' if 'early' in start else ''}{start}{typed}").error
        error = db.fails("%pipedb " + line.replace("{}", f'"{typed}"')).error
        assert (error.code, error.hint) == (cell.code, cell.hint), condition
        first, *excerpt = error.message.split("\n")
        assert first == cell.message.split("\n")[0], condition
        expected = cell.message.split("\n")[1:]
        assert len(excerpt) == len(expected), condition
        if excerpt:
            assert excerpt[0] == f"  {typed}"
            assert excerpt[1].index("^") == expected[1].index("^") - len(start), condition


def test_the_sql_of_a_comparison_is_one_select(db):
    """In parentheses it would be a comparison with two rows."""
    db(FLIGHTS)
    assert db.fails('%pipedb diff flight "SELECT 1) UNION SELECT (2"').out == (
        "SQL_PARSE_ERROR: line 1: unmatched closing parenthesis\n  SELECT 1) UNION SELECT (2\n          ^\n"
    )


def test_the_select_in_error_is_named(db):
    """Of two SELECTs, the first one that a server refuses; a saved SELECT by its name."""
    db(FLIGHTS)
    for a, b in (
        ("SELECT ida FROM flight", "SELECT id FROM flight"),
        ("SELECT id FROM flight", "SELECT ida FROM flight"),
    ):
        assert "  SELECT ida FROM flight\n         ^\n" in db.fails(f"%pipedb diff '{a}' '{b}'").out
    failed = db.fails("%pipedb diff 'SELECT first FROM flight' 'SELECT second FROM flight'").out
    assert "no such column: first" in failed
    assert "second" not in failed
    db("%sql CREATE TABLE gone (ida)")
    db("%sql --save wrong SELECT ida FROM gone")
    db("%sql DROP TABLE gone")
    line = "%pipedb plot bar --with wrong --x ida --where 'ida > 1'"
    assert db.fails(line).out == db.fails("%sql --with wrong SELECT * FROM wrong WHERE ida > 1").out


@pytest.mark.parametrize("condition", ["dest='a:b@c.d'", "dest<>'mail:a@b.de'", "dest='http://u:p@h'"])
def test_a_condition_with_a_string_like_an_address_is_accepted(db, condition):
    db("%sql CREATE TABLE flights (dest)")
    for line in ("profile flights --where", "rules flights --rows", "plot histogram flights --x dest --where"):
        done = db.run(f'%pipedb {line} "{condition}"')
        assert "token or a password" not in done.out + done.err, line
        assert done.error is None or "PLOT: " in done.out, done.out
    value = db("""%sql --params '{"dest":"a:b@c.d"}' SELECT :dest AS dest""").value
    assert value["dest"].tolist() == ["a:b@c.d"]


def test_invalid_rules(db):
    for words, told in {
        "": "no rules to check\nHint: add --not-null",
        "--range id": "invalid --range id",
        "--references id=other": "invalid --references id=other",
        "--unique ,": "--unique requires at least one name",
        "--rows '1; 2'": "the condition must be a single SQL expression without ;",
    }.items():
        failed = db.fails(f"%pipedb rules t {words}")
        assert told in failed.out + failed.err, words


def test_diff(db):
    db(
        f'%%sql\nCREATE TABLE {QUOTED} (id INTEGER PRIMARY KEY, "a,b" TEXT);\nCREATE TABLE b (id INT, "a,b" TEXT);\n'
        f"INSERT INTO {QUOTED} VALUES (1, '<i>'), (2, 'x');\nINSERT INTO b VALUES (1, '<i>'), (2, 'y'), (3, NULL)"
    )
    found = db(f"%pipedb diff {QUOTED} b --on db --key id --limit 1")
    assert (found.value.same_rows, found.value.only_b_count, found.value.changed_count) == (1, 1, 1)
    assert f"{HOSTILE} and b, compared by id" in found.out
    assert "<script>" not in found.value._repr_html_()
    assert db(f"""%pipedb diff {QUOTED} "SELECT * FROM b" --key 'id,"a,b"'""").value.only_a["a,b"].tolist() == ["x"]
    assert "column id: INTEGER in" in db(f"%pipedb diff {QUOTED} b").out
    assert "nothing to compare with" in db.fails("%pipedb diff b").out
    assert "--limit must be a whole number of at least 0, not 'x'" in db.fails("%pipedb diff b b --limit x").out
    assert "did you mean b?" in db.fails("%pipedb diff b bb").out


@pytest.mark.parametrize("server", ["embedded", "sqld"])
def test_diff_between_two_connections(db, service, monkeypatch, request):
    url, token = make_database(service, f"the other of {request.node.name}")
    monkeypatch.setenv("OTHER_TOKEN", token)
    db(f"%pipedb connect {url} --as other --token-env OTHER_TOKEN")
    for name in ("db", "other"):
        db(f"%%sql --on {name}\nDROP TABLE IF EXISTS t;\nCREATE TABLE t (a, b);\nINSERT INTO t VALUES (1, 2), (1, 2)")
    assert db("%pipedb diff t --on db --to other").out.endswith(
        "t on db and t on other are equal: 2 rows, compared by whole rows.\n"
    )
    db("%sql --on other INSERT INTO t VALUES (1, 2.0)")
    assert db("%pipedb diff t t --on other --to db").value.only_a["times"].tolist() == [1]
