"""The values that an INSERT or UPDATE writes, as far as its text and its parameters prove them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from pipemagic.explore.previews import preview_text
from pipemagic.explore.query import QUERY, Group, nest, queries_of
from pipemagic.explore.schema import Relation
from pipemagic.hrana.values import SqlValue
from pipemagic.sql import Token, folded, normalize, parse, unquote

UNKNOWN = object()
"""A value that is not in the text."""

_Items: TypeAlias = Sequence[Token | Group]


class WrittenValues(NamedTuple):
    """The table that a statement changes, and the values of each of its rows by column, folded.

    An UPDATE has one row, of the columns that it sets. An INSERT of a query has one row of UNKNOWN values.
    ``resolves_conflicts`` is True with ON CONFLICT or OR REPLACE.
    """

    verb: str
    relation: Relation
    rows: list[dict[str, object]]
    resolves_conflicts: bool


def written_values(text: str, values: Mapping[str, SqlValue], tables: Sequence[Relation]) -> WrittenValues | None:
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
    assignments = [{column: literal_value(items, values) for column, items in row.items()} for row in rows]
    words = top.words()
    return WrittenValues(statement.verb, relation, assignments, "CONFLICT" in words or "REPLACE" in words[:3])


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
    yield {folded(item.name(0)): item.items[2:] for item in items}


def literal_value(words: _Items, values: Mapping[str, SqlValue]) -> object:
    """Return the value of a literal or a parameter, UNKNOWN for anything else."""
    if len(words) == 2 and isinstance(words[0], Token) and words[0].text in ("-", "+"):
        number = literal_value(words[1:], values)
        if not isinstance(number, int | float):
            return UNKNOWN
        return -number if words[0].text == "-" else number
    if len(words) != 1 or isinstance(words[0], Group):
        return UNKNOWN
    token = words[0]
    if token.word == "NULL":
        return None
    if token.kind == "param":
        return values.get(token.text, UNKNOWN)
    if token.kind == "string":
        return unquote(token.text)
    if token.kind == "blob":
        return bytes.fromhex(token.text[2:-1])
    if token.kind == "number":
        try:
            return float(token.text) if re.search(r"[.eE]", token.text) else int(token.text, 0)
        except ValueError:
            return UNKNOWN
    return UNKNOWN


def shown_value(value: object) -> str:
    """Return a value as short SQL text."""
    return preview_text(value, 40, quotes=True)  # type: ignore[arg-type]
