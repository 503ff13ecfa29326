"""The panel Explore: tables by pages, sorted and filtered by the server."""

from __future__ import annotations

import threading

import ipywidgets
import pandas as pd
import pytest
from panel_page import PanelPage
from waiting import PATIENCE, until

from pipemagic import launcher
from pipemagic.client.database import Database
from pipemagic.errors import AnswerTimeout, ServerError
from pipemagic.notebook.panels.explore import browsing, exporting
from pipemagic.notebook.panels.opening import open_panel

SLOW = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000000000) SELECT count(*) AS c FROM n"
)


@pytest.fixture
def flights(session):
    session.run("CREATE TABLE flights(id INTEGER PRIMARY KEY, origin TEXT, delay REAL, tail)")
    session.run(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 130) INSERT INTO flights "
        "SELECT i, CASE i % 3 WHEN 0 THEN 'JFK' WHEN 1 THEN 'LGA' ELSE 'EWR' END, iif(i % 10 = 0, NULL, i * 1.5), "
        "CASE i WHEN 1 THEN 'NULL' WHEN 2 THEN '' WHEN 3 THEN x'00ff' WHEN 4 THEN '7' ELSE i END FROM n"
    )


@pytest.fixture
def explore(session):
    """Open the panel, and a table in it."""

    def opened(table="flights", variables=None):
        panel = PanelPage(open_panel(session, "explore", variables))
        panel.click(f"Explore {table}")
        panel.wait(f"{table} in main")
        return panel

    yield opened
    ipywidgets.Widget.close_all()


@pytest.fixture
def elsewhere(session):
    """Write as another program does, of which nothing tells this session."""
    return lambda sql: session.connection().once(lambda database: database.execute(sql))


@pytest.fixture
def schemas_read(monkeypatch):
    """What panels said to be under way whenever one of them read a schema; '' if nothing."""
    under_way, read, models = [], browsing.read_schema, []
    made = browsing.BrowsingModel.__init__

    def noted(model, *arguments, **more):
        models.append(model)
        made(model, *arguments, **more)

    def reading(database):
        under_way.append("".join(model.busy for model in models))
        return read(database)

    monkeypatch.setattr(browsing.BrowsingModel, "__init__", noted)
    monkeypatch.setattr(browsing, "read_schema", reading)
    return under_way


def is_quiet(model):
    """Return True if no request is running or due, also of the model itself."""
    with model._starting:
        return not (model.busy or model._due or model._looking)


def cells(panel, label="Rows of flights"):
    """The words of the body of a table, without those of its buttons."""
    (table,) = panel.find("table", label)
    body = next(node for node in table.walk() if node.tag == "tbody")
    return [
        [" ".join(words for words in cell.children if isinstance(words, str)).strip() for cell in row.children[1:]]
        for row in body.children
    ]


def shown_cell(panel):
    """The cell that the panel says does the same as the page."""
    return next(node.words for node in panel.find("code") if "LIMIT" in node.words)


def order_of(panel, column):
    return next(n.attributes["aria-sort"] for n in panel.find("th") if n.attributes.get("key") == column)


@pytest.mark.usefixtures("flights")
def test_a_table_by_pages(explore):
    panel = explore()
    panel.wait(" of 130")
    assert "Rows 1 to 25" in panel.words
    assert cells(panel)[:4] == [
        ["1", "LGA", "1.5", "'NULL'"],
        ["2", "EWR", "3.0", "''"],
        ["3", "JFK", "4.5", "x'00ff' (2 bytes)"],
        ["4", "LGA", "6.0", "'7'"],
    ]
    assert cells(panel)[9] == ["10", "LGA", "NULL", "10"]
    assert shown_cell(panel) == "%%sql\nSELECT * FROM flights\nORDER BY rowid\nLIMIT 25"
    assert not panel.can("First")
    panel.click("Last")
    panel.wait("Rows 126 to 130")
    assert not panel.can("Next")
    panel.click("Previous")
    panel.wait("Rows 101 to 125")
    panel.choose("Rows on a page", "100")
    panel.wait("LIMIT 100 OFFSET 100")
    panel.type("Go to row", "51")
    panel.submit("Go")
    panel.wait("Rows 51 to 130")
    panel.type("Go to row", "9999")
    panel.submit("Go")
    panel.wait("There are no rows so far down.")
    panel.type("Go to row", "zero")
    panel.submit("Go")
    panel.wait("that is not the number of a row")


@pytest.mark.usefixtures("flights")
def test_sorting_goes_up_then_down_then_away(explore, session):
    panel = explore()
    assert order_of(panel, "delay") == "none"
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
    assert order_of(panel, "delay") == "none"


