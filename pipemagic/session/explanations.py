"""Errors of statements in terms of their tables and values: an ambiguous column, a value that is no integer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from pipemagic.client.arguments import values_of
from pipemagic.client.heads import CHANGING, Head, head
from pipemagic.errors import StatementError
from pipemagic.explore.scope import scope_at
from pipemagic.explore.shapes import Shape
from pipemagic.explore.token_tree import group_at
from pipemagic.explore.values import value as shown
from pipemagic.explore.words import written
from pipemagic.hrana.messages import Stmt
from pipemagic.hrana.values import SqlValue, is_integer
from pipemagic.sql import Token, character_offset, tokens, unquote

_AMBIGUOUS = re.compile(r"\Aambiguous column name: ([^.\n]+)\Z")
_MISMATCH = re.compile(r"\Adatatype mismatch\Z")
_UNKNOWN = object()  # a value that the text does not tell


class Tables(Protocol):
    """Return the tables that are known; with ``typed`` those whose columns' types are known, too."""

    def __call__(self, *, typed: bool = False) -> Sequence[Shape]:
        """Return the tables."""
        ...


def explained(error: StatementError, stmt: Stmt, tables: Tables) -> str:
    """Return the message for an error: a clearer one if the statement and its ``tables`` prove one.

    The tables are asked for only where the message depends on them.
    """
    message, text = error.message.strip(), stmt.sql or ""
    if match := _AMBIGUOUS.match(message):
        return _ambiguous(match[1].strip('"'), text, error.offset, tables()) or error.message
    if _MISMATCH.match(message):
        values = values_of(stmt)
        return _limit(text, values) or _rowid(text, values, tables(typed=True)) or error.message
    return error.message


def _ambiguous(name: str, text: str, offset: int | None, tables: Sequence[Shape]) -> str:
    """Say which tables of a query have the column, and what to write; '' if that is not certain."""
    places = _places(name, text) if offset is None else [character_offset(text, offset)]
    found = {_choice(name, text, at, tables) for at in places} - {""}
    return found.pop() if len(found) == 1 else ""


def _places(name: str, text: str) -> list[int]:
    """Return where the name stands alone, for servers that do not say where the error is."""
    words = [token for token in tokens(text) if token.kind not in ("space", "comment")]
    alike = [at for at, token in enumerate(words) if unquote(token.text).lower() == name.lower()]
    return [words[at].start for at in alike if at == 0 or words[at - 1].text != "."]


def _choice(name: str, text: str, at: int, tables: Sequence[Shape]) -> str:
    """Say which tables that can be named at a place have the column; '' if it is not in several."""
    scope = scope_at(group_at(text, at), tables)
    found = [one for one in scope.sources if name.lower() in (column.lower() for column in one.columns)]
    if len(scope.sources) == 2 and all(one in found or not one.columns for one in scope.sources):
        found = list(scope.sources)  # one may be a table that the same cell made: the column is in both all the same
    labels = list(dict.fromkeys(written(one.label) for one in found))
    if len(labels) < 2 or len(labels) < len(found):
        return ""
    column = written(name)
    return (
        f"{column} is in {'both ' if len(labels) == 2 else ''}{_listed(labels, 'and')}; "
        f"write {_listed([f'{label}.{column}' for label in labels], 'or')}"
    )


def _listed(names: Sequence[str], word: str) -> str:
    return f"{', '.join(names[:-1])} {word} {names[-1]}"


# -- datatype mismatch: LIMIT, OFFSET and INTEGER PRIMARY KEY take nothing but integers


def _limit(text: str, values: Mapping[str, SqlValue]) -> str:
    words = [token for token in tokens(text) if token.kind not in ("space", "comment")]
    for number, token in enumerate(words):
        if token.kind == "word" and token.text.upper() in ("LIMIT", "OFFSET"):
            given = _value(words[number + 1 : number + 2], values)
            if given is not _UNKNOWN and not is_integer(given):  # type: ignore[arg-type]
                return f"{token.text.upper()} takes an integer, not {_shown(given)}"
    return ""


