"""``%%sql --grid``: the rows of any SELECT in pages, filtered and sorted by the server."""

from __future__ import annotations

import datetime
import json
import math
import signal
import threading

import pandas as pd
import pytest
from ipywidgets.widgets.widget import _instances
from panel_page import PanelPage
from waiting import until

import pipemagic
from pipemagic.client.result import Result
from pipemagic.errors import (
    AnswerTimeout,
    ParameterError,
    SessionError,
    StatementError,
    TransactionLost,
    UnknownOutcome,
    UsageError,
)
from pipemagic.explore import page_query
from pipemagic.notebook.panels.components import CopyText
from pipemagic.notebook.panels.result_grid import ResultGrid

NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {})"
SLOW = f"{NUMBERS.format(2_000_000_000)} SELECT count(*) AS c FROM n"
LATE_ERROR = f"{NUMBERS.format(100)} SELECT i, abs(iif(i < 60, i, -9223372036854775807 - 1)) AS a FROM n"
"""A SELECT with an error in row 60."""

BOTH = pytest.mark.parametrize("server", ["embedded", "sqld"])


def grid_of(db, cell) -> ResultGrid:
    """Return the grid that a cell returns."""
    value = db(cell).value
    assert isinstance(value, ResultGrid)
    return value


def grid(db, select, options="") -> ResultGrid:
    return grid_of(db, f"%%sql --grid {options}\n{select}")


def opened(grid) -> PanelPage:
    """Return the page that shows a grid."""
    grid.mount()
    return PanelPage(grid)


def after(grid, action, *arguments):
    """Call an action of a grid's model, wait for its requests, and return the model."""
    action(*arguments)
    until(lambda: grid.model.reading.wait(0))
    until(lambda: grid.model.counting.wait(0))
    return grid.model


def values(grid):
    """Return the values of the displayed rows."""
    return Result(grid.model.page.result).rows


def texts(grid):
    """Return the texts of the displayed rows."""
    return [[cell.text for cell in row] for row in grid.model.page.rows]


def names(grid):
    return [column.name for column in grid.model.page.columns]


@pytest.fixture
def rerun(db, monkeypatch):
    """Return a function that runs the copied cell of a grid as a cell, and returns its values."""
    session, results = db.ip.magics_manager.registry["PipeMagics"].session, []
    run_cell = session.run_cell

    def recording(*arguments, **options):
        results.append(run_cell(*arguments, **options))
        return results[-1]

    def run(grid, text=None):
        text = text or grid.model.cell
        assert text.startswith("%%sql")
        db(text)
        return Result(results[-1].outcomes[-1].result).rows

    monkeypatch.setattr(session, "run_cell", recording)
    return run


@pytest.fixture
def flights(db):
    """Create a table of 130 rows, with numbers, texts that look like numbers, dates, NULLs and ties."""
    db(
        "%%sql\nCREATE TABLE flights (id INTEGER PRIMARY KEY, origin TEXT, delay REAL, day DATE, tail);\n"
        f"{NUMBERS.format(130)} INSERT INTO flights SELECT i, substr('JFKLGAEWR', (i % 3) * 3 + 1, 3), "
        "iif(i % 10 = 0, NULL, i % 7 * 1.5), date('2024-01-01', (i % 50) || ' days'), "
        "CASE i % 4 WHEN 0 THEN NULL WHEN 1 THEN i WHEN 2 THEN '0' || i ELSE 'x' || i END FROM n"
    )


# -- any SELECT


SELECTS = {
    "SELECT 1": (["1"], [(1,)]),
    "VALUES (1, 'a'), (2, NULL)": (["column1", "column2"], [(1, "a"), (2, None)]),
    "WITH n AS (SELECT 5 AS a) SELECT a FROM n": (["a"], [(5,)]),
    "WITH n AS (VALUES (1), (2)) VALUES ((SELECT sum(column1) FROM n))": (["column1"], [(3,)]),
    "SELECT 1 AS a, 2 AS a, 3 AS A": (["a", "a:1", "A:2"], [(1, 2, 3)]),
    'SELECT 1 AS "", 2 AS "", true': (["", ":1", "column3"], [(1, 2, 1)]),
    "SELECT 1 AS `a``b`, 2 AS [c]": (["a`b", "c"], [(1, 2)]),
    "SELECT 1 AS a UNION SELECT 2 UNION ALL SELECT 2 ORDER BY 1 DESC": (["a"], [(2,), (2,), (1,)]),
    "SELECT id, count(*) FROM flights WHERE id < 3 GROUP BY id ORDER BY id DESC": (
        ["id", "count(*)"], [(2, 1), (1, 1)],
    ),
    "SELECT id FROM flights ORDER BY id DESC LIMIT 2 OFFSET 1": (["id"], [(129,), (128,)]),
    "SELECT f.id, g.id FROM flights f JOIN flights g ON g.id = f.id + 1 WHERE f.id = 1": (["id", "id:1"], [(1, 2)]),
    "SELECT value FROM json_each('[1, 2]')": (["value"], [(1,), (2,)]),
    "SELECT 1 AS a WHERE 0": (["a"], []),
    "SELECT id FROM flights WHERE id = 2 -- the second": (["id"], [(2,)]),
    "/* first */ SELECT id FROM flights WHERE id = 2; -- end": (["id"], [(2,)]),
    "SELECT 'semi;colon' AS a, '-- no comment' AS b": (["a", "b"], [("semi;colon", "-- no comment")]),
    "CREATE TABLE made AS SELECT 1 AS a; INSERT INTO made VALUES (2); SELECT a FROM made": (["a"], [(1,), (2,)]),
}  # fmt: skip


