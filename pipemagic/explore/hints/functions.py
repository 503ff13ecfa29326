"""Functions and casts of other databases, and the expressions of SQLite for them, with the arguments of the call.

A template has slots for the arguments: ``{0}`` takes any one, ``{p0}`` puts parentheses around one that is not an
operand, ``{i0}`` takes only the digits of an integer, ``{s0}`` only a string. The first template that fits is used.
Functions that need more than a template have a rule.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from string import Formatter

from pipemagic.explore.hints.dates import DATE_RULES
from pipemagic.explore.hints.statistics import STATISTICS_RULES, VARIANCES
from pipemagic.explore.hints.texts import TEXT_RULES, of_regexp
from pipemagic.explore.hints.words import FunctionCall, FunctionRule, Span, Words, as_operand, by_name
from pipemagic.explore.schema import Relation

# -- templates

_TEMPLATES: dict[str, tuple[str, ...]] = {
    "now getdate sysdate systimestamp sysdatetime localtimestamp transaction_timestamp": ("datetime('now')",),
    "curdate today": ("date('now')",),
    "curtime": ("time('now')",),
    "last_day eomonth": ("date({0}, 'start of month', '+1 month', '-1 day')",),
    "from_unixtime": ("datetime({0}, 'unixepoch')",),
    "unix_timestamp": ("unixepoch({0})", "unixepoch('now')"),
    "make_date makedate datefromparts": ("printf('%04d-%02d-%02d', {0}, {1}, {2})",),
    "nvl ifnull": ("ifnull({0}, {1})",),
    "isnull": ("ifnull({0}, {1})", "{p0} IS NULL"),
    "zeroifnull": ("ifnull({0}, 0)",),
    "nvl2": ("iif({p0} IS NOT NULL, {1}, {2})",),
    "if": ("iif({0}, {1}, {2})",),
    "left": ("substr({0}, 1, {1})",),
    "right": ("substr({0}, -{i1})", "substr({0}, -({1}), {1})"),
    "mid": ("substr({0}, {1}, {2})", "substr({0}, {1})"),
    "array_agg collect_list": ("json_group_array({0})",),
    "len char_length character_length": ("length({0})",),
    "datalength": ("length(CAST({0} AS BLOB))",),
    "charindex locate": ("instr({1}, {0})",),
    "strpos": ("instr({0}, {1})",),
    "starts_with startswith": ("substr({0}, 1, length({1})) = {p1}",),
    "ends_with endswith": ("substr({0}, -length({1})) = {p1}",),
    "contains": ("instr({0}, {1}) > 0",),
    "ucase": ("upper({0})",),
    "lcase": ("lower({0})",),
    "btrim strip": ("trim({0}, {1})", "trim({0})"),
    "chr nchar": ("char({0})",),
    "ascii ord": ("unicode({0})",),
    "repeat replicate": ("replace(hex(zeroblob({1})), '00', {0})",),
    "space": ("replace(hex(zeroblob({0})), '00', ' ')",),
    "square": ("{p0} * {p0}",),
    "countif count_if": ("count(*) FILTER (WHERE {0})",),
    "sumif sum_if": ("sum({0}) FILTER (WHERE {1})",),
    "any_value arbitrary": ("min({0})",),
    "bool_or logical_or": ("max({0})",),
    "bool_and every logical_and": ("min({0})",),
    "truncate": ("trunc({p0} * 1e{i1}) / 1e{i1}", "trunc({0})"),
    "newid uuid gen_random_uuid": ("lower(hex(randomblob(16)))",),
    "to_number": ("CAST({0} AS REAL)",),
    "json_value": ("json_extract({0}, {1})",),
    "instr": ("instr({0}, {1})",),
    "stdev": ("stddev({0})",),
    "std stdevp": ("stddev_pop({0})",),
    "var": ("variance({0})",),
    "varp": ("var_pop({0})",),
}
_REMARKS = {
    "datetime('now')": "in UTC", "date('now')": "in UTC", "time('now')": "in UTC",
}  # fmt: skip
"""What to add to an expression."""

_WITHOUT = (
    "first last isnumeric reverse md5 sha1 sha2 sha256 crc32 soundex_difference translate regexp_substr regexp_extract "
    "age initcap overlay covar_pop covar_samp mode quantile approx_quantile quantile_cont percentile_disc"
)
"""Functions that SQLite has no short expression for: a name that is like theirs is another function."""


# -- rules


def _decode(call: FunctionCall) -> str:
    first, *rest = call.arguments
    if len(rest) < 2:
        return ""
    cases = [f"WHEN {rest[at]} THEN {rest[at + 1]}" for at in range(0, len(rest) - 1, 2)]
    otherwise = [f"ELSE {rest[-1]}"] if len(rest) % 2 else []
    return " ".join([f"CASE {first}", *cases, *otherwise, "END"])


def _string_agg(call: FunctionCall) -> str:
    if len(call.arguments) not in (1, 2) or call.arguments[0].upper().startswith("DISTINCT "):
        return ""
    return f"group_concat({', '.join(call.arguments)})"


def _greatest(call: FunctionCall) -> str:
    function = "max" if call.name == "greatest" else "min"
    return f"{function}({', '.join(call.arguments)})" if len(call.arguments) > 1 else ""


def _rand(call: FunctionCall) -> str:
    if call.words.word(call.index - 1) == "BY":
        return "random()"
    return "" if call.arguments else "(random() & 9007199254740991) / 9007199254740992.0"


def _unnest(call: FunctionCall) -> str:
    if call.name != "unnest" or len(call.arguments) != 1:
        return ""
    value = call.arguments[0]
    if array := re.fullmatch(r"(?:ARRAY)?\[([-\d., ]*)\]", value, re.IGNORECASE):
        return f"json_each('[{array[1]}]')"
    return f"json_each({value})"


def _number_series(call: FunctionCall) -> str:
    numbers = list(call.arguments)
    if not numbers or len(numbers) > 3 or not all(re.fullmatch(r"-?\d+", number) for number in numbers):
        return ""
    if len(numbers) == 1:
        numbers = ["0", *numbers]
    start, stop, step = [*numbers, "1"][:3]
    if int(step) == 0:
        return ""
    includes = "=" if call.name == "generate_series" else ""
    compared = f"<{includes}" if int(step) > 0 else f">{includes}"
    following = f"value {'-' if int(step) < 0 else '+'} {abs(int(step))}"
    return (
        f"WITH RECURSIVE series(value) AS (SELECT {start} UNION ALL SELECT {following} FROM series "
        f"WHERE {following} {compared} {stop}) SELECT value FROM series"
    )


def try_cast(value: str, type_: str) -> str:
    """Return the expression that is NULL for a text that is no number or date; '' for other types."""
    name = type_.upper().partition("(")[0].strip()
    if name in ("DATE", "TIMESTAMP", "DATETIME"):
        return f"{'date' if name == 'DATE' else 'datetime'}({value})"
    if name in ("TEXT", "VARCHAR", "STRING", "CHAR", "NVARCHAR"):
        return f"CAST({value} AS TEXT)"
    is_integer = "INT" in name or name == "LONG"
    if not is_integer and name not in ("REAL", "DOUBLE", "FLOAT", "NUMERIC", "DECIMAL", "NUMBER"):
        return ""
    digits = f"ltrim({value}, '-')"
    allowed = "0-9" if is_integer else "0-9."
    return (
        f"CASE WHEN {digits} GLOB '[0-9]*' AND {digits} NOT GLOB '*[^{allowed}]*' "
        f"THEN CAST({value} AS {'INTEGER' if is_integer else 'REAL'}) END"
    )


# -- hints


def of_function(text: str, offset: int | None, name: str, tables: Mapping[str, Relation]) -> str | None:
    """Return a hint on what to write instead of a function; '' if SQLite has no idiom, None if it is unknown.

    ``offset`` (in characters) is the place of the error; without it, the function must be called once.
    """
    name = name.lower()
    if name == "regexp":
        return of_regexp(text)
    if name not in _RULES and name not in _BY_NAME:
        return "" if name in _NO_IDIOM else None
    words = Words(text)
    indexes = [
        index for index in range(len(words)) if words.word(index).lower() == name and words.word(index + 1) == "("
    ]
    if offset is not None:
        indexes = [index for index in indexes if words.tokens[index].start == offset]
    if len(indexes) != 1:
        return general(name)
    return of_call(words, indexes[0], text, tables) or general(name)


def of_call(words: Words, index: int, text: str, tables: Mapping[str, Relation]) -> str:
    """Return the hint on what to write instead of the call at an index; '' if its arguments do not fit."""
    alternatives = _expressions(words, index, text, tables)
    closing = words.closing(index + 1)
    if closing is not None and _beside_operator(words, Span(index, closing + 1)):
        alternatives = [as_operand(expression) for expression in alternatives]
    return write(alternatives)


def _beside_operator(words: Words, span: Span) -> bool:
    """Return True if an operator before or after a span could bind a part of what replaces it."""
    signs = ("+", "-", "*", "/", "%", "||", "->", "->>", "<", ">", "<=", ">=", "=", "<>", "!=", "COLLATE")
    return words.word(span.start - 1) in signs[:8] or words.word(span.end) in signs


def _expressions(words: Words, index: int, text: str, tables: Mapping[str, Relation]) -> list[str]:
    """Return what to write instead of the call at an index; several where the types decide and are not known."""

    def rewrite(span: Span) -> str:
        return rewritten(words, span, text, tables)

    spans = words.arguments(index)
    if spans is None:
        return []
    name, arguments = words.word(index).lower(), list(map(rewrite, spans))
    call = FunctionCall(name, arguments, spans, words, index, text, tables, rewrite)
    if name in _RULES:
        result = _RULES[name](call)
        return [result] if isinstance(result, str) and result else list(result)
    return [expression] if (expression := _filled(_BY_NAME.get(name, ()), arguments)) else []


def rewritten(words: Words, span: Span, text: str, tables: Mapping[str, Relation]) -> str:
    """Return the text of an expression; the calls in it that this module knows are replaced, too."""
    replaced, at = dict[int, tuple[int, str]](), span.start
    while at < span.end:
        closing = words.closing(at + 1) if words.word(at).lower() in _MISSING and words.word(at + 1) == "(" else None
        alternatives = [] if closing is None else _expressions(words, at, text, tables)
        if closing is not None and len(alternatives) == 1:
            call = Span(at, closing + 1)
            replaced[at] = call.end, as_operand(alternatives[0]) if _beside_operator(words, call) else alternatives[0]
        at = replaced[at][0] if at in replaced else at + 1
    return words.text(span, replaced)


def _filled(templates: Sequence[str], arguments: Sequence[str]) -> str:
    values = {}
    for number, argument in enumerate(arguments):
        values[f"_{number}"] = argument
        values[f"p{number}"] = as_operand(argument)
        if argument.isdecimal():
            values[f"i{number}"] = argument
    for template in templates:
        slots = [slot for _, slot, _, _ in Formatter().parse(template) if slot is not None]
        count = max((int(slot[-1]) + 1 for slot in slots), default=0)
        names = [slot if slot.isidentifier() else f"_{slot}" for slot in slots]
        if count == len(arguments) and all(slot in values for slot in names):
            return re.sub(r"\{(\d)\}", r"{_\1}", template).format(**values)
    return ""


def write(found: Sequence[str]) -> str:
    """Return a hint with some expressions; '' for none."""
    if not found:
        return ""
    if len(found) == 2:
        return f"write {found[0]}, or {found[1]} to keep the time"
    remark = _REMARKS.get(found[0])
    if remark is None and re.match(r"(max|min)\(.*, .*\)\Z", found[0]) and "date(" not in found[0]:
        remark = "which is NULL if a value is NULL"
    if remark is None and "'%w'" in found[0] and "CASE" not in found[0] and "+ 6" not in found[0]:
        remark = "where 0 is Sunday"
    return f"write {found[0]}{f', {remark}' if remark else ''}"


def general(name: str) -> str:
    """Return a hint for a call with arguments that do not fit: the functions to use; '' for none."""
    advice = _GENERAL.get(name, "")
    if advice:
        return advice
    templates = _BY_NAME.get(name, ())
    functions = re.findall(r"\b([a-z_]+)\(", " ".join(templates))
    return f"use {functions[0]}() instead" if functions else ""


_GENERAL = by_name({
    "date_trunc datetrunc timestamp_trunc": "use date() with 'start of month' or 'start of year', or strftime()",
    "date_part datepart extract year month day dayofmonth hour minute second dayofweek weekday dayofyear week "
    "weekofyear quarter isodow dow doy epoch dayname monthname": "strftime() returns the parts of a date",
    "datediff date_diff timestampdiff": "subtract the julianday() of both dates: the result is in days",
    "dateadd date_add adddate timestampadd date_sub subdate add_months":
        "date() and datetime() take modifiers such as '+1 day'",
    "to_date str_to_date to_timestamp strptime": "SQLite stores dates as text: YYYY-MM-DD",
    "to_char date_format format_date": "use strftime() for dates and printf() for numbers",
    "regexp_like regexp_matches regexp_contains rlike": "use LIKE or GLOB",
    "regexp_replace": "replace() replaces plain text",
    "string_agg listagg": "use group_concat()",
    "split_part substring_index": "use substr() and instr()",
    "greatest least": "max() and min() take several arguments",
    "lpad rpad": "use printf()",
    "decode": "use CASE",
    "concat concat_ws": "use the operator ||",
    "median percentile_cont": "sort the values and take the middle one with LIMIT and OFFSET",
    " ".join(VARIANCES): "compute it from avg() and sum()",
    "generate_series range": "use WITH RECURSIVE",
    "unnest string_split string_to_array": "json_each() returns the values of a JSON array as rows",
})  # fmt: skip


def of_table(text: str, offset: int | None, name: str, tables: Mapping[str, Relation]) -> str:
    """Return a hint on what to write instead of a table function; '' for any other unknown table."""
    name = name.lower()
    if name not in ("generate_series", "range", "unnest", "string_split") or offset is None:
        return ""
    words = Words(text)
    index = words.at(offset)
    if words.word(index).lower() != name or words.word(index + 1) != "(":
        return ""
    return of_call(words, index, text, tables) or general(name)


_RULES: dict[str, FunctionRule] = (
    by_name(
        {
            "string_agg listagg": _string_agg,
            "greatest least": _greatest,
            "decode": _decode,
            "rand": _rand,
            "unnest string_split string_to_array": _unnest,
            "generate_series range": _number_series,
        }
    )
    | DATE_RULES
    | TEXT_RULES
    | STATISTICS_RULES
)
_BY_NAME = by_name(_TEMPLATES)
_NO_IDIOM = frozenset(_WITHOUT.split())
_MISSING = frozenset((_RULES.keys() | _BY_NAME.keys()) - VARIANCES.keys() - {
    "median", "concat", "concat_ws", "string_agg", "regexp_replace", "percentile_cont", "generate_series", "instr",
    "ifnull", "if",
})  # fmt: skip
"""Functions that neither the embedded service nor sqld has; and date_trunc, whose expression is as short."""


# -- casts of PostgreSQL and DuckDB (``day::date``)

_DATES = {"DATE": "date", "TIMESTAMP": "datetime", "TIMESTAMPTZ": "datetime", "DATETIME": "datetime", "TIME": "time"}
_INTEGERS = ("INT", "INTEGER", "BIGINT", "SMALLINT", "TINYINT", "INT2", "INT4", "INT8", "LONG", "SIGNED", "UNSIGNED")
_REALS = ("NUMERIC", "DECIMAL", "REAL", "FLOAT", "DOUBLE", "FLOAT4", "FLOAT8", "MONEY")
_TEXTS = ("TEXT", "VARCHAR", "CHAR", "STRING", "BPCHAR", "NVARCHAR")
_TYPE = re.compile(r"(\w+)(?:\(\s*\d+\s*(?:,\s*(\d+)\s*)?\))?")


def of_cast(text: str, offset: int, type_: str) -> str:
    """Return a hint on what to write instead of the ``::`` cast at an offset."""
    words = Words(text)
    index = words.at(offset)
    operand = words.operand_before(index)
    match = _TYPE.fullmatch(type_)
    if operand is None:
        value = ""
    elif words.words(operand.start - 4, 2) == ["%", "("]:  # %(low)s::int
        value = f":{words.name(operand.start - 2)}"
    else:
        value = rewritten(words, operand, text, {})
    if value.startswith("(") and value.endswith(")") and Words(value).closing(0) == len(Words(value)) - 1:
        value = value[1:-1]
    cast = _cast(value, match[1].upper(), match[2] or "") if match is not None else ""
    if not cast:
        return f"remove ::{type_}"
    return f"write {cast}" if value else f"use {cast.partition('(')[0]}() instead"


def _cast(value: str, type_: str, digits: str = "") -> str:
    """Return the expression for a cast to a type; '' for a type that SQLite does not have.

    CAST to NUMERIC would keep an integer, and so make a division one of integers; CAST to DATE would make a number.
    """
    if type_ in _DATES:
        return value if _is_call(value, _DATES[type_]) else f"{_DATES[type_]}({value})"
    if type_ in _INTEGERS:
        if _is_call(value, "cast") and value.endswith("AS INTEGER)"):
            return value
        return f"CAST({value} AS INTEGER), which drops the decimals"
    if type_ in _REALS:
        return f"round({value}, {digits})" if digits else f"CAST({value} AS REAL)"
    return f"CAST({value} AS TEXT)" if type_ in _TEXTS else ""


def _is_call(value: str, function: str) -> bool:
    words = Words(value)
    return words.word(0) == function.upper() and words.word(1) == "(" and words.closing(1) == len(words) - 1
