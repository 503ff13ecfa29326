"""Results of a cell: the statement summary, variables, table types, files, limits, timeouts."""

from __future__ import annotations

import pytest

from pipemagic.errors import AnswerTimeout, SessionError, StatementError, UsageError


def summary(cell) -> list[str]:
    """Return the lines of the statement summary, which a cell shows first."""
    return [line.rstrip() for line in cell.shown[0]["text/plain"].splitlines()]


def test_the_summary_lists_each_statement_with_its_outcome(db):
    cell = db(
        "%%sql\nCREATE TABLE t (a, b);\nINSERT INTO t VALUES (1, 2), (3, 4);\n"
        "UPDATE t SET b = 0 WHERE a = 1;\nINSERT INTO t VALUES (5, 6) RETURNING a;\nSELECT a\nFROM t -- all\n;"
    )
    assert summary(cell) == [
        "1  CREATE TABLE t (a, b)                    done",
        "2  INSERT INTO t VALUES (1, 2), (3, 4)      2 rows affected",
        "3  UPDATE t SET b = 0 WHERE a = 1           1 row affected",
        "4  INSERT INTO t VALUES (5, 6) RETURNING a  1 row, 1 affected",
        "5  SELECT a FROM t                          3 rows",
    ]
    assert cell.value["a"].tolist() == [1, 3, 5]
    assert cell.lines == []
    assert db("%sql SELECT 1").shown == []


def test_out_takes_one_name_for_each_result(db):
    cell = db("%%sql -o a,_,c\nSELECT 1 AS x;\nSELECT 2 AS x;\nCREATE TABLE t (a);\nSELECT 3 AS x")
    assert [db.names[name]["x"].tolist() for name in ("a", "c")] == [[1], [3]]
    assert cell.value is None
    assert [bundle["text/plain"].split()[-1] for bundle in cell.shown[1:]] == ["2"]  # _ shows the second


def test_a_wrong_number_of_names_is_an_error_before_anything_runs(db):
    db("%sql CREATE TABLE t (a)")
    failed = db.fails("%%sql -o a,b\nINSERT INTO t VALUES (1);\nSELECT 1")
    assert isinstance(failed.error, SessionError)
    assert "1 statement of the cell returns columns, not 2; nothing was run" in failed.out
    assert (
        "0 statements of the cell return columns, not 2"
        in db.fails("%%sql -o a,b\nDROP TABLE t; CREATE TABLE t (a)").out
    )
    assert db("%sql SELECT count(*) AS n FROM t").value["n"].tolist() == [0]


def test_a_wrong_number_of_names_is_an_error_after_the_cell_if_only_the_server_knows(db):
    failed = db.fails("%%sql -o a,b\nPRAGMA foreign_keys = ON;\nSELECT 1")
    assert "1 statement of the cell returns columns, not 2; the cell ran, and nothing was stored" in failed.out
    assert "a" not in db.names


NO_NAMES = [("a,", "empty item"), ("a,1b", "'1b'"), ("a,class", "'class'"), ("a,a", "duplicate name 'a'")]


def test_out_refuses_invalid_names(db):
    for out, message in NO_NAMES:
        failed = db.fails(f"%%sql -o {out}\nSELECT 1; SELECT 2")
        assert isinstance(failed.error, UsageError)
        assert message in failed.out


def test_a_name_comment_stores_the_result_of_the_next_statement(db):
    cell = db(
        "%%sql\n-- name: first\nSELECT 1 AS x;\n/* on */ -- other\n-- name: größe\n\nSELECT 2 AS x;\n"
        "-- name: nothing\nCREATE TABLE t (a);\nSELECT 3 AS x"
    )
    assert db.names["first"]["x"].tolist() == [1]
    assert db.names["größe"]["x"].tolist() == [2]
    assert db.names["nothing"] is None
    assert summary(cell)[0] == "1  first    SELECT 1 AS x       1 row"
    assert len(cell.shown) == 1  # stored results are not shown
    assert cell.lines == ["nothing is None: its statement returned no columns.", "Stored in first and größe."]
    assert cell.value["x"].tolist() == [3]
    assert db("%%sql --quiet\n-- name: first\nSELECT 4 AS x").lines == []
    assert db.names["first"]["x"].tolist() == [4]


