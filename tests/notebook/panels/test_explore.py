"""The Explore panel: tables in pages, sorted and filtered by the server."""

from __future__ import annotations

import codecs
import threading
from types import SimpleNamespace

import pandas as pd
import pytest
from ended_streams import end_at_server
from panel_page import PanelPage
from waiting import PATIENCE, until

from pipemagic.client.database import Database
from pipemagic.errors import AnswerTimeout, ServerError, StatementError, TransactionLost
from pipemagic.explore import page_query
from pipemagic.notebook.panels import grid_model, table_browser
from pipemagic.notebook.panels.opening import open_panel

SLOW = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000000000) SELECT count(*) AS c FROM n"
)
NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {})"


@pytest.fixture
def flights(session):
    session.run("CREATE TABLE flights(id INTEGER PRIMARY KEY, origin TEXT, delay REAL, tail)")
    session.run(
        f"{NUMBERS.format(130)} INSERT INTO flights "
        "SELECT i, CASE i % 3 WHEN 0 THEN 'JFK' WHEN 1 THEN 'LGA' ELSE 'EWR' END, iif(i % 10 = 0, NULL, i * 1.5), "
        "CASE i WHEN 1 THEN 'NULL' WHEN 2 THEN '' WHEN 3 THEN x'00ff' WHEN 4 THEN '7' ELSE i END FROM n"
    )


@pytest.fixture
def explore(session):
    """Open the panel and a table in it."""

    def opened(table="flights", variables=None):
        panel = PanelPage(open_panel(session, "explore", variables))
        panel.click(f"Explore {table}")
        panel.wait(f"{table} in main")
        return panel

    return opened


@pytest.fixture
def elsewhere(session):
    """Write like another program, which sends no signal to this session."""
    return lambda sql: session.connection().with_database(lambda database: database.execute(sql))


@pytest.fixture
def schemas_read(monkeypatch):
    """The names of the threads that read a schema for a panel."""
    names, read, read_one = [], table_browser.read_schema, page_query.read_relation

    def reading(database):
        names.append(threading.current_thread().name)
        return read(database)

    def reading_one(database, name):
        names.append(threading.current_thread().name)
        return read_one(database, name)

    monkeypatch.setattr(table_browser, "read_schema", reading)
    monkeypatch.setattr(page_query, "read_relation", reading_one)
    return names


def model(panel):
    return panel.panel.browser.model


def grid(panel):
    return panel.panel.browser.grid


def is_quiet(panel):
    """Return True if no request is running or due."""
    return model(panel).reading.wait(0) and not model(panel)._outdated


def cells(panel, label="Rows of flights"):
    """Return the texts of a table."""
    return panel.rows(label)


def shown_cell(panel):
    return grid(panel).cell.text


def profiled(panel):
    """Return the figures of the columns that are profiled, as they are shown: those of %pipedb profile."""
    shown = model(panel).profile
    if shown is None or grid(panel).profiles.table.value != shown._repr_html_():
        return {}
    return {line.split()[0]: line.split()[2:] for line in str(shown).splitlines()[2:]}


def order_of(panel, column):
    return next(header["sorted"] for header in panel.table("Rows of flights").columns if header.get("key") == column)


def add_filter(panel, column, value, operator="="):
    panel.choose("Column", column)
    panel.choose("Comparison", operator)
    panel.type("Value", value)
    panel.click("Add filter")
    panel.wait(f"{column} {operator} {value}".rstrip())


def apply_condition(panel, condition):
    panel.type("Condition in SQL", condition)
    panel.click("Apply")


def copied(panel, label="Rows of flights"):
    """Return the texts that a page copies to the clipboard; None if a value is truncated."""
    return [[cell.get("value", cell["text"]) for cell in row["cells"]] for row in panel.table(label).rows]


@pytest.mark.usefixtures("flights")
def test_pages(explore):
    panel = explore()
    panel.wait("Rows 1 to 25 of 130")
    assert cells(panel)[:4] == [
        ["1", "LGA", "1.5", "'NULL'"],
        ["2", "EWR", "3.0", "''"],
        ["3", "JFK", "4.5", "x'00ff' (2 bytes)"],
        ["4", "LGA", "6.0", "'7'"],
    ]
    assert cells(panel)[9] == ["10", "LGA", "NULL", "10"]
    assert [row[-1] for row in copied(panel)[:4]] == ["NULL", "", "x'00ff'", "7"]
    assert copied(panel)[9] == ["10", "LGA", "", "10"]
    assert shown_cell(panel) == "%%sql\nSELECT * FROM flights\nORDER BY rowid\nLIMIT 25"
    assert not panel.can("First")
    rows = panel.table("Rows of flights")
    rows.click("turn", "-1")
    rows.click("turn", "1")
    panel.wait("Rows 26 to 50")
    rows.click("turn", "-1")
    panel.wait("Rows 1 to 25")
    panel.click("Last")
    panel.wait("Rows 126 to 130")
    rows.click("turn", "1")
    assert (rows.first, rows.total) == (125, 130)
    assert not panel.can("Next")
    panel.click("Previous")
    panel.wait("Rows 101 to 125")
    panel.choose("Rows per page", 100)
    panel.wait("LIMIT 100 OFFSET 100")


