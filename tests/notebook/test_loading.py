"""The options, output and errors of %pipedb load and copy."""

from __future__ import annotations

from typing import ClassVar

import pytest

LOADED = "Loaded 2 rows and 2 columns into t."
FRAME = "import pandas\nflights = pandas.DataFrame({'n': [1, 2], 'from': ['a', None]})"


@pytest.mark.parametrize("server", ["embedded", "sqld"])
def test_the_four_ways_to_load(db):
    db(FRAME)
    line = "%pipedb load flights --table t"
    assert db(line).lines == [LOADED]
    assert "table t already exists" in db.fails(line).out
    assert db(f"{line} --append").lines == [LOADED]
    assert db(f"{line} --replace").lines[0].startswith(LOADED.removesuffix("."))
    assert "t has no unique index on n" in db.fails(f"{line} --upsert n").out
    db('%sql CREATE UNIQUE INDEX u ON t(n, "from")')
    assert "the key of row 2 is NULL" in db.fails(f"{line} --upsert n,from").out
    db("flights['from'] = ['a', 'b']")
    assert db(f"{line} --upsert 'n, \"from\"'").lines == [LOADED]
    assert db('%sql SELECT n, "from" FROM t ORDER BY 1, 2').value.values.tolist()[0] == [1, "a"]


def test_types(db):
    db(FRAME)
    made = db('%pipedb load flights --table "t t" --types \'n=DECIMAL(10, 2),"from"=VARCHAR(9)\'')
    assert made.lines == ["Loaded 2 rows and 2 columns into t t."]
    assert db("%pipedb schema 't t'").out.count("DECIMAL(10, 2)") == 1
    assert "is not a type" in db.fails("%pipedb load flights --table u --types 'n=INTEGER PRIMARY KEY'").out
    assert "'1' would become another value" in db.fails("%pipedb load flights --table u --types n=TEXT").out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--append --upsert n", "--append and --upsert cannot be used together"),
        ("--types n", "--types must be column=TYPE,..., not 'n'"),
        ("--types n=TEXT,", "the list has an empty item\nHint: write --types n=TEXT"),
        ("--upsert ,", "--upsert requires at least one name"),
    ],
)
def test_wrong_lines(shell, options, message):
    shell(FRAME)
    assert message in shell.fails(f"%pipedb load flights --table t {options}").out


def test_long_lists_of_types_are_cut_and_quiet_hides_them(db):
    db("import pandas\nwide = pandas.DataFrame({f'c{n}': [b'x'] for n in range(20)}, dtype=object)")
    line = db("%pipedb load wide --table w").lines[0]
    assert line.startswith("Loaded 1 row and 20 columns into w (c0: BLOB, ")
    assert line.endswith(", c11: BLOB, and 8 more).")
    db("%config PipeMagic.quiet = True")
    assert db("%pipedb load wide --table w2").lines == ["Loaded 1 row and 20 columns into w2."]


def test_names_that_the_list_of_types_would_hide_are_in_quotes(db):
    db("import pandas\nodd = pandas.DataFrame({' a': [b'x'], 'b, c': [b'x'], 'd: e (f)': [b'x']}, dtype=object)")
    assert db("%pipedb load odd --table odd").lines == [
        'Loaded 1 row and 3 columns into odd (" a": BLOB, "b, c": BLOB, "d: e (f)": BLOB).'
    ]


def test_a_replaced_table_with_constraints_keeps_its_types_and_the_line_says_so(db):
    db(FRAME)
    db("%sql CREATE TABLE T (n BIGINT PRIMARY KEY, 'from' VARCHAR(9))")
    kept = ", which keeps its declared types because it has constraints."
    assert db("%pipedb load flights --table t --replace").lines == [f"Loaded 2 rows and 2 columns into T{kept}"]
    db("%config PipeMagic.quiet = True")
    assert db("%pipedb load flights --table t --replace").lines == ["Loaded 2 rows and 2 columns into T."]


def test_inferred_types_are_listed(db):
    db("""import pandas, datetime, decimal
odd = pandas.DataFrame({
    "whole": [1, 2], "real": [0.5, 1.5], "text": ["a", "b"], "kind": pandas.Categorical(["x", "y"]),
    "day": [datetime.date(2026, 7, 1)] * 2, "price": [decimal.Decimal("1.10")] * 2, "zero": [0.0, -0.0],
    "data": [b"a", b"b"], "mixed": pandas.Series([1, "a"], dtype=object),
    "at": pandas.to_datetime(["2026-07-01", "2026-07-02"]), "zoned": pandas.to_datetime(["2026-07-01"] * 2, utc=True),
})""")
    assert db("%pipedb load odd --table odd").lines == [
        "Loaded 2 rows and 11 columns into odd (day: DATE, price: REAL, zero: no type, data: BLOB, "
        "mixed: no type, at: DATE).",
    ]


