"""Clauses of queries of other databases, and the SQL of SQLite for them, in the user's names.

Each rule reads the statement at the place of a syntax error, and returns the hint or ''.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipemagic.explore.hints.words import Place, PlaceRule, Select, Span, Words
from pipemagic.explore.query import Query
from pipemagic.explore.sqlite_reference import quote_if_needed
from pipemagic.sql import unquote


def of_clause(place: Place) -> str:
    """Return a hint on a clause of another database at the place of an error; '' for any other error."""
    return next(filter(None, (rule(place) for rule in _CLAUSE_RULES)), "")


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
    return f"write {clause} BY {', '.join(names)}" if names else "remove GROUP BY: each column is an aggregate"


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
        return "SQLite has no QUALIFY: filter on the window function in an outer query"
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
        return "remove LIMIT ALL"
    return ""


def _limited(select: Select, rows: str) -> str:
    """Return the hint to write LIMIT at the end of a SELECT, which may not be the end of the statement."""
    if select.is_compound:
        return f"write LIMIT {rows} at the end of a subquery after FROM: here it would apply to the whole query"
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
        return _totals(place.select, at)
    if "GROUPING" in (place.word, place.before) and "SETS" in (place.word, words.word(at + 1)):
        return "SQLite has no GROUPING SETS: write a SELECT for each set and combine them with UNION ALL"
    return ""


def _totals(select: Select | None, end: int | None = None) -> str:
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
        return _totals(words.select_around(words.at(offset)))
    if name.upper() in ("ROLLUP", "CUBE"):
        return f"SQLite has no {name.upper()}: add the totals with UNION ALL and a second SELECT"
    return "SQLite has no COLUMNS(): list the columns" if name.upper() == "COLUMNS" else ""


def _pivot(place: Place) -> str:
    words = place.words
    start = next((at for at in range(len(words)) if words.word(at) in ("PIVOT", "UNPIVOT")), None)
    if start is None or start == 0 or start < place.index - 3 or start > place.index:
        return ""
    general = f"SQLite has no {words.word(start)}: call pivot_table() on the DataFrame"
    if words.word(start) == "UNPIVOT":
        return "SQLite has no UNPIVOT: call melt() on the DataFrame"
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
    return "" if closing is None else f"remove {words.text(Span(at, closing + 1))}"


def _lock(place: Place) -> str:
    words, at = place.words, place.index
    if "FOR" in (place.word, place.before) and {"UPDATE", "SHARE"} & {place.word, words.word(at + 1)} and (
        words.word(0) in ("SELECT", "WITH")):  # fmt: skip
        return "remove FOR UPDATE; BEGIN IMMEDIATE locks the database for writing"
    if "NOLOCK" in words.words(at, 3):
        return "remove WITH (NOLOCK): reads never wait"
    return ""


_CLAUSE_RULES: tuple[PlaceRule, ...] = (
    _all, _star, _distinct_on, _qualify, _into, _limit, _sample, _rollup, _pivot, _quantified, _lateral, _option, _lock,
)  # fmt: skip
