"""Catalogs of other versions and programs: that of release 0.1.0 is upgraded, others are refused."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import apsw
import jwt
import pytest

from pipemagic.errors import ServiceError
from pipemagic.service.auth.tokens import TokenAuthority
from pipemagic.service.catalog.catalog import Catalog
from pipemagic.service.catalog.organizations import Role
from pipemagic.service.catalog.records import Configuration
from pipemagic.service.responses import Refused

DUMP = Path(__file__).with_name("catalog-0.1.0.sql")
"""Written by release 0.1.0."""


@pytest.fixture
def old(tmp_path):
    """Return the path of a catalog of release 0.1.0."""
    path = tmp_path / "catalog.sqlite"
    connection = apsw.Connection(str(path))
    connection.execute(DUMP.read_text("utf-8"))
    connection.close()
    return path


@pytest.fixture
def catalog(old):
    catalog = Catalog(old, now=lambda: 1_700_000_000.0)
    yield catalog
    catalog.close()


def test_organizations_and_members(catalog):
    local, grace = catalog.accounts.operator(), catalog.accounts.find("grace")
    navy = catalog.organizations.get("navy")
    assert (navy.name, navy.type, navy.overages) == ("The Navy", "team", True)
    assert [record.slug for record in catalog.organizations.of(local)] == ["local", "navy"]
    assert catalog.organizations.role("navy", local) is Role.VIEWER
    assert catalog.organizations.role("navy", grace) is Role.OWNER


def test_groups_and_databases(catalog):
    group, database = catalog.group("local", "edge"), catalog.database("local", "flights")
    assert (group.locations, group.paused, group.created) == (("ams", "nrt"), {"nrt"}, 1_700_000_000.0)
    assert catalog.group("navy", "edge").delete_protection is True
    assert (database.group_id, database.rotated, database.locations) == (group.id, 1, ("ams", "nrt"))
    assert database.configuration == Configuration(2**20, block_writes=True, delete_protection=True)
    assert database.instances == {
        "ams": "ams-flights-local.localhost", "nrt": "nrt-000000000000-flights-local.localhost"}  # fmt: skip
    assert catalog.database_by_host("nrt-flights-local.localhost").name == "nrt-flights"
    assert catalog.reserved_index(database.id) == 4000
    assert [record.name for record in catalog.databases("navy")] == ["ships"]


def test_platform_tokens_stay_valid_without_limits(catalog):
    credential = catalog.accounts.credential(b"\x01" * 32)
    assert (credential.account.username, credential.limits) == ("local", None)
    assert [(token.name, token.limits) for token in catalog.accounts.tokens()] == [("default", None)]


def test_database_tokens_stay_valid_until_a_rotation(catalog, tmp_path):
    tokens = TokenAuthority(tmp_path, catalog, lambda: 1000.0, lambda count: b"x" * count)
    database = catalog.database("local", "nrt-flights")
    claims = {"id": database.id, "sub": "local", "a": "rw", "iat": 1}
    token = jwt.encode(claims, tokens._key, algorithm="EdDSA")
    assert tokens.check_database(f"Bearer {token}", None).database == database
    catalog.rotate_database("local", "nrt-flights")
    with pytest.raises(Refused, match="were rotated"):
        tokens.check_database(f"Bearer {token}", None)


def test_an_old_catalog_has_the_tables_of_a_new_one(catalog, tmp_path):
    def tables(path):
        connection = apsw.Connection(str(path))
        try:
            columns = connection.execute(
                'SELECT m.name, c.cid, c.name, c.type, c."notnull", c.dflt_value, c.pk'
                " FROM sqlite_schema AS m, pragma_table_info(m.name) AS c ORDER BY 1, 2"
            ).fetchall()
            others = "SELECT type, name, sql FROM sqlite_schema WHERE type <> 'table' ORDER BY 1, 2"
            return columns, connection.execute(others).fetchall(), connection.pragma("user_version")
        finally:
            connection.close()

    Catalog(tmp_path / "new.sqlite").close()
    assert tables(tmp_path / "catalog.sqlite") == tables(tmp_path / "new.sqlite")


@pytest.mark.parametrize("has_codes", [False, True])
def test_a_catalog_of_an_unreleased_version_gets_codes(tmp_path, has_codes):
    path = tmp_path / "catalog.sqlite"
    Catalog(path).close()
    with closing(apsw.Connection(str(path))) as connection:
        if not has_codes:
            connection.execute("DROP TABLE codes")
        connection.pragma("user_version", 6)
    with closing(Catalog(path)) as catalog:
        catalog.create_group("local", "edge", "ams")
        catalog.create_database("local", "flights", "edge")
        catalog.rotate_database("local", "flights")
        assert catalog.store.rows("SELECT count(*) FROM codes") == [(0,)]


@pytest.mark.parametrize("version", [1, 4])
def test_a_catalog_from_before_0_1_0_is_refused_unchanged(tmp_path, version):
    path = tmp_path / "catalog.sqlite"
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE accounts (id)")
    connection.pragma("user_version", version)
    connection.close()
    before = path.read_bytes()
    with pytest.raises(ServiceError, match=rf"has schema version {version}, which is older") as caught:
        Catalog(path)
    assert caught.value.code == "CATALOG_TOO_OLD"
    assert "run pipemagic 0.1.0 once" in caught.value.hint
    assert path.read_bytes() == before


def test_a_failed_upgrade_changes_nothing_and_a_later_one_completes(old, tmp_path, monkeypatch):
    from pipemagic.service.catalog import store

    broken = tmp_path / "upgrade.sql"
    broken.write_text(store.UPGRADES[6].read_text("utf-8") + "INSERT INTO nowhere VALUES (1);", "utf-8")
    with monkeypatch.context() as patch:
        patch.setitem(store.UPGRADES, 6, broken)
        with pytest.raises(apsw.SQLError, match="nowhere"):
            Catalog(old)
    with closing(apsw.Connection(str(old))) as connection:
        assert connection.pragma("user_version") == 5
        assert "scopes" not in [row[1] for row in connection.execute("PRAGMA table_info(platform_tokens)")]
    Catalog(old).close()


def test_a_new_catalog_is_created_in_one_transaction(tmp_path, monkeypatch):
    from pipemagic.service.catalog import store

    broken = tmp_path / "schema.sql"
    broken.write_text(store.SCHEMA.read_text("utf-8") + "INSERT INTO nowhere VALUES (1);", "utf-8")
    with monkeypatch.context() as patch:
        patch.setattr(store, "SCHEMA", broken)
        with pytest.raises(apsw.SQLError, match="nowhere"):
            Catalog(tmp_path / "catalog.sqlite")
    Catalog(tmp_path / "catalog.sqlite").close()


def test_a_database_of_another_program_is_refused_unchanged(tmp_path):
    path = tmp_path / "catalog.sqlite"
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("CREATE TABLE accounts (id)")
    before = path.read_bytes()
    with pytest.raises(ServiceError, match="belongs to another program") as caught:
        Catalog(path)
    assert caught.value.code == "BAD_CATALOG"
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_catalog_that_cannot_be_opened_has_an_error_with_its_path(tmp_path):
    path = tmp_path / "catalog.sqlite"
    path.mkdir()
    with pytest.raises(ServiceError, match=re.escape(f"cannot open {path}")) as caught:
        Catalog(path)
    assert caught.value.code == "BAD_CATALOG"
    assert "make it readable and writable" in caught.value.hint
