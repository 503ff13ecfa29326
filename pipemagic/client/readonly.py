"""What a read-only connection does not send: told from the text, the same on every server, before anything is sent.

Servers cannot be relied on for it: sqld has no ``PRAGMA query_only``, and a server may know no more than ``execute``.
So a statement is sent only if it is known to read. Settings count as writes, as they do for read-only tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipemagic import sql
from pipemagic.client.heads import READING, TRANSACTION, head
from pipemagic.errors import ReadOnlyError
from pipemagic.hrana import messages
from pipemagic.hrana.messages import Execute, Request, RunBatch, StoreSql

_WRITING = frozenset({
    "INSERT", "REPLACE", "UPDATE", "DELETE", "CREATE", "DROP", "ALTER", "REINDEX", "ANALYZE", "VACUUM",
})  # fmt: skip

_CATALOGUE = frozenset({
    "analysis_limit", "collation_list", "compile_options", "data_version", "database_list", "encoding",
    "foreign_key_check",
    "foreign_key_list", "freelist_count", "function_list", "index_info", "index_list", "index_xinfo",
    "integrity_check", "locking_mode", "mmap_size", "module_list", "page_count", "page_size", "pragma_list",
    "quick_check", "schema_version", "stats", "table_info", "table_list", "table_xinfo", "threads",
    "wal_autocheckpoint",
})  # fmt: skip
"""Pragmas that only look something up."""

_TAKES_NO_VALUE = frozenset({
    "analysis_limit", "encoding", "locking_mode", "mmap_size", "page_size", "schema_version", "threads",
    "wal_autocheckpoint",
})  # fmt: skip
"""Those of them that set something if a value follows."""

_ACTING = frozenset({
    "OPTIMIZE", "LOAD_EXTENSION", "FTS3_TOKENIZER", "WRITEFILE", "EDIT", "EVAL", "DEFINE", "UNDEFINE", "FILEIO_APPEND",
    "FILEIO_MKDIR", "FILEIO_SYMLINK", "FILEIO_WRITE",
})  # fmt: skip
"""Functions with which a SELECT does more than read."""

HINT = "a connection without --read-only may write"


def refuse_writes(requests: Sequence[Request]) -> None:
    """ReadOnlyError if one of the requests holds a statement that is not known to read."""
    for text in _texts(requests):
        if what := writing(text):
            raise ReadOnlyError(f"{what}, and this connection is read-only; nothing was sent", hint=HINT)


def _texts(requests: Sequence[Request]) -> Iterator[str]:
    for request in requests:
        if isinstance(request, Execute):
            yield request.stmt.sql or ""
        elif isinstance(request, RunBatch):
            yield from (step.stmt.sql or "" for step in request.batch.steps)
        elif isinstance(request, messages.Sequence | StoreSql):
            yield request.sql or ""


def writing(text: str) -> str:
    """Say what in a text writes, or may, such as "DELETE writes"; '' if it only reads."""
    what = next(filter(None, (_writing(statement.text) for statement in sql.split(text))), "")
    return f"{what} {'writes' if what in _WRITING else 'may write'}" if what else ""


def _writing(text: str) -> str:
    statement = head(text)
    words = statement.words
    if statement.verb == "EXPLAIN":
        words = words[3:] if statement.word(1) == "QUERY" else words[1:]
        if not words or words[0].text.upper() != "PRAGMA":  # some of these take effect even so
            return ""
    if words and words[0].text.upper() == "PRAGMA":
        return _pragma([token.text for token in words[1:]])
    if statement.verb not in (*READING, *TRANSACTION):
        return statement.verb or "what begins with " + repr(words[0].text[:20] if words else text[:20])
    return _acting(text)


def _pragma(words: Sequence[str]) -> str:
    """Give the name of a pragma that is no question about the catalogue."""
    if words[1:2] == ["."]:
        words = words[2:]
    name = _bare(words[0]) if words else ""
    sets = words[1:2] == ["="] or (name in _TAKES_NO_VALUE and len(words) > 1)
    return f"PRAGMA {name}" if name not in _CATALOGUE or sets else ""


def _acting(text: str) -> str:
    """Give the name of a function in a query that does more than read."""
    words = [token for token in sql.tokens(text) if token.kind not in ("space", "comment")]
    for number, token in enumerate(words):
        if token.kind not in ("word", "quoted"):
            continue
        name = _bare(token.text)
        if name.startswith("pragma_") and name.removeprefix("pragma_") not in _CATALOGUE:
            return name
        if name.upper() in _ACTING and [word.text for word in words[number + 1 : number + 2]] == ["("]:
            return f"{name}()"
    return ""


def _bare(name: str) -> str:
    return name.strip("\"'`[]").lower()
