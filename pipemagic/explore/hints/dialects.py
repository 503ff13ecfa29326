"""Clauses, operators and expressions of other databases, and the SQL of SQLite for them, in the user's names.

Each rule reads the statement at the place of a syntax error, and returns the hint or ''.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from pipemagic.explore.hints import idioms, moments
from pipemagic.explore.hints.idioms import kind_of
from pipemagic.explore.hints.words import Select, Span, Words
from pipemagic.explore.query import Query, cursor_at, query_at
from pipemagic.explore.schema import Relation
from pipemagic.explore.sqlite_reference import quote_if_needed
from pipemagic.sql import unquote


@dataclass(frozen=True)
class Place:
    """The place of a syntax error: the index of the word at which the server stopped, in the words of a statement.

    ``of_sqlite`` is True if the message is SQLite's own, False for a server with another parser.
    """

    words: Words
    index: int
    text: str
    tables: Mapping[str, Relation]
    of_sqlite: bool = True

    @property
    def word(self) -> str:
        """The word at the place."""
        return self.words.word(self.index)

    @property
    def before(self) -> str:
        """The word before the place."""
        return self.words.word(self.index - 1)

    @property
    def select(self) -> Select | None:
        """The innermost SELECT around the place."""
        return self.words.select_around(self.index)

    @property
    def query(self) -> Query:
        """The same as the model of queries reads it."""
        token = self.words.token(self.index)
        return query_at(cursor_at(self.text, len(self.text) if token is None else token.start), self.tables)

    @property
    def function(self) -> int | None:
        """The index of the word before the innermost parenthesis that is open at the place."""
        opening = self.words.around(self.index)
        return None if opening is None or opening == 0 else opening - 1


Rule = Callable[[Place], str]


def of_clause(place: Place) -> str:
    """Return a hint on a clause of another database at the place of an error; '' for any other error."""
    return next(filter(None, (rule(place) for rule in _RULES)), "")


# -- select lists


def _all(place: Place) -> str:
    """GROUP BY ALL and ORDER BY ALL."""
    words, select = place.words, place.select
    clause = words.word(place.index - 2)
    if place.word != "ALL" or place.before != "BY" or clause not in ("GROUP", "ORDER") or select is None:
        return ""
    items = [select.expression(item) for item in select.items()]
    if any(words.word(item.end - 1) == "*" for item in items):
        return f"SQLite has no {clause} BY ALL: list the columns"
    names = [words.text(item) for item in items if clause == "ORDER" or not words.has_aggregate(item)]
    return f"write {clause} BY {', '.join(names)}" if names else "leave GROUP BY out: each column is an aggregate"


def _star(place: Place) -> str:
    """``* EXCLUDE (column)``, ``* EXCEPT (column)``, ``* REPLACE (expression AS column)``."""
    words, at = place.words, place.index
    at -= place.word == "(" and place.before == "EXCEPT"
    keyword = words.word(at)
    if keyword not in ("EXCLUDE", "EXCEPT", "REPLACE") or words.word(at - 1) != "*" or words.word(at - 2) not in (
        "SELECT", ",", "DISTINCT", ".", "ALL"):  # fmt: skip
        return ""
    label = words.name(at - 3) if words.word(at - 2) == "." else ""
    listed = words.arguments(at)
    excluded = [Span(at + 1, at + 2)] if listed is None else listed
    columns = list(_columns(place.query, label))
    if not columns:
        return f"SQLite has no * {keyword}: list the columns"
    if keyword == "REPLACE":
        replaced = {words.name(item.end - 1).lower(): words.text(item) for item in excluded}
        columns = [replaced.get(unquote(column).lower(), column) for column in columns]
    else:
        names = {words.name(item.end - 1).lower() for item in excluded}
        columns = [column for column in columns if unquote(column.split(".")[-1]).lower() not in names]
    return f"SQLite has no * {keyword}: list the columns: {', '.join(columns)}"


def _columns(query: Query, label: str) -> Iterator[str]:
    sources = [source for source in query.sources if label in ("", source.label)]
    prefixes = label or len(sources) > 1
    for source in sources:
        for name in source.names:
            column = quote_if_needed(name)
            yield f"{quote_if_needed(source.label)}.{column}" if prefixes else column


def _distinct_on(place: Place) -> str:
    words, select = place.words, place.select
    if (place.word, place.before) != ("ON", "DISTINCT") or select is None:
        return ""
    keys = words.arguments(place.index)
    order_outside = select.order_outside()
    if keys is None or select.is_compound or order_outside is None:
        return "SQLite has no DISTINCT ON: number the rows with row_number() and select the first ones"
    listed = ", ".join(map(words.text, keys))
    order = select.clause("ORDER")
    number = f"row_number() OVER (PARTITION BY {listed}{order}) AS place"
    inner = f"SELECT {words.text(select.result)}, {number}{select.clause('FROM', 'WHERE', 'GROUP', 'HAVING')}"
    return f"write SELECT {select.names} FROM ({inner}) WHERE place = 1{order_outside}"


def _qualify(place: Place) -> str:
    words, select = place.words, place.select
    if "QUALIFY" not in (place.word, place.before) or select is None:
        return ""
    at = place.index if place.word == "QUALIFY" else place.index - 1
    end = select.clauses.get("QUALIFY", Span(at, at)).end
    condition = Span(at + 1, end)
    order = select.order_outside()
    if select.is_compound or condition.start >= end or order is None:
        return "SQLite has no QUALIFY: filter the window function in a query around this one"
    window = _window(words, condition)
    inner = f"SELECT {words.text(select.result)}"
    filtered = words.text(condition)
    if window is not None:
        inner += f", {words.text(window)} AS place"
        rest = words.text(Span(window.end, condition.end))
        filtered = f"{words.text(Span(condition.start, window.start))} place {rest}".strip()
    rows = _without_qualify(select, at)
    return f"write SELECT {select.names} FROM ({inner}{rows}) WHERE {filtered}{order}"


def _without_qualify(select: Select, at: int) -> str:
    """Return the clauses between the select list and QUALIFY, which SQLite may have read as an alias."""
    return "".join(
        f" {select.words.text(Span(span.start, min(span.end, at)))}"
        for keyword in ("FROM", "WHERE", "GROUP", "HAVING", "WINDOW")
        if (span := select.clauses.get(keyword)) is not None and span.start < at
    )


def _window(words: Words, span: Span) -> Span | None:
    """Return the only window function in a span."""
    overs = [at for at in range(span.start, span.end) if words.word(at) == "OVER"]
    if len(overs) != 1:
        return None
    end = words.closing(overs[0] + 1) if words.word(overs[0] + 1) == "(" else overs[0] + 1
    call = words.operand_before(overs[0])
    return None if end is None or call is None else Span(call.start, end + 1)


def _into(place: Place) -> str:
    words, select = place.words, place.select
    if place.word != "INTO" or select is None or not words.is_name(place.index + 1) or words.word(0) != "SELECT":
        return ""
    target = place.index + 2
    end = min([span.start for span in select.clauses.values() if span.start > place.index], default=len(words))
    query = f"{words.text(Span(0, place.index))} {words.text(Span(end, len(words)))}".strip()
    return f"write CREATE TABLE {words.text(Span(place.index + 1, target))} AS {query}"


# -- rows: TOP, FETCH, LIMIT, samples


def _limit(place: Place) -> str:
    words, select, at = place.words, place.select, place.index
    if select is None:
        return ""
    number = at if place.before == "TOP" else at + 1
    if "TOP" in (place.before, place.word) and words.word(number).isdecimal():
        if words.word(number + 1) == "PERCENT":
            return _percent(select, words.word(number))
        return _limited(select, words.word(number))
    top = select.result.start
    if words.word(top) == "TOP" and words.word(top + 1) == "(" and words.word(top + 2).isdecimal():
        return _limited(select, words.word(top + 2))
    fetch = select.clauses.get("FETCH")
    if fetch is not None and (at - 1 in fetch or fetch.start <= at < fetch.end or "OFFSET" in select.clauses):
        number = fetch.start + 2
        rows = words.word(number) if words.word(number).isdecimal() else "1"
        offset = select.clauses.get("OFFSET")
        skipped = f" OFFSET {words.word(offset.start + 1)}" if offset is not None else ""
        return _limited(select, f"{rows}{skipped}")
    if place.word == "ALL" and place.before == "LIMIT":
        return "leave LIMIT ALL out"
    return ""


def _limited(select: Select, rows: str) -> str:
    """Return the hint to write LIMIT at the end of a SELECT, which may not be the end of the statement."""
    if select.is_compound:
        return f"write LIMIT {rows} at the end of a subquery after FROM: here it would be that of the whole query"
    is_inside = select.words.around(select.span.start) is not None
    return f"write LIMIT {rows} at the end{' of the subquery' if is_inside else ''}"


def of_percent(text: str) -> str:
    """Return a hint on ``LIMIT 10%`` at the end of a statement; '' for any other statement."""
    words = Words(text)
    last = len(words) - 1
    select = words.select_around(last) if last > 2 else None
    is_percent = words.word(last) in ("%", "PERCENT") and words.word(last - 2) == "LIMIT"
    return _percent(select, words.word(last - 1)) if is_percent and select is not None else ""


def _percent(select: Select, number: str) -> str:
    rows = f"SELECT count(*) * {number} / 100{select.clause('FROM', 'WHERE')}"
    return _limited(select, f"({rows})") if "GROUP" not in select.clauses else "LIMIT takes a number of rows"


def _sample(place: Place) -> str:
    words, at = place.words, place.index
    sample = next((start for start in (at - 1, at) if words.word(start) in ("TABLESAMPLE", "SAMPLE")), None)
    if sample is None or place.select is None:
        return ""
    rest = words.words(sample + 1, 5)
    number = next((word for word in rest if word.isdecimal()), "")
    is_share = bool({"%", "PERCENT", "BERNOULLI", "SYSTEM"} & set(rest))
    is_share |= words.word(sample) == "TABLESAMPLE" and "ROWS" not in rest
    rows = f"(SELECT count(*) * {number} / 100{_table(place.select)})" if is_share else number
    return f"write ORDER BY random() LIMIT {rows} at the end" if number else ""


def _table(select: Select) -> str:
    """Return FROM and its first table."""
    span = select.clauses.get("FROM")
    if span is None:
        return ""
    table = select.words.operand_after(span.start + 1)
    return "" if table is None else f" FROM {select.words.text(table)}"


# -- groups


def _rollup(place: Place) -> str:
    words, at = place.words, place.index
    if words.words(at, 2) == ["WITH", "ROLLUP"]:
        return totals(place.select, at)
    if "GROUPING" in (place.word, place.before) and "SETS" in (place.word, words.word(at + 1)):
        return "SQLite has no GROUPING SETS: write a SELECT for each set, with UNION ALL between them"
    return ""


def totals(select: Select | None, end: int | None = None) -> str:
    """Return a hint on the totals of ROLLUP over one column: a second SELECT.

    The query of the hint ends before the index ``end``, or GROUP BY has the column in parentheses.
    """
    general = "SQLite has no ROLLUP: add the totals with UNION ALL and a second SELECT"
    if select is None or select.is_compound:
        return general
    words, group = select.words, select.clauses.get("GROUP")
    if group is None:
        return general
    key = Span(group.start + 2, group.end if end is None else min(end, group.end))
    if words.word(key.start) == "ROLLUP" and words.closing(key.start + 1) == key.end - 1:
        key = Span(key.start + 2, key.end - 1)
    column = words.text(key)
    items = [words.text(item) for item in select.items()]
    if len(words.split(key)) != 1 or not words.is_operand(key) or items.count(column) != 1:
        return general
    listed, total = ", ".join(items), ", ".join("NULL" if item == column else item for item in items)
    rows = select.clause("FROM", "WHERE")
    return f"write SELECT {listed}{rows} GROUP BY {column} UNION ALL SELECT {total}{rows}"


def of_cube(name: str, text: str, offset: int | None) -> str:
    """Return a hint on ROLLUP, CUBE, COLUMNS and TOP (5), which SQLite reads as functions; '' for any other one."""
    words = Words(text)
    if name.upper() == "TOP" and offset is not None:
        rows = words.arguments(words.at(offset)) or []
        select = words.select_around(words.at(offset))
        return _limited(select, words.text(rows[0])) if len(rows) == 1 and select is not None else ""
    if name.upper() == "ROLLUP" and offset is not None:
        return totals(words.select_around(words.at(offset)))
    if name.upper() in ("ROLLUP", "CUBE"):
        return f"SQLite has no {name.upper()}: add the totals with UNION ALL and a second SELECT"
    return "SQLite has no COLUMNS(): list the columns" if name.upper() == "COLUMNS" else ""


def _pivot(place: Place) -> str:
    words = place.words
    start = next((at for at in range(len(words)) if words.word(at) in ("PIVOT", "UNPIVOT")), None)
    if start is None or start == 0 or start < place.index - 3 or start > place.index:
        return ""
    general = f"SQLite has no {words.word(start)}: use pivot_table() of the DataFrame"
    if words.word(start) == "UNPIVOT":
        return "SQLite has no UNPIVOT: use melt() of the DataFrame"
    closing = words.closing(start + 1) if words.word(start + 1) == "(" else None
    at = next((at for at in words.outer(Span(start + 2, closing or 0)) if words.word(at) == "FOR"), None)
    if closing is None or at is None or words.word(at + 2) != "IN":
        return general
    values = words.arguments(at + 2)
    value = Span(start + 2, at)
    if values is None or words.operand_after(value.start) != value or not all(map(words.literal, values)):
        return general
    column = words.text(Span(at + 1, at + 2))
    used = {words.name(index).lower() for index in range(value.start, at + 2)}
    others = [name for name in _columns(place.query, "") if unquote(name).lower() not in used]
    if place.select is None or words.text(place.select.result) != "*" or not place.query.is_complete or len(others) > 4:
        return general  # the rows are grouped by all other columns
    parts = [
        f"{words.text(value)} FILTER (WHERE {column} = {words.text(item)}) AS "
        f"{quote_if_needed(unquote(words.text(item)))}"
        for item in values
    ]
    grouped = f" GROUP BY {', '.join(others)}" if others else ""
    return f"write SELECT {', '.join([*others, *parts])}{_table(place.select)}{grouped}"


# -- subqueries, locks


def _quantified(place: Place) -> str:
    words = place.words
    nearby = (place.index, place.index - 1, place.index - 2)
    at = next((at for at in nearby if words.word(at) in ("ALL", "ANY", "SOME")), None)
    operator = "" if at is None else words.word(at - 1)
    if at is None or words.word(at + 1) != "(" or operator not in ("<", ">", "<=", ">=", "=", "<>", "!=", "=="):
        return ""
    closing = words.closing(at + 1)
    every = words.word(at) == "ALL"
    if closing is None or words.word(at + 2) != "SELECT":
        return ""
    if operator in ("=", "==") and not every:
        return f"write IN {words.text(Span(at + 1, closing + 1))}"
    if operator in ("<>", "!=") and every:
        return f"write NOT IN {words.text(Span(at + 1, closing + 1))}"
    select = words.select_around(at + 2)
    if operator not in ("<", ">", "<=", ">=") or select is None or len(select.items()) != 1 or select.is_compound:
        return f"SQLite has no {words.word(at)}: compare with max() or min() of the subquery"
    expression = select.expression(select.items()[0])
    if words.has_aggregate(expression) and "GROUP" not in select.clauses:
        return f"write {operator} {words.text(Span(at + 1, closing + 1))}"
    if "GROUP" in select.clauses or "LIMIT" in select.clauses:
        return f"SQLite has no {words.word(at)}: compare with max() or min() of the subquery"
    function = "max" if (operator[0] == ">") == every else "min"
    value = words.text(expression)
    rows = select.clause("FROM", "WHERE")
    return f"write {operator} (SELECT {function}({value}){rows}), which ignores NULLs"


def _lateral(place: Place) -> str:
    words, at = place.words, place.index
    name = next((words.word(start) for start in (at - 2, at - 1, at) if words.word(start) in ("LATERAL", "APPLY")), "")
    if not name:
        return ""
    return (
        f"SQLite has no {name}: a subquery after FROM cannot use the other tables. "
        "Put it into the SELECT list, or join and number the rows with row_number()"
    )


def _option(place: Place) -> str:
    """OPTION (MAXRECURSION 100)."""
    words = place.words
    at = place.index if place.word == "OPTION" else place.index - 1
    closing = words.closing(at + 1) if words.words(at, 2) == ["OPTION", "("] else None
    return "" if closing is None else f"leave {words.text(Span(at, closing + 1))} out"


def _lock(place: Place) -> str:
    words, at = place.words, place.index
    if "FOR" in (place.word, place.before) and {"UPDATE", "SHARE"} & {place.word, words.word(at + 1)} and (
        words.word(0) in ("SELECT", "WITH")):  # fmt: skip
        return "leave FOR UPDATE out; BEGIN IMMEDIATE locks the database for writing"
    if "NOLOCK" in words.words(at, 3):
        return "leave WITH (NOLOCK) out: reads never wait"
    return ""


# -- operators


def _operators(place: Place) -> str:
    words, at = place.words, place.index
    for index in (at, at - 1):
        operator = words.word(index)
        negated = words.word(index - 1) == "NOT"
        if operator == "ILIKE":
            value, pattern = words.operand_before(index - negated), words.operand_after(index + 1)
            if value is None or pattern is None:
                return "use LIKE, which ignores the case of ASCII letters"
            return f"write {words.text(value)} {'NOT ' if negated else ''}LIKE {words.text(pattern)}"
        if operator == "RLIKE":
            return idioms.of_pattern(words, index)
        if operator == "SIMILAR" and words.word(index + 1) == "TO":
            return _similar(words, index)
        if operator in ("DIV", "MOD", "XOR"):
            return _arithmetic(words, index, operator)
    if place.word == "~":
        ignores_case = words.word(at + 1) == "*"
        return idioms.of_pattern(words, at, length=1 + ignores_case, ignores_case=ignores_case)
    return ""


def _similar(words: Words, index: int) -> str:
    negated = words.word(index - 1) == "NOT"
    value, pattern = words.operand_before(index - negated), words.operand_after(index + 2)
    if value is None or pattern is None or words.literal(pattern) is None:
        return "use LIKE or GLOB"
    text = words.text(pattern)
    if re.search(r"[\[\](){}|*+?\\]", text):
        return "SQLite has no SIMILAR TO: use GLOB, or several LIKEs with OR"
    return f"write {words.text(value)} {'NOT ' if negated else ''}LIKE {text}"


def _arithmetic(words: Words, index: int, operator: str) -> str:
    left, right = words.operand_before(index), words.operand_after(index + 1)
    if left is None or right is None:
        return ""
    first, second = words.text(left), words.text(right)
    if operator == "DIV":
        return f"write CAST({first} / {second} AS INTEGER)"
    return f"write {first} % {second}" if operator == "MOD" else ""


def of_unrecognized(text: str, offset: int) -> str:
    """Return a hint on an operator that SQLite cannot read: ``!~`` and ``^``; '' for any other sign."""
    words = Words(text)
    at = words.at(offset)
    if words.words(at, 2) == ["!", "~"]:
        ignores_case = words.word(at + 2) == "*"
        hint = idioms.of_pattern(words, at, length=2 + ignores_case, ignores_case=ignores_case)
        return re.sub(r" (GLOB|LIKE|REGEXP) ", r" NOT \1 ", hint, count=1) if hint.startswith("write ") else hint
    left, right = words.operand_before(at), words.operand_after(at + 1)
    if words.word(at) != "^" or left is None or right is None:
        return ""
    return f"write pow({words.text(left)}, {words.text(right)})"


# -- expressions


def _keyword_arguments(place: Place) -> str:
    """EXTRACT(year FROM day), SUBSTRING(name FROM 1 FOR 2), TRIM(BOTH ' ' FROM name), TRY_CAST(name AS INTEGER)."""
    words, index = place.words, place.function
    if index is None:
        return ""
    name, closing = words.word(index), words.closing(index + 1)
    if closing is None:
        return ""
    inside = Span(index + 2, closing)
    at = next((at for at in words.outer(inside) if words.word(at) in ("FROM", "AS", "USING", "PLACING")), None)
    if name.lower() == "group_concat":
        return _separator(words, inside)
    if at is None:
        return ""
    first, second = Span(inside.start, at), Span(at + 1, closing)
    if name == "EXTRACT":
        return idioms.of_call(words, index, place.text, place.tables) or idioms.general("extract")
    if name in ("SUBSTRING", "SUBSTR"):
        length = next((at for at in words.outer(second) if words.word(at) == "FOR"), None)
        start = words.text(second if length is None else Span(second.start, length))
        size = "" if length is None else f", {words.text(Span(length + 1, closing))}"
        return f"write substr({words.text(first)}, {start}{size})"
    if name == "TRIM":
        return _trim(words, first, second)
    if name.lower() in ("try_cast", "safe_cast"):
        cast = idioms.try_cast(words.text(first), words.text(second))
        return f"write {cast}" if cast else f"SQLite has no {name}: CAST never fails"
    if name == "STRUCT":
        return _struct(words, inside)
    return f"write {words.text(first)}" if name == "CONVERT" and words.word(at) == "USING" else ""


def _trim(words: Words, first: Span, second: Span) -> str:
    sides = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}
    function = sides.get(words.word(first.start), "trim")
    chars = Span(first.start + (words.word(first.start) in sides), first.end)
    mark = f", {words.text(chars)}" if chars.start < chars.end else ""
    return f"write {function}({words.text(second)}{mark})"


def _separator(words: Words, inside: Span) -> str:
    at = next((at for at in words.outer(inside) if words.word(at) == "SEPARATOR"), None)
    if at is None or "ORDER" in words.words(inside.start, at - inside.start) or words.word(inside.start) == "DISTINCT":
        return "" if at is None else "SQLite has no SEPARATOR: it is the second argument of group_concat()"
    return f"write group_concat({words.text(Span(inside.start, at))}, {words.text(Span(at + 1, inside.end))})"


def _struct(words: Words, inside: Span) -> str:
    parts = []
    for item in words.split(inside):
        if words.word(item.end - 2) != "AS":
            return "SQLite has no STRUCT: use json_object()"
        parts.append(f"'{words.name(item.end - 1)}', {words.text(Span(item.start, item.end - 2))}")
    return f"write json_object({', '.join(parts)})"


def _isnull(place: Place) -> str:
    words = place.words
    if place.word != "ISNULL" or words.word(place.index + 1) != "(":
        return ""
    return idioms.of_call(words, place.index, place.text, place.tables)


def _current(place: Place) -> str:
    if place.word == "(" and place.before in ("CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP"):
        return f"write {place.before} without parentheses"
    return ""


def _within_group(place: Place) -> str:
    """PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY distance), LISTAGG(name, ', ') WITHIN GROUP (ORDER BY name)."""
    words = place.words
    at = next((at for at in range(place.index, place.index - 3, -1) if words.words(at, 2) == ["WITHIN", "GROUP"]), None)
    call = None if at is None else words.operand_before(at)
    if at is None or call is None or words.word(call.start + 1) != "(":
        return ""
    name, arguments = words.word(call.start).lower(), words.arguments(call.start) or []
    order = words.arguments(at + 1)
    if name in ("listagg", "string_agg") and order is not None:
        plain = f"group_concat({', '.join(map(words.text, arguments))})"
        if not place.of_sqlite:
            return f"write {plain}; this server does not order its values"
        terms = words.text(Span(order[0].start, order[-1].end))
        return f"write {plain[:-1]} {terms})"
    value = None if order is None or len(order) != 1 else Span(order[0].start + 2, order[0].end)
    if (
        place.of_sqlite
        and value is not None
        and len(arguments) == 1
        and words.word(value.end - 1) not in ("DESC", "ASC")
    ):
        return f"write {name}({words.text(value)}, {words.text(arguments[0])})"
    if name == "percentile_cont":
        hint = idioms.of_call(words, call.start, place.text, place.tables)
        return hint or idioms.general(name)
    return f"SQLite has no {name} here: number the rows with row_number() and select the one you need" if (
        name == "percentile_disc") else ""  # fmt: skip


def _nulls(place: Place) -> str:
    if place.word == "NULLS" and place.before in ("IGNORE", "RESPECT"):
        return f"SQLite has no {place.before} NULLS: filter out the rows with NULL before the window function"
    return ""


def _interval(place: Place) -> str:
    words = place.words
    if hint := of_typed_text(words, place.index):
        return hint
    nearby = (place.index, place.index - 1, place.index + 1)
    index = next((at for at in nearby if words.word(at) == "INTERVAL"), None)
    return "" if index is None else of_interval(words, index, place.text, place.tables)


def of_typed_text(words: Words, index: int) -> str:
    """Return what to write instead of DATE '2024-01-01' or N'Porto', whose text is at an index; '' for other texts."""
    token, before = words.token(index), words.token(index - 1)
    if token is None or before is None or token.kind != "string":
        return ""
    if before.word in ("DATE", "TIME", "TIMESTAMP"):
        return f"dates are text: write {token.text}"
    is_prefix = before.word in ("E", "N", "B", "R") and before.end == token.start and "\\" not in token.text
    return f"write {token.text}" if is_prefix else ""


def of_interval(words: Words, index: int, text: str, tables: Mapping[str, Relation]) -> str:
    """Return what to write instead of an INTERVAL: a modifier of the date before it."""
    general = "date() and datetime() take modifiers such as '+1 day'"
    interval = idioms.interval_at(words, index)
    opening = words.around(index)
    if words.word(index - 1) == "," and opening is not None and opening > 0:  # date_add(day, INTERVAL 1 DAY)
        return idioms.of_call(words, opening - 1, text, tables) or general
    if words.word(index - 1) not in ("+", "-"):
        return ""
    value = words.operand_before(index - 1)
    if interval is None or value is None:
        return general
    count, unit, _ = interval
    sign = -1 if words.word(index - 1) == "-" else 1
    written = idioms.rewritten(words, value, text, tables)
    literal = words.token(value.start)
    is_typed = literal is not None and literal.kind == "string" and words.word(value.start - 1) in ("DATE", "TIMESTAMP")
    kind = {"DATE": moments.DAY, "TIMESTAMP": moments.MOMENT}[words.word(value.start - 1)] if is_typed else kind_of(
        words, value, text, tables)  # fmt: skip
    return idioms.write(moments.shifted(written, kind, count, unit, sign)) or general


# -- parameters of drivers


def _percent_parameter(place: Place) -> str:
    words, at = place.words, place.index
    if place.word != "%":
        return ""
    rest = words.words(at + 1, 4)
    if rest[0] == "(" and rest[2:] == [")", "S"]:
        name = words.name(at + 2)
        return f"write :{name}, which takes the value of the variable {name}"
    if rest[0] not in ("S", "D"):
        return ""
    column = words.operand_before(at - 1) if words.word(at - 1) in ("=", "<", ">", "<=", ">=", "<>", "!=") else None
    name = "" if column is None else words.name(column.end - 1)
    if not name.isidentifier():
        return "parameters have names: write a colon and the name of a variable"
    return f"write :{name}, which takes the value of the variable {name}"


_RULES: tuple[Rule, ...] = (
    _all, _star, _distinct_on, _qualify, _into, _limit, _sample, _rollup, _pivot, _quantified, _lateral, _option, _lock,
    _isnull, _current, _within_group, _nulls, _interval, _keyword_arguments, _operators, _percent_parameter,
)  # fmt: skip