COMMENTS = [
    "-- name: get_x :one\nSELECT 1 AS x",
    "-- name: x! \nSELECT 1 AS x",
    "-- name: for\nSELECT 1 AS x",
    "-- name: x; import os\nSELECT 1 AS x",
    "-- Name: x\nSELECT 1 AS x",
    "-- file name: x\nSELECT 1 AS x",
    "--\n-- Name: x; Type: TABLE; Schema: public; Owner: me\n--\nSELECT 1 AS x",
    "/* -- name: x */\nSELECT 1 AS x",
    "/* on */ -- name: x\nSELECT 1 AS x",
    "SELECT 0 AS y; -- name: x\nSELECT 1 AS x",
    "SELECT 1 AS x; -- name: x",
    "SELECT 1 AS x;\n-- name: x",
    "-- name: x\n;SELECT 1 AS x",
]


@pytest.mark.parametrize("text", COMMENTS)
def test_other_comments_neither_stop_a_cell_nor_bind_a_variable(db, text):
    db("x = 'as it was'")
    cell = db(f"%%sql\n{text}")
    assert cell.value["x"].tolist() == [1]
    assert cell.lines == []
    assert db.names["x"] == "as it was"


def test_the_name_directly_before_a_statement_counts_and_the_last_statement_of_a_name(db):
    db("first = 'as it was'")
    assert db("%%sql\n-- name: first\n-- name: second\nSELECT 1 AS x").lines == ["Stored in second."]
    assert db.names["first"] == "as it was"
    cell = db("%%sql\n-- name: second\nSELECT 2 AS x;\n--name:second\t\nSELECT 3 AS x")
    assert summary(cell) == ["1          SELECT 2 AS x  1 row", "2  second  SELECT 3 AS x  1 row"]
    assert cell.shown[1]["text/plain"].split() == ["x", "0", "2"]  # not lost
    assert db.names["second"]["x"].tolist() == [3]


RESERVED = {
    "pandas": "pandas is a module", "make": "make is a function", "Shop": "Shop is a class", "id": "id is a function",
    "print": "print is a function", "ValueError": "ValueError is a class", "partial": "partial is a class",
    "In": "In is a variable of IPython", "_1": "_1 is a variable of IPython", "_oh": "_oh is a variable of IPython",
    "__name__": "__name__ is a variable of IPython", "get_ipython": "get_ipython is a function",
    "exit": "exit is a function",
}  # fmt: skip


def test_a_comment_never_replaces_a_module_a_function_or_a_class(db):
    db("import pandas\nfrom functools import partial\ndef make(): pass\nclass Shop: pass")
    before = {name: db.names.get(name) for name in RESERVED}
    text = ";\n".join(f"-- name: {name}\nSELECT 1 AS x" for name in RESERVED)
    cell = db(f"%%sql\n{text}")
    assert cell.lines[: len(RESERVED)] == [
        f"`-- name: {name}` stores nothing, because {reason}; use another name." for name, reason in RESERVED.items()
    ]
    unchanged = RESERVED.keys() - {"_1", "_oh"}  # IPython itself fills these
    assert {name: db.names.get(name) for name in unchanged} == {name: before[name] for name in unchanged}
    assert db(f"%%sql --quiet\n{text}").lines == []


def test_a_variable_with_data_is_replaced_also_under_the_name_of_a_builtin(db):
    db("late, sum = 3, [1, 2]")
    assert db("%%sql\n-- name: late\nSELECT 1 AS x;\n-- name: sum\nSELECT 2 AS x").lines == ["Stored in late and sum."]
    assert db.names["sum"]["x"].tolist() == [2]


