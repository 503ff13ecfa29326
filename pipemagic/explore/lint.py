"""SQL that SQLite runs without an error although other databases refuse it, or answer something else.

Five constructs are found: a double-quoted name that is not a column and became a string, ``= NULL``, a bare column
beside an aggregate, a division of two integers, and a division by zero. Nothing is asked of the server: a construct is
noted only if the text and the tables that are known prove it, and not where it is usual and right. The time is
bounded: each text is read a fixed number of times, and long ones are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from pipemagic.explore.integer_division import integer_division
from pipemagic.explore.query_blocks import (
    DEPTH,
    SHOWN,
    Block,
    Note,
    blocks_of,
    clause,
    comparable,
    end_of_call,
    is_call,
    kind_of,
    number_of,
    text_of,
    without_parentheses,
)
from pipemagic.explore.scope import QUERY, Source
from pipemagic.explore.shapes import Shape
from pipemagic.explore.token_tree import Group, tree
from pipemagic.explore.words import BEFORE_OPERAND, written
from pipemagic.hrana.values import SqlValue
from pipemagic.sql import Token, normalize, parse, unquote
from pipemagic.svg import shortened

LONGEST = 10_000
"""Characters of a statement that is read."""


def lint(text: str, args: Mapping[str, SqlValue], tables: Mapping[str, Shape]) -> list[str]:
    """Return a note for each construct of a statement.

    ``args`` are the values of its parameters by ``:name``, ``tables`` the known tables by their names in lower case.
    """
    if len(text) > LONGEST:
        return []
    statement = parse(text)
    if not (statement.is_query or statement.changes_rows):
        return []
    blocks = list(blocks_of(tree(text), tables, None, 0))
    found = [
        _strings(blocks, tables) if '"' in text else None,
        *(note(block) for note in (_null_comparison, _bare_column) for block in blocks),
        _zero_division(blocks, args),
        integer_division(blocks) if statement.is_query and "/" in text else None,
    ]
    notes: dict[str, str] = {}
    for kind, note in filter(None, found):
        notes.setdefault(kind, note)
    return list(notes.values())


def _known(source: Source) -> bool:
    """Return True if all columns of a source are known."""
    if source.derived or source.shape is None:
        return source.derived and bool(source.columns)
    relation = source.shape.relation
    return bool(source.columns) and (relation is None or relation.kind in ("table", "view"))


# -- double-quoted strings

_ROWID = ("rowid", "oid", "_rowid_")


def _strings(blocks: Sequence[Block], tables: Mapping[str, Shape]) -> Note | None:
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
                names.add(normalize(token.text))
    nested = len([block for block in blocks if block.group.word(0) in QUERY]) > 1
    for token in quoted:
        name = unquote(token.text)
        simple = re.fullmatch(r"[\w ]*", name) is not None and not name.lower().startswith("column")
        if name.lower() in names or name.lower() in tables:
            continue
        if simple or not nested:  # a subquery may have a column of any name
            string = shortened("'" + name.replace("'", "''") + "'", SHOWN)
            shown = shortened(token.text, SHOWN)
            return "string", f"{shown} is not a column; SQLite reads it as the string {string}: use single quotes"
    return None


# -- comparisons with NULL


def _null_comparison(block: Block) -> Note | None:
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


def _bare_column(block: Block) -> Note | None:
    """Note a column beside an aggregate that no GROUP BY fixes: its value is that of any row."""
    if not block.select.items or len(block.sources) != 1 or not _known(block.sources[0]):
        return None  # one of several sources may have one row
    parts = [*(expression for expression, _ in block.items), clause(block.select, "HAVING")]
    calls = [(one, at) for part in parts for one, at in _places(part) if is_call(one, at)]
    kinds = [kind_of(one, at) for one, at in calls if one.word(end_of_call(one, at) - 2) != "OVER"]
    names = [one.name(at).lower() for (one, at) in calls if kind_of(one, at) == "aggregate"]
    if "aggregate" not in kinds or None in kinds:  # a function that is not known may be like min and max
        return None
    if sum(name in ("min", "max") for name in names) == 1:  # the row of that value is then the one
        return None
    grouping = block.grouping()
    relation = None if block.sources[0].shape is None else block.sources[0].shape.relation
    if grouping and (relation is None or relation.kind != "table"):
        return None  # a view or a subquery may have one row for each group
    compared, alone, named = _compared(clause(block.select, "WHERE")), set[str](), set[str]()
    meant: dict[str, list[Group]] = {}
    for number, (expression, alias) in enumerate(block.items, 1):
        for key in (str(number), alias.lower()):
            meant.setdefault(key, []).append(without_parentheses(expression))
    for term in grouping:
        for one in (term, *meant.pop(comparable(term), ())):
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


def _places(item: Group, depth: int = 0) -> Iterator[tuple[Group, int]]:
    """Yield each place of an expression outside its subqueries and what aggregates and windows hold."""
    index = 0 if depth <= DEPTH and item.word(0) not in QUERY else len(item.items)
    while index < len(item.items):
        within = item.group(index)
        if within is None:
            yield item, index
            if is_call(item, index):
                end, within = end_of_call(item, index), item.group(index + 1)
                if item.word(end - 2) != "OVER" and kind_of(item, index) == "aggregate":
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


# -- divisions by 0


def _zero_division(blocks: Sequence[Block], args: Mapping[str, SqlValue]) -> Note | None:
    """Note a division by 0, or by a parameter that is 0 and that no condition can have excluded."""
    items = [item for block in blocks for item in block.group.items if isinstance(item, Token)]
    parameters = [item.text for item in items if item.kind == "param"]
    for block in blocks:
        for index in range(len(block.group.items)):
            if block.group.word(index) not in ("/", "%"):
                continue
            right = without_parentheses(Group(block.group.items[index + 1 : index + 2]))
            shown = text_of(right)
            if number_of(right) == 0:
                return "zero", f"a division by {shown} is NULL: SQLite raises no error"
            if args.get(shown, "") == 0 and parameters.count(shown) == 1:
                return "zero", f"a division by {shown}, which is 0, is NULL: SQLite raises no error"
    return None
