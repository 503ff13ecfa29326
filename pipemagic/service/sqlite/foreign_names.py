"""Collations and functions of other programs, which the schema of a file may name: SQLite has no code for them."""

from __future__ import annotations

import re
from typing import NamedTuple

import apsw

from pipemagic.sql import folded, significant, unquote

_MISSING = re.compile(r"(?:no such (collation sequence|function): |unknown function: )([^()]+)")

_OWN = frozenset({"binary", "nocase", "rtrim"})
"""SQLite's own collations. It asks for these, too, before it derives them for a database in UTF-16."""


class ForeignName(NamedTuple):
    """The name of a collation or function."""

    name: str
    is_collation: bool


def foreign_name(error: apsw.Error) -> ForeignName | None:
    """Return the name that is missing if that is the error."""
    match = _MISSING.search(str(error))
    return None if match is None else ForeignName(match[2], match[1] == "collation sequence")


def refuse_comparisons(connection: apsw.Connection) -> None:
    """Let statements name collations that are missing: only a comparison fails, with the name."""

    def add(_: apsw.Connection, name: str) -> None:
        if folded(name) in _OWN:
            return

        def compare(_first: str, _second: str) -> int:
            raise apsw.SQLError(f"no such collation sequence: {name}")

        connection.create_collation(name, compare)

    connection.collation_needed(add)


def stand_in(connection: apsw.Connection, foreign: ForeignName) -> None:
    """Register any code under a name, so that the connection can read what does not depend on it."""
    if foreign.is_collation:
        connection.create_collation(foreign.name, lambda first, second: (first > second) - (first < second))
    else:
        connection.create_scalar_function(
            foreign.name, lambda *_: None, deterministic=True, flags=apsw.SQLITE_INNOCUOUS
        )


def place_of(error: apsw.Error, connection: apsw.Connection, statement: str) -> str:
    """Return the trigger, index, view or table that needs what is missing, if that is the error; otherwise ''.

    A statement that names the function or collation needs no place.
    """
    foreign = foreign_name(error)
    if foreign is None or folded(foreign.name) in folded(statement):
        return ""
    return _definition_with(connection, foreign.name)


def _definition_with(connection: apsw.Connection, name: str) -> str:
    """Return the trigger, index, view or table with a name in its definition, as text; '' if there is none."""
    kinds = {"trigger": "trigger {} on {}", "index": "index {} on {}", "view": "view {}", "table": "table {}"}
    definitions = connection.execute(
        "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE sql IS NOT NULL"
    ).fetchall()
    for kind, form in kinds.items():
        for type_, own, table, sql in definitions:
            if type_ == kind and any(folded(unquote(token.text)) == folded(name) for token in significant(str(sql))):
                return form.format(own, table)
    return ""
