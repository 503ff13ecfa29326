"""Plans of loads: a table replaced with its indexes, triggers and views, or changed by keys."""

from __future__ import annotations

import time

import pandas as pd
import pytest

from pipemagic import errors
from pipemagic.client.bulk import load as loading
from pipemagic.client.stream import ClientStream

SMALL = pd.DataFrame({"a": [1, 2, 3], "b": ["x", None, "z"]})


def schema(database) -> list[tuple[str, str, str]]:
    asked = "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'libsql%' ORDER BY name"
    return [row for row in database.execute(asked).rows if row[1] != "sqlite_sequence"]


def rows(database, sql: str = "SELECT * FROM t") -> list[tuple]:
    return database.execute(sql).rows


# -- replace

DEFINED = [
    """CREATE TABLE t(a INTEGER PRIMARY KEY AUTOINCREMENT, b TEXT COLLATE NOCASE DEFAULT 'd' CHECK (b <> 'bad'),
       c GENERATED ALWAYS AS (a * 2))""",
    "CREATE TABLE log(what)",
    "CREATE TABLE other(a)",
    "CREATE INDEX plain ON t(b)",
    "CREATE UNIQUE INDEX partial ON t(b, c) WHERE a > 1",
    "CREATE VIEW v AS SELECT a, upper(b) AS B FROM t",
    "CREATE VIEW w AS SELECT count(*) AS n FROM v",
    "CREATE VIEW apart AS SELECT 1 AS one",
    "CREATE TRIGGER on_t AFTER INSERT ON t BEGIN INSERT INTO log VALUES ('t ' || new.a); END",
    "CREATE TRIGGER on_v INSTEAD OF INSERT ON v BEGIN INSERT INTO t(b) VALUES (new.B); END",
    "CREATE TRIGGER on_other AFTER INSERT ON other BEGIN UPDATE t SET b = 'seen' WHERE a = new.a; END",
    "INSERT INTO t(a, b) VALUES (90, 'old')",
]


def test_replacing_keeps_all_that_belongs_to_the_table(full) -> None:
    full.batch(DEFINED)
    before = schema(full)
    full.load(SMALL, "T", if_exists="replace")
    assert [entry for entry in schema(full) if entry[1] != "t"] == [entry for entry in before if entry[1] != "t"]
    assert rows(full) == [(1, "x", 2), (2, None, 4), (3, "z", 6)]
    assert rows(full, "SELECT * FROM log") == [("t 90",)]  # no trigger runs
    assert rows(full, "SELECT * FROM w") == [(3,)]
    full.batch(["INSERT INTO other VALUES (2)", "INSERT INTO v(B) VALUES ('Q')"])
    assert rows(full, "SELECT a, b FROM t WHERE a > 1") == [(2, "seen"), (3, "z"), (91, "Q")]  # no number comes twice
    with pytest.raises(errors.StatementError, match="CHECK"):
        full.execute("INSERT INTO t(b) VALUES ('bad')")
    assert rows(full, "PRAGMA integrity_check") == [("ok",)]


def test_the_constraints_that_are_kept_are_checked(full) -> None:
    full.batch(DEFINED)
    with pytest.raises(errors.LoadError, match=r"row 2 \(a = 1\): UNIQUE constraint failed: t\.a; nothing was changed"):
        full.load(pd.DataFrame({"a": [1, 1], "b": ["x", "y"]}), "t", if_exists="replace")
    assert rows(full, "SELECT a FROM t") == [(90,)]


@pytest.mark.parametrize("definition", ["a INTEGER PRIMARY KEY, b TEXT) STRICT", "a PRIMARY KEY, b) WITHOUT ROWID"])
def test_kinds_of_tables_are_kept(full, definition) -> None:
    full.batch([f"CREATE TABLE t({definition}", "INSERT INTO t VALUES (9, 'old')"])
    full.load(SMALL, "t", if_exists="replace")
    assert schema(full)[0][2] == f'CREATE TABLE "t"({definition}'
    assert rows(full) == [(1, "x"), (2, None), (3, "z")]


