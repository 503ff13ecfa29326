"""A catalog of an older pipemagic becomes one of this."""

from __future__ import annotations

import apsw
import pytest

from pipemagic.service.auth.tokens import Tokens
from pipemagic.service.registry import schema
from pipemagic.service.registry.catalog import Catalog
from pipemagic.service.registry.organizations import Role
from pipemagic.service.registry.records import Configuration

FILL = """
INSERT INTO accounts VALUES ('a-2', 'later', 200.0), ('a-1', 'local', 100.0);
INSERT INTO platform_tokens VALUES ('t-1', 'a-1', 'default', x'00', 100.0);
INSERT INTO organizations VALUES
  ('local', 'local', 'personal', 'a-1', 1, 100.0), ('later', 'later', 'personal', 'a-2', 0, 200.0),
  ('navy', 'navy', 'team', 'a-2', 0, 200.0);
INSERT INTO "groups" VALUES ('g-1', 'local', 'edge', 100.0);
INSERT INTO group_locations VALUES ('g-1', 0, 'ams'), ('g-1', 1, 'nrt');
INSERT INTO databases VALUES ('d-1', 'local', 'g-1', 'flights', 100.0, 4000),
  ('d-2', 'local', 'g-1', 'nrt-flights', 100.0, 0);
INSERT INTO hosts VALUES ('flights-local', 'd-1'), ('nrt-flights-local', 'd-2');
INSERT INTO deleted_databases VALUES ('d-0', 50.0);
"""


@pytest.fixture
def old(tmp_path):
    """Make a catalog with the script of version 1."""
    path = tmp_path / "catalog.sqlite"
    connection = apsw.Connection(str(path))
    connection.execute(schema.MIGRATIONS[0])
    connection.execute(FILL)
    connection.pragma("user_version", 1)
    connection.close()
    return path


@pytest.fixture
def catalog(old):
    catalog = Catalog(old)
    yield catalog
    catalog.close()


def test_everything_of_version_1_is_there(catalog):
    assert [account.username for account in catalog.accounts.all()] == ["later", "local"]
    assert catalog.organizations.get("local").overages is True
    group, database = catalog.group("local", "edge"), catalog.database("local", "flights")
    assert (group.id, group.locations, group.delete_protection) == ("g-1", ("ams", "nrt"), False)
    assert (database.id, database.hostname, database.locations) == ("d-1", "flights-local.localhost", ("ams", "nrt"))
    assert (database.group_id, database.rotated, database.configuration) == ("g-1", 0, Configuration())
    assert catalog.reserved_index("d-1") == 4000


def test_instances_get_names_that_nothing_else_has(catalog):
    assert catalog.database("local", "flights").instances == {
        "ams": "ams-flights-local.localhost", "nrt": "nrt-d1.localhost"}  # fmt: skip
    assert catalog.database("local", "nrt-flights").instances == {
        "ams": "ams-nrt-flights-local.localhost", "nrt": "nrt-nrt-flights-local.localhost"}  # fmt: skip
    assert catalog.database_by_host("nrt-flights-local.localhost").name == "nrt-flights"


def test_the_oldest_account_is_the_operators_and_owners_stay_owners(catalog):
    operator = catalog.accounts.operator()
    assert operator is not None
    assert operator.username == "local"
    later = catalog.accounts.find("later")
    assert later is not None
    assert not later.operator
    assert catalog.accounts.password_hash(operator) is None
    assert catalog.organizations.role("local", operator) is Role.OWNER
    assert catalog.organizations.role("navy", later) is Role.OWNER
    assert catalog.organizations.role("navy", operator) is None
    assert [record.slug for record in catalog.organizations.of(later)] == ["later", "navy"]


def test_organizations_get_ids(catalog):
    ids = {record.id for record in catalog.organizations.all()}
    assert len(ids) == 3
    assert all([len(part) for part in one.split("-")] == [8, 4, 4, 4, 12] for one in ids)


def test_tokens_of_before_are_valid(catalog, tmp_path):
    import jwt

    tokens = Tokens(tmp_path, catalog, lambda: 1000.0, lambda count: b"x" * count)
    old_token = jwt.encode({"id": "d-1", "sub": "local", "a": "rw", "iat": 1}, tokens._key, algorithm="EdDSA")
    assert tokens.check_database(f"Bearer {old_token}", None).database.name == "flights"
    catalog.rotate_database("local", "flights")
    with pytest.raises(Exception, match="were rotated"):
        tokens.check_database(f"Bearer {old_token}", None)


def test_a_migrated_catalog_has_the_tables_of_a_new_one(catalog, tmp_path):
    def tables(path):
        connection = apsw.Connection(str(path))
        try:
            columns = "SELECT m.name, c.name FROM sqlite_schema AS m, pragma_table_info(m.name) AS c ORDER BY 1, 2"
            return connection.execute(columns).fetchall(), connection.pragma("user_version")
        finally:
            connection.close()

    Catalog(tmp_path / "new.sqlite").close()
    assert tables(tmp_path / "catalog.sqlite") == tables(tmp_path / "new.sqlite")


@pytest.mark.parametrize("script", range(1, len(schema.MIGRATIONS)))
def test_a_migration_that_fails_changes_nothing(old, monkeypatch, script):
    broken = (*schema.MIGRATIONS[:script], schema.MIGRATIONS[script] + "; INSERT INTO nowhere VALUES (1);")
    monkeypatch.setattr(schema, "MIGRATIONS", broken)
    with pytest.raises(apsw.SQLError, match="nowhere"):
        Catalog(old)
    monkeypatch.undo()
    catalog = Catalog(old)
    assert catalog.database("local", "flights").id == "d-1"
    catalog.close()
