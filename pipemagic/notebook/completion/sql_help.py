"""Help on the table, column or function at a position of SQL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pipemagic.explore import sqlite_reference
from pipemagic.explore.ddl import create_statements
from pipemagic.explore.query import Group, TableReference
from pipemagic.explore.schema import Column, Relation
from pipemagic.explore.sqlite_reference import quote_if_needed
from pipemagic.notebook.completion.sql_context import CursorContext, name_at
from pipemagic.sql import Token
from pipemagic.text import escape_controls, plural, text_table

_KINDS = {"virtual": "virtual table", "common table": "common table expression"}
_MOST = 12  # tables with a column of one name that are listed


@dataclass(frozen=True)
class Variable:
    """A variable of the notebook that SQL takes a value from; ``given`` is its name in ``--params``, or ''."""

    name: str
    given: str = ""


def sql_help(text: str, at: int, tables: Iterable[Relation], *, full: bool = False) -> str | Variable:
    """Return the help on the name at an offset, '' if it is unknown, or the variable that is a parameter there.

    ``tables`` are those of the database; ``full`` adds the CREATE statements of a table.
    """
    place = name_at(text, at, tables)
    if place is None:
        return ""
    context, token = place
    if token is not None and token.kind == "param":
        return Variable(token.text[1:])
    if token is not None and context.previous == "{" and context.group.word(context.at + 1) == "}":
        return Variable(token.text)
    help_ = _SqlHelp(context, full=full)
    return (help_.of_name(token) if token is not None else "") or help_.of_enclosing_call()


class _SqlHelp:
    """Help on the names at one position of SQL."""

    def __init__(self, context: CursorContext, *, full: bool) -> None:
        self._context, self._tables, self._query, self._full = context, context.tables, context.query, full
        self._group, self._at = context.group, context.at

    def of_name(self, token: Token) -> str:
        """Return the help on the name at the position, '' if nothing is known."""
        name, following = self._group.name(self._at), self._group.word(self._at + 1)
        if self._context.previous == ".":
            return self._qualified(name)
        if following == "." and (source := self._query.labelled(name)):
            return self._of_source(source)
        if self._context.wants_table:
            return self._of_table(name) or _of_function(name)
        if self._group.group(self._at + 1) is not None and (help_ := _of_function(name)):
            return help_
        if token.kind == "word" and name.upper() in sqlite_reference.KEYWORDS - sqlite_reference.UNRESERVED:
            return ""
        return self._of_column(name) or self._of_table(name)

    def of_enclosing_call(self) -> str:
        """Return the help on the function whose arguments include the position."""
        group = self._group
        while (parent := group.parent) is not None:
            if parent.is_name(group.index - 1) and (help_ := _of_function(parent.name(group.index - 1))):
                return help_
            group = parent
        return ""

    def _qualified(self, name: str) -> str:
        """Return the help on the name after a dot: a column, or a table after the name of a database."""
        if not self._group.is_name(self._at - 2):
            return ""
        if (source := self._context.owner) is not None:
            return column_help(source.table, name)
        return self._of_table(name) or ("" if self._query.nearest else self._of_column(name))

    def _of_column(self, name: str) -> str:
        """Return the help on a column of the tables of the statement, or else of any table."""
        tables: list[Relation | None] = [source.table for source in self._query.visible]
        if not tables:
            named = {word.lower() for word in _names(self._context.cursor.top)}
            relations = [*self._query.common.values(), *self._tables.values()]
            tables = [*([table for table in relations if table.name.lower() in named] or relations)]
        texts = list(dict.fromkeys(help_ for table in tables if (help_ := column_help(table, name))))
        more = [f"... and {len(texts) - _MOST} more tables"] if len(texts) > _MOST else []
        return "\n".join([*texts[:_MOST], *more])

    def _of_table(self, name: str) -> str:
        source = self._query.labelled(name)
        if source is not None:
            return self._of_source(source)
        relation = self._query.common.get(name.lower()) or self._tables.get(name.lower())
        return "" if relation is None else table_help(relation, full=self._full)

    def _of_source(self, source: TableReference) -> str:
        if source.table is None:
            return ""
        alias = "" if source.table.name.lower() == source.label.lower() else source.label
        return table_help(source.table, alias, full=self._full)


def _of_function(name: str) -> str:
    function = sqlite_reference.FUNCTIONS.get(name.lower())
    if function is None:
        return ""
    signature, description, kind = function
    return f"{signature}\n{description}\n{'window function' if kind == 'window' else kind}"


def _names(statement: Group) -> Iterator[str]:
    pending = [statement]
    while pending:
        group = pending.pop()
        yield from (group.name(index) for index in range(len(group.items)) if group.is_name(index))
        pending += [item for item in group.items if isinstance(item, Group)]


def table_help(table: Relation, alias: str = "", *, full: bool = False) -> str:
    """Return the kind, the columns and the keys of a table as text, with ``full`` also its CREATE statements."""
    head = f"{_name(table.name)}: {_KINDS.get(table.kind, table.kind)}, {plural(len(table.visible), 'column')}"
    head += f" (as {_name(alias)})" if alias else ""
    if table.broken:
        head += f"\nthe columns cannot be read: {escape_controls(table.broken)}"
    rows = [(_name(name), type_, _constraints_of(table, name)) for name, type_ in table.typed]
    lines = [f"  {line}" for line in text_table(rows)]
    if full and not table.parsed:
        ddl = [line for statement in create_statements(table) for line in statement.splitlines()]
        lines += ["", *(escape_controls(line.expandtabs()) for line in ddl)]
    return "\n".join([head, *lines])


def column_help(table: Relation | None, name: str) -> str:
    """Return a line on a column: its table, type and constraints; '' if the table has no such column."""
    if table is None:
        return ""
    hidden = [(column.name, column.type) for column in table.columns if column.hidden]
    pair = next((column for column in [*table.typed, *hidden] if column[0].lower() == name.lower()), None)
    if pair is None:
        return ""
    constraints = _constraints_of(table, pair[0])
    parts = filter(None, [escape_controls(pair[1]) or "no declared type", constraints])
    return f"{_name(table.name)}.{_name(pair[0])}: {' '.join(parts)}"


def _constraints_of(table: Relation, name: str) -> str:
    """Return the constraints of a column in the form of its definition."""
    column = next((candidate for candidate in table.columns if candidate.name == name), None)
    return "" if column is None else escape_controls(" ".join(_constraints(table, column)))


def _constraints(relation: Relation, column: Column) -> Iterator[str]:
    if relation.primary_key == (column.name,):
        yield "PRIMARY KEY"
    elif column.key:
        yield f"PRIMARY KEY ({', '.join(map(quote_if_needed, relation.primary_key))})"
    elif not column.nullable:
        yield "NOT NULL"
    if (column.name,) in relation.unique_keys and relation.primary_key != (column.name,):
        yield "UNIQUE"
    if column.default is not None:
        yield f"DEFAULT {' '.join(column.default.split())}"
    if column.generated:
        yield f"GENERATED {column.generated.upper()}"
    for key in relation.foreign_keys:
        targets = dict(zip(key.columns, key.references, strict=False))
        if column.name in key.columns:
            target = targets.get(column.name)
            yield f"REFERENCES {quote_if_needed(key.table)}" + (f"({quote_if_needed(target)})" if target else "")


def _name(name: str) -> str:
    return escape_controls(quote_if_needed(name))
