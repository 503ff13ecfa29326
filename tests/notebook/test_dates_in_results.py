"""Dates in results: times are shown where they are stored, and a column that stays text is noted once."""

from __future__ import annotations

import pandas as pd
import pytest

DAYS = """%%sql --quiet
CREATE TABLE visit (id INTEGER PRIMARY KEY, day DATE, at DATETIME, zoned TIMESTAMP, old DATE);
INSERT INTO visit VALUES
    (1, '2013-01-01', '2013-01-01 00:00:00', '2013-01-01 00:00:00+00:00', '2013-01-01 00:00:00'),
    (2, NULL, NULL, NULL, NULL),
    (3, '2013-01-03', '2013-01-03 00:00:00', '2013-01-03 00:00:00+00:00', '2013-01-03');
"""


@pytest.fixture
def visits(db):
    db(DAYS)
    return db


def shown(cell) -> list[str]:
    """Return the lines of the value of a cell."""
    return [line.rstrip() for line in cell.out.partition("Out[")[2].splitlines()[1:] if line]


def test_midnights_are_shown_as_they_are_compared(visits):
    assert shown(visits("%sql SELECT id, day, at, old FROM visit")) == [
        "   id        day                  at                 old",
        "0   1 2013-01-01 2013-01-01 00:00:00 2013-01-01 00:00:00",
        "1   2        NaT                 NaT                 NaT",
        "2   3 2013-01-03 2013-01-03 00:00:00 2013-01-03 00:00:00",
    ]
    cell = visits("%sql SELECT day, at, zoned FROM visit WHERE id <> 2")
    assert shown(cell)[1] == "0 2013-01-01 2013-01-01 00:00:00 2013-01-01 00:00:00+00:00"
    assert type(cell.value) is pd.DataFrame
    assert [str(dtype) for dtype in cell.value.dtypes] == ["datetime64[us]"] * 2 + ["datetime64[us, UTC]"]
    assert str(cell.value["at"][0]) == "2013-01-01 00:00:00"
    assert "00:00:00" not in visits("_[['day', 'at']]").out  # pandas, in a later cell


def test_midnights_of_several_results_and_in_html(visits):
    cell = visits(
        "%%sql\nSELECT at, day, at FROM visit LIMIT 1;\nSELECT day FROM visit;\nSELECT max(at) AS m FROM visit"
    )
    assert cell.shown[1]["text/plain"].splitlines() == [
        "                   at        day                  at",
        "0 2013-01-01 00:00:00 2013-01-01 2013-01-01 00:00:00",
    ]
    html = cell.shown[1]["text/html"]
    assert html.count("<td>2013-01-01 00:00:00</td>") == 2
    assert html.count("<td>2013-01-01</td>") == 1
    assert "00:00:00" not in cell.shown[2]["text/html"] + cell.shown[2]["text/plain"]
    assert shown(cell) == ["                     m", "0  2013-01-03 00:00:00"]  # text, without a declared type


def test_only_the_rows_that_are_shown_decide(db):
    db(
        "%%sql --quiet\nCREATE TABLE long (at DATETIME);\nINSERT INTO long "
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 99) "
        "SELECT datetime('2013-01-01', CASE i WHEN 50 THEN '50 hours' ELSE i || ' days' END) FROM n"
    )
    cell = db("%sql SELECT * FROM long")
    assert shown(cell)[1] == "0  2013-01-01 00:00:00"
    assert shown(cell)[-2:] == ["99 2013-04-10 00:00:00", "[100 rows x 1 columns]"]
    assert len(shown(cell)) == 13
    db("%config PipeMagic.display_limit = 2")
    assert shown(db("%sql SELECT * FROM long")) == [
        "                    at", "0  2013-01-01 00:00:00", "..                 ...", "99 2013-04-10 00:00:00",
        "[100 rows x 1 columns]",
    ]  # fmt: skip
    html = db("%%sql\nSELECT * FROM long;\nSELECT 1").shown[1]["text/html"]
    assert html.count(" 00:00:00</td>") == 2
    assert "100 rows" in html
    db("%config PipeMagic.display_limit = 0")
    half = shown(db("%sql SELECT datetime(at, '+1 second') AS x, at FROM long WHERE rowid BETWEEN 50 AND 52"))
    assert half[1:] == [
        "0  2013-02-19 00:00:01 2013-02-19 00:00:00",
        "1  2013-01-03 02:00:01 2013-01-03 02:00:00",
        "2  2013-02-21 00:00:01 2013-02-21 00:00:00",
    ]


def test_wide_frames_and_other_formatters(visits):
    columns = ", ".join(f"at AS a{number}" for number in range(30))
    text = visits(f"%sql SELECT {columns}, day FROM visit").out
    assert text.count("2013-01-01 00:00:00") == 3
    assert "[3 rows x 31 columns]" in text
    visits(
        "import pandas as pd\nbundles = get_ipython().display_formatter.mimebundle_formatter\n"
        "_ = bundles.for_type(pd.DataFrame, lambda frame: {'text/x-first': repr(frame.iloc[0, 0])})"
    )
    cell = visits("%%sql\nSELECT at FROM visit;\nSELECT 1")
    assert cell.shown[1]["text/x-first"] == "Timestamp('2013-01-01 00:00:00')"
    visits("_ = bundles.pop(pd.DataFrame)")
    assert visits("%%sql\nSELECT at FROM visit;\nSELECT 1").shown[1].keys() == {"text/plain", "text/html"}
    assert pd.DataFrame not in visits.ip.display_formatter.mimebundle_formatter.type_printers


