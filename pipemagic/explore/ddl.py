"""CREATE, DROP and ALTER statements: the text of those that create a table, and the changes that a text makes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import takewhile, zip_longest

from pipemagic.explore.query import queries_of
from pipemagic.explore.schema import Relation
from pipemagic.explore.token_tree import nest
from pipemagic.sql import Token, normalize, significant, terminated, unquote

Changes = dict[str, Relation | None]
"""What DDL changes, by names in lower case: the table or view afterwards, None if it no longer exists."""

_CONSTRAINTS = frozenset(["CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN"])
_AFTER_TYPE = frozenset(
    ["CONSTRAINT", "PRIMARY", "NOT", "NULL", "UNIQUE", "CHECK", "DEFAULT", "COLLATE", "REFERENCES", "GENERATED", "AS"]
)


def create_statements(relation: Relation) -> Iterator[str]:
    """Yield each CREATE statement with its semicolon, except those of indexes that belong to a key."""
    for sql in (
        relation.sql,
        *(index.sql for index in relation.indexes),
        *(trigger.sql for trigger in relation.triggers),
    ):
        if sql:
            yield terminated(sql)


def parse_ddl(text: str, known: Mapping[str, Relation]) -> Changes:
    """Return what a CREATE, DROP or ALTER of a table or view changes; empty for any other statement.

    ``known`` are the tables and views before it, by names in lower case.
    """
    tokens = [token for token in significant(text) if token.text != ";"]
    words = [token.text.upper() for token in tokens[:3]]
    temporary = words[1:2] in (["TEMP"], ["TEMPORARY"])
    kind = "".join(words[1 + temporary : 2 + temporary])
    if words[:1] not in (["CREATE"], ["DROP"], ["ALTER"]) or kind not in ("TABLE", "VIEW"):
        return {}
    rest = tokens[2 + temporary :]
    clause = [token.text.upper() for token in rest[:3]]
    only_new = clause == ["IF", "NOT", "EXISTS"]
    rest = rest[3:] if only_new else rest[2:] if clause[:2] == ["IF", "EXISTS"] else rest
    if len(rest) > 2 and rest[1].text == ".":
        temporary = temporary or normalize(rest[0].text) == "temp"
        rest = rest[2:]
    if not rest or not _is_name(rest[0]):
        return {}
    name, key = unquote(rest[0].text), normalize(rest[0].text)
    if words[0] == "DROP":
        return {key: None}
    if words[0] == "ALTER":
        return _alter(known[key], rest[1:]) if key in known else {}
    if only_new and key in known:
        return {}
    columns = _columns(rest[2:]) if len(rest) > 1 and rest[1].text == "(" else ()
    if kind == "VIEW":
        return {key: replace(Relation.of(name, _columns_of_view(rest, columns, known), "view"), temporary=temporary)}
    return {key: replace(Relation.of(name, columns), temporary=temporary)}  # CREATE TABLE ... AS SELECT has none


def apply_ddl(text: str, known: dict[str, Relation]) -> Set[str]:
    """Change ``known``, tables and views by names in lower case, as the statement changes the database.

    Return the names that it changes.
    """
    changes = parse_ddl(text, known)
    for name, relation in changes.items():
        if relation is None:
            known.pop(name, None)
        else:
            known[name] = relation
    return changes.keys()


def _alter(relation: Relation, rest: Sequence[Token]) -> Changes:
    """Return what ALTER TABLE changes. The indexes and triggers of an altered table are unknown."""
    altered = replace(relation, indexes=(), triggers=(), sql=None, parsed=True)
    key, words = relation.name.lower(), [token.text.upper() for token in rest]
    if words[:2] == ["RENAME", "TO"] and len(rest) == 3:
        return {key: None, normalize(rest[2].text): replace(altered, name=unquote(rest[2].text))}
    rest = rest[2:] if words[1:2] == ["COLUMN"] else rest[1:]
    if not rest or words[0] not in ("ADD", "DROP", "RENAME"):
        return {}
    if words[0] == "ADD":
        added = Relation.of(relation.name, _columns(rest)).columns
        return {key: replace(altered, columns=(*relation.columns, *added))}
    old, new = normalize(rest[0].text), () if words[0] == "DROP" else (unquote(rest[-1].text),)
    columns = tuple(
        changed
        for column in relation.columns
        for changed in ([replace(column, name=name) for name in new] if column.name.lower() == old else [column])
    )
    return {key: replace(altered, columns=columns)}


def _columns(rest: Iterable[Token]) -> Iterator[tuple[str, str]]:
    """Yield name and type of each column definition, up to the first constraint of the table."""
    for definition in _between_commas(rest):
        first = definition[0]
        if not _is_name(first) or (first.kind == "word" and first.text.upper() in _CONSTRAINTS):
            return
        yield unquote(first.text), _type(definition[1:])


def _columns_of_view(
    rest: Sequence[Token], listed: Iterable[tuple[str, str]], tables: Mapping[str, Relation]
) -> list[tuple[str, str]]:
    """Return the columns of a view, with the types of the columns that it selects; ``listed`` are new names of them."""
    start = next((at + 1 for at, token in enumerate(rest) if token.word == "AS"), len(rest))
    query = queries_of(nest(rest[start:]).top, tables)[0]
    selected = query.columns if query.is_complete else ()
    names = [name for name, _ in listed]
    types = [type_ for _, type_ in selected[: len(names)]]
    return list(zip_longest(names, types, fillvalue="") if names else selected)


def _is_name(token: Token) -> bool:
    return token.kind in ("word", "quoted", "string")


def _type(rest: Sequence[Token]) -> str:
    """Return the declared type at the beginning of a column definition, without unnecessary blanks."""
    words = takewhile(lambda token: token.kind != "word" or token.text.upper() not in _AFTER_TYPE, rest)
    text = " ".join(token.text for token in words)
    return text.replace(" (", "(").replace("( ", "(").replace(" )", ")").replace(" ,", ",").replace(", ", ",")


def _between_commas(rest: Iterable[Token]) -> Iterator[list[Token]]:
    depth, piece = 0, list[Token]()
    for token in rest:
        depth += (token.text == "(") - (token.text == ")")
        if depth < 0:
            break
        if token.text == "," and depth == 0:
            if piece:
                yield piece
            piece = []
        else:
            piece.append(token)
    if piece:
        yield piece
