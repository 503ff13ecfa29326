"""SQL text of a whole database, as `.dump` and `pipemagic db dump` write it: a SQLite file made of it, and hints."""

from __future__ import annotations

import codecs
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pipemagic.errors import SessionError
from pipemagic.sql import ParsedStatement

if TYPE_CHECKING:
    from pipemagic.session.cell import Cell

_MAGIC = b"SQLite format 3\0"
_CHUNK = 256 * 1024
_MANY = 100
"""INSERT statements between BEGIN and COMMIT of a script that was not typed."""
_DATABASE = re.compile(r"[a-z][a-z0-9-]{0,40}\Z")


def decode(chunks: Iterable[bytes]) -> Iterator[str]:
    """Decode UTF-8, with or without a byte order mark; raise `SessionError` for other bytes."""
    try:
        yield from codecs.iterdecode(chunks, "utf-8-sig")
    except UnicodeDecodeError as error:
        raise SessionError(f"the SQL text is not UTF-8: {error.reason}", hint="convert it with iconv") from None


@contextmanager
def restored_dump(name: str, chunks: Iterable[bytes] | None = None) -> Iterator[Path]:
    """Yield the SQLite file made of the SQL text of a file; it is removed at the end.

    With ``chunks`` the text consists of them, and ``name`` is for messages. Raise SessionError for a file that cannot
    be read, and TransferError for a statement that fails.
    """
    # A session that restores nothing does not load the SQLite library.
    from pipemagic.service.transfer.dump import restore

    with tempfile.TemporaryDirectory(prefix="pipemagic-", ignore_cleanup_errors=True) as scratch:
        path = Path(scratch) / "restored.sqlite"
        try:
            restore(decode(_read(name) if chunks is None else chunks), path, name)
        except OSError as error:
            raise SessionError(f"{name} cannot be read: {error.strerror}") from None
        yield path


def _read(name: str) -> Iterator[bytes]:
    with Path(os.path.expanduser(name)).open("rb") as file:
        first = file.read(_CHUNK)
        if first.startswith(_MAGIC):
            raise SessionError(f"{name} is a SQLite file, not SQL text", hint="use --from-file")
        yield first
        while chunk := file.read(_CHUNK):
            yield chunk


# -- a cell that contains a dump


def restoring_line(cell: Cell) -> str:
    """Return the line that makes a new database of the script in a cell; '' if the script is not a dump."""
    if not _is_dump(cell):
        return ""
    file = cell.source if _is_file(cell) else ""
    name = Path(file).stem.lower() if file else ""
    database = name if _DATABASE.match(name) else "NAME"
    quoted = f'"{file}"' if " " in file else file
    return f"%pipedb create-database {database} --from-dump {quoted or 'FILE'}"


def restoring_hint(cell: Cell) -> str:
    """Return how to restore the dump in a cell, which does not fit into one transaction; '' for other scripts."""
    line = restoring_line(cell)
    if not line:
        return ""
    where = "" if _is_file(cell) else " in a file"
    return f"A transaction has a time limit. This line creates a database from a script of any length{where}:\n{line}"


def _is_dump(cell: Cell) -> bool:
    """Return True for a script that creates tables and fills them, and begins like a dump or is as long as one."""
    statements = cell.statements
    inserts = sum(statement.keyword == "INSERT" for statement in statements)
    if not inserts or not any(statement.keyword == "CREATE" for statement in statements):
        return False
    return (
        _begins_without_foreign_keys(cell)
        or _is_file(cell)
        or (inserts >= _MANY and any(statement.begin_mode for statement in statements))
    )


def is_without_foreign_keys(cell: Cell) -> bool:
    """Return True for a script that switches foreign keys off for its transaction, as dumps do."""
    return _begins_without_foreign_keys(cell) and any(statement.commits for statement in cell.statements)


def _begins_without_foreign_keys(cell: Cell) -> bool:
    return turns_foreign_keys_off(cell.statements[0])


def turns_foreign_keys_off(statement: ParsedStatement) -> bool:
    """Return True for ``PRAGMA foreign_keys = OFF``."""
    return statement.connection_setting == "foreign_keys" and not statement.switches_on


def _is_file(cell: Cell) -> bool:
    return bool(cell.source) and os.path.isfile(os.path.expanduser(cell.source))
