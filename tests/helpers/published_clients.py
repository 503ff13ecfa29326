"""The published clients as data, and a way to drive each: a process that reads a line of JSON for each call.

The scripts are in tests/published_clients/drivers.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Published:
    """One published package: its driver, and the features that it supports over HTTP."""

    package: str
    registry: str
    """npm or PyPI."""
    script: str
    """The script in tests/published_clients/drivers, and its arguments."""
    offers: frozenset[str]
    """Some of: named parameters, transactions, batch (all or nothing), blobs and floats as parameters, codes of errors,
    changes (rows affected), rowid."""
    tls: bool = False
    """Whether it supports https: only."""

    @property
    def id(self) -> str:
        """The name in a test's id."""
        return f"{self.registry}-{self.package.rpartition('/')[2]}"


def _published(package: str, registry: str, script: str, offers: str, *, tls: bool = False) -> Published:
    return Published(package, registry, script, frozenset(offers.split()), tls)


_ALL = "named transactions batch blobs floats codes changes rowid"

PUBLISHED = [
    _published("@libsql/client", "npm", "libsql_client.mjs", _ALL),
    _published("@libsql/hrana-client", "npm", "hrana_client.mjs", _ALL),
    _published("@tursodatabase/serverless", "npm", "serverless.mjs", _ALL),
    _published("libsql", "npm", "libsql_js.mjs", "transactions blobs floats changes rowid"),
    _published(
        "turso-serverless", "PyPI", "drive_dbapi.py turso_serverless", "named transactions blobs floats changes rowid"
    ),
    _published("libsql", "PyPI", "drive_dbapi.py libsql", "transactions blobs floats rowid"),
    _published("libsql-experimental", "PyPI", "drive_dbapi.py libsql_experimental", "transactions blobs floats rowid"),
    _published("aiolibsql", "PyPI", "drive_aiolibsql.py", "transactions blobs floats rowid"),
    _published("libsql-client", "PyPI", "drive_libsql_client.py", "named batch blobs floats codes changes rowid"),
    _published("turso-python", "PyPI", "drive_turso_python.py", "changes rowid", tls=True),
]


class ClientError(Exception):
    """An exception of a package: the name of its class, its code if it has one, its message."""

    def __init__(self, kind: str, code: str | None, message: str) -> None:
        super().__init__(f"{kind} {code}: {message}")
        self.kind, self.code, self.message = kind, code, message


@dataclass(frozen=True)
class Result:
    """The result of one statement as a package returns it."""

    columns: list[str]
    rows: list[tuple[Any, ...]]
    changes: int | None = None
    rowid: str | None = None
    types: list[str | None] = field(default_factory=list)


class Driver:
    """A running script that drives one package."""

    def __init__(self, command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            command,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )

    def call(self, do: str, **members: Any) -> Any:
        """Call a function of the script; ClientError if the package raised."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps({"do": do, **members}) + "\n")
        stdin.flush()
        line = stdout.readline()
        assert line, f"{self._process.args!r} ended with status {self._process.wait()}"
        answer = json.loads(line)
        if "error" in answer:
            raise ClientError(**answer["error"])
        return answer["ok"]

    def execute(self, sql: str, args: Sequence[Any] | Mapping[str, Any] | None = None, do: str = "execute") -> Result:
        return result_of(self.call(do, sql=sql, args=tag(args)))

    def batch(self, *statements: str | tuple[str, Any], **members: Any) -> list[Result]:
        pairs = [(statement, None) if isinstance(statement, str) else statement for statement in statements]
        done = self.call("batch", statements=[[sql, tag(args)] for sql, args in pairs], **members)
        return [result_of(result) for result in done]

    def close(self) -> None:
        """End the script and wait for it."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        stdout.close()


def tag(value: Any) -> Any:
    """Convert a value to JSON without loss."""
    match value:
        case bool() | None | str():
            return value
        case int():
            return {"int": str(value)}
        case float():
            return {"float": value}
        case bytes():
            return {"blob": value.hex()}
        case Mapping():
            return {name: tag(item) for name, item in value.items()}
    return [tag(item) for item in value]


def untag(value: Any) -> Any:
    """Convert a value that `tag` or a script wrote."""
    match value:
        case {"int": digits}:
            return int(digits)
        case {"float": number}:
            return float(number)
        case {"blob": digits}:
            return bytes.fromhex(digits)
    return value


def result_of(shown: dict[str, Any]) -> Result:
    rows = [tuple(untag(value) for value in row) for row in shown["rows"]]
    return Result(shown["columns"], rows, shown["changes"], shown["rowid"], shown.get("types") or [])
