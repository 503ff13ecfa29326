"""Python objects in a column: the type to declare for them, and what SQLite is to store."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pipemagic.errors import ProtocolError
from pipemagic.hrana.values import SqlValue, to_sql

_AT_ONCE = 50_000


def declared_type(kinds: Iterable[type]) -> str:
    """Give the type to declare for a column that holds these Python types; '' if they do not go together."""
    found = {_declared(kind) for kind in kinds}
    return found.pop() if len(found) == 1 else ""


def _declared(kind: type) -> str:
    """Give the type to declare for one Python type; '' for one that `to_sql` has to judge."""
    if issubclass(kind, np.timedelta64):  # which numpy counts among the integers
        return ""
    for declared, types in (
        ("BOOLEAN", (bool, np.bool_)),
        ("INTEGER", (int, np.integer)),
        ("REAL", (float, np.floating)),
        ("TEXT", (str, decimal.Decimal, uuid.UUID, datetime.time)),
        ("DATETIME", (datetime.datetime, np.datetime64)),
        ("DATE", (datetime.date,)),
        ("BLOB", (bytes, bytearray, memoryview)),
    ):
        if issubclass(kind, types):
            return declared
    return ""


def zones(values: Iterable[Any]) -> set[bool]:
    """Tell of dates and times whether they have a zone: {True}, {False}, or both; None is none of them."""
    return {getattr(value, "tzinfo", None) is not None for value in values if value is not None}


def plain(values: Sequence[Any]) -> list[SqlValue]:
    """Give what SQLite is to store for some values; ProtocolError, naming the row, for one that has no SQL form."""
    stored = []
    for row, value in enumerate(values, start=1):
        try:
            stored.append(to_sql(value))
        except ProtocolError as error:
            raise ProtocolError(f"row {row}: {error.message}", hint=error.hint) from None
    return stored


def is_unicode(texts: Sequence[str | None]) -> bool:
    """Tell whether all texts have a form in UTF-8: half a surrogate pair has none."""
    try:
        for start in range(0, len(texts), _AT_ONCE):
            "".join(filter(None, texts[start : start + _AT_ONCE])).encode()
    except UnicodeEncodeError:
        return False
    return True