@BOTH
def test_any_select(db, flights, rerun):
    for select, (columns, rows) in SELECTS.items():
        shown = grid(db, select)
        assert (names(shown), values(shown)) == (columns, rows), select
        assert rerun(shown) == rows, select
        assert shown.model.total == len(rows), select


@BOTH
def test_each_column_sorts_and_filters_whatever_its_name(db, flights, rerun):
    for select, (columns, rows) in SELECTS.items():
        db("%sql DROP TABLE IF EXISTS made")
        shown = grid(db, select)
        for place, name in enumerate(columns):
            model = after(shown, shown.model.sort, name)
            assert model.reading.error is None, (select, name)
            assert [row[place] for row in values(shown)] == sorted(
                (row[place] for row in rows), key=lambda value: (value is not None, str(value))
            ), (select, name)
            assert rerun(shown) == values(shown)
            model = after(shown, model.add_filter, name, "is null", "")
            assert model.reading.error is None, (select, name)
            assert model.total == sum(row[place] is None for row in rows), (select, name)
            after(shown, model.remove_filter, model.query.filters[0])


def test_statements_without_rows_to_page_are_refused(db):
    db("%sql CREATE TABLE t (a)")
    for cell in (
        "%%sql --grid\nPRAGMA table_info(t)",
        "%%sql --grid\nEXPLAIN QUERY PLAN SELECT * FROM t",
        "%%sql --grid\nINSERT INTO t VALUES (1) RETURNING a",
        "%%sql --grid\nSELECT 1; INSERT INTO t VALUES (1)",
    ):
        failed = db.fails(cell)
        assert isinstance(failed.error, UsageError)
        assert "--grid requires a SELECT as the last statement" in failed.out
    assert db("%sql SELECT count(*) AS n FROM t").value["n"].tolist() == [0]  # nothing was sent
    assert "did you mean SELECT?" in db.fails("%%sql --grid\nSELEC 1").out


@pytest.mark.parametrize(
    "option", ["-o x", "--limit 5", "--type polars", "--to-csv f.csv", "--to-parquet f.parquet"]
)  # fmt: skip
def test_options_for_the_rows_of_a_frame_conflict(db, option):
    failed = db.fails(f"%%sql --grid {option}\nSELECT 1")
    assert isinstance(failed.error, UsageError)
    assert "--grid shows pages and stores no rows; --" in failed.out
    assert "would have no effect" in failed.out


def test_a_name_comment_conflicts_for_the_last_statement_alone(db):
    failed = db.fails("%%sql --grid\n-- name: x\nSELECT 1")
    assert isinstance(failed.error, UsageError)
    assert "remove the comment `-- name: x`" in failed.out
    shown = grid(db, "-- name: first\nSELECT 7 AS a; SELECT 8 AS b")
    assert db.names["first"]["a"].tolist() == [7]
    assert values(shown) == [(8,)]


def test_a_closed_connection_conflicts(db):
    failed = db.fails("%%sql --grid --close\nCREATE TEMP TABLE t AS SELECT 1 AS a; SELECT a FROM t")
    assert isinstance(failed.error, UsageError)
    assert "--grid reads its pages after the cell and opens the connection again; --close would have" in failed.out


@pytest.mark.parametrize("option", ["--explain", "--dry-run"])
def test_plans_conflict(db, option):
    assert f"{option} runs nothing; --grid would have no effect" in db.fails(f"%%sql --grid {option}\nSELECT 1").out


@BOTH
def test_parameters_names_and_lists(db, flights, rerun):
    db.names.update(low=5, wanted=[1, 2, 3], table="flights", text="it's", many=list(range(1, 2000)))
    db.names["day"] = datetime.datetime(2024, 1, 3)
    for select, count in {
        "SELECT id FROM flights WHERE id < :low": 4,
        "SELECT id FROM {table} WHERE id IN :wanted": 3,
        "SELECT *, id IN :wanted FROM {table} WHERE id IN :wanted AND id < :low": 3,
        "SELECT id FROM flights WHERE id IN :many": 130,
        "SELECT :text AS t": 1,
        "SELECT id FROM flights WHERE day = :day": 3,
    }.items():
        shown = grid(db, select)
        assert shown.model.total == count or after(shown, shown.model.reload).total == count, select
        after(shown, shown.model.sort, names(shown)[-1])
        assert rerun(shown) == values(shown), select
    assert "PARAMETER" in db.fails("%%sql --grid\nSELECT :nope").out


