"""From the text of a cell to statements with their arguments: nothing is sent here."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from pipemagic import sql
from pipemagic.client import arguments
from pipemagic.errors import ParameterError, SessionError
from pipemagic.hrana.messages import Stmt


@dataclass(frozen=True)
class Cell:
    """The text as written, its statements, and the same statements with arguments, ready to be sent.

    ``before`` counts the statements that stand before these in the text and are dealt with already.
    """

    text: str
    statements: tuple[sql.Statement, ...]
    stmts: tuple[Stmt, ...]
    before: int = 0

    def without_first(self) -> Cell:
        """Give the rest of the cell; statements and lines keep their numbers."""
        return Cell(self.text, self.statements[1:], self.stmts[1:], self.before + 1)

    @property
    def total(self) -> int:
        """How many statements the text has."""
        return self.before + len(self.statements)


def read(text: str, values: Mapping[str, object] | None = None) -> Cell:
    """Split a cell and bind the parameters of its statements to ``values``.

    Raises SessionError if there is no statement, ParameterError for a ``?``, a name without a value, and a value
    that SQL cannot hold.
    """
    statements = sql.split(text)
    if not statements:
        raise SessionError("there is no SQL to run", hint="write a statement below %%sql, or after %sql")
    return Cell(text, statements, tuple(_bind(statement, values) for statement in statements))


def _bind(statement: sql.Statement, values: Mapping[str, object] | None) -> Stmt:
    if not statement.parameters:
        return Stmt(statement.text)
    named = {str(name): _value(name, statement, values) for name in statement.parameters}
    return arguments.statement(statement.text, named)


def _value(parameter: str | None, statement: sql.Statement, values: Mapping[str, object] | None) -> object:
    where = f"line {statement.line}"
    if parameter is None or parameter.startswith("?"):
        raise ParameterError(
            f"{where}: the parameter {parameter or '?'} has no name",
            hint="write :name; its value is that of the variable name",
        )
    name = parameter[1:]
    if values is None:
        raise ParameterError(f"{where}: {parameter} has no value", hint="pass params={...}")
    if name in values:
        return values[name]
    near = difflib.get_close_matches(name, [key for key in values if isinstance(key, str)], n=3)
    assign = f"assign it first: {name} = ..., or add the key to --params"
    hint = f"did you mean {_alternatives(near)}?" if near else assign
    raise ParameterError(f"{where}: {parameter} has no value: no variable or key {name!r}", hint=hint)


def _alternatives(names: list[str]) -> str:
    return " or ".join(f":{name}" for name in names)
