"""%%exercise, %%check and %check in a shell."""

from __future__ import annotations

import pandas as pd
import pytest
from IPython.core.completer import provisionalcompleter
from magic_shell import ipython, make_database, plain_shell, server, service, shell

from pipemagic.notebook.completion.inspection import inspect_cell
from pipemagic.teaching.exercises import points, results

__all__ = ["ipython", "plain_shell", "server", "service", "shell"]

BIRDS = """%%sql
CREATE TABLE birds (name TEXT, kind TEXT, mass REAL);
INSERT INTO birds VALUES ('Ada', 'owl', 1.5), ('Bo', 'owl', 2.5), ('Cleo <b>', 'wren', NULL)"""

KINDS = """%%exercise kinds
-- task: Count the birds of each kind.
-- points: 2
-- hint: GROUP BY makes groups.
-- hint: count(*) counts rows.
-- hidden: DELETE FROM birds WHERE name = 'Ada'
SELECT kind, count(*) AS n FROM birds GROUP BY kind ORDER BY n DESC"""


@pytest.fixture
def birds(shell, service, request, tmp_path, monkeypatch):
    """A shell in an empty folder, connected to the embedded service (test_checking.py has other servers)."""
    monkeypatch.chdir(tmp_path)
    results.clear()
    url, token = make_database(service, request.node.name)
    monkeypatch.setenv("DB_TOKEN", token)
    shell(f"%pipedb connect {url} --as db --token-env DB_TOKEN")
    shell(BIRDS)
    return shell


def shown(cell):
    """Return the feedback that a cell displays, as text and as HTML."""
    (found,) = [bundle for bundle in cell.shown if "pipemagic-check" in bundle.get("text/html", "")]
    return found["text/plain"], found["text/html"]


def feedback(cell):
    return shown(cell)[0].split("\n")


def test_an_exercise_from_definition_to_the_right_answer(birds, tmp_path):
    defined = birds(KINDS)
    assert feedback(defined) == ["kinds: passed, 2 of 2 points"]
    assert list(defined.value.columns) == ["kind", "n"]
    assert [path.name for path in (tmp_path / "exercises").iterdir()] == ["kinds.json"]

    empty = birds("%%check kinds\n-- Write your SQL here.")
    assert (feedback(empty), empty.value) == (["kinds: no answer yet (2 points)"], None)

    wrong = birds("%%check kinds\nSELECT kind FROM birds")
    assert feedback(wrong)[0].endswith(" of 2 points")
    assert feedback(wrong)[-1] == "Hint 1 of 2: GROUP BY makes groups."
    assert len(wrong.value) == 3

    failed = birds("%%check kinds\nSELECT kind, count(*) AS n\nFROM bird GROUP BY 1")
    assert feedback(failed) == [
        "kinds: not yet (2 points)",
        "- no such table: bird",
        "  line 3:",
        "    FROM bird GROUP BY 1",
        "         ^",
        "  Hint: did you mean birds?",
        "Hint 1 of 2: GROUP BY makes groups.",
        "Hint 2 of 2: count(*) counts rows.",
    ]

    right = birds("%%check kinds\nSELECT kind, count(*) AS n FROM birds GROUP BY kind ORDER BY 2 DESC")
    assert feedback(right) == ["kinds: passed, 2 of 2 points"]
    assert points("kinds") == 2
    assert birds("%check").value.to_dict("list") == {"exercise": ["kinds", "total"], "points": [2, 2], "of": [2, 2]}


def test_an_exercise_without_a_task_is_noted(birds):
    assert birds(KINDS).lines == []
    assert birds(KINDS.replace("task: ", "hint: ")).lines == [
        "kinds has no task: add `-- task: ...`, which students read."
    ]


def test_parameters_are_variables_of_the_notebook(birds):
    birds("%%exercise heavy\nSELECT name FROM birds WHERE mass > 2")
    birds("least = 2")
    assert (
        feedback(birds("%%check heavy\nSELECT name FROM birds WHERE mass > :least"))[0] == "heavy: passed, 1 of 1 point"
    )
    unknown = feedback(birds("%%check heavy\nSELECT name FROM birds WHERE mass > :most"))
    assert unknown[0] == "heavy: not yet (1 point)"
    assert unknown[1:] == [
        "- line 2: :most has no value: name 'most' is not defined",
        "  Hint: assign it first: most = ...",
    ]