def test_the_values_of_params_jinja_and_functions_reach_each_page(db, flights, rerun):
    db.names["given"] = {"low": 5}
    shown = grid(db, "SELECT id FROM flights WHERE id > :low", "--params given")
    assert shown.model.cell.startswith("%%sql --on db --params given\n")
    after(shown, shown.model.turn, 25)
    assert rerun(shown) == values(shown) == [(number,) for number in range(31, 56)]
    db.names["low"] = -5
    shown = grid(db, "SELECT id, 5-{{ low | bind }} AS d FROM {{ 'flights' | name }} WHERE id < 3", "--jinja")
    assert rerun(shown) == values(shown) == [(1, 10), (2, 10)]
    db("def f():\n    own = \"it's\"\n    return get_ipython().run_line_magic('sql', '--grid SELECT :own AS a')")
    shown = grid_of(db, "f()")
    assert rerun(shown) == values(shown) == [("it's",)]
    db.names["own"] = "another value of the same name"
    shown = grid_of(db, "f()")
    assert rerun(shown) == values(shown) == [("it's",)]
    shown = grid(db, "SELECT {{ low | bind }} + :low AS a", "--jinja --params given")
    assert rerun(shown) == values(shown) == [(10,)]


def test_saved_selects_files_and_connections(db, flights, rerun, tmp_path):
    db("%%sql --save late --quiet\nSELECT id, delay FROM flights WHERE delay > 5")
    shown = grid(db, "SELECT id FROM late WHERE id < 20", "--with late")
    assert rerun(shown) == values(shown) == [(4,), (5,), (6,), (11,), (12,), (13,), (18,), (19,)]
    (tmp_path / "query.sql").write_text("SELECT id FROM flights WHERE id < 3")
    shown = grid_of(db, f"%sql --grid --file {tmp_path / 'query.sql'}")
    assert rerun(shown) == values(shown) == [(1,), (2,)]
    db("%pipedb connect --temporary --as other\n%sql CREATE TABLE only_here AS SELECT 1 AS a\n%pipedb use db")
    shown = grid(db, "SELECT a FROM only_here", "--on other")
    assert shown.model.cell.startswith("%%sql --on other\n")
    assert after(shown, shown.model.sort, "a").reading.error is None
    assert rerun(shown) == values(shown) == [(1,)]


def test_frames_are_sent_with_each_page(db, rerun):
    db.names["sales"] = pd.DataFrame({"n": range(60), "day": pd.Timestamp("2024-01-01")})
    shown = grid(db, "SELECT n, day FROM sales ORDER BY n DESC")
    after(shown, shown.model.turn, 50)
    assert [row[0] for row in values(shown)] == list(range(9, -1, -1))
    assert rerun(shown) == values(shown)
    assert shown.model.total == 60
    model = after(shown, shown.model.add_filter, "day", ">", "2024-01-01")
    assert (model.total, values(shown)) == (0, [])


def test_300_columns_and_long_values(db, rerun):
    shown = grid(db, f"SELECT {', '.join(f'{n} AS c{n}' for n in range(300))}")
    assert len(names(shown)) == page_query.COLUMNS
    assert "The first 200 of 300 columns." in str(shown)
    assert rerun(shown)[0] == tuple(range(300))
    model = after(shown, shown.model.sort, "c299")
    assert model.reading.error is None
    db.names["long"] = "ä" * 5000
    shown = grid(db, "SELECT :long AS t, zeroblob(1000) AS b, 'a\nb' AS c")
    assert texts(shown) == [["ä" * 80 + "…", f"x'{'00' * 16}…' (1,000 bytes)", "a\\nb"]]
    after(shown, shown.model.open_value, 0, 0, lambda: None)
    assert shown.model.full[2].text == "ä" * 5000
    assert "5,000 characters" in shown.model.full[2].size


@BOTH
def test_values_of_every_kind(db, rerun):
    shown = grid(
        db,
        "SELECT 9e999, -9e999, -0.0, 9223372036854775807, -9223372036854775808, x'00ff', CAST(x'ff41' AS TEXT), "
        "'a' || char(0) || 'b', NULL, '', ' a', 'NULL', '7', 0.1, 1e300",
    )
    assert texts(shown) == [[
        "Inf", "-Inf", "-0.0", "9223372036854775807", "-9223372036854775808", "x'00ff' (2 bytes)",
        "x'ff41' (2 bytes of text, not UTF-8)", "a\\u0000b", "NULL", "''", "' a'", "'NULL'", "'7'", "0.1", "1e+300",
    ]]  # fmt: skip
    row = values(shown)[0]
    assert row[:2] == (math.inf, -math.inf)
    assert math.copysign(1, row[2]) == -1
    assert row[3:5] == (2**63 - 1, -(2**63))
    assert row[7:13] == ("a\0b", None, "", " a", "NULL", "7")
    db.names["nan"] = float("nan")
    assert texts(grid(db, "SELECT :nan AS a")) == [["NULL"]]


