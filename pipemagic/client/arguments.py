"""Convert Python arguments to the ``args`` or ``named_args`` of a statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pipemagic.errors import ParameterError, ProtocolError
from pipemagic.frames.scalars import to_sql
from pipemagic.hrana.messages import NamedArg, Stmt
from pipemagic.hrana.values import SqlValue, Value, decode_argument, encode, encode_exact

Arguments: TypeAlias = Sequence[Any] | Mapping[str, Any] | None
"""A list or tuple for ``?`` and ``?N``, a mapping for ``:name``, ``@name`` and ``$name``, or nothing."""

ROWS_OF = ":rows_of_"
"""The beginning of the names of arguments with the rows of a frame, which are neither shown nor recorded."""


def statement(sql: str, args: Arguments = None) -> Stmt:
    """Return a statement with its arguments; raise ParameterError for a value that SQL cannot store."""
    if args is None:
        return Stmt(sql)
    if isinstance(args, Mapping):
        named_args = [NamedArg(str(name), wire(value, str(name))) for name, value in args.items()]
        return Stmt(sql, named_args=named_args) if named_args else Stmt(sql)
    if isinstance(args, str | bytes | bytearray | memoryview) or not isinstance(args, Sequence):
        raise ParameterError(
            f"arguments must be a list, a tuple or a dict, not {type(args).__name__}",
            hint="write a single value as [value]",
        )
    positional = [wire(value, f"number {number}") for number, value in enumerate(args, start=1)]
    return Stmt(sql, args=positional) if positional else Stmt(sql)


def values_of(stmt: Stmt) -> dict[str, SqlValue]:
    """Return the values of the named arguments of a statement, by their names."""
    return {argument.name: decode_argument(argument.value) for argument in stmt.named_args or ()}


def wire(value: Any, name: str = "") -> Value:
    """Return the wire value of one Python argument; ``name`` is for the error message."""
    try:
        plain = to_sql(value)
    except ProtocolError as error:
        raise ParameterError(f"parameter {name}: {error.message}", hint=error.hint) from None
    if plain is not None and isinstance(plain, float):
        if plain in (float("inf"), float("-inf")):
            raise ParameterError(
                f"parameter {name} is infinite, which JSON cannot represent",
                hint="write 9e999 or -9e999 in the SQL instead",
            )
        return encode_exact(plain)
    return encode(plain)
