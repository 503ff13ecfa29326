"""PyPI turso-python: one pipeline for each call, https: only, and its own parser of responses."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import turso_python
from driver import drive, read, rows_of
from turso_python.async_connection import AsyncTursoConnection
from turso_python.crud import TursoCRUD
from turso_python.response_parser import TursoResponseParser


def value_of(cell: dict[str, Any]) -> Any:
    """Convert a cell, because the package returns integers as text and blobs as dictionaries."""
    match cell["type"]:
        case "integer":
            return int(cell["value"])
        case "blob":
            return base64.b64decode(cell["base64"] + "==")
    return cell.get("value")


def shown(answer: dict[str, Any], index: int = 0) -> dict[str, Any]:
    TursoResponseParser.normalize_response(answer)  # raises the error of a result
    result = answer["results"][index]["response"]["result"]
    return {
        "columns": [column["name"] for column in result["cols"]],
        "rows": rows_of([value_of(cell) for cell in row] for row in result["rows"]),
        "changes": result["affected_row_count"],
        "rowid": result["last_insert_rowid"],
    }


class TursoPython:
    def __init__(self) -> None:
        self._connection: Any = None
        self._url = self._token = ""

    def open(self, url: str, token: str) -> None:
        if self._connection is not None:
            self._connection.close()
        self._url, self._token = url, token
        self._connection = turso_python.TursoConnection(url, token)

    def execute(self, sql: str, args: Any = None) -> dict[str, Any]:
        return shown(self._connection.execute_query(sql, read(args)))

    def batch(self, statements: list[Any]) -> list[dict[str, Any]]:
        answer = self._connection.batch([{"sql": sql, "args": read(args)} for sql, args in statements])
        return [shown(answer, index) for index in range(len(statements))]

    def created_by_its_helpers(self, table: str, rows: list[dict[str, Any]]) -> list[list[Any]]:
        """Insert and read back with the package's helpers for rows."""
        crud = TursoCRUD(self._connection)
        for row in rows:
            crud.create(table, row)
        rows: list[list[Any]] = TursoResponseParser.normalize_response(crud.read(table))["rows"]
        return rows

    def by_coroutines(self, sql: str, args: Any = None) -> dict[str, Any]:
        async def run() -> dict[str, Any]:
            async with AsyncTursoConnection(self._url, self._token) as connection:
                return await connection.execute_query(sql, read(args))

        return shown(asyncio.run(run()))


drive(TursoPython())
