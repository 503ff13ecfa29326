"""SQL that SQLite runs without an error although other databases refuse it, or answer something else.

Five constructs are found: a double-quoted name that is not a column and became a string, ``= NULL``, a bare column
beside an aggregate, a division of two integers, and a division by zero. Nothing is asked of the server: a construct is
noted only if the text and the tables that are known prove it, and not where it is usual and right. The time is
bounded: each text is read a fixed number of times, and long ones are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from pipemagic.client.heads import CHANGING, READING, head
from pipemagic.explore.scope import (
    AFTER_SOURCES,
    COMPOUND,
    QUERY,
    Source,
    common_tables,
    select_items,
    sources_of,
    split_alias,
)
from pipemagic.explore.shapes import Shape
from pipemagic.explore.token_tree import Group, tree
from pipemagic.explore.words import BEFORE_OPERAND, FUNCTIONS, KEYWORDS, written
from pipemagic.hrana.values import SqlValue
from pipemagic.sql import Token, unquote
from pipemagic.svg import shortened

LONGEST = 10_000
"""Characters of a statement that is read."""

_DEPTH = 50  # of parentheses
_SHOWN = 60  # characters of an expression


def lint(text: str, args: Mapping[str, SqlValue], tables: Mapping[str, Shape]) -> list[str]:
    """Return a note for each construct of a statement.

    ``args`` are the values of its parameters by ``:name``, ``tables`` the known tables by their names in lower case.
    """
    if len(text) > LONGEST or (verb := head(text).verb) not in (*READING, *CHANGING):
        return []
    blocks = list(_blocks(tree(text), tables, None, 0))
    found = [
        _strings(blocks, tables) if '"' in text else None,
        *(note(block) for note in (_null_comparison, _bare_column) for block in blocks),
        _zero_division(blocks, args),
        _integer_division(blocks) if verb in READING and "/" in text else None,
    ]
    notes: dict[str, str] = {}
    for kind, note in filter(None, found):
        notes.setdefault(kind, note)
    return list(notes.values())


@dataclass(frozen=True)
class _Block:
    """A query, one SELECT of a compound query, or what stands in parentheses.

    ``sources`` are those of the query itself, ``around`` is the block that holds it, ``common`` are the common table
    expressions that it can name.
    """

    group: Group
    sources: tuple[Source, ...]
    around: _Block | None
    common: dict[str, Shape]

    def word(self, index: int) -> str:
        """Return the word or sign at an index in capitals, ``)`` for a group, ``(`` before the first one inside."""
        if index < 0:
            return "(" if self.around else ""
        return ")" if self.group.group(index) is not None else self.group.word(index)

    @cached_property
    def columns(self) -> dict[tuple[str, str], Source]:
        """The sources of the columns by label and name in lower case; the label is also ''."""
        found: dict[tuple[str, str], Source] = {}
        for source in self.sources:
            for name in map(str.lower, source.columns):
                found.setdefault(("", name), source)
                found.setdefault((source.label.lower(), name), source)
        return found

    def column(self, group: Group, index: int) -> tuple[Source, str] | None:
        """Return the column that is named at an index, with its source; None if there is none that is known."""
        if not group.is_name(index) or group.group(index + 1) is not None:
            return None
        if group.word(index) in KEYWORDS or group.word(index + 1) == ".":
            return None
        is_qualified = group.word(index - 1) == "." and group.is_name(index - 2)
        name = group.name(index).lower()
        key = (group.name(index - 2).lower() if is_qualified else "", name)
        block: _Block | None = self
        while block is not None:
            if key in block.columns:
                return block.columns[key], name
            block = block.around
        return None

    @cached_property
    def select(self) -> Group:
        """The query from its SELECT on; nothing if it has none."""
        return _clause(self.group, "SELECT", ())

    @cached_property
    def items(self) -> list[tuple[Group, str]]:
        """The expressions of the SELECT with their aliases."""
        first = 2 if self.select.word(1) in ("DISTINCT", "ALL") else 1
        return [split_alias(item) for item in select_items(self.select, first)]

    def grouping(self, keyword: str = "GROUP") -> list[Group]:
        """Return the terms of GROUP BY or PARTITION BY."""
        return [_plain(term) for term in select_items(_clause(self.group, keyword), 2)]


def _blocks(group: Group, tables: Mapping[str, Shape], around: _Block | None, depth: int) -> Iterator[_Block]:
    """Return every part of a statement that has a scope of its own, or stands in parentheses."""
    if depth > _DEPTH:
        return
    common = common_tables(group, tables)
    tables = {**tables, **common} if common else tables
    if around is not None:
        common = {**around.common, **common}
    cuts = [-1, *(at for at in range(len(group.items)) if group.word(at) in COMPOUND), len(group.items)]
    for start, end in pairwise(cuts):
        part = Group(group.items[start + 1 : end])
        block = _Block(part, tuple(sources_of(part, tables)), around, common)
        yield block
        for item in part.items:
            if isinstance(item, Group):
                yield from _blocks(item, tables, block, depth + 1)


def _clause(select: Group, keyword: str, ends: Sequence[str] | frozenset[str] = AFTER_SOURCES) -> Group:
    """Return a clause of a query from its keyword on; nothing if there is none."""
    start = next((at for at in range(len(select.items)) if select.word(at) == keyword), len(select.items))
    end = next((at for at in range(start + 1, len(select.items)) if select.word(at) in ends), len(select.items))
    return Group(select.items[start:end])


def _plain(term: Group) -> Group:
    """Return an expression without COLLATE and the parentheses around it."""
    while True:
        if len(term.items) == 1 and (within := term.group(0)) is not None:
            term = within
        elif term.word(len(term.items) - 2) == "COLLATE":
            term = Group(term.items[:-2])
        else:
            return term


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


def _strings(blocks: Sequence[_Block], tables: Mapping[str, Shape]) -> Note | None:
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
        for name, shape in block.common.items() if block.group.word(0) in QUERY else ():
            names |= {name, *map(str.lower, shape.columns)}
        for index in range(len(block.group.items)):
            if not block.group.is_name(index):
                continue
            token = block.group.items[index]
            assert isinstance(token, Token)
            is_operand = block.word(index - 1) in BEFORE_OPERAND and block.word(index + 1) not in (".", ")")
            if is_operand and token.text.startswith('"'):
                quoted.append(token)
            elif not is_operand:
                names.add(unquote(token.text).lower())
    nested = len([block for block in blocks if block.group.word(0) in QUERY]) > 1
    for token in quoted:
        name = unquote(token.text)
        simple = re.fullmatch(r"[\w ]*", name) is not None and not name.lower().startswith("column")
        if name.lower() in names or name.lower() in tables:
            continue
        if simple or not nested:  # a subquery may have a column of any name
            string = shortened("'" + name.replace("'", "''") + "'", _SHOWN)
            shown = shortened(token.text, _SHOWN)
            return "string", f"{shown} is not a column; SQLite reads it as the string {string}: use single quotes"
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


def _bare_column(block: _Block) -> Note | None:
    """Note a column beside an aggregate that no GROUP BY fixes: its value is that of any row."""
    if not block.select.items or len(block.sources) != 1 or not _known(block.sources[0]):
        return None  # one of several sources may have one row
    parts = [*(expression for expression, _ in block.items), _clause(block.select, "HAVING")]
    calls = [(one, at) for part in parts for one, at in _places(part) if _is_call(one, at)]
    kinds = [_kind(one, at) for one, at in calls if one.word(_end_of_call(one, at) - 2) != "OVER"]
    names = [one.name(at).lower() for (one, at) in calls if _kind(one, at) == "aggregate"]
    if "aggregate" not in kinds or None in kinds:  # a function that is not known may be like min and max
        return None
    if sum(name in ("min", "max") for name in names) == 1:  # the row of that value is then the one
        return None
    grouping = block.grouping()
    relation = None if block.sources[0].shape is None else block.sources[0].shape.relation
    if grouping and (relation is None or relation.kind != "table"):
        return None  # a view or a subquery may have one row for each group
    compared, alone, named = _compared(_clause(block.select, "WHERE")), set[str](), set[str]()
    meant: dict[str, list[Group]] = {}
    for number, (expression, alias) in enumerate(block.items, 1):
        for key in (str(number), alias.lower()):
            meant.setdefault(key, []).append(_plain(expression))
    for term in grouping:
        for one in (term, *meant.pop(_words(term), ())):
            inside = {group.name(at).lower() for group, at in _places(one) if group.is_name(at)}
            named |= inside
            if len(one.items) in (1, 3):
                alone |= inside
    keys = [*((name,) for name in _ROWID), *(relation.unique_keys if relation is not None else ())]
    if grouping and any(key and set(map(str.lower, key)) <= alone | compared for key in keys):
        return None
    fixed = compared | named  # what is made of grouped columns is usually a part of GROUP BY
    for expression, _ in block.items:
        last = len(expression.items) - 1
        for group, at in _places(expression):
            is_star = group is expression and at == last and group.word(at) == "*" and group.word(at - 1) in ("", ".")
            found = block.column(group, at)
            if is_star or (found is not None and found[0] in block.sources and found[1] not in fixed):
                name = "*" if is_star else written(group.name(at))
                row = "an arbitrary row of each group" if grouping else "an arbitrary row"
                return "bare", f"{name} is neither aggregated nor grouped: it comes from {row}"
    return None


def _is_call(item: Group, index: int) -> bool:
    return item.is_name(index) and item.group(index + 1) is not None and item.word(index) not in KEYWORDS


def _kind(item: Group, index: int) -> str | None:
    """Return the kind of the function that is called at an index; None if it is not known."""
    name, arguments = item.name(index).lower(), item.group(index + 1) or Group()
    if name in ("min", "max") and any(arguments.word(at) == "," for at in range(len(arguments.items))):
        return "function"
    return FUNCTIONS.get(name)


def _end_of_call(item: Group, index: int) -> int:
    """Return the index after a call with its FILTER and OVER."""
    end = index + 2
    while item.word(end) in ("FILTER", "OVER"):
        end += 2
    return end


def _places(item: Group, depth: int = 0) -> Iterator[tuple[Group, int]]:
    """Yield each place of an expression outside its subqueries and what aggregates and windows hold."""
    index = 0 if depth <= _DEPTH and item.word(0) not in QUERY else len(item.items)
    while index < len(item.items):
        within = item.group(index)
        if within is None:
            yield item, index
            if _is_call(item, index):
                end, within = _end_of_call(item, index), item.group(index + 1)
                if item.word(end - 2) != "OVER" and _kind(item, index) == "aggregate":
                    within = None
                index = end - 1
        if within is not None:
            yield from _places(within, depth + 1)
        index += 1


def _compared(where: Group) -> set[str]:
    """Return the columns that a condition compares with a value: they may be the same in all rows."""
    return {
        group.name(at).lower()
        for group, index in _places(where)
        if group.word(index) in ("=", "==", "IS", "IN")
        for at in (index - 1, index + 1)
        if group.is_name(at)
    }


# -- divisions


def _zero_division(blocks: Sequence[_Block], args: Mapping[str, SqlValue]) -> Note | None:
    """Note a division by 0, or by a parameter that is 0 and that no condition can have excluded."""
    items = [item for block in blocks for item in block.group.items if isinstance(item, Token)]
    parameters = [item.text for item in items if item.kind == "param"]
    for block in blocks:
        for index in range(len(block.group.items)):
            if block.group.word(index) not in ("/", "%"):
                continue
            right = _plain(Group(block.group.items[index + 1 : index + 2]))
            shown = _text(right)
            if _number(right) == 0:
                return "zero", f"a division by {shown} is NULL: SQLite raises no error"
            if args.get(shown, "") == 0 and parameters.count(shown) == 1:
                return "zero", f"a division by {shown}, which is 0, is NULL: SQLite raises no error"
    return None


def _integer_division(blocks: Sequence[_Block]) -> Note | None:
    """Note a division of integers in a SELECT list, unless the whole part is what is wanted as a rule."""
    terms = [term for block in blocks for keyword in ("GROUP", "PARTITION") for term in block.grouping(keyword)]
    grouped = {_words(one) for term in terms for one in (term, Group(term.items[-1:]))}
    factors = {
        _words(Group(block.group.items[at : at + 1]))
        for block in blocks
        for index in range(len(block.group.items))
        if block.group.word(index) in ("*", "%")
        for at in (index - 1, index + 1)
        if at > index or (at >= 0 and "/" not in map(block.group.word, range(at - 3, at)))  # a / b * c
    }
    for block in blocks:
        for number, (item, alias) in enumerate(block.items if block.select.word(1) != "DISTINCT" else (), 1):
            if {str(number), alias.lower(), _words(_plain(item))} & grouped:
                continue
            divisions = _Divisions(block)
            divisions.is_integer(item)
            for group, start, sign, end in divisions.found[:_LOOKED_AT]:
                left, right = Group(group.items[start:sign]), Group(group.items[sign + 1 : end])
                shown = f"{_text(left)} / {_text(right)}"
                if _words(Group(right.items[-1:])) in factors:
                    continue  # x / 100 beside x % 100, x / 10 * 10
                if _is_exact(left, right) or any(f"{_words(left)} / {_words(right)}" in term for term in grouped):
                    continue
                shown = shortened(shown, _SHOWN)
                return "integer", f"{shown} divides integers and drops the fraction: write 1.0 * {shown}"
    return None


def _is_exact(left: Group, right: Group) -> bool:
    """Return True if a division by a number leaves no fraction, or is rounded up on purpose: (x + 2) / 3."""
    divisor, dividend = _number(_plain(right)), _number(left)
    if divisor is None or not divisor or divisor == 1 or (dividend is not None and dividend % divisor == 0):
        return divisor is not None
    within = left.group(len(left.items) - 1)
    last = len(within.items) - 1 if within is not None else 0
    return within is not None and within.word(last - 1) in ("+", "-") and within.word(last).isdecimal()


_LABEL = re.compile(r"\b[A-Za-z_]\w*\.")
_LOOKED_AT = 20  # divisions of an item
_TIGHT = ("||", "->", "->>", "COLLATE")
"""Operators that bind more tightly than a division."""
_SIGNS = frozenset("*/%,.=<>&|~;") | {"==", "<>", "!=", "<=", ">=", "<<", ">>", "||", "->", "->>"}
_CONDITION = frozenset(
    ["=", "==", "<>", "!=", "<", ">", "<=", ">=", "AND", "OR", "NOT", "IN", "IS", "LIKE", "GLOB", "BETWEEN", "EXISTS",
     "ISNULL", "NOTNULL"]
)  # fmt: skip
_OF_INTEGERS = frozenset(["sum", "min", "max", "abs", "coalesce", "ifnull", "nullif", "iif"])
"""Functions that return an integer if their arguments are integers."""
_FRACTIONS = _OF_INTEGERS | {"avg", "total", "round"}
"""Functions of which a division is not meant to drop the fraction; of others, such as floor and printf, it may be."""


@dataclass
class _Divisions:
    """The divisions of integers in an expression, which is read once from left to right.

    Each is found as its group, and there the indices of its left side, its sign and the end of its right side.
    """

    block: _Block
    found: list[tuple[Group, int, int, int]] = field(default_factory=list)

    def is_integer(self, group: Group, depth: int = 0, *, meant: bool = False) -> bool:
        """Return True if an expression, or each one of a list, is known to be an integer.

        ``meant`` leaves its divisions out.
        """
        if depth > _DEPTH or not group.items or group.word(0) in QUERY:
            return depth <= _DEPTH and _is_count(group)
        at, start, before = 0, 0, len(self.found)
        result = integer = True
        product: bool | None = None  # whether the factors so far are integers; None before the first one
        condition = False
        while at < len(group.items):
            word = group.word(at)
            if word == ",":
                result, integer, condition, before = result and (integer or condition), True, False, len(self.found)
            if word in _CONDITION:
                condition = True
                del self.found[before:]  # in a condition it is meant as a rule
            if word in (",", "DISTINCT") or word in _CONDITION or (product is not None and word in ("+", "-")):
                at, product = at + 1, None
                continue
            is_factor = product is not None and word in ("*", "/", "%")
            end, one = self._operand(group, at + is_factor, depth, meant or condition)
            if end == at + is_factor or (product is not None and not is_factor):  # what stands there is not known
                at, product, integer = max(end, at + 1), None, False
                continue
            if word == "/" and product and one and not (meant or condition):
                self.found.append((group, start, at, end))
            start, product = (start, product and one) if is_factor else (at, one)
            at, integer = end, integer and one
        return result and (integer or condition)

    def _operand(self, group: Group, start: int, depth: int, meant: bool) -> tuple[int, bool]:
        """Return where an operand ends, and True if it is an integer; ``start`` if it cannot be read."""
        at = start
        while group.word(at) in ("+", "-"):
            at += 1
        end, integer = self._primary(group, at, depth, meant)
        while end > at and group.word(end) in _TIGHT:
            at, integer = end + 1, False
            end, _ = self._primary(group, at, depth, meant=True)
        return (end, integer) if end > at else (start, False)

    def _primary(self, group: Group, at: int, depth: int, meant: bool) -> tuple[int, bool]:
        arguments = group.group(at)
        if arguments is not None:
            several = any(arguments.word(index) == "," for index in range(len(arguments.items)))
            return at + 1, self.is_integer(arguments, depth + 1, meant=meant or several) and not several
        word, arguments = group.word(at), group.group(at + 1)
        if word == "CASE":
            return self._case(group, at, depth, meant)
        if word == "CAST" and arguments is not None:
            cut = next((index for index in range(len(arguments.items)) if arguments.word(index) == "AS"), 0)
            whole = "INT" in _words(Group(arguments.items[cut:])).upper()
            value = Group(arguments.items[:cut])
            self.is_integer(value, depth + 1, meant=meant or whole)
            return at + 2, whole and len(value.items) in (1, 3)  # of a text that was taken apart, it is often meant
        if not group.is_name(at):
            is_number = at < len(group.items) and word.isdecimal()
            return at + (at < len(group.items) and word not in _SIGNS), is_number
        if word in KEYWORDS:
            return at, False
        while group.word(at + 1) == "." and group.is_name(at + 2):
            at += 2
        arguments = group.group(at + 1)
        if arguments is None:
            return at + 1, self._is_integer_column(group, at)
        function = group.name(at).lower()
        integers = self.is_integer(arguments, depth + 1, meant=meant or function not in _FRACTIONS)
        return _end_of_call(group, at), function in ("count", "length") or (integers and function in _OF_INTEGERS)

    def _case(self, group: Group, start: int, depth: int, meant: bool) -> tuple[int, bool]:
        """Return where a CASE ends, and True if all its values are integers."""
        level, cut, integer = 0, start, True
        for at in range(start, len(group.items)):
            word = group.word(at)
            level += (word == "CASE") - (word == "END")
            if level == 0 or (level == 1 and word in ("WHEN", "THEN", "ELSE")):
                if group.word(cut) in ("THEN", "ELSE"):
                    value = Group(group.items[cut + 1 : at])
                    integer = self.is_integer(value, depth + 1, meant=meant) and integer
                cut = at
            if level == 0:
                return at + 1, integer
        return start, False

    def _is_integer_column(self, group: Group, at: int) -> bool:
        found = self.block.column(group, at)
        if found is None or found[0].shape is None or found[0].shape.relation is None:
            return False
        types = [column.type for column in found[0].shape.relation.columns if column.name.lower() == found[1]]
        return bool(types) and "INT" in types[0].upper()  # by which SQLite gives it INTEGER affinity


def _is_count(query: Group) -> bool:
    """Return True for SELECT count(...) FROM ... without a GROUP BY."""
    items = select_items(query, 1) if query.word(0) == "SELECT" else []
    item = split_alias(items[0])[0] if len(items) == 1 else Group()
    return item.word(0) == "COUNT" and item.group(1) is not None and len(item.items) == 2


def _number(operand: Group) -> float | None:
    """Return the value of a number; None for anything else."""
    try:
        return float(operand.word(0)) if len(operand.items) == 1 and operand.word(0)[:1] in "0123456789." else None
    except ValueError:  # a sign, a parenthesis, or a hexadecimal number
        return None


def _words(group: Group) -> str:
    """Return an expression for comparisons: in lower case, without labels, a single name without quotes."""
    text = group.name(0) if len(group.items) == 1 and group.is_name(0) else _LABEL.sub("", _text(group))
    return text.lower()


def _text(group: Group) -> str:
    """Return an expression as text."""
    text = ""
    for index, item in enumerate(group.items):
        piece = f"({_text(item)})" if isinstance(item, Group) else item.text
        is_call = (
            isinstance(item, Group) and group.is_name(index - 1) and group.word(index - 1) not in KEYWORDS - {"CAST"}
        )
        joined = not text or is_call or piece in (".", ",") or text.endswith(".")
        text += piece if joined else f" {piece}"
    return text