@pytest.mark.usefixtures("flights")
def test_filters_and_a_condition_in_sql(explore, session):
    panel = explore()
    panel.choose("Column", "origin")
    panel.type("Value", "JFK")
    panel.submit("Add filter")
    panel.wait("origin = JFK")
    panel.wait(" of 43")
    panel.choose("Column", "delay")
    panel.choose("Comparison", ">=")
    panel.type("Value", "180")
    panel.submit("Add filter")
    panel.wait("delay >= 180")
    assert [row[0] for row in cells(panel)] == ["123", "126", "129"]
    panel.type("Condition in SQL", "id < 129 -- not the last")
    panel.submit("Apply")
    panel.wait("id < 129")
    expected = (
        "%%sql\nSELECT * FROM flights\nWHERE origin = 'JFK' AND delay >= 180 AND (id < 129 -- not the last\n)\n"
        "ORDER BY rowid\nLIMIT 25"
    )
    until(lambda: shown_cell(panel) == expected, shown_cell(panel))
    assert session.run(expected.removeprefix("%%sql\n"))["id"].tolist() == [123, 126]
    panel.click("Remove origin = JFK")
    panel.wait("Rows 1 to 8")
    panel.choose("Column", "tail")
    panel.choose("Comparison", "is null")
    panel.submit("Add filter")
    panel.wait("No row fits the filters.")


@pytest.mark.usefixtures("flights")
def test_a_filter_that_is_half_written_stays_when_another_is_taken_off(explore):
    panel = explore()
    panel.choose("Column", "origin")
    panel.type("Value", "JFK")
    panel.submit("Add filter")
    panel.wait(" of 43")
    panel.choose("Column", "delay")
    panel.choose("Comparison", ">=")
    panel.type("Value", "180")
    panel.click("Remove origin = JFK")
    panel.wait(" of 130")
    panel.submit("Add filter")
    panel.wait("delay >= 180")
    panel.wait(" of 9")


@pytest.mark.usefixtures("flights")
@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("nope > 1", "no such column: nope"),
        ("id >", "syntax error"),
        ("1) OR (1", "a quote or a parenthesis of the condition is not closed, or not opened"),
        ("origin = 'J", "a quote or a parenthesis of the condition is not closed, or not opened"),
        ("1; DROP TABLE flights", "a condition is one expression, and there is a ; in it"),
        ("id = :id", ":id has no value here"),
    ],
)
def test_a_wrong_condition_leaves_the_page(explore, typed, words):
    panel = explore()
    panel.type("Condition in SQL", typed)
    panel.submit("Apply")
    panel.wait(words)
    assert len(cells(panel)) == 25
    assert shown_cell(panel) == "%%sql\nSELECT * FROM flights\nORDER BY rowid\nLIMIT 25"
    panel.click("Next")
    panel.wait("Rows 26 to 50")
    assert words not in panel.words


def test_a_long_value_is_cut_and_shown_whole_on_demand(explore, session):
    session.run("CREATE TABLE notes(a TEXT, b TEXT)")
    session.run("INSERT INTO notes VALUES (:a, :b)", {"a": "ä" * 150_000, "b": "line\n" * 20})
    panel = explore("notes")
    assert cells(panel, "Rows of notes") == [["ä" * 80 + "…", "line\\n" * 16 + "…"]]
    panel.click("Whole value of b in row 1")
    panel.wait("b in row 1: 100 characters")
    assert panel.find("pre")[0].words == "line\n" * 20
    panel.click("Close the value")
    assert not panel.find("pre")
    panel.click("Whole value of a in row 1")
    panel.wait("a in row 1: 150,000 characters; the first 100,000")
    assert panel.find("pre")[0].words == "ä" * 100_000
    panel.escape("whole 0 a")
    assert not panel.find("pre")


def test_values_are_told_apart(explore, session):
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
        panel.choose("Column", "a")
        panel.type("Value", typed)
        panel.submit("Add filter")
        panel.wait(f"a = {typed}")
        assert cells(panel, "Rows of t") == [row]
        panel.click(f"Remove a = {typed}")
        panel.wait("Rows 1 to 6")
    assert "&lt;b&gt;" in panel.html
    assert "<b>" not in panel.html


def test_what_tables_there_are(page, session):
    for number in range(12):
        session.run(f"CREATE TABLE t{number}(a)")
    session.run("CREATE VIEW seen AS SELECT * FROM t1; CREATE TABLE gone(a); CREATE VIEW broken AS SELECT * FROM gone")
    session.run("DROP TABLE gone")
    panel = page("explore")
    assert "broken  view: no such table: main.gone  unknown" in panel.text
    panel.type("Find a table", "SEE")
    assert [row[0] for row in cells_of_tables(panel)] == ["seen"]
    panel.type("Find a table", "nothing")
    panel.wait("No name has that in it.")


