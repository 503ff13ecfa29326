"""The sandbox: SQL cannot reach other files, weaken durability, write the schema table, or see memory addresses.

SQLite calls the authorizer while it prepares a statement, so nothing of a refused statement runs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

import apsw

from pipemagic.hrana.values import SqlValue
from pipemagic.service.limits import MB
from pipemagic.sql.statement import READ_PRAGMAS

SETTABLE = frozenset({
    "application_id", "automatic_index", "cache_size", "case_sensitive_like", "cell_size_check",
    "defer_foreign_keys", "foreign_keys", "full_column_names", "ignore_check_constraints",
    "legacy_alter_table", "query_only", "recursive_triggers", "reverse_unordered_selects",
    "secure_delete", "short_column_names", "trusted_schema", "user_version",
})  # fmt: skip
"""Pragmas that may be given a value."""

IN_HEADER = frozenset({"application_id", "user_version"})
"""Settable pragmas with a value that is stored in the database file."""

TAKES_NAME = frozenset({
    "foreign_key_check", "foreign_key_list", "incremental_vacuum", "index_info", "index_list", "index_xinfo",
    "integrity_check", "optimize", "quick_check", "table_info", "table_list", "table_xinfo",
})  # fmt: skip
"""Pragmas with an argument that is not a setting."""

IGNORED: Mapping[str, Collection[str] | None] = {
    "journal_mode": ("wal",),
    "synchronous": ("normal", "full", "extra", "on", "yes", "true", "1", "2", "3"),
    "locking_mode": ("normal",),
    "encoding": ("utf-8", "utf8"),
    **dict.fromkeys(
        ["analysis_limit", "auto_vacuum", "busy_timeout", "cache_spill", "journal_size_limit", "mmap_size", "page_size",
         "read_uncommitted", "temp_store", "threads", "wal_autocheckpoint"]
    ),
}  # fmt: skip
"""Settings that many scripts begin with and that the service decides, with the values that are ignored, None for all.

Other values, which could weaken durability, are refused.
"""

ANSWERED = frozenset({
    "analysis_limit", "busy_timeout", "journal_mode", "journal_size_limit", "locking_mode", "mmap_size", "threads",
    "wal_autocheckpoint",
})  # fmt: skip
"""Ignored settings that return a row, as in SQLite: the present value."""

READABLE = READ_PRAGMAS | TAKES_NAME | SETTABLE | IGNORED.keys() | {
    "checkpoint_fullfsync", "fullfsync", "max_page_count", "shrink_memory",
}  # fmt: skip
"""Pragmas that may be read."""

REFUSED_FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer", "optimize"})
"""Functions that load code, or (FTS3's ``optimize``) write although SQLite calls their SELECT read-only."""

CREATE_TEMPORARY = frozenset({
    apsw.SQLITE_CREATE_TEMP_TABLE, apsw.SQLITE_CREATE_TEMP_VIEW, apsw.SQLITE_CREATE_TEMP_TRIGGER,
    apsw.SQLITE_CREATE_TEMP_INDEX,
})  # fmt: skip
"""Actions with an effect that outlives the stream."""

LONGEST_STATEMENT = 16 * MB
"""Bytes of the text of one statement."""

MAX_ARGUMENTS = 127
"""Arguments of a function, as in libSQL; SQLite allows 1000 by default, and each may have to be copied."""

MAX_CACHE_KIB = 64 * 1024
"""The largest ``cache_size`` that is set: a stream must not use up the memory of the machine."""

_OPCODE, _P4 = 1, 5
_ADDRESS = re.compile(r"vtab:[0-9A-Fa-fx]+\Z")
_TEXTS = {"VDestroy", "VFilter", "Variable"}
"""Opcodes whose P4 is a text: a name, or what a virtual table has planned."""


class Sandbox:
    """The authorizer of one SQLite connection. ``refusal`` is the reason if the last statement was refused.

    ``unicode``: the connection has a LIKE of its own, in whose place SQLite would put another one (see `unicode`).
    """

    def __init__(self, *, unicode: bool = False) -> None:
        self._unicode = unicode
        self.refusal = ""
        self.dirty = False
        """True if a statement changed something that would outlive the stream: a setting or a temporary object."""
        self.keyword = ""
        """First word of the statement that is being prepared; empty while its rows are read."""
        self.bypass = False
        """Set while the service runs statements of its own."""
        self.describing = False
        """Set while a statement is described: SQLite changes some settings when it prepares their PRAGMA."""

    def install(self, connection: apsw.Connection, largest_value: int) -> None:
        """Put the limits and the authorizer on a fresh connection. ``largest_value`` is in bytes."""
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_FKEY, 1)
        connection.limit(apsw.SQLITE_LIMIT_LENGTH, largest_value)
        connection.limit(apsw.SQLITE_LIMIT_SQL_LENGTH, LONGEST_STATEMENT)
        connection.limit(apsw.SQLITE_LIMIT_FUNCTION_ARG, MAX_ARGUMENTS)
        connection.authorizer = self.authorize

    def authorize(
        self, action: int, first: str | None, second: str | None, schema: str | None, _inner: str | None
    ) -> int:
        """Allow or refuse one thing that a statement would do."""
        if self.bypass:
            return apsw.SQLITE_OK
        match action:
            case apsw.SQLITE_ATTACH if not (self.keyword == "VACUUM" and not first):  # which VACUUM itself does
                return self._refuse("ATTACH and VACUUM INTO are not available: SQL cannot reach other files")
            case apsw.SQLITE_DETACH if self.keyword != "VACUUM":
                return self._refuse("DETACH is not available: SQL cannot reach other files")
            case apsw.SQLITE_FUNCTION if (second or "").lower() in REFUSED_FUNCTIONS:
                return self._refuse(f"the function {second} is not available")
            case apsw.SQLITE_PRAGMA:
                return self._authorize_pragma((first or "").lower(), second)
            case _ if action in CREATE_TEMPORARY:
                self.dirty = True
            case apsw.SQLITE_CREATE_VTABLE | apsw.SQLITE_INSERT if "temp" in (schema, (first or "")[7:11]):
                self.dirty = True  # a temporary table of a module without tables of its own
        return apsw.SQLITE_OK

    def _authorize_pragma(self, name: str, argument: str | None) -> int:
        if name not in READABLE:
            return self._refuse(f"PRAGMA {name} is not available; leave it out")
        if name == "optimize" and self.keyword != "PRAGMA":
            return self._refuse("PRAGMA optimize writes; it is not available as a table of a SELECT")
        if argument is None or name in TAKES_NAME:
            return apsw.SQLITE_OK
        if ignores(name, argument):
            return int(apsw.SQLITE_IGNORE)  # SQLite then does nothing, without an error
        if name not in SETTABLE:
            return self._refuse(f"PRAGMA {name} cannot be set to {argument[:30]}: leave this line out")
        if name == "case_sensitive_like" and self._unicode:
            return self._refuse("PRAGMA case_sensitive_like is not available with PIPEMAGIC_UNICODE; write GLOB")
        if self.describing or self.keyword == "EXPLAIN":
            # Those in the file's header change it only when they run, and must be seen to write.
            return int(apsw.SQLITE_OK if name in IN_HEADER else apsw.SQLITE_IGNORE)
        self.dirty = True
        return apsw.SQLITE_OK

    def _refuse(self, reason: str) -> int:
        self.refusal = reason
        return int(apsw.SQLITE_DENY)


