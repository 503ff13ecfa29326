"""``PRAGMA database_list`` without the path of the file: one row, ``0|main|''``.

SQLite looks for a module of that name before it creates its own, so every use of ``pragma_database_list`` reads this
one. The PRAGMA itself is read from it, too (see `statement`).
"""

from __future__ import annotations

from typing import Any

import apsw

NAME = "pragma_database_list"
QUERY = f"SELECT seq, name, file FROM {NAME}"
_ROWS = ((0, "main", ""),)


def install(connection: apsw.Connection) -> None:
    """Register the module on a connection."""
    connection.create_module(NAME, _MODULE, use_bestindex_object=True, eponymous=True, eponymous_only=True)


class _Module:
    """The module and its only table, which has no state."""

    def Connect(self, *_: Any) -> tuple[str, _Module]:  # noqa: N802 - apsw calls these names
        return "CREATE TABLE databases(seq, name, file)", self

    def BestIndexObject(self, info: Any) -> bool:  # noqa: N802
        info.estimatedRows = len(_ROWS)
        return True

    def Open(self) -> _Cursor:  # noqa: N802
        return _Cursor()

    def Disconnect(self) -> None:  # noqa: N802
        pass


class _Cursor:
    def Filter(self, *_: Any) -> None:  # noqa: N802
        self._row = 0

    def Eof(self) -> bool:  # noqa: N802
        return self._row >= len(_ROWS)

    def Column(self, number: int) -> Any:  # noqa: N802
        return self._row if number < 0 else _ROWS[self._row][number]

    def Rowid(self) -> int:  # noqa: N802
        return self._row

    def Next(self) -> None:  # noqa: N802
        self._row += 1

    def Close(self) -> None:  # noqa: N802
        pass


_MODULE: Any = _Module()
