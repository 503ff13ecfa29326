"""Write a DataFrame into a table: all rows or none."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from pipemagic.errors import UnsupportedError

if TYPE_CHECKING:
    import pandas as pd

    from pipemagic.client.database import Database, IfExists

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the number of rows sent so far and the number of all rows."""


def load(
    database: Database,
    frame: pd.DataFrame,
    table: str,
    *,
    if_exists: IfExists = "fail",
    progress: Progress | None = None,
) -> int:
    """Write a frame into a table; gives the number of rows."""
    raise UnsupportedError("load is not there yet")