def ignores(name: str, value: str) -> bool:
    """Return True for a setting that is ignored: what it sets stays as it is."""
    if name == "cache_size":
        return not _is_allowed_cache_size(value)
    values = IGNORED.get(name, ())
    return values is None or value.lower() in values


def _is_allowed_cache_size(argument: str) -> bool:
    """Return True if a cache size (pages, or KiB if negative) is within the limit; a page has up to 64 KiB."""
    try:
        size = int(argument)
    except ValueError:
        return False
    return -MAX_CACHE_KIB <= size <= MAX_CACHE_KIB // 64


def only_create_table(name: str) -> apsw.Authorizer:
    """Return an authorizer that allows a CREATE TABLE of that name, and no other statement."""
    tables = {name.lower(), "sqlite_sequence"}  # which AUTOINCREMENT creates

    def authorize(action: int, first: str | None, second: str | None, _schema: str | None, _inner: str | None) -> int:
        match action:
            case apsw.SQLITE_CREATE_TABLE:
                allowed = (first or "").lower() in tables
            case apsw.SQLITE_CREATE_INDEX:
                allowed = (first or "").startswith("sqlite_autoindex_") and (second or "").lower() in tables
            case apsw.SQLITE_INSERT | apsw.SQLITE_UPDATE:
                allowed = first == "sqlite_master"
            case apsw.SQLITE_READ:
                allowed = first == "sqlite_master" or (first or "").lower() in tables
            case apsw.SQLITE_FUNCTION:
                allowed = (second or "").lower() not in REFUSED_FUNCTIONS
            case _:
                allowed = False
        return int(apsw.SQLITE_OK if allowed else apsw.SQLITE_DENY)

    return authorize


def without_addresses(cursor: apsw.Cursor) -> Iterator[tuple[SqlValue, ...]]:
    """Yield the rows of EXPLAIN (not of EXPLAIN QUERY PLAN) without addresses of the process, which help an attacker.

    SQLite shows the address of a virtual table (``vtab:55D1C0FFEE08``), and for VCheck the bytes of a structure that
    begins with one, as if they were text: of a VCheck, only the first two columns have values.
    """
    address = 0
    while True:
        try:
            row = next(cursor)
        except StopIteration:
            return
        except UnicodeDecodeError:  # the bytes of a VCheck are no text, as a rule: nothing of the row can be read
            row = (address, "VCheck")
        address = int(row[0] or 0) + 1
        if row[_OPCODE] == "VCheck":
            yield (*row[:2], None, None, None, None, None, None)
        else:
            yield (*row[:_P4], _masked(row[_OPCODE], row[_P4]), *row[_P4 + 1 :])


def _masked(opcode: SqlValue, p4: SqlValue) -> SqlValue:
    if isinstance(p4, str) and str(opcode).startswith("V") and opcode not in _TEXTS and _ADDRESS.match(p4):
        return "vtab"
    return p4
