"""Explain errors of statements by their tables and values: ambiguous columns, wrong types, constraints that failed.

The message then has the row of the statement, and the values that SQLite's own message leaves out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from string import ascii_lowercase
from typing import NamedTuple, TypeAlias

from pipemagic.client.arguments import values_of
from pipemagic.errors import StatementError
from pipemagic.explore.previews import preview_text
from pipemagic.explore.query import TableReference, queries_of, query_at
from pipemagic.explore.schema import ForeignKey, Relation
from pipemagic.explore.sqlite_reference import quote_if_needed
from pipemagic.explore.token_tree import QUERY, Group, cursor_at, nest
from pipemagic.hrana.messages import Stmt
from pipemagic.hrana.values import SqlValue, is_integer
from pipemagic.session.schema_cache import SchemaCache
from pipemagic.sql import Token, character_offset, folded, normalize, parse, significant, unquote
from pipemagic.text import join_words

# -- the values that an INSERT or UPDATE writes, as far as its text and its parameters prove them

_UNKNOWN = object()
"""A value that is not in the text."""

_Items: TypeAlias = Sequence[Token | Group]


class _WrittenValues(NamedTuple):
    """The table that a statement changes, and the values of each of its rows by column, folded.

    An UPDATE has one row, of the columns that it sets. An INSERT of a query has one row of unknown values.
    ``resolves_conflicts`` is True with ON CONFLICT or OR REPLACE.
    """

    verb: str
    relation: Relation
    rows: list[dict[str, object]]
    resolves_conflicts: bool


def _written_values(text: str, values: Mapping[str, SqlValue], tables: Sequence[Relation]) -> _WrittenValues | None:
    """Return the values that a statement writes; None if it changes no table that is known."""
    statement = parse(text)
    if not statement.changed_table:
        return None
    name = normalize(parse(statement.changed_table).tokens[-1].text)  # after the schema
    relation = next((relation for relation in tables if relation.name.lower() == name), None)
    if relation is None:
        return None
    top = nest(statement.body).top
    rows = _assigned(top) if statement.verb == "UPDATE" else _inserted(top, relation)
    assignments = [{column: _literal_value(items, values) for column, items in row.items()} for row in rows]
    words = top.words()
    return _WrittenValues(statement.verb, relation, assignments, "CONFLICT" in words or "REPLACE" in words[:3])


def _inserted(top: Group, relation: Relation) -> Iterator[dict[str, _Items]]:
    """Yield the value of each column in each row of an INSERT; values without tokens where a query selects them."""
    words = top.words()
    start = next((at for at, word in enumerate(words) if word in QUERY), None)
    if start is None:
        return
    column_list = next((item for item in top.items[:start] if isinstance(item, Group)), None)
    if column_list is None:
        names = [column.name for column in relation.visible if not column.generated]
    else:
        names = [item.name(0) for item in column_list.split() if item.is_name(0)]
    columns = [folded(name) for name in names]
    if words[start] != "VALUES":
        yield dict.fromkeys(columns, ())
        return
    for item in top.items[start + 1 :]:
        if isinstance(item, Group):
            yield {column: value.items for column, value in zip(columns, item.split(), strict=False)}
        elif item.text != ",":
            return


def _assigned(top: Group) -> Iterator[dict[str, _Items]]:
    """Yield the values that an UPDATE sets columns to."""
    assigned = queries_of(top, {})[0].clause("SET").split()
    items = [item for item in assigned if item.is_name(0) and item.word(1) == "="]
    groups = [group for item in assigned if (group := item.group(0)) is not None]  # of (a, b) = (1, 2)
    names = {folded(name.name(0)): () for group in groups for name in group.split() if name.is_name(0)}
    yield {**names, **{folded(item.name(0)): item.items[2:] for item in items}}


def _literal_value(words: _Items, values: Mapping[str, SqlValue]) -> object:
    """Return the value of a literal or a parameter, `_UNKNOWN` for anything else."""
    if len(words) == 2 and isinstance(words[0], Token) and words[0].text in ("-", "+"):
        number = _literal_value(words[1:], values)
        if not isinstance(number, int | float):
            return _UNKNOWN
        return -number if words[0].text == "-" else number
    if len(words) != 1 or isinstance(words[0], Group):
        return _UNKNOWN
    token = words[0]
    if token.word == "NULL":
        return None
    if token.kind == "param":
        return values.get(token.text, _UNKNOWN)
    if token.kind == "string":
        return unquote(token.text)
    if token.kind == "blob":
        return bytes.fromhex(token.text[2:-1])
    if token.kind == "number":
        try:
            return float(token.text) if re.search(r"[.eE]", token.text) else int(token.text, 0)
        except ValueError:
            return _UNKNOWN
    return _UNKNOWN


def _shown_value(value: object) -> str:
    """Return a value as short SQL text."""
    return preview_text(value, 40, quotes=True)  # type: ignore[arg-type]


# -- causes

_AMBIGUOUS = re.compile(r"\Aambiguous column name: (?:([^.\n]+)\.)?([^.\n]+)\Z")
_MISMATCH = re.compile(r"\Adatatype mismatch\Z")


def with_cause(error: StatementError, stmt: Stmt, schema: SchemaCache) -> StatementError:
    """Return the error with its cause as the message, if the statement and the tables prove one."""
    cause = _cause(error, stmt, schema)
    return error.replace(message=cause) if cause else error


def _cause(error: StatementError, stmt: Stmt, schema: SchemaCache) -> str:
    message, text = error.message.strip(), stmt.sql or ""
    if match := _AMBIGUOUS.match(message):
        owner, name = (part and part.strip('"') for part in match.groups())
        places = _places(name, text, owner) if error.offset is None else [character_offset(text, error.offset)]
        relations = schema.tables_soon()
        choices = {_choice(name, owner, text, at, relations) for at in places} - {""}
        return choices.pop() if len(choices) == 1 else ""
    if _MISMATCH.match(message):
        values = values_of(stmt)
        for word, limit in _limits(text, values):
            if limit is None or (limit is not _UNKNOWN and not is_integer(limit)):  # type: ignore[arg-type]
                return f"{word} takes an integer, not {_shown_value(limit)}"
        return _rowid(text, values, schema.tables_soon(complete=True))
    if "constraint failed" in message:
        tables = schema.tables_soon(complete=True)
        return _explained_constraint(message, _written_values(text, values_of(stmt), tables), tables)
    return ""


def _places(name: str, text: str, owner: str | None) -> list[int]:
    """Return the position of the name, with or without an owner, for servers that do not report it."""
    words = parse(text).tokens
    alike = [at for at, token in enumerate(words) if normalize(token.text) == name.lower()]
    return [words[at].start for at in alike if at > 0 and (words[at - 1].text == ".") == (owner is not None)]


def _choice(name: str, owner: str | None, text: str, at: int, tables: Sequence[Relation]) -> str:
    """Return the message that lists the visible tables with the column, and the names to write; '' if not certain."""
    sources = query_at(cursor_at(text, at), {table.name.lower(): table for table in tables}).nearest
    matches = [source for source in sources if name.lower() in map(str.lower, source.names)]
    if len(sources) == 2 and all(source in matches or not source.columns for source in sources):
        matches = list(sources)  # one may be a table that the same cell made: the column is in both all the same
    for source in matches:
        if owner is None or source.label.lower() == owner.lower():
            count = sum(_is_same_table(source, other) for other in matches)
            if count > 1:
                return _joined_to_itself(quote_if_needed(source.label), count)
    labels = list(dict.fromkeys(quote_if_needed(source.label) for source in matches))
    if owner is not None or len(labels) < 2 or len(labels) < len(matches):
        return ""
    column = quote_if_needed(name)
    return (
        f"{column} is in {'both ' if len(labels) == 2 else ''}{_listed(labels, 'and')}; "
        f"write {_listed([f'{label}.{column}' for label in labels], 'or')}"
    )


def _is_same_table(first: TableReference, second: TableReference) -> bool:
    """Return True if both are one table without an alias."""
    is_named = first.table is None or first.table.name.lower() == first.label.lower()
    return is_named and first.table is second.table and first.label.lower() == second.label.lower()


def _joined_to_itself(table: str, count: int) -> str:
    aliases = ", ".join(f"{table} AS {letter}" for letter in ascii_lowercase[:count])
    return f"{table} is in the query {'twice' if count == 2 else f'{count} times'}; give each an alias: {aliases}"


def _listed(names: Sequence[str], word: str) -> str:
    return f"{', '.join(names[:-1])} {word} {names[-1]}"


# -- datatype mismatch: LIMIT, OFFSET and INTEGER PRIMARY KEY take only integers


def _limits(text: str, values: Mapping[str, SqlValue]) -> Iterator[tuple[str, object]]:
    """Return each LIMIT and OFFSET with its value."""
    words = parse(text).tokens
    for number, token in enumerate(words):
        if token.word in ("LIMIT", "OFFSET"):
            after = words[number + 2 : number + 3]
            ends = not after or after[0].text in (",", ")", ";") or after[0].word == "OFFSET"
            yield token.word, _literal_value(words[number + 1 : number + 2], values) if ends else _UNKNOWN


def _rowid(text: str, values: Mapping[str, SqlValue], tables: Sequence[Relation]) -> str:
    """Return the message on an INTEGER PRIMARY KEY that gets another value; '' if that is not certain."""
    write = _written_values(text, values, tables)
    relation = None if write is None else write.relation
    key = None if relation is None else _rowid_column(relation)
    if write is None or relation is None or key is None:
        return ""
    ids = [row[folded(key)] for row in write.rows if folded(key) in row]
    column = f"{quote_if_needed(relation.name)}.{quote_if_needed(key)} is an INTEGER PRIMARY KEY and"
    for row, value in enumerate(ids, start=1):
        if value is not _UNKNOWN and not is_integer(value):  # type: ignore[arg-type]
            return f"{f'row {row}: ' if len(ids) > 1 else ''}{column} cannot hold {_shown_value(value)}"
    certain = not relation.triggers and all(limit is not _UNKNOWN for _, limit in _limits(text, values))
    if certain and _UNKNOWN in ids:
        return f"{column} holds only integers"
    return ""


def _rowid_column(relation: Relation) -> str | None:
    """Return the column that is an INTEGER PRIMARY KEY; None if the table has none, or it is not known."""
    if relation.parsed or any(index.origin == "primary key" for index in relation.indexes):
        return None  # every other primary key has an index of its own
    return next(iter(relation.primary_key), None)


# -- constraints that failed

_FAILED = re.compile(r"\A(UNIQUE|NOT NULL|CHECK|FOREIGN KEY) constraint failed(?:: (.+))?\Z", re.DOTALL)
_REFUSING = ("NO ACTION", "RESTRICT")


def _explained_constraint(message: str, write: _WrittenValues | None, tables: Sequence[Relation]) -> str:
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


def _row_with_null(columns: Sequence[str], write: _WrittenValues) -> int:
    """Return the number of the first row that writes NULL to a column; 0 if it is not certain."""
    for column in columns:
        values = [row.get(folded(column), _UNKNOWN) for row in write.rows]
        first = next((at for at, value in enumerate(values) if value is None or value is _UNKNOWN), None)
        if first is not None and values[first] is None:
            return first + 1
    return 0


def _unset(columns: Sequence[str], write: _WrittenValues) -> str:
    """Return that an INSERT leaves out a column."""
    if write.verb != "INSERT" or not write.rows:
        return ""
    matches = [
        column for column in columns if folded(column) in write.rows[0] or write.relation.column(column).generated
    ]
    return "" if matches or not columns else f"the INSERT sets no value for {quote_if_needed(columns[0])}"


def _repeated_values(columns: Sequence[str], write: _WrittenValues) -> str:
    """Return which rows have the same values in the columns of a unique key."""
    keys = {frozenset(map(folded, key)) for key in write.relation.unique_keys}
    if frozenset(map(folded, columns)) not in keys:
        return ""
    numbers: dict[object, int] = {}
    for number, row in enumerate(write.rows, start=1):
        values = [row.get(folded(column), _UNKNOWN) for column in columns]
        if _UNKNOWN in values or None in values:
            continue
        same = numbers.setdefault(tuple((type(value), value) for value in values), number)
        if same < number:
            return f"rows {same} and {number} have {_pairs(columns, values)}"
        if len(write.rows) == 1:
            return f"another row has {_pairs(columns, values)}"
    return ""


def _checked_values(subject: str, write: _WrittenValues) -> str:
    """Return the values of a single row that a condition is about."""
    if len(write.rows) != 1:
        return ""
    words = {folded(unquote(token.text)) for token in significant(subject) if token.kind in ("word", "quoted")}
    columns = [column.name for column in write.relation.columns if folded(column.name) in words]
    values = [write.rows[0].get(folded(column), _UNKNOWN) for column in columns]
    return "" if _UNKNOWN in values else _pairs(columns, values)


def _missing_parent(write: _WrittenValues, tables: Sequence[Relation]) -> str:
    """Return the row that a written row refers to and that does not exist; for several rows, which columns refer."""
    relation = write.relation
    if write.verb == "INSERT":
        refers = [key for key in relation.foreign_keys if any(_may_refer(relation, key, row) for row in write.rows)]
    else:
        if any(folded(key.table) == folded(relation.name) for table in tables for key in table.foreign_keys):
            return ""  # the rows that refer to this table may be the cause
        row = write.rows[0]
        refers = [
            key for key in relation.foreign_keys
            if not {*map(folded, key.columns)}.isdisjoint(row)
            if all(row.get(folded(column), _UNKNOWN) is not None for column in key.columns)
        ]  # fmt: skip
    if len(refers) != 1:
        return ""
    (key,) = refers
    parent = next((table for table in tables if folded(table.name) == folded(key.table)), None)
    targets = key.references or (parent.primary_key if parent is not None else ())
    values = [write.rows[0].get(folded(column), _UNKNOWN) for column in key.columns]
    if len(targets) == len(values) and len(write.rows) == 1 and _UNKNOWN not in values:
        return f"{quote_if_needed(key.table)} has no row with {_pairs(targets, values)}"
    return _reference(relation, key)


def _may_refer(relation: Relation, key: ForeignKey, row: Mapping[str, object]) -> bool:
    """Return False for a row of an INSERT that has NULL in a foreign key, and so needs no other row."""
    defaults = {column: None if relation.column(column).default is None else _UNKNOWN for column in key.columns}
    return all(row.get(folded(column), defaults[column]) is not None for column in key.columns)


def _child(parent: Relation, tables: Sequence[Relation]) -> str:
    """Return the columns that refer to a table, if no others do; a DELETE would remove their rows."""
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
    return join_words([f"{quote_if_needed(column)} = {_shown_value(value)}" for column, value in pairs])