# -- pages, errors, transactions, connections


@BOTH
def test_pages(db, flights, rerun):
    shown = grid(db, "SELECT id FROM flights ORDER BY id DESC")
    assert after(shown, lambda: None).position == "Rows 1 to 25 of 130"
    page = opened(shown)
    for button, position, first in (
        ("Next", "Rows 26 to 50 of 130", 105), ("Last", "Rows 126 to 130 of 130", 5),
        ("Previous", "Rows 101 to 125 of 130", 30), ("First", "Rows 1 to 25 of 130", 130),
    ):  # fmt: skip
        page.click(button)
        page.wait(position)
        assert values(shown)[0] == (first,)
        assert rerun(shown) == values(shown)
    page.choose("Rows per page", 100)
    page.wait("Rows 1 to 100 of 130")
    assert page.rows("Rows of the result")[99] == ["31"]


@BOTH
def test_errors_of_the_first_page_are_those_of_a_cell(db, flights):
    cell = "%%sql{}\nSELECT id,\n nope FROM flights"
    assert db.fails(cell.format(" --grid")).out == db.fails(cell.format("")).out
    for select in (
        "SELECT * FROM nope",
        "SELECT abs(-9223372036854775807 - 1)",
        "SELECT json('{')",
        "SELECT 1) UNION SELECT (2",
    ):
        failed = db.fails(f"%%sql --grid\n{select}")
        assert isinstance(failed.error, StatementError)
        assert failed.out == db.fails(f"%%sql\n{select}").out
    failed = db.fails("%%sql --grid\nDELETE FROM flights WHERE id > 100; SELECT json('{')")
    assert "malformed JSON\nThe statements before the last one ran." in failed.out
    assert db("%sql SELECT count(*) AS n FROM flights").value["n"].tolist() == [100]


def test_a_select_that_ends_too_early_has_the_error_of_a_cell(db, flights):
    for select in ("SELECT 1 +", "SELECT id FROM flights WHERE", "SELECT 1; SELECT id,"):
        assert db.fails(f"%%sql --grid\n{select}").out == db.fails(f"%%sql\n{select}").out


@BOTH
def test_an_error_of_the_first_page_undoes_an_atomic_cell(db, flights):
    failed = db.fails("%%sql --grid --atomic\nDELETE FROM flights WHERE id > 100; SELECT json('{')")
    assert "nothing was changed; statement 2 of 2 failed here" in failed.out
    assert db("%sql SELECT count(*) AS n FROM flights").value["n"].tolist() == [130]
    shown = grid(db, "DELETE FROM flights WHERE id > 100; SELECT id FROM flights", "--atomic")
    assert after(shown, lambda: None).total == 100


def test_errors_of_later_pages_are_shown_and_the_page_stays(db):
    shown = grid(db, LATE_ERROR)
    page = opened(shown)
    page.click("Next")
    page.wait("Rows 26 to 50")
    page.click("Next")
    page.wait("integer overflow")
    assert page.rows("Rows of the result")[0] == ["26", "26"]
    assert "Rows 26 to 50 of 100" in page.words
    page.click("Previous")
    page.wait("Rows 1 to 25")
    assert not page.alerts


def test_a_table_that_was_dropped(db, flights):
    shown = grid(db, "SELECT id, origin FROM flights")
    page = opened(shown)
    db("%sql ALTER TABLE flights RENAME COLUMN origin TO airport")
    page.click("Next")
    page.wait("no such column: origin")
    db("%sql DROP TABLE flights")
    page.click("Refresh")
    page.wait("no such table: flights")
    assert page.rows("Rows of the result")[0] == ["1", "LGA"]
    db("%sql CREATE TABLE flights AS SELECT 5 AS id, 'x' AS origin")
    page.click("Refresh")
    page.wait("Rows 1 to 1 of 1")
    assert page.rows("Rows of the result") == [["5", "x"]]


