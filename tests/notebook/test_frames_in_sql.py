"""DataFrames of the notebook as tables in SQL: which names are frames, who wins, what is sent, and what returns."""

from __future__ import annotations

import datetime as dt
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pandas.testing import assert_frame_equal

from pipemagic.client.address import Endpoint
from pipemagic.client.transport import Transport


@pytest.fixture(params=["embedded", "sqld"])
def server(request):
    return request.param


def sales():
    return pd.DataFrame(
        {
            "shop": ["a", "b", "a"],
            "total": [1.5, np.nan, 2.25],
            "n": [1, 2, 3],
            "paid": [True, False, True],
            "day": pd.to_datetime(["2026-07-01", "2026-07-02", "2026-07-03"]),
            "at": pd.to_datetime(["2026-07-01 05:17", "2026-07-02 00:00", "2026-07-03 00:00"]),
        }
    )


@pytest.fixture
def frames(db):
    """The shell with the frame ``sales`` in a variable, and the table ``city``."""
    db("%%sql\nCREATE TABLE city (shop TEXT, city TEXT, opened DATE);"
       "INSERT INTO city VALUES ('a', 'Rome', '2026-07-01'), ('b', 'Oslo', '2026-07-02')")  # fmt: skip
    db.names["sales"] = sales()
    return db


@pytest.fixture
def requests(monkeypatch):
    """The bodies of all requests from now on."""
    bodies = []
    begin = Transport._begin

    def record(self, message):
        if message.body:
            bodies.append(bytes(message.body))
        return begin(self, message)

    monkeypatch.setattr(Transport, "_begin", record)
    return bodies


def column(cell):
    return cell.value.iloc[:, 0].tolist()


def rows(shell, text):
    return shell(f"%%sql --quiet\n{text}").value.to_numpy().tolist()


# -- what a frame can be used for


def test_a_frame_is_joined_with_a_table_and_a_line_says_what_was_sent(frames):
    cell = frames("%%sql\nSELECT city, sum(total) AS s FROM sales JOIN city USING (shop) GROUP BY 1 ORDER BY 1")
    assert cell.lines == ["sales: 3 rows sent"]
    assert cell.value.to_dict("list") == {"city": ["Oslo", "Rome"], "s": [pytest.approx(np.nan, nan_ok=True), 3.75]}


def test_quiet_cells_have_no_line(frames):
    assert frames("%%sql --quiet\nSELECT * FROM sales").lines == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT n FROM sales WHERE shop = 'a'", [[1], [3]]),
        ("SELECT s.n FROM city AS c, sales AS s WHERE c.shop = s.shop AND c.city = 'Oslo'", [[2]]),
        ("SELECT city FROM city WHERE shop IN (SELECT shop FROM sales WHERE n = 2)", [["Oslo"]]),
        ("SELECT (SELECT max(n) FROM sales) AS m", [[3]]),
        ("SELECT count(*) FROM (SELECT * FROM sales WHERE n > 1)", [[2]]),
        ("SELECT count(*) FROM (sales JOIN city USING (shop))", [[3]]),
        ('SELECT count(*) FROM "sales"', [[3]]),
        ("SELECT n FROM sales EXCEPT SELECT 2 ORDER BY n", [[1], [3]]),
        ("VALUES ((SELECT sum(n) FROM sales))", [[6]]),
        ("WITH s AS (SELECT n + 1 AS m FROM sales) SELECT max(m) FROM s", [[4]]),
        ("WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < (SELECT max(n) FROM sales)) "
         "SELECT count(*) FROM c", [[3]]),
        ("SELECT s.n FROM sales AS s LEFT JOIN sales AS t ON t.n = s.n + 1 WHERE t.n IS NULL", [[3]]),
    ],
)  # fmt: skip
def test_statements_read_frames(frames, text, expected):
    assert rows(frames, text) == expected


def test_a_frame_of_one_column_is_a_list_after_in(frames):
    frames.names["some"] = pd.DataFrame({"shop": ["b", "c"]})
    assert rows(frames, "SELECT city FROM city WHERE shop IN some") == [["Oslo"]]
    assert rows(frames, "SELECT city FROM city WHERE shop NOT IN some") == [["Rome"]]


def test_a_result_of_an_earlier_cell_is_a_frame(frames):
    frames("%%sql -o first\nSELECT shop, n FROM sales WHERE n > 1")
    frames("%%sql -o second\nSELECT shop, n * 10 AS n FROM first")
    assert rows(frames, "SELECT sum(n) FROM second") == [[50]]


def test_a_function_sends_its_own_frames(frames):
    frames("def f():\n    own = sales.head(2)\n    result = %sql SELECT sum(n) FROM own\n    return result")
    assert frames("f().iloc[0, 0]").value == 3


