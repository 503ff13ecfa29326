"""Transfer whole databases over HTTP in chunks: export a file or SQL text, upload a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from pipemagic.client.database import Database
from pipemagic.errors import NotFound, UnsupportedError

_PIECE = 256 * 1024


@contextmanager
def exported(database: Database) -> Iterator[Iterator[bytes]]:
    """Yield the current database as a SQLite file; raise UnsupportedError if the server has no such export.

    A server that has only older files counts as one without: its SQL text is newer.
    """
    response = database.transport.get("/info")
    about = msgspec.json.decode(response.body) if response.ok and "json" in response.content_type else None
    if not isinstance(about, dict) or about.get("snapshot") is not True:
        if response.status in (401, 403):
            raise database.transport.refusal(response)
        raise UnsupportedError(f"the server at {database.url} does not export databases as files")
    with database.transport.streamed("GET", f"/export/{about.get('current_generation', 1)}") as pieces:
        yield pieces


@contextmanager
def dumped(database: Database) -> Iterator[Iterator[bytes]]:
    """Yield the current database as SQL text (UTF-8); raise UnsupportedError if the server has no such export."""
    try:
        with database.transport.streamed("GET", "/dump") as pieces:
            yield pieces
    except NotFound as error:
        if "response has no text" not in error.message:
            raise
        raise UnsupportedError(f"the server at {database.url} does not export databases as SQL text") from None


def upload(database: Database, file: Path) -> None:
    """Upload a SQLite file to a database that was created for it (``seed`` of the type ``database_upload``)."""
    database.check_writable("upload")
    with file.open("rb") as source:
        pieces = iter(lambda: source.read(_PIECE), b"")
        with database.transport.streamed("POST", "/v1/upload", pieces, size=file.stat().st_size) as response:
            for _ in response:
                pass
