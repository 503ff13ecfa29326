"""What can be named at a place of a statement: its tables under their aliases, common table expressions, subqueries.

Statements are unfinished while they are typed, so nothing here is refused: what cannot be read is passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pipemagic.explore.shapes import Shape, TypedColumns
from pipemagic.explore.token_tree import Group
from pipemagic.explore.words import KEYWORDS
from pipemagic.sql import Token

_DEPTH = 12  # levels of queries in queries that are looked into
COMPOUND = ("UNION", "INTERSECT", "EXCEPT")
QUERY = ("SELECT", "WITH", "VALUES")
AFTER_SOURCES = frozenset(["WHERE", "GROUP", "HAVING", "WINDOW", "ORDER", "LIMIT", "SET", "RETURNING", *COMPOUND])
_JOINED = frozenset(["FROM", "JOIN"])
_NOT_ALIAS = KEYWORDS


@dataclass(frozen=True)
class Source:
    """Something that has columns under a name: ``label`` is its alias, or its own name.

    ``shape`` is the table, None if it is not known; ``derived`` marks a subquery, which is no table.
    """

    label: str
    typed: TypedColumns
    shape: Shape | None = None
    derived: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(name for name, _ in self.typed)


@dataclass(frozen=True)
class Scope:
    """What a place sees: ``sources`` of its own query, those of the queries around it, and all tables by name."""

    sources: tuple[Source, ...]
    outer: tuple[Source, ...]
    tables: Mapping[str, Shape]
    common: tuple[Shape, ...]

    def labelled(self, label: str) -> Source | None:
        """Find the source of that alias or name: the inner one goes first."""
        wanted = label.lower()
        return next((one for one in [*self.sources, *self.outer] if one.label.lower() == wanted), None)


def scope_at(inside: Group, tables: Iterable[Shape]) -> Scope:
    """Give what the cursor in ``inside`` sees of its statement."""
    known = {shape.name.lower(): shape for shape in tables}
    path = list(_path(inside))
    common: dict[str, Shape] = {}
    for group in reversed(path):  # from the outside in
        common.update(common_tables(group, {**known, **common}, 0))
    visible = {**known, **common}
    levels = [sources_of(_block(group), visible, 0) for group in path]
    filled = [level for level in levels if level]
    own = filled[0] if filled else []
    return Scope(tuple(own), tuple(one for level in filled[1:] for one in level), known, tuple(common.values()))


def _path(group: Group | None) -> Iterator[Group]:
    while group is not None:
        yield group
        group = group.parent


def _block(group: Group) -> Group:
    """Give the SELECT of a compound query in which the cursor stands, or the part of the group that holds it."""
    at = group.cursor if group.cursor is not None else _index_of_cursor(group)
    if at is None:
        return group
    cuts = [index for index in range(len(group.items)) if group.word(index) in COMPOUND]
    start = max((cut + 1 for cut in cuts if cut < at), default=0)
    end = min((cut for cut in cuts if cut >= at), default=len(group.items))
    return Group(group.items[start:end])


def _index_of_cursor(group: Group) -> int | None:
    return next((index for index, item in enumerate(group.items) if isinstance(item, Group) and _holds(item)), None)


def _holds(group: Group) -> bool:
    return group.cursor is not None or any(isinstance(item, Group) and _holds(item) for item in group.items)


def common_tables(group: Group, tables: Mapping[str, Shape], depth: int = 0) -> dict[str, Shape]:
    """Return the common table expressions at the beginning of a query, by their names in lower case."""
    found: dict[str, Shape] = {}
    if depth > _DEPTH:
        return found
    index = next((at for at in range(min(len(group.items), 4)) if group.word(at) == "WITH"), None)
    if index is None:
        return found
    index += 2 if group.word(index + 1) == "RECURSIVE" else 1
    while group.is_name(index):
        name, index = group.name(index), index + 1
        named = group.group(index)
        if named is not None:
            index += 1
        while group.word(index) in ("AS", "NOT", "MATERIALIZED"):
            index += 1
        body = group.group(index)
        names = _names(named) if named else ()
        columns: TypedColumns = ()
        if body is not None:
            columns = columns_of(body, {**tables, **found}, depth + 1)
            index += 1
        names, types = names or tuple(name for name, _ in columns), tuple(type_ for _, type_ in columns)
        if body is not None or names:
            found[name.lower()] = Shape(name, "common table", names, types=types)
        if group.word(index) != ",":
            break
        index += 1
    return found


def _names(group: Group) -> tuple[str, ...]:
    return tuple(group.name(index) for index in range(len(group.items)) if group.is_name(index))


def sources_of(block: Group, tables: Mapping[str, Shape], depth: int = 0) -> list[Source]:
    """Return the tables that a query names after FROM, JOIN, UPDATE or INTO."""
    found: list[Source] = []
    index, listing = 0, False
    while index < len(block.items):
        word = block.word(index)
        if word in _JOINED or word == "INTO" or (word == "UPDATE" and block.word(index - 1) not in ("DO", "FOR", "ON")):
            if word == "UPDATE" and block.word(index + 1) == "OR":
                index += 2
            listing = word in _JOINED
            index = _read_source(block, index + 1, tables, depth, found)
        elif word == "," and listing:
            index = _read_source(block, index + 1, tables, depth, found)
        else:
            if word in AFTER_SOURCES:
                listing = False
            index += 1
    return found


def _read_source(block: Group, index: int, tables: Mapping[str, Shape], depth: int, found: list[Source]) -> int:
    """Read one table, subquery or nested join at an index; gives the index after it."""
    if block.cursor is not None and index >= len(block.items):
        return index + 1
    inner = block.group(index)
    if inner is not None:
        if inner.word(0) not in QUERY and inner.items:
            nested = Group([Token("word", "FROM", 0), *inner.items])
            if depth < _DEPTH:
                found += sources_of(nested, tables, depth + 1)
            return index + 1
        columns = columns_of(inner, tables, depth + 1)
        alias, index = _alias(block, index + 1)
        if alias:
            found.append(Source(alias, columns, derived=True))
        return index
    if not block.is_name(index) or (block.word(index) in AFTER_SOURCES | _JOINED | {"ON", "LEFT", "INNER", "CROSS"}):
        return index
    name, index = block.name(index), index + 1
    if block.word(index) == "." and block.is_name(index + 1):
        name, index = block.name(index + 1), index + 2
    if block.group(index) is not None and name.lower() not in tables:
        columns = tuple((column, "") for column in _TABLE_FUNCTIONS.get(name.lower(), ()))
        index += 1
    else:
        columns = tables[name.lower()].typed if name.lower() in tables else ()
    alias, index = _alias(block, index)
    found.append(Source(alias or name, columns, tables.get(name.lower())))
    return index


_EACH = ("key", "value", "type", "atom", "id", "parent", "fullkey", "path")
_TABLE_FUNCTIONS = {"json_each": _EACH, "json_tree": _EACH, "generate_series": ("value",)}


def _alias(block: Group, index: int) -> tuple[str, int]:
    if block.word(index) == "AS" and block.is_name(index + 1):
        return block.name(index + 1), index + 2
    if block.is_name(index) and block.word(index) not in _NOT_ALIAS:
        return block.name(index), index + 1
    return "", index


def columns_of(query: Group, tables: Mapping[str, Shape], depth: int = 0) -> TypedColumns:
    """Return the columns of a query as far as its text names them; those taken from a table have its types."""
    if depth > _DEPTH:
        return ()
    tables = {**tables, **common_tables(query, tables, depth)}
    start = next((at for at in range(len(query.items)) if query.word(at) in ("SELECT", "VALUES")), None)
    if start is None:
        return ()
    if query.word(start) == "VALUES":
        row = query.group(start + 1)
        return () if row is None else tuple((f"column{number + 1}", "") for number in range(len(select_items(row, 0))))
    end = next((at for at in range(start, len(query.items)) if query.word(at) in COMPOUND), len(query.items))
    block = Group(query.items[start:end])
    first = 2 if block.word(1) in ("DISTINCT", "ALL") else 1
    sources = sources_of(block, tables, depth)
    return tuple(column for item in select_items(block, first) for column in _named(item, sources))


def select_items(block: Group, first: int) -> list[Group]:
    """Return the items of a list, up to FROM or whatever ends it."""
    found, piece = [], Group()
    for index in range(first, len(block.items)):
        word = block.word(index)
        if word == "FROM" or word in AFTER_SOURCES:
            break
        if word == ",":
            found.append(piece)
            piece = Group()
        else:
            piece.items.append(block.items[index])
    return [*found, piece] if piece.items else found


def _named(item: Group, sources: list[Source]) -> TypedColumns:
    """Return the columns that one item of a SELECT stands for."""
    last = len(item.items) - 1
    if item.word(last) == "*":
        if last == 0:
            found: dict[str, str] = {}
            for source in sources:
                for name, type_ in source.typed:
                    found.setdefault(name, type_)
            return tuple(found.items())
        if last == 2 and item.word(1) == "." and item.is_name(0):
            wanted = item.name(0).lower()
            return next((source.typed for source in sources if source.label.lower() == wanted), ())
        return ()
    expression, name = split_alias(item)
    if name:
        return ((name, _type_of(expression, len(expression.items), sources)),)
    if item.is_name(last) and (item.word(last - 1) == "." or last == 0):
        return ((item.name(last), _type_of(item, last + 1, sources)),)
    return ()


def split_alias(item: Group) -> tuple[Group, str]:
    """Return an expression of a SELECT without its alias, and the alias; '' if it has none."""
    last = len(item.items) - 1
    if last < 1 or not item.is_name(last):
        return item, ""
    before, word = item.items[last - 1], item.word(last - 1)
    if word == "AS":
        return Group(item.items[: last - 1]), item.name(last)
    follows_operator = isinstance(before, Token) and (before.kind == "op" or word in KEYWORDS - _ENDS)
    if follows_operator or item.word(last) in _ENDS:
        return item, ""
    return Group(item.items[:last]), item.name(last)


_ENDS = frozenset(["END", "NULL", "ISNULL", "NOTNULL"])
"""Keywords that end an expression."""


def _type_of(item: Group, end: int, sources: Iterable[Source]) -> str:
    """Return the type of what stands before ``end`` if that is nothing but a column, else ''."""
    if end == 1 and item.is_name(0):
        owner, column = None, item.name(0).lower()
    elif end == 3 and item.is_name(0) and item.word(1) == "." and item.is_name(2):
        owner, column = item.name(0).lower(), item.name(2).lower()
    else:
        return ""
    searched = (source.typed for source in sources if owner in (None, source.label.lower()))
    return next((type_ for typed in searched for name, type_ in typed if name.lower() == column), "")