def test_params_name_values_and_not_frames(frames):
    frames.names["p"] = {"least": 2}
    assert column(frames("%%sql --params p\nSELECT n FROM sales WHERE n >= :least")) == [2, 3]


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO city SELECT shop, 'x', day FROM sales",
        "INSERT INTO city (shop, city, opened) WITH s AS (SELECT shop, 'x', day FROM sales) SELECT * FROM s",
        "WITH x AS (SELECT 'x' AS x) INSERT INTO city SELECT shop, x, day FROM sales, x",
        "REPLACE INTO city SELECT shop, 'x', day FROM sales",
    ],
)
def test_rows_are_inserted(frames, text):
    assert frames(f"%%sql\n{text}").lines == ["sales: 3 rows sent", "3 rows affected."]
    assert rows(frames, "SELECT shop, opened FROM city WHERE city = 'x' ORDER BY opened") == [
        ["a", pd.Timestamp("2026-07-01")], ["b", pd.Timestamp("2026-07-02")], ["a", pd.Timestamp("2026-07-03")],
    ]  # fmt: skip


def test_rows_are_updated_and_deleted_by_a_frame(frames):
    frames("%%sql\nUPDATE city SET city = city || s.n FROM sales AS s WHERE s.shop = city.shop AND s.n < 3")
    assert rows(frames, "SELECT city FROM city ORDER BY 1") == [["Oslo2"], ["Rome1"]]
    frames("%%sql\nDELETE FROM city WHERE shop IN (SELECT shop FROM sales WHERE n = 2)")
    assert rows(frames, "SELECT city FROM city") == [["Rome1"]]


def test_a_table_is_created_from_a_frame(frames):
    frames("%%sql\nCREATE TABLE copy AS SELECT shop, n FROM sales WHERE n > 1")
    assert rows(frames, "SELECT * FROM copy") == [["b", 2], ["a", 3]]


# -- which names are frames


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO sales VALUES (1)",
        "INSERT INTO sales SELECT * FROM sales",
        "UPDATE sales SET n = 1 WHERE n = 2",
        "UPDATE sales SET n = 1 FROM sales AS s WHERE sales.n = s.n",
        "DELETE FROM sales WHERE n = 1",
        "DELETE FROM sales WHERE n IN (SELECT n FROM sales)",
        "DROP TABLE sales",
        "ALTER TABLE sales RENAME TO other",
        "SELECT * FROM main.sales",
        "CREATE INDEX i ON sales (n)",
        "CREATE TRIGGER t AFTER INSERT ON sales BEGIN DELETE FROM city WHERE shop IN (SELECT shop FROM sales); END",
        "EXPLAIN DELETE FROM sales WHERE n = 1",
    ],
)
def test_a_changed_table_is_not_a_frame(frames, requests, text):
    cell = frames.fails(f"%%sql --confirm\n{text}")
    assert "no such table: " in cell.out
    assert "%pipedb load sales --table sales" in cell.out
    assert not any(b"rows_of" in body or b"LIMIT 0" in body for body in requests)


def test_a_view_and_a_trigger_do_not_contain_rows(frames, requests):
    frames("%%sql\nCREATE VIEW v AS SELECT * FROM sales")
    frames("%%sql\nCREATE TRIGGER t AFTER INSERT ON city BEGIN SELECT * FROM sales; END")
    assert not any(b"rows_of" in body for body in requests)
    assert "no such table: main.sales" in frames.fails("%%sql\nSELECT * FROM v").out


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("WITH sales AS (SELECT 7 AS n) SELECT n FROM sales", [[7]]),
        ("WITH sales(n) AS (VALUES (7)), other AS (SELECT n FROM sales) SELECT n FROM other", [[7]]),
        ("SELECT n FROM (WITH sales AS (SELECT 7 AS n) SELECT n FROM sales)", [[7]]),
        ("INSERT INTO city WITH sales AS (SELECT 'z') SELECT *, '', '' FROM sales RETURNING shop", [["z"]]),
        ("CREATE TABLE c2 AS WITH sales AS (SELECT 7 AS n) SELECT n FROM sales; SELECT n FROM c2", [[7]]),
        ("SELECT key FROM json_each('[5]') AS sales", [[0]]),
        ("SELECT 'FROM sales' AS text -- FROM sales", [["FROM sales"]]),
    ],
)
def test_a_common_table_hides_a_frame(frames, requests, text, expected):
    assert rows(frames, text) == expected
    assert not any(b"rows_of" in body for body in requests)


def test_an_inner_common_table_hides_a_frame_only_inside(frames):
    text = "SELECT (WITH sales AS (SELECT 7 AS n) SELECT n FROM sales), n FROM sales WHERE n = 1"
    assert rows(frames, text) == [[7, 1]]