def cells_of_tables(panel):
    (table,) = panel.find("table", "Tables of main")
    body = next(node for node in table.walk() if node.tag == "tbody")
    return [[cell.words for cell in row.children] for row in body.children]


ODD = "we \"ird` na'me, 1.5"


@pytest.mark.parametrize(
    ("definition", "order"),
    [
        (f'CREATE TABLE `{ODD.replace("`", "``")}`(`select` INTEGER, `a``b "c"` TEXT)', "rowid"),
        (f'CREATE TABLE `{ODD.replace("`", "``")}`(`select` PRIMARY KEY, `a``b "c"` TEXT) WITHOUT ROWID', "`select`"),
        (f'CREATE TABLE `{ODD.replace("`", "``")}`(`select`, `a``b "c"` TEXT, rowid)', "_rowid_"),
        (f"CREATE VIEW `{ODD.replace('`', '``')}` AS SELECT 2 AS `select`, 'x' AS `a``b \"c\"`", ""),
    ],
)
def test_names_that_need_quotes(explore, session, definition, order):
    session.run(definition)
    panel = explore(ODD)
    assert (f"ORDER BY {order}" if order else "ORDER BY") in shown_cell(panel) or not order
    panel.choose("Column", 'a`b "c"')
    panel.choose("Comparison", "contains")
    panel.type("Value", "50%_\\'")
    panel.submit("Add filter")
    panel.wait('a`b "c" contains 50%_\\\'')
    panel.click('Sort by a`b "c"')
    panel.wait('ORDER BY `a``b "c"`')
    assert session.run(shown_cell(panel).removeprefix("%%sql\n")).shape[0] == 0
    panel.click("Profile select")
    panel.wait("Profiles of the filtered rows")
    until(lambda: not panel.is_busy)
    assert panel.alerts == []


def test_two_thousand_columns(explore, session):
    session.run(f"CREATE TABLE wide({', '.join(f'c{number}' for number in range(2000))})")
    session.run("INSERT INTO wide(c0, c40, c1999) VALUES (1, 2, 3)")
    panel = explore("wide")
    assert "Columns 1 to 40 of 2,000." in panel.words
    assert cells(panel, "Rows of wide") == [["1"] + ["NULL"] * 39]
    panel.click("Columns after")
    panel.wait("Columns 41 to 80 of 2,000.")
    assert cells(panel, "Rows of wide")[0][0] == "2"


def test_generated_and_empty(explore, session, elsewhere):
    session.run("CREATE TABLE g(a INTEGER, b AS (a * 2), c AS (a + 1) STORED)")
    panel = explore("g")
    panel.wait("The table is empty.")
    assert "virtual generated" in panel.words
    assert "stored generated" in panel.words
    elsewhere("INSERT INTO g VALUES (4)")
    panel.click("Refresh")
    panel.wait("Rows 1 to 1")
    assert cells(panel, "Rows of g") == [["4", "8", "5"]]


@pytest.mark.usefixtures("flights")
def test_profiles(explore):
    panel = explore()
    panel.click("Profile delay")
    panel.wait("Profiles of all rows")
    panel.wait("%pipedb profile flights --columns delay --on main")
    until(lambda: panel.find("table", "Profiles"))
    headings = [node.words for node in panel.find("th") if node.attributes.get("scope") == "col"]
    assert headings[-8:] == ["Column", "Values", "NULL", "Distinct", "Spread or most frequent", "Min", "Median", "Max"]
    assert cells(panel, "Profiles") == [["117", "13", "117", "", "1.5", "97.5", "193.5"]]
    panel.click("Profile all columns")
    until(lambda: len(cells(panel, "Profiles")) == 4)
    assert cells(panel, "Profiles")[1] == ["130", "0", "3", "LGA ×44, EWR ×43, JFK ×43", "EWR", "", "LGA"]
    panel.click("Close the profiles")
    assert not panel.find("table", "Profiles")


