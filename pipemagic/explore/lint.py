"""SQL that SQLite runs without an error although other databases refuse it, or answer something else.

Five constructs are found: a double-quoted name that is no column and became a string, ``= NULL``, a bare column beside
an aggregate, a division of two integers, and a division by zero. Nothing is asked of the server: a construct is noted
only if the text and the tables that are known prove it, and not where it is usual and right.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pipemagic.client.heads import CHANGING, READING, head
from pipemagic.explore.scope import AFTER_SOURCES, COMPOUND, QUERY, Source, common_tables, select_items, sources_of
from pipemagic.explore.shapes import Shape
from pipemagic.explore.token_tree import Group, tree
from pipemagic.explore.words import KEYWORDS, written
from pipemagic.hrana.values import SqlValue
from pipemagic.sql import Token, unquote
from pipemagic.svg import shortened

LONGEST = 20_000
"""Characters of a statement that is looked at."""

_DEPTH = 50  # of parentheses
_SHOWN = 60  # characters of an expression


def lint(text: str, args: Mapping[str, SqlValue], tables: Sequence[Shape]) -> list[str]:
    """Return a note for each construct of a statement; ``args`` are the values of its parameters by ``:name``."""
    if len(text) > LONGEST or head(text).verb not in (*READING, *CHANGING):
        return []
    known = {shape.name.lower(): shape for shape in tables}
    blocks = list(_blocks(tree(text), known, (), 0))
    found = [
        _strings(blocks),
        *(note(block) for note in (_null_comparison, _bare_column) for block in blocks),
        *_divisions(args, blocks),
    ]
    notes: dict[str, str] = {}
    for kind, note in filter(None, found):
        notes.setdefault(kind, note)
    return list(notes.values())


@dataclass(frozen=True)
class _Block:
    """A query, one SELECT of a compound query, or what stands in parentheses.

    ``sources`` are those of the query itself, ``outer`` those of the queries around it. ``inside`` tells that it stands
    in parentheses, ``tables`` are those that it can name.
    """

    group: Group
    sources: tuple[Source, ...]
    outer: tuple[Source, ...]
    tables: Mapping[str, Shape]
    inside: bool

    def word(self, index: int) -> str:
        """Return the word or sign at an index in capitals, ``)`` for a group, ``(`` before the first one inside."""
        if index < 0:
            return "(" if self.inside else ""
        return ")" if self.group.group(index) is not None else self.group.word(index)

    def column(self, index: int) -> tuple[Source, str] | None:
        """Return the column that is named at an index, with its source; None if there is none that is known."""
        if not self.group.is_name(index) or self.group.group(index + 1) is not None:
            return None
        if self.group.word(index) in KEYWORDS or self.group.word(index + 1) == ".":
            return None
        name, label = self.group.name(index).lower(), ""
        if self.word(index - 1) == "." and self.group.is_name(index - 2):
            label = self.group.name(index - 2).lower()
        for source in (*self.sources, *self.outer):
            if label in ("", source.label.lower()) and name in map(str.lower, source.columns):
                return source, name
        return None


def _blocks(group: Group, tables: Mapping[str, Shape], outer: tuple[Source, ...], depth: int) -> Iterator[_Block]:
    """Return every part of a statement that has a scope of its own, or stands in parentheses."""
    if depth > _DEPTH:
        return
    visible = {**tables, **common_tables(group, tables)}
    cuts = [-1, *(at for at in range(len(group.items)) if group.word(at) in COMPOUND), len(group.items)]
    for start, end in pairwise(cuts):
        part = Group(group.items[start + 1 : end])
        own = tuple(sources_of(part, visible))
        block = _Block(part, own, outer, visible, inside=depth > 0)
        yield block
        for item in part.items:
            if isinstance(item, Group):
                yield from _blocks(item, visible, (*own, *outer), depth + 1)


def _known(source: Source) -> bool:
    """Return True if all columns of a source are known."""
    if source.derived or source.shape is None:
        return source.derived and bool(source.columns)
    relation = source.shape.relation
    return bool(source.columns) and (relation is None or relation.kind in ("table", "view"))


Note = tuple[str, str]
"""The kind of construct, and the line to show."""

# -- double-quoted strings

_ROWID = ("rowid", "oid", "_rowid_")
_BEFORE_OPERAND = frozenset(
    ["SELECT", "DISTINCT", "ALL", "WHERE", "AND", "OR", "NOT", "ON", "HAVING", "BY", "WHEN", "THEN", "ELSE", "CASE",
     "BETWEEN", "LIKE", "GLOB", "IN", "IS", "RETURNING", ",", "(", "=", "==", "<", ">", "<=", ">=", "<>", "!=", "+",
     "-", "*", "/", "%", "||", "->", "->>"]
)  # fmt: skip


def _strings(blocks: Sequence[_Block]) -> Note | None:
    """Note a name in double quotes that is nothing that the statement names: SQLite takes it for a string."""
    sources = [source for block in blocks for source in block.sources]
    if not all(map(_known, sources)):
        return None
    names, quoted = set(_ROWID), list[Token]()
    for source in sources:
        names |= {source.label.lower(), *map(str.lower, source.columns)}
        if source.shape is not None:
            names.add(source.shape.name.lower())
            if source.shape.relation is not None:
                names |= {column.name.lower() for column in source.shape.relation.columns}
    for block in blocks:
        names |= {one.lower() for shape in block.tables.values() if not shape.relation for one in shape.columns}
        names |= set(block.tables)
        for index in range(len(block.group.items)):
            if not block.group.is_name(index):
                continue
            token = block.group.items[index]
            assert isinstance(token, Token)
            is_operand = block.word(index - 1) in _BEFORE_OPERAND and block.word(index + 1) not in (".", ")")
            if is_operand and token.text.startswith('"'):
                quoted.append(token)
            elif not is_operand:
                names.add(unquote(token.text).lower())
    nested = len([block for block in blocks if block.group.word(0) in QUERY]) > 1
    for token in quoted:
        name = unquote(token.text)
        simple = re.fullmatch(r"[\w ]*", name) is not None and not name.lower().startswith("column")
        if name.lower() not in names and (simple or not nested):  # a subquery may have a column of any name
            string = "'" + name.replace("'", "''") + "'"
            shown = shortened(token.text, _SHOWN)
            string = shortened(string, _SHOWN)
            return "string", f"{shown} is no column, so it is the string {string}: write single quotes"
    return None


# -- comparisons with NULL


def _null_comparison(block: _Block) -> Note | None:
    """Note ``= NULL`` and ``<> NULL``, which are never true."""
    clause = ""
    for index in range(len(block.group.items)):
        word = block.word(index)
        if word in ("SET", "WHERE", "FROM", "RETURNING", "SELECT"):
            clause = word
        if word not in ("=", "==", "<>", "!="):
            continue
        assigns = clause == "SET" and block.word(index - 2) in ("SET", ",")
        if (block.word(index + 1) == "NULL" and not assigns) or block.word(index - 1) == "NULL":
            instead = "IS NULL" if word in ("=", "==") else "IS NOT NULL"
            return "null", f"{word} NULL is never true: write {instead}"
    return None


# -- bare columns

_AGGREGATES = frozenset(
    ["avg", "count", "sum", "total", "group_concat", "string_agg", "json_group_array", "json_group_object", "min",
     "max", "median", "stddev", "variance"]
)  # fmt: skip


def _bare_column(block: _Block) -> Note | None:
    """Note a column beside an aggregate that no GROUP BY fixes: its value is that of any row."""
    group = block.group
    start = next((at for at in range(len(group.items)) if group.word(at) == "SELECT"), None)
    if start is None or not block.sources or not all(map(_known, block.sources)):
        return None
    select = Group(group.items[start:])
    items = select_items(select, 2 if select.word(1) in ("DISTINCT", "ALL") else 1)
    calls = [call for part in (*items, _clause(select, "HAVING")) for call in _aggregates(part, 0)]
    if not calls or sum(call in ("min", "max") for call in calls) == 1:  # the row of that value is then the one
        return None
    grouping = [_words(one) for one in _list(_clause(select, "GROUP"), 2)]
    shape = block.sources[0].shape
    relation = None if shape is None else shape.relation
    if grouping and (len(block.sources) > 1 or relation is None or relation.kind != "table"):
        return None  # what is joined, or comes from a view, may have one row for each group
    grouping = [
        _words(_unnamed(items[int(one[0]) - 1]))
        if len(one) == 1 and one[0].isdecimal() and 0 < int(one[0]) <= len(items)
        else one
        for one in grouping
    ]
    fixed = {one[-1] for one in grouping if len(one) in (1, 3)} | _compared(_clause(select, "WHERE"))
    keys = relation.unique_keys if grouping and relation is not None else ()
    if any(set(map(str.lower, key)) <= fixed for key in keys if key):
        return None
    for item in items:
        alias, expression = _alias(item), _unnamed(item)
        if (alias and [alias] in grouping) or _words(expression) in grouping:
            continue
        name = _bare(block, expression, grouping, fixed, bool(grouping))
        if name:
            of_group = " of each group" if grouping else ""
            return "bare", f"{name} is neither aggregated nor grouped: it comes from an arbitrary row{of_group}"
    return None


def _bare(
    block: _Block, item: Group, grouping: Sequence[Sequence[str]], fixed: Collection[str], grouped: bool, depth: int = 0
) -> str:
    """Return the first bare column of an expression, as it is written; '' if there is none."""
    if depth > _DEPTH or item.word(0) in QUERY:
        return ""
    inner = _Block(item, block.sources, (), block.tables, inside=depth > 0)
    index = 0
    while index < len(item.items):
        length = max((_length_of(one, item, index) for one in grouping if len(one) > 1), default=0)
        call = _call_length(item, index) if not length else 0
        if length or call:
            index += length or call
            continue
        within = item.group(index)
        if within is not None:
            if name := _bare(block, within, grouping, fixed, grouped, depth + 1):
                return name
        elif item.word(index) == "*" and depth == 0 and index == len(item.items) - 1:
            if item.word(index - 1) in ("", "."):
                return "*"
        elif (found := inner.column(index)) is not None and found[1] not in fixed:
            table = found[0].shape is not None and found[0].shape.kind != "common table"
            if grouped or len(block.sources) == 1 or table:  # a subquery that is joined may have one row
                return written(item.name(index))
        index += 1
    return ""


def _call_length(item: Group, index: int) -> int:
    """Return how many items an aggregate or a window function takes, with FILTER and OVER; 0 if none is there."""
    arguments = item.group(index + 1)
    if not item.is_name(index) or arguments is None:
        return 0
    end = index + 2
    if item.word(end) == "FILTER":
        end += 2
    if item.word(end) == "OVER":
        return end + 2 - index
    return end - index if _is_aggregate(item.name(index).lower(), arguments) else 0


def _is_aggregate(name: str, arguments: Group) -> bool:
    several = any(arguments.word(at) == "," for at in range(len(arguments.items)))
    return name in _AGGREGATES and not (name in ("min", "max") and several)


def _aggregates(item: Group, depth: int) -> Iterator[str]:
    """Return the names of the aggregates of an expression, those of subqueries and window functions aside."""
    if depth > _DEPTH or item.word(0) in QUERY:
        return
    index = 0
    while index < len(item.items):
        length, within = _call_length(item, index), item.group(index)
        if length:
            over = item.word(index + length - 2) == "OVER"
            if not over:
                yield item.name(index).lower()
            elif (arguments := item.group(index + 1)) is not None:
                yield from _aggregates(arguments, depth + 1)
            index += length
            continue
        if within is not None:
            yield from _aggregates(within, depth + 1)
        index += 1


def _clause(select: Group, keyword: str) -> Group:
    """Return a clause of a query from its keyword on; nothing if there is none."""
    start = next((at for at in range(len(select.items)) if select.word(at) == keyword), None)
    if start is None:
        return Group()
    end = next((at for at in range(start + 1, len(select.items)) if select.word(at) in AFTER_SOURCES), None)
    return Group(select.items[start:end])


def _list(clause: Group, first: int) -> list[Group]:
    return select_items(clause, first) if clause.items else []


def _compared(where: Group) -> set[str]:
    """Return the columns that a condition compares with a value: they are the same in all rows."""
    found = set()
    for index in range(len(where.items)):
        if where.word(index) in ("=", "==", "IS"):
            for name, value in ((index - 1, index + 1), (index + 1, index - 1)):
                token = where.items[value] if 0 <= value < len(where.items) else None
                is_value = isinstance(token, Token) and token.kind in ("string", "number", "param", "blob")
                if is_value and where.is_name(name):
                    found.add(where.name(name).lower())
    return found


def _alias(item: Group) -> str:
    last = len(item.items) - 1
    return item.name(last).lower() if last > 0 and item.is_name(last) and item.word(last - 1) == "AS" else ""


def _unnamed(item: Group) -> Group:
    """Return an expression of a SELECT without its alias."""
    last = len(item.items) - 1
    if last > 0 and item.is_name(last):
        if item.word(last - 1) == "AS":
            return Group(item.items[: last - 1])
        before = item.items[last - 1]
        if isinstance(before, Group) or before.kind not in ("op", "word") or item.word(last - 1) == "END":
            return Group(item.items[:last])
        if before.kind == "word" and before.text.upper() not in KEYWORDS and item.word(last) != "END":
            return Group(item.items[:last])
    return item


def _words(item: Group) -> list[str]:
    """Return an expression as its words in lower case, without quotes of names."""
    found: list[str] = []
    for one in item.items:
        if isinstance(one, Group):
            found += ["(", *_words(one), ")"]
        else:
            found.append(unquote(one.text).lower() if one.kind in ("word", "quoted") else one.text)
    return found


def _length_of(words: Sequence[str], item: Group, index: int) -> int:
    """Return how many items from an index on are these words; 0 if there are others."""
    for end in range(index + 1, len(item.items) + 1):
        there = _words(Group(item.items[index:end]))
        if len(there) >= len(words):
            return end - index if there == list(words) else 0
    return 0


# -- divisions


def _divisions(args: Mapping[str, SqlValue], blocks: Sequence[_Block]) -> Iterator[Note | None]:
    remainders = [_words(right) for block in blocks for _, right in _operations(block, ("%",))]
    for block in blocks:
        for left, right in _operations(block, ("/", "%")):
            number = _number(right, args)
            if number == 0:
                shown = f"{shortened(_text(left), _SHOWN)} divided by {_text(right)}"
                yield "zero", f"{shown} is NULL: SQLite raises no error"
        for left, right in _operations(block, ("/",)):
            if not (_is_integer(block, left) and _is_integer(block, right)):
                continue
            number, above = _number(right, {}), _number(left, {})
            if number == 0 or number == 1 or _words(right) in remainders or _is_undone(block, right):
                continue  # x / 100 beside x % 100, x / 10 * 10
            if number and above is not None and above % number == 0:
                continue
            shown = shortened(f"{_text(left)} / {_text(right)}", _SHOWN)
            yield "integer", f"{shown} divides integers and drops the fraction: write 1.0 * {shown}"


def _operations(block: _Block, signs: Collection[str]) -> Iterator[tuple[Group, Group]]:
    """Return what stands on both sides of each division: all factors before it, and the operand after it."""
    for index in range(len(block.group.items)):
        if block.group.word(index) in signs:
            start, end = _operand_before(block, index), _operand_after(block, index + 1)
            while start is not None and block.group.word(start - 1) in ("*", "/", "%") and start > 1:
                start = _operand_before(block, start - 1)
            if start is not None and end is not None:
                yield Group(block.group.items[start:index]), Group(block.group.items[index + 1 : end])


_TIGHT = ("||", "->", "->>", "COLLATE", ".")
"""Operators that bind more tightly than a division."""


def _operand_before(block: _Block, end: int) -> int | None:
    """Return where the operand begins that ends before an index; None if that cannot be told."""
    at = end - 1
    if at < 0:
        return None
    if block.group.group(at) is not None:
        while block.group.word(at - 1) in ("FILTER", "OVER"):
            at -= 2
        if block.group.is_name(at - 1) and (block.group.word(at - 1) not in KEYWORDS or at != end - 1):
            at -= 1
    elif block.group.is_name(at) and block.group.word(at - 1) == ".":
        at -= 2
    elif block.group.word(at) in KEYWORDS:
        return None
    return None if at < 0 or block.group.word(at - 1) in (*_TIGHT, "~") else at


def _operand_after(block: _Block, start: int) -> int | None:
    """Return where the operand ends that begins at an index; None if that cannot be told."""
    at = start
    if block.group.word(at) in ("-", "+"):
        at += 1
    if at >= len(block.group.items) or block.group.word(at) in KEYWORDS:
        return None
    if block.group.is_name(at):
        if block.group.word(at + 1) == "." and block.group.is_name(at + 2):
            at += 2
        if block.group.group(at + 1) is not None:
            at += 1
            while block.group.word(at + 1) in ("FILTER", "OVER") and block.group.group(at + 2) is not None:
                at += 2
    return None if block.group.word(at + 1) in _TIGHT else at + 1


def _is_integer(block: _Block, operands: Group, depth: int = 0) -> bool:
    """Return True if an expression is known to be an integer."""
    if depth > _DEPTH or not operands.items or operands.word(0) in QUERY:
        return False
    inner = _Block(operands, block.sources, block.outer, block.tables, inside=True)
    index, value = 0, True
    while index < len(operands.items):
        if operands.word(index) in ("+", "-"):
            index, value = index + 1, True
            continue
        if operands.word(index) in ("*", "/", "%") and not value:
            index, value = index + 1, True
            continue
        end = _operand_after(inner, index)
        if end is None or not value or not _is_integer_operand(inner, index, end, depth):
            return False
        index, value = end, False
    return not value


def _is_integer_operand(block: _Block, start: int, end: int, depth: int) -> bool:
    item = block.group.items[end - 1]
    if isinstance(item, Group):
        if end - start == 1:
            return _is_integer(block, item, depth + 1)
        function = block.group.name(start).lower() if block.group.is_name(start) else ""
        arguments = block.group.group(start + 1) or Group()
        if function == "count":
            return True
        return function in ("sum", "min", "max", "abs") and _is_integer(block, arguments, depth + 1)
    if item.kind == "number":
        return item.text.isdecimal()
    found = block.column(end - 1)
    if found is None or found[0].shape is None or found[0].shape.relation is None:
        return False
    types = [column.type for column in found[0].shape.relation.columns if column.name.lower() == found[1]]
    return bool(types) and "INT" in types[0].upper()  # by which SQLite gives it INTEGER affinity


def _is_undone(block: _Block, right: Group) -> bool:
    """Return True if the quotient is multiplied by the divisor: x / 10 * 10 rounds on purpose."""
    items = block.group.items
    at = next((at for at, item in enumerate(items) if item is right.items[-1]), len(items))
    return block.group.word(at + 1) == "*" and _words(Group(items[at + 2 : at + 3])) == _words(right)


def _number(operand: Group, args: Mapping[str, SqlValue]) -> float | None:
    """Return the value of a number, or of a parameter that is one; None for anything else."""
    while len(operand.items) == 1 and (within := operand.group(0)) is not None:
        operand = within
    token = operand.items[0] if len(operand.items) == 1 else None
    if not isinstance(token, Token):
        return None
    if token.kind == "param":
        value = args.get(token.text)
        return value if isinstance(value, int | float) else None
    try:
        return float(token.text) if token.kind == "number" else None
    except ValueError:  # hexadecimal
        return None


def _text(group: Group) -> str:
    """Return an expression as text."""
    text = ""
    for index, item in enumerate(group.items):
        piece = f"({_text(item)})" if isinstance(item, Group) else item.text
        is_call = isinstance(item, Group) and group.is_name(index - 1) and group.word(index - 1) not in KEYWORDS
        joined = not text or is_call or piece in (".", ",") or text.endswith(".")
        text += piece if joined else f" {piece}"
    return text
