"""Results as Arrow tables, Polars frames and files: every value as the database holds it."""

from __future__ import annotations

import csv
import datetime
import math
import sys

import polars as pl
import pytest

from pipemagic.errors import ProtocolError, SessionError, UnsupportedError
from pipemagic.frames.arrow_polars import check_type, converter, to_arrow, to_polars
from pipemagic.frames.columnar import columnar
from pipemagic.frames.files import is_encoding, write_csv, write_parquet
from pipemagic.hrana.messages import Col, StmtResult
from pipemagic.hrana.values import Float, Integer, encode

pa = pytest.importorskip("pyarrow")  # `.ci/run` runs these tests with it and without
parquet = pytest.importorskip("pyarrow.parquet")

UTC = datetime.UTC
WHEN = datetime.datetime(2024, 1, 31, 10, 30)


def result(*columns) -> StmtResult:
    """Make a result of (name, declared type, values)."""
    cols = [Col(name, declared) for name, declared, _ in columns]
    rows = zip(*(values for *_, values in columns), strict=True)
    return StmtResult(cols=cols, rows=[[encode(value) for value in row] for row in rows])


CASES = [
    ("INTEGER", [2**63 - 1, None, -(2**63)], pa.int64(), pl.Int64(), None),
    ("REAL", [0.1, None, -0.0], pa.float64(), pl.Float64(), None),
    ("TEXT", ["a\0b", None, "☃"], pa.string(), pl.String(), None),
    ("BLOB", [b"\0\xff", None, b""], pa.binary(), pl.Binary(), None),
    ("BOOLEAN", [1, None, 0], pa.bool_(), pl.Boolean(), [True, None, False]),
    ("BOOLEAN", [1, None, 2], pa.int64(), pl.Int64(), None),
    ("DATE", ["2024-01-31", None], pa.timestamp("us"), pl.Datetime("us"), [datetime.datetime(2024, 1, 31), None]),
    ("DATETIME", ["2024-01-31 10:30:00.000001"], pa.timestamp("us"), pl.Datetime("us"),
     [WHEN.replace(microsecond=1)]),
    ("TIMESTAMP", ["2024-01-31 12:30:00+02:00", None], pa.timestamp("us", "UTC"), pl.Datetime("us", "UTC"),
     [WHEN.replace(tzinfo=UTC), None]),
    ("DATETIME", ["2024-01-31 10:30:00.000001000", None], pa.timestamp("ns"), pl.Datetime("ns"),
     [WHEN.replace(microsecond=1), None]),
    ("TIMESTAMP", ["2024-01-31 12:30:00.000001000+02:00"], pa.timestamp("ns", "UTC"), pl.Datetime("ns", "UTC"),
     [WHEN.replace(microsecond=1, tzinfo=UTC)]),
    ("DATE", ["2024-02-30"], pa.string(), pl.String(), None),
    ("DECIMAL(9,2)", [1, 2.5, None], pa.float64(), pl.Float64(), [1.0, 2.5, None]),
    ("", [1, 2.5], pa.float64(), pl.Float64(), [1.0, 2.5]),
    ("", [2**53 + 1, 0.1], pa.string(), pl.String(), ["9007199254740993", "0.1"]),
    ("", [1, "x", None], pa.string(), pl.String(), ["1", "x", None]),
    ("", [1, b"x", "ü"], pa.binary(), pl.Binary(), [b"1", b"x", "ü".encode()]),
    ("INTEGER", [None, None], pa.int64(), pl.Int64(), None),
    ("", [None], pa.null(), pl.Null(), None),
    ("BOOLEAN", [], pa.bool_(), pl.Boolean(), None),
    ("VARCHAR(3)", [], pa.string(), pl.String(), None),
    ("DOUBLE", [], pa.float64(), pl.Float64(), None),
    ("BLOB", [], pa.binary(), pl.Binary(), None),
    ("DATETIME", [None], pa.timestamp("us"), pl.Datetime("us"), None),
    ("DECIMAL", [], pa.float64(), pl.Float64(), None),
]  # fmt: skip


@pytest.mark.parametrize(("declared", "values", "arrow", "polars", "expected"), CASES)
def test_the_type_and_the_values_of_a_column(declared, values, arrow, polars, expected):
    table, frame = to_arrow(result(("x", declared, values))), to_polars(result(("x", declared, values)))
    assert table.schema.field("x").type == arrow
    assert frame.schema["x"] == polars
    expected = values if expected is None else expected
    assert table.column("x").to_pylist() == expected
    assert frame["x"].to_list() == expected
    for given, read in ((values, table.column("x").to_pylist()), (values, frame["x"].to_list())):
        signs = [math.copysign(1, value) for value in given if isinstance(value, float) and declared == "REAL"]
        assert [math.copysign(1, value) for value in read if isinstance(value, float) and declared == "REAL"] == signs