def test_name_comments_in_a_file_and_with_saved_selects(db, tmp_path):
    (tmp_path / "q.sql").write_text("-- name: one\nSELECT 1 AS x;\n-- name: two\nSELECT 2 AS x", "utf-8")
    db(f"%sql --file {tmp_path}/q.sql")
    assert [db.names[name]["x"].tolist() for name in ("one", "two")] == [[1], [2]]
    db("%%sql --save base\nSELECT 7 AS x UNION SELECT 8")
    three = "-- name: three\nSELECT x FROM base ORDER BY x"
    cell = db(f"%%sql --with base --limit 1\n{three};\nSELECT count(*) AS n FROM base")
    assert db.names["three"]["x"].tolist() == [7]
    assert summary(cell)[0].endswith("first 1 row; there are more")
    assert cell.value["n"].tolist() == [2]


def test_a_name_comment_inside_a_statement_or_a_string_has_no_effect(db):
    db("%%sql\nSELECT 1 AS x\n-- name: inside\n, '-- name: text' AS y; SELECT 2")
    assert "inside" not in db.names


def test_a_cell_that_fails_shows_the_summary_and_stores_named_results(db):
    db("later = 'as it was'")
    failed = db.fails(
        "%%sql\nCREATE TABLE t (a);\n-- name: early\nSELECT 1 AS x;\nSELECT nope FROM t;\n-- name: later\nSELECT 3 AS x"
    )
    assert isinstance(failed.error, StatementError)
    assert summary(failed) == [
        "1         CREATE TABLE t (a)  done",
        "2  early  SELECT 1 AS x       1 row",
        "3         SELECT nope FROM t  failed: no such column: nope",
        "4         SELECT 3 AS x       not run",
    ]
    assert db.names["early"]["x"].tolist() == [1]
    assert db.names["later"] == "as it was"
    assert "no such column: nope" in failed.out


def test_results_that_a_failed_cell_undid_are_marked_and_not_stored(db):
    db("%sql CREATE TABLE t (a)")
    failed = db.fails(
        "%%sql\n-- name: kept\nSELECT 1 AS x;\nBEGIN;\nINSERT INTO t VALUES (1);\n"
        "-- name: gone\nSELECT a FROM t;\nSELECT nope;\nCOMMIT"
    )
    assert [line.split("  ")[-1].strip() for line in summary(failed)] == [
        "1 row", "undone", "1 row affected, undone", "1 row, undone", "failed: no such column: nope", "not run",
    ]  # fmt: skip
    assert "kept" in db.names
    assert "gone" not in db.names


def test_a_failed_atomic_cell_marks_all_statements_as_undone(db):
    failed = db.fails("%%sql --atomic\n-- name: gone\nSELECT 1 AS x;\nCREATE TABLE t (a);\nSELECT nope")
    assert [line.split("  ")[-1].strip() for line in summary(failed)] == [
        "1 row, undone", "undone", "failed: no such column: nope",
    ]  # fmt: skip
    assert "gone" not in db.names


def test_a_failed_cell_keeps_its_results_in_the_transaction_of_an_earlier_cell(db):
    db("%%sql\nCREATE TABLE t (a);\nBEGIN")
    failed = db.fails("%%sql\nINSERT INTO t VALUES (1);\n-- name: seen\nSELECT a FROM t;\nSELECT nope")
    assert not any("undone" in line for line in summary(failed))
    assert db.names["seen"]["a"].tolist() == [1]
    db("%sql ROLLBACK")


def test_times_are_shown_only_with_the_option_time(db):
    cell = db("%%sql --time\nCREATE TABLE t (a);\nSELECT 1")
    assert all(line.endswith(" ms") for line in summary(cell))
    (line,) = cell.lines
    assert line.startswith("Time: ")
    assert line.endswith(" ms on the server.")
    assert db("%sql --time SELECT 1").lines[0].startswith("Time: ")
    assert " ms" not in str(db("%%sql\nSELECT 1;\nSELECT 2").shown)


