"""Refuse references with a result that SQL leaves open: equal rows at a LIMIT, bare columns, random(), today's date.

A reference runs on copies of its tables with their rows in several orders, with other times for 'now', and many times
if it uses random numbers. If the results differ, a right answer may get another result than the reference. A copy has
no keys and indexes, so a reference that cannot run on copies is not tested in this way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from pipemagic import sql
from pipemagic.errors import SessionError, StatementError, TransactionLost
from pipemagic.explore.lint import lint
from pipemagic.explore.schema import Relation
from pipemagic.explore.schema_reader import read_schema
from pipemagic.session.cell import parse_cell
from pipemagic.teaching.exercises.comparison import Comparison, Rules, compare
from pipemagic.teaching.exercises.constructs import uses
from pipemagic.teaching.exercises.exercise import Probe
from pipemagic.teaching.exercises.other_time import at, definitions_at, has_today, stored_as, with_children
from pipemagic.teaching.exercises.running import EMPTY, results_of

if TYPE_CHECKING:
    from pandas import DataFrame

    from pipemagic.session.connection import Connection

_NUMBER = "row_number() OVER ()"
_ORDERS = (_NUMBER, f"{_NUMBER} DESC", f"{_NUMBER} * 40503 % 65537, {_NUMBER}")
"""The orders of the rows: as they are stored, reversed, and mixed."""

_ROWID = {"rowid", "_rowid_", "oid"}
"""Names of what copies do not keep."""

_Copying: TypeAlias = Callable[[Relation, str], str]

_TOLERANCE = 1e-9  # sums of the same numbers in another order differ in their last bits
_CANDIDATES = 8  # columns that are tried as a further term of ORDER BY
_SHOWN = 2

_CHANCE = ("random()", "randomblob()", "gen_random_uuid()", "uuid4()", "uuid7()")  # the last ones on sqld
_RUNS = 64  # two equally likely results are the same in all of them once in 2**64 times

_SCHEMA = re.compile(r"\b(?:pragma_\w+|sqlite_schema|sqlite_master)\b", re.IGNORECASE)
_LATER = [timedelta(days=1), *(timedelta(days=53, hours=3, minutes=37, seconds=41) * n for n in range(1, 8))]
"""Tomorrow, then other weekdays, months and times of day; the last one is a year later."""


class Reference(msgspec.Struct, frozen=True):
    """A reference that has run: its text, the ``probes`` with their rules, and ``data``, the hidden statements.

    ``solved`` is True if the query describes the state after a solution, which has run.
    """

    text: str
    probes: tuple[Probe, ...]
    data: str = ""
    solved: bool = False

    @property
    def writes(self) -> bool:
        """True if it may change rows, so that it may use defaults of columns and triggers."""
        return bool(self.data) or not (self.solved or all(each.only_reads for each in sql.split(self.text)))

    def results(
        self, connection: Connection, copies: Sequence[str] = (), text: str | None = None
    ) -> list[DataFrame | str]:
        """Return the results of the probes with some more statements before the reference."""
        chosen = self.text if text is None else text
        probes = [self._probe(probe, chosen) for probe in self.probes]
        cell = EMPTY if self.solved else parse_cell(chosen)
        return results_of(connection, ";\n".join([self.data, *copies]), cell, probes)[0]

    def _probe(self, probe: Probe, text: str) -> Probe:
        """Return a probe that sees the copy of a table."""
        query = text if self.solved else probe.sql.replace("FROM main.", "FROM ")
        return msgspec.structs.replace(probe, sql=query)


def check_definite(connection: Connection, reference: Reference, now: datetime | None = None) -> None:
    """Raise SessionError if a reference may have another result with the same rows, or at another time."""
    every = connection.with_database(read_schema).relations
    relations = [each for each in every if each.kind != "shadow" and not connection.schema.is_private(each.name)]
    read = _read(reference, relations)
    problem = (
        _of_time(connection, reference, read, relations, now or datetime.now(UTC))
        or _of_chance(connection, reference, _used(reference, read))
        or _of_order(connection, reference, _tables(reference, relations))
        or _of_views(connection, reference, _tables(reference, relations), read)
    )
    if problem is not None:
        raise SessionError(f"{'on the hidden data, ' if reference.data else ''}{problem.message}", hint=problem.hint)


# -- the order of rows


def _of_order(connection: Connection, reference: Reference, tables: Sequence[Relation]) -> SessionError | None:
    """Return the error of a reference with a result that depends on the order of the rows in its tables."""
    for copy in (_view, _hide, _replace):
        try:
            return _of_copies(connection, reference, tables, copy)
        except (StatementError, TransactionLost):  # such as ON CONFLICT without the key, or no temporary tables
            continue
    return None


def _of_views(
    connection: Connection, reference: Reference, tables: Sequence[Relation], read: Sequence[Relation]
) -> SessionError | None:
    """Return the error of a query with a view whose rows depend on the order of the rows in its tables."""
    views = [each for each in read if each.kind == "view"]
    if not any(table.kind == "view" for table in tables) or _ROWID & _names(view.sql or "" for view in views):
        return None
    own = [each for each in read if each.kind == "table" and not each.temporary]
    for copied, copy in (([*views, *own], _define), (own, _replace)):
        try:
            return _of_copies(connection, reference, copied, copy)
        except (StatementError, TransactionLost):
            continue
    return None


def _of_copies(
    connection: Connection, reference: Reference, tables: Sequence[Relation], copy: _Copying
) -> SessionError | None:
    first, *others = (_copies(tables, copy, order) for order in _ORDERS)
    expected = reference.results(connection, first)
    for copies in others:
        if found := _difference(reference, expected, reference.results(connection, copies)):
            return _explained(connection, reference, tables, copy, *found)
    return None


def _view(table: Relation, order: str) -> str:
    """Return statements that hide a table, which is only read, behind a temporary view: it counts as no written row.

    SQLite sorts a subquery only if it has a LIMIT.
    """
    name = sql.quote(table.name)
    return f"CREATE TEMP VIEW {name} AS SELECT * FROM main.{name} ORDER BY {order} LIMIT -1"


def _define(relation: Relation, order: str) -> str:
    """Return statements that define a view again, so that it reads the views that hide its tables."""
    if relation.kind == "view" and relation.sql:
        return relation.sql.replace("CREATE", "CREATE TEMP", 1)
    return _view(relation, order)


def _hide(table: Relation, order: str) -> str:
    """Return statements that hide a table behind a temporary one with its rows in an order."""
    name = sql.quote(table.name)
    return f"CREATE TEMP TABLE {name} AS SELECT * FROM main.{name} ORDER BY {order}"


def _replace(table: Relation, order: str) -> str:
    """Return statements that replace a table by one with its rows in an order, for servers without temporary tables."""
    name = sql.quote(table.name)
    return f"DROP {table.kind} {name};\nCREATE TABLE {name} AS SELECT * FROM {stored_as(table)} ORDER BY {order}"


def _copies(tables: Sequence[Relation], copy: _Copying, order: str) -> list[str]:
    """Return the statements that make copies with their rows in an order."""
    first = []
    if copy is _replace:  # all rows are stored first: the drop of a table also deletes rows that refer to it
        first = ["PRAGMA defer_foreign_keys = ON"]
        first += [f"CREATE TABLE {stored_as(table)} AS SELECT * FROM {sql.quote(table.name)}" for table in tables]
    return [*first, *(copy(table, order) for table in tables)]


def _difference(
    reference: Reference, expected: Sequence[DataFrame | str], actual: Sequence[DataFrame | str]
) -> tuple[Probe, Comparison, DataFrame, DataFrame] | None:
    """Return the first results that differ by the rules of the exercise, with their probe; None if all are equal."""
    for probe, left, right in zip(reference.probes, expected, actual, strict=True):
        if isinstance(left, str) or isinstance(right, str):
            continue
        comparison = compare(left, right, _tolerant(probe.rules))
        if not comparison.passed:
            return probe, comparison, left, right
    return None


def _tolerant(rules: Rules) -> Rules:
    return Rules(
        ordered=rules.ordered, order_by=rules.order_by, check_names=False, columns_in_order=True,
        tolerance=max(rules.tolerance, _TOLERANCE),
    )  # fmt: skip


def _explained(
    connection: Connection,
    reference: Reference,
    tables: Sequence[Relation],
    copy: _Copying,
    probe: Probe,
    comparison: Comparison,
    left: DataFrame,
    right: DataFrame,
) -> SessionError:
    """Return the error for a difference: the rows that are equal for the reference, and what to type."""
    query = probe.sql if probe.sql and not reference.solved else reference.text
    where = f"{probe.label}: " if probe.label else ""
    statement = sql.split(query)[-1]
    is_cut = statement.is_query and "LIMIT" in statement.outer_words
    rows = [*_only_in(left, right), *_only_in(right, left)]
    if is_cut and rows and "ORDER" not in statement.outer_words:
        hint = "add ORDER BY before LIMIT, with terms in which no two rows are equal"
        return SessionError(f"{where}LIMIT without ORDER BY: which rows come is arbitrary", hint=hint)
    if is_cut and rows and (term := _deciding_term(connection, reference, query, tables, copy)):
        names = " and ".join(rows[:_SHOWN]) if len(rows) <= _SHOWN else f"{rows[0]}, {rows[1]} and {len(rows) - 2} more"
        return SessionError(f"{where}rows are equal in ORDER BY at the LIMIT: {names}", hint=f"type {term}")
    if not rows and "ORDER" in statement.outer_words:
        term = _deciding_term(connection, reference, query, tables, copy)
        instead = f"type {term}" if term else "add a term to ORDER BY in which they differ"
        hint = f"{instead}, or return the columns of ORDER BY: rows that are equal in these may come in any order"
        return SessionError(f"{where}the order of rows is arbitrary: they are equal in ORDER BY", hint=hint)
    causes = [*_causes(reference.text, tables)] or ["choose rows and values by terms in which no two rows are equal"]
    first = "; ".join(comparison.messages[:_SHOWN])
    return SessionError(
        f"{where}the result depends on the order in which rows are stored: in another order, {first}",
        hint="\n".join(causes),
    )


def _only_in(left: DataFrame, right: DataFrame) -> list[str]:
    """Return the rows that only the left result has, as texts."""
    others = [repr(row) for row in right.itertuples(index=False, name=None)]
    found = []
    for row in left.itertuples(index=False, name=None):
        if repr(row) in others:
            others.remove(repr(row))
        else:
            found.append(f"({', '.join('NULL' if value is None else repr(value) for value in row)})")
    return found


def _deciding_term(
    connection: Connection, reference: Reference, query: str, tables: Sequence[Relation], copy: _Copying
) -> str:
    """Return an ORDER BY with one more term, which makes the result definite; '' if no column does."""
    if query != reference.text:
        return ""  # of a `-- state:` line
    statement = sql.split(query)[-1]
    at = next(token for token in statement.outer_tokens if token.word == "ORDER")
    later = [token for token in statement.outer_tokens if token.start > at.start]
    end = next((token for token in later if token.word in ("LIMIT", "OFFSET", "WINDOW")), None)
    start = query.rindex(statement.text) if statement.text in query else 0
    stop = start + (end.start if end else len(statement.text.rstrip("; \n")))
    begin = start + at.start
    for column in _candidates(tables):
        terms = f"{query[begin:stop].rstrip()}, {column}"
        text = f"{query[:begin]}{terms} {query[stop:]}"
        try:
            first, *others = (reference.results(connection, _copies(tables, copy, order), text) for order in _ORDERS)
        except (StatementError, TransactionLost):
            continue
        if not any(_difference(reference, first, other) for other in others):
            return " ".join(terms.split())
    return ""


def _candidates(tables: Sequence[Relation]) -> list[str]:
    """Return names of columns in SQL, those of keys first."""
    keys = [name for table in tables for key in table.unique_keys if len(key) == 1 for name in key]
    columns = [column.name for table in tables for column in table.columns]
    return [sql.table_name(name) for name in dict.fromkeys([*keys, *columns])][:_CANDIDATES]


def _causes(text: str, tables: Sequence[Relation]) -> Iterator[str]:
    """Yield what in a reference may depend on the order of rows."""
    known = {table.name.lower(): table for table in tables}
    for statement in sql.split(text):
        yield from (note for note in lint(statement.text, {}, known) if "arbitrary row" in note)
    if uses(text, "GROUP BY"):
        yield "a column that is neither in GROUP BY nor in an aggregate function is that of any row of its group"
    if uses(text, "LIMIT"):
        yield "LIMIT needs an ORDER BY in which no two rows are equal"
    if uses(text, "window function"):
        yield "a window needs an ORDER BY in which no two rows are equal, or rank() instead of row_number()"
    if any(uses(text, f"{name}()") for name in ("group_concat", "string_agg", "json_group_array")):
        yield "group_concat(x) needs an order: group_concat(x ORDER BY x)"
    if uses(text, "max()") or uses(text, "min()"):
        yield "a column beside max() or min() is that of any row with the maximum or minimum, if there are several"


def _tables(reference: Reference, relations: Sequence[Relation]) -> list[Relation]:
    """Return the tables and views that a reference may name; none if it uses rowid, which copies do not keep."""
    texts = [reference.text, *(probe.sql for probe in reference.probes)]
    names = _names(texts)
    if names & _ROWID:
        return []
    return [
        relation
        for relation in relations
        if relation.kind in ("table", "view") and not relation.temporary and sql.normalize(relation.name) in names
    ]


def _names(texts: Iterable[str]) -> set[str]:
    """Return the words and names of SQL."""
    return {sql.normalize(token.text) for text in texts for token in sql.tokens(text) if token.kind != "string"}


def _read(reference: Reference, relations: Sequence[Relation]) -> list[Relation]:
    """Return the relations that a reference may name, and those that it may use by their views and triggers.

    If it deletes rows, also the tables that refer to them.
    """
    texts = [reference.text, reference.data, *(probe.sql for probe in reference.probes)]
    read: list[Relation] = []
    while texts:
        names = {sql.normalize(token.text) for text in texts for token in sql.tokens(text)}
        found = [each for each in relations if each not in read and sql.normalize(each.name) in names]
        if reference.writes:
            found = [each for each in with_children(found, relations) if each not in read]
        read, texts = [*read, *found], [*_stored(found)]
    return read


def _used(reference: Reference, read: Sequence[Relation]) -> list[Relation]:
    """Return the relations with definitions that count: a query uses no defaults and triggers."""
    return [each for each in read if reference.writes or each.kind == "view"]


def _stored(relations: Iterable[Relation]) -> Iterator[str]:
    """Yield the statements that created relations and their triggers."""
    for relation in relations:
        yield relation.sql or ""
        yield from (trigger.sql for trigger in relation.triggers)


# -- chance


def _of_chance(connection: Connection, reference: Reference, relations: Sequence[Relation]) -> SessionError | None:
    """Return the error of a reference with another result each time, from random() in it or in what it may read."""
    texts = [reference.text, reference.data, *(probe.sql for probe in reference.probes), *_stored(relations)]
    if not any(uses(text, name) for text in texts for name in _CHANCE):
        return None
    expected = reference.results(connection)
    for _ in range(_RUNS):
        if _difference(reference, expected, reference.results(connection)):
            hint = "leave out random() and functions like it"
            return SessionError("the reference returns another result each time it runs", hint=hint)
    return None


# -- the time


def _of_time(
    connection: Connection, reference: Reference, read: Sequence[Relation], relations: Sequence[Relation], now: datetime
) -> SessionError | None:
    """Return the error of a reference with another result tomorrow, or within a year.

    On hidden data an answer runs just after the reference. The time at which a solution or an earlier cell ran is in
    the rows that it committed.
    """
    hint = "compare with a fixed date, such as '2024-01-31', or leave the column out of `-- state:`"
    error = SessionError("the result depends on the time at which the reference runs", hint=hint)
    is_stored = reference.solved or any(at(text, now) != text for text in _stored(read))
    if is_stored and not reference.data and f"{now:%Y-%m-%d}" not in reference.text:
        frames = [frame for frame in reference.results(connection) if not isinstance(frame, str)]
        if any(has_today(frame.itertuples(index=False), now) for frame in frames):
            return error
    used = _used(reference, read)
    texts = [reference.text, reference.data, *(probe.sql for probe in reference.probes), *_stored(used)]
    if all(at(text, now) == text for text in texts):
        return None
    first = now.replace(second=0) + timedelta(minutes=1)
    moments = [first, first + timedelta(seconds=30)] if reference.data else [now, *(now + delta for delta in _LATER)]
    probes = tuple(
        probe
        for probe in reference.probes
        if probe.kind in ("", "rows") and not _SCHEMA.search(probe.sql or reference.text)
    )
    wanted = msgspec.structs.replace(reference, probes=probes)
    try:
        expected, *others = (_of_moment(connection, wanted, used, relations, moment) for moment in moments)
    except (StatementError, TransactionLost):
        return None
    return error if any(_difference(wanted, expected, other) for other in others) else None


def _of_moment(
    connection: Connection,
    reference: Reference,
    used: Sequence[Relation],
    relations: Sequence[Relation],
    moment: datetime,
) -> list[DataFrame | str]:
    """Return the results of a reference that runs at another moment."""
    probes = tuple(msgspec.structs.replace(probe, sql=at(probe.sql, moment)) for probe in reference.probes)
    data = ";\n".join([*definitions_at(used, relations, moment), at(reference.data, moment)])
    moved = msgspec.structs.replace(reference, text=at(reference.text, moment), probes=probes, data=data)
    return moved.results(connection)
