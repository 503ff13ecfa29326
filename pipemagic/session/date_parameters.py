"""Send a datetime parameter at midnight as a date where it is compared with DATE columns.

``day = :day`` then finds ``2026-07-01`` for ``Timestamp("2026-07-01")``. That is done if every column that the
statement compares the parameter with is declared DATE. Where the statement uses it for something else too, such as a
value to store, it keeps its time there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import msgspec

from pipemagic.client.batch_runner import result_of
from pipemagic.client.transaction import TransactionStatement
from pipemagic.errors import StatementError
from pipemagic.explore.comparisons import compared_parameters, queries_in
from pipemagic.explore.conditions import literal
from pipemagic.explore.ddl import parse_ddl
from pipemagic.explore.query import Query, in_schema
from pipemagic.explore.schema import Relation
from pipemagic.hrana.messages import Entry, Execute, NamedArg, Request, Stmt
from pipemagic.hrana.values import decode
from pipemagic.session.cell import Cell
from pipemagic.session.parameters import Dates
from pipemagic.session.source_map import Edit, SourceMap
from pipemagic.sql import Token, parse, significant, unquote
from pipemagic.sql.type_affinity import is_day_type

_FRESH = "SELECT 1 FROM sqlite_master LIMIT 0"
"""Sent first: SQLite notices that another connection changed the schema only when a statement runs."""

# The new engine of the hosted service takes no schema, which only several tables of one name require.
_COLUMNS = """
SELECT l.schema, x.name, x.type FROM temp.pragma_table_list({name}) AS l, temp.pragma_table_xinfo(
    l.name, CASE WHEN (SELECT count(*) FROM temp.pragma_table_list({name})) > 1 THEN l.schema END
) AS x WHERE x.hidden <> 1
"""


def with_dates(
    cell: Cell, send: Callable[[Sequence[Request]], list[Entry]], earlier: Sequence[TransactionStatement] = ()
) -> Cell:
    """Return a cell as it is sent; ``send`` sends requests to its database.

    ``earlier`` are the statements of the open transaction. Nothing is sent unless a parameter at midnight is compared
    with a column.
    """
    if not cell.dates:
        return cell
    names = _tables_compared(cell)
    tables = tables_of(names, send(requests_for(names))) if names else {}
    relations, stmts, source_maps = dict(tables), list(cell.stmts), list(cell.source_maps)
    uncommitted = any(parse(statement.text).changes_schema for statement in earlier)
    for at, statement in enumerate(cell.statements):
        if cell.dates[at]:
            scope = cell.scopes[at] if cell.scopes else None  # of its frames
            readable = relations if scope is None else {**scope.tables, **relations}
            stmts[at], source_maps[at] = _with_dates(stmts[at], source_maps[at], cell.dates[at], readable)
        if statement.changes_schema:
            uncommitted = True
            _change(relations, cell.sent(at))
        elif statement.keyword == "ROLLBACK" and uncommitted:
            relations.clear()  # the tables were read with the changes that it undoes
    return replace(cell, stmts=tuple(stmts), source_maps=tuple(source_maps), dates=())


def _tables_compared(cell: Cell) -> list[str]:
    """Return the names of the tables with types that decide how the parameters of a cell are sent."""
    names: dict[str, None] = {}
    for at, dates in enumerate(cell.dates):
        queries = queries_in(cell.sent(at), {}) if dates else []
        compared = compared_parameters(queries)
        if any(parameter.text in dates and comparison.declared is not None for parameter, comparison in compared):
            names |= dict.fromkeys(_tables_in(queries))
            for statement in cell.statements[:at]:
                if statement.keyword == "ALTER":
                    names |= dict.fromkeys(unquote(token.text) for token in statement.head[2:5:2])
                elif statement.keyword == "CREATE":  # a view has the types of the tables that it reads
                    names |= dict.fromkeys(_tables_in(queries_in(statement.text, {})))
    return [name for name in names if "\0" not in name]


def _tables_in(queries: Sequence[Query]) -> Iterator[str]:
    sources = (source for query in queries for source in (*query.all_sources, *query.tables_after_in))
    return (source.name for source in sources if source.name)


def requests_for(names: Sequence[str]) -> list[Request]:
    """Return the requests whose entries `tables_of` reads."""
    return [Execute(Stmt(_FRESH)), *(Execute(Stmt(_COLUMNS.format(name=literal(name)))) for name in names)]


def tables_of(names: Sequence[str], entries: Sequence[Entry]) -> dict[str, Relation]:
    """Return the tables and views of some names, with the declared types of their columns."""
    tables: dict[str, Relation] = {}
    for name, entry in zip(names, entries[1:], strict=True):
        try:
            rows = [[str(decode(value) or "") for value in row] for row in result_of(entry).rows]
        except StatementError:  # a broken view: the statement that reads it fails, too
            continue
        for schema in sorted({row[0] for row in rows}, key=lambda schema: (schema == "temp", schema == "main")):
            relation = Relation.of(name, [(column, type_) for owner, column, type_ in rows if owner == schema])
            tables[in_schema(schema.lower(), name.lower())] = tables[name.lower()] = relation
    return tables


def _change(relations: dict[str, Relation], ddl: str) -> None:
    for name, relation in parse_ddl(ddl, relations).items():
        for key in [key for key in relations if key.rpartition("\0")[2] == name]:
            del relations[key]
        if relation is not None:
            relations[name] = relation


def _with_dates(
    stmt: Stmt, source_map: SourceMap, dates: Dates, tables: Mapping[str, Relation]
) -> tuple[Stmt, SourceMap]:
    """Return a statement with the arguments that are compared with DATE columns as dates."""
    by_name: dict[str, list[tuple[Token, str | None]]] = {}
    for parameter, comparison in compared_parameters(queries_in(source_map.text, tables)):
        if parameter.text in dates:
            by_name.setdefault(parameter.text, []).append((parameter, comparison.declared))
    tokens = [token for token in significant(source_map.text) if token.kind == "param"]
    args = {arg.name: arg.value for arg in stmt.named_args or ()}
    edits: list[Edit] = []
    for name, compared in by_name.items():
        places = set(_places_of_dates(compared))
        if places == {token for token in tokens if token.text == name}:
            args[name] = dates[name]
        elif places:  # elsewhere it is no date, so the comparisons get a parameter of their own
            free = f"{name}_date"
            while free in args:
                free += "_"
            args[free] = dates[name]
            edits += [Edit(token.start, token.end, free) for token in places]
    source_map = source_map.edited(sorted(edits)) if edits else source_map
    named_args = [NamedArg(name, value) for name, value in args.items()]
    return msgspec.structs.replace(stmt, sql=source_map.text, named_args=named_args), source_map


def _places_of_dates(types: Sequence[tuple[Token, str | None]]) -> Iterator[Token]:
    """Yield where a parameter is compared with a DATE column; nothing if another one has a column of another type.

    ``types`` are the declared types that the parameter is compared with. A parameter in several comparisons, as in
    ``:day BETWEEN a AND b``, is one place.
    """
    if all(type_ is None or is_day_type(type_) for _, type_ in types):
        yield from (parameter for parameter, type_ in types if type_ is not None)