def test_quiet_shows_no_summary(db):
    assert db("%%sql --quiet\nSELECT 1;\nSELECT 2").shown == []
    assert db.fails("%%sql --quiet\nSELECT 1;\nSELECT nope").shown == []


def test_results_as_polars_and_arrow(db):
    import polars as pl
    import pyarrow as pa

    db("%%sql\nCREATE TABLE t (a INTEGER, b BOOLEAN, c DATETIME);\nINSERT INTO t VALUES (1, 1, '2024-01-31 10:30')")
    cell = db("%%sql --type polars -o p,q\nSELECT * FROM t;\nSELECT a FROM t WHERE false")
    assert cell.value is None
    assert db.names["p"].schema == {"a": pl.Int64(), "b": pl.Boolean(), "c": pl.Datetime("us")}
    assert db.names["q"].schema == {"a": pl.Int64()}
    table = db("%sql --type arrow SELECT * FROM t").value
    assert isinstance(table, pa.Table)
    assert table.schema.types == [pa.int64(), pa.bool_(), pa.timestamp("us")]
    db("%config PipeMagic.type = 'arrow'")
    assert isinstance(db("%sql SELECT 1").value, pa.Table)
    assert db("%sql --type pandas SELECT 1 AS a").value["a"].tolist() == [1]
    db("%config PipeMagic.type = 'pandas'")


def test_a_missing_package_is_an_error_before_anything_runs(db, monkeypatch):
    db("%sql CREATE TABLE t (a)")
    monkeypatch.setattr("pipemagic.frames.arrow_polars.find_spec", lambda name: None)
    failed = db.fails("%%sql --type polars\nINSERT INTO t VALUES (1) RETURNING a")
    assert "polars is not installed\nHint: %pip install polars" in failed.out
    assert "pyarrow is not installed" in db.fails("%sql --to-parquet x.parquet INSERT INTO t VALUES (1)").out
    monkeypatch.undo()
    assert db("%sql SELECT count(*) AS n FROM t").value["n"].tolist() == [0]


def test_results_are_written_to_files(db, tmp_path, monkeypatch):
    import pandas as pd

    monkeypatch.chdir(tmp_path)
    query = "SELECT 0;\nSELECT 1 AS a, 'x,y' AS b UNION SELECT NULL, '2'"
    cell = db(f'%%sql --to-csv "o ut.csv" --to-parquet out.parquet\n{query}')
    assert cell.value is None
    assert cell.lines[-2:] == ["Wrote 2 rows to o ut.csv.", "Wrote 2 rows to out.parquet."]
    assert (tmp_path / "o ut.csv").read_text() == 'a,b\n,2\n1,"x,y"\n'
    assert pd.read_parquet("out.parquet")["b"].tolist() == ["2", "x,y"]
    assert db("%sql --to-csv a.csv -o kept SELECT 1 AS a").lines == ["Wrote 1 row to a.csv."]
    assert db.names["kept"]["a"].tolist() == [1]
    assert db("%sql --quiet --to-csv a.csv SELECT 1 AS a").lines == []


def test_a_file_that_cannot_be_written_is_an_error_before_anything_runs(db, tmp_path):
    db("%sql CREATE TABLE t (a)")
    failed = db.fails(f"%%sql --to-csv {tmp_path}/no/x.csv\nINSERT INTO t VALUES (1) RETURNING a")
    assert "does not exist" in failed.out
    assert (
        "folder ~nobody-of-this-name does not exist"
        in db.fails("%sql --to-csv ~nobody-of-this-name/x.csv SELECT 1").out
    )
    assert db("%sql SELECT count(*) AS n FROM t").value["n"].tolist() == [0]
    assert "no statement returned columns" in db.fails(f"%sql --to-csv {tmp_path}/x.csv BEGIN").out
    assert not (tmp_path / "x.csv").exists()
    db("%sql ROLLBACK")


