"""Whole databases over HTTP, in pieces: their file or their SQL text out, a file in."""

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
    """Give the database as a SQLite file, as it is at this moment; UnsupportedError where the server has none.

    A server that only has files of an earlier moment counts as one without: its SQL text is newer.
    """
    response = database.transport.get("/info")
    about = msgspec.json.decode(response.body) if response.ok and "json" in response.content_type else None
    if not isinstance(about, dict) or about.get("snapshot") is not True:
        if response.status in (401, 403):
            raise database.transport.refusal(response)
        raise UnsupportedError(f"the server at {database.url} does not give its databases as files")
    with database.transport.streamed("GET", f"/export/{about.get('current_generation', 1)}") as pieces:
        yield pieces


@contextmanager
def dumped(database: Database) -> Iterator[Iterator[bytes]]:
    """Give the database as SQL text (UTF-8), as it is at this moment; UnsupportedError where the server has none."""
    try:
        with database.transport.streamed("GET", "/dump") as pieces:
            yield pieces
    except NotFound as error:
        if "response has no text" not in error.message:
            raise
        raise UnsupportedError(f"the server at {database.url} does not give its databases as SQL text") from None


def upload(database: Database, file: Path) -> None:
    """Send a SQLite file to a database that was created for it (``seed`` of the type ``database_upload``)."""
    database.check_writable("upload")
    with file.open("rb") as source:
        pieces = iter(lambda: source.read(_PIECE), b"")
        with database.transport.streamed("POST", "/v1/upload", pieces, size=file.stat().st_size) as response:
            for _ in response:
                pass
