BEGIN TRANSACTION;
CREATE TABLE accounts (
  id TEXT PRIMARY KEY,
  username TEXT NOT NULL UNIQUE,
  created REAL NOT NULL
, operator INTEGER NOT NULL DEFAULT 0, password TEXT) STRICT;
INSERT INTO accounts VALUES('00000000-0000-4000-a000-000000000001','local',1700000000.0,1,NULL);
INSERT INTO accounts VALUES('00000000-0000-4000-a000-000000000003','grace',1700000000.0,0,'scrypt$16384$8$5$c2FsdA$aGFzaA');
CREATE TABLE databases (
  id TEXT PRIMARY KEY,
  organization TEXT NOT NULL REFERENCES organizations,
  group_id TEXT NOT NULL REFERENCES "groups",
  name TEXT NOT NULL,
  created REAL NOT NULL,
  reserved_index INTEGER NOT NULL DEFAULT 0, rotated INTEGER NOT NULL DEFAULT 0, delete_protection INTEGER NOT NULL DEFAULT 0, block_reads INTEGER NOT NULL DEFAULT 0, block_writes INTEGER NOT NULL DEFAULT 0, size_limit INTEGER,
  UNIQUE (organization, name)
) STRICT;
INSERT INTO databases VALUES('00000000-0000-4000-a000-000000000008','local','00000000-0000-4000-a000-000000000007','flights',1700000000.0,4000,1,1,0,1,1048576);
INSERT INTO databases VALUES('00000000-0000-4000-a000-000000000009','local','00000000-0000-4000-a000-000000000007','nrt-flights',1700000000.0,0,0,0,0,0,NULL);
INSERT INTO databases VALUES('00000000-0000-4000-a000-000000000011','navy','00000000-0000-4000-a000-000000000010','ships',1700000000.0,0,0,0,0,0,NULL);
CREATE INDEX databases_by_group ON databases (group_id);
CREATE TABLE deleted_databases (
  id TEXT PRIMARY KEY,  -- its files may still be there
  deleted REAL NOT NULL
) STRICT;
INSERT INTO deleted_databases VALUES('00000000-0000-4000-a000-000000000012',1700000000.0);
CREATE TABLE group_locations (
  group_id TEXT NOT NULL REFERENCES "groups" ON DELETE CASCADE,
  position INTEGER NOT NULL,  -- 0 is the primary location
  code TEXT NOT NULL, paused INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (group_id, position),
  UNIQUE (group_id, code)
) STRICT, WITHOUT ROWID;
INSERT INTO group_locations VALUES('00000000-0000-4000-a000-000000000007',0,'ams',0);
INSERT INTO group_locations VALUES('00000000-0000-4000-a000-000000000007',1,'nrt',1);
INSERT INTO group_locations VALUES('00000000-0000-4000-a000-000000000010',0,'fra',0);
CREATE TABLE "groups" (
  id TEXT PRIMARY KEY,
  organization TEXT NOT NULL REFERENCES organizations,
  name TEXT NOT NULL,
  created REAL NOT NULL, rotated INTEGER NOT NULL DEFAULT 0, delete_protection INTEGER NOT NULL DEFAULT 0,
  UNIQUE (organization, name)
) STRICT;
INSERT INTO "groups" VALUES('00000000-0000-4000-a000-000000000007','local','edge',1700000000.0,0,0);
INSERT INTO "groups" VALUES('00000000-0000-4000-a000-000000000010','navy','edge',1700000000.0,2,1);
CREATE TABLE hosts (
  label TEXT PRIMARY KEY,  -- all host names below the domain, of every organization
  database TEXT NOT NULL REFERENCES databases ON DELETE CASCADE
, location TEXT) STRICT;
INSERT INTO hosts VALUES('flights-local','00000000-0000-4000-a000-000000000008',NULL);
INSERT INTO hosts VALUES('ams-flights-local','00000000-0000-4000-a000-000000000008','ams');
INSERT INTO hosts VALUES('nrt-flights-local','00000000-0000-4000-a000-000000000009',NULL);
INSERT INTO hosts VALUES('ams-nrt-flights-local','00000000-0000-4000-a000-000000000009','ams');
INSERT INTO hosts VALUES('nrt-000000000000-flights-local','00000000-0000-4000-a000-000000000008','nrt');
INSERT INTO hosts VALUES('nrt-nrt-flights-local','00000000-0000-4000-a000-000000000009','nrt');
INSERT INTO hosts VALUES('ships-navy','00000000-0000-4000-a000-000000000011',NULL);
INSERT INTO hosts VALUES('fra-ships-navy','00000000-0000-4000-a000-000000000011','fra');
CREATE INDEX hosts_by_database ON hosts (database);
CREATE TABLE logins (
  hash BLOB PRIMARY KEY,  -- SHA-256 of the token
  account TEXT NOT NULL REFERENCES accounts ON DELETE CASCADE,
  expires REAL NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO logins VALUES(X'0202020202020202020202020202020202020202020202020202020202020202','00000000-0000-4000-a000-000000000003',1700600000.0);
CREATE INDEX logins_by_account ON logins (account);
CREATE TABLE members (
  organization TEXT NOT NULL REFERENCES organizations ON DELETE CASCADE,
  account TEXT NOT NULL REFERENCES accounts ON DELETE CASCADE,
  role TEXT NOT NULL CHECK (role IN ('owner', 'admin', 'member', 'viewer')),
  added REAL NOT NULL,
  PRIMARY KEY (organization, account)
) STRICT, WITHOUT ROWID;
INSERT INTO members VALUES('grace','00000000-0000-4000-a000-000000000003','owner',1700000000.0);
INSERT INTO members VALUES('local','00000000-0000-4000-a000-000000000001','owner',1700000000.0);
INSERT INTO members VALUES('navy','00000000-0000-4000-a000-000000000001','viewer',1700000000.0);
INSERT INTO members VALUES('navy','00000000-0000-4000-a000-000000000003','owner',1700000000.0);
CREATE INDEX members_by_account ON members (account);
CREATE TABLE namespace_counts (
  database TEXT NOT NULL REFERENCES namespaces ON DELETE CASCADE,
  code TEXT NOT NULL,
  count TEXT NOT NULL,  -- the id that the node gives the counts: after another one they began from nothing
  rows_read INTEGER NOT NULL,
  rows_written INTEGER NOT NULL,
  PRIMARY KEY (database, code)
) STRICT;
CREATE TABLE namespace_nodes (
  database TEXT NOT NULL REFERENCES namespaces ON DELETE CASCADE,
  code TEXT NOT NULL,  -- of a location whose node may hold the namespace
  PRIMARY KEY (database, code)
) STRICT;
INSERT INTO namespace_nodes VALUES('00000000-0000-4000-a000-000000000011','fra');
CREATE TABLE namespace_removals (
  database TEXT NOT NULL,
  label TEXT NOT NULL,
  code TEXT NOT NULL,
  PRIMARY KEY (database, code)
) STRICT;
CREATE TABLE namespaces (
  database TEXT PRIMARY KEY REFERENCES databases ON DELETE CASCADE,
  label TEXT NOT NULL,
  made INTEGER NOT NULL  -- 0 while its creation at the primary node is under way
) STRICT;
INSERT INTO namespaces VALUES('00000000-0000-4000-a000-000000000011','ships-navy',1);
CREATE TRIGGER namespaces_removed BEFORE DELETE ON namespaces BEGIN
  INSERT OR IGNORE INTO namespace_removals
  SELECT database, OLD.label, code FROM namespace_nodes WHERE database = OLD.database;
END;
CREATE TABLE organizations (
  slug TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  type TEXT NOT NULL CHECK (type IN ('personal', 'team')),
  account TEXT NOT NULL REFERENCES accounts,
  overages INTEGER NOT NULL DEFAULT 0,
  created REAL NOT NULL
, id TEXT NOT NULL DEFAULT '') STRICT;
INSERT INTO organizations VALUES('local','local','personal','00000000-0000-4000-a000-000000000001',0,1700000000.0,'00000000-0000-4000-a000-000000000002');
INSERT INTO organizations VALUES('grace','grace','personal','00000000-0000-4000-a000-000000000003',0,1700000000.0,'00000000-0000-4000-a000-000000000004');
INSERT INTO organizations VALUES('navy','The Navy','team','00000000-0000-4000-a000-000000000003',1,1700000000.0,'00000000-0000-4000-a000-000000000006');
CREATE TABLE platform_tokens (
  id TEXT PRIMARY KEY,
  account TEXT NOT NULL REFERENCES accounts ON DELETE CASCADE,
  name TEXT NOT NULL,
  hash BLOB NOT NULL UNIQUE,  -- SHA-256; the token itself is nowhere in the catalog
  created REAL NOT NULL,
  UNIQUE (account, name)
) STRICT;
INSERT INTO platform_tokens VALUES('00000000-0000-4000-a000-000000000005','00000000-0000-4000-a000-000000000001','default',X'0101010101010101010101010101010101010101010101010101010101010101',1700000000.0);
CREATE TABLE quotas (
  organization TEXT PRIMARY KEY,  -- '' for the organizations that are not listed
  rows_read INTEGER NOT NULL,  -- in a calendar month (UTC); 0: no limit, here and below
  rows_written INTEGER NOT NULL,
  storage_bytes INTEGER NOT NULL
) STRICT;
INSERT INTO quotas VALUES('navy',1000,2000,3000);
INSERT INTO quotas VALUES('',5,0,0);
CREATE TABLE rotations (number INTEGER NOT NULL) STRICT;
INSERT INTO rotations VALUES(2);
CREATE TABLE usage (
  database TEXT NOT NULL,  -- its id; the database may be deleted, what it used was used
  month TEXT NOT NULL,  -- of UTC, as 2026-01
  organization TEXT NOT NULL REFERENCES organizations ON DELETE CASCADE,
  rows_read INTEGER NOT NULL,
  rows_written INTEGER NOT NULL,
  PRIMARY KEY (database, month)
) STRICT, WITHOUT ROWID;
INSERT INTO usage VALUES('00000000-0000-4000-a000-000000000008','2023-11','local',7,8);
INSERT INTO usage VALUES('00000000-0000-4000-a000-000000000012','2023-11','local',1,2);
CREATE INDEX usage_by_organization ON usage (organization, month);
pragma user_version=5;
COMMIT TRANSACTION;
