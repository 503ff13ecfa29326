"""What the catalog notes of namespaces."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipemagic.service.registry.catalog import Catalog
from pipemagic.service.registry.usage import Counts
from pipemagic.service.sqld.namespaces import Namespaces
from pipemagic.service.sqld.removals import Removals


@pytest.fixture
def namespaces(tmp_path: Path):
    catalog = Catalog(tmp_path / "catalog.sqlite", domain="localhost", now=lambda: 0.0)
    catalog.create_group("local", "g", "ams")
    made = Namespaces(catalog.store)
    made.begin(catalog.create_database("local", "d", "g").id, "d-local", ["ams"])
    yield catalog.database("local", "d").id, made, catalog
    catalog.close()


def test_only_what_is_new_is_counted(namespaces):
    database, noted, _ = namespaces
    assert noted.count(database, "ams", "a", Counts(10, 4)) == Counts(10, 4)
    assert noted.count(database, "ams", "a", Counts(15, 4)) == Counts(5, 0)
    assert noted.count(database, "nrt", "b", Counts(7, 0)) == Counts(7, 0)


def test_a_count_that_was_set_back_by_a_crash_is_not_counted_twice(namespaces):
    database, noted, _ = namespaces
    noted.count(database, "ams", "a", Counts(100, 50))
    assert noted.count(database, "ams", "a", Counts(90, 50)) == Counts(0, 0)
    assert noted.count(database, "ams", "a", Counts(95, 51)) == Counts(5, 1)


def test_a_count_with_another_id_began_from_nothing(namespaces):
    database, noted, _ = namespaces
    noted.count(database, "ams", "a", Counts(100, 50))
    assert noted.count(database, "ams", "other", Counts(3, 2)) == Counts(3, 2)


def test_a_deleted_database_counts_no_more(namespaces):
    database, noted, catalog = namespaces
    noted.count(database, "ams", "a", Counts(100, 50))
    catalog.delete_database("local", "d")
    assert noted.count(database, "ams", "a", Counts(101, 50)) == Counts(0, 0)


def test_what_a_node_should_remove_waits_while_it_is_not_in_the_nodes_file(namespaces):
    _, noted, catalog = namespaces
    catalog.delete_database("local", "d")
    removals = Removals(noted, {}, "ams", on_down=lambda code, down: pytest.fail(f"{code}: {down}"))
    removals.lock_out("d-local")
    removals.finish()
    assert removals.primary_has("d-local")
    assert [removal.code for removal in noted.removals()] == ["ams"]