def test_only_the_exact_name_of_a_variable_is_a_frame_and_no_private_one(frames):
    frames.names["_hidden"] = frames.names["sales"]
    assert "no such table: _hidden" in frames.fails("%%sql\nSELECT * FROM _hidden").out
    assert "no such table: Sales" in frames.fails("%%sql\nSELECT * FROM Sales").out
    frames.names["total"] = 3
    assert "no such table: total" in frames.fails("%%sql\nSELECT * FROM total").out


def test_names_that_a_cell_creates_drops_or_renames_are_those_of_the_database(frames):
    assert rows(frames, "CREATE TABLE IF NOT EXISTS sales (k); INSERT INTO sales VALUES (5); SELECT k FROM sales") == [
        [5]
    ]
    assert "no such table: sales" in frames.fails("%%sql\nDROP TABLE sales; SELECT * FROM sales").out
    frames("%%sql\nCREATE TABLE old (k)")
    assert rows(frames, "ALTER TABLE old RENAME TO sales; SELECT count(*) FROM sales") == [[0]]


def test_a_cell_that_undoes_changes_reads_tables_alone(frames):
    frames("%%sql\nCREATE TABLE sales (k); INSERT INTO sales VALUES (5)")
    frames("%%sql\nBEGIN; DROP TABLE sales")
    assert rows(frames, "ROLLBACK; SELECT k FROM sales") == [[5]]


# -- who wins


def test_a_table_wins_and_a_note_says_so_once(frames):
    frames("%%sql\nCREATE TABLE sales (k); INSERT INTO sales VALUES (5)")
    first, second = frames("%%sql\nSELECT k FROM sales"), frames("%%sql\nSELECT k FROM sales")
    assert first.lines == ["sales is a table of the database; the variable sales was not used."]
    assert column(first) == column(second) == [5]
    assert second.lines == []


def test_no_note_says_that_a_table_wins_over_the_frame_loaded_into_it(frames):
    frames("%pipedb load sales --table sales")
    assert frames("%%sql\nSELECT count(*) FROM sales").lines == []
    frames("sales = sales.head(1)")
    changed = frames("%%sql\nSELECT count(*) FROM sales")
    assert changed.lines == ["sales is a table of the database; the variable sales was not used."]
    assert column(changed) == [3]
    frames.names["city"] = frames.names["sales"]
    frames("%pipedb load city --table other")
    assert frames("%%sql\nSELECT count(*) FROM city").lines == [
        "city is a table of the database; the variable city was not used."
    ]


def test_the_server_is_asked_once_for_a_table_until_it_may_be_gone(frames, requests):
    def asked(text):
        requests.clear()
        frames(f"%%sql --quiet\n{text}")
        return sum(b"LIMIT 0" in body for body in requests)

    frames("%pipedb load sales --table sales")
    assert asked("SELECT * FROM sales") == 0
    assert asked("INSERT INTO city SELECT shop, 'x', day FROM sales") == 0
    assert asked("CREATE TABLE other (k)") == 0
    assert [asked("SELECT * FROM sales"), asked("SELECT * FROM sales")] == [1, 0]
    frames("%%sql\nDROP TABLE sales")
    assert frames("%%sql\nSELECT n FROM sales").lines == ["sales: 3 rows sent"]


def test_a_table_that_another_client_has_dropped_is_noticed(frames):
    frames("%pipedb load sales --table sales")
    connection = frames.ip.magics_manager.registry["PipeMagics"].session.connection()
    connection.database.execute("DROP TABLE sales")
    assert "no such table: sales" in frames.fails("%%sql\nSELECT * FROM sales").out
    assert frames("%%sql\nSELECT n FROM sales").lines == ["sales: 3 rows sent"]


def test_a_plan_leaves_the_note_to_the_cell_that_runs(frames):
    frames("%%sql\nCREATE TABLE sales (k)")
    frames("%%sql --explain\nSELECT k FROM sales")
    assert len(frames("%%sql\nSELECT k FROM sales").lines) == 1


@pytest.mark.parametrize(
    ("server", "kind"),
    [("embedded", "TEMP TABLE sales (k)"), ("embedded", "VIEW sales AS SELECT 1 AS k"),
     ("sqld", "VIEW sales AS SELECT 1 AS k")],
)  # fmt: skip
def test_temporary_tables_and_views_win(frames, kind):
    frames(f"%%sql\nCREATE {kind}")
    assert list(frames("%%sql\nSELECT * FROM sales").value) == ["k"]


def test_an_uncommitted_table_wins(frames):
    frames("%%sql\nBEGIN; CREATE TABLE sales (k)")
    assert list(frames("%%sql\nSELECT * FROM sales").value) == ["k"]
    frames("%%sql\nROLLBACK")
    assert len(frames("%%sql\nSELECT * FROM sales").value) == 3


