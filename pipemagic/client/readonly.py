"""Refuse statements that may write on a read-only connection, by their text and before anything is sent.

Servers cannot enforce it: sqld has no ``PRAGMA query_only``, and a server may support only ``execute``.
So a statement is sent only if it is known to read. Settings count as writes, as for read-only tokens, and so do
transactions that block writers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pipemagic.errors import ReadOnlyError
from pipemagic.hrana import messages
from pipemagic.hrana.messages import Execute, Request, RunBatch, StoreSql
from pipemagic.sql import ParsedStatement, normalize, split
from pipemagic.sql.statement import READ_PRAGMAS

_WRITING = frozenset({
    "INSERT", "REPLACE", "UPDATE", "DELETE", "CREATE", "DROP", "ALTER", "REINDEX", "ANALYZE", "VACUUM",
})  # fmt: skip

_READ_PRAGMAS = READ_PRAGMAS | {"database_list"}
_TAKES_NO_VALUE = frozenset({
    "analysis_limit", "encoding", "locking_mode", "mmap_size", "page_size", "schema_version", "threads",
    "wal_autocheckpoint",
})  # fmt: skip
"""Those of them that change a setting if a value follows."""

_ACTING = frozenset({
    "OPTIMIZE", "LOAD_EXTENSION", "FTS3_TOKENIZER", "WRITEFILE", "EDIT", "EVAL", "DEFINE", "UNDEFINE", "FILEIO_APPEND",
    "FILEIO_MKDIR", "FILEIO_SYMLINK", "FILEIO_WRITE",
})  # fmt: skip
"""Functions with which a SELECT may write."""

_BEFORE_TABLES = frozenset({"FROM", "JOIN", ",", ".", "("})
"""Keywords before a table name, which SQLite also accepts in single quotes."""

HINT = "a connection without --read-only may write"

_IN_PROGRAMS = "a connection without read_only may write"


class Write(NamedTuple):
    """The part of a text that writes or may write, such as "DELETE writes", and a hint."""

    what: str
    hint: str = HINT


def refuse_writes(requests: Sequence[Request]) -> None:
    """Raise ReadOnlyError if one of the requests has a statement that is not known to read."""
    for text in _texts(requests):
        if write := find_write(text):
            hint = _IN_PROGRAMS if write.hint == HINT else write.hint
            raise ReadOnlyError(f"{write.what}, and this connection is read-only; nothing was sent", hint=hint)


def may_write(requests: Sequence[Request]) -> bool:
    """Return True if one of the requests has a statement that is not known to read."""
    return any(find_write(text) is not None for text in _texts(requests))


def _texts(requests: Sequence[Request]) -> Iterator[str]:
    for request in requests:
        if isinstance(request, Execute):
            yield request.stmt.sql or ""
        elif isinstance(request, RunBatch):
            yield from (step.stmt.sql or "" for step in request.batch.steps)
        elif isinstance(request, messages.Sequence | StoreSql):
            yield request.sql or ""


def find_write(text: str) -> Write | None:
    """Return the first statement of a text that is not known to read, None if all are."""
    for statement in split(text):
        if statement.begin_mode in ("IMMEDIATE", "EXCLUSIVE"):
            return Write(f"BEGIN {statement.begin_mode} blocks other writers", "use BEGIN, which blocks no writers")
        if what := _writing(statement):
            return Write(f"{what} {'writes' if what in _WRITING else 'may write'}")
    return None


def _writing(statement: ParsedStatement) -> str:
    name, sign = statement.pragma
    if name:  # also of an EXPLAIN: some of these take effect anyway
        sets = sign == "=" or (name in _TAKES_NO_VALUE and sign)
        return f"PRAGMA {name}" if name not in _READ_PRAGMAS or sets else ""
    if statement.keyword == "EXPLAIN" or statement.controls_transaction:
        return ""
    if not statement.is_query:
        first = next((token.text for token in statement.outer_tokens), statement.text)
        return statement.verb or f"a statement that begins with {first[:20]!r}"
    return _acting(statement)


def _acting(statement: ParsedStatement) -> str:
    """Return the function in a query that may write, '' if there is none."""
    words = statement.tokens
    before = ""
    for token, after in zip(words, (*words[1:], words[-1]), strict=True):
        is_name = token.kind in ("word", "quoted") or (token.kind == "string" and before in _BEFORE_TABLES)
        before = token.text.upper()
        if not is_name:
            continue
        name = normalize(token.text)
        if name.startswith("pragma_") and name.removeprefix("pragma_") not in _READ_PRAGMAS:
            return name
        if name.upper() in _ACTING and after.text == "(":
            return f"{name}()"
    return ""
