"""PyPI libsql-client over http:, which supports only the old stateless endpoints."""

from __future__ import annotations

from typing import Any

import libsql_client
from driver import drive, read, rows_of


def shown(result: libsql_client.ResultSet) -> dict[str, Any]:
    return {
        "columns": list(result.columns),
        "rows": rows_of(result.rows),
        "changes": result.rows_affected,
        "rowid": str(result.last_insert_rowid),
    }


class LibsqlClient:
    def __init__(self) -> None:
        self._client: Any = None

    def open(self, url: str, token: str) -> None:
        self.close()
        self._client = libsql_client.create_client_sync(url, auth_token=token)

    def close(self) -> None:
        if self._client is not None:  # its thread would outlive the script
            self._client.close()

    def execute(self, sql: str, args: Any = None) -> dict[str, Any]:
        return shown(self._client.execute(sql, read(args)))

    def batch(self, statements: list[Any]) -> list[dict[str, Any]]:
        done = self._client.batch([libsql_client.Statement(sql, read(args)) for sql, args in statements])
        return [shown(result) for result in done]


drive(LibsqlClient())