@pytest.mark.usefixtures("flights")
def test_a_heading_sorts_ascending_then_descending_then_not_at_all(explore, session):
    panel = explore()
    assert order_of(panel, "delay") is None
    panel.click("Sort by delay")
    panel.wait("ORDER BY delay, rowid")
    assert order_of(panel, "delay") == "ascending"
    assert [row[2] for row in cells(panel)[:14]] == ["NULL"] * 13 + ["1.5"]
    panel.click("Sort by delay")
    panel.wait("ORDER BY delay DESC, rowid")
    assert order_of(panel, "delay") == "descending"
    assert cells(panel)[0] == ["129", "JFK", "193.5", "129"]
    frame = session.run(shown_cell(panel).removeprefix("%%sql\n"))
    assert [str(number) for number in frame["id"]] == [row[0] for row in cells(panel)]
    panel.click("Sort by delay")
    panel.wait("ORDER BY rowid")
    assert order_of(panel, "delay") is None


@pytest.mark.usefixtures("flights")
def test_filters_and_a_condition_in_sql(explore, session):
    panel = explore()
    add_filter(panel, "origin", "JFK")
    panel.wait(" of 43")
    assert panel.field("Value").value == ""
    add_filter(panel, "delay", "180", ">=")
    assert [row[0] for row in cells(panel)] == ["123", "126", "129"]
    apply_condition(panel, "id < 129 -- not the last")
    expected = (
        "%%sql\nSELECT * FROM flights\nWHERE origin = 'JFK' AND delay >= 180 AND (id < 129 -- not the last\n)\n"
        "ORDER BY rowid\nLIMIT 25"
    )
    until(lambda: shown_cell(panel) == expected, shown_cell(panel))
    assert session.run(expected.removeprefix("%%sql\n"))["id"].tolist() == [123, 126]
    panel.type("Value", "half typed")
    panel.click("Remove origin = JFK")
    panel.wait("Rows 1 to 8")
    assert panel.field("Value").value == "half typed"
    add_filter(panel, "tail", "", "is null")
    panel.wait("No rows match the filters.")
    panel.click("Remove id < 129 -- not the last")
    until(lambda: panel.field("Condition in SQL").value == "")


@pytest.mark.usefixtures("flights")
@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("nope > 1", "no such column: nope"),
        ("1) OR (1", "unmatched closing parenthesis"),
        ("id > 1 /* all", "the condition has an unbalanced quote or parenthesis"),
        ("id > 1 LIMIT 5", "the condition must be a single SQL expression without LIMIT"),
        ("id IN (1) ORDER BY id", "the condition must be a single SQL expression without ORDER"),
        ("1; DROP TABLE flights", "the condition must be a single SQL expression without ;"),
    ],
)
def test_a_wrong_condition_does_not_change_the_page(explore, typed, words):
    panel = explore()
    apply_condition(panel, typed)
    panel.wait(words)
    assert len(cells(panel)) == 25
    assert shown_cell(panel) == "%%sql\nSELECT * FROM flights\nORDER BY rowid\nLIMIT 25"
    panel.click("Next")
    panel.wait("Rows 26 to 50")
    assert words not in panel.words


@pytest.mark.usefixtures("flights")
@pytest.mark.parametrize(
    ("typed", "caret"),
    [
        ("dely > 100", 0),
        ("delay >> 100 AND", 16),
        ("delay > 100 AND (id > 5", 16),
        ("id > 5) OR (1", 6),
        ("origin = 'JFK", 9),
        ("delay > 5 AN id > 3", None),
        ("WHERE delay > 5", 0),
        ("origin = 'JFK' && delay > 5", 16),
        ("delay BETWEN 1 AND 5", None),
        ("delay is not nul", None),
        ("flight.delay > 5", None),
        ("lenght(origin) = 3", 0),
        ("upper() = 1", None),
        ("max(delay) > 5", None),
        ("origin ILIKE 'j%'", None),
        ("extract(year FROM origin) = 2013", None),
        ("(id, delay) > 5", None),
        ("json(origin) > 5", None),
        ("order > 3", None),
        ("id > 3 AND group = 1", None),
    ],
)
def test_a_condition_has_the_error_of_a_cell(explore, session, typed, caret):
    with pytest.raises(StatementError) as caught:
        session.run(f"SELECT * FROM flights WHERE {typed}")
    panel = explore()
    apply_condition(panel, typed)
    until(lambda: model(panel).reading.error is not None)
    error, expected = model(panel).reading.error, caught.value
    assert (error.code, error.message.split("\n")[0]) == (expected.code, expected.message.split("\n")[0])
    assert error.hint == expected.hint
    before, here = expected.message.split("\n")[1:], error.message.split("\n")[1:]
    start = len("SELECT * FROM flights WHERE ")
    assert [line.strip() for line in here] == [
        line.removeprefix("  SELECT * FROM flights WHERE").strip() for line in before
    ]
    if before:
        assert here[1].index("^") == before[1].index("^") - start
    if caret is not None:
        assert here[1].index("^") == caret + 2
    assert len(cells(panel)) == 25