@BOTH
def test_a_transaction_is_seen_while_it_is_open(db, flights):
    shown = grid(db, "BEGIN; INSERT INTO flights(id) VALUES (1000); SELECT id FROM flights ORDER BY id DESC")
    assert values(shown)[0] == (1000,)
    assert after(shown, shown.model.turn, 25).position == "Rows 26 to 50 of more than 50"  # not counted: it may be slow
    assert after(shown, shown.model.turn, 125).position == "Rows 126 to 131 of 131"
    model = after(shown, shown.model.add_filter, "id", ">", "900")
    assert values(shown) == [(1000,)]
    db("%sql ROLLBACK")
    model = after(shown, model.reload)
    assert (values(shown), model.total) == ([], 0)
    db("%%sql\nINSERT INTO flights(id) VALUES (2000)")
    assert after(shown, model.reload).position == "Rows 1 to 1 of 1"


def test_a_slow_count_leaves_the_transaction_open(db):
    db("%%sql\nBEGIN; CREATE TABLE t AS SELECT 1 AS a")
    shown = grid(db, f"{NUMBERS.format(2_000_000_000)} SELECT i FROM n")
    assert after(shown, lambda: None).position == "Rows 1 to 25 of more than 25"
    assert db("%sql COMMIT").lines == ["Done."]
    assert db("%sql SELECT a FROM t").value["a"].tolist() == [1]


def test_temporary_tables_are_seen(db, rerun):
    shown = grid(db, f"CREATE TEMP TABLE own AS {NUMBERS.format(30)} SELECT i FROM n; SELECT i FROM own")
    after(shown, shown.model.turn, 25)
    assert rerun(shown) == values(shown) == [(number,) for number in range(26, 31)]
    model = after(shown, shown.model.start_profile)
    until(lambda: model.profiling.wait(0))
    assert model.profiles["i"].rows == 30
    db.ip.magics_manager.registry["PipeMagics"].session.connection().close()
    assert "no such table: own" in str(after(shown, shown.model.reload).reading.error)
    assert values(shown)[0] == (26,)


def test_the_time_limit_of_a_cell_holds_for_its_first_page(db):
    failed = db.fails(f"%%sql --grid --timeout 0.2\n{SLOW}")
    assert isinstance(failed.error, AnswerTimeout)
    db("%sql BEGIN")
    failed = db.fails(f"%%sql --grid --timeout 0.2\n{SLOW}")
    assert isinstance(failed.error, UnknownOutcome | TransactionLost)
    assert "rolled back" in failed.out
    db("%sql ROLLBACK")
    assert values(grid(db, "SELECT 1", "--timeout 30")) == [(1,)]


def test_a_closed_stream_and_a_new_connection(db, flights):
    shown = grid(db, "SELECT id FROM flights")
    db.ip.magics_manager.registry["PipeMagics"].session.connection().close()
    assert after(shown, shown.model.turn, 25).reading.error is None
    assert values(shown)[0] == (26,)
    db("%pipedb connect --temporary")  # another connection is current; the grid keeps its own
    assert after(shown, shown.model.turn, 50).reading.error is None
    assert values(shown)[0] == (51,)
    db("%pipedb use db\n%pipedb close")
    for line in ("", "%pipedb connect --temporary --as db"):  # the name may be that of another database
        db(line)
        error = after(shown, shown.model.turn, 25).reading.error
        assert (error.message, error.hint) == ("the connection db was closed", "connect, and run the cell again")
    assert values(shown)[0] == (51,)


def test_copied_cells_run_on_the_connection_of_the_grid(db, flights, rerun):
    shown = grid(db, "SELECT id FROM flights WHERE id > :low", "--params '{\"low\": 120}'")
    model = after(shown, shown.model.start_profile)
    until(lambda: model.profiling.wait(0))
    model.export("variable", "late", replaces=False, done=lambda: None)
    until(lambda: model.exporting.wait(0))
    db("%pipedb connect --temporary --as other\n%sql CREATE TABLE flights AS SELECT 5 AS id")
    assert rerun(shown) == values(shown) == [(number,) for number in range(121, 131)]
    assert rerun(shown, model.profile_cell)[0][:2] == ("counts", 10)
    assert rerun(shown, model.exporting.line) == values(shown)
    assert db.names["late"]["id"].tolist() == list(range(121, 131))


@BOTH
def test_a_first_page_without_a_response_changed_nothing(db):
    failed = db.fails(f"%%sql --grid --timeout 0.2\n{SLOW}")
    assert (failed.error.code, "did not respond in time. Nothing was changed." in failed.out) == ("TIMEOUT", True)
    interrupting = threading.Timer(0.5, signal.pthread_kill, (threading.get_ident(), signal.SIGINT))
    interrupting.start()
    failed = db.fails(f"%%sql --grid\n{SLOW}")
    interrupting.join()
    assert failed.out.splitlines()[-2:] == [
        "INTERRUPTED: interrupted while a request was pending", "The cell only reads: nothing was changed.",
    ]  # fmt: skip


def test_the_static_form_does_not_say_what_is_running(db):
    shown = grid(db, f"{NUMBERS.format(2_000_000_000)} SELECT i FROM n")
    page = opened(shown)
    assert shown.model.counting.busy
    page.wait("Rows 1 to 25 of more than 25; counting ...")
    assert shown.to_text().endswith("Rows 1 to 25 of more than 25")
    shown.close()