def test_a_broken_view_of_another_table_is_no_missing_table(frames):
    frames("%%sql\nCREATE VIEW sales AS SELECT * FROM gone")
    assert "no such table: main.gone" in frames.fails("%%sql\nSELECT * FROM sales").out


# -- the same values and types as from a loaded table


@pytest.fixture
def loaded(frames):
    frames("%pipedb load sales --table loaded")
    return frames


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM {}",
        "SELECT day, at, paid FROM {}",
        "SELECT day AS d, n FROM {} WHERE n > 10",
        "SELECT s.*, city FROM {} AS s JOIN city USING (shop)",
        "SELECT * FROM {} JOIN city USING (shop)",
        "SELECT * FROM {} AS s JOIN city AS c ON s.shop = c.shop",
        "SELECT * FROM city NATURAL JOIN {} ORDER BY n",
        "SELECT c.* FROM city AS c JOIN {} AS s ON s.shop = c.shop ORDER BY s.n",
        "SELECT * FROM (SELECT day, max(day), max(at) AS m, count(*) FROM {})",
        "WITH c(a, b) AS (SELECT sum(n), day FROM {} GROUP BY 2) SELECT * FROM c",
        "SELECT day FROM {} UNION SELECT opened FROM city",
        "SELECT opened FROM city UNION ALL SELECT day FROM {}",
        "SELECT (SELECT day FROM {} LIMIT 1) AS d, (SELECT max(day) FROM {}) AS m",
        "SELECT max(day), day, date(day, '+1 day') FROM {}",
        "SELECT * FROM (SELECT * FROM {} AS a JOIN {} AS b ON a.n = b.n)",
        "SELECT a.day COLLATE NOCASE AS day, a.at, (a.paid) FROM {} AS a",
        "SELECT * FROM ({} AS a JOIN city USING (shop)) JOIN (SELECT n, 1, day AS later FROM {}) AS b USING (n)",
        "SELECT * FROM {} AS a JOIN ({} AS b JOIN city AS c ON c.shop = b.shop) USING (n)",
        "SELECT * FROM {}, (VALUES (1, 'x')) AS v",
        "SELECT typeof(shop), typeof(total), typeof(n), typeof(paid), typeof(day), typeof(at) FROM {}",
    ],
)
def test_results_have_the_types_of_a_loaded_table(loaded, text):
    expected = loaded(f"%%sql --quiet\n{text.replace('{}', 'loaded')}").value
    assert_frame_equal(loaded(f"%%sql --quiet\n{text.replace('{}', 'sales')}").value, expected)


def test_a_frame_is_joined_with_the_table_of_another_frame(loaded):
    loaded.names["loaded"] = loaded.names["sales"]  # the table wins
    loaded("%pipedb load sales --table other")
    expected = loaded("%%sql --quiet\nSELECT * FROM other AS a JOIN loaded AS b ON a.n = b.n").value
    assert_frame_equal(loaded("%%sql --quiet\nSELECT * FROM sales AS a JOIN loaded AS b ON a.n = b.n").value, expected)


CONDITIONS = [
    "n = '2'", "n < '10'", "n IN ('1', '3')", "total = '1.5'", "total > '10'", "shop = 1", "shop < 5", "shop IN (1)",
    "paid = '1'", "paid = TRUE", "day = '2026-07-02'", "day BETWEEN '2026-07-02' AND '2026-07-03'", "n || '' = 2",
    "total IS NULL", "n = (SELECT '2')", "n IN (SELECT shop FROM t)", "x = 1", "x = 'a'",
]  # fmt: skip


def test_comparisons_mean_the_same_as_in_a_loaded_table(frames):
    mixed = sales().assign(shop=["1", "05", "5"], x=[1, "a", None])
    frames.names["big"] = pd.concat([mixed] * 500, ignore_index=True).assign(i=range(1500))  # two parts
    frames.names["t"] = pd.DataFrame({"shop": ["1", "2"]})
    frames("%pipedb load big --table loaded")
    frames("%pipedb load t --table t")
    for condition in CONDITIONS:
        text = f"SELECT i FROM {{}} WHERE {condition} ORDER BY i"
        assert rows(frames, text.format("big")) == rows(frames, text.format("loaded")), condition


