"""Import CPython's tests of the sqlite3 module with `pipemagic.dbapi` in its place."""

from __future__ import annotations

import importlib
import platform
import sqlite3
import sys
import unittest
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any, ClassVar

from published_suites import cases_in, fits, name_of

from pipemagic import dbapi
from pipemagic.client.trace_format import parse_body
from pipemagic.client.tracing import TracedRequest
from pipemagic.dbapi import Connection

PACKAGE = "test.test_sqlite3"


LEFT_OUT = ("check_same_thread", "detect_types", "timeout")
"""Options of `sqlite3.connect`; ``timeout`` has another meaning there: the seconds to wait for a lock."""


class NoSuite(Exception):
    """This Python was installed without the tests of the standard library."""


class StandIn(ModuleType):
    """`pipemagic.dbapi` under the name sqlite3, where a file is a database of a server.

    ``:memory:`` is a new database for each connection, and the name of the file that the tests use is one until
    `forget`. Another name is passed on as an address. Options of `sqlite3.connect` that have no meaning here are left
    out: tests that need their effect fail. So do those that need a converter, for which there is only a dictionary.
    """

    SQLITE_LIMIT_SQL_LENGTH = sqlite3.SQLITE_LIMIT_SQL_LENGTH
    SQLITE_CONSTRAINT_CHECK = sqlite3.SQLITE_CONSTRAINT_CHECK
    PARSE_DECLTYPES, PARSE_COLNAMES = sqlite3.PARSE_DECLTYPES, sqlite3.PARSE_COLNAMES
    converters: ClassVar[dict[str, Any]] = {}

    def __init__(self, create: Callable[[], tuple[str, str]], file: str) -> None:
        super().__init__("sqlite3")
        self._create, self._file = create, file
        self._open: list[Connection] = []
        self._made: tuple[str, str] | None = None
        self.sqlite_version = self.connect(":memory:").execute("SELECT sqlite_version()").fetchall()[0][0]
        self.sqlite_version_info = tuple(map(int, self.sqlite_version.split(".")))

    def __getattr__(self, name: str) -> Any:
        return getattr(dbapi, name)

    def connect(self, name: str, **options: Any) -> Connection:
        for option in LEFT_OUT:
            options.pop(option, None)
        if name == self._file:
            self._made = self._made or self._create()
        elif name != ":memory:":
            return dbapi.connect(name, **options)
        url, token = self._made if name == self._file and self._made else self._create()
        connection = dbapi.connect(url, token, **options)
        self._open.append(connection)
        return connection

    def forget(self) -> None:
        """Close the connections that a test has opened, and forget its file."""
        for connection in self._open:
            connection.close()
        self._open.clear()
        self._made = None


class Statement(str):
    """The text of a statement that was sent: spaces at its end do not count, as sqlite3 sends ``"BEGIN "``."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and str.__eq__(self.rstrip(), other.rstrip())


class Tracer:
    """An observer of requests that passes on each statement that ran, as `sqlite3.Connection.set_trace_callback`."""

    def __init__(self, callback: Callable[[str], None]) -> None:
        self._callback = callback

    def exchanged(self, request: TracedRequest) -> None:
        sent, received = parse_body(request.sent) or {}, parse_body(request.received) or {}
        for message, entry in zip(sent.get("requests", ()), received.get("results", ()), strict=False):
            if message["type"] == "execute":
                self._callback(Statement(message["stmt"]["sql"]))
            elif message["type"] == "batch" and entry["type"] == "ok":
                result = entry["response"]["result"]
                steps = zip(message["batch"]["steps"], result["step_results"], result["step_errors"], strict=True)
                for step, done, error in steps:
                    if done is not None or error is not None:
                        self._callback(Statement(step["stmt"]["sql"]))


def set_trace_callback(connection: Connection, callback: Callable[[str], None] | None) -> None:
    """Pass each statement that is sent from now on to ``callback``."""
    transport = connection._runner._link._database.transport
    transport.observer = None if callback is None else Tracer(callback)


@contextmanager
def sqlite3_suites(
    create: Callable[[], tuple[str, str]], names: Iterable[str], *, not_run: Mapping[str, str], any_words: Iterable[str]
) -> Iterator[tuple[dict[str, unittest.TestSuite], StandIn]]:
    """Import some modules of CPython's tests; return the suite of each.

    ``create`` creates a database and returns its address and a token. Tests that fit a pattern of ``not_run`` are
    skipped with its reason; in those of ``any_words`` an error may have any message.
    """
    try:
        from test import support
        from test.support.os_helper import TESTFN
    except ImportError:
        raise NoSuite(f"Python {platform.python_version()} is here without the package test.support") from None
    stand_in, real = StandIn(create, TESTFN), sys.modules["sqlite3"]
    support.verbose = 0  # otherwise the package prints its version of SQLite
    sys.modules["sqlite3"] = stand_in
    try:
        modules = {name: importlib.import_module(f"{PACKAGE}.{name}") for name in names}
    except ImportError as error:
        raise NoSuite(f"Python {platform.python_version()} is here without its tests: {error}") from None
    finally:
        sys.modules["sqlite3"] = real
        for name in [name for name in sys.modules if name.startswith(PACKAGE)]:
            del sys.modules[name]
    Connection.set_trace_callback = set_trace_callback
    try:
        yield {name: suite_of(module, not_run, any_words) for name, module in modules.items()}, stand_in
    finally:
        stand_in.forget()
        del Connection.set_trace_callback


def suite_of(module: ModuleType, not_run: Mapping[str, str], any_words: Iterable[str]) -> unittest.TestSuite:
    suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    for case in cases_in(suite):
        for pattern, reason in not_run.items():
            if fits(name_of(case), [pattern]):
                setattr(case, case._testMethodName, unittest.skip(reason)(lambda: None))
        if fits(name_of(case), any_words):
            case.assertRaisesRegex = partial(with_any_words, case.assertRaisesRegex)
    return suite


def with_any_words(method: Callable[..., Any], error: type[Exception], _words: str, *call: Any, **options: Any) -> Any:
    """Call `assertRaisesRegex` with a pattern that every message fits."""
    return method(error, "", *call, **options)