SIX_ROWS = "SELECT value AS n FROM json_each('[10,20,30,40,50,60]')"


@pytest.mark.parametrize(("kind", "left_out"), [("pandas", ".."), ("polars", "…")])
def test_the_display_limit_applies_to_the_output_of_sql_cells_only(db, kind, left_out):
    db(f"%config PipeMagic.type = '{kind}'\n%config PipeMagic.display_limit = 3")
    cell = db(f"frame = %sql {SIX_ROWS}\nframe")
    assert len(cell.value) == 6
    assert left_out in cell.out
    assert "30" not in cell.out
    for later in ("frame", "print(frame)", "display(frame)", "_", "frame.head(6)"):
        shown = db(later)
        text = shown.out + "".join(data["text/plain"] for data in shown.shown)
        assert "30" in text, later
    earlier, last = db(f"%%sql\n{SIX_ROWS};\n{SIX_ROWS}").shown[1]["text/plain"], db(f"%%sql\n{SIX_ROWS}").out
    assert "30" not in earlier
    assert "60" in earlier
    assert "30" not in last
    assert "30" in db(f"%sql -o stored {SIX_ROWS}\nstored").out  # displayed by the user
    db("%config PipeMagic.display_limit = 0")
    assert "30" in db(f"%sql {SIX_ROWS}").out


def test_the_display_limit_applies_to_html_and_respects_other_formatters(db):
    db("%config PipeMagic.display_limit = 3")
    cell = db(f"%%sql\n{SIX_ROWS};\nSELECT 1")
    html = cell.shown[1]["text/html"]
    assert "<td>60</td>" in html
    assert "<td>30</td>" not in html
    assert "6 rows" in html
    db(
        "import pandas as pd\nbundles = get_ipython().display_formatter.mimebundle_formatter\n"
        "_ = bundles.for_type(pd.DataFrame, lambda frame: {'text/x-rows': str(len(frame))})"
    )
    assert db(f"%%sql\n{SIX_ROWS};\nSELECT 1").shown[1]["text/x-rows"] == "6"
    assert db("display(pd.DataFrame({'a': [1]}))").shown[0]["text/x-rows"] == "1"
    db("_ = bundles.pop(pd.DataFrame)")


@pytest.mark.parametrize("fails", [False, True])
def test_the_display_limit_leaves_the_options_and_formatters_as_they_were(db, fails):
    import pandas as pd
    import polars as pl

    def state():
        options = [pd.get_option(name) for name in ("display.max_rows", "display.min_rows")]
        return options, pl.Config.state(), dict(db.ip.display_formatter.mimebundle_formatter.type_printers)

    before = state()
    db("%config PipeMagic.display_limit = 3")
    cell = f"%sql {SIX_ROWS}\n%sql --type polars {SIX_ROWS}\n{'1 / 0' if fails else ''}"
    assert (db.run(cell).error is not None) is fails
    assert state() == before
    db(f"%sql {SIX_ROWS}\n%unload_ext pipemagic")
    assert state() == before


def numbers(db, count=20):
    db(
        "%%sql --quiet\nCREATE TABLE n (a INTEGER, flag BOOLEAN);\nWITH RECURSIVE r(x) AS (SELECT 0 UNION ALL "
        f"SELECT x + 1 FROM r WHERE x < {count - 1}) INSERT INTO n SELECT x, x % 2 FROM r"
    )


def test_limit_returns_the_first_rows_and_reports_whether_there_are_more(db):
    numbers(db)
    cell = db("%sql --limit 3 SELECT a, flag, a FROM n ORDER BY a DESC -- all of them")
    assert cell.lines == ["First 3 rows; there are more."]
    assert cell.value.values.tolist() == [[19, True, 19], [18, False, 18], [17, True, 17]]
    assert [str(dtype) for dtype in cell.value.dtypes] == ["int64", "boolean", "int64"]
    assert db("%sql --limit 20 SELECT a FROM n").lines == []
    assert db("%sql --limit 19 SELECT a FROM n").lines == ["First 19 rows; there are more."]
    assert db("%sql --limit 3 SELECT a FROM n LIMIT 3").lines == []
    assert db("%sql --limit 3 SELECT a FROM n LIMIT 4").lines == ["First 3 rows; there are more."]
    assert db("%sql --limit 0 SELECT a FROM n").value.shape == (0, 1)