@BOTH
def test_read_only_connections(db, flights, request, service, server, monkeypatch):
    if server == "sqld":
        made = request.getfixturevalue("sqld_database")
        url, token = made.url, made.mint(a="ro")
    else:
        from pipemagic.management_api.client import Management

        with Management(service.url, service.platform_token(), organization=service.organization) as api:
            url = pipemagic.current().address
            made = next(made for made in api.databases() if made.url == url)
            token = str(api.create_token(made.name, read_only=True))
    monkeypatch.setenv("READ_TOKEN", token)
    db(f"%pipedb connect {url} --as reader --token-env READ_TOKEN")
    assert "read" in db.fails("%sql DELETE FROM flights WHERE id = 1").out.lower()
    shown = grid(db, "SELECT id FROM flights")
    model = after(shown, shown.model.add_filter, "id", ">", "100")
    assert (model.total, values(shown)[0]) == (30, (101,))


# -- display = "grid"


def test_the_setting_shows_cells_that_only_read_as_grids(db, flights):
    db('%config PipeMagic.display = "grid"')
    assert values(grid_of(db, "%%sql\nSELECT id FROM flights WHERE id = 3")) == [(3,)]
    assert values(grid_of(db, "%%sql\nSELECT 1; SELECT 2")) == [(2,)]
    frames = [
        "%sql SELECT 1 AS a", "%%sql --limit 1\nSELECT 1 AS a", "%%sql --type pandas\nSELECT 1 AS a",
        "%%sql\nINSERT INTO flights(id) VALUES (999) RETURNING id", "%%sql\nPRAGMA table_info(flights)",
        "%%sql\n-- name: kept\nSELECT 1 AS a", "%%sql --close\nSELECT 1 AS a",
    ]  # fmt: skip
    for cell in frames:
        assert isinstance(db(cell).value, pd.DataFrame), cell
    assert db("%%sql -o x\nSELECT 1 AS a").value is None
    assert db.names["x"]["a"].tolist() == db.names["kept"]["a"].tolist() == [1]
    assert db("%%sql\nDELETE FROM flights WHERE id = 999").value is None
    assert db("y = %sql SELECT 2 AS a").error is None
    assert db.names["y"]["a"].tolist() == [2]
    assert type(db("%%sql --explain\nSELECT 1").value).__name__ == "QueryPlan"
    db('%config PipeMagic.display = "frame"')
    assert isinstance(db("%%sql\nSELECT 1 AS a").value, pd.DataFrame)


def test_the_form_of_a_grid_in_text_and_html(db, flights):
    cell = db("%%sql --grid\nSELECT id, origin, delay FROM flights WHERE id < 3")
    assert cell.lines[:5] == [] or cell.out.splitlines()[1:5] == [
        "  #  id  origin  delay", "  1   1  LGA       1.5", "  2   2  EWR       3.0", "Rows 1 to 2 of 2",
    ]  # fmt: skip
    db.names["bad"] = "<script>alert(1)</script>"
    shown = grid(db, "SELECT :bad AS `<b>`")
    assert "<script>" not in shown.to_html()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown.to_html()
    assert "&lt;b&gt;" in shown.to_html()


# -- the copied SQL


OPERATIONS = [
    ("id", "=", "7"), ("id", "<>", "7"), ("id", "<", "20"), ("id", "<=", "20"), ("id", ">", "100"),
    ("id", ">=", "100.5"), ("origin", "=", "JFK"), ("origin", "contains", "f"), ("origin", "starts with", "l"),
    ("delay", "is null", ""), ("delay", "is not null", ""), ("delay", "=", "1.5"), ("day", "=", "2024-01-05"),
    ("day", ">", "2024-02-10"), ("day", "<=", "2024-01-05"), ("tail", "=", "5"), ("tail", "=", "'02'"),
    ("tail", "starts with", "0"), ("tail", "contains", "%"), ("tail", "is null", ""), ("tail", ">", "'x'"),
    ("twice", ">", "250"), ("code", "=", "003"), ("code", "<>", "003"), ("upper", "=", "jfk"),
]  # fmt: skip
"""Filters of each operator, on columns of tables and on expressions."""

WITH_EXPRESSIONS = (
    "SELECT id, origin, delay, day, tail, id * 2 AS twice, printf('%03d', id) AS code, lower(origin) AS upper\n"
    "FROM flights ORDER BY delay DESC, id"
)