@pytest.mark.usefixtures("flights")
def test_export_of_what_is_filtered_and_sorted_and_by_its_cell(explore, shell, tmp_path):
    shell("%pipedb connect")
    variables = {"taken": 1}
    panel = explore(variables=variables)
    panel.choose("Column", "id")
    panel.choose("Comparison", "<")
    panel.type("Value", "100")
    panel.submit("Add filter")
    panel.wait("id < 100")
    panel.click("Sort by origin")
    panel.wait("ORDER BY origin, rowid")
    panel.click("Export ...")
    for name, words in [
        ("a b", "'a b' is not a name that a variable can have"),
        ("class", "'class' is not a name that a variable can have"),
        ("taken", "there is a variable taken already"),
    ]:
        panel.type("Variable or file", name)
        panel.submit("Export")
        panel.wait(words)
    panel.type("Variable or file", "late")
    panel.submit("Export")
    panel.wait("late is a DataFrame of 99 rows.")
    line = "%%sql --on main -o late\nSELECT * FROM flights\nWHERE id < 100\nORDER BY origin, rowid"
    assert line in panel.words
    shell(line)
    pd.testing.assert_frame_equal(variables["late"], shell.names["late"])

    panel.click("Remove id < 100")
    panel.wait(" of 130")
    panel.choose("Column", "id")
    panel.choose("Comparison", "<>")
    panel.type("Value", "3")
    panel.submit("Add filter")
    panel.wait("id <> 3")
    for form in ("csv", "parquet"):
        file = tmp_path / f"a file.{form}"
        panel.click("Export ...")
        panel.choose("To", form)
        panel.type("Variable or file", str(file))
        panel.submit("Export")
        panel.wait(f"Wrote 129 rows to {file}.")
        panel.click("Export ...")
        panel.choose("To", form)
        panel.type("Variable or file", str(file))
        panel.submit("Export")
        panel.wait(f"there is a file {file} already")
        panel.check("Replace what is there")
        panel.submit("Export")
        panel.wait(f"Wrote 129 rows to {file}.")
        cell = next(node.words for node in panel.find("code") if "--to-" in node.words)
        assert cell.splitlines()[0] == f'%%sql --on main --to-{form} "{file}"'
        exported = file.rename(tmp_path / f"exported.{form}")
        shell(cell)
        assert file.read_bytes() == exported.read_bytes()
    assert len(pd.read_csv(tmp_path / "a file.csv")) == 129
    assert pd.read_parquet(tmp_path / "a file.parquet")["origin"].tolist()[0] == "EWR"


@pytest.mark.usefixtures("flights")
def test_an_open_transaction_is_told_of(explore, session, schemas_read):
    panel = explore()
    schemas_read.clear()
    session.run("BEGIN; DELETE FROM flights")
    panel.wait("A transaction is open in the cells. What it changed is not seen here before it is committed.")
    panel.wait(" of 130")
    assert "Rows 1 to 25" in panel.words
    session.run("COMMIT")
    panel.wait("The table is empty.")
    assert "A transaction is open" not in panel.words
    assert schemas_read == [""]  # once, after COMMIT


def test_a_slow_query_is_given_up_and_the_connection_goes_on(session):
    session.run(f"CREATE VIEW slow AS {SLOW}; CREATE TABLE quick(a); INSERT INTO quick VALUES (1)")
    panel = PanelPage(open_panel(session, "explore"))
    panel.click("Explore slow")
    panel.wait("Reading slow ...")
    threads = [one for one in threading.enumerate() if "Reading slow" in one.name]
    panel.click("Stop")
    panel.wait("Given up.")
    assert not panel.is_busy
    for one in threads:
        one.join(10)  # whoever waited does not any more
        assert not one.is_alive()
    panel.click("Explore quick")
    panel.wait("quick in main")
    assert session.run("SELECT 2 AS b")["b"].tolist() == [2]


def test_a_question_that_is_stopped_before_it_is_sent_is_never_sent(session, monkeypatch):
    session.run(f"CREATE VIEW slow AS {SLOW}")
    panel = PanelPage(open_panel(session, "explore"))
    go_on, sibling = threading.Event(), Database.sibling
    monkeypatch.setattr(
        Database, "sibling", lambda *given, **options: go_on.wait(PATIENCE) and sibling(*given, **options)
    )
    panel.click("Explore slow")
    panel.wait("Reading slow ...")
    threads = [one for one in threading.enumerate() if "Reading slow" in one.name]
    panel.click("Stop")
    go_on.set()
    for one in threads:
        one.join(PATIENCE)
        assert not one.is_alive()


def test_a_newer_wish_wins(session):
    session.run(f"CREATE VIEW slow AS {SLOW}; CREATE TABLE quick(a); INSERT INTO quick VALUES (1)")
    panel = PanelPage(open_panel(session, "explore"))
    panel.click("Explore slow")
    panel.click("Explore quick")
    panel.wait("quick in main")
    assert panel.alerts == []


def test_rows_that_take_long_to_count(session):
    session.run("CREATE TABLE one(a)")
    session.run(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 60) INSERT INTO one SELECT i FROM n"
    )
    session.run(f"CREATE VIEW long AS SELECT a FROM one WHERE a < 50 OR ({SLOW}) > 0")
    panel = PanelPage(open_panel(session, "explore"))
    panel.panel.view.browsing._patience = 0.2
    panel.click("Explore long")
    panel.wait("long in main")
    panel.wait(" of more than 25; the server did not count them in 0.2 s")
    assert not panel.can("Last")
    panel.wait_for("Next")


