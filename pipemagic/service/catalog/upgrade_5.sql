-- Converts the catalog of release 0.1.0 (schema version 5) to version 6.

ALTER TABLE platform_tokens ADD COLUMN organization TEXT REFERENCES organizations ON DELETE CASCADE;
ALTER TABLE platform_tokens ADD COLUMN group_id TEXT REFERENCES "groups" ON DELETE CASCADE;
ALTER TABLE platform_tokens ADD COLUMN scopes TEXT;
CREATE INDEX platform_tokens_by_organization ON platform_tokens (organization);
CREATE INDEX platform_tokens_by_group ON platform_tokens (group_id);

CREATE TABLE branches (
  database TEXT PRIMARY KEY REFERENCES databases ON DELETE CASCADE,
  parent TEXT NOT NULL,  -- the id of the database that it is a copy of, which may have been deleted since
  parent_name TEXT NOT NULL,
  moment REAL NOT NULL  -- when the parent had the content that was copied
) STRICT;

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
