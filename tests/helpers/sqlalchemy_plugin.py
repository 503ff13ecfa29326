"""The suite for dialects that SQLAlchemy publishes, as a plugin of pytest; `published_suites` runs others.

A test runs it in a process of its own. The requirements are those that SQLAlchemy itself sets for pysqlite on a file.
They compare names of drivers, so the dialect of pipemagic has that of pysqlite here.
"""

from __future__ import annotations

from typing import Any

import requirements
from sqlalchemy import event
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite import provision
from sqlalchemy.testing import exclusions
from sqlalchemy.testing.plugin.pytestplugin import *  # noqa: F403
from sqlalchemy.testing.provision import is_preferred_driver

from pipemagic.dbapi.sqlalchemy import PipemagicDialect


class Dialect(PipemagicDialect):
    """The dialect under the name of the driver that the requirements know."""

    driver = "pysqlite"
    supports_statement_cache = True  # SQLAlchemy does not inherit it

    @classmethod
    def _is_url_file_db(cls, _url: Any) -> bool:
        return True


class Requirements(requirements.DefaultRequirements):  # type: ignore[misc]
    """Those of SQLAlchemy, without a second database: no server attaches files."""

    schemas = exclusions.closed()
    tuple_in = exclusions.open()  # SQLAlchemy compares the version of SQLite in the module, and here it is the server's


def _configure(_url: Any, engine: Any, _ident: Any) -> None:
    """Switch foreign keys off, as they are in a file: some tests have wrong ones. Attach no second database."""

    @event.listens_for(engine, "connect")
    def on_connect(connection: Any, _record: Any) -> None:
        connection.execute("PRAGMA foreign_keys = OFF")


registry.register("sqlite.pipemagic", __name__, "Dialect")
provision.post_configure_engine.for_db("sqlite")(_configure)
provision.generate_driver_url.for_db("sqlite")(lambda url, _driver, _query: url)
is_preferred_driver.for_db("sqlite")(lambda *_: True)
