"""Bind the parameters of PEP 249 (``qmark`` and ``named``) to a statement.

A server takes NULL for a parameter without a value, so their number and names are checked here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from math import isinf
from typing import Any

from pipemagic.client.arguments import wire
from pipemagic.dbapi.errors import ProgrammingError
from pipemagic.errors import ParameterError, ProtocolError
from pipemagic.frames.scalars import to_sql
from pipemagic.hrana.messages import NamedArg, Stmt
from pipemagic.sql import ParsedStatement, split
from pipemagic.text import plural

Parameters = Sequence[Any] | Mapping[str, Any]


def single_statement(sql: str) -> ParsedStatement | None:
    """Return the statement of a text, None if it has none; raise ProgrammingError if it has several."""
    if not isinstance(sql, str):
        raise TypeError(f"execute() argument 1 must be str, not {type(sql).__name__}")
    statements = split(sql)
    if len(statements) > 1:
        raise ProgrammingError("execute() runs one statement at a time, and this text has several; use executescript()")
    return statements[0] if statements else None


def binder(statement: ParsedStatement, *, want_rows: bool | None = None) -> Callable[[Parameters], Stmt]:
    """Return the function that adds parameters to a statement.

    It raises ProgrammingError if the parameters do not match, ParameterError for a value that SQL cannot store.
    """
    sql, parameters = statement.text, statement.parameters
    count = len(parameters)
    names = [(name, name[1:]) for name in parameters if name is not None and name[0] != "?"]

    def named(values: Mapping[str, Any]) -> Stmt:
        if len(names) < count:
            raise ProgrammingError("the statement has a parameter without a name, and the values are in a mapping")
        try:
            found = [(name, values[key]) for name, key in names]
        except KeyError as error:
            raise ProgrammingError(f"parameter {error.args[0]!r} has no value") from None
        try:
            args = [NamedArg(name, wire(value, name)) for name, value in found]
        except ParameterError:
            return _with_infinities(statement, [value for _, value in found], want_rows)
        return Stmt(sql, named_args=args or None, want_rows=want_rows)

    def bind(values: Parameters) -> Stmt:
        if isinstance(values, Mapping):
            return named(values)
        if isinstance(values, str | bytes) or not (hasattr(values, "__len__") and hasattr(values, "__getitem__")):
            raise ProgrammingError(f"parameters must be a sequence or a mapping, not {type(values).__name__}")
        if len(values) != count:
            raise ProgrammingError(f"the statement has {plural(count, 'parameter')}, not {len(values)}")
        if names:
            raise ProgrammingError(f"parameter {names[0][0]} has a name, and the values are in a sequence")
        if not isinstance(values, list | tuple):
            values = [values[index] for index in range(count)]
        try:
            args = [wire(value, f"number {number}") for number, value in enumerate(values, 1)]
        except ParameterError:
            return _with_infinities(statement, values, want_rows)
        return Stmt(sql, args=args or None, want_rows=want_rows)

    return bind


def _with_infinities(statement: ParsedStatement, values: Sequence[Any], want_rows: bool | None) -> Stmt:
    """Return a statement with its infinite values in the text, since JSON cannot represent them; others are bound."""
    literals = [_infinity(value) for value in values]
    bound = [index for index, literal in enumerate(literals) if not literal]
    places = {index: place for place, index in enumerate(bound, start=1)}
    indexes = {name: index for index, name in enumerate(statement.parameters) if name is not None}
    pieces, end, count = [], 0, 0
    for token in statement.tokens:
        if token.kind == "param":
            if token.text == "?":
                index = count
            else:
                index = int(token.text[1:]) - 1 if token.text[0] == "?" else indexes[token.text]
            count = max(count, index + 1)
            pieces += [statement.text[end : token.start], literals[index] or f"?{places[index]}"]
            end = token.end
    args = [wire(values[index], statement.parameters[index] or f"number {index + 1}") for index in bound]
    return Stmt("".join([*pieces, statement.text[end:]]), args=args or None, want_rows=want_rows)


def _infinity(value: Any) -> str:
    """Return the SQL of an infinite number, '' for other values."""
    with suppress(ProtocolError):
        plain = to_sql(value)
        if isinstance(plain, float) and isinf(plain):
            return "(9e999)" if plain > 0 else "(-9e999)"
    return ""
