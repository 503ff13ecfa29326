"""Casts of PostgreSQL and DuckDB (``day::date``), and the expression of SQLite that has the same value."""

from __future__ import annotations

import re

from pipemagic.explore.hints import idioms
from pipemagic.explore.hints.words import Words

_DATES = {"DATE": "date", "TIMESTAMP": "datetime", "TIMESTAMPTZ": "datetime", "DATETIME": "datetime", "TIME": "time"}
_INTEGERS = ("INT", "INTEGER", "BIGINT", "SMALLINT", "TINYINT", "INT2", "INT4", "INT8", "LONG", "SIGNED", "UNSIGNED")
_REALS = ("NUMERIC", "DECIMAL", "REAL", "FLOAT", "DOUBLE", "FLOAT4", "FLOAT8", "MONEY")
_TEXTS = ("TEXT", "VARCHAR", "CHAR", "STRING", "BPCHAR", "NVARCHAR")
_TYPE = re.compile(r"(\w+)(?:\(\s*\d+\s*(?:,\s*(\d+)\s*)?\))?")


def of_cast(text: str, offset: int, type_: str) -> str:
    """Return a hint on what to write instead of a cast, whose two colons begin at an offset."""
    words = Words(text)
    index = words.at(offset)
    operand = words.operand_before(index)
    match = _TYPE.fullmatch(type_)
    if operand is None:
        value = ""
    elif words.words(operand.start - 4, 2) == ["%", "("]:  # %(low)s::int
        value = f":{words.name(operand.start - 2)}"
    else:
        value = idioms.rewritten(words, operand, text, {})
    if value.startswith("(") and value.endswith(")") and Words(value).closing(0) == len(Words(value)) - 1:
        value = value[1:-1]
    cast = expression(value, match[1].upper(), match[2] or "") if match is not None else ""
    if not cast:
        return f"leave ::{type_} out"
    return f"write {cast}" if value else f"use {cast.partition('(')[0]}() instead"


def expression(value: str, type_: str, digits: str = "") -> str:
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
