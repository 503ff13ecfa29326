"""Conditions that people write in SQL, such as ``delay > 15``: they stand in a statement of ours."""

from __future__ import annotations

from pipemagic.errors import ParameterError
from pipemagic.sql import tokens


def check(text: str) -> None:
    """ParameterError unless a text can stand in parentheses after WHERE without reaching out of them."""
    depth = 0
    for token in tokens(text):
        depth += {"(": 1, ")": -1}.get(token.text, 0) if token.kind == "op" else 0
        if token.kind == "semi":
            raise ParameterError("a condition is one expression, and there is a ; in it")
        if token.kind == "param":
            raise ParameterError(
                f"{token.text} has no value here", hint="write the value itself; variables are for %%sql cells"
            )
        if depth < 0 or _is_open(token.kind, token.text):
            break
    else:
        if depth == 0:
            return
    raise ParameterError("a quote or a parenthesis of the condition is not closed, or not opened")


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
