"""The tables of the catalog and how an older catalog becomes a newer one."""

from __future__ import annotations

from pathlib import Path

import apsw

from pipemagic.errors import ServiceError

_VERSION_1 = """
CREATE TABLE accounts (
  id TEXT PRIMARY KEY,
  username TEXT NOT NULL UNIQUE,
  created REAL NOT NULL
) STRICT;
CREATE TABLE platform_tokens (
  id TEXT PRIMARY KEY,
  account TEXT NOT NULL REFERENCES accounts ON DELETE CASCADE,
  name TEXT NOT NULL,
  hash BLOB NOT NULL UNIQUE,  -- SHA-256; the token itself is nowhere in the catalog
  created REAL NOT NULL,
  UNIQUE (account, name)
) STRICT;
CREATE TABLE organizations (
  slug TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  type TEXT NOT NULL CHECK (type IN ('personal', 'team')),
  account TEXT NOT NULL REFERENCES accounts,
  overages INTEGER NOT NULL DEFAULT 0,
  created REAL NOT NULL
) STRICT;
CREATE TABLE "groups" (
  id TEXT PRIMARY KEY,
  organization TEXT NOT NULL REFERENCES organizations,
  name TEXT NOT NULL,
  created REAL NOT NULL,
  UNIQUE (organization, name)
) STRICT;
CREATE TABLE group_locations (
  group_id TEXT NOT NULL REFERENCES "groups" ON DELETE CASCADE,
  position INTEGER NOT NULL,  -- 0 is the primary location
  code TEXT NOT NULL,
  PRIMARY KEY (group_id, position),
  UNIQUE (group_id, code)
) STRICT, WITHOUT ROWID;
CREATE TABLE databases (
  id TEXT PRIMARY KEY,
  organization TEXT NOT NULL REFERENCES organizations,
  group_id TEXT NOT NULL REFERENCES "groups",
  name TEXT NOT NULL,
  created REAL NOT NULL,
  reserved_index INTEGER NOT NULL DEFAULT 0,
  UNIQUE (organization, name)
) STRICT;
CREATE INDEX databases_by_group ON databases (group_id);
CREATE TABLE hosts (
  label TEXT PRIMARY KEY,  -- all host names below the domain, of every organization
  database TEXT NOT NULL REFERENCES databases ON DELETE CASCADE
) STRICT;
CREATE INDEX hosts_by_database ON hosts (database);
CREATE TABLE deleted_databases (
  id TEXT PRIMARY KEY,  -- its files may still be there
  deleted REAL NOT NULL
) STRICT;
"""

MIGRATIONS: tuple[str, ...] = (_VERSION_1,)
"""Script n takes a catalog of schema version n to n + 1. Published scripts never change; new ones are added."""


def open_catalog(path: Path) -> apsw.Connection:
    """Open the catalog, making it if there is none; what it acknowledges survives any crash.

    Raises `ServiceError` for a catalog of a newer pipemagic, and for a file that is none.
    """
    connection = apsw.Connection(str(path))
    try:
        connection.set_busy_timeout(2000)
        connection.pragma("journal_mode", "wal")
        connection.pragma("synchronous", "full")
        connection.pragma("foreign_keys", True)
        _migrate(connection)
    except (apsw.NotADBError, apsw.CorruptError) as error:
        connection.close()
        raise ServiceError(
            f"{path} is damaged: {error}", hint="put a copy of it back, or use another data folder", code="BAD_CATALOG"
        ) from None
    except ServiceError:
        connection.close()
        raise
    return connection


def _migrate(connection: apsw.Connection) -> None:
    """Bring the catalog to the newest schema; each step is applied whole or not at all."""
    version = int(connection.pragma("user_version"))
    if version > len(MIGRATIONS):
        raise ServiceError(
            f"the catalog has schema version {version}, this pipemagic knows versions up to {len(MIGRATIONS)}",
            hint="upgrade pipemagic, or use another data folder (PIPEMAGIC_DATA or --data)",
            code="CATALOG_TOO_NEW",
        )
    for number, script in enumerate(MIGRATIONS[version:], start=version + 1):
        with connection:
            connection.execute(script)
            connection.pragma("user_version", number)
