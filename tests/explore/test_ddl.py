"""Tables and columns as CREATE, DROP and ALTER statements declare them."""

from __future__ import annotations

import pytest

from pipemagic.explore.ddl import apply_ddl, parse_ddl
from pipemagic.explore.schema import Column, ForeignKey, Relation

CITY = Relation(
    "City",
    columns=(Column("id", "INTEGER", key=1), Column("name", "TEXT"), Column("land", "TEXT")),
    foreign_keys=(ForeignKey(("land",), "country"),),
    sql="CREATE TABLE City (...)",
)

CREATED = {
    'CREATE TABLE IF NOT EXISTS main."we""ird" (a INTEGER DEFAULT (1, 2), [b c], CHECK (a > 0))':
        ('we"ird', (("a", "INTEGER"), ("b c", ""))),
    "create table t(a decimal ( 10 , 2 ) not null, b double precision default 1, primary key (a));":
        ("t", (("a", "decimal(10,2)"), ("b", "double precision"))),
    "CREATE TABLE t AS SELECT 1 AS a": ("t", ()),
    "CREATE VIEW v (a, b) AS SELECT 1, 2": ("v", (("a", ""), ("b", ""))),
}  # fmt: skip


@pytest.mark.parametrize(("text", "created"), CREATED.items())
def test_created_tables_and_views(text, created):
    (relation,) = parse_ddl(text, {}).values()
    assert (relation.name, relation.typed) == created
    assert relation.parsed
    assert not relation.temporary
    assert relation.kind == ("view" if "VIEW" in text else "table")


SELECTED = {
    "CREATE VIEW v AS SELECT * FROM city": (("id", "INTEGER"), ("name", "TEXT"), ("land", "TEXT")),
    "CREATE TEMP VIEW v AS SELECT max(id) AS last, name FROM city": (("last", "INTEGER"), ("name", "TEXT")),
    "CREATE VIEW v (a, b) AS WITH c AS (SELECT * FROM city) SELECT name, length(land) AS n FROM c":
        (("a", "TEXT"), ("b", "")),
    "CREATE VIEW v (a, b) AS SELECT name, length(land) FROM city": (("a", ""), ("b", "")),
    "CREATE VIEW v AS SELECT id, count(*) FROM city": (),  # a column without a name in the text
    "CREATE VIEW v AS SELECT * FROM unknown": (),
}  # fmt: skip


@pytest.mark.parametrize(("text", "columns"), SELECTED.items())
def test_views_have_the_types_of_the_columns_that_they_select(text, columns):
    assert parse_ddl(text, {"city": CITY})["v"].typed == columns


ALTERED = {
    "RENAME TO town": {"town": ("id", "name", "land")},
    'RENAME COLUMN NAME TO "a b"': {"city": ("id", "a b", "land")},
    "RENAME name TO label": {"city": ("id", "label", "land")},
    "ADD COLUMN people INT DEFAULT 0": {"city": ("id", "name", "land", "people")},
    "ADD people": {"city": ("id", "name", "land", "people")},
    "DROP COLUMN name;": {"city": ("id", "land")},
    "DROP name": {"city": ("id", "land")},
    "ALTER COLUMN name TO name INTEGER": {"city": ("id", "name", "land")},
    "RENAME": {"city": ("id", "name", "land")},
}


@pytest.mark.parametrize(("action", "after"), ALTERED.items())
def test_altered_tables(action, after):
    known = {"city": CITY}
    apply_ddl(f'ALTER TABLE main."CITY" {action}', known)
    assert {name: relation.column_names for name, relation in known.items()} == after
    (relation,) = known.values()
    assert relation.foreign_keys == CITY.foreign_keys
    assert relation is CITY or relation.sql is None


def test_dropped_tables():
    known = {"city": CITY}
    apply_ddl("DROP TABLE IF EXISTS nowhere", known)
    apply_ddl("CREATE TABLE IF NOT EXISTS city (a)", known)
    assert known == {"city": CITY}
    apply_ddl("DROP TABLE CITY", known)
    assert known == {}


@pytest.mark.parametrize("text", ["CREATE TEMPORARY VIEW t AS SELECT 1", "CREATE TABLE temp.t (a)"])
def test_temporary_tables(text):
    assert parse_ddl(text, {})["t"].temporary


OTHER = ["CREATE", "DROP", "CREATE TABLE", "ALTER TABLE t", "ALTER TABLE t RENAME TO u", "SELECT 1", "",
         "CREATE INDEX i ON t (a)", "CREATE TEMP TABLE"]  # fmt: skip


@pytest.mark.parametrize("text", OTHER)
def test_other_statements_change_nothing(text):
    assert parse_ddl(text, {}) == {}
