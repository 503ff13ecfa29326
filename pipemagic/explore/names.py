"""Names of tables and columns: what was meant, and text for SQL."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from pipemagic.errors import ParameterError
from pipemagic.sql import quote


def near(name: str, known: Iterable[str]) -> str:
    """Return the hint that names the known name which is nearest to a wrong one; '' if none is near."""
    found = nearest(name, known)
    return f"did you mean {found}?" if found else ""


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return the known name that is nearest to a wrong one, whatever its capitals; '' if none is near."""
    by_small = {one.lower(): one for one in known}
    found = difflib.get_close_matches(name.lower(), by_small, n=1, cutoff=cutoff)
    return by_small[found[0]] if found else ""


def text(value: str) -> str:
    """Return a text literal of SQL, for servers that take no arguments; ValueError for a NUL, which would end it."""
    if "\0" in value:
        raise ValueError("a text literal cannot hold NUL")
    return "'" + value.replace("'", "''") + "'"


def quoted(name: str) -> str:
    """Quote a name that somebody gave; ParameterError if it can be none."""
    try:
        return quote(name)
    except ValueError as error:
        raise ParameterError(str(error)) from None
