"""A cache of a database's schema, read in the background.

The schema is read after connecting, after DDL of the session, and when the schema version has changed. The version is
checked after a cell, at most every CHECK_EVERY seconds. Until the next read, and for temporary tables and those of an
open transaction, DDL of the session is applied from its text.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from pipemagic.explore.ddl import parse_ddl
from pipemagic.explore.schema import Relation, Schema
from pipemagic.explore.schema_reader import read_schema, schema_version
from pipemagic.hrana.stream import Tx
from pipemagic.sql import ParsedStatement

if TYPE_CHECKING:
    from pipemagic.client.database import Database

CHECK_EVERY = 10.0
"""Seconds between two checks of the schema version."""

WAIT = 0.3
"""Seconds that an error message waits for a schema that is not read yet."""

_log = logging.getLogger(__name__)


class SchemaCache:
    """The tables and views of one connection. Thread-safe; only its own thread sends requests.

    ``read`` returns the schema, or None if its version is still the one passed.
    """

    def __init__(
        self, read: Callable[[int | None], Schema | None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._read, self._clock, self._lock = read, clock, threading.Lock()
        self._known: dict[str, Relation] = {}
        self._version: int | None = None  # None once DDL was applied to the tables that were read
        self.check_at = math.inf
        """When to check the version after a cell; infinite before the first read."""
        self._started = self._closed = self._stale = self._changed = False
        self._temporary: dict[str, Relation] = {}
        self._uncommitted: dict[str, Relation | None] = {}  # changes of the open transaction; None: dropped
        self.ready = threading.Event()
        """Set unless the schema is being read."""
        self.ready.set()

    @classmethod
    def of_schema(cls, schema: Schema) -> SchemaCache:
        """Return a cache of a schema that was just read."""
        cache = cls(lambda _: None)
        cache._known, cache._started = _by_name(schema), True
        return cache

    def with_tables(self, tables: Iterable[Relation]) -> SchemaCache:
        """Return a cache of the tables known so far and of others, which is not read again."""
        return SchemaCache.of_schema(Schema(0, (*self.tables, *tables)))

    @property
    def tables(self) -> list[Relation]:
        """The tables and views known so far, with temporary and uncommitted ones; empty before the first response."""
        with self._lock:
            return list(self._visible().values())

    def tables_soon(self, *, complete: bool = False) -> list[Relation]:
        """Return the tables; wait up to WAIT seconds if they are being read, as after a load, or if none is known.

        With ``complete`` wait also if one is only parsed.
        """
        tables = self.tables
        if not (tables and self._started) or (complete and any(relation.parsed for relation in tables)):
            self._read_soon()
        self.ready.wait(WAIT)
        return self.tables

    def of(self, name: str) -> Schema | None:
        """Return one table or view as it was read from the server, with the schema version; None if unknown."""
        with self._lock:
            relation, version = self._known.get(name.lower()), self._version
        return None if relation is None or version is None else Schema(version, (relation,))

    def is_private(self, name: str) -> bool:
        """Return True if only the session's own stream sees that table: it is temporary or not committed."""
        with self._lock:
            return (self._temporary.get(name.lower()) or self._uncommitted.get(name.lower())) is not None

    def start(self) -> None:
        """Read the schema now and after changes; until then only `tables_soon` reads it."""
        self._started = True
        self.refresh()

    def refresh(self) -> None:
        """Read the schema again in the background if its version has changed."""
        if self._started:
            self._read_soon()

    def update(self, statements: Sequence[ParsedStatement], transaction: Tx) -> None:
        """Apply the DDL of a cell that ran, and check the version if due; ``transaction`` is the state after it."""
        with self._lock:
            for statement in statements:
                if statement.keyword == "ROLLBACK":  # also ROLLBACK TO, which the next read corrects
                    self._uncommitted.clear()
                elif statement.changes_schema:
                    self._apply(statement.text)
            committed = self._changed and transaction is not Tx.OPEN
            if committed:  # until the next read, which also corrects it after a rollback
                relations = {**self._known, **self._uncommitted}
                self._known = {name: relation for name, relation in relations.items() if relation is not None}
                self._uncommitted.clear()
                self._changed, self._version = False, None
        if committed or self._clock() >= self.check_at:
            self.refresh()

    def forget_temporary(self) -> None:
        """Forget temporary tables and uncommitted changes, because their stream has ended."""
        with self._lock:
            self._temporary.clear()
            self._uncommitted.clear()

    def close(self) -> None:
        """Stop reading and ignore pending responses."""
        with self._lock:
            self._closed = True

    def _apply(self, ddl: str) -> None:
        self._changed = True
        for name, relation in parse_ddl(ddl, self._visible()).items():
            if relation is not None and relation.temporary:
                self._temporary[name] = relation
            elif relation is not None or name not in self._temporary:
                self._uncommitted[name] = relation
            else:
                del self._temporary[name]

    def _visible(self) -> dict[str, Relation]:
        relations = {**self._known, **self._uncommitted, **self._temporary}
        return {name: relation for name, relation in relations.items() if relation is not None}

    def _read_soon(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._stale = True
            if not self.ready.is_set():
                return  # the running thread reads once more
            self.ready.clear()
        threading.Thread(target=self._read_all, name="pipemagic-schema", daemon=True).start()

    def _read_all(self) -> None:
        while True:
            with self._lock:
                if self._closed or not self._stale:
                    self.ready.set()
                    return
                self._stale, self.check_at, version = False, self._clock() + CHECK_EVERY, self._version
            try:
                schema = self._read(version)
            except Exception:  # noqa: BLE001
                # No server, no permission, a closed client: the cache keeps what it has.
                _log.debug("cannot read the schema", exc_info=True)
                continue
            with self._lock:
                if schema is not None and not (self._closed or self._stale):  # else it may be older than the last DDL
                    self._version = schema.version
                    self._known = _by_name(schema)


def _by_name(schema: Schema) -> dict[str, Relation]:
    return {relation.name.lower(): relation for relation in schema.relations if relation.kind != "shadow"}


def cache_of(current: Callable[[], Database]) -> SchemaCache:
    """Return a cache for a connection, given a function that returns its current database.

    It uses its own HTTP connections, which are not traced, and never starts a service that has ended.
    """

    def read_from_server(version: int | None) -> Schema | None:
        with current().sibling() as database:
            return read(database, version)

    return SchemaCache(read_from_server)


def read(database: Database, version: int | None = None) -> Schema | None:
    """Read the schema in one round trip; None if its version is still ``version``."""
    if version is not None and schema_version(database) == version:
        return None
    return read_schema(database)
