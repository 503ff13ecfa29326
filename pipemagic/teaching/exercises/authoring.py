"""Make an exercise from its definition: run the reference, and store what the results must be."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pipemagic import sql
from pipemagic.errors import SessionError
from pipemagic.explore.query import queries_of
from pipemagic.explore.token_tree import Group, nest
from pipemagic.session.cell import Cell, parse_cell
from pipemagic.teaching.classes.progress import ANSWERS_TABLE, PROGRESS_TABLE
from pipemagic.teaching.exercises.arbitrary import Reference, check_definite
from pipemagic.teaching.exercises.checking import compare_all, same, score_of
from pipemagic.teaching.exercises.comparison import Rules
from pipemagic.teaching.exercises.digest import digest, in_any_order
from pipemagic.teaching.exercises.exercise import Definition, Exercise, Kind, Probe, Table, load, pack
from pipemagic.teaching.exercises.running import EMPTY, results_of
from pipemagic.teaching.exercises.state import probes_of
from pipemagic.teaching.exercises.tables import objects, tables_named

if TYPE_CHECKING:
    from pandas import DataFrame

    from pipemagic.session.connection import Connection

_OBJECTS = (
    "SELECT name, type, tbl_name, sql FROM main.sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    f" AND name NOT IN ('{PROGRESS_TABLE}', '{ANSWERS_TABLE}')"  # their rows change at any time
)

_TABLE: dict[Kind, str] = {
    "rows": "SELECT * FROM main.{name}",
    "columns": "SELECT lower(name) AS column_name, replace(upper(type), ' ', '') AS type, \"notnull\" AS not_null,"
    " pk > 0 AS in_key, dflt_value AS default_value, hidden > 1 AS is_generated FROM temp.pragma_table_xinfo({text})",
    "indexes": 'SELECT l."unique" AS is_unique, l.partial AS is_partial, group_concat(lower(coalesce(i.name,'
    " 'expression')) || iif(i.desc, ' desc', '')) AS columns FROM temp.pragma_index_list({text}) AS l,"
    " temp.pragma_index_xinfo(l.name) AS i WHERE i.key GROUP BY l.name",
    "foreign keys": 'SELECT lower("from") AS column_name, lower("table") AS to_table, lower("to") AS to_column'
    " FROM temp.pragma_foreign_key_list({text})",
}
"""The queries on the state of a table, by what they return."""

_NAMES = "SELECT lower(name) AS name, type FROM main.sqlite_schema WHERE lower(name) IN ({})"


MOST_ROWS = 20_000
"""The most rows of a result in the file of an exercise."""


def author(
    definition: Definition, connection: Connection, folder: Path, solve: Callable[[], None] = lambda: None
) -> Exercise:
    """Run the reference of an exercise and return the exercise, which is not saved.

    ``solve`` runs the cell that solves it: before the query of a reference that describes the state after it,
    otherwise at the end. Raise StatementError if the reference or the hidden statements fail, SessionError if the
    hidden data do not change the result of the reference, or if a result is too large.
    """
    cell, solved_first = parse_cell(definition.sql), False
    if definition.variable and (definition.state or not definition.is_query):
        hint = "end the reference with a query and leave out `-- state:`, or leave out `-- variable:`"
        raise SessionError("a DataFrame is compared with the result of a query", hint=hint)
    if definition.hidden and definition.commits and definition.is_query and not definition.state:
        hint = "write statements that solve it as the reference, and a query of the state as `-- state:`"
        raise SessionError("hidden data need a reference that makes the state", hint=hint)
    texts = definition.texts
    tables, existing = tables_named(connection, texts, content=definition.commits), objects(connection)
    if definition.state:
        probes = probes_of(definition.state)
    elif not definition.is_query:
        probes = _changed(connection, cell)
    elif solved_first := definition.commits:
        probes, cell = probes_of([definition.sql]), EMPTY
    else:
        probes = [Probe()]
    before, _ = results_of(connection, "", EMPTY, probes) if probes[0].sql else ([], None)
    if not definition.commits and any(each.changes_rows and each.returns_rows for each in cell.statements):
        probes = [*probes, Probe("result")] if before else probes
    if solved_first:
        solve()
    after, _ = results_of(connection, "", cell, probes)
    if definition.hidden:
        other, _ = results_of(connection, definition.hidden, cell, probes)
        if all(map(same, after, other)):
            hint = "write hidden statements that change rows of the result"
            raise SessionError("the hidden statements do not change the result of the reference solution", hint=hint)
    salts = _salts(definition.name, folder)
    made = definition.exercise([_with_result(*parts, definition) for parts in zip(probes, after, salts, strict=False)])
    if before:
        made = definition.exercise(made.probes, score_of(compare_all(made.probes[: len(before)], before)))
    if made.baseline == 1 and not solved_first:
        raise SessionError(
            "the reference solution changes nothing", hint="check that its condition is true for some rows"
        )
    for data in dict.fromkeys(["", definition.hidden]):
        check_definite(connection, Reference(definition.sql, made.probes, data, solved_first))
    if definition.in_cells and not solved_first:
        solve()
    if definition.commits:
        solved = tables_named(connection, texts, content=True)
        changes = any(table not in solved for table in tables)
        named = {table.name for table in tables_named(connection, texts)}  # without those that change with them
        tables = tuple(
            _without_content(table) if table in solved and (table.name in named or not changes) else table
            for table in tables
        )
    created = sorted(objects(connection) - existing) if definition.commits else ()
    return definition.exercise(made.probes, made.baseline, tables, created)


def _without_content(table: Table) -> Table:
    """Return a table that is only read."""
    return replace(table, definitions=(), content="", sequence=None)


def _with_result(probe: Probe, frame: DataFrame | str, salt: str, definition: Definition) -> Probe:
    """Return a probe with its rules, and its result or the digest of it."""
    if isinstance(frame, str):
        raise SessionError(f"{probe.label}: {frame}", hint="correct the query of this `-- state:` line")
    if len(frame) > MOST_ROWS:
        hint = "compare a summary, such as `-- state: SELECT count(*) AS n, ...`, or a query with fewer rows"
        raise SessionError(
            f"{probe.label or 'the result'} has {len(frame):,} rows; the limit is {MOST_ROWS:,}", hint=hint
        )
    query = sql.split(probe.sql or definition.sql)[-1]
    is_ordered = query.is_query and "ORDER" in query.outer_words  # RETURNING returns rows in any order
    rules = Rules(
        ordered=is_ordered,
        order_by=order_columns(query.text, list(frame.columns)) if is_ordered else (),
        columns_in_order=definition.columns == "in order",
        check_names=definition.names == "checked",
        tolerance=definition.tolerance,
    )
    if definition.feedback == "full":
        return replace(probe, rules=rules, expected=pack(frame))
    columns = tuple(frame.columns)
    fingerprint, unordered = (
        digest(frame, chosen, bytes.fromhex(salt), columns) if chosen else ""
        for chosen in (rules, rules.ordered and in_any_order(rules))
    )
    return replace(
        probe, rules=rules, digest=fingerprint, salt=salt, columns=columns, rows=len(frame), unordered=unordered
    )


def _salts(name: str, folder: Path) -> Iterator[str]:
    """Yield the salts of the exercise's present file, so that it does not change, then new ones."""
    if (folder / f"{name}.json").exists():
        yield from (probe.salt or secrets.token_hex(16) for probe in load(name, folder).probes)
    while True:
        yield secrets.token_hex(16)


