"""PyPI aiolibsql: the same by coroutines."""

from __future__ import annotations

import asyncio
from typing import Any

import aiolibsql
from driver import drive, read, rows_of


class AioLibsql:
    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._connection: Any = None

    def _run(self, call: Any) -> Any:
        async def waited() -> Any:
            return await call()

        return self._loop.run_until_complete(waited())

    def open(self, url: str, token: str) -> None:
        if self._connection is not None:
            self._run(self._connection.close)
        self._connection = self._run(lambda: aiolibsql.connect(url, auth_token=token, isolation_level=None))

    def execute(self, sql: str, args: Any = None) -> dict[str, Any]:
        given = read(args)
        parameters = [] if given is None else [tuple(given) if isinstance(given, list) else given]

        async def run() -> dict[str, Any]:
            cursor = await self._connection.execute(sql, *parameters)
            columns = [column[0] for column in cursor.description or []]
            rows = rows_of(await cursor.fetchall()) if columns else []
            return {"columns": columns, "rows": rows, "changes": cursor.rowcount, "rowid": str(cursor.lastrowid)}

        return self._loop.run_until_complete(run())

    def script(self, sql: str) -> None:
        self._run(lambda: self._connection.executescript(sql))

    def begin(self) -> None:
        self._run(lambda: self._connection.execute("BEGIN IMMEDIATE"))

    def commit(self) -> None:
        self._run(lambda: self._connection.commit())

    def rollback(self) -> None:
        self._run(lambda: self._connection.rollback())


drive(AioLibsql())
