"""Statements that SQLite can read and refuses: aggregates and aliases in WHERE, numbers of columns and values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pipemagic.explore.hints.words import AGGREGATES, Select, Span, Words
from pipemagic.explore.query import Query, queries_of
from pipemagic.explore.schema import Relation
from pipemagic.explore.sqlite_reference import quote_if_needed
from pipemagic.explore.token_tree import COMPOUND
from pipemagic.explore.token_tree import nest as nested
from pipemagic.sql import significant
from pipemagic.text import plural

_AGGREGATE = re.compile(r"\Amisuse of aggregate(?: function)?: ?|\Amisuse of aggregate function ")
_WINDOW_ALIAS = re.compile(r"\Amisuse of aliased window function (.+)\Z")
_WINDOW = re.compile(r"\Amisuse of window function ")
_COMPOUND = re.compile(r"\ASELECTs to the left and right of (.+) do not have the same number of result columns")
_OF_TABLE = re.compile(r"\Atable (.+) has (\d+) columns but (\d+) values were supplied")
_FOR_COLUMNS = re.compile(r"\A(\d+) values for (\d+) columns")
_ROWS = re.compile(r"\Aall VALUES must have the same number of terms")
_COUNT = re.compile(r"\Awrong number of arguments to function (count)\(\)", re.IGNORECASE)
_DISTINCT = re.compile(r"\ADISTINCT aggregates must have exactly one argument")


def of_misuse(message: str, text: str, offset: int | None, tables: Mapping[str, Relation]) -> str:
    """Return what to write instead; '' for any other error. ``offset`` is the place of the error in characters."""
    if _AGGREGATE.match(message):
        return "" if offset is None else _of_aggregate(Words(text), offset)
    if match := _WINDOW_ALIAS.match(message):
        return _of_window_alias(Words(text), match[1].strip('"'))
    if _WINDOW.match(message):
        return "" if offset is None else _of_window(Words(text), offset)
    if match := _COMPOUND.match(message):
        return _of_compound(text, match[1], tables)
    if match := _OF_TABLE.match(message):
        return _of_values(Words(text), int(match[3]), tables.get(match[1].strip('"').lower()))
    if _FOR_COLUMNS.match(message):
        return _of_list(Words(text))
    if _ROWS.match(message):
        return _of_rows(Words(text))
    if _COUNT.match(message):
        return _of_count(Words(text))
    return _of_distinct(Words(text)) if _DISTINCT.match(message) else ""


def of_row(text: str) -> str:
    """Return the hint on ``island = ('Dream', 'Biscoe')``: a list is compared with IN."""
    words = Words(text)
    for at in range(1, len(words) - 1):
        operator, closing = words.word(at), words.closing(at + 1) if words.word(at + 1) == "(" else None
        value = words.operand_before(at)
        if (
            closing is None
            or value is None
            or operator not in ("=", "==", "<>", "!=")
            or words.word(at + 2) == "SELECT"
        ):
            continue
        if len(words.split(Span(at + 2, closing))) > 1 and words.word(value.end - 1) != ")":
            is_in = "IN" if operator in ("=", "==") else "NOT IN"
            return f"write {words.text(value)} {is_in} {words.text(Span(at + 1, closing + 1))}"
    return ""


# -- WHERE


def _condition(select: Select | None, index: int) -> Span | None:
    """Return the condition of WHERE, between the ANDs around it, that has a word at an index."""
    where = None if select is None else select.clauses.get("WHERE")
    if select is None or where is None or not where.start < index < where.end:
        return None
    words = select.words
    inside = list(words.outer(Span(where.start + 1, where.end)))
    if any(words.word(at) == "OR" for at in inside):
        return None
    cuts = [at for at in inside if words.word(at) == "AND" and not _in_between(words, where.start, at)]
    start = max((at + 1 for at in cuts if at < index), default=where.start + 1)
    return Span(start, min((at for at in cuts if at > index), default=where.end))


def _in_between(words: Words, start: int, index: int) -> bool:
    """Return True if an AND belongs to a BETWEEN."""
    before = [words.word(at) for at in range(start, index) if words.word(at) in ("AND", "BETWEEN")]
    return before[-1:] == ["BETWEEN"]


def _rest(select: Select, condition: Span) -> str:
    """Return WHERE without a condition."""
    words, where = select.words, select.clauses["WHERE"]
    parts = [
        words.text(part)
        for part in (Span(where.start + 1, condition.start - 1), Span(condition.end + 1, where.end))
        if part.start < part.end
    ]
    return f" WHERE {' AND '.join(parts)}" if parts else ""


def _of_aggregate(words: Words, offset: int) -> str:
    index = words.at(offset)
    opening = words.around(index)
    if opening is not None and words.word(opening - 1).lower() in AGGREGATES and words.arguments(index) is not None:
        inner = words.text(Span(index, (words.closing(index + 1) or index) + 1))
        return f"{words.word(opening - 1).lower()}() cannot contain {inner}: select {inner} in a subquery after FROM"
    select = words.select_around(index)
    if select is not None and index < select.result.end:
        return _of_aggregate_alias(select, index)
    condition = _condition(select, index)
    if select is None or condition is None or words.arguments(index) is None:
        return ""
    written = words.text(condition)
    closing = words.closing(index + 1)
    assert closing is not None
    call = Span(index, closing + 1)
    others = [Span(condition.start, call.start), Span(call.end, condition.end)]
    compares_rows = any(words.is_name(at) for part in others for at in range(*part))
    if compares_rows and "GROUP" not in select.clauses and not select.is_compound:
        subquery = f"(SELECT {words.text(call)}{select.clause('FROM')}{_rest(select, condition)})"
        left, right = (words.text(part) for part in others)
        return f"write {f'{left} {subquery} {right}'.strip()}: WHERE filters rows before they are grouped"
    return f"write HAVING {written} after GROUP BY: WHERE filters rows before they are grouped"


def _of_aggregate_alias(select: Select, index: int) -> str:
    """Return the hint on the alias of an aggregate in WHERE; SQLite reports the place of the aggregate."""
    words = select.words
    item = next((item for item in select.items() if item.start <= index < item.end), None)
    if item is None or select.expression(item) == item or "WHERE" not in select.clauses:
        return ""
    alias = words.name(item.end - 1).lower()
    for at in range(*select.clauses["WHERE"]):
        condition = _condition(select, at) if words.name(at).lower() == alias else None
        if condition is not None:
            return f"write HAVING {words.text(condition)} after GROUP BY: WHERE filters rows before they are grouped"
    return ""


def _of_window_alias(words: Words, alias: str) -> str:
    for index in range(len(words)):
        if words.name(index).lower() != alias.lower():
            continue
        select = words.select_around(index)
        condition = _condition(select, index)
        if select is not None and condition is not None:
            inner = words.text(select.result)
            return _filtered(select, condition, inner, words.text(condition))
    return "filter on the alias of a window function in an outer query"


def _of_window(words: Words, offset: int) -> str:
    index = words.at(offset)
    select = words.select_around(index)
    condition = _condition(select, index)
    closing = words.closing(index + 1)
    end = None if closing is None or words.word(closing + 1) != "OVER" else words.closing(closing + 2)
    if select is None or condition is None or end is None:
        return "filter on a window function in an outer query"
    rest = f"{words.text(Span(condition.start, index))} place {words.text(Span(end + 1, condition.end))}".strip()
    inner = f"{words.text(select.result)}, {words.text(Span(index, end + 1))} AS place"
    return _filtered(select, condition, inner, rest)


def _filtered(select: Select, condition: Span, inner: str, filtered: str) -> str:
    order = select.order_outside()
    if select.is_compound or "GROUP" in select.clauses or order is None:
        return "filter on a window function in an outer query"
    rows = f"{select.clause('FROM')}{_rest(select, condition)}"
    return f"write SELECT {select.names} FROM (SELECT {inner}{rows}) WHERE {filtered}{order}"


# -- numbers of columns and values


def _of_compound(text: str, operator: str, tables: Mapping[str, Relation]) -> str:
    words = Words(text)
    keyword = operator.split()[0]
    for at in range(len(words)):
        if words.word(at) not in COMPOUND or words.word(at) != keyword:
            continue
        first, second = words.select_around(at - 1), words.select_around(at + 2)
        if first is None or second is None:
            continue
        left, right = (_listed(words, select, tables) for select in (first, second))
        if left is not None and right is not None and len(left) != len(right):
            return (
                f"the SELECT before {operator} has {plural(len(left), 'column')} ({', '.join(left)}), "
                f"the one after it has {len(right)} ({', '.join(right)})"
            )
    return ""


def _listed(words: Words, select: Select, tables: Mapping[str, Relation]) -> list[str] | None:
    """Return the columns of a SELECT as they are written, those of ``*`` by their names; None if not known."""
    items = select.items()
    if all(words.word(item.end - 1) != "*" for item in items):
        return [words.text(item) for item in items]
    part = nested(words.tokens[select.span.start : select.span.end]).top
    query: Query = queries_of(part, tables)[0]
    if len(items) > 1 or not query.is_complete or len(query.all_sources) != 1:
        return None
    return [quote_if_needed(name) for name, _ in query.columns]


def _of_values(words: Words, count: int, table: Relation | None) -> str:
    if table is None or not table.column_names:
        return "list the columns after the table name"
    names = [column.name for column in table.visible if not column.generated]
    listed = ", ".join(map(quote_if_needed, names))
    name = quote_if_needed(table.name)
    others = [column for column in names if column not in table.primary_key]
    verb = "REPLACE" if words.word(0) == "REPLACE" else "INSERT"
    keyed = len(table.primary_key) == 1 and any(
        column.key and column.type.upper() == "INTEGER" for column in table.columns
    )
    if keyed and count == len(others) and count < len(names):
        return f"write {verb} INTO {name} ({', '.join(map(quote_if_needed, others))}), so that SQLite sets the key"
    columns = f"{name} has {plural(len(names), 'column')} ({listed})"
    if count >= len(names):
        return columns
    written = f"{verb} INTO {name} ({', '.join(map(quote_if_needed, names[:count]))})"
    return f"{columns}: list the columns of the {plural(count, 'value')}, as in {written}"


def _of_list(words: Words) -> str:
    into = next((at for at in range(len(words)) if words.word(at) == "INTO"), None)
    table = None if into is None else words.operand_after(into + 1)
    listed = None if table is None else words.arguments(table.end - 1)
    if into is None or table is None:
        return ""
    opening = next((at for at in range(table.start, table.end) if words.word(at) == "("), None)
    columns = words.arguments(opening - 1) if opening is not None else listed
    if columns is None:
        return ""
    names = [words.text(column) for column in columns]
    for number, row in enumerate(rows := _values(words), 1):
        if len(row) != len(names):
            where = f"row {number}" if len(rows) > 1 else "the row"
            return f"the columns are {', '.join(names)}; {where} has {plural(len(row), 'value')}: {', '.join(row)}"
    return f"the columns are {', '.join(names)}"


def _of_rows(words: Words) -> str:
    rows = _values(words)
    first = len(rows[0]) if rows else 0
    for number, row in enumerate(rows, 1):
        if len(row) != first:
            return f"row 1 has {plural(first, 'value')}, row {number} has {len(row)}: {', '.join(row)}"
    return ""


def _values(words: Words) -> list[list[str]]:
    """Return the values of each row of the first VALUES."""
    start = next((at for at in range(len(words)) if words.word(at) == "VALUES"), None)
    rows, at = list[list[str]](), 0 if start is None else start + 1
    while start is not None and words.word(at) == "(" and (closing := words.closing(at)) is not None:
        rows.append([words.text(item) for item in words.split(Span(at + 1, closing))])
        at = closing + 1 + (words.word(closing + 1) == ",")
    return rows


# -- DISTINCT with several arguments


def _of_count(words: Words) -> str:
    """count(DISTINCT carrier, day)."""
    for at in range(len(words)):
        arguments = words.arguments(at) if words.words(at, 3) == ["COUNT", "(", "DISTINCT"] else None
        select = None if arguments is None else words.select_around(at)
        if arguments is None or len(arguments) < 2 or select is None:
            continue
        columns = words.text(Span(arguments[0].start + 1, arguments[-1].end))
        if "GROUP" in select.clauses:
            return "count() takes one expression: count the rows of a subquery with SELECT DISTINCT"
        where = "AND" if "WHERE" in select.clauses else "WHERE"
        values = [Span(arguments[0].start + 1, arguments[0].end), *arguments[1:]]
        conditions = " AND ".join(f"{words.text(value)} IS NOT NULL" for value in values)
        rows = select.clause("FROM", "WHERE")
        return f"write SELECT count(*) FROM (SELECT DISTINCT {columns}{rows} {where} {conditions})"
    return ""


def _of_distinct(words: Words) -> str:
    """string_agg(DISTINCT carrier, ', ')."""
    for at in range(len(words)):
        is_call = words.word(at).lower() in ("string_agg", "group_concat") and words.words(at + 1, 2) == [
            "(",
            "DISTINCT",
        ]
        arguments = words.arguments(at) if is_call else None
        select = None if arguments is None else words.select_around(at)
        if arguments is None or len(arguments) != 2 or select is None:
            continue
        value = words.text(Span(arguments[0].start + 1, arguments[0].end))
        if "GROUP" in select.clauses or not value.replace(".", "").isidentifier() or len(select.items()) != 1:
            return f"write group_concat(DISTINCT {value}), which separates the values with commas"
        rows, column = select.clause("FROM", "WHERE"), value.rsplit(".", 1)[-1]
        mark = words.text(arguments[1])
        return f"write SELECT group_concat({column}, {mark}) FROM (SELECT DISTINCT {value}{rows})"
    return ""


# -- parameters where a definition cannot keep them

_PARAMETERS = re.compile(
    r"parameters are not allowed in|parameters prohibited in|trigger cannot use variables|is not constant",
    re.IGNORECASE,
)


def of_parameters(message: str, text: str, values: Mapping[str, str]) -> str:
    """Return what to write instead of parameters in a view, a trigger, a default, ...; '' for any other error.

    ``values`` are those of the parameters by their names (``:low``), as SQL.
    """
    used: Sequence[str] = list(dict.fromkeys(token.text for token in significant(text) if token.kind == "param"))
    if not used or not _PARAMETERS.search(message):
        return ""
    replacements = [f"{values[name]} instead of {name}" for name in used if name in values]
    what = f"write {' and '.join(replacements)}" if len(replacements) == len(used) else "write the values"
    return f"{_defined(Words(text))} cannot store parameters: {what}"


def of_default(text: str, offset: int, values: Mapping[str, str]) -> str:
    """Return the hint on ``DEFAULT :low``, a syntax error; '' for any other one."""
    words = Words(text)
    token = words.token(words.at(offset))
    is_default = token is not None and token.kind == "param" and words.word(words.at(offset) - 1) == "DEFAULT"
    return of_parameters("is not constant", text, values) if is_default and words.word(0) == "CREATE" else ""


def _defined(words: Words) -> str:
    kinds = {"VIEW": "a view", "TRIGGER": "a trigger", "INDEX": "an index", "TABLE": "the definition of a table"}
    return next((kinds[word] for word in words.words(0, 4) if word in kinds), "a definition")