@pytest.mark.usefixtures("flights")
@pytest.mark.parametrize(
    "typed",
    [
        "delay = NULL", 'origin = "JFK"', "id / 2 > 0.5", "origin > 5", "id > 1 / 0", "origin LIKE 'É%'",
        "origin = 'JFK' AND id NOT IN (1, NULL)", "delay > 1 AND id < 50",
    ],
)  # fmt: skip
def test_a_condition_has_the_notes_of_a_cell(explore, shell, typed):
    panel = explore()
    apply_condition(panel, typed)
    panel.wait(f"WHERE ({typed})")
    shell("%pipedb connect")
    shell("%sql SELECT 1")
    assert shell.ip.magics_manager.registry["PipeMagics"].session.connection().schema.tables_soon()
    shown = [data["text/plain"] for data in shell(shown_cell(panel)).shown if "pipemagic-notes" in data["text/html"]]
    notes = "".join(shown).split("\n")
    assert list(model(panel).notes) == [note for note in notes if note]
    assert bool(shown) is (typed != "delay > 1 AND id < 50")
    for note in notes:
        assert note in panel.words
        assert note in panel.text
    apply_condition(panel, "")
    until(lambda: not model(panel).notes)


def test_a_long_value_is_cut_and_shown_in_full_on_demand(explore, session):
    session.run("CREATE TABLE notes(a TEXT, b TEXT)")
    session.run("INSERT INTO notes VALUES (:a, :b)", {"a": "ä" * 150_000, "b": "line\n" * 20})
    panel = explore("notes")
    assert cells(panel, "Rows of notes") == [["ä" * 80 + "…", "line\\n" * 16 + "…"]]
    assert copied(panel, "Rows of notes") == [[None, "line\n" * 20]]
    panel.click("Full value of b in row 1")
    panel.wait("b in row 1: 100 characters")
    value = grid(panel).full_value
    assert value.value == "line\n" * 20
    assert "line\n" not in str(value.get_state())
    panel.click("Close the value")
    assert value.value is None
    panel.click("Full value of a in row 1")
    panel.wait("a in row 1: 150,000 characters; the first 100,000")
    assert value.value == "ä" * 100_000
    panel.escape(grid(panel).full_box)
    assert "in row 1:" not in panel.words


@pytest.mark.usefixtures("flights")
def test_a_full_value_stays_while_its_row_is_the_same(explore, session):
    session.run("UPDATE flights SET tail = :long WHERE id = 2", {"long": "long " * 30})
    panel = explore()
    panel.click("Full value of tail in row 2")
    panel.wait("tail in row 2: 150 characters")
    session.run("UPDATE flights SET tail = 'other' WHERE id = 1")
    until(lambda: cells(panel)[0][-1] == "other")
    assert grid(panel).full_value.value is not None
    session.run("UPDATE flights SET tail = 'short' WHERE id = 2")
    until(lambda: cells(panel)[1][-1] == "short")
    until(lambda: grid(panel).full_value.value is None)


def test_values_of_different_types_look_different(explore, session):
    session.run("CREATE TABLE t(a, n INTEGER, d TEXT)")
    session.run(
        "INSERT INTO t VALUES (9007199254740993, 9223372036854775807, '2013-01-01'), (9e999, -1, ' x'), "
        "('5', NULL, '5'), (5, 0, 'null'), (0.1, 1, '<b>'), (zeroblob(1000), 2, char(9))"
    )
    panel = explore("t")
    assert cells(panel, "Rows of t") == [
        ["9007199254740993", "9223372036854775807", "2013-01-01"],
        ["Inf", "-1", "' x'"],
        ["'5'", "NULL", "5"],
        ["5", "0", "'null'"],
        ["0.1", "1", "<b>"],
        ["x'00000000000000000000000000000000…' (1,000 bytes)", "2", "'\\t'"],
    ]
    for typed, row in [("5", ["5", "0", "'null'"]), ("'5'", ["'5'", "NULL", "5"])]:
        add_filter(panel, "a", typed)
        assert cells(panel, "Rows of t") == [row]
        panel.click(f"Remove a = {typed}")
        panel.wait("Rows 1 to 6")
    assert "&lt;b&gt;" in panel.html
    assert "<b>" not in panel.html


def test_the_list_of_tables(page, session):
    session.run("CREATE TABLE t(a, b); CREATE VIEW seen AS SELECT a FROM t; CREATE TABLE gone(a)")
    session.run("CREATE VIEW broken AS SELECT * FROM gone; DROP TABLE gone")
    panel = page("explore")
    assert panel.rows("Tables of main") == [
        ["broken", "view: no such table: main.gone", "unknown"], ["seen", "view", "1"], ["t", "table", "2"],
    ]  # fmt: skip
    assert panel.table("Tables of main").filter_from == 8
    panel.click("Explore broken")
    panel.wait("no such table: main.gone")


