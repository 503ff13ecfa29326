"""A server that supports only the seed document: the strictest one that clients must support.

``POST /v2/pipeline`` with ``execute`` (``sql``, ``args``, ``named_args``) and ``close``, ``/version`` and ``/health``;
400 for everything else, one connection of sqlite3 for each stream, rolled back and closed after ``idle`` seconds. A
transaction is rolled back after 5 s: silently (``"silent"``), or with an error without a code (``"error"``); the seed
defines neither.
"""

from __future__ import annotations

import itertools
import json
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from plain_values import python, wire
from scripted_server import Answer, Call, ScriptedServer, as_json, as_text

NUMBERED = re.compile(r"\?\d")
STMT_KEYS = {"sql", "args", "named_args"}


class SeedServer(ScriptedServer):
    """Serves one SQLite file. ``clock`` measures idle time; ``args`` can be turned off."""

    def __init__(
        self,
        folder: Path,
        clock: Callable[[], float] = lambda: 0.0,
        *,
        with_args: bool = True,
        limit: str = "",
        idle: float = 10,
    ) -> None:
        self._file = folder / "seed.sqlite"
        self._clock = clock
        self._with_args = with_args
        self._limit = limit
        self._idle = idle
        self._begun: dict[sqlite3.Connection, float] = {}
        self._streams: dict[str, tuple[sqlite3.Connection, float]] = {}
        self._numbers = itertools.count(1)
        super().__init__(self._pipeline)
        self.pages = {
            "/version": Answer(body=b"seed 1", content_type="text/plain"),
            "/health": Answer(content_type="text/plain"),
        }

    def _pipeline(self, call: Call) -> Answer:
        try:
            baton, requests = self._check(call)
            connection = self._take(baton)
        except ValueError as error:
            return as_text(str(error))
        results = [self._run(connection, request) for request in requests]
        if any(request["type"] == "close" for request in requests):
            connection.close()
            return as_json({"baton": None, "base_url": None, "results": results})
        baton = f"baton-{next(self._numbers)}"
        self._streams[baton] = (connection, self._clock())
        return as_json({"baton": baton, "base_url": None, "results": results})

    def _check(self, call: Call) -> tuple[str | None, list[dict[str, Any]]]:
        if call.path != "/v2/pipeline":
            raise ValueError(f"no such path: {call.path}")
        body = call.json
        if set(body) - {"baton", "requests"}:
            raise ValueError(f"unknown members {sorted(body)}")
        for request in body["requests"]:
            stmt = request.get("stmt", {})
            allowed = STMT_KEYS if self._with_args else {"sql"}
            if request["type"] not in ("execute", "close") or set(stmt) - allowed:
                raise ValueError(f"unknown request {json.dumps(request)[:200]}")
        return body.get("baton"), body["requests"]

    def _take(self, baton: str | None) -> sqlite3.Connection:
        if baton is None:
            return sqlite3.connect(self._file, isolation_level=None, check_same_thread=False)
        if baton not in self._streams:
            raise ValueError("Received an invalid baton")
        connection, used = self._streams.pop(baton)
        if self._clock() - used > self._idle:
            connection.close()
            raise ValueError("Received an invalid baton")
        return connection

    def _run(self, connection: sqlite3.Connection, request: dict[str, Any]) -> dict[str, Any]:
        if request["type"] == "close":
            return {"type": "ok", "response": {"type": "close"}}
        stmt = request["stmt"]
        if self._limit and connection.in_transaction and self._clock() - self._begun[connection] > 5:
            connection.rollback()
            del self._begun[connection]
            if self._limit == "error":
                return {"type": "error", "error": {"message": "the transaction took too long"}}
        named = {arg["name"].lstrip(":@$"): python(arg["value"]) for arg in stmt.get("named_args") or []}
        args = [python(value) for value in stmt.get("args") or []]
        if NUMBERED.search(stmt["sql"]):  # sqlite3 counts ?1 among the named parameters
            named |= {str(number): value for number, value in enumerate(args, 1)}
        try:
            cursor = connection.execute(stmt["sql"], named or args)
            rows = [[wire(value) for value in row] for row in cursor]
        except sqlite3.Error as error:
            return {"type": "error", "error": {"message": str(error)}}
        if connection.in_transaction:
            self._begun.setdefault(connection, self._clock())
        else:
            self._begun.pop(connection, None)
        # The seed does not define the structure of `cols`: bare names would be as valid.
        result = {
            "cols": [{"name": column[0]} for column in cursor.description or []],
            "rows": rows,
            "affected_row_count": max(cursor.rowcount, 0),
            "last_insert_rowid": cursor.lastrowid,
            "replication_index": "1",
        }
        return {"type": "ok", "response": {"type": "execute", "result": result}}

    def close(self) -> None:
        super().close()
        for connection, _ in self._streams.values():
            connection.close()