def test_limit_applies_to_each_query_and_to_no_other_statement(db):
    numbers(db, 5)
    db("wanted = [0, 1, 2, 3]")
    cell = db(
        "%%sql --limit 2 -o x,y,z\nSELECT a FROM n WHERE a IN :wanted;\n"
        "INSERT INTO n (a) VALUES (6), (7), (8) RETURNING a;"
        "\nVALUES (1), (2), (3)"
    )
    assert [line.split("  ")[-1].strip() for line in summary(cell)] == [
        "first 2 rows; there are more",
        "3 rows, 3 affected",
        "first 2 rows; there are more",
    ]
    assert [len(db.names[name]) for name in "xyz"] == [2, 3, 2]
    db("%sql BEGIN")
    db("%sql --confirm DELETE FROM n")
    assert db("%sql --limit 2 SELECT a FROM n").value.empty  # uncommitted changes are visible
    db("%sql ROLLBACK")


@pytest.mark.parametrize("server", ["embedded", "sqld"])
def test_an_error_in_a_limited_query_has_its_original_position(db):
    numbers(db, 1)
    failed = db.fails("%%sql --limit 2\nSELECT a\nFROM n WHERE nope = 1 LIMIT 5")
    assert "line 3:" in failed.out
    assert "  FROM n WHERE nope = 1 LIMIT 5\n               ^\n" in failed.out
    failed = db.fails("%sql --limit 2 SELECT a FROM n LIMIT abs(1, 2), 3")
    assert f"  SELECT a FROM n LIMIT abs(1, 2), 3\n{' ' * 24}^\n" in failed.out


ENDLESS = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r)"


@pytest.mark.parametrize("server", ["embedded", "sqld"])
def test_a_timeout_stops_the_cell_and_the_statement_on_the_server(db):
    db("%sql CREATE TABLE t (a)")
    failed = db.fails(f"%sql --timeout 0.25 {ENDLESS} SELECT count(*) FROM r")
    assert isinstance(failed.error, AnswerTimeout)
    assert failed.out == "TIMEOUT: stopped after 0.25 s. Nothing was changed.\n"
    assert failed.error.code == "TIMEOUT"
    failed = db.fails(f"%sql --timeout 0.25 INSERT INTO t {ENDLESS} SELECT x FROM r")
    assert isinstance(failed.error, AnswerTimeout)
    assert db("%sql --timeout 10 INSERT INTO t VALUES (1)").lines == ["1 row affected."]  # the write lock is free
    assert db("%sql SELECT count(*) AS n FROM t").value["n"].tolist() == [1]


def test_a_timeout_rolls_an_open_transaction_back(db):
    db("%%sql\nCREATE TABLE t (a);\nBEGIN;\nINSERT INTO t VALUES (1)")
    failed = db.fails(f"%sql --timeout 0.25 {ENDLESS} SELECT count(*) FROM r")
    assert failed.out.startswith("TIMEOUT: stopped after 0.25 s\nNo part of the transaction was applied.\nUndone:\n")
    assert "INSERT INTO t VALUES (1)" in failed.out
    assert db("%sql ROLLBACK").error is None
    assert db("%sql SELECT count(*) AS n FROM t").value["n"].tolist() == [0]


NO_NUMBERS = ["--limit -1", "--limit x", "--limit 1.5", "--timeout 0", "--timeout -1", "--timeout 1s"]


def test_limit_and_timeout_refuse_invalid_numbers(db):
    for option in NO_NUMBERS:
        assert isinstance(db.fails(f"%%sql {option}\nSELECT 1").error, UsageError)