ODD = "we \"ird` na'me, 1.5"
ODD_SQL = f"`{ODD.replace('`', '``')}`"


@pytest.mark.parametrize(
    ("definition", "order"),
    [
        (f'CREATE TABLE {ODD_SQL}(`select` INTEGER, `a``b "c"` TEXT)', "\nORDER BY rowid"),
        (f'CREATE TABLE {ODD_SQL}(`select` PRIMARY KEY, `a``b "c"` TEXT) WITHOUT ROWID', "\nORDER BY `select`"),
        (f'CREATE TABLE {ODD_SQL}(`select`, `a``b "c"` TEXT, rowid)', "\nORDER BY _rowid_"),
        (f"CREATE VIEW {ODD_SQL} AS SELECT 2 AS `select`, 'x' AS `a``b \"c\"`", ""),
    ],
)
def test_names_that_need_quotes(explore, session, definition, order):
    session.run(definition)
    panel = explore(ODD)
    assert shown_cell(panel) == f"%%sql\nSELECT * FROM {ODD_SQL}{order}\nLIMIT 25"
    add_filter(panel, 'a`b "c"', "50%_\\'", "contains")
    panel.click('Sort by a`b "c"')
    panel.wait('ORDER BY `a``b "c"`')
    assert session.run(shown_cell(panel).removeprefix("%%sql\n")).shape[0] == 0
    panel.click("Profile select")
    panel.wait("Profiles of the filtered rows")
    until(lambda: not panel.is_busy)
    assert panel.alerts == []


def test_a_wide_table_shows_its_first_columns_and_filters_by_all(explore, session, elsewhere):
    session.run(f"CREATE TABLE wide({', '.join(f'c{number}' for number in range(2000))})")
    session.run("INSERT INTO wide(c0, c40, c1999) VALUES (1, 2, 3)")
    panel = explore("wide")
    panel.wait("The first 200 of 2,000 columns.")
    assert cells(panel, "Rows of wide") == [["1", *["NULL"] * 39, "2", *["NULL"] * 159]]
    add_filter(panel, "c1999", "4")
    panel.wait("No rows match the filters.")
    elsewhere("DROP TABLE wide")
    elsewhere("CREATE TABLE wide(a, b)")
    panel.click("Refresh")
    panel.wait_for("Sort by b")
    assert panel.alerts == []


@pytest.mark.usefixtures("flights")
def test_profiles(explore, session):
    panel = explore()
    panel.click("Profile delay")
    panel.wait("Profiles of all rows")
    panel.wait("%pipedb profile flights --columns delay --on main")
    assert profiled(panel)["delay"][:9] == ["117", "(90.0%)", "13", "117", "1.5", "49.5", "97.5", "145.5", "193.5"]
    assert "117 (90.0%)" in panel.words
    panel.click("Profile all columns")
    until(lambda: len(profiled(panel)) == 4)
    assert profiled(panel)["origin"] == ["130", "0", "3", "EWR", "LGA", "LGA", "×44,", "EWR", "×43,", "JFK", "×43"]
    session.run("DELETE FROM flights WHERE id < 100")
    panel.wait("Cells have written since these profiles were computed.")
    panel.click("Close the profiles")
    assert "Profiles of" not in panel.words
    panel.click("Profile delay")
    until(lambda: profiled(panel).keys() == {"delay"} and profiled(panel)["delay"][0] == "27")
    assert "Cells have written since" not in panel.words


@pytest.mark.usefixtures("flights")
def test_profiles_of_the_filtered_rows_are_those_of_the_magic(explore, shell):
    panel = explore()
    add_filter(panel, "origin", "JFK")
    apply_condition(panel, "flights.id > 100 /* the late ones */ -- of the day")
    panel.wait("Rows 1 to 10")
    panel.click("Profile delay")
    panel.wait("Profiles of the filtered rows")
    until(lambda: not panel.is_busy)
    where = "origin = 'JFK' AND (flights.id > 100)"
    line = f'%pipedb profile flights --columns delay --where "{where}" --on main'
    assert line in panel.words
    assert profiled(panel)["delay"][:4] == ["9", "(90.0%)", "1", "9"]
    shell("%pipedb connect")
    result = shell(line).value
    assert (result.rows, result["delay"].minimum, result["delay"].quartiles[1]) == (10, 153.0, 171.0)
    panel.click("Remove origin = JFK")
    panel.wait("Rows 1 to 25")
    panel.click("Profile id")
    until(
        lambda: profiled(panel).keys() == {"id"} and profiled(panel)["id"][0] == "30"
    )  # not together with those of other rows


