-- Converts the catalog of release 0.1.0 (schema version 5) to that of schema.sql.

ALTER TABLE platform_tokens ADD COLUMN organization TEXT REFERENCES organizations ON DELETE CASCADE;
ALTER TABLE platform_tokens ADD COLUMN group_id TEXT REFERENCES "groups" ON DELETE CASCADE;
ALTER TABLE platform_tokens ADD COLUMN scopes TEXT;
CREATE INDEX platform_tokens_by_organization ON platform_tokens (organization);
CREATE INDEX platform_tokens_by_group ON platform_tokens (group_id);