def test_foreign_keys_of_the_table_itself_are_kept(full) -> None:
    full.batch([
        "CREATE TABLE parent(a PRIMARY KEY)", "INSERT INTO parent VALUES (1), (2), (3)",
        "CREATE TABLE t(a REFERENCES parent(a), b)",
    ])  # fmt: skip
    full.load(SMALL, "t", if_exists="replace")
    assert rows(full, "SELECT \"table\" FROM pragma_foreign_key_list('t')") == [("parent",)]


def test_other_columns_make_another_table_and_keep_what_still_fits(full) -> None:
    full.batch(["CREATE TABLE t(a, gone)", "CREATE INDEX plain ON t(a)", "CREATE VIEW v AS SELECT a FROM t"])
    full.load(SMALL, "t", if_exists="replace")
    assert schema(full) == [
        ("index", "plain", "CREATE INDEX plain ON t(a)"),
        ("table", "t", 'CREATE TABLE "t" ("a" INTEGER, "b" TEXT)'),
        ("view", "v", "CREATE VIEW v AS SELECT a FROM t"),
    ]


@pytest.mark.parametrize(
    "more",
    [
        "CREATE INDEX plain ON t(gone)",
        "CREATE VIEW v AS SELECT gone FROM t",
        "CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT new.gone; END",
        "CREATE TRIGGER g AFTER DELETE ON t BEGIN SELECT old.gone; END",
        "CREATE TRIGGER g AFTER UPDATE ON t BEGIN SELECT old.gone; END",
    ],
)
def test_objects_that_do_not_fit_other_columns_are_refused(full, more) -> None:
    full.batch(["CREATE TABLE t(a, gone)", more, "INSERT INTO t VALUES (1, 2)"])
    before = schema(full)
    with pytest.raises(errors.LoadError, match="nothing was changed") as caught:
        full.load(SMALL, "t", if_exists="replace")
    assert "drop it first" in caught.value.hint
    assert (schema(full), rows(full)) == (before, [(1, 2)])


@pytest.mark.parametrize("column", ["gone", '"gone"', "a, `gone` DESC"])
def test_an_index_on_a_missing_column_is_refused(full, column) -> None:
    full.batch(["CREATE TABLE t(a, b, gone)", f'CREATE INDEX "i x" ON t({column})', "INSERT INTO t VALUES (1, 2, 3)"])
    before = schema(full)
    with pytest.raises(errors.LoadError, match="the index i x is on gone, which the frame does not have") as caught:
        full.load(SMALL, "t", if_exists="replace")
    assert (schema(full), rows(full)) == (before, [(1, 2, 3)])
    full.execute(caught.value.hint.partition(": ")[2])
    full.load(SMALL, "t", if_exists="replace")
    assert rows(full) == [(1, "x"), (2, None), (3, "z")]


def test_values_that_a_kept_definition_would_change(full) -> None:
    full.batch(["CREATE TABLE t(a INTEGER PRIMARY KEY, b INTEGER)", "INSERT INTO t VALUES (9, 9)"])
    frame = pd.DataFrame({"a": [1], "b": ["007"]})
    with pytest.raises(errors.LoadError, match="'007' would become another value") as caught:
        full.load(frame, "t", if_exists="replace")
    assert "types=" in caught.value.hint
    full.load(frame, "t", if_exists="replace", types={"b": "TEXT"})
    assert rows(full) == [(1, "007")]


def test_a_plain_definition_is_replaced_if_it_would_change_values(full) -> None:
    full.load(pd.DataFrame({"a": [7]}), "t")
    full.load(pd.DataFrame({"a": ["007"]}), "t", if_exists="replace")
    assert rows(full) == [("007",)]


@pytest.mark.parametrize("name", ['a"b', "[x]", "é😀", "a;DROP TABLE t"])
def test_hostile_names_with_all_that_belongs_to_them(full, name) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    full.batch([
        f"CREATE TABLE {quoted}(a PRIMARY KEY, b)", f'CREATE INDEX "i{quoted[1:]} ON {quoted}(b)',
        f'CREATE VIEW "v{quoted[1:]} AS SELECT a FROM {quoted}',
        f'CREATE TRIGGER "g{quoted[1:]} AFTER INSERT ON {quoted} BEGIN SELECT 1; END',
    ])  # fmt: skip
    before = schema(full)
    full.load(SMALL, name, if_exists="replace")
    full.load(SMALL.assign(b=["new", "new", "new"]), name, if_exists="upsert", keys=["a"])
    assert schema(full) == [(kind, entry, text) for kind, entry, text in before]
    assert rows(full, f"SELECT b FROM {quoted}") == [("new",)] * 3


