"""Python arguments -> the ``args`` or ``named_args`` of a statement."""

from __future__ import annotations

import datetime
import decimal
import sys
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pipemagic.errors import ParameterError, ProtocolError
from pipemagic.hrana import values
from pipemagic.hrana.floats import exact
from pipemagic.hrana.messages import NamedArg, Stmt
from pipemagic.hrana.values import SqlValue, Value

Arguments: TypeAlias = Sequence[Any] | Mapping[str, Any] | None
"""A list or tuple for ``?`` and ``?N``, a mapping for ``:name``, ``@name`` and ``$name``, or nothing."""


def statement(sql: str, args: Arguments = None) -> Stmt:
    """Build a statement with its arguments; ParameterError for a value that SQL cannot hold."""
    if args is None or not len(args):
        return Stmt(sql)
    if isinstance(args, Mapping):
        return Stmt(sql, named_args=[NamedArg(str(name), wire(value, str(name))) for name, value in args.items()])
    if isinstance(args, str | bytes | bytearray) or not isinstance(args, Sequence):
        raise ParameterError(
            f"arguments are a list, a tuple or a dict, not {type(args).__name__}", hint="for a single one write [value]"
        )
    return Stmt(sql, args=[wire(value, f"number {number}") for number, value in enumerate(args, start=1)])


def wire(value: Any, name: str = "") -> Value:
    """Give the wire value of one Python argument; ``name`` is for the error message."""
    try:
        plain = to_sql(value)
        if isinstance(plain, float) and plain == plain:
            return exact(plain)
        if isinstance(plain, str):
            plain.encode("utf-8")
        return values.encode(plain)
    except UnicodeEncodeError:
        raise ParameterError(f"parameter {name} holds half a surrogate pair, which is not text") from None
    except ProtocolError as error:
        raise ParameterError(f"parameter {name}: {error.message}", hint=error.hint) from None


def to_sql(value: Any) -> SqlValue:
    """Give what SQLite stores for a Python value; ProtocolError if it has no exact form.

    Booleans become 0 and 1, dates and times ISO text (as SQLite's date functions read it), Decimal and UUID
    text, NaN, NaT and ``pandas.NA`` NULL. Numpy scalars and enum members count as the value they hold.
    """
    match value:
        case None | bool() | int() | float() | bytes() | bytearray() | memoryview():
            return _plain(value)
        case str():
            return str(value)
        case datetime.datetime():
            return None if value != value else timestamp_text(value)
        case datetime.date() | datetime.time():
            return value.isoformat()
        case decimal.Decimal() | uuid.UUID():
            return str(value)
    return _foreign(value)


def timestamp_text(value: datetime.datetime) -> str:
    """Write a date and time as ``YYYY-MM-DD HH:MM:SS[.f][+HH:MM]``; keeps a pandas Timestamp's nanoseconds."""
    return value.isoformat(sep=" ")


def _plain(value: Any) -> SqlValue:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float):
        return None if value != value else float(value)
    if isinstance(value, int):
        return int(value)
    return None if value is None else bytes(value)


def _foreign(value: Any) -> SqlValue:
    """Handle numpy and pandas values without importing either: who passes one has imported it."""
    pandas, numpy = sys.modules.get("pandas"), sys.modules.get("numpy")
    if pandas is not None and (value is pandas.NA or value is pandas.NaT):
        return None
    if numpy is not None and isinstance(value, numpy.generic):
        if isinstance(value, numpy.datetime64):
            return None if numpy.isnat(value) else str(numpy.datetime_as_string(value)).replace("T", " ")
        if isinstance(value, numpy.longdouble) and value != numpy.float64(value) and value == value:
            raise ProtocolError("a long double does not fit a 64-bit float")
        item = value.item()
        if not isinstance(item, numpy.generic | datetime.timedelta) and type(item) is not type(value):
            return to_sql(item)
    hint = "convert it first: to text, a number, bytes, or to_json() for lists and dicts"
    raise ProtocolError(f"a value of type {type(value).__name__} has no SQL form", hint=hint)
