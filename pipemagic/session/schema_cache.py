"""What is known of a database's tables, read in the background.

The cache is filled after connecting. It is read again after DDL of the session itself, and when the database's schema
version, which is compared after a cell that ran and at most every CHECK_EVERY seconds, is another one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from pipemagic.explore.shapes import Reference, Shape, declared
from pipemagic.hrana.stream import Tx
from pipemagic.sql import ParsedStatement

if TYPE_CHECKING:
    from pipemagic.client.database import Database
    from pipemagic.explore.schema import Relation, Schema
    from pipemagic.session.connection import Connection

CHECK_EVERY = 10.0
"""Seconds between two checks of the schema version."""

PATIENCE = 0.3
"""Seconds that an error waits for the tables, where they are not known yet."""

_log = logging.getLogger(__name__)

Tables = tuple[int, Sequence[Shape]]
"""A schema version and the tables and views that it has."""


class SchemaCache:
    """The tables of one connection. Safe from any thread; only its own thread asks the server.

    ``read`` returns the tables, or None if the schema version is still the one that it is given.
    """

    def __init__(
        self, read: Callable[[int | None], Tables | None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._read, self._clock, self._lock = read, clock, threading.Lock()
        self._known: dict[str, Shape] = {}
        self._version: int | None = None  # of what is known; None if it is not as the server sent it
        self._checked_at = 0.0
        self._started = self._closed = self._stale = self._changed = False
        self._temporary: dict[str, Shape] = {}
        self._uncommitted: dict[str, Shape | None] = {}  # by DDL of the open transaction; None for what it dropped
        self.ready = threading.Event()
        """Set while nothing is being read."""
        self.ready.set()

    @property
    def tables(self) -> list[Shape]:
        """What is known by now, with what only this session sees; empty before the first response."""
        with self._lock:
            known = {**self._known, **self._uncommitted, **self._temporary}
        return [shape for shape in known.values() if shape is not None]

    def tables_soon(self, *, typed: bool = False) -> list[Shape]:
        """Return the tables; if none is known, or with ``typed`` if a type is not, wait a moment for the server."""
        known = self.tables
        if known and self._started and not (typed and any(shape.relation is None for shape in known)):
            return known
        self._read_soon()
        self.ready.wait(PATIENCE)
        return self.tables

    def of(self, name: str) -> Schema | None:
        """Return what the server sent of one table or view, with its version; None if it is not known by now."""
        from pipemagic.explore.schema import Schema

        with self._lock:
            shape, version = self._known.get(name.lower()), self._version
        if shape is None or shape.relation is None or version is None:
            return None
        return Schema(version, (shape.relation,))

    def unseen(self, name: str) -> bool:
        """Return True if only the cells' own connection has a table of that name: temporary, or not committed."""
        with self._lock:
            return (self._temporary.get(name.lower()) or self._uncommitted.get(name.lower())) is not None

    def start(self) -> None:
        """Begin to read ahead; until then only `tables_soon` asks the server."""
        self._started = True
        self.refresh()

    def refresh(self) -> None:
        """Bring what is known up to date, in the background."""
        if self._started:
            self._read_soon()

    def follow(self, statements: Sequence[ParsedStatement], transaction: Tx) -> None:
        """Update from the statements of a cell that ran, and whether a transaction is open after them."""
        with self._lock:
            for statement in statements:
                if statement.keyword == "ROLLBACK":  # also one to a savepoint: the next read corrects that
                    self._uncommitted.clear()
                elif statement.changes_schema:
                    self._apply(statement.text)
            committed = self._changed and transaction is not Tx.OPEN
            if committed:  # known until the response of the server; after a rollback that corrects it
                known = {**self._known, **self._uncommitted}
                self._known = {name: shape for name, shape in known.items() if shape is not None}
                self._uncommitted.clear()
                self._changed, self._version = False, None
        if committed or self._clock() - self._checked_at >= CHECK_EVERY:
            self.refresh()

    def forget_temporary(self) -> None:
        """Forget what only a stream had that has ended: temporary tables, and what was not committed."""
        with self._lock:
            self._temporary.clear()
            self._uncommitted.clear()

    def close(self) -> None:
        """Read nothing more, and drop responses that still come."""
        with self._lock:
            self._closed = True

    def _apply(self, ddl: str) -> None:
        self._changed = True
        change = declared(ddl)
        if change is None:
            return
        name = change.name.lower()
        if change.shape is None and name in self._temporary:
            del self._temporary[name]
        elif change.shape is not None and change.temporary:
            self._temporary[name] = change.shape
        else:
            self._uncommitted[name] = change.shape

    def _read_soon(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._stale = True
            if not self.ready.is_set():
                return  # the thread reads once more
            self.ready.clear()
        threading.Thread(target=self._read_all, name="pipemagic-schema", daemon=True).start()

    def _read_all(self) -> None:
        while True:
            with self._lock:
                if self._closed or not self._stale:
                    self.ready.set()
                    return
                self._stale, self._checked_at, version = False, self._clock(), self._version
            try:
                found = self._read(version)
            except Exception:  # noqa: BLE001
                # Whatever it is (no server, no right, a client that is closed meanwhile), what is known stays.
                _log.debug("the schema could not be read", exc_info=True)
                continue
            with self._lock:
                if found is not None and not (self._closed or self._stale):  # else it may be older than the last DDL
                    self._version, self._known = found[0], {shape.name.lower(): shape for shape in found[1]}


def cache_of(connection: Connection) -> SchemaCache:
    """Return a cache for a connection.

    It asks beside the stream, on HTTP connections that nobody counts, and never starts a service that has ended.
    """

    def ask(version: int | None) -> Tables | None:
        with connection.database.sibling() as database:
            return read(database, version)

    return SchemaCache(ask)


def read(database: Database, known: int | None = None) -> Tables | None:
    """Read the tables in one round trip; None if the schema version is still ``known``."""
    from pipemagic.explore.schema import read_schema, schema_version

    if known is not None and schema_version(database) == known:
        return None
    schema = read_schema(database)
    keys = {relation.name.lower(): relation.primary_key for relation in schema.relations}
    return schema.version, [_shape(relation, keys) for relation in schema.relations if relation.kind != "shadow"]


def _shape(relation: Relation, keys: Mapping[str, tuple[str, ...]]) -> Shape:
    references = [
        Reference(key.columns, key.table, key.references or keys.get(key.table.lower(), ()))
        for key in relation.foreign_keys
    ]
    return Shape(
        relation.name,
        "view" if relation.kind == "view" else "table",
        tuple(column.name for column in relation.columns if not column.hidden),
        tuple(one for one in references if len(one.columns) == len(one.to)),
        relation,
        tuple(column.type for column in relation.columns if not column.hidden),
    )