def test_a_frame_with_other_columns_is_displayed_by_pandas(visits):
    cell = visits("frame = %sql SELECT id, at FROM visit\nframe.insert(0, 'day', frame['at'])\nframe")
    assert shown(cell)[1] == "0 2013-01-01   1 2013-01-01"


@pytest.mark.parametrize("kind", ["polars", "arrow"])
def test_polars_and_arrow_show_times(visits, kind):
    assert visits(f"%sql --type {kind} SELECT at FROM visit").out.count("2013-01-01 00:00:00") == 1


def test_failing_rows_of_a_check_show_their_times(visits):
    visits("%sql --quiet CREATE VIEW both AS SELECT day, at FROM visit")
    failed = visits.fails("%pipedb rules both --rows \"at = '2013-01-01'\"")
    assert failed.shown[0]["text/plain"].splitlines()[1] == "0 2013-01-01 2013-01-01 00:00:00"
    assert "<td>2013-01-01 00:00:00</td>" in failed.shown[0]["text/html"]


POSTS = """%%sql --quiet
CREATE TABLE post (id INTEGER PRIMARY KEY, createdAt DATETIME DEFAULT CURRENT_TIMESTAMP);
INSERT INTO post (createdAt) VALUES ('2026-07-01T10:00:00.000Z'), (1782900000000), ('2026-07-01 12:00:00+02:00');
INSERT INTO post DEFAULT VALUES;
"""
NUMBER = "Column createdAt is declared DATETIME but was left as text: row 2 has the number 1782900000000."


def test_a_column_of_dates_that_stays_text_is_noted_once(db, tmp_path):
    db(POSTS)
    for options in ("", "-o posts", "--type polars", "--type arrow", f"--to-parquet {tmp_path}/a.parquet -o posts",
                    f"--to-csv {tmp_path}/a.csv --to-parquet {tmp_path}/a.parquet -o posts"):  # fmt: skip
        lines = db(f"%sql {options} SELECT * FROM post").lines
        assert [line for line in lines if line.startswith("Column")] == [NUMBER], options
    assert "Column" not in db("%sql --quiet SELECT * FROM post").out
    now = db("%sql SELECT createdAt FROM post WHERE id = 4").value.iloc[0, 0]
    assert db("%sql SELECT createdAt FROM post WHERE id <> 2").lines == [
        f"Column createdAt is declared DATETIME but was left as text: row 3 has no offset ('{now}'), but row 1 has one."
    ]
    assert (
        str(db("%sql SELECT createdAt FROM post WHERE id IN (1, 3)").value["createdAt"].dtype) == "datetime64[us, UTC]"
    )
    epochs = db("%sql SELECT createdAt FROM post WHERE id = 2")
    assert (str(epochs.value["createdAt"].dtype), epochs.lines) == ("int64", [])


def test_a_large_result_is_noted_once(db):
    db(
        "%%sql --quiet\nCREATE TABLE t (at DATETIME);\nINSERT INTO t "
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000) "
        "SELECT CASE i WHEN 150000 THEN '05.01.2024' ELSE datetime(i, 'unixepoch') END FROM n"
    )
    cell = db("%sql -o t SELECT * FROM t")
    assert cell.lines == [
        "Column at is declared DATETIME but was left as text: row 150,000 has '05.01.2024', which is not an ISO date."
    ]
    assert len(db.names["t"]) == 200_000


def test_nanoseconds_come_back(db):
    db("%%sql --quiet\nCREATE TABLE t (at DATETIME);\nINSERT INTO t VALUES ('2026-07-01 10:00:00.123456789'), (NULL)")
    value = db("%sql SELECT at FROM t").value["at"]
    assert (str(value.dtype), value[0]) == ("datetime64[ns]", pd.Timestamp("2026-07-01 10:00:00.123456789"))
    frame = db("%sql --type polars SELECT at FROM t").value
    assert (str(frame["at"].dtype), str(frame["at"].cast(int)[0])[-9:]) == (
        "Datetime(time_unit='ns', time_zone=None)", "123456789",
    )  # fmt: skip


def test_csv_for_excel(db, tmp_path):
    file = tmp_path / "out.csv"
    row = "SELECT 'Ação' AS nome, '0012' AS code, 1.5 AS x, '=1+2' AS f"
    assert db(f"%sql --to-csv {file} --excel {row}").lines == [f"Wrote 1 row to {file}."]
    assert file.read_bytes() == b"\xef\xbb\xbfnome,code,x,f\nA\xc3\xa7\xc3\xa3o,0012,1.5,=1+2\n"
    db(f"%sql --to-csv {file} --encoding utf-8-sig {row}")
    assert file.read_bytes()[:3] == b"\xef\xbb\xbf"
    db(f"%sql --to-csv {file} {row}")
    assert file.read_bytes()[:5] == b"nome,"
    db(f"%sql --to-csv {file} --encoding latin-1 {row}")
    assert file.read_text("latin-1").splitlines()[1] == "Ação,0012,1.5,=1+2"
    failed = db.fails(f"%sql --to-csv {tmp_path}/new.csv --encoding ascii {row}")
    assert failed.out == (
        "UNSUPPORTED: row 1 of column nome, 'Ação', cannot be encoded as ascii; no file was written\n"
        "Hint: omit --encoding to write UTF-8, or use --excel\n"
    )
    assert not (tmp_path / "new.csv").exists()