@BOTH
def test_the_copied_cell_returns_the_displayed_rows(db, flights, rerun):
    shown = grid(db, WITH_EXPRESSIONS)
    model, all_rows = shown.model, rerun(shown, f"%%sql\n{WITH_EXPRESSIONS}")
    for column, operator, value in OPERATIONS:
        after(shown, model.add_filter, column, operator, value)
        assert model.reading.error is None, model.reading.error
        assert rerun(shown) == values(shown), (column, operator, value)
        assert model.total is not None
        if operator in ("=", "is null"):
            opposite = {"=": "<>", "is null": "is not null"}[operator]
            matching, (used,) = model.total, model.query.filters
            after(shown, model.remove_filter, used)
            after(shown, model.add_filter, column, opposite, value)
            place = names(shown).index(column)
            nulls = sum(row[place] is None for row in all_rows) if operator == "=" else 0
            assert matching + model.total + nulls == len(all_rows), (column, operator, value)
        after(shown, model.remove_filter, model.query.filters[0])
    for name in names(shown):
        for _ in range(2):
            after(shown, model.sort, name)
            after(shown, model.turn, 50)
            assert rerun(shown) == values(shown), model.cell
        after(shown, model.sort, name)
    after(shown, model.set_condition, "delay > 2 -- late\nAND twice < 100")
    after(shown, model.add_filter, "origin", "<>", "EWR")
    after(shown, model.sort, "code")
    assert model.total == sum(bool(row[2] and row[2] > 2 and row[5] < 100 and row[1] != "EWR") for row in all_rows)
    assert rerun(shown) == values(shown)


def test_the_copied_profile_runs(db, flights, rerun):
    shown = grid(db, WITH_EXPRESSIONS)
    after(shown, shown.model.add_filter, "origin", "=", "JFK")
    shown.model.start_profile(["delay", "code"])
    until(lambda: shown.model.profiling.wait(0))
    rows = rerun(shown, shown.model.profile_cell)
    assert rows[0][:4] == ("counts", 43, 0, 43)
    assert shown.model.profiles["code"].rows == 43
    assert shown.model.profiles["delay"].nulls == 4


def test_what_a_typed_value_means_for_an_expression(db):
    db("%%sql\nCREATE TABLE zips (z TEXT); INSERT INTO zips VALUES ('08001'), ('10001'), ('x'), (NULL)")
    shown = grid(db, "SELECT trim(z) AS zip, CAST(z AS TEXT) AS cast_zip, length(z) AS size FROM zips")
    for column, typed, count in (
        ("zip", "08001", 1), ("zip", "'08001'", 1), ("zip", "8001", 0), ("cast_zip", "08001", 1), ("zip", "x", 1),
        ("size", "5", 2), ("size", "5.0", 2), ("zip", " 08001", 0),
    ):  # fmt: skip
        model = after(shown, shown.model.add_filter, column, "=", typed)
        assert model.total == count, (column, typed)
        after(shown, model.remove_filter, model.query.filters[0])


def test_true_and_false_are_numbers_unless_the_column_has_texts(db):
    db("%%sql\nCREATE TABLE b (paid BOOLEAN, word TEXT); INSERT INTO b VALUES (1, 'true'), (0, 'x'), (NULL, 'True')")
    shown = grid(db, "SELECT paid, word, paid > 0 AS p FROM b")
    for column, operator, typed, count in (
        ("paid", "=", "true", 1), ("paid", "<>", "FALSE", 1), ("p", "=", "false", 1), ("word", "=", "true", 1),
    ):  # fmt: skip
        model = after(shown, shown.model.add_filter, column, operator, typed)
        assert model.total == count, (column, operator, typed)
        after(shown, model.remove_filter, model.query.filters[0])


def test_a_long_cell_is_copied_but_not_shown(db, rerun):
    shown = grid(db, f"SELECT {', '.join(f'{number} AS c{number}' for number in range(300))}")
    page = opened(shown)
    (copied,) = [widget for widget in page.widgets if isinstance(widget, CopyText) and widget.text]
    assert (copied.button, rerun(shown, copied.text)) == ("Copy the SQL", [tuple(range(300))])


def test_the_state_of_the_widgets_has_no_values(db):
    db("secret = 'value-of-a-parameter'")
    db("%%sql\nCREATE TABLE words (w); INSERT INTO words VALUES ('value-of-a-row')")
    shown = grid(db, "SELECT w, {{ secret | bind }} AS s FROM words", "--jinja")
    page = opened(shown)
    assert "value-of-a-parameter" in shown.model.cell
    states = [json.dumps(widget.get_state(), default=str) for widget in page.widgets]
    assert [state for state in states if "value-of-a" in state] == []


def test_a_condition_has_the_errors_and_notes_of_a_cell(db, flights):
    shown = grid(db, "SELECT id, origin FROM flights")
    page = opened(shown)
    page.type("Condition in SQL", "orign = 'JFK'")
    page.click("Apply")
    page.wait("no such column: orign")
    with pytest.raises(ParameterError, match="without ;"):
        shown.model.set_condition("1; DROP TABLE flights")
    page.type("Condition in SQL", "1) UNION SELECT (2")
    page.click("Apply")
    page.wait("unmatched closing parenthesis")
    page.type("Condition in SQL", "origin = NULL")
    page.click("Apply")
    page.wait("No rows match the filters.")
    assert "IS NULL" in page.words