def _rowid(text: str, values: Mapping[str, SqlValue], tables: Sequence[Shape]) -> str:
    """Say which value an INTEGER PRIMARY KEY cannot hold; '' if that is not certain."""
    statement = head(text)
    if statement.verb not in CHANGING or not (table := statement.table):
        return ""
    name = unquote(next(iter(_names(table))).text).lower()
    shape = next((one for one in tables if one.name.lower() == name), None)
    key = None if shape is None else rowid_column(shape)
    if shape is None or key is None:
        return ""
    given = _set(statement, key) if statement.verb == "UPDATE" else _inserted(statement, shape, key)
    for row, value in given:
        found = _value(value, values)
        if found is not _UNKNOWN and not is_integer(found):  # type: ignore[arg-type]
            column = f"{written(shape.name)}.{written(key)}"
            return f"{row}{column} is an INTEGER PRIMARY KEY and cannot hold {_shown(found)}"
    return ""


def rowid_column(shape: Shape) -> str | None:
    """Return the column that is an INTEGER PRIMARY KEY; None if the table has none, or it is not known."""
    relation = shape.relation
    if relation is None or relation.without_rowid or len(relation.primary_key) != 1:
        return None
    column = relation.column(relation.primary_key[0])
    return column.name if column.type.upper() == "INTEGER" else None


def _names(table: str) -> Iterator[Token]:
    """Return the last name of a table with its schema."""
    yield [token for token in tokens(table) if token.kind in ("word", "quoted", "string")][-1]


def _inserted(statement: Head, shape: Shape, key: str) -> Iterator[tuple[str, Sequence[Token]]]:
    """Return the value of a column in each row of INSERT ... VALUES, with the row's number if there are several."""
    words = [token.text.upper() if token.kind == "word" else token.text for token in statement.words]
    if "VALUES" not in words:
        return
    start = words.index("VALUES")
    ahead = statement.words[:start]
    opening = next((at for at, token in enumerate(ahead) if token.text == "("), None)
    names = list(shape.columns)
    if opening is not None:
        names = [unquote(part[0].text) for part in _parts(ahead[opening + 1 :])[0] if part]
    place = next((at for at, one in enumerate(names) if one.lower() == key.lower()), None)
    if place is None:
        return
    rest, rows = statement.words[start + 1 :], []
    while rest and rest[0].text == "(":
        parts, length = _parts(rest[1:])
        rows.append(parts)
        rest = rest[length + 1 :]
        if not rest or rest[0].text != ",":
            break
        rest = rest[1:]
    for number, parts in enumerate(rows, start=1):
        if place < len(parts):
            yield (f"row {number}: " if len(rows) > 1 else ""), parts[place]


def _set(statement: Head, key: str) -> Iterator[tuple[str, Sequence[Token]]]:
    """Return the value that an UPDATE gives to a column."""
    words = statement.words
    for at in range(1, len(words) - 2):
        before = words[at - 1].text.upper()
        if before in ("SET", ",") and words[at + 1].text == "=" and unquote(words[at].text).lower() == key.lower():
            value: list[Token] = []
            for token in words[at + 2 :]:
                if token.text == "," or (token.kind == "word" and token.text.upper() in ("WHERE", "FROM", "RETURNING")):
                    break
                value.append(token)
            yield "", value


def _parts(words: Iterable[Token]) -> tuple[list[list[Token]], int]:
    """Split what stands in parentheses at its commas; return the parts, and how many tokens there are up to ``)``."""
    depth, length, parts = 0, 0, [list[Token]()]
    for token in words:
        length += 1
        depth += {"(": 1, ")": -1}.get(token.text, 0) if token.kind == "op" else 0
        if depth < 0:
            break
        if token.text == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts, length


def _value(words: Sequence[Token], values: Mapping[str, SqlValue]) -> object:
    """Return the value of a literal or a parameter, _UNKNOWN for anything else."""
    if len(words) == 2 and words[0].text in ("-", "+") and words[1].kind == "number":
        words = words[1:]
    if len(words) != 1:
        return _UNKNOWN
    token = words[0]
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


def _shown(given: object) -> str:
    return shown(given, 40, quotes=True)  # type: ignore[arg-type]
