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
    is_driver_parameter = operand is not None and words.word(operand.start - 1) == ")"  # %(low)s::int
    value = "" if operand is None or is_driver_parameter else idioms.rewritten(words, operand, text, {})
    match = _TYPE.fullmatch(type_)
    if value.startswith("(") and value.endswith(")") and Words(value).closing(0) == len(Words(value)) - 1:
        value = value[1:-1]
    found = expression(value or "...", match[1].upper(), match[2] or "") if match is not None else ""
    return f"write {found}" if found else f"leave ::{type_} out"


def expression(value: str, type_: str, digits: str = "") -> str:
    """Return the expression for a cast to a type; '' for a type that SQLite does not have.

    CAST to NUMERIC would keep an integer, and so make a division one of integers; CAST to DATE would make a number.
    """
    if type_ in _DATES:
        return f"{_DATES[type_]}({value})"
    if type_ in _INTEGERS:
        return f"CAST({value} AS INTEGER), which drops the decimals"
    if type_ in _REALS:
        return f"round({value}, {digits})" if digits else f"CAST({value} AS REAL)"
    return f"CAST({value} AS TEXT)" if type_ in _TEXTS else ""
