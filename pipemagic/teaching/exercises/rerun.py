"""Run the cells of an answer again on hidden data: of an answer that commits, or that makes a DataFrame.

The tables that the exercise names are copied first, and restored afterwards, as are the variables and the current
connection. Other tables that the cells change, and files that they write, stay as these leave them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pipemagic import sql
from pipemagic.errors import SessionError
from pipemagic.hrana.messages import Stmt
from pipemagic.session.cell import parse_cell
from pipemagic.teaching.exercises.checking import Check, score_on
from pipemagic.teaching.exercises.running import EMPTY, results_of, run_all
from pipemagic.teaching.exercises.tables import MOST_ROWS, objects, put_back, tables_named

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from pipemagic.client.database import Database
    from pipemagic.session.connection import Connection

_CHECK = re.compile(r"^[ \t]*%%?check\b.*\n?", re.MULTILINE)


def answers_in(history: Sequence[str], name: str, after: str) -> list[list[str]]:
    """Return the cells that may be the answer to an exercise: those since its last check, and all of its attempts.

    ``history`` are the cells up to the check, with that one. ``after`` is the text of the teacher's cell before the
    answer, or the line of its check; without it, only the last cell is the answer.
    """
    own = _checked(name)
    earlier, last = list(history[:-1]), list(history[-1:])
    found = [at for at, cell in enumerate(earlier) if _is(cell, after)]
    start = found[-1] + 1 if found else max(0, len(earlier) - 1) if after else 0
    checks = [at for at, cell in enumerate(earlier) if at >= start and own.search(cell)]
    resets = [at for at in checks if "--reset" in earlier[at]]
    starts = [checks[-1] + 1 if checks else start, resets[-1] + 1 if resets else start]
    made = [[_CHECK.sub("", cell) for cell in [*earlier[first:], *last]] for first in dict.fromkeys(starts)]
    return [[cell for cell in cells if cell.strip()] for cells in made]


def _checked(name: str) -> re.Pattern[str]:
    """Return a pattern of the check of an exercise, and of the rest of its line."""
    return re.compile(rf"^[ \t]*%%?check[ \t]+{re.escape(name)}(?![\w-])(.*)", re.MULTILINE)


def _is(cell: str, after: str) -> bool:
    """Return True if a cell is the teacher's cell, or contains the line of its check."""
    if after.startswith(("%check ", "%%check ")):
        return re.search(rf"^[ \t]*{re.escape(after)}(?![\w-])", cell, re.MULTILINE) is not None
    return cell.strip() == after.strip()


def hidden_score_of_cells(check: Check, *, reference: str, data: str, after: str = "") -> float:
    """Return the best score of the cells of an answer on hidden data, from 0 to 1; 0 if they fail there."""
    best, last = 0.0, check.history[-1] if check.history else ""
    names = _checked(check.exercise.name).findall(last)
    variable = next((word for word in (names or [""])[-1].split() if word.isidentifier()), check.exercise.variable)
    for cells in answers_in(check.history, check.exercise.name, after):
        if cells and best < 1:
            best = max(best, score_of_cells(check, cells, reference=reference, data=data, variable=variable))
    return best


def score_of_cells(check: Check, cells: Sequence[str], *, reference: str, data: str, variable: str) -> float:
    """Return the score of cells on hidden data, of a ``variable`` or the state.

    Raise SessionError if a table is too large to be copied.
    """
    from IPython.core.getipython import get_ipython

    exercise, connection, shell = check.exercise, check.connection, get_ipython()
    if connection is None or shell is None:
        return 0
    queries = [probe.sql for probe in exercise.probes if probe.kind != "objects"]  # which has the names of all tables
    texts = [data, reference, *queries, *map(_name, exercise.tables)]
    with _restored(connection, texts), _same_variables(shell):
        put_back(connection, [table for table in exercise.tables if table.definitions], exercise.created)
        _commit(connection, data)
        expected, _ = results_of(connection, "", parse_cell(reference), exercise.probes)
        if not all(_runs(shell, cell) for cell in cells):
            return 0
        if variable:
            return score_on(exercise, expected, [shell.user_ns.get(variable)])
        return score_on(exercise, expected, results_of(connection, "", EMPTY, exercise.probes)[0])


def _name(table: object) -> str:
    return sql.quote(getattr(table, "name", ""))


@contextmanager
def _restored(connection: Connection, texts: Sequence[str]) -> Iterator[None]:
    """Restore the tables that texts name at the end, and drop new ones."""
    saved, existing = tables_named(connection, texts, content=True), objects(connection)
    if large := [table.name for table in saved if not table.definitions]:
        hint = "use a smaller table, or leave out `-- hidden:`"
        raise SessionError(
            f"{large[0]} has more than {MOST_ROWS:,} rows: an answer in other cells cannot be run on hidden data",
            hint=hint,
        )
    try:
        yield
    finally:
        put_back(connection, saved, objects(connection) - existing)


@contextmanager
def _same_variables(shell: InteractiveShell) -> Iterator[None]:
    """Restore the variables and the current connection at the end."""
    from pipemagic.notebook.magics import PipeMagics

    session = shell.magics_manager.registry[PipeMagics.__name__].session
    before, current = dict(shell.user_ns), session.current
    try:
        yield
    finally:
        for name in shell.user_ns.keys() - before.keys():
            del shell.user_ns[name]
        shell.user_ns.update(before)
        session.current = current


def _commit(connection: Connection, data: str) -> None:
    """Run and commit the hidden statements."""

    def run(database: Database) -> None:
        other = database.sibling()
        try:
            with other.open_stream() as stream:
                run_all(stream, [Stmt(statement.text) for statement in sql.split(data)])
        finally:
            other.close()

    connection.with_database(run)


def _runs(shell: InteractiveShell, cell: str) -> bool:
    """Run a cell without its output; return False if it fails."""
    from IPython.utils.capture import capture_output

    with capture_output():
        return bool(shell.run_cell(cell, store_history=False).success)  # type: ignore[no-untyped-call]
