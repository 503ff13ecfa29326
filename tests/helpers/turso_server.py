"""A server whose engine is the new one of the hosted service (``--tursodb``): the package pyturso, over one file.

It has what clients send: pipelines, batches with conditions, cursors, and streams with batons. Errors have the text of
the engine without a code. The package does not tell declared types.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import threading
from pathlib import Path
from typing import Any

import turso
from plain_values import python, wire
from scripted_server import Answer, Call, ScriptedServer, as_json, as_text


class TursoServer(ScriptedServer):
    """Serves one database of the new engine."""

    def __init__(self, folder: Path) -> None:
        self._file = str(folder / "new-engine.db")
        self._lock = threading.Lock()
        self._streams: dict[str, turso.Connection] = {}
        self._numbers = itertools.count(1)
        self.failures: list[tuple[str, str]] = []
        """The statements that failed, each with its error."""
        super().__init__(self._answer)

    def _answer(self, call: Call) -> Answer:
        with self._lock:
            baton = call.json.get("baton")
            if baton is not None and baton not in self._streams:
                return as_text("the stream has expired: invalid baton")
            connection = self._streams.pop(baton) if baton else turso.connect(self._file, isolation_level=None)
            answered = self._cursor if call.path == "/v3/cursor" else self._pipeline
            return answered(connection, call.json)

    def _store(self, connection: turso.Connection) -> str:
        baton = f"baton-{next(self._numbers)}"
        self._streams[baton] = connection
        return baton

    def _pipeline(self, connection: turso.Connection, body: dict[str, Any]) -> Answer:
        results = [self._entry(connection, request) for request in body["requests"]]
        baton = None
        if any(request["type"] == "close" for request in body["requests"]):
            connection.close()
        else:
            baton = self._store(connection)
        return as_json({"baton": baton, "base_url": None, "results": results})

    def _cursor(self, connection: turso.Connection, body: dict[str, Any]) -> Answer:
        batch = self._batch(connection, body["batch"])
        lines: list[dict[str, Any]] = [{"baton": self._store(connection), "base_url": None}]
        for step, (result, error) in enumerate(zip(batch["step_results"], batch["step_errors"], strict=True)):
            if error is not None:
                lines.append({"type": "step_error", "step": step, "error": error})
            if result is not None:
                lines.append({"type": "step_begin", "step": step, "cols": result["cols"]})
                lines += [{"type": "row", "row": row} for row in result["rows"]]
                end = {name: result[name] for name in ("affected_row_count", "last_insert_rowid")}
                lines.append({"type": "step_end", **end})
        return Answer(body="".join(json.dumps(line) + "\n" for line in lines).encode(), content_type="text/plain")

    def _entry(self, connection: turso.Connection, request: dict[str, Any]) -> dict[str, Any]:
        kind = request["type"]
        response: dict[str, Any] = {"type": kind}
        try:
            if kind == "execute":
                response["result"] = self._run(connection, request["stmt"])
            elif kind == "batch":
                response["result"] = self._batch(connection, request["batch"])
            elif kind == "sequence":
                connection.executescript(request["sql"])
            elif kind == "get_autocommit":
                response["is_autocommit"] = not connection.in_transaction
            elif kind == "describe":
                response["result"] = self._describe(connection, request["sql"])
            elif kind != "close":
                return {"type": "error", "error": {"message": f"{kind} is not supported"}}
        except turso.Error as error:
            return {"type": "error", "error": {"message": str(error)}}
        return {"type": "ok", "response": response}

    def _describe(self, connection: turso.Connection, sql: str) -> dict[str, Any]:
        statement = connection(sql)  # prepares it
        cols = [{"name": name, "decltype": None} for name in statement.columns()]
        statement.finalize()
        params = [{"name": name} for name in dict.fromkeys(re.findall(r"[:@$?]\w+", sql))]
        word = sql.split()[0].upper()
        readonly = word in ("SELECT", "WITH", "VALUES", "EXPLAIN")
        return {"params": params, "cols": cols, "is_explain": word == "EXPLAIN", "is_readonly": readonly}

    def _batch(self, connection: turso.Connection, batch: dict[str, Any]) -> dict[str, Any]:
        results: list[Any] = []
        errors: list[Any] = []

        def holds(condition: dict[str, Any] | None) -> bool:
            match condition:
                case None:
                    return True
                case {"type": "ok", "step": step}:
                    return results[step] is not None
                case {"type": "error", "step": step}:
                    return results[step] is None
                case {"type": "not", "cond": inner}:
                    return not holds(inner)
                case {"type": "and", "conds": inner}:
                    return all(map(holds, inner))
                case {"type": "or", "conds": inner}:
                    return any(map(holds, inner))
            return not connection.in_transaction  # is_autocommit

        for step in batch["steps"]:
            result = error = None
            if holds(step.get("condition")):
                try:
                    result = self._run(connection, step["stmt"])
                except turso.Error as raised:
                    error = {"message": str(raised)}
            results.append(result)
            errors.append(error)
        return {"step_results": results, "step_errors": errors}

    def _run(self, connection: turso.Connection, stmt: dict[str, Any]) -> dict[str, Any]:
        named = stmt.get("named_args") or []
        values: dict[str, Any] = {arg["name"].lstrip(":@$"): python(arg["value"]) for arg in named}
        args = [python(value) for value in stmt.get("args") or []]
        try:
            cursor = connection.execute(stmt["sql"], values or args)
            rows = cursor.fetchall() if cursor.description else []
        except turso.Error as error:
            self.failures.append((stmt["sql"], str(error)))
            raise
        return {
            "cols": [{"name": column[0], "decltype": None} for column in cursor.description or ()],
            "rows": [[_wire(value) for value in row] for row in rows],
            "affected_row_count": max(cursor.rowcount, 0),
            "last_insert_rowid": None if cursor.lastrowid is None else str(cursor.lastrowid),
        }

    def close(self) -> None:
        super().close()
        for connection in self._streams.values():
            connection.close()


def _wire(value: Any) -> dict[str, Any]:
    """Return a value of the protocol; an infinity is null, as JSON has none."""
    return wire(None if isinstance(value, float) and not math.isfinite(value) else value)