def order_columns(query: str, columns: Sequence[str]) -> tuple[int, ...]:
    """Return the indexes of the columns that a query orders by; none if a term is no column of the result."""
    last = queries_of(nest(sql.split(query)[-1].tokens).top, {})[-1]
    expressions = [_texts(item) for item, _ in last.select_list]
    if len(expressions) != len(columns):  # SELECT *
        expressions = []
    names = [sql.normalize(name) for name in columns]
    places = [_column_of(_texts(term), names, expressions) for term in last.clause("ORDER").slice(1).split()]
    return () if None in places else tuple(at for at in places if at is not None)


def _texts(group: Group) -> list[str]:
    """Return the tokens of a group and of those nested in it, in lower case."""
    return [text for item in group.items for text in (_texts(item) if isinstance(item, Group) else [item.text.lower()])]


def _column_of(term: list[str], names: list[str], expressions: list[list[str]]) -> int | None:
    """Return the index of the column of a term of ORDER BY: ``late``, ``f.late``, ``2`` or its expression."""
    while term and term[-1] in ("asc", "desc", "nulls", "first", "last"):
        term = term[:-1]
    if term[-2:-1] == ["collate"]:
        term = term[:-2]
    if len(term) == 1 and term[0].isdigit():
        return int(term[0]) - 1 if 0 < int(term[0]) <= len(names) else None
    name = sql.normalize(term[-1]) if len(term) == 1 or (len(term) == 3 and term[1] == ".") else ""
    if name in names:
        return names.index(name)
    return expressions.index(term) if term in expressions else None


def _changed(connection: Connection, cell: Cell) -> list[Probe]:
    """Return the probes of the state that statements change.

    Other objects are compared by their names and types, so that none is dropped.
    """
    before, after = _objects(connection, EMPTY), _objects(connection, cell)
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    written = {
        sql.normalize(sql.significant(statement.changed_table)[-1].text)
        for statement in cell.statements
        if statement.changes_rows
    }
    indexed = {sql.normalize((after.get(name) or before[name])[1]) for name in changed}
    probes: list[Probe] = []
    for name, (kind, _, _) in sorted(after.items()):
        wanted: Sequence[Kind] = {"table": tuple(_TABLE), "view": ("rows",)}.get(kind, ())
        if name in changed or sql.normalize(name) in written | indexed:
            probes += [Probe(name, _query(what, name), kind=what) for what in wanted]
    if not changed and not probes:
        raise SessionError(
            "the reference solution changes nothing", hint="add `-- state: SELECT ...`, or end with a query"
        )
    names = sorted({name.lower() for name, row in (before | after).items() if row[0] != "index"})
    created = tuple(sorted(set(names).difference(map(str.lower, before))))
    return [*probes, Probe("", _NAMES.format(", ".join(map(_text, names))), kind="objects", created=created)]


def _query(what: Kind, name: str) -> str:
    return _TABLE[what].format(name=sql.quote(name), text=_text(name))


def _objects(connection: Connection, cell: Cell) -> dict[str, tuple[str, str, str]]:
    """Return type, table and SQL of each object of the schema after the statements, by name."""
    (frame,), _ = results_of(connection, "", cell, [Probe("schema", _OBJECTS)])
    if isinstance(frame, str):
        raise SessionError(frame)
    return {name: (kind, table, text) for name, kind, table, text in frame.itertuples(index=False)}


def _text(name: str) -> str:
    return sql.quote(name, "'")
