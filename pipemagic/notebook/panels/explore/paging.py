"""The SQL of a page of a table. No widgets, no threads.

What a page asks is the statement that `rows_sql` gives, in a subquery, around which long values are cut by the server:
so the statement that people see, and may copy, gives the same rows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pipemagic.client.stream import Dialect
from pipemagic.errors import ParameterError
from pipemagic.explore import conditions as sql_conditions
from pipemagic.explore import names
from pipemagic.explore.schema import Column, Relation, folded
from pipemagic.explore.sending import LETTER, NotText, received, sent, size
from pipemagic.explore.values import one_line
from pipemagic.explore.words import KEYWORDS
from pipemagic.hrana.values import SqlValue
from pipemagic.notebook.panels.explore.cells import BLOB, BYTES, LONGEST, NUMBER, WHOLE, Cell, Whole, cells, whole_of
from pipemagic.sql import tokens
from pipemagic.sql.type_affinity import affinity

if TYPE_CHECKING:
    from pipemagic.client.database import Database, Result

COLUMNS = 40
"""How many columns of a wide table are shown at once."""

SIZES = (25, 50, 100)

OPERATORS = ("=", "<>", "<", "<=", ">", ">=", "contains", "starts with", "is null", "is not null")

_NO_NAMES = {*KEYWORDS, "TRUE", "FALSE"}
_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WHOLE_NUMBER = re.compile(r"[+-]?\d{1,25}", re.ASCII)

Write = Callable[[SqlValue], str]
"""How a value stands in SQL: as text of it (`literal`), or as a parameter (`Bound`)."""


@dataclass(frozen=True)
class Condition:
    """What one filter asks of a column; ``value`` is as it was typed, '' where the operator takes none."""

    column: str
    operator: str
    value: str = ""

    def __str__(self) -> str:
        return one_line(f"{self.column} {self.operator} {self.value}").rstrip()


@dataclass(frozen=True)
class Look:
    """What is looked at: which rows of which table, in which order; ``first`` is the first column shown, from 0."""

    connection: str = ""
    table: str = ""
    conditions: tuple[Condition, ...] = ()
    where: str = ""
    sort: str | None = None
    descending: bool = False
    size: int = SIZES[0]
    offset: int = 0
    first: int = 0

    @property
    def filtered(self) -> tuple[object, ...]:
        """What decides how many rows there are."""
        return (self.connection, self.table, self.conditions, self.where)


@dataclass(frozen=True)
class Page:
    """The rows that came for a look, of the columns shown; ``more`` tells that others follow."""

    look: Look
    relation: Relation
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    more: bool

    @property
    def end(self) -> int:
        """The number of the last row, from 1."""
        return self.look.offset + len(self.rows)

    @property
    def is_last(self) -> bool:
        """Whether nothing follows and all that is before it is there: then `end` is how many rows there are."""
        return not self.more and bool(self.rows or not self.look.offset)

    def tells_otherwise(self, total: int | None) -> bool:
        """Tell whether there cannot be so many rows as were counted earlier, or the page tells what was not known."""
        if self.is_last:
            return total != self.end
        if total is None:
            return False
        return total <= self.end if self.more else total > self.look.offset


class Bound:
    """Writes values as parameters, and keeps them in their order."""

    def __init__(self) -> None:
        self.values: list[SqlValue] = []

    def __call__(self, value: SqlValue) -> str:
        """Write one."""
        self.values.append(value)
        return "?"


def literal(value: SqlValue) -> str:
    """Write a value as SQL; ParameterError for a text with NUL, which has no form there."""
    match value:
        case None:
            return "NULL"
        case bytes():
            return f"x'{value.hex()}'"
        case str() if "\0" in value:
            raise ParameterError("a text with a NUL character cannot be compared here")
        case str():
            return names.text(value)
    return repr(value)


def name(given: str) -> str:
    """Write a name: as it is if it can stand so, else in backticks.

    In double quotes SQLite would take the name of a column that is gone for a text.
    """
    if "\0" in given:
        raise ParameterError(f"{given!r} cannot be a name in SQL")
    plain = _BARE.fullmatch(given) and given.upper() not in _NO_NAMES
    return given if plain else "`" + given.replace("`", "``") + "`"


def rows_sql(look: Look, relation: Relation, write: Write = literal, *, limit: bool = True) -> str:
    """Give the statement of a page, or without ``limit`` that of all its rows."""
    lines = [*_from(look, relation, write), *_order(look, relation)]
    if limit:
        # Also deep pages are found by OFFSET: row 250,000 of a million takes 25 ms longer than the first one.
        lines.append(f"LIMIT {look.size}" + (f" OFFSET {look.offset}" if look.offset else ""))
    return "\n".join(lines)


def fitting(look: Look, relation: Relation) -> Look:
    """Give a look without what it asks of columns that the table no longer has; only its text of SQL stays as it is."""
    there = {folded(column.name) for column in relation.columns}
    return replace(
        look,
        conditions=tuple(one for one in look.conditions if folded(one.column) in there),
        sort=look.sort if look.sort is not None and folded(look.sort) in there else None,
        first=look.first if look.first < len(relation.visible) else 0,
    )


def count_sql(look: Look, relation: Relation, write: Write = literal) -> str:
    """Give the statement that counts the rows of all pages."""
    head, *rest = _from(look, relation, write)
    return "\n".join([head.replace("*", "count(*)", 1), *rest])


def filter_sql(look: Look, relation: Relation) -> str:
    """Give the condition on one line that the rows of all pages fulfil; '' if all rows do."""
    typed = [f"({sql_conditions.one_line(look.where)})"] if look.where else []
    return " AND ".join([*(_condition(one, relation, literal) for one in look.conditions), *typed])


def _from(look: Look, relation: Relation, write: Write) -> list[str]:
    conditions = [_condition(one, relation, write) for one in look.conditions]
    if look.where:
        end = "\n" if any(token.kind == "comment" for token in tokens(look.where)) else ""
        conditions.append(f"({look.where}{end})")
    where = [f"WHERE {' AND '.join(conditions)}"] if conditions else []
    return [f"SELECT * FROM {name(relation.name)}", *where]


def _order(look: Look, relation: Relation) -> list[str]:
    by = [] if look.sort is None else [name(relation.column(look.sort).name) + (" DESC" if look.descending else "")]
    by += [one for one in map(name, tie(relation)) if one not in by]
    return [f"ORDER BY {', '.join(by)}"] if by else []


def tie(relation: Relation) -> tuple[str, ...]:
    """Give the columns that put rows in an order of their own: the rowid, or the primary key; none of a view."""
    if relation.kind == "view":
        return ()
    taken = {folded(column.name) for column in relation.columns}
    rowid = next((one for one in ("rowid", "_rowid_", "oid") if one not in taken), None)
    return relation.primary_key if relation.without_rowid or rowid is None else (rowid,)


def _condition(condition: Condition, relation: Relation, write: Write) -> str:
    column = relation.column(condition.column)
    written = name(column.name)
    match condition.operator:
        case "is null" | "is not null":
            return f"{written} {condition.operator.upper()}"
        case "contains":
            return f"{written} LIKE {_like(f'%{_escaped(condition.value)}%', write)}"
        case "starts with":
            return f"{written} LIKE {_like(f'{_escaped(condition.value)}%', write)}"
        case operator if operator in OPERATORS:
            return f"{written} {operator} {write(operand(condition.value, column, strict=relation.strict))}"
    raise ParameterError(f"there is no comparison {condition.operator!r}")


def _like(pattern: str, write: Write) -> str:
    return write(pattern) + (r" ESCAPE '\'" if "\\" in pattern else "")


def _escaped(typed: str) -> str:
    return re.sub(r"([\\%_])", r"\\\1", typed)


def operand(typed: str, column: Column, *, strict: bool = False) -> SqlValue:
    """Read what was typed as a value to compare a column with.

    A column of text is compared with text. To others a number is a number; where the column has no type that converts
    what it is compared with, quotes make a text ('5') and x'..' makes bytes, as in SQL. ANY is no type in a ``strict``
    table, and a number in others.
    """
    kind = "" if strict and column.type.upper() == "ANY" else affinity(column.type)
    if kind == "TEXT":
        return typed
    if kind in ("", "BLOB"):
        if len(typed) > 1 and typed[0] == typed[-1] == "'":
            return typed[1:-1].replace("''", "'")
        if match := BLOB.fullmatch(typed):
            return bytes.fromhex(match[1])
    return _number(typed.strip(), typed)


def _number(word: str, typed: str) -> SqlValue:
    if _WHOLE_NUMBER.fullmatch(word) and -(2**63) <= int(word) < 2**63:
        return int(word)
    if NUMBER.fullmatch(word) and math.isfinite(float(word)):
        return float(word)
    return typed


def read_page(database: Database, look: Look, relation: Relation) -> Page:
    """Ask for a page, in one round trip. Raises what Database.execute does; ParameterError for a bad condition."""
    if not relation.visible:
        relation.column("")  # says why nothing is known of the columns
    columns = relation.visible[look.first : look.first + COLUMNS]
    asked = replace(look, size=look.size + 1)
    result = _execute(
        database,
        lambda write: _of_rows(f"{LETTER},\n{_sent(columns)}", rows_sql(asked, relation, write), relation),
    )
    rows = tuple(cells(row, columns) for row in result.rows[: look.size])
    return Page(look, relation, columns, rows, len(result.rows) > look.size)


def count_rows(database: Database, look: Look, relation: Relation) -> int:
    """Count the rows of all pages."""
    (number,) = _execute(database, lambda write: count_sql(look, relation, write)).rows[0]
    return int(number or 0)


def read_value(database: Database, page: Page, row: int, place: int) -> Whole:
    """Give a text on a page, or its first 100,000 characters, or 50,000 bytes if it is not UTF-8.

    ``row`` and ``place`` say where on the page it is, from 0. ParameterError if the row is gone, or another one now.
    """
    look, relation, column = page.look, page.relation, page.columns[place]
    at = replace(look, size=1, offset=look.offset + row)
    written, longest = _inside(column), 4 * WHOLE
    values = f"{sent(written, text=longest, blob=longest)}, length({written}), {LETTER},\n{_sent([column])}"
    result = _execute(database, lambda write: _of_rows(values, rows_sql(at, relation, write), relation))
    if not result.rows:
        raise ParameterError("the row is not there any more", hint="press Refresh to see what is there")
    given, characters, letter, *shown = result.rows[0]
    if cells([letter, *shown], [column])[0] != page.rows[row][place]:
        raise ParameterError("another row is at this place now", hint="press Refresh to see what is there")
    stored = int(shown[-1] or 0)
    text, whole = received("text", given, letter, longest), stored <= longest
    return whole_of(text, None if whole else stored if isinstance(text, NotText) else int(characters or 0))


def statement(database: Database, write_sql: Callable[[Write], str]) -> tuple[str, Any]:
    """Give a statement with the arguments that go with it: none where the server may know no arguments."""
    if database.dialect is Dialect.SEED:
        return write_sql(literal), None
    bound = Bound()
    text = write_sql(bound)
    return text, bound.values or None


def _execute(database: Database, write_sql: Callable[[Write], str]) -> Result:
    return database.execute(*statement(database, write_sql))


def _of_rows(values: str, rows: str, relation: Relation) -> str:
    """Give the statement that asks for values of the rows of another; `_inside` names the columns of these."""
    if all(_inner(one.name) == one.name for one in relation.visible):
        return f"SELECT {values}\nFROM (\n{rows}\n) AS t"
    columns = ", ".join(name(_inner(one.name)) for one in relation.visible)
    return f"WITH pipemagic_page({columns}) AS (\n{rows}\n)\nSELECT {values}\nFROM pipemagic_page AS t"


def _inside(column: Column) -> str:
    return f"t.{name(_inner(column.name))}"


def _inner(given: str) -> str:
    """Give the name of a column inside: in a subquery SQLite knows no columns that are named true or false."""
    return f"{given} of the table" if given.upper() in ("TRUE", "FALSE") else given


def _sent(columns: Iterable[Column]) -> str:
    """Give what is sent of each column: its type, its value, cut if it is long, and how many bytes that has."""
    parts = []
    for column in columns:
        value = _inside(column)
        parts.append(
            f"typeof({value}), {sent(value, text=LONGEST, blob=BYTES)}, "
            f"CASE WHEN typeof({value}) IN ('text', 'blob') THEN {size(value)} END"
        )
    return ",\n".join(parts)