@pytest.mark.usefixtures("flights")
def test_how_many_rows_there_are_agrees_with_the_page(explore, elsewhere):
    panel = explore()
    panel.wait("Rows 1 to 25\n of 130")
    panel.click("Last")
    panel.wait("Rows 126 to 130\n of 130")
    elsewhere("INSERT INTO flights(origin) SELECT 'new' FROM flights")
    panel.click("Previous")
    panel.wait("Rows 101 to 125\n of 130")
    panel.click("Next")
    panel.wait("Rows 126 to 150\n of 260")
    panel.click("Last")
    panel.wait("Rows 251 to 260\n of 260")
    elsewhere("DELETE FROM flights WHERE id > 33")
    panel.type("Go to row", "201")
    panel.submit("Go")
    panel.wait("There are no rows so far down.")
    panel.wait("No rows\n of 33")
    panel.click("Previous")
    panel.wait("Rows 26 to 33\n of 33")


@pytest.mark.usefixtures("flights")
def test_what_was_pressed_on_the_page_before_is_no_error(explore, session):
    panel = explore()
    panel.wait(" of 130")
    before = [["value", "20", "1"], ["value", "0", "4"], ["profile", "id"], ["export"]]
    values = {"form": "variable", "target": "found", "replace": False}
    session.run("DELETE FROM flights WHERE id > 10")
    panel.wait("Rows 1 to 10")
    for action in before[:2]:
        panel.panel._heard(panel.panel, {"action": action, "values": {}}, [])
    assert panel.alerts == []
    panel.click("All tables")
    panel.wait("Tables of main")
    for action in before:
        panel.panel._heard(panel.panel, {"action": action, "values": values}, [])
    assert panel.alerts == []


@pytest.mark.usefixtures("flights")
def test_an_export_that_is_stopped_as_it_tells_how_far_it_is_stays_so(explore, monkeypatch):
    variables = {}
    panel = explore(variables=variables)
    model = panel.panel.view.exporting
    clock = iter(range(1000))

    def stopping():
        if now := next(clock):
            model.stop()
        return now

    monkeypatch.setattr(exporting, "monotonic", stopping)
    panel.click("Export ...")
    panel.type("Variable or file", "found")
    panel.submit("Export")
    panel.wait("Given up.")
    until(lambda: not model._worker.is_alive())
    assert not panel.is_busy
    panel.wait_for("Export")
    assert variables == {}


def test_what_could_not_be_counted_is_known_on_the_last_page(explore, session, monkeypatch):
    session.run("CREATE TABLE many(a)")
    session.run(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 27) INSERT INTO many SELECT i FROM n"
    )

    def slow(*_):
        raise AnswerTimeout("too late")

    monkeypatch.setattr(browsing.paging, "count_rows", slow)
    panel = explore("many")
    panel.wait("of more than 25; the server did not count them in 5 s")
    panel.click("Next")
    panel.wait("Rows 26 to 27\n of 27")
    assert "did not count" not in panel.words


@pytest.mark.usefixtures("flights")
def test_a_table_that_was_made_anew_opens_at_the_second_attempt(page, session, elsewhere):
    panel = page("explore")
    panel.wait_for("Explore flights")
    elsewhere("ALTER TABLE flights RENAME COLUMN delay TO late")
    panel.click("Explore flights")
    panel.wait("no such column")
    panel.wait_for("Explore flights")
    panel.click("Explore flights")
    panel.wait("flights in main")
    panel.wait_for("Sort by late")


@pytest.mark.usefixtures("flights")
def test_what_is_gone_is_told_and_the_panel_goes_on(explore, session, elsewhere):
    panel = explore()
    elsewhere("ALTER TABLE flights RENAME COLUMN delay TO late")
    panel.click("Sort by delay")
    panel.wait("no such column")
    panel.wait_for("Refresh")
    panel.click("Refresh")
    until(lambda: panel.find("button", "Sort by late"))
    panel.wait_for("Refresh")
    elsewhere("DROP TABLE flights")
    panel.click("Next")
    panel.wait("no such table: flights")
    panel.wait_for("Refresh")
    panel.click("Refresh")
    panel.wait("there is no table or view 'flights'")
    panel.click("All tables")
    panel.wait("There are no tables yet.")
    elsewhere("CREATE TABLE again(a)")
    panel.click("Refresh")
    until(lambda: panel.find("button", "Explore again"))
    panel.click("Explore again")
    panel.wait("again in main")
    session.close()
    panel.click("Sort by a")
    panel.wait("there is no connection 'main'")


def test_a_column_that_is_gone_is_asked_for_no_more(explore, session):
    session.run("CREATE TABLE stock(id INTEGER PRIMARY KEY, part, price)")
    session.run("INSERT INTO stock VALUES (1, 'bolt', 2), (2, 'nut', 1)")
    panel = explore("stock")
    panel.choose("Column", "price")
    panel.type("Value", "2")
    panel.submit("Add filter")
    panel.wait("price = 2")
    panel.click("Sort by price")
    panel.wait("price ▲")
    session.run("ALTER TABLE stock DROP COLUMN price")
    panel.wait("A column is not there any more: what was sorted or filtered by it no longer is.")
    assert cells(panel, "Rows of stock") == [["1", "bolt"], ["2", "nut"]]
    assert shown_cell(panel) == "%%sql\nSELECT * FROM stock\nORDER BY rowid\nLIMIT 25"


