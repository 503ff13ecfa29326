"""``pipemagic db create --from-...``, ``db export``, ``db dump``: whole databases in and out."""

from __future__ import annotations

import argparse
import codecs
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pipemagic.cli.base import Commands, folder, say
from pipemagic.cli.files import new_file
from pipemagic.cli.platform import management
from pipemagic.errors import ServerError, SessionError, UnsupportedError
from pipemagic.session import uploads

if TYPE_CHECKING:
    from pipemagic.client.database import Database
    from pipemagic.client.management import Management

PIECE = 256 * 1024
MAGIC = b"SQLite format 3\0"


def add_commands(db: Commands) -> None:
    """Declare the commands that take databases out."""
    export = db.add("export", _export, "write a database to a SQLite file", organization=True)
    export.add_argument("name", metavar="NAME")
    export.add_argument("file", type=folder, metavar="FILE")
    dump = db.add("dump", _dump, "print a database as SQL text, or write it to a file", organization=True)
    dump.add_argument("name", metavar="NAME")
    dump.add_argument("file", nargs="?", type=folder, metavar="FILE")
    for parser in (export, dump):
        parser.add_argument("-f", "--force", "--overwrite", action="store_true", help="overwrite an existing file")


def add_source_options(create: argparse.ArgumentParser) -> None:
    """Declare what a new database may begin with."""
    source = create.add_mutually_exclusive_group()
    source.add_argument("--from-file", type=folder, metavar="FILE", help="begin with a SQLite file, also one in use")
    source.add_argument("--from-dump", metavar="FILE", help="begin with SQL text; - for standard input")
    source.add_argument("--from-db", metavar="NAME", help="begin with a copy of another database")


# -- out


@contextmanager
def opened(api: Management, name: str) -> Iterator[Database]:
    """Give a database of the organization, with a token that may read."""
    from pipemagic.client.database import Database

    info = api.database(name)
    with Database(info.url, api.create_token(name, expiration="1d", read_only=True)) as database:
        yield database


def _export(options: argparse.Namespace) -> None:
    target = new_file(options.file, force=options.force)
    with target as draft, management(options) as api, opened(api, options.name) as database:
        _save(database, draft)
    say(str(options.file))


def _save(database: Database, draft: Path) -> None:
    """Write the file; where the server has none, make it of the SQL text."""
    from pipemagic.client import transfer
    from pipemagic.service.transfer import files

    try:
        with transfer.exported(database) as pieces:
            _write(draft, pieces)
    except UnsupportedError:
        with transfer.dumped(database) as pieces:
            files.restore(decoded(pieces), draft, "the server's SQL text")


def _dump(options: argparse.Namespace) -> None:
    from pipemagic.client import transfer

    with management(options) as api, opened(api, options.name) as database:
        if options.file is None:
            with transfer.dumped(database) as pieces:
                for piece in pieces:
                    sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
            return
        with new_file(options.file, force=options.force) as draft, transfer.dumped(database) as pieces:
            _write(draft, pieces)
    say(str(options.file))


def _write(path: Path, pieces: Iterable[bytes]) -> None:
    with path.open("xb") as file:
        for piece in pieces:
            file.write(piece)


# -- in


@contextmanager
def source_file(options: argparse.Namespace) -> Iterator[Path | None]:
    """Give the file to send, made of what the options name; None if there is nothing to send."""
    if options.from_file is None and options.from_dump is None:
        yield None
        return
    if options.from_file is not None:
        with uploads.prepared(options.from_file) as file:
            yield file
        return
    from pipemagic.service.transfer import files

    with tempfile.TemporaryDirectory(prefix="pipemagic-", ignore_cleanup_errors=True) as scratch:
        restored = Path(scratch) / "restored.sqlite"
        with _text(options.from_dump) as text:
            files.restore(text, restored, "standard input" if options.from_dump == "-" else options.from_dump)
        with uploads.prepared(restored) as file:
            restored.unlink()
            yield file


def explain_seed(error: ServerError, options: argparse.Namespace) -> None:
    """Say how to fill the new database, if it was the service that takes no files."""
    if options.from_file is not None:
        uploads.explain(error, options.name, options.group, str(options.from_file))
    elif '"seed"' in error.message:
        text = f"pipemagic db dump {options.from_db} COPY.sql, then " if options.from_db is not None else ""
        file = options.from_dump if options.from_dump not in (None, "-") else "COPY.sql"
        error.hint = (
            f"{text}pipemagic db create {options.name} --group {options.group}, then "
            f"pipemagic db shell {options.name} < {file}"
        )


@contextmanager
def _text(name: str) -> Iterator[Iterator[str]]:
    """Give the text of a file, or of standard input, in pieces."""
    if name == "-":
        yield decoded(iter(lambda: sys.stdin.buffer.read(PIECE), b""))
        return
    try:
        with folder(name).open("rb") as file:
            if file.read(len(MAGIC)) == MAGIC:
                raise SessionError(f"{name} is a SQLite file, not SQL text", hint="use --from-file")
            file.seek(0)
            yield decoded(iter(lambda: file.read(PIECE), b""))
    except OSError as error:
        raise SessionError(f"{name} cannot be read: {error.strerror}") from None


def decoded(pieces: Iterable[bytes]) -> Iterator[str]:
    """Read UTF-8 that comes in pieces; SessionError where it is none."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    try:
        for piece in pieces:
            yield decoder.decode(piece)
        yield decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise SessionError(f"the SQL text is not UTF-8: {error.reason}", hint="convert it first, with iconv") from None
