"""Functions and operators of other databases for texts, and regular expressions as patterns of GLOB and LIKE."""

from __future__ import annotations

import re

from pipemagic.explore.hints.words import FunctionCall, FunctionRule, Words, as_operand, by_name
from pipemagic.explore.sqlite_reference import quoted
from pipemagic.sql import unquote

_PARTS = re.compile(r"(\.\*|\.\+|\.|\\d|\\[.()\[\]{}+*?^$|\\/-]|\[\^?[^\]\\\[]+\]|[^\\.\[\](){}+*?^$|])(\{\d{1,2}\})?")


def matching(value: str, pattern: str, *, negated: bool = False, ignores_case: bool = False) -> str:
    """Return the condition that a value matches a regular expression; '' if GLOB cannot express it."""
    body = pattern.removeprefix("^")
    from_start = body is not pattern and body != pattern
    to_end = body.endswith("$") and not body.endswith("\\$")
    glob = _glob(body[:-1] if to_end else body)
    if glob is None:
        return ""
    glob = f"{'' if from_start else '*'}{glob}{'' if to_end else '*'}".replace("**", "*")
    not_ = "NOT " if negated else ""
    if not ignores_case:
        return f"{value} {not_}GLOB {quoted(glob, chr(39))}"
    if "[" in glob or "%" in glob or "_" in glob:
        return f"lower({value}) {not_}GLOB {quoted(glob.lower(), chr(39))}"
    return f"{value} {not_}LIKE {quoted(glob.replace('*', '%').replace('?', '_'), chr(39))}"


def _glob(body: str) -> str | None:
    parts, at = list[str](), 0
    while at < len(body):
        match = _PARTS.match(body, at)
        if match is None:
            return None
        part = _part(match[1])
        if match[2]:
            if match[1] in (".*", ".+"):
                return None
            part *= int(match[2][1:-1])
        parts.append(part)
        at = match.end()
    return "".join(parts)


def _part(part: str) -> str:
    wildcards = {".*": "*", ".+": "?*", ".": "?", "\\d": "[0-9]"}
    if part in wildcards:
        return wildcards[part]
    char = part[1:] if part.startswith("\\") else part
    return f"[{char}]" if char in ("*", "?", "[") else char


def of_regexp(text: str) -> str:
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


# -- functions


def _regexp(call: FunctionCall) -> str:
    pattern = call.string(1) if len(call.arguments) == 2 else None
    return "" if pattern is None else matching(as_operand(call.arguments[0]), pattern)


def _regexp_replace(call: FunctionCall) -> str:
    pattern = call.string(1) if len(call.arguments) in (3, 4) else None
    if pattern is None or not re.fullmatch(r"[\w\s,;:!#%&'\"@<>=/~-]+", pattern):
        return ""
    return f"replace({', '.join(call.arguments[:3])})"


def _concat(call: FunctionCall) -> str:
    return " || ".join(map(_or_nothing, call.arguments)) if call.arguments else ""


def _concat_ws(call: FunctionCall) -> str:
    separator = call.string(0) if len(call.arguments) > 1 else None
    if separator is None:
        return ""
    parts = " || ".join(f"ifnull({call.arguments[0]} || {as_operand(value)}, '')" for value in call.arguments[1:])
    return f"substr({parts}, {len(separator) + 1})"


def _or_nothing(value: str) -> str:
    return value if value.startswith("'") and as_operand(value) == value else f"ifnull({value}, '')"


def _split_part(call: FunctionCall) -> str:
    separator = call.string(1) if len(call.arguments) == 3 else None
    number = call.arguments[-1]
    if separator is None or not number.isdecimal() or number == "0":
        return ""
    value, mark = call.arguments[:2]
    if number == "1":
        return f"substr({value}, 1, instr({as_operand(value)} || {mark}, {mark}) - 1)"
    if call.name == "substring_index" or re.search(r"[\w\"\\]", separator):
        return ""
    array = f"'[' || replace(json_quote({as_operand(value)} || ''), {mark}, '\",\"') || ']'"
    return f"ifnull(json_extract({array}, '$[{int(number) - 1}]'), substr({value}, 1, 0))"


def _pad(call: FunctionCall) -> str:
    if len(call.arguments) not in (2, 3) or not call.arguments[1].isdecimal():
        return ""
    mark = " " if len(call.arguments) == 2 else call.string(2)
    size = int(call.arguments[1])
    if mark is None or len(mark) != 1 or not 0 < size <= 40:
        return ""
    value, filling = call.arguments[0], quoted(mark * size, "'")
    if call.name == "rpad":
        return f"substr({as_operand(value)} || {filling}, 1, {size})"
    return f"substr(substr({filling}, 1, {size} - length({value})) || {as_operand(value)}, 1, {size})"


TEXT_RULES: dict[str, FunctionRule] = by_name(
    {
        "regexp_like regexp_matches regexp_contains rlike": _regexp,
        "regexp_replace": _regexp_replace,
        "concat": _concat,
        "concat_ws": _concat_ws,
        "split_part substring_index": _split_part,
        "lpad rpad": _pad,
    }
)
