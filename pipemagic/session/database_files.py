"""Files with a whole database: SQL text, as `.dump` and `pipemagic db dump` write it, and SQLite files to upload."""

from __future__ import annotations

import codecs
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pipemagic.client.database import Database
from pipemagic.errors import (
    PipemagicError,
    SessionError,
    UnsupportedError,
)
from pipemagic.management_api.models import DatabaseInfo
from pipemagic.sql import ParsedStatement

if TYPE_CHECKING:
    from pipemagic.client.secrets import EncryptionKey
    from pipemagic.management_api.client import Management
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
    from pipemagic.service.transfer.restore import restore

    with tempfile.TemporaryDirectory(prefix="pipemagic-", ignore_cleanup_errors=True) as scratch:
        path = Path(scratch) / "restored.sqlite"
        try:
            restore(decode(_read(name) if chunks is None else chunks), path, name)
        except OSError as error:
            raise SessionError(f"cannot read {name}: {error.strerror}") from None
        yield path


def save(database: Database, path: Path) -> None:
    """Write a database to a new SQLite file; a server without files sends SQL text, from which the file is created."""
    from pipemagic.client import transfer

    try:
        with transfer.exported(database) as chunks:
            write_file(path, chunks)
    except UnsupportedError:
        from pipemagic.service.transfer.restore import restore

        with transfer.dumped(database) as chunks:
            restore(decode(chunks), path, "the server's SQL text")


def save_dump(database: Database, path: Path) -> None:
    """Write a database to a new file as SQL text (UTF-8)."""
    from pipemagic.client import transfer

    with transfer.dumped(database) as chunks:
        write_file(path, chunks)


def write_file(path: Path, chunks: Iterable[bytes]) -> None:
    """Write a new file."""
    with path.open("xb") as file:
        file.writelines(chunks)


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


# -- SQLite files to upload


@contextmanager
def prepared_upload(source: Path) -> Iterator[Path]:
    """Yield a copy of a SQLite file, which other programs may be using, in the form that services accept.

    The copy is removed at the end. Raise TransferError if it is not a SQLite file.
    """
    # A session that sends no file does not load the SQLite library.
    from pipemagic.service.transfer.upload import prepare_upload

    with tempfile.TemporaryDirectory(prefix="pipemagic-", ignore_cleanup_errors=True) as scratch:
        copy = Path(scratch) / "upload.sqlite"
        prepare_upload(source, copy)
        yield copy


@contextmanager
def content_to_upload(file: Path | None, dump: str | None) -> Iterator[Path]:
    """Yield the copy of a SQLite file to upload, which may be made of the SQL text in the file ``dump``."""
    with ExitStack() as stack:
        source = stack.enter_context(restored_dump(dump)) if dump is not None else file
        yield stack.enter_context(prepared_upload(source or Path()))


def without_upload(
    name: str, group: str | None, file: Path | None = None, dump: str | None = None, copy_of: str | None = None
) -> str:
    """Return the commands that fill a database of a service that accepts no files."""
    first = ""
    if file is not None:
        first = f"sqlite3 {file} .dump > COPY.sql, then "
    elif copy_of is not None:
        first = f"pipemagic db dump {copy_of} COPY.sql, then "
    script = dump or "COPY.sql"
    option = f" --group {group}" if group else ""
    return f"{first}pipemagic db create {name}{option}, then pipemagic db shell {name} < {script}"


def create_from_file(
    api: Management,
    name: str,
    group: str,
    file: Path,
    *,
    size_limit: str | None = None,
    key: EncryptionKey | None = None,
    warn: Callable[[str], None] = lambda _: None,
) -> DatabaseInfo:
    """Create a database and upload a file from `prepared_upload`; delete the database if that fails.

    ``warn`` is called if it could not be deleted.
    """
    from pipemagic.client import transfer

    info = api.create_database(name, group, awaits_upload=True, size_limit=size_limit, encryption_key=key)
    try:
        endpoint = api.endpoint.refer(info.url or api.database(name).url)
        with Database(endpoint, api.create_token(name, expiration="1d"), encryption_key=key) as database:
            transfer.upload(database, file)
    except BaseException:
        try:
            api.delete_database(name)
        except PipemagicError as error:
            warn(f"Warning: the database {name} is empty and could not be deleted: {error.message}")
        raise
    return info
