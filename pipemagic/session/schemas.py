"""What is known of a database's tables without asking it: read in the background, never waited for.

The cache is filled after connecting. It is read again after DDL of the session itself, and when a look at the
database's schema version, taken after a cell that ran and at most every LOOK_EVERY seconds, finds another one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from pipemagic.explore.shapes import Change, Reference, Shape, declared
from pipemagic.hrana.stream import Tx
from pipemagic.sql import Statement

if TYPE_CHECKING:
    from pipemagic.client.database import Database
    from pipemagic.explore.schema import Relation, Schema
    from pipemagic.session.connection import Connection

T = TypeVar("T")

LOOK_EVERY = 10.0
"""Seconds between two looks at the schema version."""

_log = logging.getLogger(__name__)

_DDL = ("CREATE", "DROP", "ALTER")


class SchemaCache:
    """The tables of one connection. Safe from any thread; nothing here waits for the server but the own thread.

    ``read`` asks the database for version and tables, ``version`` for the version alone.
    """

    def __init__(
        self,
        read: Callable[[], tuple[int, Sequence[Shape]]],
        version: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._version = version
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, Shape] = {}
        self._at: int | None = None  # the schema version of what is known
        self._looked = 0.0
        self._started = self._wanted = self._asked = self._running = self._closed = False
        self._temporary: dict[str, Change] = {}
        self._open: dict[str, Change] = {}  # by DDL of a transaction that is not committed
        self.ready = threading.Event()
        """Set when nothing is being read; tests wait for it."""

    @property
    def tables(self) -> list[Shape]:
        """What is known by now, with what only this session sees; empty before the first answer."""
        with self._lock:
            known = dict(self._known)
            for name, change in [*self._open.items(), *self._temporary.items()]:
                if change.shape is None:
                    known.pop(name, None)
                else:
                    known[name] = change.shape
            return list(known.values())

    def of(self, name: str) -> Schema | None:
        """Give what the server told of one table or view, with the version it is of; None if it did not tell by now."""
        from pipemagic.explore.schema import Schema

        with self._lock:
            shape, version = self._known.get(name.lower()), self._at
        if shape is None or shape.relation is None or version is None:
            return None
        return Schema(version, (shape.relation,))

    def unseen(self, name: str) -> bool:
        """Whether a table of that name is only there for the cells' own connection: temporary, or not committed."""
        with self._lock:
            changes = [one.get(name.lower()) for one in (self._temporary, self._open)]
        return any(change is not None and change.shape is not None for change in changes)

    def start(self) -> None:
        """Begin to read ahead; until then nothing is asked."""
        self._started = True
        self.refresh()

    def refresh(self) -> None:
        """Read everything anew in the background; what is known stays until the answer is there."""
        self._start(wanted=True)

    def look(self) -> None:
        """Find out in the background whether the schema has changed, if the last look is a while ago."""
        if self._clock() - self._looked >= LOOK_EVERY:
            self._start(wanted=False)

    def follow(self, statements: Sequence[Statement], transaction: Tx) -> None:
        """Take in the statements of a cell that ran, and whether a transaction is open after them."""
        with self._lock:
            moved = bool(self._open) and transaction is not Tx.OPEN
            for statement in statements:
                moved |= statement.keyword in _DDL
                self._take_in(statement)
            if transaction is not Tx.OPEN:
                self._settle_open()
        if moved:
            self.refresh()
        else:
            self.look()

    def forget_temporary(self) -> None:
        """Forget what only a server-side connection had that has ended: temporary tables, what was not committed."""
        with self._lock:
            self._temporary.clear()
            self._open.clear()

    def close(self) -> None:
        """Read nothing more, and take in no answer that still comes."""
        with self._lock:
            self._closed = True

    def _take_in(self, statement: Statement) -> None:
        change = declared(statement.text)
        if change is None:
            if statement.keyword == "ROLLBACK":  # also one to a savepoint: the answer will correct it
                self._open.clear()
            return
        name = change.name.lower()
        dropped = self._temporary.pop(name, None) if change.shape is None else None
        if change.temporary and change.shape is not None:
            self._temporary[name] = change
        elif dropped is None:
            self._open[name] = change

    def _settle_open(self) -> None:
        """Take what was committed as known until the server's answer is there; after a rollback that corrects it."""
        for name, change in self._open.items():
            if change.shape is None:
                self._known.pop(name, None)
            else:
                self._known[name] = change.shape
        self._open.clear()

    def _start(self, *, wanted: bool) -> None:
        with self._lock:
            if self._closed or not self._started:
                return
            self._asked = True
            self._wanted |= wanted
            self.ready.clear()
            if self._running:
                return
            self._running = True
        threading.Thread(target=self._work, name="pipemagic-schema", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._lock:
                if self._closed or not self._asked:
                    self._running = False
                    self.ready.set()
                    return
                everything, self._wanted, self._asked = self._wanted, False, False
            try:
                self._ask(everything=everything)
            except Exception:  # noqa: BLE001
                # Whatever it is (no server, no right, a client that is closed meanwhile), what is known stays.
                _log.debug("the schema could not be read", exc_info=True)

    def _ask(self, *, everything: bool) -> None:
        self._looked = self._clock()
        if not everything and self._version() == self._at:
            return
        version, shapes = self._read()
        with self._lock:
            if not self._closed:
                self._at = version
                self._known = {shape.name.lower(): shape for shape in shapes}


def cache_of(connection: Connection) -> SchemaCache:
    """Give a cache for a connection.

    It asks beside the stream, on HTTP connections that nobody counts, and never starts a service that has ended.
    """

    def ask(question: Callable[[Database], T]) -> T:
        with connection.database.sibling() as database:
            return question(database)

    return SchemaCache(lambda: ask(read), lambda: ask(version))


def version(database: Database) -> int:
    """Ask for the number that every change of the schema moves."""
    from pipemagic.explore.schema import schema_version

    return schema_version(database)


def read(database: Database) -> tuple[int, list[Shape]]:
    """Read the schema, in one round trip, and keep what completion needs of it."""
    from pipemagic.explore.schema import read_schema

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