@pytest.mark.usefixtures("flights")
def test_export_has_the_rows_of_its_cell(explore, shell, tmp_path):
    shell("%pipedb connect")
    variables = {"taken": 1}
    panel = explore(variables=variables)
    add_filter(panel, "id", "100", "<")
    add_filter(panel, "id", "3", "<>")
    panel.click("Sort by origin")
    panel.wait("ORDER BY origin, rowid")
    panel.click("Export ...")
    for name, words in [
        ("a b", "'a b' is not a valid variable name"),
        ("class", "'class' is not a valid variable name"),
        ("taken", "the variable taken already exists"),
    ]:
        panel.type("Variable or file", name)
        panel.click("Export")
        panel.wait(words)
    panel.type("Variable or file", "late")
    panel.click("Export")
    panel.wait("late is a DataFrame of 98 rows.")
    line = "%%sql --on main -o late\nSELECT * FROM flights\nWHERE id < 100 AND id <> 3\nORDER BY origin, rowid"
    assert line in panel.words
    shell(line)
    pd.testing.assert_frame_equal(variables["late"], shell.names["late"])

    for kind, option in (("csv", ""), ("excel", " --excel"), ("parquet", "")):
        suffix = "csv" if option else kind
        file = tmp_path / f"a file.{suffix}"
        for attempt in ("new", "existing"):
            panel.click("Export ...")
            panel.choose("To", kind)
            panel.type("Variable or file", str(file))
            if attempt == "existing":
                panel.click("Export")
                panel.wait(f"the file {file} already exists")
                panel.check("Replace")
            panel.click("Export")
            panel.wait(f"Wrote 98 rows to {file}.")
        cell = model(panel).exporting.line
        assert cell.splitlines()[0] == f'%%sql --on main --to-{suffix} "{file}"{option}'
        exported = file.rename(tmp_path / f"exported.{kind}")
        shell(cell)
        assert file.read_bytes() == exported.read_bytes()
        assert file.read_bytes().startswith(codecs.BOM_UTF8) is bool(option)
        file.unlink()


@pytest.mark.usefixtures("flights")
def test_an_export_that_is_stopped_leaves_no_file(explore, monkeypatch):
    variables = {}
    panel = explore(variables=variables)
    clock, task = iter(range(1000)), model(panel).exporting

    def stopping():
        if now := next(clock):
            task.stop()
        return now

    monkeypatch.setattr(page_query, "monotonic", stopping)
    panel.click("Export ...")
    panel.type("Variable or file", "found")
    panel.click("Export")
    panel.wait("Stopped.")
    until(lambda: not task._running)
    assert not panel.is_busy
    assert variables == {}


@pytest.fixture
def slow_export(monkeypatch):
    """The events of exports: ``begun``, and ``may_end``, for which they wait."""

    def export(*arguments):
        events.begun.set()
        assert events.may_end.wait(PATIENCE)
        return export_rows(*arguments)

    events, export_rows = SimpleNamespace(begun=threading.Event(), may_end=threading.Event()), page_query.export_rows
    monkeypatch.setattr(page_query, "export_rows", export)
    return events


def test_an_export_continues_while_another_tab_is_selected(session, slow_export):
    session.run("CREATE TABLE t (a); INSERT INTO t VALUES (1), (2)")
    variables = {}
    page = PanelPage(open_panel(session, "all", variables))
    page.click("Explore")
    page.click("Explore t")
    page.click("Export ...")
    page.type("Variable or file", "frame")
    page.click("Export")
    assert slow_export.begun.wait(PATIENCE)
    page.click("Session")
    slow_export.may_end.set()
    until(lambda: "frame" in variables)
    page.click("Explore")
    page.wait("frame is a DataFrame of 2 rows.")


def test_a_new_request_replaces_the_running_one_which_can_also_be_stopped(session):
    session.run(f"CREATE VIEW slow AS {SLOW}; CREATE TABLE quick(a); INSERT INTO quick VALUES (1)")
    panel = PanelPage(open_panel(session, "explore"))
    panel.click("Explore slow")
    panel.wait("Reading slow ...")
    panel.click("Explore quick")
    panel.wait("quick in main")
    assert panel.alerts == []
    panel.click("All tables")
    panel.click("Explore slow")
    panel.wait("Reading slow ...")
    panel.click("Stop")
    panel.wait("Stopped.")
    until(lambda: not model(panel).reading._running)  # the request ends, too
    panel.click("Explore quick")
    panel.wait("quick in main")
    assert session.run("SELECT 2 AS b")["b"].tolist() == [2]


def test_a_request_that_is_stopped_before_it_is_sent_is_never_sent(session, monkeypatch):
    session.run(f"CREATE VIEW slow AS {SLOW}")
    panel = PanelPage(open_panel(session, "explore"))
    go_on, sibling = threading.Event(), Database.sibling
    monkeypatch.setattr(
        Database, "sibling", lambda *given, **options: go_on.wait(PATIENCE) and sibling(*given, **options)
    )
    panel.click("Explore slow")
    panel.wait("Reading slow ...")
    panel.click("Stop")
    go_on.set()
    until(lambda: not model(panel).reading._running)


