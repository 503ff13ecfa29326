"""What the nodes should hold, durably: which databases have a namespace, and which namespaces are to be removed.

sqld has no list of its namespaces, and a change of the catalog and a call to a node cannot be one step. So the
catalog notes what was begun, and after a crash the engine finishes it. What is in neither table is not ours and
is never touched.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipemagic.service.registry.store import Store
from pipemagic.service.registry.usage import Counts


@dataclass(frozen=True)
class Removal:
    """A namespace that a node still has to remove."""

    database: str
    label: str
    code: str


class Namespaces:
    """The tables ``namespaces`` and ``namespace_removals`` of the catalog; a trigger fills the second."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def begin(self, database: str, label: str, codes: list[str]) -> None:
        """Note that the namespace of a new database is about to be made, at nodes of these locations."""
        with self._store.change() as run:
            run("INSERT OR IGNORE INTO namespaces VALUES (?, ?, 0)", (database, label))
            for code in codes:
                run("INSERT OR IGNORE INTO namespace_nodes VALUES (?, ?)", (database, code))

    def made(self, database: str) -> None:
        """Note that the namespace is there: should it ever be gone, its data is, too."""
        with self._store.change() as run:
            run("UPDATE namespaces SET made = 1 WHERE database = ?", (database,))

    def is_made(self, database: str) -> bool:
        """Tell whether the namespace was there once."""
        return bool(self._store.rows("SELECT 1 FROM namespaces WHERE database = ? AND made", (database,)))

    def add_node(self, database: str, code: str) -> None:
        """Note that the node of a location may hold the namespace from now on."""
        with self._store.change() as run:
            run("INSERT OR IGNORE INTO namespace_nodes VALUES (?, ?)", (database, code))

    def drop_node(self, database: str, label: str, code: str) -> None:
        """Note that the node of a location has to remove the namespace."""
        with self._store.change() as run:
            if run("DELETE FROM namespace_nodes WHERE database = ? AND code = ? RETURNING 1", (database, code)):
                run("INSERT OR IGNORE INTO namespace_removals VALUES (?, ?, ?)", (database, label, code))

    def nodes(self, database: str) -> set[str]:
        """Give the locations whose nodes may hold the namespace."""
        return {row[0] for row in self._store.rows(
            "SELECT code FROM namespace_nodes WHERE database = ?", (database,)
        )}  # fmt: skip

    def count(self, database: str, code: str, count: str, rows: Counts) -> Counts:
        """Note how far a node's count has come; gives what is new since the last time.

        A node that was killed goes on with a count from some moments before: nothing is counted twice.
        """
        with self._store.note() as run:
            noted = run("SELECT rows_read, rows_written FROM namespace_counts"
                        " WHERE database = ? AND code = ? AND count = ?", (database, code, count))  # fmt: skip
            if not run("INSERT OR REPLACE INTO namespace_counts SELECT database, ?2, ?3, ?4, ?5 FROM namespaces"
                       " WHERE database = ?1 RETURNING 1", (database, code, count, *rows)):  # fmt: skip
                return Counts()  # it was deleted meanwhile
        before = Counts(*noted[0]) if noted else Counts()
        return Counts(max(0, rows.rows_read - before.rows_read), max(0, rows.rows_written - before.rows_written))

    def removals(self, label: str | None = None) -> list[Removal]:
        """List what nodes still have to remove (of one name), in the order in which it was asked for."""
        rows = self._store.rows(
            "SELECT database, label, code FROM namespace_removals WHERE ?1 IS NULL OR label = ?1 ORDER BY rowid",
            (label,),
        )
        return [Removal(*row) for row in rows]

    def removed(self, removal: Removal) -> None:
        """Note that a node has removed a namespace."""
        with self._store.change() as run:
            run("DELETE FROM namespace_removals WHERE database = ? AND code = ?", (removal.database, removal.code))
