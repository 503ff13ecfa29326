"""The result of a statement."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from pipemagic.errors import ProtocolError
from pipemagic.frames import to_frame
from pipemagic.frames.columnar import ColumnarRows
from pipemagic.hrana.messages import StmtResult
from pipemagic.hrana.values import SqlValue, decode

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Result:
    """The result of one statement. ``wire`` is the server's response, ``sql`` the statement's text."""

    wire: StmtResult = field(repr=False)
    sql: str = ""

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, duplicates kept, '' for one without a name; empty if it returns no rows."""
        return tuple(col.name or "" for col in self.wire.cols)

    @cached_property
    def rows(self) -> list[tuple[SqlValue, ...]]:
        """The rows as Python values: None, int, float, str, bytes. Integers are exact."""
        rows = self.wire.rows
        return list(rows.tuples()) if isinstance(rows, ColumnarRows) else [tuple(map(decode, row)) for row in rows]

    @property
    def affected_row_count(self) -> int:
        """Rows changed by INSERT, UPDATE or DELETE; 0 for every other statement."""
        return self.wire.affected_row_count or 0

    @property
    def last_insert_rowid(self) -> int | None:
        """The rowid of the connection's last INSERT, None after any other statement."""
        rowid = self.wire.last_insert_rowid
        return None if rowid is None else _whole(rowid)

    @property
    def replication_index(self) -> int | None:
        """The replication index that the statement saw or created; None if the server does not report it."""
        index = self.wire.replication_index
        return None if index is None else _whole(index)

    def frame(self) -> pd.DataFrame:
        """Return the rows as a DataFrame (types: `pipemagic.frames`).

        Warn about columns of mixed types, and about dates that stay text.
        """
        return to_frame(self.wire, note=lambda text: warnings.warn(text, stacklevel=2))


def _whole(number: str | int) -> int:
    try:
        return int(number)
    except ValueError:
        raise ProtocolError(f"{str(number)[:40]!r} is not a whole number") from None
