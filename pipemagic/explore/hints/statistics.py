"""Medians and variances of the rows that a SELECT reads, for servers without these functions.

The differences from the mean are squared: the difference of two sums of squares would lose its digits.
"""

from __future__ import annotations

from pipemagic.explore.hints.words import FunctionCall, FunctionRule, Select, Span, by_name

VARIANCES = {
    "stddev": ("sqrt", 1), "stddev_samp": ("sqrt", 1), "stddev_pop": ("sqrt", 0), "variance": ("", 1),
    "var_samp": ("", 1), "var_pop": ("", 0),
}  # fmt: skip
"""The functions, whether the result is a root, and the number to subtract from the number of values."""


def _variance_sql(name: str, value: str, select: Select) -> str:
    """Return the expression or the query for a variance or standard deviation; '' if the SELECT is not simple."""
    root, less = VARIANCES[name]
    keys = _keys(select)
    if keys is None or not select.clause("FROM"):
        return ""
    if not keys:
        rows = select.clause("FROM", "WHERE")
        square = f"pow({_operand(value)} - (SELECT avg({value}){rows}), 2)"
        result = f"sum({square}) / (count({value}) - 1)" if less else f"avg({square})"
        return f"{root}({result})" if root else result
    listed = ", ".join(keys)
    inner = f"{value} - avg({value}) OVER (PARTITION BY {listed}) AS deviation"
    result = "sum(deviation * deviation) / (count(deviation) - 1)" if less else "avg(deviation * deviation)"
    result = f"{root}({result})" if root else result
    return (
        f"SELECT {_bare(keys)}, {result} FROM (SELECT {listed}, {inner}{select.clause('FROM', 'WHERE')}) "
        f"GROUP BY {_bare(keys)}"
    )


def _median_sql(value: str, select: Select, call: Span) -> str:
    """Return the query for a median, or the part of one that replaces the ``call``; '' if the SELECT is not simple."""
    keys = _keys(select)
    if keys is None or not select.clause("FROM"):
        return ""
    rows = f"{select.clause('FROM')} WHERE {_and(select)}{value} IS NOT NULL"
    if not keys:
        every = select.clause("FROM", "WHERE")
        query = (
            f"SELECT avg({_last(value)}) FROM (SELECT {value}{rows} ORDER BY {value} "
            f"LIMIT 2 - (SELECT count({value}){every}) % 2 OFFSET (SELECT (count({value}) - 1) / 2{every}))"
        )
        return _in_place_of(call, query, select)
    listed = ", ".join(keys)
    return (
        f"SELECT {_bare(keys)}, avg({_last(value)}) FROM (SELECT {listed}, {value}, "
        f"row_number() OVER (PARTITION BY {listed} ORDER BY {value}) AS place, "
        f"count(*) OVER (PARTITION BY {listed}) AS size{rows}) "
        f"WHERE place IN ((size + 1) / 2, (size + 2) / 2) GROUP BY {_bare(keys)}"
    )


def _in_place_of(call: Span, query: str, select: Select) -> str:
    """Return a query that replaces a whole SELECT, or in parentheses one of its aggregates."""
    others = [item for item in select.items() if not item.start <= call.start < item.end]
    if any(select.words.has_aggregate(item) for item in others):
        return f"({query})"
    is_alone = not others and select.expression(select.items()[0]) == call
    return query if is_alone else ""


def _and(select: Select) -> str:
    """Return the condition of WHERE, for another one behind it."""
    span = select.clauses.get("WHERE")
    if span is None:
        return ""
    words, condition = select.words, Span(span.start + 1, span.end)
    text = words.text(condition)
    return f"({text}) AND " if "OR" in words.words(condition.start, condition.end - condition.start) else f"{text} AND "


def _keys(select: Select) -> list[str] | None:
    """Return the columns of GROUP BY; None if one is no column, or the query is a compound one."""
    words = select.words
    items = select.items("GROUP")
    is_simple = all(
        words.is_name(item.end - 1) and words.operand_after(item.start) == item and words.word(item.end - 1) != ")"
        for item in items
    )
    aliases = {words.name(item.end - 1).lower() for item in select.items() if select.expression(item) != item}
    names = [words.name(item.end - 1).lower() for item in items]
    if not is_simple or aliases & set(names) or len(set(names)) < len(names) or "HAVING" in select.clauses:
        return None
    return [words.text(item) for item in items]


def _bare(keys: list[str]) -> str:
    """Return the names of columns outside of the subquery that selects them."""
    return ", ".join(map(_last, keys))


def _last(column: str) -> str:
    return column.rsplit(".", 1)[-1]


def _operand(value: str) -> str:
    return value if value.replace(".", "").replace("_", "").isalnum() else f"({value})"


# -- functions


def _variance(call: FunctionCall) -> str:
    select = call.select
    if len(call.arguments) != 1 or select is None or _is_window(call):
        return ""
    return _variance_sql(call.name, call.arguments[0], select)


def _median(call: FunctionCall) -> str:
    return _median_of(call, call.arguments[0]) if len(call.arguments) == 1 and not _is_window(call) else ""


def _median_of(call: FunctionCall, value: str) -> str:
    select, closing = call.select, call.words.closing(call.index + 1)
    if select is None or closing is None:
        return ""
    return _median_sql(value, select, Span(call.index, closing + 1))


def _percentile(call: FunctionCall) -> str:
    """PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY expression), or percentile_cont(expression, 0.5)."""
    if len(call.arguments) == 2 and call.arguments[1] in ("0.5", ".5") and not _is_window(call):
        return _median_of(call, call.arguments[0])
    after = call.words.closing(call.index + 1)
    select = call.select
    if after is None or select is None or list(call.arguments) not in (["0.5"], [".5"]):
        return ""
    order = call.words.arguments(after + 2)
    is_ordered = call.words.words(after + 1, 2) == ["WITHIN", "GROUP"] and order is not None and len(order) == 1
    if not is_ordered or order is None or call.words.words(order[0].start, 2) != ["ORDER", "BY"]:
        return ""
    value = Span(order[0].start + 2, order[0].end)
    end = call.words.closing(after + 3)
    if end is None or not call.words.is_operand(value):
        return ""
    return _median_sql(call.words.text(value), select, Span(call.index, end + 1))


def _is_window(call: FunctionCall) -> bool:
    closing = call.words.closing(call.index + 1)
    return closing is not None and call.words.word(closing + 1) in ("OVER", "FILTER")


STATISTICS_RULES: dict[str, FunctionRule] = by_name(
    {
        " ".join(VARIANCES): _variance,
        "median": _median,
        "percentile_cont": _percentile,
    }
)
