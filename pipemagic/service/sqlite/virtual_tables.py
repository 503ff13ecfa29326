"""Virtual tables: ``generate_series``, and ``pragma_database_list`` without paths of files."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import apsw

DATABASE_LIST = "pragma_database_list"

_COLUMNS = ("value", "start", "stop", "step")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")


def install_series(connection: apsw.Connection) -> None:
    """Register ``generate_series(START, STOP [, STEP])``: a table of integers, as in PostgreSQL and DuckDB.

    SQLite's own extension of that name also takes texts, of which it reads the digits at the start: 2024 for a date.
    """
    module: Any = _Series(connection)
    connection.create_module(
        "generate_series", module, use_bestindex_object=True, eponymous=True, eponymous_only=True, read_only=True
    )


def hide_path(connection: apsw.Connection, dirty: Callable[[], bool]) -> None:
    """Replace ``pragma_database_list``: ``0|main|''``, and ``1|temp|''`` for a stream that has temporary objects.

    ``dirty()`` is True if the stream may have some: one before it, on the same connection, has opened the schema
    perhaps, but had none. The PRAGMA itself is read from the table (see `statement`). SQLite looks for a module of that
    name before it creates its own.
    """
    module: Any = _DatabaseList(lambda: dirty() and connection.db_filename("temp") is not None)
    connection.create_module(
        DATABASE_LIST, module, use_bestindex_object=True, eponymous=True, eponymous_only=True, read_only=True
    )


class _Series:
    """The virtual table. Its hidden columns are the arguments."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def Connect(self, *_: Any) -> tuple[str, _Series]:  # noqa: N802 - apsw calls these names
        self._connection.vtab_config(apsw.SQLITE_VTAB_INNOCUOUS)
        return "CREATE TABLE series(value INTEGER, start HIDDEN, stop HIDDEN, step HIDDEN)", self

    def BestIndexObject(self, index: Any) -> bool:  # noqa: N802
        arguments: dict[int, int] = {}
        for number in range(index.nConstraint):
            column = index.get_aConstraint_iColumn(number)
            if column > 0 and index.get_aConstraint_op(number) == apsw.SQLITE_INDEX_CONSTRAINT_EQ:
                if not index.get_aConstraint_usable(number):
                    return False
                arguments[column] = number
        for place, number in enumerate(arguments.values(), start=1):
            index.set_aConstraintUsage_argvIndex(number, place)
            index.set_aConstraintUsage_omit(number, True)
        index.idxStr = " ".join(_COLUMNS[column] for column in arguments)
        return True

    def Open(self) -> _SeriesCursor:  # noqa: N802
        return _SeriesCursor()


class _SeriesCursor:
    """A cursor over a series."""

    def Filter(self, _: int, names: str, values: tuple[Any, ...]) -> None:  # noqa: N802
        arguments = dict(zip(names.split(), values, strict=True))
        if not {"start", "stop"} <= arguments.keys():
            raise apsw.SQLError("generate_series() has the arguments start, stop and step; step is 1 by default")
        self._arguments = {"step": 1} | arguments
        self._value, self._stop, self._step = 1, 0, 1  # no rows
        if None not in arguments.values():
            self._value, self._stop, self._step = (_integer(self._arguments[name]) for name in _COLUMNS[1:])
        if not self._step:
            raise apsw.SQLError("the step of generate_series() is 0")

    def Eof(self) -> bool:  # noqa: N802
        return self._value > self._stop if self._step > 0 else self._value < self._stop

    def Column(self, number: int) -> Any:  # noqa: N802
        return self._arguments[_COLUMNS[number]] if number > 0 else self._value  # -1 is the rowid

    def Rowid(self) -> int:  # noqa: N802
        return self._value

    def Next(self) -> None:  # noqa: N802
        self._value += self._step

    def Close(self) -> None:  # noqa: N802
        pass


def _integer(value: Any) -> int:
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    text = str(value)[:30]
    days = f"; for a series of days, write date('{text}', value || ' days')" if _DAY.match(text) else ""
    raise apsw.SQLError(f"generate_series() takes integers, not {text!r}{days}")


class _DatabaseList:
    """A virtual table with a row for each schema."""

    def __init__(self, has_temporary: Callable[[], bool]) -> None:
        self._has_temporary = has_temporary

    def Connect(self, *_: Any) -> tuple[str, _DatabaseList]:  # noqa: N802 - apsw calls these names
        return "CREATE TABLE databases(seq, name, file)", self

    def BestIndexObject(self, _: Any) -> bool:  # noqa: N802
        return True

    def Open(self) -> _DatabaseListCursor:  # noqa: N802
        return _DatabaseListCursor(self._has_temporary)


class _DatabaseListCursor:
    """A cursor over these rows."""

    def __init__(self, has_temporary: Callable[[], bool]) -> None:
        self._has_temporary = has_temporary

    def Filter(self, *_: Any) -> None:  # noqa: N802
        self._names = ["main", "temp"] if self._has_temporary() else ["main"]
        self._place = 0

    def Eof(self) -> bool:  # noqa: N802
        return self._place >= len(self._names)

    def Column(self, number: int) -> Any:  # noqa: N802
        return (self._place, self._names[self._place], "", self._place)[number]  # -1 is the rowid

    def Next(self) -> None:  # noqa: N802
        self._place += 1

    def Close(self) -> None:  # noqa: N802
        pass
