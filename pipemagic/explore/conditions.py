"""SQL conditions typed by users, such as ``delay > 15``, and values as SQL literals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from pipemagic.errors import ParameterError
from pipemagic.explore.sqlite_reference import BEFORE_OPERAND
from pipemagic.hrana.values import SqlValue
from pipemagic.sql import Token, quote, tokens
from pipemagic.sql.tokenizer import BLANK

_CLAUSES = frozenset(["GROUP", "HAVING", "WINDOW", "ORDER", "LIMIT", "UNION", "INTERSECT", "EXCEPT"])
"""Reserved words that begin what follows the condition of a SELECT."""


@dataclass(frozen=True)
class Condition:
    """A condition and the values of its parameters."""

    sql: str
    args: Mapping[str, SqlValue]


def check(text: str, *, parameters: bool = False) -> None:
    """Raise ParameterError unless a text is one expression that can be put in parentheses after WHERE.

    Parameters are allowed only if they have values.
    """
    check_form(text, parameters=parameters)
    check_balance(text, "condition")


def check_form(text: str, *, parameters: bool = False) -> None:
    """Raise ParameterError for a text that is empty or more than a condition, and for parameters without values."""
    if not text.strip():
        raise ParameterError("the condition is empty")
    depth, ends_operand = 0, False
    for token in tokens(text):
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if token.kind == "semi":
            raise ParameterError("the condition must be a single SQL expression without ;")
        if ends_operand and not depth and token.word in _CLAUSES:  # elsewhere it is meant as a name
            raise ParameterError(f"the condition must be a single SQL expression without {token.word}")
        if token.kind == "param" and not parameters:
            hint = "write the value itself; variables work only in %%sql cells"
            raise ParameterError(f"parameter {token.text} cannot be used here", hint=hint)
        if token.kind not in BLANK:
            ends_operand = token.text == ")" or not (token.kind == "op" or token.word in BEFORE_OPERAND)


def check_balance(text: str, noun: str) -> None:
    """Raise ParameterError unless a text can stand in parentheses: ``1) UNION SELECT (2`` is another statement."""
    if not is_balanced(text):
        raise ParameterError(f"the {noun} has an unbalanced quote or parenthesis")


def is_balanced(text: str) -> bool:
    """Return True if quotes, comments and parentheses of a text begin and end in it."""
    depth = 0
    for token in tokens(text):
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth < 0 or not token.is_finished:
            return False
    return depth == 0


def args_of(text: str, params: Mapping[str, SqlValue]) -> dict[str, SqlValue]:
    """Return the values of the parameters in a text. Raise ParameterError for a parameter without a value."""
    by_name = {name.lstrip(":@$"): value for name, value in params.items()}
    used = dict.fromkeys(token.text for token in tokens(text) if token.kind == "param")
    for name in used:
        if name[1:] not in by_name:
            raise ParameterError(f"parameter {name} has no value", hint=f"pass params={{{name[1:]!r}: ...}}")
    return {name: by_name[name[1:]] for name in used}


def literal(value: SqlValue) -> str:
    """Return a value as an SQL literal. Raise ParameterError if it has none: NaN, text with NUL, large integers."""
    match value:
        case None:
            return "NULL"
        case bytes():
            return f"x'{value.hex()}'"
        case str() if "\0" in value:
            raise ParameterError("text with a NUL character cannot be written as an SQL literal")
        case str():
            return "'" + value.replace("'", "''") + "'"
        case float() if math.isnan(value):
            raise ParameterError("NaN cannot be written as an SQL literal")
        case int() if not -(2**63) <= value < 2**63:
            raise ParameterError(f"{value} does not fit in 64 bits")
    return repr(value).replace("inf", "9e999")


def with_literals(text: str, values: Mapping[str, SqlValue]) -> str:
    """Return SQL with the values of some parameters written as literals, if they have one."""

    def written(token: Token) -> str:
        if token.kind == "param" and token.text in values:
            with suppress(ParameterError):
                return f" {literal(values[token.text])} "  # without the space, - before -1 would begin a comment
        return token.text

    return "".join(map(written, tokens(text)))


def quote_name(name: str) -> str:
    """Return a name of a table or column in quotes. Raise ParameterError if it is empty or contains NUL."""
    try:
        return quote(name)
    except ValueError as error:
        raise ParameterError(str(error)) from None


def one_line(text: str) -> str:
    """Return a condition without comments and line breaks, for the line of a magic."""
    return " ".join(
        "".join(" " if token.kind == "comment" else token.text for token in tokens(text)).split("\n")
    ).strip()
