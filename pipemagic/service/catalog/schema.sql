-- The catalog's schema, version 6; upgrade.sql makes it of the one of release 0.1.0. Times are in Unix seconds.

CREATE TABLE accounts (
  id TEXT PRIMARY KEY,
  username TEXT NOT NULL UNIQUE,
  created REAL NOT NULL,
  operator INTEGER NOT NULL DEFAULT 0,  -- 1: the account of the operator
  password TEXT  -- salted scrypt hash; NULL: the account cannot be used to log in
) STRICT;

CREATE TABLE platform_tokens (
  id TEXT PRIMARY KEY,
  account TEXT NOT NULL REFERENCES accounts ON DELETE CASCADE,
  name TEXT NOT NULL,
  hash BLOB NOT NULL UNIQUE,  -- SHA-256; the token itself is not stored
  created REAL NOT NULL,
  organization TEXT REFERENCES organizations ON DELETE CASCADE,  -- NULL: all organizations of the account
  group_id TEXT REFERENCES "groups" ON DELETE CASCADE,  -- NULL: all groups of the organization
  scopes TEXT,  -- of a group's token, separated by commas
  UNIQUE (account, name)
) STRICT;
CREATE INDEX platform_tokens_by_organization ON platform_tokens (organization);
CREATE INDEX platform_tokens_by_group ON platform_tokens (group_id);