def test_the_line_says_what_becomes_of_row_labels_without_a_name(db):
    db("import pandas\nframe = pandas.DataFrame({'n': [1, 2, 3]})")
    db("labels, numbers, plain = frame.set_index(pandas.Index(list('abc'))), frame.set_axis([5, 3, 4]), frame")
    line = "%pipedb load {0} --table {0}"
    assert db(line.format("labels")).lines == [
        "Loaded 3 rows and 2 columns into labels, with the row labels as column index."
    ]
    assert db(line.format("numbers")).lines == ["Loaded 3 rows and 1 column into numbers, without the row labels."]
    assert db(line.format("plain")).lines == ["Loaded 3 rows and 1 column into plain."]
    assert db("%sql SELECT * FROM labels").value.to_dict("list") == {"index": ["a", "b", "c"], "n": [1, 2, 3]}


def test_large_numbers_have_separators(db):
    db("import pandas\nmany = pandas.DataFrame({'n': range(1234)})")
    assert db("%pipedb load many --table many").lines == ["Loaded 1,234 rows and 1 column into many."]
    assert db("%sql DELETE FROM many WHERE n >= 0").lines == ["1,234 rows affected."]


@pytest.mark.parametrize("server", ["embedded", "sqld"])
def test_copy(db):
    db(FRAME)
    db("%pipedb load flights --table t")
    db("url = get_ipython().magics_manager.registry['PipeMagics'].session.connection().database.url")
    db(f"%pipedb connect {db.names['url']} --as other --token-env DB_TOKEN\n%pipedb use db")
    assert db("%pipedb copy t --to other --as 'we\"ird'").lines == ['Copied 2 rows into we"ird on other.']
    assert "already exists" in db.fails("%pipedb copy t --to other --as 'we\"ird'").out
    assert db("%pipedb copy t --to other --as 'we\"ird' --append").lines == ['Copied 2 rows into we"ird on other.']
    assert db('%sql SELECT count(*) AS c FROM "we""ird"').value["c"].tolist() == [4]
    assert db("%pipedb copy t --to other --as 'we\"ird' --replace").lines == ['Copied 2 rows into we"ird on other.']
    assert "copied onto itself" in db.fails("%pipedb copy t --to other --replace").out
    assert "table nope does not exist" in db.fails("%pipedb copy nope --to other").out
    assert "connection 'nowhere' does not exist" in db.fails("%pipedb copy t --to nowhere").out
    assert "--to NAME is missing" in db.fails("%pipedb copy t").out
    db("%sql --on other BEGIN")
    assert "a transaction is open on other" in db.fails("%pipedb copy t --to other --as x").out
    db("%sql --on other ROLLBACK")


def test_the_schema_before_the_name_of_a_copy(db):
    db(FRAME)
    db("%pipedb load flights --table t")
    db("url = get_ipython().magics_manager.registry['PipeMagics'].session.connection().database.url")
    db(f"%pipedb connect {db.names['url']} --as other --token-env DB_TOKEN\n%pipedb use db")
    assert db("%pipedb copy main.t --to other --as main.u").lines == ["Copied 2 rows into u on other."]
    assert db("%sql SELECT count(*) AS c FROM main.u").value["c"].tolist() == [2]
    assert db("%pipedb copy t --to other --as '\"main.u\"'").lines == ["Copied 2 rows into main.u on other."]
    assert db('%sql SELECT count(*) AS c FROM "main.u"').value["c"].tolist() == [2]
    refused = db.fails("%pipedb copy t --to other --as public.u").out
    assert "schema public does not exist; tables are in main" in refused
    assert "write '\"public.u\"' if the name of the table contains the point" in refused
    assert sorted(db("%pipedb tables").value["table"]) == ["main.u", "t", "u"]


def test_load_and_copy_notify_panels(db):
    class Listener:
        told: ClassVar[list[str]] = []

        def hear(self, connection):
            self.told.append(connection.name)

    listener = Listener()
    db.ip.magics_manager.registry["PipeMagics"].session.written.connect(listener.hear)
    db("import pandas\nflights = pandas.DataFrame({'n': [1, 2]})")
    db("%pipedb load flights --table t")
    assert listener.told == ["db"]
    db("%pipedb copy t --to db --as u")
    assert listener.told == ["db", "db"]


def test_completion_knows_loaded_and_copied_tables(db):
    schema = db.ip.magics_manager.registry["PipeMagics"].session.connection().schema
    schema.start()
    assert schema.ready.wait(30)
    db("import pandas\nflights = pandas.DataFrame({'n': [1, 2]})\n%pipedb load flights --table t")
    assert schema.ready.wait(30)
    assert [table.name for table in schema.tables] == ["t"]
    db("%pipedb copy t --to db --as u")
    assert schema.ready.wait(30)
    assert {table.name for table in schema.tables} == {"t", "u"}