# -- upsert


def test_an_upsert_updates_and_inserts(full) -> None:
    full.batch(["CREATE TABLE t(a INTEGER PRIMARY KEY, b, kept DEFAULT 7)", "INSERT INTO t VALUES (2, 'old', 5)"])
    full.load(SMALL, "t", if_exists="upsert", keys=["A"])
    assert rows(full) == [(1, "x", 7), (2, None, 5), (3, "z", 7)]


def test_an_upsert_by_several_columns(full) -> None:
    full.batch(["CREATE TABLE t(a, b, n)", "CREATE UNIQUE INDEX u ON t(b, a)", "INSERT INTO t VALUES (1, 'x', 0)"])
    full.load(pd.DataFrame({"a": [1, 1], "b": ["x", "y"], "n": [5, 6]}), "t", if_exists="upsert", keys=["a", "b"])
    assert rows(full) == [(1, "x", 5), (1, "y", 6)]


def test_without_a_table_an_upsert_makes_one_with_the_key(full) -> None:
    full.load(SMALL, "t", if_exists="upsert", keys=["a"])
    full.load(SMALL.assign(b="new"), "t", if_exists="upsert", keys=["a"])
    assert rows(full) == [(1, "new"), (2, "new"), (3, "new")]


@pytest.mark.parametrize(
    ("table", "keys", "message"),
    [
        ("t(a, b)", ["a"], "t has no unique index on a"),
        ("t(a UNIQUE, b)", ["a", "b"], "t has no unique index on a, b"),
        ("t(a, b, PRIMARY KEY (a, b))", ["a"], "t has no unique index on a"),
        ("t(a PRIMARY KEY, b)", ["nope"], "the frame has no key column nope"),
        ("t(a PRIMARY KEY, b NOT NULL)", ["a"], "NOT NULL constraint failed"),
        ("t(a PRIMARY KEY, b, c NOT NULL)", ["a"], "the frame has no c"),
    ],
)
def test_invalid_upserts(full, table, keys, message) -> None:
    full.batch([f"CREATE TABLE {table}"])
    frame = SMALL if message.startswith("NOT NULL") else SMALL.fillna("y")
    with pytest.raises(errors.LoadError, match=message) as caught:
        full.load(frame, "t", if_exists="upsert", keys=keys)
    assert "nothing was changed" in caught.value.message
    assert rows(full) == []
    assert len(schema(full)) == 1


def test_an_integer_of_a_key_of_several_columns_does_not_fill_itself(full) -> None:
    full.batch(["CREATE TABLE t(a, b, c INTEGER, PRIMARY KEY (a, c))"])
    with pytest.raises(errors.LoadError, match="the frame has no c"):
        full.load(SMALL, "t", if_exists="append")
    assert rows(full) == []


def test_an_index_on_a_part_of_the_rows_is_no_key(full) -> None:
    full.batch(["CREATE TABLE t(a, b)", "CREATE UNIQUE INDEX u ON t(a) WHERE b", "CREATE UNIQUE INDEX e ON t(a + 1)"])
    with pytest.raises(errors.LoadError, match="no unique index on a"):
        full.load(SMALL, "t", if_exists="upsert", keys=["a"])


def test_keys_have_to_be_there_and_differ(full) -> None:
    full.execute("CREATE TABLE t(a TEXT COLLATE NOCASE PRIMARY KEY, n)")
    with pytest.raises(errors.LoadError, match="column a: the key of row 2 is NULL"):
        full.load(pd.DataFrame({"a": ["x", None], "n": [1, 2]}), "t", if_exists="upsert", keys=["a"])
    with pytest.raises(errors.LoadError, match=r"several rows have the same key \(a = '[xX]'\)"):
        full.load(pd.DataFrame({"a": ["x", "X"], "n": [1, 2]}), "t", if_exists="upsert", keys=["a"])
    assert rows(full) == []


@pytest.mark.parametrize("wish", [{"if_exists": "upsert"}, {"if_exists": "append", "keys": ["a"]}])
def test_keys_and_upsert_go_together(full, wish) -> None:
    with pytest.raises(errors.LoadError, match="requires if_exists='upsert'"):
        full.load(SMALL, "t", **wish)