CREATE TABLE logins (
  hash BLOB PRIMARY KEY,  -- SHA-256 of the token
  account TEXT NOT NULL REFERENCES accounts ON DELETE CASCADE,
  expires REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX logins_by_account ON logins (account);

CREATE TABLE organizations (
  slug TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  type TEXT NOT NULL CHECK (type IN ('personal', 'team')),
  account TEXT NOT NULL REFERENCES accounts,  -- who created it
  overages INTEGER NOT NULL DEFAULT 0,
  created REAL NOT NULL,
  id TEXT NOT NULL DEFAULT ''
) STRICT;

CREATE TABLE members (
  organization TEXT NOT NULL REFERENCES organizations ON DELETE CASCADE,
  account TEXT NOT NULL REFERENCES accounts ON DELETE CASCADE,
  role TEXT NOT NULL CHECK (role IN ('owner', 'admin', 'member', 'viewer')),
  added REAL NOT NULL,
  PRIMARY KEY (organization, account)
) STRICT, WITHOUT ROWID;
CREATE INDEX members_by_account ON members (account);

CREATE TABLE audit_logs (
  id INTEGER PRIMARY KEY,
  organization TEXT NOT NULL REFERENCES organizations ON DELETE CASCADE,
  code TEXT NOT NULL,
  author TEXT NOT NULL,  -- the username; the account may have been deleted since
  origin TEXT NOT NULL,  -- cli or web
  created REAL NOT NULL,
  data TEXT NOT NULL  -- JSON
) STRICT;
CREATE INDEX audit_logs_by_organization ON audit_logs (organization, id);

-- One row: the number of rotations of any tokens. `rotated` below is the number of the last one: older tokens are void.
CREATE TABLE rotations (number INTEGER NOT NULL) STRICT;
INSERT INTO rotations VALUES (0);

CREATE TABLE "groups" (
  id TEXT PRIMARY KEY,
  organization TEXT NOT NULL REFERENCES organizations,
  name TEXT NOT NULL,
  created REAL NOT NULL,
  rotated INTEGER NOT NULL DEFAULT 0,
  delete_protection INTEGER NOT NULL DEFAULT 0,
  UNIQUE (organization, name)
) STRICT;

CREATE TABLE group_locations (
  group_id TEXT NOT NULL REFERENCES "groups" ON DELETE CASCADE,
  position INTEGER NOT NULL,  -- 0 is the primary location
  code TEXT NOT NULL,
  paused INTEGER NOT NULL DEFAULT 0,  -- 1: the location; 2: only its replication
  PRIMARY KEY (group_id, position),
  UNIQUE (group_id, code)
) STRICT, WITHOUT ROWID;

CREATE TABLE databases (
  id TEXT PRIMARY KEY,
  organization TEXT NOT NULL REFERENCES organizations,
  group_id TEXT NOT NULL REFERENCES "groups",
  name TEXT NOT NULL,
  created REAL NOT NULL,
  reserved_index INTEGER NOT NULL DEFAULT 0,  -- no commit has a higher index
  rotated INTEGER NOT NULL DEFAULT 0,
  delete_protection INTEGER NOT NULL DEFAULT 0,
  block_reads INTEGER NOT NULL DEFAULT 0,
  block_writes INTEGER NOT NULL DEFAULT 0,
  size_limit INTEGER,  -- bytes; NULL: the service's own limit
  UNIQUE (organization, name)
) STRICT;
CREATE INDEX databases_by_group ON databases (group_id);

CREATE TABLE branches (
  database TEXT PRIMARY KEY REFERENCES databases ON DELETE CASCADE,
  parent TEXT NOT NULL,  -- the id of the database that it is a copy of, which may have been deleted since
  parent_name TEXT NOT NULL,
  moment REAL NOT NULL  -- when the parent had the content that was copied
) STRICT;

CREATE TABLE codes (
  hash BLOB PRIMARY KEY,  -- HMAC of the code with a key of the service; the code itself is not stored
  database TEXT NOT NULL REFERENCES databases ON DELETE CASCADE,
  subject TEXT NOT NULL,  -- of the token: the username of the account that created the code
  read_only INTEGER NOT NULL,
  expires REAL NOT NULL,  -- also of the token
  redeemer BLOB  -- SHA-256 of the key of the client that has exchanged it; NULL: none has
) STRICT, WITHOUT ROWID;
CREATE INDEX codes_by_database ON codes (database);

CREATE TABLE hosts (
  label TEXT PRIMARY KEY,  -- the first label of a host name, unique in the service
  database TEXT NOT NULL REFERENCES databases ON DELETE CASCADE,
  location TEXT  -- NULL: the name of the database; otherwise of its instance at that location
) STRICT;
CREATE INDEX hosts_by_database ON hosts (database);

CREATE TABLE deleted_databases (
  id TEXT PRIMARY KEY,  -- its files may still exist
  deleted REAL NOT NULL
) STRICT;

CREATE TABLE quotas (
  organization TEXT PRIMARY KEY,  -- '' for the organizations without a row
  rows_read INTEGER NOT NULL,  -- in a calendar month (UTC); 0: no limit, here and below
  rows_written INTEGER NOT NULL,
  storage_bytes INTEGER NOT NULL
) STRICT;

CREATE TABLE usage (
  database TEXT NOT NULL,  -- its id; the database may have been deleted since
  month TEXT NOT NULL,  -- of UTC, as 2026-01
  organization TEXT NOT NULL REFERENCES organizations ON DELETE CASCADE,
  rows_read INTEGER NOT NULL,
  rows_written INTEGER NOT NULL,
  PRIMARY KEY (database, month)
) STRICT, WITHOUT ROWID;
CREATE INDEX usage_by_organization ON usage (organization, month);

CREATE TABLE queries (
  database TEXT NOT NULL REFERENCES databases ON DELETE CASCADE,
  hour INTEGER NOT NULL,  -- since 1970
  query TEXT NOT NULL,  -- without values
  runs INTEGER NOT NULL,
  seconds REAL NOT NULL,
  rows_read INTEGER NOT NULL,
  rows_written INTEGER NOT NULL,
  PRIMARY KEY (database, hour, query)
) STRICT, WITHOUT ROWID;

-- The sqld engine: which nodes have or may have a namespace, and which namespaces they must remove.

CREATE TABLE namespaces (
  database TEXT PRIMARY KEY REFERENCES databases ON DELETE CASCADE,
  label TEXT NOT NULL,
  made INTEGER NOT NULL  -- 0 until the primary node has created it
) STRICT;

CREATE TABLE namespace_nodes (
  database TEXT NOT NULL REFERENCES namespaces ON DELETE CASCADE,
  code TEXT NOT NULL,  -- the location of a node that may have the namespace
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

CREATE TABLE namespace_counts (
  database TEXT NOT NULL REFERENCES namespaces ON DELETE CASCADE,
  code TEXT NOT NULL,
  count TEXT NOT NULL,  -- the node's id of its counters; they start from 0 with each new id
  rows_read INTEGER NOT NULL,
  rows_written INTEGER NOT NULL,
  PRIMARY KEY (database, code)
) STRICT;
