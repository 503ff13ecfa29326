"""How a cell is to be run, beyond its text and its parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Wanted:
    """``close`` ends the stream afterwards. ``tables`` says how many statements have to return columns.

    With ``atomic`` all of the cell is applied, or nothing. With ``clock`` the line about an open transaction says how
    many seconds are left. ``limit`` is how many rows of a query to fetch at most, ``timeout`` how many seconds to wait
    for the answer. ``progress`` is called with the number of rows of a large result that came so far.
    """

    close: bool = False
    tables: int | None = None
    atomic: bool = False
    clock: bool = False
    limit: int | None = None
    timeout: float | None = None
    progress: Callable[[int], None] | None = None


AS_IT_IS = Wanted()
"""A cell without options."""
