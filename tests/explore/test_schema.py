"""Read the schema, with columns, keys, indexes and triggers, on every server."""

from __future__ import annotations

import pytest

from pipemagic.errors import UnknownName
from pipemagic.explore.schema import Column, ForeignKey, IndexColumn, Trigger
from pipemagic.explore.schema_reader import names, read_relation, read_schema, schema_version

HOSTILE = """sel'ect "<script>alert(1)</script> 😀 é"""
QUOTED = '"' + HOSTILE.replace('"', '""') + '"'

SCHEMA = [
    """CREATE TABLE city (
        id INTEGER PRIMARY KEY, name TEXT NOT NULL DEFAULT 'x''y', area REAL, twice AS (area * 2),
        kept AS (area * 3) STORED, UNIQUE (name, area)
    )""",
    "CREATE TABLE keyed (a TEXT, b INT, PRIMARY KEY (b, a)) WITHOUT ROWID",
    "CREATE TABLE loose (a TEXT PRIMARY KEY)",
    "CREATE TABLE typed (a INTEGER PRIMARY KEY AUTOINCREMENT, b ANY) STRICT",
    """CREATE TABLE visit (
        city REFERENCES city (id) ON DELETE CASCADE, a, b,
        FOREIGN KEY (b, a) REFERENCES keyed ON UPDATE SET NULL
    )""",
    "CREATE INDEX late ON visit (a DESC, lower(b)) WHERE a IS NOT NULL",
    "CREATE UNIQUE INDEX folded ON visit (b COLLATE NOCASE)",
    "CREATE TRIGGER noted AFTER INSERT ON Visit BEGIN SELECT 1; END",
    "CREATE VIEW big AS SELECT id, name, area FROM city",
    f'CREATE TABLE {QUOTED} ({QUOTED} "a b")',
    "CREATE TABLE _pipemagic_load_0a1b (a)",
    "CREATE TABLE a_pipemagic_load_0a1b (a)",
]


@pytest.fixture
def filled(database):
    for sql in SCHEMA:
        database.execute(sql)
    return database


def test_the_tables_and_views(filled):
    schema = read_schema(filled)
    assert [relation.name for relation in schema.tables] == [
        "a_pipemagic_load_0a1b", "city", "keyed", "loose", HOSTILE, "typed", "visit",
    ]  # fmt: skip
    assert [relation.name for relation in schema.views] == ["big"]
    assert names(filled) == sorted([relation.name for relation in schema.relations], key=str.lower)
    assert "CITY" in schema
    assert "towns" not in schema


@pytest.mark.parametrize("database", ["embedded", "on_sqld", "on_seed"], indirect=True)
def test_the_columns(filled):
    assert read_relation(filled, "City").columns == (
        Column("id", "INTEGER", nullable=False, key=1),
        Column("name", "TEXT", nullable=False, default="'x''y'"),
        Column("area", "REAL"),
        Column("twice", "", generated="virtual"),
        Column("kept", "", generated="stored"),
    )
    assert [column.name for column in read_relation(filled, "big").columns] == ["id", "name", "area"]
    assert read_relation(filled, HOSTILE).columns == (Column(HOSTILE, "a b"),)


def test_the_keys(filled):
    schema = read_schema(filled)
    assert schema.relation("keyed").primary_key == ("b", "a")
    assert schema.relation("keyed").without_rowid
    assert not schema.relation("keyed").column("a").nullable
    assert schema.relation("loose").column("a").nullable  # a bug that SQLite keeps for compatibility
    assert not schema.relation("loose").without_rowid
    assert schema.relation("typed").strict
    assert not schema.relation("typed").column("a").nullable
    assert schema.relation("city").unique_keys == (("id",), ("name", "area"))
    assert schema.relation("visit").unique_keys == (("b",),)
    assert schema.relation("visit").foreign_keys == (
        ForeignKey(("city",), "city", ("id",), on_delete="CASCADE"),
        ForeignKey(("b", "a"), "keyed", (), on_update="SET NULL"),
    )


