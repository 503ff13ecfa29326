"""What completion and hints have to know of a table: its name, its columns, what it refers to.

``declared`` reads the same from the text of a statement of DDL, for what no other connection can see yet: tables of
an open transaction, temporary tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile, zip_longest
from typing import TYPE_CHECKING

from pipemagic.sql import Token, normalize, significant, unquote

if TYPE_CHECKING:
    from pipemagic.explore.schema import Relation


TypedColumns = tuple[tuple[str, str], ...]
"""The names of columns, each with its declared type or ''."""


@dataclass(frozen=True)
class Reference:
    """A foreign key: ``columns`` of the table that holds it, and the columns ``to`` which they point."""

    columns: tuple[str, ...]
    table: str
    to: tuple[str, ...]


@dataclass(frozen=True)
class Shape:
    """A table or view (``kind``) with the names of its columns in order; ``relation`` is all that the server told.

    ``types`` are the declared types of the columns in the same order, '' for a column without one.
    """

    name: str
    kind: str = "table"
    columns: tuple[str, ...] = ()
    references: tuple[Reference, ...] = ()
    relation: Relation | None = field(default=None, repr=False, compare=False)
    types: tuple[str, ...] = field(default=(), repr=False, compare=False)

    @property
    def typed(self) -> TypedColumns:
        """The columns with their types."""
        return tuple(zip_longest(self.columns, self.types[: len(self.columns)], fillvalue=""))


@dataclass(frozen=True)
class Change:
    """What a statement of DDL does to one name: ``shape`` is there afterwards, or nothing is."""

    name: str
    shape: Shape | None
    temporary: bool = False


_OF_TABLE = ("CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN")
_AFTER_TYPE = frozenset(
    ["CONSTRAINT", "PRIMARY", "NOT", "NULL", "UNIQUE", "CHECK", "DEFAULT", "COLLATE", "REFERENCES", "GENERATED", "AS"]
)


def is_name(token: Token) -> bool:
    """Whether the token can be a name."""
    return token.kind in ("word", "quoted", "string")


def declared(text: str) -> Change | None:
    """Read a CREATE TABLE, CREATE VIEW, DROP or RENAME; None for anything else."""
    found = significant(text)
    head = [token.text.upper() for token in found[:4]]
    if head[:1] not in (["CREATE"], ["DROP"]):
        return None
    rest: Sequence[Token] = found[1:]
    temporary = head[1:2] in (["TEMP"], ["TEMPORARY"])
    rest = rest[1:] if temporary else rest
    if not rest or (kind := rest[0].text.upper()) not in ("TABLE", "VIEW"):
        return None
    rest = _after_if_exists(rest[1:])
    if len(rest) > 2 and rest[1].text == ".":
        temporary = temporary or normalize(rest[0].text) == "temp"
        rest = rest[2:]
    if not rest or not is_name(rest[0]):
        return None
    name = unquote(rest[0].text)
    if head[0] == "DROP":
        return Change(name, None, temporary)
    columns = tuple(_columns(rest[1:]))
    shape = Shape(name, kind.lower(), tuple(one for one, _ in columns), types=tuple(type_ for _, type_ in columns))
    return Change(name, shape, temporary)


def _after_if_exists(rest: Sequence[Token]) -> Sequence[Token]:
    words = [token.text.upper() for token in rest[:3]]
    if words[:2] == ["IF", "EXISTS"]:
        return rest[2:]
    return rest[3:] if words == ["IF", "NOT", "EXISTS"] else rest


def _columns(rest: Sequence[Token]) -> Iterator[tuple[str, str]]:
    """Yield the columns in the parentheses after the table's name; a table made AS SELECT has none there."""
    if not rest or rest[0].text != "(":
        return
    for definition in _between_commas(rest[1:]):
        first = definition[0]
        if not is_name(first) or (first.kind == "word" and first.text.upper() in _OF_TABLE):
            return
        yield unquote(first.text), _type(definition[1:])


def _type(rest: Sequence[Token]) -> str:
    """Return the declared type at the beginning of a column's definition, without needless blanks."""
    found = takewhile(lambda token: token.kind != "word" or token.text.upper() not in _AFTER_TYPE, rest)
    text = " ".join(token.text for token in found)
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
