"""Operators and expressions of other databases, and those of SQLite for them, in the user's names.

Each rule reads the statement at the place of a syntax error, and returns the hint or ''.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pipemagic.explore.hints.dates import DAY, MOMENT, interval_at, kind_of, shifted, takes_unit
from pipemagic.explore.hints.functions import general, of_call, rewritten, try_cast, write
from pipemagic.explore.hints.texts import of_pattern
from pipemagic.explore.hints.words import Place, PlaceRule, Span, Words
from pipemagic.explore.schema import Relation


def of_expression(place: Place) -> str:
    """Return a hint on an operator or expression of another database at the place of an error; '' for any other one."""
    return next(filter(None, (rule(place) for rule in _EXPRESSION_RULES)), "")


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
            return of_pattern(words, index)
        if operator == "SIMILAR" and words.word(index + 1) == "TO":
            return _similar(words, index)
        if operator in ("DIV", "MOD", "XOR"):
            return _arithmetic(words, index, operator)
    if place.word == "~":
        ignores_case = words.word(at + 1) == "*"
        return of_pattern(words, at, length=1 + ignores_case, ignores_case=ignores_case)
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
        hint = of_pattern(words, at, length=2 + ignores_case, ignores_case=ignores_case)
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
        return of_call(words, index, place.text, place.tables) or general("extract")
    if name in ("SUBSTRING", "SUBSTR"):
        length = next((at for at in words.outer(second) if words.word(at) == "FOR"), None)
        start = words.text(second if length is None else Span(second.start, length))
        size = "" if length is None else f", {words.text(Span(length + 1, closing))}"
        return f"write substr({words.text(first)}, {start}{size})"
    if name == "TRIM":
        return _trim(words, first, second)
    if name.lower() in ("try_cast", "safe_cast"):
        cast = try_cast(words.text(first), words.text(second))
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
        return "" if at is None else "SQLite has no SEPARATOR: pass it as the second argument of group_concat()"
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
    return of_call(words, place.index, place.text, place.tables)


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
        hint = of_call(words, call.start, place.text, place.tables)
        return hint or general(name)
    return f"SQLite has no {name} here: number the rows with row_number() and select the one you need" if (
        name == "percentile_disc") else ""  # fmt: skip


def _nulls(place: Place) -> str:
    if place.word == "NULLS" and place.before in ("IGNORE", "RESPECT"):
        return f"SQLite has no {place.before} NULLS: filter out the rows with NULL before the window function"
    return ""


def _interval(place: Place) -> str:
    words = place.words
    if hint := _of_typed_text(words, place.index):
        return hint
    nearby = (place.index, place.index - 1, place.index + 1)
    index = next((at for at in nearby if words.word(at) == "INTERVAL"), None)
    return "" if index is None else _of_interval(words, index, place.text, place.tables)


def _of_typed_text(words: Words, index: int) -> str:
    """Return what to write instead of DATE '2024-01-01' or N'Porto', whose text is at an index; '' for other texts."""
    token, before = words.token(index), words.token(index - 1)
    if token is None or before is None or token.kind != "string":
        return ""
    if before.word in ("DATE", "TIME", "TIMESTAMP"):
        return f"dates are text: write {token.text}"
    is_prefix = before.word in ("E", "N", "B", "R") and before.end == token.start and "\\" not in token.text
    return f"write {token.text}" if is_prefix else ""


def _of_interval(words: Words, index: int, text: str, tables: Mapping[str, Relation]) -> str:
    """Return what to write instead of an INTERVAL: a modifier of the date before it."""
    general = "date() and datetime() take modifiers such as '+1 day'"
    interval = interval_at(words, index)
    opening = words.around(index)
    if words.word(index - 1) == "," and opening is not None and opening > 0:  # date_add(day, INTERVAL 1 DAY)
        return of_call(words, opening - 1, text, tables) or general
    if words.word(index - 1) not in ("+", "-"):
        return ""
    value = words.operand_before(index - 1)
    if interval is None or value is None:
        return general
    count, unit, _ = interval
    sign = -1 if words.word(index - 1) == "-" else 1
    written = rewritten(words, value, text, tables)
    literal = words.token(value.start)
    is_typed = literal is not None and literal.kind == "string" and words.word(value.start - 1) in ("DATE", "TIMESTAMP")
    kind = {"DATE": DAY, "TIMESTAMP": MOMENT}[words.word(value.start - 1)] if is_typed else kind_of(
        words, value, text, tables)  # fmt: skip
    return write(shifted(written, kind, count, unit, sign)) or general


def of_position(text: str, name: str) -> str:
    """Return the hint on ``position('a' IN name)``, where SQLite reads the name as a table."""
    words = Words(text)
    at = next((at for at in range(len(words)) if words.words(at, 2) == ["POSITION", "("]), None)
    closing = None if at is None else words.closing(at + 1)
    if at is None or closing is None:
        return ""
    middle = next((index for index in range(at, closing) if words.word(index) == "IN"), None)
    if middle is None or words.name(middle + 1).lower() != name.lower():
        return ""
    return f"write instr({words.text(Span(middle + 1, closing))}, {words.text(Span(at + 2, middle))})"


def of_column_of_dialect(text: str, place: int | None, tables: Mapping[str, Relation]) -> str:
    """Return the hint on DATE '2024-01-01', INTERVAL '1 day', ARRAY[1, 2], [1, 2] and CONVERT(INTEGER, flight)."""
    if place is None:
        return ""
    words = Words(text)
    at = words.at(place)
    following, token = words.token(at + 1), words.token(at)
    if token is None:
        return ""
    opening = words.around(at)
    if opening is not None and opening == at - 1 and takes_unit(words, opening - 1):
        return of_call(words, opening - 1, text, tables)
    if words.word(at) == "INTERVAL":
        return _of_interval(words, at, text, tables)
    if hint := _of_typed_text(words, at + 1):
        interval = next((index for index in (at + 2, at + 3) if words.word(index) == "INTERVAL"), None)
        return hint if interval is None else _of_interval(words, interval, text, tables)
    array = following if words.word(at) == "ARRAY" else token
    if array is not None and array.text.startswith("[") and _DIGITS.fullmatch(array.text[1:-1]) and "," in array.text:
        return f"write json_array({array.text[1:-1]})"
    return _of_convert(words, at)


_DIGITS = re.compile(r"[-+]?[\d., ]+")


def _of_convert(words: Words, at: int) -> str:
    """CONVERT(INTEGER, flight) of SQL Server, CONVERT(flight, SIGNED) of MySQL."""
    opening = words.around(at)
    arguments = None if opening is None or words.word(opening - 1) != "CONVERT" else words.arguments(opening - 1)
    if arguments is None or len(arguments) != 2:
        return ""
    types = {"SIGNED": "INTEGER", "UNSIGNED": "INTEGER", "INT": "INTEGER", "INTEGER": "INTEGER", "BIGINT": "INTEGER",
             "CHAR": "TEXT", "VARCHAR": "TEXT", "NVARCHAR": "TEXT", "TEXT": "TEXT", "DECIMAL": "REAL", "FLOAT": "REAL",
             "REAL": "REAL", "DOUBLE": "REAL", "NUMERIC": "REAL"}  # fmt: skip
    for type_, value in (arguments, arguments[::-1]):
        name, written = words.word(type_.start), words.text(value)
        if name in types:
            return f"write CAST({written} AS {types[name]})"
        if name in ("DATE", "DATETIME", "TIMESTAMP"):
            return f"write {'date' if name == 'DATE' else 'datetime'}({written})"
    return ""


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
        return "parameters are named: write a colon and the name of a variable"
    return f"write :{name}, which takes the value of the variable {name}"


_EXPRESSION_RULES: tuple[PlaceRule, ...] = (
    _isnull, _current, _within_group, _nulls, _interval, _keyword_arguments, _operators, _percent_parameter,
)  # fmt: skip
