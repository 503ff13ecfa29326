"""Databases that begin with the content of a SQLite file."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pipemagic.errors import PipemagicError, ServerError
from pipemagic.management_api.client import Management
from pipemagic.management_api.models import DatabaseInfo


@contextmanager
def prepared(source: Path) -> Iterator[Path]:
    """Copy a SQLite file, which other programs may be using, into the form that services take.

    The copy is removed at the end. Raises TransferError for a file that is not a SQLite file.
    """
    # A session that sends no file does not load the SQLite library.
    from pipemagic.service.transfer.upload import prepare_upload

    with tempfile.TemporaryDirectory(prefix="pipemagic-", ignore_cleanup_errors=True) as scratch:
        copy = Path(scratch) / "upload.sqlite"
        prepare_upload(source, copy)
        yield copy


def create(
    api: Management,
    name: str,
    group: str,
    file: Path,
    *,
    size_limit: str | None = None,
    warn: Callable[[str], None] = lambda _: None,
) -> DatabaseInfo:
    """Create a database and send its file, as `prepared` returns it; if that fails there is no database.

    ``warn`` is called if the empty database could not be deleted.
    """
    from pipemagic.client import transfer
    from pipemagic.client.database import Database

    info = api.create_database(name, group, awaits_upload=True, size_limit=size_limit)
    try:
        url = info.url or api.database(name).url
        with Database(url, api.create_token(name, expiration="1d")) as database:
            transfer.upload(database, file)
    except BaseException:
        try:
            api.delete_database(name)
        except PipemagicError as error:
            warn(f"Warning: the database {name} is empty and could not be deleted: {error.message}")
        raise
    return info


def explain(error: ServerError, name: str, group: str, source: str) -> None:
    """Add the other way to fill the new database to the error of a service that takes no files."""
    if '"seed"' in error.message:
        error.hint = (
            f"sqlite3 {source} .dump > COPY.sql, then pipemagic db create {name} --group {group}, then "
            f"pipemagic db shell {name} < COPY.sql"
        )