def test_rows_that_take_long_to_count(session, monkeypatch):
    session.run(f"CREATE TABLE one(a); {NUMBERS.format(60)} INSERT INTO one SELECT i FROM n")
    session.run(f"CREATE VIEW long AS SELECT a FROM one WHERE a < 50 OR ({SLOW}) > 0")
    monkeypatch.setattr(grid_model, "COUNT_TIMEOUT", 0.2)
    panel = PanelPage(open_panel(session, "explore"))
    panel.click("Explore long")
    panel.wait("Rows 1 to 25 of more than 25; the server did not count them in 0.2 s")
    assert not panel.can("Last")
    panel.wait_for("Next")


def test_the_last_page_shows_the_number_of_rows_that_could_not_be_counted(explore, session, monkeypatch):
    session.run(f"CREATE TABLE many(a); {NUMBERS.format(27)} INSERT INTO many SELECT i FROM n")

    def slow(*_, **__):
        raise AnswerTimeout("too late")

    monkeypatch.setattr(page_query, "count_rows", slow)
    panel = explore("many")
    panel.wait("of more than 25; the server did not count them in 5 s")
    panel.click("Next")
    panel.wait("Rows 26 to 27 of 27")
    assert "did not count" not in panel.words


@pytest.mark.usefixtures("flights")
def test_the_number_of_rows_agrees_with_the_page(explore, elsewhere):
    panel = explore()
    panel.wait("Rows 1 to 25 of 130")
    panel.click("Last")
    panel.wait("Rows 126 to 130 of 130")
    elsewhere("INSERT INTO flights(origin) SELECT 'new' FROM flights")
    panel.click("Previous")
    panel.wait("Rows 101 to 125 of 130")
    panel.click("Next")
    panel.wait("Rows 126 to 150 of 260")
    elsewhere("DELETE FROM flights WHERE id > 33")
    panel.click("Next")
    panel.wait("No rows at this position.")
    panel.wait("No rows of 33")
    panel.click("Previous")
    panel.wait("Rows 26 to 33 of 33")


@pytest.mark.usefixtures("flights")
def test_a_schema_that_changed_is_read_again_after_an_error(page, session, elsewhere):
    panel = page("explore")
    panel.wait_for("Explore flights")
    elsewhere("ALTER TABLE flights RENAME COLUMN delay TO late")
    panel.click("Explore flights")
    panel.wait("no such column")
    panel.click("Explore flights")
    panel.wait("flights in main")
    elsewhere("ALTER TABLE flights RENAME COLUMN late TO delay")
    panel.click("Sort by late")
    panel.wait("no such column")
    assert len(cells(panel)) == 25
    panel.click("Refresh")
    panel.wait_for("Sort by delay")
    elsewhere("DROP TABLE flights")
    panel.click("Next")
    panel.wait("no such table: flights")
    panel.click("Refresh")
    panel.wait("table or view 'flights' does not exist")
    panel.click("All tables")
    panel.wait("No tables yet.")
    elsewhere("CREATE TABLE again(a)")
    panel.click("Refresh")
    panel.click("Explore again")
    panel.wait("again in main")
    session.close()
    panel.click("Sort by a")
    panel.wait("connection 'main' does not exist")


def test_sorting_and_filters_by_a_dropped_column_are_removed(explore, session, elsewhere):
    session.run("CREATE TABLE stock(id INTEGER PRIMARY KEY, part, price); INSERT INTO stock VALUES (1, 'bolt', 2)")
    session.run("INSERT INTO stock VALUES (2, 'nut', 1)")
    panel = explore("stock")
    add_filter(panel, "price", "2")
    panel.click("Sort by price")
    panel.wait("ORDER BY price")
    session.run("ALTER TABLE stock DROP COLUMN price")
    panel.wait("A column no longer exists: its sorting and filters were removed.")
    assert cells(panel, "Rows of stock") == [["1", "bolt"], ["2", "nut"]]
    assert shown_cell(panel) == "%%sql\nSELECT * FROM stock\nORDER BY rowid\nLIMIT 25"
    apply_condition(panel, "part < 'c'")
    panel.wait("Rows 1 to 1")
    elsewhere("ALTER TABLE stock RENAME COLUMN part TO name")
    panel.click("Refresh")
    panel.wait("no such column: part")
    panel.click("Remove part < 'c'")
    panel.wait("Rows 1 to 2")
    assert panel.alerts == []


def test_tables_that_cannot_be_read(session, monkeypatch):
    def unreadable(_database):
        raise ServerError("the server is out of order", status=500)

    with monkeypatch.context() as broken:
        broken.setattr(table_browser, "read_schema", unreadable)
        panel = PanelPage(open_panel(session, "explore"))
        panel.wait("the server is out of order")
        assert panel.text == "Explore\nCannot read the tables of main: the server is out of order"
    panel.click("Refresh")
    panel.wait("No tables yet.")