def test_the_indexes_and_triggers(filled):
    late, folded = read_relation(filled, "visit").indexes
    assert (late.name, late.unique, late.partial, late.origin) == ("late", False, True, "create")
    assert late.columns == (IndexColumn("a", descending=True), IndexColumn(None))
    assert late.sql == "CREATE INDEX late ON visit (a DESC, lower(b)) WHERE a IS NOT NULL"
    assert folded.columns == (IndexColumn("b", collation="NOCASE"),)
    assert folded.is_key
    assert not late.is_key
    assert [index.origin for index in read_relation(filled, "city").indexes] == ["unique"]
    assert read_relation(filled, "visit").triggers == (
        Trigger("noted", "CREATE TRIGGER noted AFTER INSERT ON Visit BEGIN SELECT 1; END"),
    )


def test_a_broken_view_does_not_affect_other_views(filled):
    filled.execute("CREATE VIEW broken AS SELECT * FROM nowhere")
    schema = read_schema(filled)
    assert "nowhere" in schema.relation("broken").broken
    assert [column.name for column in schema.relation("big").columns] == ["id", "name", "area"]
    assert schema.relation("big").broken == ""
    with pytest.raises(UnknownName, match=r"cannot read the columns of broken: no such table: main\.nowhere$"):
        schema.relation("broken").column("x")


def test_virtual_tables_and_their_shadow_tables(database):
    database.execute("CREATE VIRTUAL TABLE words USING fts5(body)")
    schema = read_schema(database)
    assert [(table.name, table.kind) for table in schema.tables] == [("words", "virtual")]
    assert [column.name for column in schema.relation("words").visible] == ["body"]
    assert schema.relation("words_data").kind == "shadow"
    assert names(database) == ["words"]


def test_the_internal_table_of_a_vector_index_is_left_out(on_sqld):
    on_sqld.execute("CREATE TABLE vec (id INTEGER PRIMARY KEY, e F32_BLOB(3))")
    on_sqld.execute("CREATE INDEX near ON vec (libsql_vector_idx(e))")
    assert [table.name for table in read_schema(on_sqld).tables] == ["vec"]


def test_the_version_changes_only_with_the_schema(database):
    database.execute("CREATE TABLE t (a)")
    before = schema_version(database)
    database.execute("INSERT INTO t VALUES (1)")
    assert schema_version(database) == before == read_schema(database).version
    database.execute("ALTER TABLE t ADD COLUMN b")
    assert schema_version(database) > before


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [("citi", "did you mean city?"), ("VISITS", "did you mean visit?"), ("no\0", "%pipedb tables"), ("", "%pipedb")],
)
def test_an_unknown_table(filled, wrong, hint):
    with pytest.raises(UnknownName, match=r"table or view '.*' does not exist") as caught:
        read_relation(filled, wrong)
    assert hint in caught.value.hint
    with pytest.raises(UnknownName) as again:
        read_schema(filled).relation(wrong)
    assert again.value.hint == caught.value.hint


def test_a_thousand_tables_in_one_round_trip(embedded, count_requests):
    many = [
        sql
        for number in range(1000)
        for sql in (
            f"CREATE TABLE t{number} (id INTEGER PRIMARY KEY, a, b, c, d, e, f TEXT, UNIQUE (a, b))",
            f"CREATE INDEX i{number} ON t{number} (c)",
        )
    ]
    embedded.batch([*many, *(f"CREATE VIEW v{number} AS SELECT * FROM t{number}" for number in range(100))])
    embedded.dialect  # noqa: B018 - it is asked once
    sent = count_requests(embedded)
    schema = read_schema(embedded)
    assert len(sent) == 1
    assert len(schema.tables) == 1000
    assert len(schema.views) == 100
    assert {len(relation.columns) for relation in schema.relations} == {7}
    assert {len(table.indexes) for table in schema.tables} == {2}
