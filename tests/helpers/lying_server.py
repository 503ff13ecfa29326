"""A server whose answers about its schema are not true."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from plain_values import python, wire
from seed_server import SeedServer

Row = tuple[Any, ...]


class LyingServer(SeedServer):
    """Answers like the seed, with false rows and types of columns.

    A lie is for the queries that contain its text, and replaces each row. ``decltypes`` are the declared types of
    columns by name. A dict in a row is sent as it is.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.lies: dict[str, Callable[[Row], Row]] = {}
        self.decltypes: dict[str, str] = {}

    def _run(self, connection: sqlite3.Connection, request: dict[str, Any]) -> dict[str, Any]:
        entry = super()._run(connection, request)
        if entry["type"] == "ok" and "stmt" in request:
            result = entry["response"]["result"]
            for query, lie in self.lies.items():
                if query in request["stmt"]["sql"]:
                    result["rows"] = [list(map(_wire, lie(tuple(map(python, row))))) for row in result["rows"]]
            for col in result["cols"]:
                col["decltype"] = self.decltypes.get(col["name"])
        return entry

    @property
    def changes(self) -> list[str]:
        """The statements that it received, without queries."""
        sent = [text for call in self.posts for text in call.sql]
        return [text for text in sent if not text.lstrip().startswith(("SELECT", "EXPLAIN"))]


def _wire(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else wire(value)