def test_after_an_error_the_table_is_taken_as_it_is_now(explore, session, elsewhere):
    session.run("CREATE TABLE stock(id INTEGER PRIMARY KEY, part, price)")
    panel = explore("stock")
    panel.type("Condition in SQL", "price < 5")
    panel.submit("Apply")
    panel.wait("No row fits the filters.")
    elsewhere("ALTER TABLE stock DROP COLUMN price")
    panel.click("Refresh")
    panel.wait("no such column: price")
    panel.click("Remove price < 5")
    panel.wait("The table is empty.")
    assert panel.alerts == []


def test_fewer_columns_than_were_passed_over(explore, session, elsewhere):
    session.run(f"CREATE TABLE wide({', '.join(f'c{number}' for number in range(50))})")
    panel = explore("wide")
    panel.click("Columns after")
    panel.wait("Columns 41 to 50 of 50.")
    elsewhere("DROP TABLE wide")
    elsewhere("CREATE TABLE wide(a, b)")
    panel.click("Refresh")
    until(lambda: panel.find("button", "Sort by b"))
    assert panel.alerts == []


def test_any_of_a_strict_table_holds_texts_and_numbers(explore, session):
    session.run("CREATE TABLE strict(id INTEGER PRIMARY KEY, a ANY) STRICT")
    session.run("INSERT INTO strict VALUES (1, '5'), (2, 5)")
    panel = explore("strict")
    assert cells(panel, "Rows of strict") == [["1", "'5'"], ["2", "5"]]
    panel.choose("Column", "a")
    panel.type("Value", "'5'")
    panel.submit("Add filter")
    panel.wait("SELECT * FROM strict\nWHERE a = '5'")
    assert cells(panel, "Rows of strict") == [["1", "'5'"]]


@pytest.mark.usefixtures("flights")
def test_a_value_that_sql_cannot_write_is_refused_and_the_panel_goes_on(explore):
    panel = explore()
    panel.choose("Column", "origin")
    panel.type("Value", "a\0b")
    panel.submit("Add filter")
    assert panel.alerts == ["a text with a NUL character cannot be compared here"]
    panel.click("Next")
    panel.wait("Rows 26 to 50")


def test_tables_that_could_not_be_read(session, monkeypatch):
    def unreadable(_database):
        raise ServerError("the server is out of order", status=500)

    with monkeypatch.context() as broken:
        broken.setattr(browsing, "read_schema", unreadable)
        panel = PanelPage(open_panel(session, "explore"))
        panel.wait("the server is out of order")
        assert "The tables of main could not be read." in panel.words
        panel.wait_for("Refresh")
    panel.click("Refresh")
    panel.wait("There are no tables yet.")


@pytest.mark.usefixtures("flights")
def test_a_service_that_is_started_anew(explore):
    panel = explore()
    launcher.stop()
    panel.click("Next")
    panel.wait("Rows 26 to 50")


def test_nothing_is_connected_and_then_it_is(session):
    session.close()
    panel = PanelPage(open_panel(session, "explore"))
    assert "Nothing is connected: %pipedb connect finds the embedded service, or starts it." in panel.text
    panel.click("Connect")
    panel.wait("Tables of main")
    panel.wait("There are no tables yet.")


def test_another_connection(session):
    session.platform.create_database("other", "default")
    session.run("CREATE TABLE mine(a)")
    session.connect("other")
    session.run("CREATE TABLE theirs(a)")
    panel = PanelPage(open_panel(session, "explore"))
    assert panel.options("Connection") == ["main", "other"]
    assert "theirs" in panel.text
    panel.choose("Connection", "main")
    panel.wait("Tables of main")
    panel.click("Explore mine")
    panel.wait("mine in main")
    assert shown_cell(panel) == "%%sql --on main\nSELECT * FROM mine\nORDER BY rowid\nLIMIT 25"


@pytest.mark.usefixtures("flights")
def test_the_saved_faces(explore):
    panel = explore()
    panel.wait(" of 130")
    panel.choose("Rows on a page", "50")
    panel.wait("Rows 1 to 50")
    panel.type("Condition in SQL", "id < 3")
    panel.submit("Apply")
    panel.wait("Rows 1 to 2")
    assert panel.text == (
        "Explore\nflights in main\nid < 3\n"
        "  #  id  origin  delay  tail\n  1  1   LGA     1.5    'NULL'\n  2  2   EWR     3.0    ''\n"
        "Rows 1 to 2 of 2"
    )
    assert "<button" not in panel.html


