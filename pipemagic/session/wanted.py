"""How a cell is to be run, beyond its text and its parameters."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Wanted:
    """``close`` ends the stream afterwards."""

    close: bool = False


AS_IT_IS = Wanted()
"""A cell without options."""
