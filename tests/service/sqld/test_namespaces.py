"""The tables of the catalog about namespaces."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from pipemagic.service.catalog.catalog import Catalog
from pipemagic.service.catalog.usage import Counts
from pipemagic.service.service import Service
from pipemagic.service.sqld.engine import SqldEngine
from pipemagic.service.sqld.namespaces import Namespaces
from pipemagic.service.sqld.nodes import Node


@pytest.fixture
def namespaces(tmp_path: Path):
    catalog = Catalog(tmp_path / "catalog.sqlite", domain="localhost", now=lambda: 0.0)
    catalog.create_group("local", "g", "ams")
    made = Namespaces(catalog.store)
    made.add(catalog.create_database("local", "d", "g").id, "d-local", "ams")
    yield catalog.database("local", "d").id, made, catalog
    catalog.close()


def test_only_new_rows_are_counted(namespaces):
    database, tables, _ = namespaces
    assert tables.count(database, "ams", "a", Counts(10, 4)) == Counts(10, 4)
    assert tables.count(database, "ams", "a", Counts(15, 4)) == Counts(5, 0)
    assert tables.count(database, "nrt", "b", Counts(7, 0)) == Counts(7, 0)


def test_rows_are_not_counted_twice_after_a_crash_of_the_node(namespaces):
    database, tables, _ = namespaces
    tables.count(database, "ams", "a", Counts(100, 50))
    assert tables.count(database, "ams", "a", Counts(90, 50)) == Counts(0, 0)
    assert tables.count(database, "ams", "a", Counts(95, 51)) == Counts(5, 1)


def test_a_count_with_another_id_starts_from_zero(namespaces):
    database, tables, _ = namespaces
    tables.count(database, "ams", "a", Counts(100, 50))
    assert tables.count(database, "ams", "other", Counts(3, 2)) == Counts(3, 2)


def test_rows_of_a_deleted_database_are_not_counted(namespaces):
    database, tables, catalog = namespaces
    tables.count(database, "ams", "a", Counts(100, 50))
    catalog.delete_database("local", "d")
    assert tables.count(database, "ams", "a", Counts(101, 50)) == Counts(0, 0)


def test_a_deleted_database_gets_no_namespace(namespaces):
    database, tables, catalog = namespaces
    catalog.delete_database("local", "d")
    assert not tables.add(database, "d-local", "nrt")
    assert [(removal.label, removal.code) for removal in tables.removals()] == [("d-local", "ams")]


def test_a_location_that_was_added_again_keeps_its_namespaces(namespaces):
    """The node was down meanwhile, and has not removed them."""
    database, tables, _ = namespaces
    tables.add(database, "d-local", "nrt")
    tables.drop_nodes(database, ("ams",))
    assert [removal.code for removal in tables.removals()] == ["nrt"]
    assert tables.add(database, "d-local", "nrt")
    assert tables.removals() == []


def test_a_removal_waits_while_its_node_is_not_in_the_nodes_file(tmp_path: Path):
    """The data of a database that was deleted meanwhile is removed when the node is in the file again."""
    nodes = [Node("ams", "http://127.0.0.1:9", "http://127.0.0.1:9")]
    with closing(Service(tmp_path, partial(SqldEngine, nodes=nodes))) as service:
        service.catalog.create_group("local", "g", "ams")
        service.catalog.add_location("local", "g", "nrt")
        record = service.catalog.create_database("local", "d", "g")
        tables = Namespaces(service.catalog.store)
        tables.add(record.id, "d-local", "nrt")
        service.engine.delete(service.catalog.delete_database("local", "d"))
        assert [(removal.label, removal.code) for removal in tables.removals()] == [("d-local", "nrt")]