def test_notes_on_a_condition_know_all_tables(db):
    db("%%sql\nCREATE TABLE a (i, day DATE); CREATE TABLE b (i, day DATE); INSERT INTO a VALUES (1, '2024-01-02')")
    shown = grid(db, "SELECT * FROM a")
    for where in ("day = '01/02/2024'", "i IN (SELECT i FROM b WHERE day = '01/02/2024')"):
        model = after(shown, shown.model.set_condition, where)
        assert "'01/02/2024' is not in SQLite's date format" in model.notes[0], where


def test_a_column_without_a_name_is_profiled(db):
    shown = grid(db, 'SELECT 5 AS ""')
    model = after(shown, shown.model.start_profile)
    until(lambda: model.profiling.wait(0))
    assert model.profiles[""].minimum == 5


# -- export


def test_all_rows_are_exported_to_a_variable_or_a_file(db, flights, tmp_path):
    shown = grid(db, "SELECT id, origin FROM flights")
    page = opened(shown)
    after(shown, shown.model.add_filter, "origin", "=", "JFK")
    after(shown, shown.model.sort, "id")
    after(shown, shown.model.sort, "id")
    page.click("Export ...")
    page.type("Variable or file", "jfk")
    page.click("Export")
    page.wait("jfk is a DataFrame of 43 rows.")
    assert db("jfk['id'].tolist()").value == list(range(129, 0, -3))
    page.click("Export ...")
    page.type("Variable or file", "jfk")
    page.click("Export")
    page.wait("the variable jfk already exists")
    with pytest.raises(SessionError, match="not a valid variable name"):
        shown.model.export("variable", "1x", replaces=False, done=lambda: None)
    page.choose("To", "csv")
    page.type("Variable or file", str(tmp_path / "jfk.csv"))
    page.click("Export")
    page.wait("Wrote 43 rows")
    assert pd.read_csv(tmp_path / "jfk.csv")["id"].tolist() == list(range(129, 0, -3))


def test_an_exported_frame_has_the_types_of_the_cell(db):
    moments = pd.to_datetime(["2024-01-02", None])
    db.names["sales"] = pd.DataFrame(
        {"day": moments, "paid": pd.array([True, None], "boolean"), "zip": ["08001", None]}
    )
    shown = grid(db, "SELECT * FROM sales")
    shown.model.export("variable", "exported", replaces=False, done=lambda: None)
    until(lambda: shown.model.exporting.wait(0))
    pd.testing.assert_frame_equal(db.names["exported"], db("%sql SELECT * FROM sales").value)
    db("%sql CREATE TABLE wider AS SELECT 1 AS a")
    shown = grid(db, "SELECT * FROM wider")
    db("%sql ALTER TABLE wider ADD COLUMN b")
    shown.model.export("variable", "exported", replaces=True, done=lambda: None)
    until(lambda: shown.model.exporting.wait(0))
    assert db.names["exported"].columns.tolist() == ["a", "b"]


def test_a_large_result_is_one_page_in_the_widgets(db):
    shown = grid(db, f"{NUMBERS.format(1_000_000)} SELECT i, 'row ' || i AS name FROM n")
    page = opened(shown)
    assert len(page.rows("Rows of the result")) == 25
    small = grid(db, f"{NUMBERS.format(26)} SELECT i, 'row ' || i AS name FROM n")
    held = len(page.held)
    assert abs(held - len(opened(small).held)) < 500


def test_a_cell_that_runs_again_closes_its_grid(db, monkeypatch):
    request = {"metadata": {}, "header": {"msg_id": ""}}  # what JupyterLab sends to run a cell
    monkeypatch.setattr(db.ip, "get_parent", lambda: request, raising=False)

    def run(cell_id, cell="%%sql --grid\nSELECT 1 AS a"):
        request.update(metadata={"cellId": cell_id}, header={"msg_id": request["header"]["msg_id"] + "."})
        return db(cell).value

    other = run("other")
    other.mount()
    run("cell").mount()
    count = len(_instances)
    for _ in range(50):
        last = run("cell")
        last.mount()
    assert len(_instances) == count
    assert last.comm is not None
    assert other.comm is not None
    two = run("cell", "x = %sql --grid SELECT 1\ny = %sql --grid SELECT 2\n(x, y)")
    assert last.comm is None
    assert all(grid.comm is not None for grid in two)
    run("cell", "%sql SELECT 1")
    assert all(grid.comm is None for grid in two)
    before = set(_instances)
    plain = grid(db, "SELECT 1")
    plain.mount()
    plain.close()
    assert set(_instances) <= before
