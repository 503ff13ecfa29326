"""The dialect of SQLAlchemy for ``sqlite+pipemagic://HOST``, on `pipemagic.dbapi`.

The token is in PIPEMAGIC_TOKEN or where an option of the URL says, as for ``%pipedb connect``. The engine of
``sqlite+pipemagic://`` alone works on the current connection of the notebook.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType
from typing import TYPE_CHECKING, Any

from sqlalchemy.dialects.sqlite.base import SQLiteDialect, SQLiteExecutionContext
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import NullPool, QueuePool
from sqlalchemy.util import asbool

from pipemagic.client.address import parse_address
from pipemagic.errors import ConnectError, TransactionLost, UnknownOutcome
from pipemagic.session.tokens import Environment, KeySource, TokenSource, keyring_entry

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import IsolationLevel

_OPTIONS: dict[str, Callable[[Any], Any]] = {
    "tls": asbool, "timeout": float, "read_only": asbool, "token_env": str, "token_file": str, "keyring": str,
    "encryption_key_env": str, "encryption_key_keyring": str, "follow": str,
}  # fmt: skip
"""The options of a URL; ``timeout`` is in seconds, ``keyring`` a service in the keyring."""

_LEVELS: dict[IsolationLevel, str | None] = {"SERIALIZABLE": "", "READ UNCOMMITTED": "DEFERRED", "AUTOCOMMIT": None}
"""The isolation levels, and what each is as the ``isolation_level`` of the connection.

SQLite reads uncommitted rows only from a cache that connections share, which no server has: the first two are the same.
"""


class _ExecutionContext(SQLiteExecutionContext):
    def create_server_side_cursor(self) -> Any:
        """Return a cursor that receives rows while they are fetched, for ``stream_results``."""
        return self._dbapi_connection.cursor(stream=True)


class PipemagicDialect(SQLiteDialect):
    """SQLite over HTTP.

    A transaction begins before the first statement that may write: reading leaves none open, which the server would
    end after its limit. It also contains the definitions of tables and savepoints, unlike that of pysqlite.
    """

    driver = "pipemagic"
    default_paramstyle = "qmark"
    returns_native_bytes = True
    supports_statement_cache = True
    supports_server_side_cursors = True
    execution_ctx_cls = _ExecutionContext

    def __init__(self, dbapi: ModuleType | None = None, **options: Any) -> None:
        super().__init__(**options)  # without the module: the version of SQLite is that of the server
        self.dbapi = dbapi

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        """Return the module of PEP 249."""
        from pipemagic import dbapi

        return dbapi

    @classmethod
    def get_pool_class(cls, url: URL) -> type[NullPool | QueuePool]:
        """Return a pool that keeps no connection if cells decide which one is current."""
        return QueuePool if url.host else NullPool

    def create_connect_args(self, url: URL) -> tuple[list[str], dict[str, Any]]:
        """Return the arguments of `connect` for a URL; none for one without a host."""
        if unknown := sorted(url.query.keys() - _OPTIONS):
            raise ArgumentError(f"unknown option {unknown[0]} in the URL\nHint: the options are {', '.join(_OPTIONS)}")
        if url.username:
            hint = "set PIPEMAGIC_TOKEN, or write URL.create(..., password=token)"
            raise ArgumentError(f"the URL has a user name, and a database has only a token\nHint: {hint}")
        if not url.host:
            if url.query or url.database or url.port or url.password:
                raise ArgumentError("the URL has no host\nHint: write sqlite+pipemagic://HOST:PORT")
            return [], {}
        options: dict[str, Any] = {"token": url.password}
        for name, text in url.query.items():
            try:
                options[name] = _OPTIONS[name](str(text))  # a tuple if the option is there twice
            except ValueError:
                raise ArgumentError(f"the option {name} of the URL has the value {text!r}") from None
        query = {"tls": f"{options.pop('tls'):d}"} if "tls" in options else {}
        address = URL.create("libsql", host=url.host, port=url.port, database=url.database, query=query)
        return [str(address)], options

    def connect(self, *address: str, **options: Any) -> Any:
        """Connect to an address with its token; without one, return a connection on that of the notebook."""
        if not address:
            from pipemagic.dbapi.notebook import current

            return current().dbapi(**options)
        source = TokenSource(*(options.pop(name, None) for name in ("token_env", "token_file", "keyring")))
        key = KeySource(options.pop("encryption_key_env", None), options.pop("encryption_key_keyring", None))
        environment, endpoint = Environment(os.environ), parse_address(*address)
        if options.get("token") is None:
            options["token"] = environment.database_token(source, keyring_entry(endpoint))
        options.setdefault("encryption_key", environment.encryption_key(key, endpoint))
        return self.loaded_dbapi.connect(*address, **options)

    def _get_server_version_info(self, connection: Any) -> tuple[int, ...]:
        return tuple(map(int, connection.exec_driver_sql("SELECT sqlite_version()").scalar().split(".")))

    def get_isolation_level_values(self, dbapi_connection: Any) -> list[IsolationLevel]:  # noqa: ARG002
        """Return the levels of `_LEVELS`."""
        return list(_LEVELS)

    def get_isolation_level(self, dbapi_connection: Any) -> IsolationLevel:
        """Return the level of a connection."""
        return next(level for level, mode in _LEVELS.items() if mode == dbapi_connection.isolation_level)

    def set_isolation_level(self, dbapi_connection: Any, level: IsolationLevel) -> None:
        """Set the level of a connection; in AUTOCOMMIT, its `begin` does nothing."""
        dbapi_connection.isolation_level = _LEVELS[level]

    def detect_autocommit_setting(self, dbapi_connection: Any) -> bool:
        """Return True for AUTOCOMMIT."""
        return dbapi_connection.isolation_level is None

    def do_begin(self, dbapi_connection: Any) -> None:
        """Begin a unit of work: a transaction, or a savepoint on the connection of the notebook."""
        dbapi_connection.begin()

    def do_executemany(self, cursor: Any, statement: Any, parameters: Any, context: Any = None) -> None:  # noqa: ARG002
        """Run a statement with all parameters, or none if one fails: pandas commits what an engine has written."""
        connection = cursor.connection
        if self.detect_autocommit_setting(connection):
            cursor.executemany(statement, parameters)
            return
        connection.execute("SAVEPOINT pipemagic_many")
        try:
            cursor.executemany(statement, parameters)
        except BaseException:
            with suppress(connection.Error):  # the transaction may be lost
                connection.execute("ROLLBACK TO pipemagic_many")
            raise
        connection.execute("RELEASE pipemagic_many")

    def is_disconnect(self, e: Any, connection: Any, cursor: Any) -> bool:  # noqa: ARG002
        """Return True if the way to the server was lost, or a commit found a lost transaction: no rollback follows."""
        lost = ConnectError | UnknownOutcome if cursor else ConnectError | UnknownOutcome | TransactionLost
        return isinstance(e.__cause__, lost)
