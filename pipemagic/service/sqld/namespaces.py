"""The tables about namespaces: which nodes may hold one, which nodes have to remove one, and counts of rows.

sqld has no list of its namespaces, and a change of the catalog and a call to a node cannot be one step. So the catalog
records what was begun, and after a crash the engine finishes it. Namespaces in none of the tables belong to others and
are never touched.
"""

from __future__ import annotations

from typing import NamedTuple

from pipemagic.service.catalog.store import Store
from pipemagic.service.catalog.usage import Counts


class Removal(NamedTuple):
    """A namespace that a node still has to remove."""

    database: str
    label: str
    code: str


class Namespaces:
    """The tables ``namespaces...`` of the catalog; a trigger fills that of the removals."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, database: str, label: str, code: str) -> bool:
        """Record that the node of a location may hold the namespace; return False if the database was deleted.

        A node that had to remove it, because its location was removed from the group, keeps it now.
        """
        with self._store.change() as run:
            run("INSERT OR IGNORE INTO namespaces SELECT id, ?, 0 FROM databases WHERE id = ?", (label, database))
            run("INSERT OR IGNORE INTO namespace_nodes SELECT database, ? FROM namespaces WHERE database = ?",
                (code, database))  # fmt: skip
            rows = run("SELECT 1 FROM namespaces WHERE database = ?", (database,))
            if rows:
                run("DELETE FROM namespace_removals WHERE database = ? AND code = ?", (database, code))
            return bool(rows)

    def set_created(self, database: str) -> None:
        """Record that the namespace exists: if it is ever missing, its data is lost."""
        with self._store.change() as run:
            run("UPDATE namespaces SET made = 1 WHERE database = ?", (database,))

    def is_created(self, database: str) -> bool:
        """Return True if the namespace has existed."""
        return bool(self._store.rows("SELECT 1 FROM namespaces WHERE database = ? AND made", (database,)))

    def drop_nodes(self, database: str, locations: tuple[str, ...]) -> None:
        """Record that the nodes of all locations except these have to remove the namespace."""
        with self._store.change() as run:
            for label, code in run("SELECT label, code FROM namespace_nodes JOIN namespaces USING (database)"
                                   " WHERE database = ?", (database,)):  # fmt: skip
                if code not in locations:
                    run("DELETE FROM namespace_nodes WHERE database = ? AND code = ?", (database, code))
                    run("INSERT OR IGNORE INTO namespace_removals VALUES (?, ?, ?)", (database, label, code))

    def count(self, database: str, code: str, count: str, rows: Counts) -> Counts:
        """Record the count of a node; return the rows since the last time.

        A node that was killed continues with a count from some moments before: nothing is counted twice.
        """
        with self._store.change(cached=False) as run:
            last = run("SELECT rows_read, rows_written FROM namespace_counts"
                       " WHERE database = ? AND code = ? AND count = ?", (database, code, count))  # fmt: skip
            if not run("INSERT OR REPLACE INTO namespace_counts SELECT database, ?2, ?3, ?4, ?5 FROM namespaces"
                       " WHERE database = ?1 RETURNING 1", (database, code, count, *rows)):  # fmt: skip
                return Counts()  # it was deleted meanwhile
        read, written = last[0] if last else (0, 0)
        return Counts(max(0, rows.rows_read - read), max(0, rows.rows_written - written))

    def removals(self, label: str | None = None) -> list[Removal]:
        """Return the namespaces that nodes still have to remove (of one name), in the order of the requests."""
        rows = self._store.rows(
            "SELECT database, label, code FROM namespace_removals WHERE ?1 IS NULL OR label = ?1 ORDER BY rowid",
            (label,),
        )
        return [Removal(*row) for row in rows]

    def set_removed(self, removal: Removal) -> None:
        """Record that a node has removed a namespace."""
        with self._store.change() as run:
            run("DELETE FROM namespace_removals WHERE database = ? AND code = ?", (removal.database, removal.code))

    def group_rotation(self, group_id: str) -> int:
        """Return the number of the last rotation of all tokens of a group."""
        rows = self._store.rows('SELECT rotated FROM "groups" WHERE id = ?', (group_id,))
        return int(rows[0][0]) if rows else 0
