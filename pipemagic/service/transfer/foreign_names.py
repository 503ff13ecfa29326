"""Collations and functions of other programs, which the schema of a file may name: SQLite has no code for them."""

from __future__ import annotations

import re

import apsw

_MISSING = re.compile(r"(?:no such (collation sequence|function): |unknown function: )([^()]+)")


def refuse_comparisons(connection: apsw.Connection) -> None:
    """Let statements name collations that are missing: only a comparison fails, with the name."""

    def add(_: apsw.Connection, name: str) -> None:
        def compare(_first: str, _second: str) -> int:
            raise apsw.SQLError(f"no such collation sequence: {name}")

        connection.create_collation(name, compare)

    connection.collation_needed(add)


def missing_name(error: apsw.Error) -> tuple[str, str] | None:
    """Return the kind and name of what an error says is missing: a collation or a function; None for other errors."""
    match = _MISSING.search(str(error))
    return None if match is None else ("collation" if match[1] == "collation sequence" else "function", match[2])