def test_a_changed_type_is_noted_once():
    notes = []
    mixed = result(("a", "", [1, "x"]), ("b", "", [1, b"x"]), ("c", "", [1, 2.5]))
    to_arrow(mixed, note=notes.append)
    assert [note.split(".")[0] for note in notes] == [
        "Column a has INTEGER and TEXT values, so it becomes text",
        "Column b has INTEGER and BLOB values, so it becomes binary",
    ]


def test_an_infinity_without_a_sign_is_nan_and_noted():
    notes = []
    table = to_arrow(StmtResult(cols=[Col("x")], rows=[[Float(None)], [Float(1.5)]]), note=notes.append)
    assert math.isnan(table.column("x").to_pylist()[0])
    assert "infinities" in notes[0]


def test_duplicate_names():
    notes, twice = [], result(("a", "", [1]), ("a_2", "", [2]), ("a", "", [3]), ("", "", [4]), ("a", "", [5]))
    assert to_arrow(twice).column_names == ["a", "a_2", "a", "", "a"]
    assert to_polars(twice, note=notes.append).rows() == [(1, 2, 3, 4, 5)]
    assert to_polars(twice).columns == ["a", "a_2", "a_3", "", "a_4"]
    assert notes[0] == "Duplicate column name a: renamed to a_3."


def test_no_columns_and_no_rows():
    assert to_arrow(StmtResult()).shape == (0, 0)
    assert to_polars(StmtResult()).shape == (0, 0)
    with pytest.raises(ProtocolError, match="wrong number of values"):
        to_arrow(StmtResult(cols=[Col("a")], rows=[[]]))


