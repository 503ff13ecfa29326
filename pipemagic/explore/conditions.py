"""Conditions that people write in SQL, such as ``delay > 15``: they stand in a statement of ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pipemagic.errors import ParameterError
from pipemagic.hrana.values import SqlValue
from pipemagic.sql import tokens


@dataclass(frozen=True)
class Condition:
    """A condition and the values of its parameters."""

    sql: str
    args: Mapping[str, SqlValue]


def check(text: str, *, parameters: bool = False) -> None:
    """ParameterError unless a text can stand in parentheses after WHERE without reaching out of them.

    It may have parameters only if there are values for them.
    """
    depth = 0
    for token in tokens(text):
        depth += {"(": 1, ")": -1}.get(token.text, 0) if token.kind == "op" else 0
        if token.kind == "semi":
            raise ParameterError("a condition is one expression, and there is a ; in it")
        if token.kind == "param" and not parameters:
            raise ParameterError(
                f"{token.text} has no value here", hint="write the value itself; variables are for %%sql cells"
            )
        if depth < 0 or _is_open(token.kind, token.text):
            break
    else:
        if depth == 0:
            return
    raise ParameterError("a quote or a parenthesis of the condition is not closed, or not opened")


def used(text: str, params: Mapping[str, SqlValue]) -> dict[str, SqlValue]:
    """Return the values of the parameters that a condition has; ParameterError for one without a value."""
    by_name = {name.lstrip(":@$"): value for name, value in params.items()}
    names = dict.fromkeys(token.text for token in tokens(text) if token.kind == "param")
    for name in names:
        if name[1:] not in by_name:
            raise ParameterError(f"{name} has no value", hint=f"params={{{name[1:]!r}: ...}} gives it one")
    return {name: by_name[name[1:]] for name in names}


def _is_open(kind: str, text: str) -> bool:
    """Tell whether a quote or a comment has no end."""
    if kind == "comment":
        return text.startswith("/*") and not text.endswith("*/")
    if kind in ("string", "quoted"):
        last = {"[": "]"}.get(text[0], text[0])
        return len(text) < 2 or text[-1] != last or (last != "]" and text.count(last) % 2 == 1)
    return False


def one_line(text: str) -> str:
    """Give a condition without its comments and line ends, for the line of a magic."""
    return " ".join(
        "".join(" " if token.kind == "comment" else token.text for token in tokens(text)).split("\n")
    ).strip()