def test_an_answer_has_the_notes_of_sql(birds):
    birds("%%exercise owls\nSELECT name FROM birds WHERE kind = 'owl'")
    note = "Note: \"owl\" is not a column; SQLite reads it as the string 'owl': use single quotes."
    passed = birds('%%check owls\nSELECT name FROM birds WHERE kind = "owl"')
    assert feedback(passed) == ["owls: passed, 1 of 1 point", note]
    assert "SQLite reads it as the string &#x27;owl&#x27;" in shown(passed)[1]
    birds("%config PipeMagic.notes = False")
    assert feedback(birds('%%check owls\nSELECT name FROM birds WHERE kind = "owl"')) == ["owls: passed, 1 of 1 point"]


def test_an_answer_cannot_read_a_frame_an_open_transaction_or_a_temporary_table(birds):
    birds("%%exercise owls\nSELECT name FROM birds WHERE kind = 'owl'")
    birds.names["frame"] = pd.DataFrame({"name": ["Ada"]})
    assert feedback(birds("%%check owls\nSELECT name FROM frame"))[-2:] == [
        "  Hint: frame is a DataFrame in the notebook; load it:",
        "  %pipedb load frame --table frame",
    ]
    birds("%sql CREATE TEMP TABLE owls (name)")
    unseen = "The check does not see your temporary tables: owls."
    assert feedback(birds("%%check owls\nSELECT name FROM owls"))[-1] == unseen
    assert unseen not in feedback(birds("%%check owls\nSELECT name FROM birds"))
    birds("%%sql\nBEGIN; INSERT INTO birds VALUES ('Dot', 'owl', 2)")
    unseen = "The check does not see the changes of your open transaction: run COMMIT or ROLLBACK first."
    assert feedback(birds("%%check owls\nSELECT name FROM birds"))[-1] == unseen
    assert len(feedback(birds("%%check owls\nSELECT name FROM birds WHERE kind = 'owl'"))) == 1
    birds("%sql ROLLBACK")


def test_a_check_of_tables_says_that_a_transaction_is_open(birds):
    answer = "UPDATE birds SET mass = 9 WHERE kind = 'owl'"
    birds(f"%%exercise eat\n-- solution: %sql {answer}\n{answer}")
    birds("%check eat --reset")
    unseen = "The check does not see the changes of your open transaction: run COMMIT or ROLLBACK first."
    birds(f"%sql BEGIN; {answer}")
    assert feedback(birds("%check eat")) == ["eat: no answer yet (1 point)", unseen]
    birds("%sql COMMIT")
    assert feedback(birds("%check eat")) == ["eat: passed, 1 of 1 point"]


def test_an_answer_in_a_variable(birds):
    birds("%%exercise owls\nSELECT name FROM birds WHERE kind = 'owl'")
    birds.names["query"] = "SELECT name FROM birds WHERE kind = 'owl'"
    assert feedback(birds("%%check owls\n{query}")) == ["owls: passed, 1 of 1 point"]


def test_a_day_in_a_variable(birds):
    birds("%%sql\nCREATE TABLE sighting (day DATE); INSERT INTO sighting VALUES ('2013-01-01'), ('2013-01-02')")
    birds("%%exercise first\nSELECT count(*) AS n FROM sighting WHERE day = '2013-01-01'")
    birds("import datetime\nday = datetime.datetime(2013, 1, 1)")
    checked = birds("%%check first\nSELECT count(*) AS n FROM sighting WHERE day = :day")
    assert feedback(checked)[0] == "first: passed, 1 of 1 point"


def test_an_answer_without_an_end(birds):
    birds("%%exercise one\nSELECT count(*) AS n FROM birds")
    endless = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) SELECT count(*) AS n FROM c"
    assert feedback(birds(f"%%check one\n{endless}"))[1:] == ["- the answer took longer than the server allows"]
    assert feedback(birds("%%check one\nSELECT 3 AS n"))[0] == "one: passed, 1 of 1 point"


