"""%%check shows the errors, hints and notes of %%sql: each row of the table of cases, as an answer."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from magic_shell import ipython, make_database, plain_shell, server, service, shell

sys.path.append(str(Path(__file__).parents[1] / "notebook"))
from test_sql_cases import FILES, TABLES, rows

__all__ = ["ipython", "plain_shell", "server", "service", "shell"]

_OTHER = re.compile(
    r"%%?sql\s+-|%config|%pipedb|-- name|BEGIN|COMMIT|ROLLBACK|SAVEPOINT|ATTACH|PRAGMA|VACUUM", re.IGNORECASE
)
"""Matches cells that are no answers: with options, or about the connection itself."""


@pytest.fixture
def lesson(shell, service, request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    url, token = make_database(service, request.node.name)
    monkeypatch.setenv("DB_TOKEN", token)
    shell(f"%pipedb connect {url} --as db --token-env DB_TOKEN")
    shell(TABLES)
    shell("%%exercise answer\nSELECT 'no other answer' AS text_of_nobody")
    schema = shell.ip.magics_manager.registry["PipeMagics"].session.connection().schema
    schema.start()
    assert schema.ready.wait(30)
    return shell


def answers(name):
    """Yield the rows of a file whose cell is one statement that is sent, and nothing happened before it."""
    for row in rows(name):
        text = re.sub(r"\A(%sql |%%sql\n)", "", row["cell"])
        is_answer = ";" not in text and "before" not in row and not _OTHER.search(row["cell"])
        if is_answer and "embedded" in row.get("servers", ["embedded"]) and "nothing was sent" not in str(row):
            yield row, text


def lines(text, *, below=0):
    """Return lines without indents; a place is that many lines ``below`` the one in a text."""
    text = re.sub(r"(?<!query, )\bline (\d+)", lambda match: f"line {int(match[1]) + below}", text)
    return "\n".join(line.strip() for line in text.strip().splitlines())


def part_of(row, part):
    part = re.sub(r"\ANote: (.*)\.\Z", r"\1", part)  # a reason may say it
    part = part.replace("write %sql --confirm DELETE", "write DELETE")  # which would commit
    return lines(part, below=row["cell"].startswith("%sql"))  # the answer is below the line of %%check


@pytest.mark.parametrize("name", FILES)
def test_every_error_and_note_of_a_cell(lesson, name):
    wrong = []
    for row, text in answers(name):
        lesson.names.update(row.get("variables", {}))
        cell = lesson(f"%%check answer\n{text}")
        for variable in row.get("variables", {}):
            lesson.names.pop(variable)
        shown = "\n".join([cell.out, *(bundle["text/plain"] for bundle in cell.shown)])
        parts = [*row.get("notes", []), *row.get("contains", []), row.get("error", "").strip().partition(": ")[2]]
        wrong += [f"{text}\nhas\n{shown}\nwithout\n{part}" for part in parts if part_of(row, part) not in lines(shown)]
        if row.get("notes") == [] and "Note: " in shown:
            wrong.append(f"{text}\nhas a note:\n{shown}")
    assert not wrong, "\n\n".join(wrong)


OPTIONS = [
    "SELECT :nothing_here", "SELECT $1", "SELECT * FROM {nothing_here}", "SELECT * FROM top", "SELECT {{ x }}",
    "SELECT {% if x %} 1", "TRUNCATE TABLE flights", "DESCRIBE SELECT 1", ".read x.sql", "COPY flights TO 'x.csv'",
    "SELECT * FROM 'x.csv'", "SELECT * FROM other_table",
]  # fmt: skip


@pytest.mark.parametrize("text", OPTIONS)
def test_a_hint_names_no_option_that_the_magic_does_not_have(lesson, text):
    lesson("%%sql --save top\nSELECT 1 AS a")
    cell = lesson(f"%%check answer\n{text}")
    (shown,) = [bundle["text/plain"] for bundle in cell.shown]
    assert "\n  Hint: " in shown or "other_table" in text
    for line in shown.splitlines():
        before, option, _ = line.partition(" --")
        assert not option or re.search(r"%(%?sql|pipedb [a-z]+)( |$)", before), line


def test_most_cases_are_answers():
    assert sum(len(list(answers(name))) for name in FILES) > 500
