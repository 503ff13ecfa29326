"""Parameters and names in cells, on both servers: every row of the tables in docs/analysts/parameters.md."""

from __future__ import annotations

import pytest

from pipemagic.errors import ParameterError

VALUES = [  # an expression in Python; typeof() and quote() of the value in SQLite
    ("None", "null", "NULL"),
    ("True", "integer", "1"),
    ("-2**63", "integer", "-9223372036854775808"),
    ("2**63 - 1", "integer", "9223372036854775807"),
    ("0.1 + 0.2", "real", "0.30000000000000004"),
    ("5e-324", "real", "4.94065645841246544177e-324"),
    ("-0.0", "real", "-0.0"),
    ("float('nan')", "null", "NULL"),
    ("'it''s' + chr(0x1f695)", "text", "'its\U0001f695'"),
    ("b'\\x00\\xff'", "blob", "X'00FF'"),
    ("bytearray(b'ab')", "blob", "X'6162'"),
    ("memoryview(b'abcd')[::2]", "blob", "X'6163'"),
    ("datetime.datetime(2026, 7, 1, 12, 30)", "text", "'2026-07-01 12:30:00'"),
    ("datetime.datetime(2026, 7, 1, 12, 30, 5, 250)", "text", "'2026-07-01 12:30:05.000250'"),
    ("datetime.datetime(2026, 7, 1, 12, tzinfo=datetime.timezone.utc)", "text", "'2026-07-01 12:00:00+00:00'"),
    ("datetime.date(2026, 7, 1)", "text", "'2026-07-01'"),
    ("datetime.time(12, 30)", "text", "'12:30:00'"),
    ("datetime.time(12, 30, tzinfo=datetime.timezone.utc)", "text", "'12:30:00+00:00'"),
    ("decimal.Decimal('1.10')", "real", "1.1"),
    (
        "datetime.datetime(2026, 7, 1, 12, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))",
        "text",
        "'2026-07-01 10:00:00+00:00'",
    ),
    ("decimal.Decimal('NaN')", "null", "NULL"),
    ("uuid.UUID(int=1)", "text", "'00000000-0000-0000-0000-000000000001'"),
    ("pathlib.PurePosixPath('/data/x')", "text", "'/data/x'"),
    ("enum.Enum('Size', {'L': 3}).L", "integer", "3"),
    ("np.int16(-5)", "integer", "-5"),
    ("np.uint8(200)", "integer", "200"),
    ("np.bool_(False)", "integer", "0"),
    ("np.float32(0.1)", "real", "0.10000000149011612"),
    ("np.float64('nan')", "null", "NULL"),
    ("np.str_('x')", "text", "'x'"),
    ("np.bytes_(b'x')", "blob", "X'78'"),
    ("np.datetime64('2026-07-01T12:30')", "text", "'2026-07-01 12:30:00'"),
    ("np.datetime64('2026-07')", "text", "'2026-07-01'"),
    ("np.datetime64('NaT', 'us')", "null", "NULL"),
    ("pd.Timestamp('2026-07-01 12:30:00.123456789')", "text", "'2026-07-01 12:30:00.123456789'"),
    ("pd.Timestamp('2026-07-01', tz='UTC')", "text", "'2026-07-01 00:00:00+00:00'"),
    ("pd.NaT", "null", "NULL"),
    ("pd.NA", "null", "NULL"),
]

REFUSED = [
    ("2**63", "the integer 9223372036854775808 does not fit in 64 bits"),
    ("float('inf')", "parameter :v is infinite, which JSON cannot represent"),
    ("np.float64('-inf')", "parameter :v is infinite, which JSON cannot represent"),
    ("decimal.Decimal('Infinity')", "parameter :v is infinite, which JSON cannot represent"),
    ("decimal.Decimal('0.1234567890123456')", "the decimal 0.1234567890123456 has no exact float"),
    (
        "datetime.datetime.max.replace(tzinfo=datetime.timezone(-datetime.timedelta(hours=1)))",
        "outside the years 1 to 9999",
    ),
    ("np.datetime64('2026-07-01T00:00:00.000000000001')", "a time has a resolution finer than 1 ns"),
    ("datetime.timedelta(1)", "SQLite has no timedelta type"),
    ("np.timedelta64(1, 's')", "SQLite has no timedelta type"),
    ("'\\ud83d'", "is not valid Unicode"),
    ("1j", "cannot convert a value of type complex to SQL"),
    ("{}", "cannot convert a value of type dict to SQL"),
    ("pd.DataFrame({'a': [1]})", "cannot convert a value of type DataFrame to SQL"),
    ("object()", "cannot convert a value of type object to SQL"),
]

