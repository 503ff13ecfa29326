-- Converts the catalog of unreleased versions (schema version 6) to that of schema.sql; the last of them have the table.

CREATE TABLE IF NOT EXISTS codes (
  hash BLOB PRIMARY KEY,  -- HMAC of the code with a key of the service; the code itself is not stored
  database TEXT NOT NULL REFERENCES databases ON DELETE CASCADE,
  subject TEXT NOT NULL,  -- of the token: the username of the account that created the code
  read_only INTEGER NOT NULL,
  expires REAL NOT NULL,  -- also of the token
  redeemer BLOB  -- SHA-256 of the key of the client that has exchanged it; NULL: none has
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS codes_by_database ON codes (database);