def test_a_solution_in_other_cells(birds):
    defined = birds(
        "%%exercise rename\n-- solution: %%sql --atomic\n--   UPDATE birds SET kind = 'eagle' WHERE name = 'Bo'\n"
        "UPDATE birds SET kind = 'eagle' WHERE name = 'Bo'"
    )
    assert feedback(defined) == ["rename: passed, 1 of 1 point"]
    assert birds("%sql SELECT kind FROM birds WHERE name = 'Bo'").value.kind[0] == "eagle"  # the solution has run
    birds("%sql UPDATE birds SET kind = 'owl' WHERE name = 'Bo'")
    assert feedback(birds("%check rename"))[0] != "rename: passed, 1 of 1 point"
    birds("%sql UPDATE birds SET kind = 'eagle' WHERE name = 'Bo'")
    assert feedback(birds("%check rename")) == ["rename: passed, 1 of 1 point"]


def test_a_wrong_committed_answer_is_reset(birds):
    owls = "%sql UPDATE birds SET mass = mass + 1 WHERE kind = 'owl'"
    birds(f"%%exercise grown\n-- task: x\n-- solution: {owls}\n{owls[5:]}")
    reset = birds("%check grown --reset")
    assert (reset.lines, reset.value) == (["Restored birds (3 rows). Run your answer again."], None)
    assert feedback(birds("%check grown")) == ["grown: no answer yet (1 point)"]
    birds("%sql UPDATE birds SET mass = mass + 2 WHERE kind = 'owl'")
    again = "- to try again, restore birds as before your answer: %check grown --reset"
    assert again in feedback(birds("%check grown"))
    birds("%check grown --reset")
    birds(owls)
    assert feedback(birds("%check grown")) == ["grown: passed, 1 of 1 point"]
    assert "EXERCISE is missing" in birds.fails("%check --reset").out
    birds(KINDS)
    assert "kinds has no tables to restore" in birds.fails("%check kinds --reset").out
    assert "unknown option" in (failed := birds.fails("%%check kinds --reset\nSELECT 1")).out + failed.err


HATCHED = """%%exercise hatched
-- task: {task}
-- solution: %sql INSERT INTO birds VALUES ('Di', 'owl', 0.1)
SELECT count(*) AS n, {more} FROM birds"""


def test_the_cell_of_a_solution_runs_again(birds):
    counted = "%sql SELECT count(*) AS n FROM birds"
    for _ in range(2):
        birds(HATCHED.format(task="x", more="max(name) AS last"))
        again = birds(HATCHED.format(task="another text", more="max(name) AS last, min(mass) AS mass"))
        assert again.lines[0] == "Restored birds (3 rows), as before the solution."
        assert feedback(again) == ["hatched: passed, 1 of 1 point"]
        assert birds(counted).value.n[0] == 4
    birds("%check hatched --reset")
    birds(f"{HATCHED.format(task='x', more='1 AS one')}")
    assert birds(counted).value.n[0] == 4  # the tables were as before it: nothing is restored
    birds("%check hatched --reset")
    birds("%sql INSERT INTO birds VALUES ('Ed', 'owl', 7)")
    assert feedback(birds("%check hatched")) == ["hatched: passed, 1 of 1 point"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("random() AS chance", "returns another result each time it runs"),
        ("missing", "no such column: missing"),
    ],
)
def test_a_refused_solution_leaves_the_tables_as_before(birds, more, message):
    before = birds("%sql SELECT * FROM birds").value
    birds("%sql CREATE TRIGGER hatch AFTER INSERT ON birds BEGIN UPDATE birds SET mass = 9 WHERE mass IS NULL; END")
    assert message in birds.fails(HATCHED.format(task="x", more=more)).out
    pd.testing.assert_frame_equal(birds("%sql SELECT * FROM birds").value, before)
    assert birds("%sql SELECT count(*) AS n FROM sqlite_schema WHERE name = 'hatch'").value.n[0] == 1
    created = birds.fails("%%exercise made\n-- solution: %sql CREATE TABLE made AS SELECT 1 AS a\nSELECT b FROM made")
    assert "no such column: b" in created.out
    assert birds("%sql SELECT count(*) AS n FROM sqlite_schema WHERE name = 'made'").value.n[0] == 0