IMPORTS = "import datetime, decimal, enum, pathlib, uuid\nimport numpy as np, pandas as pd"


def test_each_kind_of_value_is_bound_as_documented(db):
    db(IMPORTS)
    for number, (written, _, _) in enumerate(VALUES):
        db.names[f"v{number}"] = eval(written, db.names)
    each = "typeof(:v{0}) AS t{0}, quote(:v{0}) AS q{0}, :v{0} AS v{0}"
    row = db(f"%sql SELECT {', '.join(map(each.format, range(len(VALUES))))}").value.iloc[0]
    for number, (written, kind, text) in enumerate(VALUES):
        assert (written, row[f"t{number}"]) == (written, kind)
        if kind == "real":
            assert row[f"v{number}"].hex() == float(text).hex(), written
        else:
            assert (written, row[f"q{number}"]) == (written, text)


def test_a_value_without_an_exact_form_is_refused_by_name(shell):
    shell(IMPORTS)
    from pipemagic.session.cell import parse_cell

    for written, message in REFUSED:
        with pytest.raises(ParameterError, match=r"^line 1: ") as caught:
            parse_cell("SELECT :v", {"v": eval(written, shell.names)})
        assert message in caught.value.message, written


def test_lists_of_every_kind_can_follow_in(db):
    db(IMPORTS)
    db("%%sql\nCREATE TABLE t (i INTEGER, x TEXT);\nINSERT INTO t VALUES (1, '1'), (2, 'b'), (3, NULL)")
    for written in ("[1, 3]", "(1, 3)", "{1, 3}", "range(1, 4, 2)", "np.array([1, 3])", "pd.Series([1, 3])"):
        db(f"ids = {written}")
        assert db("%sql SELECT i FROM t WHERE i IN :ids").value["i"].tolist() == [1, 3]
        assert db("%sql SELECT i FROM t WHERE i NOT IN (@ids)").value["i"].tolist() == [2]
    db("ids = []")
    assert db("%sql SELECT i FROM t WHERE i IN $ids").value["i"].tolist() == []
    assert db("%sql SELECT i FROM t WHERE x NOT IN :ids").value["i"].tolist() == [1, 2, 3]
    db("ids = list(range(1, 100_000, 2))")
    assert db("%sql SELECT i FROM t WHERE i IN :ids").value["i"].tolist() == [1, 3]
    assert db("%sql SELECT i FROM t WHERE x IN :ids").value["i"].tolist() == [1]  # text, as with a short list
    assert db("%sql SELECT i FROM t WHERE x NOT IN :ids").value["i"].tolist() == [2]
    db("days = pd.Series(pd.to_datetime(['2026-01-01', '2026-01-02']))")
    assert db("%sql SELECT '2026-01-02 00:00:00' IN :days AS found").value["found"].tolist() == [1]


def test_names_are_quoted_and_values_bound_in_one_statement(db):
    db("table, columns, value = 'we\"ird `t` 🚕', ['two words', 'select'], [\"'; DROP\", 'x']")
    db("%sql CREATE TABLE {table} ({columns})")
    db("%%sql\nINSERT INTO {table} ({columns}) VALUES ('x', 1), ('y', 2)")
    frame = db("%sql SELECT {columns} FROM {table} WHERE `two words` IN :value").value
    assert frame.to_dict("list") == {"two words": ["x"], "select": [1]}


def test_an_error_after_an_expanded_list_has_its_original_position(db):
    db("ids, table = [1, 2, 3], 'a rather long name of a table'")
    db("%sql CREATE TABLE {table} (a)")
    for statement in ("SELECT a FROM {table} WHERE a IN :ids AND nope = 1", "SELECT 1 IN :ids,\n nope FROM {table}"):
        error = db.fails(f"%%sql\nSELECT 1;\n{statement}").error
        shown = error.message.splitlines()
        line = next(part for part in statement.splitlines() if "nope" in part)
        at = shown.index(f"  {line}")
        assert shown[at + 1].index("^") - 2 == line.index("nope")
        assert f"line {3 + statement[: statement.index('nope')].count(chr(10))}:" in error.message