def test_turning_to_explore_shows_the_tables_that_cells_made(page, session):
    panel = page()
    session.run("CREATE TABLE made_by_a_cell (a)")
    panel.click("Explore")
    panel.wait("made_by_a_cell")


def test_a_text_that_is_not_utf8(explore, session):
    session.run("CREATE TABLE odd(t TEXT)")
    session.run("INSERT INTO odd VALUES (CAST(x'ff61' AS TEXT)), ('ä'), (CAST(zeroblob(600) || x'ff' AS TEXT))")
    panel = explore("odd")
    assert cells(panel, "Rows of odd")[:2] == [["x'ff61' (2 bytes of text, not UTF-8)"], ["ä"]]
    panel.click("Whole value of t in row 3")
    panel.wait("t in row 3: 601 bytes of text, not UTF-8")
    assert panel.find("pre")[0].words == f"x'{'00' * 600}ff'"
    panel.click("Close the value")
    panel.click("Profile t")
    until(lambda: panel.find("table", "Profiles"))
    assert "x'ff61' (not UTF-8)" in cells(panel, "Profiles")[0]
    assert panel.alerts == []


@pytest.mark.usefixtures("flights")
def test_after_a_cell_that_wrote_the_page_is_asked_for_anew(explore, session):
    panel = explore()
    panel.wait(" of 130")
    panel.choose("Column", "origin")
    panel.type("Value", "JFK")
    panel.submit("Add filter")
    panel.wait(" of 43")
    panel.click("Sort by id")
    panel.click("Sort by id")
    panel.wait("ORDER BY id DESC")
    panel.click("Next")
    panel.wait("Rows 26 to 43")
    panel.click("Export ...")
    panel.type("Variable or file", "half a na")
    panel.type("Condition in SQL", "id >")
    seen = Seen(panel)
    session.run("UPDATE flights SET tail = 'new' WHERE id = 3; DELETE FROM flights WHERE id = 6")
    panel.wait("Rows 26 to 42")
    assert cells(panel)[-1] == ["3", "JFK", "4.5", "new"]
    assert "ORDER BY id DESC, rowid\nLIMIT 25 OFFSET 25" in shown_cell(panel)
    panel.wait(" of 42")
    assert not any("counting" in words or "Reading" in words or "Looking" in words for words in seen.words)
    assert seen.forms == {seen.forms_before}
    panel.submit("Export")
    panel.wait("'half a na' is not a name that a variable can have")


class Seen:
    """What a page showed since this was made."""

    def __init__(self, panel):
        self.words = []
        self.forms_before = self._forms(panel)
        self.forms = {self.forms_before}
        panel.panel.observe(lambda _: (self.words.append(panel.words), self.forms.add(self._forms(panel))), "tree")

    @staticmethod
    def _forms(panel):
        return tuple(str(node.attributes.get("key")) for node in panel.find("form"))


@pytest.mark.usefixtures("flights")
def test_a_value_that_is_shown_whole_stays_while_its_row_does(explore, session):
    session.run("UPDATE flights SET tail = :long WHERE id = 2", {"long": "long " * 30})
    panel = explore()
    panel.click("Whole value of tail in row 2")
    panel.wait("tail in row 2: 150 characters")
    session.run("UPDATE flights SET tail = 'other' WHERE id = 1")
    until(lambda: cells(panel)[0][-1] == "other")
    assert panel.find("pre")
    session.run("UPDATE flights SET tail = 'short' WHERE id = 2")
    until(lambda: cells(panel)[1][-1] == "short")
    assert not panel.find("pre")


def test_tables_that_cells_make_are_listed(page, session):
    panel = page("explore")
    panel.wait("There are no tables yet.")
    session.run("CREATE TABLE made(a)")
    panel.wait("made")
    session.run("BEGIN; CREATE TABLE later(a)")
    session.run("COMMIT")
    panel.wait("later")


@pytest.mark.usefixtures("flights")
def test_several_writes_are_looked_at_one_at_a_time_and_the_last_one_counts(explore, session, monkeypatch):
    panel = explore()
    panel.wait(" of 130")
    free, begun, asked = threading.Event(), threading.Event(), []
    read = browsing.read_schema

    def slow(database):
        asked.append(threading.current_thread())
        begun.set()
        assert free.wait(PATIENCE)
        return read(database)

    monkeypatch.setattr(browsing, "read_schema", slow)
    for number in range(5):
        session.run(f"UPDATE flights SET delay = {number} WHERE id = 1")
        assert begun.wait(PATIENCE)
    assert len(asked) == 1
    free.set()
    until(lambda: cells(panel)[0][2] == "4.0")
    until(lambda: not any(one.is_alive() for one in asked))
    assert len(asked) == 2


