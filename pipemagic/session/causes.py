"""Explain errors of statements by their tables and values: ambiguous columns, values that a column cannot hold."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from string import ascii_lowercase

from pipemagic.client.arguments import values_of
from pipemagic.errors import StatementError
from pipemagic.explore.query import TableReference, cursor_at, query_at
from pipemagic.explore.schema import Relation
from pipemagic.explore.sqlite_reference import quote_if_needed
from pipemagic.hrana.messages import Stmt
from pipemagic.hrana.values import SqlValue, is_integer
from pipemagic.session.constraints import explained_constraint
from pipemagic.session.schema_cache import SchemaCache
from pipemagic.session.written_values import UNKNOWN, literal_value, shown_value, written_values
from pipemagic.sql import character_offset, folded, normalize, parse

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
            if limit is None or (limit is not UNKNOWN and not is_integer(limit)):  # type: ignore[arg-type]
                return f"{word} takes an integer, not {shown_value(limit)}"
        return _rowid(text, values, schema.tables_soon(complete=True))
    if "constraint failed" in message:
        tables = schema.tables_soon(complete=True)
        return explained_constraint(message, written_values(text, values_of(stmt), tables), tables)
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
            yield token.word, literal_value(words[number + 1 : number + 2], values) if ends else UNKNOWN


def _rowid(text: str, values: Mapping[str, SqlValue], tables: Sequence[Relation]) -> str:
    """Return the message on an INTEGER PRIMARY KEY that gets another value; '' if that is not certain."""
    write = written_values(text, values, tables)
    relation = None if write is None else write.relation
    key = None if relation is None else rowid_column(relation)
    if write is None or relation is None or key is None:
        return ""
    ids = [row[folded(key)] for row in write.rows if folded(key) in row]
    column = f"{quote_if_needed(relation.name)}.{quote_if_needed(key)} is an INTEGER PRIMARY KEY and"
    for row, value in enumerate(ids, start=1):
        if value is not UNKNOWN and not is_integer(value):  # type: ignore[arg-type]
            return f"{f'row {row}: ' if len(ids) > 1 else ''}{column} cannot hold {shown_value(value)}"
    certain = not relation.triggers and all(limit is not UNKNOWN for _, limit in _limits(text, values))
    if certain and UNKNOWN in ids:
        return f"{column} holds only integers"
    return ""


def rowid_column(relation: Relation) -> str | None:
    """Return the column that is an INTEGER PRIMARY KEY; None if the table has none, or it is not known."""
    if relation.parsed or any(index.origin == "primary key" for index in relation.indexes):
        return None  # every other primary key has an index of its own
    return next(iter(relation.primary_key), None)