def test_polars_does_not_need_arrow(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert converter("polars")(result(("a", "DATETIME", ["2024-01-31 10:30"]))).rows() == [(WHEN,)]


@pytest.mark.parametrize(("kind", "package"), [("polars", "polars"), ("arrow", "pyarrow")])
def test_a_package_that_is_missing_is_named(kind, package, monkeypatch):
    monkeypatch.setattr("pipemagic.frames.arrow_polars.find_spec", lambda name: None)
    with pytest.raises(UnsupportedError, match=f"{package} is not installed\nHint: %pip install {package}"):
        check_type(kind)


HOSTILE = ["a,b", 'say "so"', "two\nlines", "\r", "", " blank ", None, "NULL", "a\0b", "=1+1", "☃"]


def test_csv_is_exact(tmp_path):
    wire = result(
        ("id", "INTEGER", [2**63 - 1 - n if n else None for n in range(len(HOSTILE))]),
        ('na"me, or\nso', "TEXT", HOSTILE),
        ("x", "REAL", [0.1 + 0.2 * n for n in range(len(HOSTILE))]),
        ("when", "DATE", ["2024-01-31"] * len(HOSTILE)),
    )
    assert write_csv(tmp_path / "x.csv", wire.cols, [wire.rows]) == len(HOSTILE)
    with (tmp_path / "x.csv").open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    assert head == ["id", 'na"me, or\nso', "x", "when"]
    assert [row[1] for row in rows] == ["" if text is None else text for text in HOSTILE]
    assert [row[0] for row in rows][:2] == ["", str(2**63 - 2)]
    assert [float(row[2]) for row in rows] == [0.1 + 0.2 * n for n in range(len(HOSTILE))]
    text = (tmp_path / "x.csv").read_bytes().decode()
    assert f'{2**63 - 7}," blank ",' not in text
    assert f"\n{2**63 - 1 - 6},," in text  # NULL
    assert f'\n{2**63 - 1 - 4},"",' in text  # an empty string


def test_infinities_in_csv_are_noted(tmp_path):
    wire, notes = result(("a", "REAL", [1.5, None]), ("", "REAL", [None, 2.5]), ("c", "", ["NaN", 1])), []
    wire.rows[0][1] = Float(None)
    write_csv(tmp_path / "x.csv", wire.cols, [wire.rows], note=notes.append)
    assert (tmp_path / "x.csv").read_text() == 'a,"",c\n1.5,NaN,NaN\n,2.5,1\n'
    assert [note.split(" because")[0] for note in notes] == [
        "Column number 2 has infinities, which are NaN in the file"
    ]


@pytest.mark.parametrize(
    "read", [list, lambda rows: columnar([Col("a", None), Col("b", None)], [rows])], ids=["rows", "columns"]
)
def test_an_infinity_among_values_of_several_kinds_is_noted(tmp_path, read):
    notes = []
    rows = [[Float(0.5), Integer("1")], [Float(1.5), Float(None)]]
    write_csv(tmp_path / "a.csv", [Col("a", None), Col("b", None)], [read(rows)], note=notes.append)
    assert [note.split(" because")[0] for note in notes] == ["Column b has infinities, which are NaN in the file"]
    assert (tmp_path / "a.csv").read_text() == "a,b\n0.5,1\n1.5,NaN\n"


def test_a_row_of_one_null_is_not_an_empty_line(tmp_path):
    wire = result(("a", "", [1, None, 2]))
    write_csv(tmp_path / "x.csv", wire.cols, [wire.rows])
    assert (tmp_path / "x.csv").read_text() == 'a\n1\n""\n2\n'


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("as it was")
    wire = result(("a", "", [1, b"x"]))
    with pytest.raises(UnsupportedError, match="column a contains bytes, which CSV cannot represent"):
        write_csv(path, wire.cols, [wire.rows])
    assert path.read_text() == "as it was"
    assert list(tmp_path.iterdir()) == [path]
    write_csv(path, wire.cols, [wire.rows[:1]])
    assert path.read_text() == "a\n1\n"


def test_csv_in_another_encoding(tmp_path):
    wire = result(("größe", "", ["1 €", None, "é,"]))
    for encoding in ("utf-8-sig", "cp1252", "utf-16", "cp1140"):
        assert write_csv(tmp_path / "x.csv", wire.cols, [wire.rows], encoding=encoding) == 3
        assert (tmp_path / "x.csv").read_bytes() == 'größe\n1 €\n""\n"é,"\n'.encode(encoding)
    write_csv(tmp_path / "x.csv", [Col("name", None)], [], encoding="utf-8-sig")
    assert (tmp_path / "x.csv").read_bytes() == b"\xef\xbb\xbfname\n"


@pytest.mark.parametrize("by_columns", [False, True])
def test_text_that_an_encoding_does_not_have_is_refused_with_its_row(tmp_path, by_columns):
    texts = ["a"] * 10_001 + ["¥"]  # in the second batch; shift_jis of Python makes it a backslash
    wire = result(("id", "", list(range(len(texts)))), ("t", "", texts))
    batches = [columnar(wire.cols, [wire.rows])] if by_columns else [wire.rows[:5], wire.rows[5:]]
    for encoding in ("ascii", "shift_jis"):
        with pytest.raises(UnsupportedError) as caught:
            write_csv(tmp_path / "x.csv", wire.cols, batches, encoding=encoding)
        message = f"row 10,002 of column t, '¥', cannot be encoded as {encoding}; no file was written"
        assert caught.value.message == message
    with pytest.raises(UnsupportedError, match="the column name 'größe' cannot be encoded as ascii"):
        write_csv(tmp_path / "x.csv", [Col("größe", None)], [], encoding="ascii")
    assert list(tmp_path.iterdir()) == []


def test_encodings_that_text_files_can_have():
    names = (
        "utf-8",
        "UTF-8-SIG",
        "latin-1",
        "windows-1252",
        "cp500",
        "gb18030",
        "hex",
        "idna",
        "rot13",
        "",
        "x\0",
        "é",
    )
    assert [name for name in names if is_encoding(name)] == list(names[:6])


def test_paths_where_no_file_can_be_created(tmp_path):
    with pytest.raises(SessionError, match="is a folder"):
        write_csv(tmp_path, [], [])
    with pytest.raises(SessionError, match="does not exist"):
        write_parquet(tmp_path / "no" / "x.parquet", result())


def test_parquet_is_exact(tmp_path):
    wire = result(
        ("id", "INTEGER", [2**63 - 1, None]),
        ("data", "BLOB", [b"\0\xff", None]),
        ("when", "TIMESTAMP", ["2024-01-31 12:30:00+02:00", None]),
        ("id", "TEXT", ["a\0b", None]),
    )
    notes = []
    assert write_parquet(tmp_path / "x.parquet", wire, note=notes.append) == 2
    table = parquet.read_table(tmp_path / "x.parquet")
    assert table.column_names == ["id", "data", "when", "id_2"]
    assert table.to_pylist()[0] == {
        "id": 2**63 - 1, "data": b"\0\xff", "when": WHEN.replace(tzinfo=UTC), "id_2": "a\0b",
    }  # fmt: skip
    assert notes == ["Duplicate column name id: renamed to id_2."]
    assert [path.name for path in tmp_path.iterdir()] == ["x.parquet"]
