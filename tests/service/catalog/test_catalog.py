"""The catalog: its errors, its cache and its durability."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import apsw
import pytest

from pipemagic.errors import ServiceError
from pipemagic.service.catalog.accounts import TokenLimits
from pipemagic.service.catalog.catalog import Catalog
from pipemagic.service.catalog.organizations import Role
from pipemagic.service.catalog.store import VERSION
from pipemagic.service.responses import Refused


@pytest.fixture
def catalog(tmp_path):
    catalog = Catalog(tmp_path / "catalog.sqlite")
    yield catalog
    catalog.close()


@pytest.fixture
def database(catalog):
    catalog.create_group("local", "edge", "ams")
    return catalog.create_database("local", "flights", "edge")


def refused(call, *arguments):
    with pytest.raises(Refused) as caught:
        call(*arguments)
    return caught.value.status, caught.value.message


def test_everything_survives_a_restart(tmp_path):
    first = Catalog(tmp_path / "catalog.sqlite")
    first.create_group("local", "edge", "ams")
    first.add_location("local", "edge", "nrt")
    made = first.create_database("local", "flights", "edge")
    first.organizations.set_overages("local", True)
    first.reserve_index(made.id, 1000)
    first.close()
    second = Catalog(tmp_path / "catalog.sqlite")
    assert second.database("local", "flights") == made
    assert second.group("local", "edge").locations == ("ams", "nrt")
    assert second.organizations.get("local").overages is True
    assert second.reserved_index(made.id) == 1000
    assert len(second.organizations.all()) == 1
    second.close()


def test_transactions_are_durable(tmp_path, catalog):
    assert catalog.store._connection.pragma("synchronous") == 2
    assert catalog.store._connection.pragma("journal_mode") == "wal"
    assert catalog.store._connection.pragma("foreign_keys") == 1


def test_a_database_is_found_by_host_and_id(catalog, database):
    assert database.hostname == "flights-local.localhost"
    assert database.locations == ("ams",)
    for _ in range(2):  # the second time it is cached
        assert catalog.database_by_host("flights-local.localhost") == database
        assert catalog.database_by_host("flights-local.localhost.") == database
        assert catalog.database_by_id(database.id) == database
    assert catalog.database_by_host("flights-local.example.com") is None
    assert catalog.database_by_host("flights-local") is None
    assert catalog.database_by_host("other-local.localhost") is None


def test_cached_records_follow_changes(catalog, database):
    assert catalog.database_by_id(database.id).locations == ("ams",)
    catalog.add_location("local", "edge", "nrt")
    assert catalog.database_by_id(database.id).locations == ("ams", "nrt")
    catalog.delete_database("local", "flights")
    assert catalog.database_by_id(database.id) is None
    assert catalog.database_by_host(database.hostname) is None


def test_host_names_are_unique_in_all_organizations(catalog):
    account = catalog.accounts.operator()
    for slug in ("c", "b-c"):
        catalog.organizations.create(account, slug)
        catalog.create_group(slug, "edge", "ams")
    catalog.create_database("c", "a-b", "edge")
    assert refused(catalog.create_database, "b-c", "a", "edge") == (
        422, "database name not available: the host name a-b-c.localhost is taken")  # fmt: skip
    assert catalog.databases("b-c") == []
    catalog.delete_database("c", "a-b")
    assert catalog.create_database("b-c", "a", "edge").hostname == "a-b-c.localhost"


def test_an_organization_that_was_deleted_since_the_request_was_admitted(catalog):
    missing = 404, "organization not found"
    assert refused(catalog.create_group, "gone", "edge", "ams") == missing
    assert refused(catalog.create_database, "gone", "flights", "edge") == missing
    operator = catalog.accounts.operator()
    assert refused(catalog.organizations.add_member, "gone", operator, Role.MEMBER) == missing


def test_deleting_a_group_deletes_its_databases_only(catalog, database):
    catalog.create_group("local", "other", "fra")
    catalog.create_database("local", "kept", "other")
    group, databases = catalog.delete_group("local", "edge")
    assert (group.name, databases) == ("edge", [database])
    assert [record.name for record in catalog.databases("local")] == ["kept"]


def test_a_change_that_fails_changes_nothing(catalog, database, monkeypatch):
    """The last step of deleting a group fails: its databases are still there."""
    monkeypatch.setattr(catalog.store, "now", lambda: None)  # `deleted` is NOT NULL
    with pytest.raises(apsw.ConstraintError):
        catalog.delete_group("local", "edge")
    assert catalog.databases("local", "edge") == [database]
    assert catalog.database_by_host(database.hostname) == database


def test_files_of_deleted_databases_are_removed_at_the_next_start(tmp_path, catalog, database):
    folder = tmp_path / "databases"
    for name in (database.id, "somebody-elses"):
        (folder / name).mkdir(parents=True)
        (folder / name / "primary.sqlite").write_bytes(b"")
    catalog.delete_database("local", "flights")
    assert (folder / database.id).exists()
    assert catalog.finish_deletions(folder) == [database.id]
    assert [path.name for path in folder.iterdir()] == ["somebody-elses"]
    assert catalog.finish_deletions(folder) == []


def test_a_commit_counter_is_the_last_one_written(catalog, database):
    """The end of a block while the database is in use, the counter itself once it is closed."""
    assert catalog.reserved_index(database.id) == 0
    catalog.reserve_index(database.id, 500)
    catalog.reserve_index(database.id, 7)
    assert catalog.reserved_index(database.id) == 7
    catalog.delete_database("local", "flights")
    catalog.reserve_index(database.id, 8)
    assert catalog.reserved_index(database.id) == 0


def test_threads_share_the_catalog(catalog):
    catalog.create_group("local", "wide", "ams")

    def work(number):
        made = catalog.create_database("local", f"db-{number}", "wide")
        return catalog.database_by_host(made.hostname) == made

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(16)))
    assert len(catalog.databases("local", "wide")) == 16


def test_the_limits_of_platform_tokens_survive_a_restart_and_end_with_what_they_name(tmp_path):
    path = tmp_path / "catalog.sqlite"
    limits = {}
    with closing(Catalog(path)) as catalog:
        account = catalog.accounts.operator()
        catalog.organizations.create(account, "acme")
        group = catalog.create_group("acme", "edge", "ams")
        limits = {
            "free": None, "bound": TokenLimits("acme"), "pinned": TokenLimits("acme", group.id, "edge", ("read",)),
        }  # fmt: skip
        for number, (name, limit) in enumerate(limits.items()):
            catalog.accounts.add_token(account, name, bytes([number]), limit)
    with closing(Catalog(path)) as catalog:
        assert {token.name: token.limits for token in catalog.accounts.tokens()} == limits
        assert [catalog.accounts.credential(bytes([number])).limits for number in range(3)] == list(limits.values())
        catalog.delete_group("acme", "edge")
        assert [token.name for token in catalog.accounts.tokens()] == ["free", "bound"]
        assert catalog.accounts.credential(b"\2") is None
        catalog.organizations.delete("acme")
        assert [token.name for token in catalog.accounts.tokens()] == ["free"]


def test_a_catalog_of_a_newer_version_is_refused(tmp_path):
    path = tmp_path / "catalog.sqlite"
    connection = apsw.Connection(str(path))
    connection.pragma("user_version", VERSION + 1)
    connection.close()
    with pytest.raises(ServiceError, match="schema version") as caught:
        Catalog(path)
    assert caught.value.code == "CATALOG_TOO_NEW"
    assert "upgrade pipemagic" in caught.value.hint