@pytest.mark.usefixtures("flights")
def test_what_a_person_asks_for_goes_first(explore, session, schemas_read):
    panel = explore()
    session.run(f"CREATE VIEW slow AS {SLOW}")
    panel.click("All tables")
    panel.wait_for("Explore slow")
    until(lambda: is_quiet(panel.panel.view.browsing))  # it looks again after the view was made, perhaps only now
    panel.click("Explore slow")
    panel.wait("Reading slow ...")
    schemas_read.clear()
    session.run("CREATE TABLE quick(a)")
    panel.click("Stop")
    panel.wait_for("Explore quick")
    assert schemas_read == [""]
    assert "Given up." in panel.words


@pytest.mark.usefixtures("flights")
def test_nobody_looks_at_a_panel_that_is_closed_and_then_it_catches_up(explore, session):
    panel = explore()
    panel.wait(" of 130")
    panel.panel._heard(None, {"seen": False, "number": 1}, None)
    session.run("DELETE FROM flights")
    assert not [one for one in threading.enumerate() if "looking again" in one.name]
    assert "Rows 1 to 25" in panel.words
    panel.panel._heard(None, {"seen": True, "number": 2}, None)
    panel.wait("The table is empty.")


@pytest.mark.usefixtures("flights")
def test_what_a_person_asked_wrongly_is_told_also_after_a_cell_that_wrote(explore, session):
    panel = explore()
    panel.wait(" of 130")
    panel.type("Condition in SQL", "1; SELECT 2")
    panel.submit("Apply")
    until(lambda: panel.alerts)
    told = panel.alerts
    session.run("DELETE FROM flights WHERE id > 100")
    panel.wait(" of 100")
    assert panel.alerts == told


@pytest.mark.usefixtures("flights")
def test_a_table_that_a_cell_dropped_is_told_until_it_is_there_again(explore, session):
    panel = explore()
    session.run("DROP TABLE flights")
    panel.wait("there is no table or view 'flights'")
    session.run("CREATE TABLE flights(a)")
    panel.wait("The table is empty.")
    assert panel.alerts == []


@pytest.mark.usefixtures("flights")
def test_profiles_say_that_they_are_of_before(explore, session):
    panel = explore()
    panel.click("Profile delay")
    until(lambda: panel.find("table", "Profiles"))
    assert "Cells wrote since" not in panel.words
    session.run("DELETE FROM flights WHERE id < 100")
    panel.wait("Cells wrote since these profiles were made.")
    panel.click("Profile delay")
    until(lambda: "Cells wrote since" not in panel.words)
    until(lambda: cells(panel, "Profiles")[0][0] == "27")


def test_what_was_written_to_another_connection_is_no_reason_to_look(explore, session, monkeypatch):
    session.platform.create_database("other", "default")
    session.run("CREATE TABLE mine(a)")
    panel = explore("mine")
    panel.wait("The table is empty.")
    session.connect("other")
    outdated = []
    monkeypatch.setattr(panel.panel.view.browsing, "outdate", lambda: outdated.append(session.current))
    session.run("CREATE TABLE mine(a)")
    assert outdated == []
    session.run("INSERT INTO mine VALUES (1)", on="main")
    assert outdated == ["other"]


@pytest.mark.usefixtures("flights")
def test_profiles_of_the_filtered_rows_are_those_of_the_line(explore, shell):
    panel = explore()
    panel.choose("Column", "origin")
    panel.type("Value", "JFK")
    panel.submit("Add filter")
    panel.wait("origin = JFK")
    panel.type("Condition in SQL", "flights.id > 100 /* the late ones */ -- of the day")
    panel.submit("Apply")
    panel.wait("Rows 1 to 10")
    panel.click("Profile delay")
    until(lambda: panel.find("table", "Profiles"))
    assert "Profiles of the filtered rows" in panel.words
    until(lambda: not panel.is_busy)
    line = next(node.words for node in panel.find("code") if node.words.startswith("%pipedb profile"))
    where = "origin = 'JFK' AND (flights.id > 100)"
    assert line == f'%pipedb profile flights --columns delay --where "{where}" --on main'
    assert cells(panel, "Profiles") == [["9", "1", "9", "", "153.0", "171.0", "193.5"]]
    shell("%pipedb connect")
    told = shell(line).value
    assert (told.rows, told["delay"].minimum, told["delay"].quartiles[1]) == (10, 153.0, 171.0)
    panel.click("Remove origin = JFK")
    panel.wait("Rows 1 to 25")
    panel.click("Remove flights.id > 100 /* the late ones */ -- of the day")
    panel.wait(" of 130")
    panel.click("Profile id")
    until(lambda: panel.find("table", "Profiles"))
    assert [row[0] for row in cells(panel, "Profiles")] == ["130"]