KINDS = {
    "polars": pl.from_pandas, "arrow": pa.Table.from_pandas,
    "record batch": pa.RecordBatch.from_pandas,
    "arrow dtypes": lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
    "nullable": lambda frame: frame.convert_dtypes(), "index": lambda frame: frame.set_index("shop"),
    "no rows": lambda frame: frame.head(0), "categories": lambda frame: frame.astype({"shop": "category"}),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_frame_has_the_rows_of_a_load(frames, kind):
    frames.names["f"] = KINDS[kind](sales())
    frames("%pipedb load f --table loaded")
    assert_frame_equal(
        frames("%%sql --quiet\nSELECT * FROM f").value, frames("%%sql --quiet\nSELECT * FROM loaded").value
    )


def test_values_arrive_exactly(frames):
    values = {
        "i": [2**63 - 1, -(2**63), 0], "r": [0.1, 5e-324, -1.7976931348623157e308], "z": [-0.0, 1.5, float("inf")],
        "t": ["é\0", "", None], "b": [b"\0\xff", b"", None], "o": [1, "1", b"1"], "Größe": [1, 2, 3],
        'a "quoted" name': [None, None, None],
    }  # fmt: skip
    frames.names["größe"] = pd.DataFrame(values)
    frames("%pipedb load größe --table loaded")
    assert rows(frames, "SELECT * FROM größe EXCEPT SELECT * FROM loaded") == []
    assert rows(frames, "SELECT count(*) FROM größe, loaded WHERE größe.i IS loaded.i") == [[3]]
    assert_frame_equal(
        frames("%%sql --quiet\nSELECT * FROM größe").value, frames("%%sql --quiet\nSELECT * FROM loaded").value
    )


def test_a_parameter_at_midnight_finds_the_days_of_a_frame(frames):
    frames.names["day"] = pd.Timestamp("2026-07-02")
    assert rows(frames, "SELECT n FROM sales WHERE day = :day") == [[2]]
    assert rows(frames, "SELECT n FROM sales JOIN city USING (shop) WHERE opened = :day AND day <= :day") == [[2]]
    assert rows(frames, "SELECT n FROM sales WHERE at = :day") == [[2]]
    frames.names["days"] = [dt.datetime(2026, 7, 1), dt.datetime(2026, 7, 3)]
    assert rows(frames, "SELECT n FROM sales WHERE day IN :days") == [[1], [3]]
    frames.names["only"] = sales()[["day"]]
    assert rows(frames, "SELECT :day IN only, :day IN (SELECT day FROM only)") == [[1, 1]]


# -- what a load refuses


REFUSED = {
    "duplicate names": pd.DataFrame([[1, 2]], columns=["a", "A"]),
    "timedelta": pd.DataFrame({"a": [dt.timedelta(1)]}),
    "lists": pd.DataFrame({"a": [[1]]}),
    "integers": pd.DataFrame({"a": [2**64]}),
    "no columns": pd.DataFrame(index=[1, 2]),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_a_load_refuses_has_the_same_error(frames, requests, kind):
    frames.names["f"] = REFUSED[kind]
    expected = frames.fails("%pipedb load f --table f")
    requests.clear()
    cell = frames.fails("%%sql\nSELECT * FROM f")
    assert cell.out == expected.out
    assert not any(b"SELECT * FROM f" in body for body in requests)


def test_the_hint_for_decimals_names_the_line_of_the_load(frames):
    frames.names["f"] = pd.DataFrame({"a": [decimal.Decimal("0.1000000000000000001")]})
    cell = frames.fails("%%sql\nSELECT * FROM f")
    assert "Hint: %pipedb load f --table f with an option:\n--types a=TEXT keeps" in cell.out


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (pl.LazyFrame({"a": [1]}), "f is a Polars LazyFrame, not a DataFrame:\nf = f.collect()\n"),
        (pd.Series([1], name="a"), "f is a Series, not a DataFrame:\nf = f.to_frame()\n"),
        ([1], ""),
    ],
    ids=["lazy frame", "series", "list"],
)
def test_other_values_are_no_frames_and_a_hint_converts_them(frames, value, hint):
    frames.names["f"] = value
    out = frames.fails("%%sql\nSELECT * FROM f").out
    assert "no such table: f" in out
    assert hint in out
    assert ("not a DataFrame" in out) is bool(hint)
    if hint:
        frames(hint.splitlines()[1])
        assert rows(frames, "SELECT a FROM f") == [[1]]
    frames("%%sql\nCREATE TABLE f AS SELECT 2 AS a")
    assert rows(frames, "SELECT a FROM f") == [[2]]


# -- where rows are sent


@pytest.fixture
def remote(frames, monkeypatch):
    """The shell, connected to a server that is not on this machine."""
    monkeypatch.setattr(Endpoint, "loopback", property(lambda _: False))
    monkeypatch.setattr(Endpoint, "named_host", property(lambda _: "db.example.com"))
    return frames


def test_another_host_gets_no_rows_and_no_question(remote, requests):
    cell = remote.fails("%%sql\nSELECT * FROM sales")
    assert cell.out.splitlines() == [
        "UNKNOWN_NAME: no such table: sales",
        "  SELECT * FROM sales",
        "                ^",
        "Hint: sales is a DataFrame in the notebook; load it:",
        "%pipedb load sales --table sales",
        "%%sql --frames sends the rows of sales to db.example.com",
    ]
    assert not any(b"rows_of" in body or b"LIMIT 0" in body for body in requests)