def test_a_solution_that_has_run_on_a_table_without_copy_is_refused(birds):
    birds(
        "%%sql\nWITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 20000)\n"
        "INSERT INTO birds SELECT 'B' || i, 'wren', i FROM c"
    )
    birds(HATCHED.format(task="x", more="max(name) AS last"))
    failed = birds.fails(HATCHED.format(task="x", more="max(name) AS last"))
    assert "the solution of hatched has run already, and the exercise has no copy of its tables" in failed.out
    assert "run the cells from the top" in failed.out
    assert birds("%sql SELECT count(*) AS n FROM birds").value.n[0] == 20_004


COUNTED = """%%exercise counted
-- task: x
-- variable: counted
-- solution: {}
-- hidden: DELETE FROM birds WHERE name = 'Ada'
SELECT kind, count(*) AS n FROM birds GROUP BY kind"""


def test_a_dataframe_without_a_solution_is_that_of_the_reference(birds):
    birds("%pipedb connect --temporary --as empty")
    hidden = "-- hidden: INSERT INTO bird VALUES ('Eve')"
    birds("%sql --on empty CREATE TABLE bird AS SELECT 'Ada' AS name")
    defined = birds(f"%%exercise names --on empty\n-- variable: names\n{hidden}\nSELECT name FROM bird")
    assert feedback(defined) == ["names: passed, 1 of 1 point"]


def test_a_solution_must_be_right_on_the_hidden_data(birds, tmp_path):
    before = birds("%sql SELECT * FROM birds").value
    birds("import pandas as pd; earlier = 1")
    literal = birds.fails(COUNTED.format("counted = pd.DataFrame({'kind': ['wren', 'owl'], 'n': [1, 2]})"))
    assert "the solution of counted is wrong on the hidden data" in literal.out
    assert not (tmp_path / "exercises").exists()
    birds(COUNTED.format("counted = %sql SELECT kind, count(*) AS n FROM birds GROUP BY kind"))
    assert list(birds.names["counted"].n) == [2, 1]  # not those of the hidden data
    assert birds("%sql SELECT * FROM birds").value.equals(before)
    assert points("counted") == 1
    query = "%%exercise no\n-- solution: x = 1\n-- hidden: DELETE FROM birds\nSELECT name FROM birds"
    assert "hidden data need a reference that makes the state" in birds.fails(query).out


def test_an_exercise_that_cannot_be_reset_is_noted(birds):
    defined = birds("%%exercise one\n-- task: x\n-- solution: 1 + 1\nSELECT name FROM birds")
    assert "%check one --reset will restore nothing: no table changed, or one with too many rows." in defined.out


def test_a_result_without_rows_is_noted(birds):
    note = "none has no rows, so each answer without rows is right: add `-- hidden: ...` with some."
    query = "SELECT name FROM birds WHERE kind = 'auk'"
    assert note in birds(f"%%exercise none\n-- task: x\n{query}").out
    assert note not in birds(f"%%exercise none\n-- hidden: UPDATE birds SET kind = 'auk'\n{query}").out


def test_a_solution_of_python(birds):
    birds("import pandas as pd")
    defined = birds(
        "%%exercise counted\n-- variable: counted\n"
        "-- solution: counted = pd.DataFrame({'kind': ['wren', 'owl'], 'n': [1, 2]})\n"
        "SELECT kind, count(*) AS n FROM birds GROUP BY kind"
    )
    assert feedback(defined) == ["counted: passed, 1 of 1 point"]
    birds.names["other"] = pd.DataFrame({"kind": ["wren"], "n": [1]})
    assert feedback(birds("%check counted other"))[0] != "counted: passed, 1 of 1 point"
    birds.names["other"] = 3
    assert feedback(birds("%check counted other"))[:2] == [
        "counted: not yet (1 point)",
        "- expected a DataFrame, got int",
    ]
    assert feedback(birds("%check counted nothing")) == ["counted: no answer yet (1 point)"]


