"""Run one package for the benchmarks: each input line of JSON is a call, each output line its seconds.

This runs in the environment of the packages, which has no pipemagic. ``python worker.py PACKAGE``.
"""

from __future__ import annotations

import importlib
import io
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd


def timed(call: Callable[[], Any]) -> float:
    """Return the seconds that a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


class DbApi:
    """libsql and turso-serverless: connections as those of sqlite3."""

    def __init__(self, package: str) -> None:
        self.package = importlib.import_module(package.replace("-", "_"))

    def open(self, url: str, token: str) -> float:
        """Store the address."""
        self.url, self.token = url, token
        return timed(self._connected)

    def _connected(self, isolation_level: str | None = None) -> Any:
        """Connect and open a stream, which is not timed: the last one has expired while others were measured."""
        connection = self.package.connect(self.url, auth_token=self.token, isolation_level=isolation_level)
        connection.execute("SELECT 1").fetchall()
        return connection

    def frame(self, sql: str) -> float:
        """Read a query into a DataFrame."""
        connection = self._connected()

        def read() -> None:
            cursor = connection.execute(sql)
            pd.DataFrame.from_records(cursor.fetchall(), columns=[column[0] for column in cursor.description])

        return timed(read)

    def statements(self, texts: list[str]) -> float:
        """Run queries one after another."""
        connection = self._connected()
        return timed(lambda: [connection.execute(text).fetchall() for text in texts])

    def many(self, sql: str, path: str) -> float:
        """Run a statement for each row of a JSON file in one transaction, and commit it."""
        rows = list(map(tuple, json.loads(Path(path).read_text(encoding="utf-8"))))
        connection = self._connected("DEFERRED")

        def insert() -> None:
            connection.cursor().executemany(sql, rows)
            connection.commit()

        return timed(insert)


class LibsqlClient:
    """libsql-client."""

    def __init__(self, package: str) -> None:
        self.package = importlib.import_module(package.replace("-", "_"))
        self.client: Any = None

    def open(self, url: str, token: str) -> float:
        """Connect."""

        def connect() -> None:
            self.client = self.package.create_client_sync(url, auth_token=token)

        return timed(connect)

    def close(self) -> None:
        """End its thread."""
        if self.client is not None:
            self.client.close()

    def frame(self, sql: str) -> float:
        """Read a query into a DataFrame."""

        def read() -> None:
            result = self.client.execute(sql)
            pd.DataFrame.from_records([tuple(row) for row in result.rows], columns=result.columns)

        return timed(read)

    def load(self, table: str, path: str) -> float:
        """Insert the rows of a JSON file as one batch, which is all or nothing."""
        rows = json.loads(Path(path).read_text(encoding="utf-8"))
        insert = f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})"
        return timed(lambda: self.client.batch([self.package.Statement(insert, row) for row in rows]))

    def statements(self, texts: list[str]) -> float:
        """Run queries one after another."""
        return timed(lambda: [self.client.execute(text) for text in texts])


class JupySql:
    """JupySQL in an IPython shell, on a SQLite database in memory."""

    def __init__(self, _package: str) -> None:
        from IPython.core.interactiveshell import InteractiveShell
        from traitlets.config import Config

        config = Config()
        config.HistoryManager.enabled = False
        self.shell = InteractiveShell.instance(config=config)

    def load_ext(self) -> float:
        """Load the extension; return the seconds in a new process."""
        return timed(lambda: self.shell.run_line_magic("load_ext", "sql"))

    def connect(self) -> float:
        """Open the database and turn off messages."""
        self.shell.run_line_magic("load_ext", "sql")
        self.shell.run_line_magic("config", "SqlMagic.feedback = 0")
        return timed(lambda: self.shell.run_line_magic("sql", "sqlite://"))

    def cells(self, sql: str, times: int, frames: bool) -> float:
        """Run a cell some times, with JupySQL's own result or a DataFrame; return the seconds of one run."""
        self.shell.run_line_magic("config", f"SqlMagic.autopandas = {frames}")

        def run() -> None:
            for _ in range(times):
                self.shell.run_cell_magic("sql", "", sql)

        return timed(run) / times


PACKAGES = {"libsql": DbApi, "turso-serverless": DbApi, "libsql-client": LibsqlClient, "jupysql": JupySql}


def main() -> None:
    """Process lines until the input ends."""
    answers, sys.stdout = sys.stdout, io.StringIO()  # output of packages must not be mixed with the responses
    worker = PACKAGES[sys.argv[1]](sys.argv[1])
    for line in sys.stdin:
        call = json.loads(line)
        try:
            answer = {"seconds": getattr(worker, call.pop("do"))(**call)}
        except Exception as error:  # noqa: BLE001 - whatever the package raises is the answer
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    getattr(worker, "close", lambda: None)()


if __name__ == "__main__":
    main()
