"""Whole databases out and in, for ``pipemagic db export``, ``db dump`` and ``db create``."""

from __future__ import annotations

import codecs
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pipemagic.cli.console import absolute_path
from pipemagic.client import transfer
from pipemagic.client.database import Database
from pipemagic.client.management import Management
from pipemagic.errors import SessionError, UnsupportedError

CHUNK = 256 * 1024
MAGIC = b"SQLite format 3\0"


# -- out


@contextmanager
def open_database(api: Management, name: str, expiration: str = "1d", *, read_only: bool = False) -> Iterator[Database]:
    """Open a database of the organization with a new token."""
    info = api.database(name)
    with Database(info.url, api.create_token(name, expiration=expiration, read_only=read_only)) as database:
        yield database


def save(database: Database, path: Path) -> None:
    """Write a database to a file; a server without files sends SQL text, from which the file is created."""
    from pipemagic.service.transfer import dump

    try:
        with transfer.exported(database) as chunks:
            write_file(path, chunks)
    except UnsupportedError:
        with transfer.dumped(database) as chunks:
            dump.restore(decode(chunks), path, "the server's SQL text")


def print_dump(database: Database) -> None:
    """Write a database as SQL text to standard output."""
    with transfer.dumped(database) as chunks:
        sys.stdout.buffer.writelines(chunks)
    sys.stdout.buffer.flush()


def write_file(path: Path, chunks: Iterable[bytes]) -> None:
    """Write a new file."""
    with path.open("xb") as file:
        file.writelines(chunks)


# -- in


@contextmanager
def source_file(from_file: Path | None, from_dump: str | None) -> Iterator[Path | None]:
    """Yield the SQLite file to send, prepared from --from-file or --from-dump; None without these options."""
    from pipemagic.session import uploads

    with ExitStack() as stack:
        if from_dump is not None:
            scratch = tempfile.TemporaryDirectory(prefix="pipemagic-", ignore_cleanup_errors=True)
            from_file = Path(stack.enter_context(scratch)) / "restored.sqlite"
            restore(from_dump, from_file)
        yield None if from_file is None else stack.enter_context(uploads.prepared(from_file))


def restore(name: str, path: Path) -> None:
    """Create a SQLite file from the SQL text of a file, or of standard input if the name is ``-``."""
    from pipemagic.service.transfer import dump

    if name == "-":
        dump.restore(decode(iter(lambda: sys.stdin.buffer.read(CHUNK), b"")), path, "standard input")
        return
    try:
        with absolute_path(name).open("rb") as file:
            if file.read(len(MAGIC)) == MAGIC:
                raise SessionError(f"{name} is a SQLite file, not SQL text", hint="use --from-file")
            file.seek(0)
            dump.restore(decode(iter(lambda: file.read(CHUNK), b"")), path, name)
    except OSError as error:
        raise SessionError(f"{name} cannot be read: {error.strerror}") from None


def decode(chunks: Iterable[bytes]) -> Iterator[str]:
    """Decode UTF-8, with or without a byte order mark; raise `SessionError` for other bytes."""
    try:
        yield from codecs.iterdecode(chunks, "utf-8-sig")
    except UnicodeDecodeError as error:
        raise SessionError(f"the SQL text is not UTF-8: {error.reason}", hint="convert it with iconv") from None


def seed_hint(name: str, group: str, from_file: Path | None, from_dump: str | None, from_db: str | None) -> str:
    """Return the commands that fill a database of a service that accepts no files."""
    first, text = "", from_dump if from_dump not in (None, "-") else "COPY.sql"
    if from_file is not None:
        first = f"sqlite3 {from_file} .dump > COPY.sql, then "
    elif from_db is not None:
        first = f"pipemagic db dump {from_db} COPY.sql, then "
    return f"{first}pipemagic db create {name} --group {group}, then pipemagic db shell {name} < {text}"