def test_a_solution_that_does_not_solve_its_exercise_is_an_error(birds, tmp_path):
    failed = birds.fails("%%exercise no\n-- solution: 1 + 1\nDELETE FROM birds")
    assert "the solution of no fails its own check" in failed.out
    assert not (tmp_path / "exercises").exists()


def test_another_connection_and_another_folder(birds, tmp_path):
    birds('%config PipeMagic.exercises = "lessons"')
    birds("%pipedb connect --temporary --as empty")
    birds("%%exercise one --on empty\nSELECT 1 AS a")
    assert (tmp_path / "lessons" / "one.json").exists()
    assert feedback(birds("%%check one --on empty\nSELECT 1 AS a")) == ["one: passed, 1 of 1 point"]


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("%%check\nSELECT 1", "EXERCISE is missing"),
        ("%%check kinds more\nSELECT 1", "too many arguments"),
        ("%%check kind\nSELECT 1", "did you mean kinds?"),
        ("%check kinds", "kinds checks a result, not the state of the database"),
        ("%%exercise kinds\n-- pionts: 2\nSELECT 1", "did you mean points?"),
        ("%%exercise no\n-- variable: v\nDELETE FROM birds", "a DataFrame is compared with the result of a query"),
        ("%%exercise no\n-- variable: v\n-- state: SELECT 1\nSELECT 2", "leave out `-- state:`"),
    ],
)
def test_wrong_lines(birds, cell, message):
    birds(KINDS)
    failed = birds.fails(cell)
    assert message in failed.out + failed.err


def test_feedback_is_escaped_in_html(birds):
    birds('%%exercise names\nSELECT name, 1 AS "<u>" FROM birds')
    cell = birds("%%check names\nSELECT name || '<i>' AS name, 2 AS \"<u>\" FROM birds")
    _, html = shown(cell)
    assert "<i>" not in html
    assert "<u>" not in html
    assert "<b>&" not in html.replace("<b>names", "")
    assert "Cleo &lt;b&gt;" in html


def test_the_magics_of_exercises_complete_and_explain_sql(birds):
    birds(KINDS)
    magics = birds.ip.magics_manager.registry["PipeMagics"]
    assert magics.session.connection().schema.ready.wait(30)

    def offers(text):
        at = text.index("|")
        with provisionalcompleter():
            return [completion.text for completion in birds.ip.Completer.completions(text.replace("|", ""), at)]

    assert "mass" in offers("%%check kinds\nSELECT | FROM birds")
    assert "mass" in offers("%%exercise new\n-- task: x\nSELECT m| FROM birds")
    assert offers("%%check ki|\nSELECT 1") == ["kinds"]
    assert offers("%check ki|") == ["kinds"]
    assert "--on" in offers("%%check kinds -|\nSELECT 1")
    assert {"--on", "--reset"} <= set(offers("%check kinds -|"))
    code = "%%check kinds\nSELECT mass FROM birds"
    assert inspect_cell(magics, code, code.index("mass") + 1) == {"text/plain": "birds.mass: REAL"}
    assert inspect_cell(magics, code, code.index("kinds") + 1) == {"text/plain": "EXERCISE\nthe name of the exercise"}


def test_an_answer_shows_its_times_and_notes_dates_that_stay_text(birds):
    birds("%%sql\nCREATE TABLE egg (at DATETIME);\nINSERT INTO egg VALUES ('2026-03-01 00:00:00'), ('March')")
    first = "SELECT at FROM egg ORDER BY at LIMIT 1"
    for cell in (f"%%exercise first_egg\n{first}", f"%%check first_egg\n{first}"):
        done = birds(cell)
        assert "0 2026-03-01 00:00:00" in done.out.partition("Out[")[2]
        assert type(done.value) is pd.DataFrame
    assert birds("%%check first_egg\nSELECT at FROM egg").lines == [
        "Column at is declared DATETIME but was left as text: row 2 has 'March', which is not an ISO date."
    ]
