"""Functions of other databases, and the expressions of SQLite for them, with the arguments of the user's call.

A template has slots for the arguments: ``{0}`` takes any one, ``{p0}`` puts parentheses around one that is not an
operand, ``{i0}`` takes only the digits of an integer, ``{s0}`` only a string. The first template that fits is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from string import Formatter

from pipemagic.explore.hints import moments, statistics
from pipemagic.explore.hints.patterns import matching
from pipemagic.explore.hints.words import Select, Span, Words
from pipemagic.explore.query import cursor_at, nest, query_at
from pipemagic.explore.schema import Relation
from pipemagic.explore.sqlite_reference import quoted
from pipemagic.sql import unquote
from pipemagic.sql.dates import is_day
from pipemagic.sql.type_affinity import is_date, is_day_type


@dataclass(frozen=True)
class Call:
    """A call of a function: its name in lower case, and its arguments as text and as words."""

    name: str
    arguments: Sequence[str]
    spans: Sequence[Span]
    words: Words
    index: int
    text: str
    tables: Mapping[str, Relation]

    @property
    def select(self) -> Select | None:
        """The SELECT around it."""
        return self.words.select_around(self.index)

    def kind(self, number: int) -> str:
        """Return whether an argument is a day or a moment."""
        return kind_of(self.words, self.spans[number], self.text, self.tables)

    def string(self, number: int) -> str | None:
        """Return the text of an argument that is a string; None for any other one."""
        token = self.words.literal(self.spans[number])
        return unquote(token.text) if token is not None and token.kind == "string" else None


Rule = Callable[[Call], "str | list[str]"]


def kind_of(words: Words, span: Span, text: str, tables: Mapping[str, Relation]) -> str:
    """Return whether an expression is a day or a moment, by its text or its declared type."""
    token, word = words.literal(span), words.word(span.start).lower()
    if token is not None and token.kind == "string":
        return moments.DAY if is_day(unquote(token.text)) else moments.MOMENT
    if words.operand_after(span.start) != span:
        return moments.ANY
    if word in ("date", "current_date", "curdate", "today", "to_date", "last_day", "eomonth"):
        return moments.DAY
    if word in ("datetime", "current_timestamp", "now", "getdate", "sysdate", "localtimestamp", "to_timestamp"):
        return moments.MOMENT
    query = query_at(cursor_at(text, words.tokens[span.start].start), tables)
    type_ = query.declared(nest(words.tokens[span.start : span.end]).top) or ""
    return moments.DAY if is_day_type(type_) else moments.MOMENT if is_date(type_) else moments.ANY


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


def _one_of(*names: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        _RULES.update({name: rule for several in names for name in several.split()})
        return rule

    return register


_RULES: dict[str, Rule] = {}


@_one_of("regexp_like regexp_matches regexp_contains rlike")
def _regexp(call: Call) -> str:
    pattern = call.string(1) if len(call.arguments) == 2 else None
    return "" if pattern is None else matching(_operand(call.arguments[0]), pattern)


@_one_of("regexp_replace")
def _regexp_replace(call: Call) -> str:
    pattern = call.string(1) if len(call.arguments) in (3, 4) else None
    if pattern is None or not re.fullmatch(r"[\w\s,;:!#%&'\"@<>=/~-]+", pattern):
        return ""
    return f"replace({', '.join(call.arguments[:3])})"


@_one_of("date_trunc datetrunc timestamp_trunc")
def _date_trunc(call: Call) -> str:
    unit, value = _unit_and(call.arguments, last_is_unit="_" in call.name)
    return moments.truncated(unit, value) if value else ""


@_one_of("date_part datepart extract")
def _date_part(call: Call) -> str:
    unit, value = _unit_and(call.arguments, last_is_unit="_" in call.name)
    if call.name == "extract" and len(call.spans) == 1:
        words, (start, end) = call.words, call.spans[0]
        at = next((at for at in words.outer(call.spans[0]) if words.word(at) == "FROM"), end)
        unit = moments.unit_of(words.text(Span(start, at)))
        value = rewritten(words, Span(at + 1, end), call.text, call.tables)
    return moments.part(unit, value) if value else ""


@_one_of("year month day dayofmonth hour minute second dayofweek weekday dayofyear week weekofyear quarter isodow dow "
         "doy epoch")  # fmt: skip
def _part(call: Call) -> str:
    units = {"dayofmonth": "day", "weekofyear": "week", "dayofweek": "dow", "weekday": "dow"}
    return moments.part(moments.unit_of(units.get(call.name, call.name)), *call.arguments) if len(
        call.arguments) == 1 else ""  # fmt: skip


def _unit_and(arguments: Sequence[str], *, last_is_unit: bool) -> tuple[str, str]:
    """Return the unit, which is one of two arguments, and the other argument.

    BigQuery has the unit last, as a word: a column may have the name of a unit.
    """
    if len(arguments) != 2:
        return "", ""
    first, last = moments.unit_of(arguments[0]), moments.unit_of(arguments[1])
    if arguments[0].startswith("'") or not last or (first and not last_is_unit):
        return first, arguments[1]
    return last, arguments[0]


@_one_of("dayname")
def _dayname(call: Call) -> str:
    names = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
    cases = " ".join(f"WHEN '{number}' THEN '{name}'" for number, name in enumerate(names))
    return f"CASE strftime('%w', {call.arguments[0]}) {cases} END" if len(call.arguments) == 1 else ""


@_one_of("monthname")
def _monthname(call: Call) -> str:
    names = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
             "November", "December")  # fmt: skip
    cases = " ".join(f"WHEN '{number:02}' THEN '{name}'" for number, name in enumerate(names, 1))
    return f"CASE strftime('%m', {call.arguments[0]}) {cases} END" if len(call.arguments) == 1 else ""


@_one_of("datediff date_diff timestampdiff")
def _datediff(call: Call) -> str:
    """MySQL: the end first, days; SQL Server, DuckDB: the unit first; BigQuery: the end first, the unit last."""
    arguments = call.arguments
    if len(arguments) == 2:
        return moments.difference("day", arguments[1], arguments[0])
    if len(arguments) != 3:
        return ""
    first, last = moments.unit_of(arguments[0]), moments.unit_of(arguments[2])
    if arguments[0].startswith("'") or (first and not (last and call.name == "date_diff")):
        return moments.difference(first, arguments[1], arguments[2])
    return moments.difference(last, arguments[1], arguments[0])


@_one_of("dateadd date_add adddate timestampadd date_sub subdate")
def _dateadd(call: Call) -> list[str]:
    sign = -1 if "sub" in call.name else 1
    if len(call.arguments) == 3 and (unit := moments.unit_of(call.arguments[0])):
        return moments.shifted(call.arguments[2], call.kind(2), call.arguments[1], unit, sign)
    if len(call.arguments) != 2:
        return []
    interval = interval_at(call.words, call.spans[1].start)
    if interval is None:
        return moments.shifted(call.arguments[0], call.kind(0), call.arguments[1], "day", sign)
    count, unit, _ = interval
    return moments.shifted(call.arguments[0], call.kind(0), count, unit, sign)


@_one_of("add_months")
def _add_months(call: Call) -> list[str]:
    if len(call.arguments) != 2:
        return []
    return moments.shifted(call.arguments[0], call.kind(0), call.arguments[1], "month")


def interval_at(words: Words, index: int) -> tuple[str, str, int] | None:
    """Return the number and the unit of an INTERVAL at an index, and the index after it; None if it is no such one.

    It is ``INTERVAL '1 day'``, ``INTERVAL 1 DAY`` or ``INTERVAL '1' DAY``.
    """
    span = words.operand_after(index + 1)
    if words.word(index) != "INTERVAL" or span is None:
        return None
    token = words.literal(span)
    written = words.text(span)
    if token is not None and token.kind == "string":
        parts = unquote(token.text).split()
        if len(parts) == 2 and re.fullmatch(r"[-+]?\d+", parts[0]) and moments.unit_of(parts[1]):
            return parts[0], moments.unit_of(parts[1]), span.end
        if len(parts) != 1 or not re.fullmatch(r"[-+]?\d+", parts[0]):
            return None
        written = parts[0]
    unit = moments.unit_of(words.word(span.end))
    return (written, unit, span.end + 1) if unit else None


@_one_of("to_date str_to_date to_timestamp strptime")
def _to_date(call: Call) -> str:
    if len(call.arguments) == 1:
        return (
            f"date({call.arguments[0]})"
            if call.name != "to_timestamp"
            else f"datetime({call.arguments[0]}, 'unixepoch')"
        )
    form = call.string(1) if len(call.arguments) == 2 else None
    return moments.read_by(moments.format_of(call.name, form), call.arguments[0]) if form else ""


@_one_of("to_char date_format format_date")
def _to_char(call: Call) -> str:
    if len(call.arguments) != 2:
        return ""
    value = 1 if call.string(0) is not None and call.string(1) is None else 0  # BigQuery has the format first
    form = call.string(1 - value)
    if form is None:
        return ""
    if call.name == "to_char" and (decimals := re.fullmatch(r"(?:FM)?[90,]*[90](?:\.([90]*))?", form)):
        return f"printf('%.{len(decimals[1] or '')}f', {call.arguments[value]})"
    code = moments.format_of(call.name, form)
    return f"strftime({quoted(code, chr(39))}, {call.arguments[value]})" if code else ""


@_one_of("decode")
def _decode(call: Call) -> str:
    first, *rest = call.arguments
    if len(rest) < 2:
        return ""
    cases = [f"WHEN {rest[at]} THEN {rest[at + 1]}" for at in range(0, len(rest) - 1, 2)]
    otherwise = [f"ELSE {rest[-1]}"] if len(rest) % 2 else []
    return " ".join([f"CASE {first}", *cases, *otherwise, "END"])


@_one_of("concat")
def _concat(call: Call) -> str:
    return " || ".join(map(_or_nothing, call.arguments)) if call.arguments else ""


@_one_of("concat_ws")
def _concat_ws(call: Call) -> str:
    separator = call.string(0) if len(call.arguments) > 1 else None
    if separator is None:
        return ""
    parts = " || ".join(f"ifnull({call.arguments[0]} || {_operand(value)}, '')" for value in call.arguments[1:])
    return f"substr({parts}, {len(separator) + 1})"


def _or_nothing(value: str) -> str:
    return value if value.startswith("'") and _operand(value) == value else f"ifnull({value}, '')"


@_one_of("string_agg listagg")
def _string_agg(call: Call) -> str:
    if len(call.arguments) not in (1, 2) or call.arguments[0].upper().startswith("DISTINCT "):
        return ""
    return f"group_concat({', '.join(call.arguments)})"


@_one_of("split_part substring_index")
def _split_part(call: Call) -> str:
    separator = call.string(1) if len(call.arguments) == 3 else None
    number = call.arguments[-1]
    if separator is None or not number.isdecimal() or number == "0":
        return ""
    value, mark = call.arguments[:2]
    if number == "1":
        return f"substr({value}, 1, instr({_operand(value)} || {mark}, {mark}) - 1)"
    if call.name == "substring_index" or re.search(r"[\w\"\\]", separator):
        return ""
    array = f"'[' || replace(json_quote({_operand(value)} || ''), {mark}, '\",\"') || ']'"
    return f"ifnull(json_extract({array}, '$[{int(number) - 1}]'), substr({value}, 1, 0))"


@_one_of("greatest least")
def _greatest(call: Call) -> str:
    function = "max" if call.name == "greatest" else "min"
    return f"{function}({', '.join(call.arguments)})" if len(call.arguments) > 1 else ""


@_one_of("lpad rpad")
def _pad(call: Call) -> str:
    if len(call.arguments) not in (2, 3) or not call.arguments[1].isdecimal():
        return ""
    mark = " " if len(call.arguments) == 2 else call.string(2)
    size = int(call.arguments[1])
    if mark is None or len(mark) != 1 or not 0 < size <= 40:
        return ""
    value, filling = call.arguments[0], quoted(mark * size, "'")
    if call.name == "rpad":
        return f"substr({_operand(value)} || {filling}, 1, {size})"
    return f"substr(substr({filling}, 1, {size} - length({value})) || {_operand(value)}, 1, {size})"


@_one_of(" ".join(statistics.VARIANCES))
def _variance(call: Call) -> str:
    select = call.select
    if len(call.arguments) != 1 or select is None or _is_window(call):
        return ""
    return statistics.variance(call.name, call.arguments[0], select)


@_one_of("median")
def _median(call: Call) -> str:
    return _median_of(call, call.arguments[0]) if len(call.arguments) == 1 and not _is_window(call) else ""


def _median_of(call: Call, value: str) -> str:
    select, closing = call.select, call.words.closing(call.index + 1)
    if select is None or closing is None:
        return ""
    return statistics.median(value, select, Span(call.index, closing + 1))


@_one_of("percentile_cont")
def _percentile(call: Call) -> str:
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
    return statistics.median(call.words.text(value), select, Span(call.index, end + 1))


def _is_window(call: Call) -> bool:
    closing = call.words.closing(call.index + 1)
    return closing is not None and call.words.word(closing + 1) in ("OVER", "FILTER")


@_one_of("rand")
def _rand(call: Call) -> str:
    if call.words.word(call.index - 1) == "BY":
        return "random()"
    return "" if call.arguments else "(random() & 9007199254740991) / 9007199254740992.0"


@_one_of("unnest string_split string_to_array")
def _unnest(call: Call) -> str:
    if call.name != "unnest" or len(call.arguments) != 1:
        return ""
    value = call.arguments[0]
    if array := re.fullmatch(r"(?:ARRAY)?\[([-\d., ]*)\]", value, re.IGNORECASE):
        return f"json_each('[{array[1]}]')"
    return f"json_each({value})"


@_one_of("generate_series range")
def _series(call: Call) -> str:
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
        return _of_regexp(text)
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
    alternatives = expressions(words, index, text, tables)
    closing = words.closing(index + 1)
    if closing is not None and beside_operator(words, Span(index, closing + 1)):
        alternatives = [_operand(expression) for expression in alternatives]
    return write(alternatives)


def takes_unit(words: Words, index: int) -> bool:
    """Return True if a function of other databases is at an index, whose first argument is a unit."""
    names = ("dateadd", "datediff", "datepart", "datetrunc", "date_diff", "timestampadd", "timestampdiff")
    return words.word(index).lower() in names and bool(moments.unit_of(words.word(index + 2)))


def beside_operator(words: Words, span: Span) -> bool:
    """Return True if an operator before or after a span could bind a part of what replaces it."""
    signs = ("+", "-", "*", "/", "%", "||", "->", "->>", "<", ">", "<=", ">=", "=", "<>", "!=", "COLLATE")
    return words.word(span.start - 1) in signs[:8] or words.word(span.end) in signs


def expressions(words: Words, index: int, text: str, tables: Mapping[str, Relation]) -> list[str]:
    """Return what to write instead of the call at an index; several where the types decide and are not known."""
    spans = words.arguments(index)
    if spans is None:
        return []
    name = words.word(index).lower()
    arguments = [rewritten(words, span, text, tables) for span in spans]
    call = Call(name, arguments, spans, words, index, text, tables)
    if name in _RULES:
        result = _RULES[name](call)
        return [result] if isinstance(result, str) and result else list(result)
    return [expression] if (expression := _filled(_BY_NAME.get(name, ()), arguments)) else []


def rewritten(words: Words, span: Span, text: str, tables: Mapping[str, Relation]) -> str:
    """Return the text of an expression; the calls in it that this module knows are replaced, too."""
    replaced, at = dict[int, tuple[int, str]](), span.start
    while at < span.end:
        closing = words.closing(at + 1) if words.word(at).lower() in _MISSING and words.word(at + 1) == "(" else None
        alternatives = [] if closing is None else expressions(words, at, text, tables)
        if closing is not None and len(alternatives) == 1:
            call = Span(at, closing + 1)
            replaced[at] = call.end, _operand(alternatives[0]) if beside_operator(words, call) else alternatives[0]
        at = replaced[at][0] if at in replaced else at + 1
    return words.text(span, replaced)


def _filled(templates: Sequence[str], arguments: Sequence[str]) -> str:
    values = {}
    for number, argument in enumerate(arguments):
        values[f"_{number}"] = argument
        values[f"p{number}"] = _operand(argument)
        if argument.isdecimal():
            values[f"i{number}"] = argument
    for template in templates:
        slots = [slot for _, slot, _, _ in Formatter().parse(template) if slot is not None]
        count = max((int(slot[-1]) + 1 for slot in slots), default=0)
        names = [slot if slot.isidentifier() else f"_{slot}" for slot in slots]
        if count == len(arguments) and all(slot in values for slot in names):
            return re.sub(r"\{(\d)\}", r"{_\1}", template).format(**values)
    return ""


def _operand(expression: str) -> str:
    """Return an expression that can stand beside an operator."""
    words = Words(expression)
    return expression if words.is_operand(Span(0, len(words))) else f"({expression})"


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
    """Return a hint for a call whose arguments do not fit: the functions to use; '' for none."""
    advice = _GENERAL.get(name, "")
    if advice:
        return advice
    templates = _BY_NAME.get(name, ())
    functions = re.findall(r"\b([a-z_]+)\(", " ".join(templates))
    return f"use {functions[0]}() instead" if functions else ""


_GENERAL = {
    name: hint
    for names, hint in {
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
        "median percentile_cont": "sort the values, and take the middle one with LIMIT and OFFSET",
        " ".join(statistics.VARIANCES): "compute it from avg() and sum()",
        "generate_series range": "use WITH RECURSIVE",
        "unnest string_split string_to_array": "json_each() returns the values of a JSON array as rows",
    }.items()
    for name in names.split()
}  # fmt: skip


def _of_regexp(text: str) -> str:
    """Return the hint for the operator REGEXP on a server without it."""
    words = Words(text)
    indexes = [index for index in range(len(words)) if words.word(index) == "REGEXP"]
    return of_pattern(words, indexes[0]) if len(indexes) == 1 else "this server has no REGEXP: use LIKE or GLOB"


def of_pattern(words: Words, index: int, *, length: int = 1, ignores_case: bool = False) -> str:
    """Return what to write instead of an operator that matches a regular expression, of ``length`` words."""
    negated = words.word(index - 1) == "NOT"
    value, pattern = words.operand_before(index - negated), words.operand_after(index + length)
    token = None if pattern is None else words.literal(pattern)
    if value is None or token is None or token.kind != "string":
        return "use LIKE or GLOB"
    condition = matching(words.text(value), unquote(token.text), negated=negated, ignores_case=ignores_case)
    if condition:
        return f"write {condition}"
    operator = "NOT REGEXP" if negated else "REGEXP"
    if words.word(index) == "REGEXP" or ignores_case:
        return "use LIKE or GLOB"
    return f"write {words.text(value)} {operator} {token.text}, which the embedded service has"


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


_BY_NAME = {name: templates for names, templates in _TEMPLATES.items() for name in names.split()}
_NO_IDIOM = frozenset(_WITHOUT.split())
_MISSING = frozenset((_RULES.keys() | _BY_NAME.keys()) - statistics.VARIANCES.keys() - {
    "median", "concat", "concat_ws", "string_agg", "regexp_replace", "percentile_cont", "generate_series", "instr",
    "ifnull", "if",
})  # fmt: skip
"""Functions that neither the embedded service nor sqld has; and date_trunc, whose expression is as short."""