def test_without_a_connection_and_after_connecting(session):
    session.close()
    panel = PanelPage(open_panel(session, "explore"))
    assert panel.text == "Explore\nNo connections yet. %pipedb connect finds or starts the embedded service."
    panel.click("Connect")
    panel.wait("Tables of main")
    words = "No tables yet. %pipedb load creates one from a DataFrame or a file."
    panel.wait(words)
    assert panel.text == f"Explore\nTables of main\n{words}"


def test_the_current_connection_is_followed_until_a_table_is_open(session):
    session.organization.create_database("other", "default")
    session.run("CREATE TABLE mine(a)")
    panel = PanelPage(open_panel(session, "explore"))
    panel.wait("Tables of main")
    assert not panel.has_field("Connection")
    session.connect("other")
    panel.wait("Tables of other")
    session.run("CREATE TABLE theirs(a)")
    panel.wait("theirs")
    assert panel.options("Connection") == ["main", "other"]
    panel.choose("Connection", "main")
    panel.click("Explore mine")
    panel.wait("mine in main")
    assert shown_cell(panel) == "%%sql --on main\nSELECT * FROM mine\nORDER BY rowid\nLIMIT 25"
    session.use("main")
    until(lambda: shown_cell(panel).startswith("%%sql\n"))
    session.use("other")
    panel.wait("%%sql --on main")
    assert "mine in main" in panel.words


def test_a_connection_that_is_chosen_during_an_update_is_shown(session):
    session.organization.create_database("other", "default")
    session.connect("other")
    panel = PanelPage(open_panel(session, "explore"))
    field = panel.field("Connection")
    chooser = threading.Thread(target=field.set_state, args=[{"index": 0}])  # as a page does

    def choose_in_the_midst(_change):
        if threading.current_thread() is updater:
            chooser.start()
            chooser.join(0.5)  # it ends now if it does not wait for the update, and its choice is lost

    field.observe(choose_in_the_midst, "options")
    updater = threading.Thread(target=session.connect, args=["other"], kwargs={"name": "third"})
    updater.start()
    updater.join(PATIENCE)
    chooser.join(PATIENCE)
    panel.wait("Tables of main")
    assert field.value == "main"


@pytest.mark.usefixtures("flights")
def test_static_output(explore):
    panel = explore()
    panel.choose("Rows per page", 50)
    panel.wait("Rows 1 to 50")
    apply_condition(panel, "id < 3")
    panel.wait("Rows 1 to 2")
    panel.click("Sort by id")
    panel.wait("ORDER BY id")
    assert panel.text == (
        "Explore\nflights in main\nid < 3\n"
        "  #  id ▲  origin  delay  tail\n  1     1  LGA       1.5  'NULL'\n  2     2  EWR       3.0  ''\n"
        "Rows 1 to 2 of 2"
    )
    assert "<button" not in panel.html
    panel.click("All tables")
    panel.wait("Tables of main")
    assert panel.text == "Explore\nTables of main\n  Name     Kind   Columns\n  flights  table  4"


@pytest.mark.usefixtures("flights")
def test_an_open_transaction_is_noted_and_read_once_after_its_end(explore, session, schemas_read):
    panel = explore()
    panel.wait(" of 130")
    schemas_read.clear()
    session.run("BEGIN; DELETE FROM flights")
    panel.wait("A transaction is open in the cells. Its changes are shown here after it is committed.")
    assert "Rows 1 to 25 of 130" in panel.words
    session.run("COMMIT")
    panel.wait("The table is empty.")
    assert "A transaction is open" not in panel.words
    until(lambda: is_quiet(panel))
    assert len(schemas_read) == 1


@pytest.mark.usefixtures("flights")
def test_a_transaction_that_the_server_ended_is_not_shown_as_open(explore, session):
    panel = explore()
    session.run("BEGIN; DELETE FROM flights")
    panel.wait("A transaction is open in the cells.")
    end_at_server(session.connection())
    with pytest.raises(TransactionLost):
        session.run("SELECT 1")
    panel.wait("Transaction lost.")
    assert "A transaction is open" not in panel.words


@pytest.mark.usefixtures("flights")
def test_a_page_is_read_again_after_cells_wrote(explore, session):
    panel = explore()
    add_filter(panel, "origin", "JFK")
    for _ in range(2):
        panel.click("Sort by id")
    panel.wait("ORDER BY id DESC")
    panel.click("Next")
    panel.wait("Rows 26 to 43")
    panel.click("Export ...")
    panel.type("Variable or file", "half a na")
    panel.type("Condition in SQL", "id >")
    busy = []
    grid(panel).status.observe(lambda change: busy.append(change["new"]), "busy")
    session.run("UPDATE flights SET tail = 'new' WHERE id = 3; DELETE FROM flights WHERE id = 6")
    panel.wait("Rows 26 to 42 of 42")
    assert cells(panel)[-1] == ["3", "JFK", "4.5", "new"]
    assert "ORDER BY id DESC, rowid\nLIMIT 25 OFFSET 25" in shown_cell(panel)
    assert busy == []
    assert panel.field("Variable or file").value == "half a na"
    assert panel.field("Condition in SQL").value == "id >"


