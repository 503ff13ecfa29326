"""PEP 249 for databases over HTTP: what pandas, Polars, SQLAlchemy and others use.

    import pipemagic.dbapi

    connection = pipemagic.dbapi.connect("libsql://...", token="...")
    connection.execute("SELECT ?", [1]).fetchall()

``pipemagic.current().dbapi()`` is the same for the notebook's connection. Parameters are ``:name``, or ``?``.
"""

from __future__ import annotations

from contextlib import ExitStack

from pipemagic.client.database import Database
from pipemagic.client.secrets import EncryptionKey
from pipemagic.dbapi.connection import Connection
from pipemagic.dbapi.cursor import Cursor
from pipemagic.dbapi.errors import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,  # noqa: A004 - the name in PEP 249
    converting,
)
from pipemagic.dbapi.links import StreamLink
from pipemagic.dbapi.runner import LEGACY_TRANSACTION_CONTROL, IsolationLevel
from pipemagic.dbapi.types import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    Date,
    DateFromTicks,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
)
from pipemagic.http import READ_TIMEOUT

__all__ = [
    "BINARY", "DATETIME", "LEGACY_TRANSACTION_CONTROL", "NUMBER", "ROWID", "STRING", "Binary", "Connection", "Cursor",
    "DataError", "DatabaseError", "Date", "DateFromTicks", "Error", "IntegrityError", "InterfaceError",
    "InternalError", "NotSupportedError", "OperationalError", "ProgrammingError", "Time", "TimeFromTicks",
    "Timestamp", "TimestampFromTicks", "Warning", "apilevel", "connect", "paramstyle", "threadsafety",
]  # fmt: skip

apilevel = "2.0"

threadsafety = 1
"""Threads may share the module, not connections."""

paramstyle = "named"
"""``:name`` with a mapping; ``?`` with a sequence is accepted, too."""


def connect(
    url: str,
    token: str | None = None,
    *,
    autocommit: bool | int = LEGACY_TRANSACTION_CONTROL,
    isolation_level: IsolationLevel = "",
    timeout: float | None = READ_TIMEOUT,
    read_only: bool = False,
    encryption_key: str | EncryptionKey | None = None,
    follow: str | None = None,
) -> Connection:
    """Connect to the database at ``url`` (``libsql://``, ``https://``, ``http://``) with its ``token``.

    ``autocommit`` and ``isolation_level`` are those of `sqlite3.connect`; see `Connection`. ``timeout`` is the seconds
    to wait for the next part of a response. With ``read_only`` statements that may write are refused.
    ``encryption_key`` and ``follow`` are those of `pipemagic.connect`. Raise
    OperationalError if the server cannot be reached, or refuses the token.
    """
    with converting(), ExitStack() as on_error:
        database = on_error.enter_context(
            Database(url, token, timeout=timeout, read_only=read_only, encryption_key=encryption_key, follow=follow)
        )
        connection = Connection(StreamLink(database), autocommit=autocommit, isolation_level=isolation_level)
        on_error.pop_all()
    return connection
