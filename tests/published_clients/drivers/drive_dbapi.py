"""PyPI turso-serverless, libsql and libsql-experimental: connections as those of sqlite3."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from driver import drive, read, rows_of


def parameters(args: Any) -> list[Any]:
    """Return the arguments of `execute` after the text: none, a tuple or a dictionary."""
    given = read(args)
    return [] if given is None else [tuple(given) if isinstance(given, list) else given]


class DbApi:
    """One connection, without the transactions that the packages would begin automatically."""

    def __init__(self, package: str) -> None:
        self._package = importlib.import_module(package)
        self._connection: Any = None

    def open(self, url: str, token: str, isolation: str | None = None) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = self._package.connect(url, auth_token=token, isolation_level=isolation)

    def execute(self, sql: str, args: Any = None) -> dict[str, Any]:
        given = read(args)
        cursor = self._connection.execute(
            sql, *([] if given is None else [tuple(given) if isinstance(given, list) else given])
        )
        columns = [column[0] for column in cursor.description or []]
        rows = rows_of(cursor.fetchall()) if columns else []
        return {"columns": columns, "rows": rows, "changes": cursor.rowcount, "rowid": str(cursor.lastrowid)}

    def many(self, sql: str, rows: list[Any]) -> int:
        return self._connection.executemany(sql, [tuple(read(row)) for row in rows]).rowcount

    def script(self, sql: str) -> None:
        self._connection.executescript(sql)

    def begin(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        self._connection.commit()

    def rollback(self) -> None:
        self._connection.rollback()

    def in_transaction(self) -> bool:
        return self._connection.in_transaction


drive(DbApi(sys.argv[1]))
