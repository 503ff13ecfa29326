"""Notes below a cell, in a shell."""

from __future__ import annotations

from decimal import Decimal
from types import SimpleNamespace

import pytest

from pipemagic.hrana.messages import Stmt
from pipemagic.notebook.notes import notes_on
from pipemagic.sql import split

TABLE = """%%sql
CREATE TABLE flight (id INTEGER PRIMARY KEY, carrier TEXT, delay INTEGER, seats INTEGER);
INSERT INTO flight VALUES (1, 'AA', 7, 2), (2, 'UA', 5, 2)
"""
DIVIDED = "Note: delay / seats divides integers and drops the fraction: write 1.0 * delay / seats."


@pytest.fixture
def flight(db):
    connection = db.ip.magics_manager.registry["PipeMagics"].session.connection()
    connection.schema.start()
    db(TABLE)
    assert connection.schema.ready.wait(30)
    return db


def notes(cell) -> list[str]:
    """Return the notes of a cell, which are shown last."""
    found = [data for data in cell.shown if "pipemagic-notes" in data.get("text/html", "")]
    assert found in ([], cell.shown[-1:])
    return found[0]["text/plain"].split("\n") if found else []


def test_a_note_is_shown_below_the_result(flight):
    cell = flight("%sql SELECT delay / seats AS x FROM flight")
    assert cell.value["x"].tolist() == [3, 2]
    assert notes(cell) == [DIVIDED]
    (shown,) = cell.shown
    assert shown["text/html"].count("<div") == 2  # of the notes, and around them
    assert notes(flight("%sql SELECT 1")) == []  # it is not shown again


def test_notes_of_several_statements(flight):
    cell = flight('%%sql\nSELECT 1;\nSELECT id FROM flight WHERE carrier = NULL OR carrier = "<b>";\nSELECT 5 / 2')
    assert notes(cell) == [
        "Note on statement 2: \"<b>\" is not a column; SQLite reads it as the string '<b>': use single quotes.",
        "Note on statement 2: = NULL is never true: write IS NULL.",
        "Note on statement 3: 5 / 2 divides integers and drops the fraction: write 1.0 * 5 / 2.",
    ]
    assert "<b>" not in cell.shown[-1]["text/html"]


def test_the_same_note_once_in_a_loop(flight):
    flight.names["n"] = 0
    cell = flight("for _ in range(3):\n    x = %sql SELECT delay / seats FROM flight WHERE id > :n")
    assert notes(cell) == [DIVIDED]
    assert notes(flight("%sql SELECT delay / :n FROM flight")) == [
        "Note: a division by :n, which is 0, is NULL: SQLite raises no error."
    ]


@pytest.mark.parametrize("setting", ["notes = False", "quiet = True"])
def test_a_setting_turns_notes_off(flight, setting):
    flight(f"%config PipeMagic.{setting}")
    assert notes(flight("%sql SELECT delay / seats FROM flight")) == []


def test_no_notes_with_quiet_or_if_nothing_ran(flight):
    assert notes(flight("%sql --quiet SELECT delay / seats FROM flight")) == []
    assert notes(flight("%sql --explain SELECT delay / seats FROM flight")) == []
    assert notes(flight.fails("%sql SELECT delay / seats, nope FROM flight")) == []


def test_notes_send_no_request(flight):
    def requests() -> int:
        return int(flight("%pipedb wire").value.loc["db", "round trips"])

    before = requests()
    assert notes(flight("%sql SELECT delay / seats FROM flight")) == [DIVIDED]
    assert requests() == before + 1


def test_a_failure_of_the_notes_keeps_the_result(flight, monkeypatch, caplog):
    monkeypatch.setattr("pipemagic.notebook.magics.notes_on", lambda *_: 1 / 0)
    assert flight("%sql SELECT (delay) AS delay FROM flight ORDER BY id").value["delay"].tolist() == [7, 5]
    assert "ZeroDivisionError" in caplog.text


def test_a_limited_part_of_a_long_cell_is_parsed(monkeypatch):
    read = []
    monkeypatch.setattr("pipemagic.explore.lint.lint", lambda text, *_, **__: read.append(text) or [])
    for text, most in (("SELECT 1 / 2;", 50), (f"SELECT 1 / 2, '{'x' * 3_000}';", 6), ("SELECT 1;", 0)):
        script = text * 2_000
        statements = split(script)
        cell = SimpleNamespace(
            statements=statements,
            stmts=[Stmt(statement.text) for statement in statements],
            before=0,
            total=2_000,
            dates=(),
        )
        read.clear()
        assert list(notes_on(cell, SimpleNamespace(tables=[]), {})) == []
        assert len(read) == most


def test_a_number_that_is_compared_with_text(flight):
    flight.names["least"] = Decimal("9.50")
    cell = flight("%sql SELECT id FROM flight WHERE carrier > :least")
    assert notes(cell) == [
        "Note: carrier is declared TEXT and :least is a number, so > compares them as text: "
        "write CAST(carrier AS REAL) > :least if each text is a number such as 1234.5."
    ]
    assert notes(flight("%sql SELECT id FROM flight WHERE delay > :least")) == []