def test_frames_allows_any_host_for_one_cell(remote):
    assert remote("%%sql --frames\nSELECT n FROM sales").lines == ["sales: 3 rows sent"]
    assert "no such table: sales" in remote.fails("%%sql\nSELECT n FROM sales").out


def test_the_hint_names_the_statement_that_reads_the_frame(remote):
    out = remote.fails("%%sql\nSELECT 1; DELETE FROM sales WHERE n = 1; SELECT * FROM sales").out
    assert "--frames" not in out  # it would not help
    assert "--frames" in remote.fails("%%sql\nSELECT 1; SELECT * FROM sales").out


def test_explicit_sends_rows_only_with_the_option(frames):
    frames('%config PipeMagic.frames = "explicit"')
    assert "%%sql --frames sends the rows of sales to " in frames.fails("%%sql\nSELECT * FROM sales").out
    assert column(frames("%sql --frames SELECT n FROM sales")) == [1, 2, 3]


def test_off_reads_tables_alone(frames, requests):
    frames('%config PipeMagic.frames = "off"')
    out = frames.fails("%%sql\nSELECT * FROM sales").out
    assert "--frames" not in out
    assert "%pipedb load sales" in out
    assert frames.fails("%%sql --frames\nSELECT 1").out == (
        'USAGE: frames are switched off\nHint: %config PipeMagic.frames = "explicit" allows --frames\n'
    )
    assert not any(b"rows_of" in body for body in requests)


# -- with options, in transactions, on other connections


@pytest.mark.parametrize("options", ["--atomic", "--limit 2", "--type polars", "--timeout 30", "--close", "-o out"])
def test_frames_with_options(frames, options):
    cell = frames(f"%%sql {options}\nSELECT n FROM sales WHERE n < 3 ORDER BY n")
    table = frames.names["out"] if options == "-o out" else cell.value
    assert [*table["n"]] == [1, 2]
    assert cell.lines == ["sales: 3 rows sent"]


def test_a_limit_reports_more_rows(frames):
    cell = frames("%%sql --limit 2\nSELECT n FROM sales")
    assert cell.lines == ["sales: 3 rows sent", "First 2 rows; there are more."]
    assert column(cell) == [1, 2]


def test_plans_and_descriptions_send_no_rows(frames, requests):
    plan = str(frames("%sql --explain SELECT * FROM sales JOIN city USING (shop)").value)
    assert "SCAN sales" in plan or "SEARCH sales" in plan
    described = str(frames("%sql --dry-run SELECT n, day FROM sales").value)
    assert "n, day" in described
    assert b'"named_args"' not in b"".join(requests)


def test_a_cell_that_explains_sends_no_rows(frames, requests):
    cell = frames("%%sql\nEXPLAIN QUERY PLAN SELECT n FROM sales;\nEXPLAIN SELECT n FROM sales")
    assert len(cell.value) > 1
    assert not [line for line in cell.lines if line.endswith("sent")]
    assert b'"named_args"' not in b"".join(requests)


def test_a_statement_does_not_read_the_result_of_an_earlier_run(frames):
    text = "%%sql\n-- name: top\nSELECT max(shop) AS shop FROM city;\nSELECT shop FROM top"
    for _ in range(2):  # the second time there is a variable of that name
        assert frames.fails(text).out.splitlines()[-1] == (
            "Hint: top is the result of an earlier statement, a variable after the cell: read it in another cell"
        )
    assert rows(frames, "SELECT shop FROM top") == [["b"]]


def test_several_statements_have_one_line_and_each_its_rows(frames):
    frames.names["other"] = pd.DataFrame({"n": [3, 4]})
    cell = frames("%%sql\n-- name: a\nSELECT sum(n) AS s FROM sales;\n-- name: b\n"
                  "SELECT count(*) AS c FROM sales JOIN other USING (n);\nSELECT max(n) FROM other")  # fmt: skip
    assert cell.lines[:2] == ["sales: 3 rows sent", "other: 2 rows sent"]
    assert frames.names["a"].iloc[0, 0] == 6
    assert frames.names["b"].iloc[0, 0] == 1
    assert column(cell) == [4]


def test_saved_selects_templates_files_and_names_in_braces(frames, tmp_path):
    frames("%%sql --save late\nSELECT n FROM sales WHERE n > 1")
    assert column(frames("%%sql --with late --quiet\nSELECT sum(n) FROM late")) == [5]
    assert column(
        frames("%%sql --with late --quiet\nWITH s AS (SELECT n FROM sales) SELECT count(*) FROM late, s")
    ) == [6]
    frames.names["t"] = "sales"
    assert column(frames("%%sql --jinja --quiet\nSELECT max(n) FROM {{ t }}")) == [3]
    assert column(frames("%%sql --quiet\nSELECT max(n) FROM {t}")) == [3]
    (tmp_path / "q.sql").write_text("SELECT min(n) FROM sales", "utf-8")
    assert column(frames(f"%sql --quiet --file {tmp_path / 'q.sql'}")) == [1]
    frames.names["query"] = "SELECT count(*) FROM sales"
    assert column(frames("%sql --quiet {query}")) == [3]


