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

_VERSION_2 = """
ALTER TABLE accounts ADD COLUMN operator INTEGER NOT NULL DEFAULT 0;  -- 1: the account of whoever runs the service
ALTER TABLE accounts ADD COLUMN password TEXT;  -- salted scrypt hash; NULL: nobody can log in
UPDATE accounts SET operator = 1 WHERE id = (SELECT id FROM accounts ORDER BY created, id LIMIT 1);
CREATE TABLE logins (
  hash BLOB PRIMARY KEY,  -- SHA-256 of the token
  account TEXT NOT NULL REFERENCES accounts ON DELETE CASCADE,
  expires REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX logins_by_account ON logins (account);
ALTER TABLE organizations ADD COLUMN id TEXT NOT NULL DEFAULT '';
UPDATE organizations SET id = printf('%s-%s-4%s-a%s-%s', lower(hex(randomblob(4))), lower(hex(randomblob(2))),
  substr(lower(hex(randomblob(2))), 2), substr(lower(hex(randomblob(2))), 2), lower(hex(randomblob(6))));
CREATE TABLE members (
  organization TEXT NOT NULL REFERENCES organizations ON DELETE CASCADE,
  account TEXT NOT NULL REFERENCES accounts ON DELETE CASCADE,
  role TEXT NOT NULL CHECK (role IN ('owner', 'admin', 'member', 'viewer')),
  added REAL NOT NULL,
  PRIMARY KEY (organization, account)
) STRICT, WITHOUT ROWID;
CREATE INDEX members_by_account ON members (account);
INSERT INTO members SELECT slug, account, 'owner', created FROM organizations;
CREATE TABLE rotations (number INTEGER NOT NULL) STRICT;  -- one row: how often any tokens were rotated
INSERT INTO rotations VALUES (0);
ALTER TABLE "groups" ADD COLUMN rotated INTEGER NOT NULL DEFAULT 0;  -- tokens of before this rotation are void
ALTER TABLE "groups" ADD COLUMN delete_protection INTEGER NOT NULL DEFAULT 0;
ALTER TABLE databases ADD COLUMN rotated INTEGER NOT NULL DEFAULT 0;
ALTER TABLE databases ADD COLUMN delete_protection INTEGER NOT NULL DEFAULT 0;
ALTER TABLE databases ADD COLUMN block_reads INTEGER NOT NULL DEFAULT 0;
ALTER TABLE databases ADD COLUMN block_writes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE databases ADD COLUMN size_limit INTEGER;  -- bytes; NULL: the service's own limit
CREATE TABLE quotas (
  organization TEXT PRIMARY KEY,  -- '' for the organizations that are not listed
  rows_read INTEGER NOT NULL,  -- in a calendar month (UTC); 0: no limit, here and below
  rows_written INTEGER NOT NULL,
  storage_bytes INTEGER NOT NULL
) STRICT;
CREATE TABLE usage (
  database TEXT NOT NULL,  -- its id; the database may be deleted, what it used was used
  month TEXT NOT NULL,  -- of UTC, as 2026-01
  organization TEXT NOT NULL REFERENCES organizations ON DELETE CASCADE,
  rows_read INTEGER NOT NULL,
  rows_written INTEGER NOT NULL,
  PRIMARY KEY (database, month)
) STRICT, WITHOUT ROWID;
CREATE INDEX usage_by_organization ON usage (organization, month);
"""

_NAMESPACES = """
CREATE TABLE namespaces (
  database TEXT PRIMARY KEY REFERENCES databases ON DELETE CASCADE,
  label TEXT NOT NULL,
  made INTEGER NOT NULL  -- 0 while its creation at the primary node is under way
) STRICT;
CREATE TABLE namespace_nodes (
  database TEXT NOT NULL REFERENCES namespaces ON DELETE CASCADE,
  code TEXT NOT NULL,  -- of a location whose node may hold the namespace
  PRIMARY KEY (database, code)
) STRICT;
CREATE TABLE namespace_removals (
  database TEXT NOT NULL,
  label TEXT NOT NULL,
  code TEXT NOT NULL,
  PRIMARY KEY (database, code)
) STRICT;
CREATE TRIGGER namespaces_removed BEFORE DELETE ON namespaces BEGIN
  INSERT OR IGNORE INTO namespace_removals
  SELECT database, OLD.label, code FROM namespace_nodes WHERE database = OLD.database;
END;
"""


_INSTANCES = """
ALTER TABLE group_locations ADD COLUMN paused INTEGER NOT NULL DEFAULT 0;
ALTER TABLE hosts ADD COLUMN location TEXT;  -- NULL: the database's own name; else that of its instance there
INSERT OR IGNORE INTO hosts (label, database, location)
  SELECT l.code || '-' || h.label, d.id, l.code
  FROM hosts AS h JOIN databases AS d ON d.id = h.database JOIN group_locations AS l ON l.group_id = d.group_id
  WHERE length(l.code) + 1 + length(h.label) <= 63;
-- What has that name already, or would have too long a one, is called by its id.
INSERT OR IGNORE INTO hosts (label, database, location)
  SELECT l.code || '-' || substr(replace(d.id, '-', ''), 1, 12), d.id, l.code
  FROM databases AS d JOIN group_locations AS l ON l.group_id = d.group_id
  WHERE NOT EXISTS (SELECT 1 FROM hosts AS h WHERE h.database = d.id AND h.location = l.code);
"""

_NAMESPACE_COUNTS = """
CREATE TABLE namespace_counts (
  database TEXT NOT NULL REFERENCES namespaces ON DELETE CASCADE,
  code TEXT NOT NULL,
  count TEXT NOT NULL,  -- the id that the node gives the counts: after another one they began from nothing
  rows_read INTEGER NOT NULL,
  rows_written INTEGER NOT NULL,
  PRIMARY KEY (database, code)
) STRICT;
"""

MIGRATIONS: tuple[str, ...] = (_VERSION_1, _VERSION_2, _NAMESPACES, _INSTANCES, _NAMESPACE_COUNTS)
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
        _check(connection)
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


def _check(connection: apsw.Connection) -> None:
    """Look at the whole file (it is small): damage is better told now than by half a service later."""
    [(found,)] = connection.execute("PRAGMA quick_check(1)").fetchall()
    if found != "ok":
        raise apsw.CorruptError(found)


def _migrate(connection: apsw.Connection) -> None:
    """Bring the catalog to the newest schema: all steps or none, in one commit, since each has the disk wait."""
    version = int(connection.pragma("user_version"))
    if version > len(MIGRATIONS):
        raise ServiceError(
            f"the catalog has schema version {version}, this pipemagic knows versions up to {len(MIGRATIONS)}",
            hint="upgrade pipemagic, or use another data folder (PIPEMAGIC_DATA or --data)",
            code="CATALOG_TOO_NEW",
        )
    with connection:
        for number, script in enumerate(MIGRATIONS[version:], start=version + 1):
            connection.execute(script)
            connection.pragma("user_version", number)