@pytest.mark.usefixtures("flights")
def test_several_writes_are_read_once_more_after_a_running_request(explore, session, monkeypatch):
    panel = explore()
    panel.wait(" of 130")
    free, begun, asked = threading.Event(), threading.Event(), []
    read = page_query.read_relation

    def slow(database, name):
        asked.append(database)
        begun.set()
        assert free.wait(PATIENCE)
        return read(database, name)

    monkeypatch.setattr(page_query, "read_relation", slow)
    for number in range(5):
        session.run(f"UPDATE flights SET delay = {number} WHERE id = 1")
        assert begun.wait(PATIENCE)
    assert len(asked) == 1
    free.set()
    until(lambda: cells(panel)[0][2] == "4.0")
    until(lambda: is_quiet(panel))
    assert len(asked) == 2


@pytest.mark.usefixtures("flights")
def test_requests_of_the_user_come_first(explore, session, schemas_read):
    panel = explore()
    session.run(f"CREATE VIEW slow AS {SLOW}")
    panel.click("All tables")
    panel.wait_for("Explore slow")
    until(lambda: is_quiet(panel))
    panel.click("Explore slow")
    panel.wait("Reading slow ...")
    schemas_read.clear()
    session.run("CREATE TABLE quick(a)")
    assert schemas_read == []
    panel.click("Stop")
    panel.wait_for("Explore quick")
    assert schemas_read == ["pipemagic: table"]
    assert "Stopped." in panel.words


@pytest.mark.usefixtures("flights")
def test_a_hidden_panel_sends_nothing_and_reads_again_when_it_is_shown(explore, session, schemas_read):
    panel = explore()
    panel.wait(" of 130")
    events = panel.panel.events
    events.receive({"shown": "a page"})
    events.receive({"hidden": "a page"})
    schemas_read.clear()
    session.run("DELETE FROM flights")
    assert is_quiet(panel) is False
    assert schemas_read == []
    assert "Rows 1 to 25" in panel.words
    events.receive({"shown": "a page"})
    panel.wait("The table is empty.")


@pytest.mark.usefixtures("flights")
def test_an_error_of_an_action_stays_after_cells_wrote(explore, session):
    panel = explore()
    panel.wait(" of 130")
    apply_condition(panel, "1; SELECT 2")
    until(lambda: panel.alerts)
    before = panel.alerts
    session.run("DELETE FROM flights WHERE id > 100")
    panel.wait(" of 100")
    assert panel.alerts == before
    session.run("DROP TABLE flights")
    until(lambda: is_quiet(panel))
    assert panel.alerts == before


@pytest.mark.usefixtures("flights")
def test_the_error_of_a_dropped_table_is_removed_when_it_exists_again(explore, session):
    panel = explore()
    session.run("DROP TABLE flights")
    panel.wait("table or view 'flights' does not exist")
    session.run("CREATE TABLE flights(a)")
    panel.wait("The table is empty.")
    assert panel.alerts == []


@pytest.mark.usefixtures("flights")
def test_a_late_response_does_not_replace_a_page_that_was_requested_later(explore, session, monkeypatch):
    panel = explore()
    panel.wait(" of 130")
    free, begun, read = threading.Event(), threading.Event(), page_query.read_relation

    def slow(database, name):
        begun.set()
        assert free.wait(PATIENCE)
        return read(database, name)

    monkeypatch.setattr(page_query, "read_relation", slow)
    session.run("UPDATE flights SET tail = 'new' WHERE id = 26")
    assert begun.wait(PATIENCE)
    pages = []
    grid(panel).position.observe(lambda change: pages.append(change["new"]), "value")
    panel.click("Next")
    free.set()
    panel.wait("Rows 26 to 50")
    until(lambda: is_quiet(panel))
    assert not any("Rows 1 to 25" in page for page in pages)
    assert cells(panel)[0][-1] == "new"


def test_a_click_ends_a_slow_read_in_the_background(explore, session):
    session.run("CREATE TABLE last (n); INSERT INTO last VALUES (1); CREATE TABLE quick (a)")
    slow = NUMBERS.format("(SELECT n FROM last)")
    session.run(f"CREATE VIEW slow AS {slow} SELECT count(*) AS c FROM n")
    panel = explore("slow")
    until(lambda: is_quiet(panel))
    session.run("UPDATE last SET n = 2000000000")
    until(lambda: model(panel).reading.is_quiet)
    panel.click("All tables")
    panel.wait_for("Explore quick")
    assert panel.alerts == []


def test_a_name_of_another_connection_shows_that_one(session, page):
    session.run("CREATE TABLE here (a)")
    session.organization.create_database("other", "default")
    panel = page("explore")
    panel.wait_for("Explore here")
    session.close("main")
    session.connect("other", name="main")
    session.run("CREATE TABLE there (a)")
    panel.wait_for("Explore there")
    assert not panel.can("Explore here")
