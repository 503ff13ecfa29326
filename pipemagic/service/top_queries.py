"""The slowest and the most frequent statements of each database: their texts without values, and what they took.

Statements that differ only in literals are one. Counts are by hour, and are written to the catalog with the usage.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import apsw

from pipemagic import sql as sqltext
from pipemagic.service.catalog.store import RunSql, Store
from pipemagic.sql import Token

LONGEST = 1000
"""Characters of a statement that are read; the rest is left out."""
TEXTS = 100
"""Texts of one database that are counted in memory between two writes, and kept of one hour; the least used go."""
HOURS = 24
MOST = 10
"""Statements of each kind that are reported: the slowest, and the most frequent."""

_LITERALS = frozenset({"string", "blob", "number"})
_BEFORE_COLUMNS = frozenset({"KEY", "UNIQUE", "CONFLICT", "USING"})
_BEFORE_TABLES = frozenset({"INTO", "TABLE", "EXISTS", "REFERENCES"})
_BEFORE_NAMES = _BEFORE_TABLES | {
    "AS", "BY", "COLLATE", "COLUMN", "CONSTRAINT", "FROM", "INDEX", "JOIN", "TO", "TRIGGER", "UPDATE", "VIEW", "WITH",
}  # fmt: skip
"""Keywords before names; behind BY (ORDER BY) a literal would have no sense."""
_CONTROL = frozenset({"BEGIN", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE", ""})


@dataclass
class QueryCounts:
    """What the runs of a statement took."""

    runs: int = 0
    seconds: float = 0.0
    rows_read: int = 0
    rows_written: int = 0


class TopQueries:
    """Counts statements. Thread-safe; ``now`` returns Unix seconds."""

    def __init__(self, store: Store, now: Callable[[], float]) -> None:
        self._store, self._now = store, now
        self._lock = threading.Lock()
        self._pending: dict[str, OrderedDict[str, QueryCounts]] = {}
        """Counts that are not in the catalog yet, by database (its id) and text, the last used text last."""

    def count(
        self, database: str, query: str, runs: int, seconds: float, rows_read: int = 0, rows_written: int = 0
    ) -> None:
        """Count runs of a statement, by its text without values; one without a text is not counted."""
        if not query:
            return
        with self._lock:
            queries = self._pending.setdefault(database, OrderedDict())
            counts = queries.get(query)
            if counts is None:
                if len(queries) >= TEXTS:
                    queries.popitem(last=False)
                queries[query] = QueryCounts(runs, seconds, rows_read, rows_written)
            else:
                counts.runs += runs
                counts.seconds += seconds
                counts.rows_read += rows_read
                counts.rows_written += rows_written
                queries.move_to_end(query)

    @property
    def pending(self) -> bool:
        """True if the catalog lacks counts."""
        return bool(self._pending)

    def flush(self) -> None:
        """Write the counts to the catalog; if that fails, keep them for the next time."""
        with self._lock:
            pending, self._pending = self._pending, {}
        if not pending:
            return
        hour = int(self._now() // 3600)
        try:
            with self._store.change(cached=False) as run:
                run("DELETE FROM queries WHERE hour < ?", (hour - HOURS,))
                for database, queries in pending.items():
                    for query, counts in queries.items():
                        run("INSERT INTO queries SELECT id, ?2, ?3, ?4, ?5, ?6, ?7 FROM databases WHERE id = ?1"
                            " ON CONFLICT DO UPDATE SET runs = runs + ?4, seconds = seconds + ?5,"
                            " rows_read = rows_read + ?6, rows_written = rows_written + ?7",
                            (database, hour, query, *vars(counts).values()))  # fmt: skip
                    self._trim(run, database, hour)
        except apsw.Error:
            for database, queries in pending.items():
                for query, counts in queries.items():
                    self.count(database, query, *vars(counts).values())
            raise

    def _trim(self, run: RunSql, database: str, hour: int) -> None:
        """Remove the texts of an hour that are neither slow nor frequent, if there are many."""
        ((number,),) = run("SELECT count(*) FROM queries WHERE database = ? AND hour = ?", (database, hour))
        if number > TEXTS:
            best = "SELECT query FROM queries WHERE database = ?1 AND hour = ?2 ORDER BY"
            frequent, slow = (f"SELECT * FROM ({best} {order} DESC LIMIT ?3)" for order in ("runs", "seconds"))
            run(f"DELETE FROM queries WHERE database = ?1 AND hour = ?2 AND query NOT IN ({frequent} UNION {slow})",
                (database, hour, TEXTS // 4))  # fmt: skip

    def top(self, database: str, since: float | None = None) -> list[tuple[str, QueryCounts]]:
        """Return the slowest statements of a database, on average, and then the other most frequent ones.

        ``since`` is in Unix seconds, by default a day ago; the hour that contains it counts as a whole.
        """
        with suppress(apsw.Error):  # the disk is full: what is in the catalog is reported
            self.flush()
        start = self._now() - HOURS * 3600 if since is None else since
        rows = self._store.rows(
            "SELECT query, sum(runs), sum(seconds), sum(rows_read), sum(rows_written) FROM queries"
            " WHERE database = ? AND hour >= ? GROUP BY query",
            (database, int(start // 3600)),
        )
        queries = [(query, QueryCounts(*counts)) for query, *counts in rows]
        slowest = sorted(queries, key=lambda item: -item[1].seconds / item[1].runs)[:MOST]
        frequent = sorted(queries, key=lambda item: -item[1].runs)[:MOST]
        return slowest + [item for item in frequent if item not in slowest]


def without_values(text: str) -> str:
    """Return a statement with ``?`` in the place of each literal, without comments and with single blanks.

    '' for one that only begins or ends a transaction. SQLite reads text in double quotes as a literal if there is no
    such column, so it is replaced unless it can only be a name.
    """
    cut = text[:LONGEST]
    tokens = sqltext.significant(cut)
    if len(cut) < len(text):  # the last token may be the beginning of a literal
        tokens = tokens[:-1]
    if not tokens or tokens[0].word in _CONTROL:
        return ""
    texts, end = [], tokens[0].start
    for token, is_value in zip(tokens, _values(tokens), strict=True):
        if token.start > end:  # blanks or a comment
            texts.append(" ")
        texts.append("?" if is_value else token.text)
        end = token.end
    return "".join(texts) + (" ..." if len(cut) < len(text) else "")


def _values(tokens: Sequence[Token]) -> Sequence[bool]:
    """Return for each token whether it may be a value."""
    values = [token.kind in _LITERALS for token in tokens]
    names = {number for number, token in enumerate(tokens) if token.kind == "quoted" and token.text[0] == '"'}
    if not names:  # as in most texts
        return values
    lists = [False]
    """Whether the parentheses around the token contain names, from the outermost."""
    sets = -1
    """The depth of the parentheses around a SET whose names and values are being read; -1 outside."""
    for number, token in enumerate(tokens):
        before, word = (tokens[number - 1].text, tokens[number - 1].word) if number else ("", "")
        after = tokens[number + 1].text if number + 1 < len(tokens) else ""
        if token.text == "(":
            lists.append(_begins_names(tokens, number))
        elif token.text == ")" and len(lists) > 1:
            lists.pop()
        elif token.word in ("SET", "FROM", "WHERE", "RETURNING"):
            sets = len(lists) if token.word == "SET" else -1
        elif number in names:
            assigned = after == "=" and (word == "SET" or before == ",") and len(lists) == sets
            in_list = lists[-1] and before in ("(", ",")
            values[number] = not (
                "." in (before, after) or after == "(" or word in _BEFORE_NAMES or in_list or assigned
            )
    return values


def _begins_names(tokens: Sequence[Token], number: int) -> bool:
    """Return True if a parenthesis begins a list of columns."""
    start = number - 1
    if start >= 0 and tokens[start].word in _BEFORE_COLUMNS:
        return True
    while start >= 2 and tokens[start - 1].text == ".":
        start -= 2
    words = _BEFORE_TABLES | {"ON"} if tokens[0].word == "CREATE" else _BEFORE_TABLES
    return start >= 1 and tokens[start - 1].word in words