def test_results_are_written_to_files(frames, tmp_path):
    cell = frames(f"%%sql --to-csv {tmp_path / 'x.csv'}\nSELECT day, n FROM sales")
    assert cell.lines[0] == "sales: 3 rows sent"
    assert (tmp_path / "x.csv").read_text("utf-8").splitlines()[1] == "2026-07-01,1"


def test_transactions_of_earlier_cells(frames):
    frames("%%sql\nBEGIN")
    frames("%%sql\nINSERT INTO city SELECT shop, 'x', day FROM sales")
    assert rows(frames, "SELECT count(*) FROM city JOIN sales USING (shop) WHERE city = 'x'") == [[5]]
    frames("%%sql\nSAVEPOINT s; DELETE FROM city WHERE shop IN (SELECT shop FROM sales); ROLLBACK TO s")
    frames("%%sql\nCOMMIT")
    assert rows(frames, "SELECT count(*) FROM city") == [[5]]


def test_an_atomic_cell_that_fails_changes_nothing(frames):
    out = frames.fails("%%sql --atomic\nINSERT INTO city SELECT shop, 'x', day FROM sales; SELECT nope FROM sales").out
    assert "nothing was changed; statement 2 of 2 failed here, line 2:" in out
    assert rows(frames, "SELECT count(*) FROM city") == [[2]]


def test_a_read_only_connection_reads_frames(frames):
    address = frames("import pipemagic; pipemagic.current().address").value
    frames(f"%pipedb connect {address} --as reader --token-env DB_TOKEN --read-only")
    assert rows(frames, "SELECT sum(n) FROM sales JOIN city USING (shop)") == [[6]]
    assert "read-only" in frames.fails("%%sql\nINSERT INTO city SELECT shop, 'x', day FROM sales").out
    assert column(frames("%sql --quiet --on db SELECT sum(n) FROM sales")) == [6]


# -- sizes


def test_a_frame_that_is_too_large_is_not_sent(frames, requests):
    frames.names["wide"] = pd.DataFrame({"a": ["x" * 4_000_000] * 17})
    frames.names["long"] = pd.DataFrame({"a": np.zeros(65_000_000, np.int8)})
    for name in ("wide", "long"):
        assert frames.fails(f"%%sql --on db\nSELECT count(*) FROM {name}").out == (
            f"SESSION: the rows of {name} take more than the 64 MB that a cell sends\n"
            f"Hint: load {name}:\n%pipedb load {name} --table {name} --on db\n"
        )
    assert not any(b"rows_of" in body for body in requests)


def test_all_frames_of_a_cell_count_and_each_statement(frames):
    frames.names["a"] = frames.names["b"] = pd.DataFrame({"a": ["x" * 3_000_000] * 11})
    assert column(frames("%%sql\nSELECT count(*) FROM a")) == [11]
    hint = "that a cell sends\nHint: load {0}:\n%pipedb load {0} --table {0}\n"
    out = frames.fails("%%sql\nSELECT count(*) FROM a, b").out
    assert out == f"SESSION: the rows of a and b take more than the 64 MB {hint.format('b')}"
    out = frames.fails("%%sql\nSELECT count(*) FROM a; SELECT count(*) FROM a").out
    assert out == f"SESSION: the rows of a take more than the 64 MB {hint.format('a')}"


def test_a_transaction_of_an_earlier_cell_takes_less(frames):
    frames.names["a"] = pd.DataFrame({"a": ["x" * 3_000_000] * 3})
    frames("%%sql\nBEGIN")
    out = frames.fails("%%sql\nSELECT count(*) FROM a").out
    assert out.startswith("SESSION: the rows of a take more than the 8 MB that a cell sends in an open transaction\n")
    assert "COMMIT first, or load a before BEGIN:\n%pipedb load a --table a" in out
    assert frames("%%sql\nCOMMIT").error is None
    assert column(frames("%%sql\nBEGIN; SELECT count(*) FROM a; COMMIT")) == [3]


def test_a_long_number_in_one_row_does_not_count_in_all_rows(frames):
    frames.names["a"] = pd.DataFrame({"n": np.zeros(600_000, int)})
    frames.names["a"].loc[599_999, "n"] = 2**62
    frames("%%sql\nBEGIN")
    assert rows(frames, "SELECT count(*), max(n) FROM a") == [[600_000, 2**62]]
    frames("%%sql\nROLLBACK")