# -- types


def test_given_types(full) -> None:
    full.load(SMALL, "t", types={"A": "BIGINT", "b": "VARCHAR(10)"})
    assert schema(full) == [("table", "t", 'CREATE TABLE "t" ("a" BIGINT, "b" VARCHAR(10))')]


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ({"nope": "TEXT"}, "the frame has no column nope"),
        ({"a": "TEXT"}, "column a: declared TEXT, where '1' would become another value"),
        ({"a": "INTEGER PRIMARY KEY"}, "is not a type"),
        ({"a": "INTEGER AS (1)"}, "is not a type"),
        ({"a": "INTEGER); DROP TABLE u; --"}, "is not a type"),
        ({"a": ""}, "is not a type"),
        ({"a": "'x'"}, "is not a type"),
    ],
)
def test_invalid_types(full, types, message) -> None:
    with pytest.raises(errors.LoadError, match=message):
        full.load(SMALL, "t", types=types)
    assert schema(full) == []


def test_types_are_for_new_tables(full) -> None:
    full.load(SMALL, "t")
    with pytest.raises(errors.LoadError, match="table t already exists; types"):
        full.load(SMALL, "t", if_exists="append", types={"a": "REAL"})


# -- the window


@pytest.mark.parametrize("wish", [{"if_exists": "append"}, {"if_exists": "upsert", "keys": ["a"]}])
def test_rows_that_would_exceed_a_transaction_are_refused_before(full, monkeypatch, wish) -> None:
    full.batch(["CREATE TABLE t(a PRIMARY KEY, b)", "CREATE TABLE log(a)",
                "CREATE TRIGGER g AFTER INSERT ON t BEGIN INSERT INTO log VALUES (new.a); END"])  # fmt: skip
    monkeypatch.setattr(loading, "SAMPLED", 3)
    monkeypatch.setattr(loading, "SHARE", -1e9)
    sent = []
    run = ClientStream.run
    monkeypatch.setattr(
        ClientStream, "run", lambda stream, stmts, **how: sent.append(stmts) or run(stream, stmts, **how)
    )
    with pytest.raises(errors.LoadError, match="takes longer than the 5 s of a transaction; nothing was changed"):
        full.load(pd.DataFrame({"a": range(30), "b": "x"}), "t", **wish)
    assert sent
    assert not any("DROP TABLE" in str(stmts) for stmts in sent)  # the switch was not even sent
    assert (rows(full), rows(full, "SELECT * FROM log")) == ([], [])
    assert [name for _, name, _ in schema(full)] == ["g", "log", "t"]


def test_rows_that_fit_are_measured_and_then_added(full, monkeypatch) -> None:
    full.execute("CREATE TABLE t(a PRIMARY KEY, b)")
    monkeypatch.setattr(loading, "SAMPLED", 3)
    assert full.load(pd.DataFrame({"a": range(30), "b": "x"}), "t", if_exists="append") == 30
    assert rows(full, "SELECT count(*), sum(a) FROM t") == [(30, 435)]


# -- what was left behind


def test_old_staging_tables_are_removed_and_young_ones_are_not(full, monkeypatch) -> None:
    young = loading.new_name()
    monkeypatch.setattr(time, "time", lambda: 1e9)
    old = loading.new_name()
    monkeypatch.undo()
    others = ["_pipemagic_load_mine", "_pipemagic_load_zzzzzzzz_00000000"]
    full.batch([f'CREATE TABLE "{name}"(a)' for name in (old, young, *others)])
    full.load(SMALL, "t")
    assert [name for _, name, _ in schema(full)] == sorted([young, *others, "t"])


def test_a_table_that_this_process_could_not_remove_is_removed_by_its_next_load(full, monkeypatch) -> None:
    name = loading.new_name()
    full.execute(f"CREATE TABLE {name}(a)")

    def fail(*_):
        raise errors.ConnectError("down")

    with monkeypatch.context() as down:
        down.setattr(type(full), "execute", fail)
        assert loading.drop(full, name) is False
    full.load(SMALL, "t")
    assert [name for _, name, _ in schema(full)] == ["t"]
