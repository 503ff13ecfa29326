"""Explain constraints that failed: the row of the statement, and the values that SQLite's message leaves out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pipemagic.explore.schema import ForeignKey, Relation
from pipemagic.explore.sqlite_reference import quote_if_needed
from pipemagic.session.written_values import UNKNOWN, WrittenValues, shown_value
from pipemagic.sql import folded, significant, unquote
from pipemagic.text import join_words

_FAILED = re.compile(r"\A(UNIQUE|NOT NULL|CHECK|FOREIGN KEY) constraint failed(?:: (.+))?\Z", re.DOTALL)
_REFUSING = ("NO ACTION", "RESTRICT")


def explained_constraint(message: str, write: WrittenValues | None, tables: Sequence[Relation]) -> str:
    """Return the message of a constraint with its row or its values; '' if they are not certain.

    A trigger may have written other values, and so may ON CONFLICT; REPLACE may have deleted another row.
    """
    match = _FAILED.match(message)
    if match is None or write is None or write.relation.triggers or write.resolves_conflicts:
        return ""
    kind, subject = match[1], match[2] or ""
    if kind == "FOREIGN KEY":
        detail = _child(write.relation, tables) if write.verb == "DELETE" else _missing_parent(write, tables)
    elif kind == "CHECK":
        detail = _checked_values(subject, write)
    else:
        columns = _columns_of(subject, write.relation)
        if kind == "NOT NULL" and len(write.rows) > 1 and (number := _row_with_null(columns, write)):
            return f"row {number}: {message}"
        detail = _unset(columns, write) if kind == "NOT NULL" else _repeated_values(columns, write)
    return f"{message}; {detail}" if detail else ""


def _columns_of(subject: str, relation: Relation) -> list[str]:
    """Return the columns that a message names as `table.column`; none if some belong to another table."""
    names = {folded(f"{relation.name}.{column.name}"): column.name for column in relation.columns}
    columns = [names.get(folded(part), "") for part in subject.split(", ")]
    return columns if all(columns) else []


def _row_with_null(columns: Sequence[str], write: WrittenValues) -> int:
    """Return the number of the first row that writes NULL to a column; 0 if it is not certain."""
    for column in columns:
        values = [row.get(folded(column), UNKNOWN) for row in write.rows]
        first = next((at for at, value in enumerate(values) if value is None or value is UNKNOWN), None)
        if first is not None and values[first] is None:
            return first + 1
    return 0


def _unset(columns: Sequence[str], write: WrittenValues) -> str:
    """Return that an INSERT leaves out a column."""
    if write.verb != "INSERT" or not write.rows:
        return ""
    matches = [
        column for column in columns if folded(column) in write.rows[0] or write.relation.column(column).generated
    ]
    return "" if matches or not columns else f"the INSERT sets no value for {quote_if_needed(columns[0])}"


def _repeated_values(columns: Sequence[str], write: WrittenValues) -> str:
    """Return which rows have the same values in the columns of a unique key."""
    keys = {frozenset(map(folded, key)) for key in write.relation.unique_keys}
    if frozenset(map(folded, columns)) not in keys:
        return ""
    numbers: dict[object, int] = {}
    for number, row in enumerate(write.rows, start=1):
        values = [row.get(folded(column), UNKNOWN) for column in columns]
        if UNKNOWN in values or None in values:
            continue
        same = numbers.setdefault(tuple((type(value), value) for value in values), number)
        if same < number:
            return f"rows {same} and {number} have {_pairs(columns, values)}"
        if len(write.rows) == 1:
            return f"another row has {_pairs(columns, values)}"
    return ""


def _checked_values(subject: str, write: WrittenValues) -> str:
    """Return the values of a single row that a condition is about."""
    if len(write.rows) != 1:
        return ""
    words = {folded(unquote(token.text)) for token in significant(subject) if token.kind in ("word", "quoted")}
    columns = [column.name for column in write.relation.columns if folded(column.name) in words]
    values = [write.rows[0].get(folded(column), UNKNOWN) for column in columns]
    return "" if UNKNOWN in values else _pairs(columns, values)


def _missing_parent(write: WrittenValues, tables: Sequence[Relation]) -> str:
    """Return the row that a new row refers to and that does not exist; for several rows, which columns refer."""
    if write.verb != "INSERT":
        return ""
    relation = write.relation
    refers = [key for key in relation.foreign_keys if any(_may_refer(relation, key, row) for row in write.rows)]
    if len(refers) != 1:
        return ""
    (key,) = refers
    parent = next((table for table in tables if folded(table.name) == folded(key.table)), None)
    targets = key.references or (parent.primary_key if parent is not None else ())
    values = [write.rows[0].get(folded(column), UNKNOWN) for column in key.columns]
    if len(targets) == len(values) and len(write.rows) == 1 and UNKNOWN not in values:
        return f"{quote_if_needed(key.table)} has no row with {_pairs(targets, values)}"
    return _reference(relation, key)


def _may_refer(relation: Relation, key: ForeignKey, row: Mapping[str, object]) -> bool:
    """Return False for a row of an INSERT that has NULL in a foreign key, and so needs no other row."""
    defaults = {column: None if relation.column(column).default is None else UNKNOWN for column in key.columns}
    return all(row.get(folded(column), defaults[column]) is not None for column in key.columns)


def _child(parent: Relation, tables: Sequence[Relation]) -> str:
    """Return the only columns that refer to a table, whose rows a DELETE would remove; '' if there are others."""
    references = [
        (table, key) for table in tables for key in table.foreign_keys if folded(key.table) == folded(parent.name)
    ]
    if len(references) != 1 or references[0][1].on_delete not in _REFUSING:
        return ""
    return _reference(*references[0])


def _reference(table: Relation, key: ForeignKey) -> str:
    columns = join_words([f"{quote_if_needed(table.name)}.{quote_if_needed(column)}" for column in key.columns])
    return f"{columns} refer{'s' if len(key.columns) == 1 else ''} to {quote_if_needed(key.table)}"


def _pairs(columns: Sequence[str], values: Sequence[object]) -> str:
    pairs = zip(columns, values, strict=True)
    return join_words([f"{quote_if_needed(column)} = {shown_value(value)}" for column, value in pairs])