def test_texts_of_every_kind_fit(frames):
    texts = ["é" * 2_000_000, "\n" * 4_000_000, "\1" * 4_000_000, "😀" * 1_000_000, '"' * 4_000_000] * 3
    frames.names["texts"] = pd.DataFrame({"t": texts})
    expected = [[t[0], len(t)] for t in sorted(set(texts))]
    assert rows(frames, "SELECT DISTINCT substr(t, 1, 1), length(t) FROM texts ORDER BY 1") == expected


def test_a_large_result_is_received_and_the_rows_are_sent_once(frames, requests):
    frames.names["big"] = pd.DataFrame({"t": ["x" * 1000] * 15_000, "n": range(15_000)})
    cell = frames("%%sql\nSELECT t, n FROM big")
    assert cell.value["n"].sum() == 15_000 * 14_999 // 2
    assert sum(b'rows_of_big_1_1"' in body for body in requests) == 1


def test_a_large_result_in_a_transaction(frames, requests):
    frames.names["big"] = pd.DataFrame({"t": ["x" * 1000] * 7_000})
    frames("%%sql\nBEGIN; INSERT INTO city VALUES ('z', 'z', NULL)")
    assert len(frames("%%sql\nSELECT b.t, c.t AS u FROM big AS b, big AS c LIMIT 12000").value) == 12_000
    assert sum(b'rows_of_big_1_1"' in body for body in requests) == 1
    assert rows(frames, "SELECT count(*) FROM city") == [[3]]
    frames("%%sql\nROLLBACK")
    assert rows(frames, "SELECT count(*) FROM city") == [[2]]


# -- errors and traces


@pytest.mark.parametrize(
    ("text", "at"),
    [("SELECT n,\n  nope FROM sales", (2, 2)), ("SELECT n FROM sales WHERE 'é' = no.n", (1, 32)),
     ("SELECT 1;\nWITH c AS (SELECT 1)\nSELECT nope FROM c, sales", (3, 7))],
)  # fmt: skip
def test_positions_are_those_of_the_text(frames, text, at):
    line, column = at
    shown = frames.fails(f"%%sql\n{text}").out.splitlines()
    caret = next(number for number, text in enumerate(shown) if text.strip() == "^")
    assert shown[caret].index("^") - 2 == column
    assert shown[caret - 1].strip() == text.split("\n")[line - 1].strip()


def test_hints_know_the_columns_of_frames(frames):
    assert "did you mean shop?" in frames.fails("%%sql\nSELECT shoop FROM sales").out
    assert "did you mean total?" in frames.fails("%%sql\nSELECT s.totl FROM sales AS s JOIN city USING (shop)").out
    assert "shop is in both sales and city" in frames.fails("%%sql\nSELECT shop FROM sales, city").out


def test_a_trace_and_an_error_do_not_show_rows(frames):
    frames.names["secret"] = pd.DataFrame({"t": ["verysecret", "verysecrex"], "n": [1, 1]})
    frames("%pipedb wire on")
    cells = [
        frames("%%sql\nSELECT count(*) FROM secret"), frames("%%sql\nSELECT 1; SELECT count(*) FROM secret"),
        frames.fails("%%sql\nINSERT INTO city SELECT t, nope, n FROM secret"),
        frames.fails("%%sql\nSELECT json(t) FROM secret"),
    ]  # fmt: skip
    for cell in cells:
        assert "verysecret" not in f"{cell.out}{cell.err}{cell.shown}"
    assert "rows_of_secret_1_1" in str(cells[0].shown)
    session = frames.ip.magics_manager.registry["PipeMagics"].session
    assert "verysecret" not in str([request.sent for request in session.wire.newest(50)])


def test_a_failed_statement_after_the_rows_were_sent_says_so(frames):
    assert "sales: 3 rows sent" in frames.fails("%%sql\nSELECT nope FROM sales").out


def test_notes_on_sql_know_no_types_of_frames(frames):
    frames("%%sql\nCREATE TABLE sales (day TEXT, n TEXT); DROP TABLE sales")
    cell = frames("%%sql\nSELECT count(*) FROM sales WHERE n = 1 AND day > '2026-07-01'")
    assert column(cell) == [0]
    assert [line for line in cell.lines if line.startswith("Note")] == []


def test_a_grid_shows_a_frame(frames):
    grid = frames("%%sql --grid\nSELECT shop, n, day FROM sales ORDER BY n DESC").value
    assert [[cell.text for cell in row] for row in grid.model.page.rows] == [
        ["a", "3", "2026-07-03"], ["b", "2", "2026-07-02"], ["a", "1", "2026-07-01"]
    ]  # fmt: skip
    assert [column.type for column in grid.model.page.columns] == ["TEXT", "INTEGER", "DATE"]
