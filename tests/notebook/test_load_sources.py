"""What %pipedb load takes: frames of every kind and files; and the lines that work for everything else."""

from __future__ import annotations

import ast
import re

import pandas as pd
import polars as pl
import pytest

pa = pytest.importorskip("pyarrow")

SETUP = """
import datetime as dt, pandas as pd, polars as pl, pyarrow as pa
class Sales(pd.DataFrame):
    @property
    def _constructor(self): return Sales
class Stream:
    def __init__(self, table): self.table = table
    def __arrow_c_stream__(self, requested_schema=None): return self.table.__arrow_c_stream__(requested_schema)
rows = {"shop": ["north", None], "n": [2**53 + 1, None], "day": [dt.date(2026, 7, 1), dt.date(2026, 7, 2)]}
arrow = pa.table(rows)
"""


def lines_to_type(cell):
    """Return the lines of an error that are to be typed."""
    return "\n".join(line for line in cell.error.hint.splitlines() if not line.endswith(":"))


# -- frames of every kind


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("Sales({**rows, 'n': pd.array(rows['n'], dtype='Int64')})", "a DataFrame"),
        ("pl.DataFrame(rows)", "a Polars DataFrame"),
        ("arrow", "an Arrow Table"),
        ("arrow.to_batches()[0]", "an Arrow RecordBatch"),
        ("Stream(arrow)", "a Stream"),
    ],
)
def test_a_frame_of_each_kind_is_suggested_and_loaded(db, expression, kind):
    db(f"{SETUP}\nsales = {expression}")
    refused = db.fails("%sql INSERT INTO sales VALUES (1)").out
    assert f"sales is {kind} in the notebook; load it:\n%pipedb load sales --table sales" in refused
    assert db("%pipedb load sales --table sales").lines[0].startswith("Loaded 2 rows and 3 columns into sales")
    back = db("%sql SELECT * FROM sales").value
    assert back["n"].tolist() == [2**53 + 1, pd.NA]
    assert back["shop"].isna().tolist() == [False, True]
    assert back["day"].tolist() == [pd.Timestamp("2026-07-01"), pd.Timestamp("2026-07-02")]
    assert db("%sql SELECT typeof(n) || typeof(shop) AS t FROM sales").value["t"].tolist() == [
        "integertext",
        "nullnull",
    ]


@pytest.mark.parametrize("kind", ["polars", "arrow"])
def test_what_a_query_returns_goes_back(db, kind):
    db("%sql CREATE TABLE t (n INTEGER, x REAL, s TEXT, b BLOB, flag BOOLEAN, at DATETIME, zoned TIMESTAMP)")
    db("""%%sql
        INSERT INTO t VALUES
        (9007199254740993, 0.1, 'é', x'00ff', 1, '2026-07-01 10:30:00', '2026-07-01 08:30:00+00:00'),
        (NULL, NULL, NULL, NULL, NULL, NULL, NULL)""")
    db(f"again = %sql --type {kind} SELECT * FROM t")
    db("%pipedb load again --table copy\n%pipedb load again --table t --append")
    listed = ", ".join(
        f"{name}, typeof({name})" for name in ("n", "x", "s", "b", "flag", "datetime(at)", "datetime(zoned)")
    )
    stored = f"SELECT {listed} FROM "
    expected = db(f"%sql --type polars {stored} t LIMIT 2").value
    assert db(f"%sql --type polars {stored} copy").value.rows() == expected.rows()
    assert db(f"%sql --type polars {stored} t LIMIT 2 OFFSET 2").value.rows() == expected.rows()
    types = db("%pipedb columns copy").value["type"].tolist()
    assert types == ["INTEGER", "REAL", "TEXT", "BLOB", "BOOLEAN", "DATETIME", "TIMESTAMP"]


def test_a_relation_of_duckdb_is_loaded(db):
    pytest.importorskip("duckdb")
    db("import duckdb\ntotals = duckdb.sql(\"SELECT i AS n, 'row ' || i AS s FROM range(3) t(i)\")")
    assert "%pipedb load totals --table totals" in db.fails("%sql DROP TABLE totals").out
    assert db("%sql SELECT sum(n) AS s FROM totals").value["s"].tolist() == [3]
    assert db("%pipedb load totals --table totals").lines == ["Loaded 3 rows and 2 columns into totals."]
    assert db("%sql SELECT * FROM totals").value.to_dict("list") == {"n": [0, 1, 2], "s": ["row 0", "row 1", "row 2"]}


def test_a_reader_is_read_only_by_a_load_that_may_run(db):
    db(f"{SETUP}\nreader = arrow.to_reader()\n%sql BEGIN")
    assert "a transaction is open" in db.fails("%pipedb load reader --table t").out
    db("%sql ROLLBACK")
    assert db("%pipedb load reader --table t").lines[0].startswith("Loaded 2 rows")
    assert "a RecordBatchReader can be read only once" in db.fails("%pipedb load reader --table t --replace").out
    assert db("%sql SELECT count(*) AS c FROM t").value["c"].tolist() == [2]


def test_loads_in_python_take_the_same_frames(db):
    db(f"{SETUP}\nimport os, pipemagic")
    db("url = get_ipython().magics_manager.registry['PipeMagics'].session.connection().database.url")
    db("""with pipemagic.connect(url, os.environ['DB_TOKEN']) as db:
    total = db.load(pl.DataFrame(rows), 't') + db.load(arrow, 't', 'append')
    try: db.load(pd.Series([1], name='a'), 'u')
    except pipemagic.PipemagicError as error: message = str(error)
""")
    assert db.names["total"] == 4
    assert db.names["message"] == "frame is a Series, not a DataFrame\nHint: load frame.to_frame()"


@pytest.mark.parametrize(
    "expression",
    [
        "pl.DataFrame({'n': [1], 'wait': [dt.timedelta(hours=1)], 'tags': [['a', 'b']], 'part': [{'k': None}]})",
        "pa.table({'n': [1], 'wait': [dt.timedelta(hours=1)], 'tags': [['a', 'b']], 'part': [{'k': None}]})",
        "Stream(pa.table({'n': [1], 'wait': [dt.timedelta(hours=1)], 'tags': [['a', 'b']], 'part': [{'k': None}]}))",
    ],
)
def test_the_lines_for_columns_that_cannot_be_stored_work_for_every_kind(db, expression):
    db(f"{SETUP}\nsales = {expression}")
    refused = db.fails("%pipedb load sales --table t").out.replace("\nHint: ", "\n")
    assert "3 columns cannot be stored" in refused
    lines = [line for line in refused.splitlines() if " = " in line]
    assert "to_pandas(" in lines[0]
    db("\n".join([*lines, "%pipedb load sales --table t"]))
    assert db("%sql SELECT * FROM t").value.values.tolist() == [[1, 3600.0, '["a", "b"]', '{"k": null}']]


def test_the_lines_for_columns_of_a_reader_do_not_read_it_again(db):
    db(f"{SETUP}\nreader = pa.table({{'wait': [dt.timedelta(hours=1)]}}).to_reader()")
    assert (
        "create reader again, then load a DataFrame of reader.read_all()"
        in db.fails("%pipedb load reader --table t").out
    )


# -- anything else: the lines in the message work


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("pd.Series([1, 2], name='a')", "x1 = x.to_frame()"),
        ("pl.LazyFrame({'a': [1, 2]})", "x1 = x.collect()"),
        ("{'a': [1, 2]}", "x1 = pd.DataFrame(x)"),
        ("[{'a': 1}, {'a': 2}]", "x1 = pd.DataFrame(x)"),
        ("pa.array([1, 2])", "x1 = pa.table({'value': x})"),
    ],
)
def test_the_lines_for_a_value_that_is_no_frame_work(db, value, line):
    db(f"{SETUP}\nx = {value}")
    refused = db.fails("%pipedb load x --table t --on db")
    assert lines_to_type(refused) == f"{line}\n%pipedb load x1 --table t --on db"
    assert db(lines_to_type(refused)).lines == ["Loaded 2 rows and 1 column into t."]


def test_the_lines_import_what_the_notebook_has_not_imported(db):
    db("d = {'a': [1]}; d1 = 5")
    refused = db.fails("%pipedb load --table t d")
    assert lines_to_type(refused) == "import pandas\nd2 = pandas.DataFrame(d)\n%pipedb load --table t d2"
    db(lines_to_type(refused))


@pytest.mark.parametrize(
    ("expression", "new"),
    [
        ("f.head(1)", "f1"),
        ("f[['a']]", "f1"),
        ("f[f.a > 1]", "f1"),
        ('f.query("a > 1").reset_index(drop = True)', "f1"),
        ("pd.DataFrame({'a': [1]})", "frame1"),
        ("pd.concat([g3, f])", "g1"),
    ],
)
def test_the_lines_for_an_expression_work(db, expression, new):
    db("import pandas as pd\nf = pd.DataFrame({'a': [1, 2], 'b': ['x', 'y']}); g3 = f")
    refused = db.fails(f"%pipedb load {expression} --table t --replace")
    message = f"load requires a variable or a file, not the expression {expression}"
    assert f"{message}\nHint: assign it to a variable first:" in refused.out
    assert lines_to_type(refused) == f"{new} = {expression}\n%pipedb load {new} --table t --replace"
    assert db(lines_to_type(refused)).lines[0].startswith("Loaded ")


def test_an_expression_with_a_password_is_not_repeated(db):
    refused = db.fails("%pipedb load pd.read_sql('SELECT 1', 'postgresql://me:secret@host/db') --table t")
    assert "secret" not in refused.out
    assert "assign it to a variable first" in refused.out


# -- files


@pytest.fixture
def folder(db, tmp_path, monkeypatch):
    """The shell, in a folder with some files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flights.csv").write_text("day,code,delay\n2013-01-01,007,2.5\n2013-01-02,NA,\n")
    (tmp_path / "my sales.csv").write_text("shop;total\nnorth;10,5\nsouth;7,25\n")
    (tmp_path / "data").mkdir()
    pl.DataFrame({"n": [1, None]}).write_parquet(tmp_path / "data" / "n.parquet")
    (tmp_path / "notes.txt").write_text("a")
    return db


LINE = "Loaded 2 rows and 3 columns into flights (day: DATE, code: TEXT, delay: REAL)."


def test_a_file_is_loaded_and_the_types_of_its_columns_are_listed(folder):
    assert folder("%pipedb load flights.csv --table flights").lines == [LINE]
    assert folder("%pipedb load ./flights.csv --table flights --replace").lines == [LINE]
    rows = folder("%sql SELECT day || '', code, delay FROM flights ORDER BY day").value.values.tolist()
    assert [row[:2] for row in rows] == [["2013-01-01", "007"], ["2013-01-02", "NA"]]
    assert folder("%pipedb load data/n.parquet --table n").lines == ["Loaded 2 rows and 1 column into n (n: INTEGER)."]
    folder("%config PipeMagic.quiet = True")
    assert folder("%pipedb load flights.csv --table f2").lines == ["Loaded 2 rows and 3 columns into f2."]


@pytest.mark.parametrize(
    ("text", "column", "shown", "options", "total"),
    [
        ("k;n\n1;1.234,50\n2;99,00\n3;\n", "n", "1.234,50", "thousands='.' decimal=','", 1333.5),
        ('k,n\n1,"1,234"\n2,12\n', "n", "1,234", "thousands=','", 1246),
        ("k,n\n1,1 234 567.5\n2,-12\n", "n", "1 234 567.5", "thousands=' '", 1234555.5),
    ],
)
def test_numbers_with_thousands_separators_are_named(folder, tmp_path, text, column, shown, options, total):
    (tmp_path / "n.csv").write_text(text)
    _, note = folder("%pipedb load n.csv --table n").lines
    reason = f"{shown!r} has a thousands separator"
    assert note == f"Column {column} was left as text because {reason}. Add -- {options} to read numbers."
    (line,) = folder(f"%pipedb load n.csv --table n --replace -- {options}").lines
    assert f"{column}: " in line
    assert folder("%sql SELECT total(n) AS t FROM n WHERE typeof(n) <> 'text'").value["t"].tolist() == [total]
    (tmp_path / "ip.csv").write_text("a,v\n1.234.567,x\n10.0.0.1,y\n")
    assert len(folder("%pipedb load ip.csv --table ip").lines) == 1


@pytest.mark.parametrize(
    ("texts", "forms"),
    [
        (("03.01.2024", "31.12.2023"), ["%d.%m.%Y"]),
        (("3.1.24", ""), ["%d.%m.%y", "%m.%d.%y"]),
        (("01/31/2024 9:05", "02/01/2024 17:00"), ["%m/%d/%Y %H:%M"]),
        (("01/02/2024", "03/04/2024"), ["%d/%m/%Y", "%m/%d/%Y"]),
        (("01/01/2024", "03/03/2024"), ["%d/%m/%Y"]),
        (("10.0.01", "192.168.1"), []),
    ],
)
def test_dates_that_are_not_in_iso_format_are_named(folder, tmp_path, texts, forms):
    """As text they are in the order of their first digits, which is wrong in silence."""
    (tmp_path / "d.csv").write_text("the day;n\n" + "".join(f"{text};1\n" for text in texts))
    _, *notes = folder("%pipedb load d.csv --table d").lines
    because = f"Column the day was left as text because {texts[0]!r} is not an ISO date"
    options = [f"-- parse_dates=['the day'] date_format={form!r}" for form in forms]
    match options:
        case []:
            assert notes == []
        case [option]:
            assert notes == [f"{because}. Add {option} to read dates."]
        case _:
            assert notes == [
                f"{because}, and the day or the month may come first. Add one of these to read dates:",
                *options,
            ]
    for form, option in zip(forms, options, strict=True):
        (line,) = folder(f"%pipedb load d.csv --table d --replace {option}").lines
        assert "the day: DATE" in line
        expected = pd.to_datetime(pd.Series([text for text in texts if text]), format=form)
        got = folder('%sql SELECT "the day" AS day FROM d WHERE day IS NOT NULL').value["day"]
        assert got.tolist() == expected.tolist()


PENGUINS = """species,mass,day,sex,label
Adelie,3750,2007-11-11,male,A1
Gentoo,NA,2008-01-02,NA,NA
Gentoo,5000.5,n/a,female,2
"""


def test_numbers_with_marks_of_missing_values_are_named(folder, tmp_path):
    """As text they are larger than every number: a count of those above 4,000 is wrong."""
    path = tmp_path / "p.csv"
    path.write_text(PENGUINS)
    _, note = folder("%pipedb load p.csv --table p").lines
    assert note == (
        "Columns mass, day were left as text because 'NA' and 'n/a' are not numbers or dates. "
        "Add -- na_values=['NA', 'n/a'] to read missing values, also in columns sex, label."
    )
    (line,) = folder("%pipedb load p.csv --table p --replace -- na_values=['NA', 'n/a']").lines
    assert "mass: REAL" in line
    assert "day: DATE" in line
    expected = pd.read_csv(path)
    found = folder(
        "%sql SELECT count(*) AS n, count(sex) AS known, sum(mass) AS total FROM p WHERE mass > 4000 OR mass IS NULL"
    ).value
    assert found["total"].tolist() == [expected["mass"][expected["mass"] > 4000].sum()]
    assert found["known"].tolist() == [1]


@pytest.mark.parametrize(
    ("declared", "stays"), [("REAL", 1), ("INT", 1), ("DECIMAL(9, 2)", 1), ("TEXT", 0), ("INTERVAL", 0), ("", 0)]
)
def test_texts_in_a_column_of_numbers_are_named(folder, declared, stays):
    """SQLite stores them: sum() reads 'abc' as 0 and '1.234,50' as 1.234."""
    folder(f"%sql CREATE TABLE amount (n {declared})")
    folder("import pandas\ntexts = pandas.DataFrame({'n': [None, '1.234,50', 'abc']})")
    _, *notes = folder("%pipedb load texts --table amount --append").lines
    assert (
        notes == [f"Column n is declared {declared} but has text: row 2 has '1.234,50', which is not a number."] * stays
    )
    folder("numbers = pandas.DataFrame({'n': [None, 2.5]})")
    if declared != "TEXT":
        assert len(folder("%pipedb load numbers --table amount --append").lines) == 1


def test_one_mark_in_one_column(folder, tmp_path):
    (tmp_path / "q.csv").write_text("a,b\n1,NA\n?,Namibia\n2,DE\n")
    _, note = folder("%pipedb load q.csv --table q").lines
    reason = "'?' is not a number or date"
    assert note == f"Column a was left as text because {reason}. Add -- na_values=['?'] to read missing values."


def test_marks_among_decimal_commas_and_other_dates_are_named_too(folder, tmp_path):
    """As text, sum(amount) is 8.234: SQLite reads the number at the start of each text."""
    rows = "001;31.12.2025;1.234,50;0,5\n002;NA;7,25;NA\n003;1.2.2025;NA;2\n"
    (tmp_path / "g.csv").write_text(f"id;day;amount;rate\n{rows}")
    _, *notes = folder("%pipedb load g.csv --table g").lines
    assert notes == [
        "Columns day, amount, rate were left as text because 'NA' is not a number or date. "
        "Add -- na_values=['NA'] to read missing values.",
        "Column day was left as text because '31.12.2025' is not an ISO date. "
        "Add -- parse_dates=['day'] date_format='%d.%m.%Y' to read dates.",
        "Column amount was left as text because '1.234,50' has a thousands separator. "
        "Add -- thousands='.' decimal=',' to read numbers.",
    ]
    options = "na_values=['NA'] parse_dates=['day'] date_format='%d.%m.%Y' thousands='.' decimal=','"
    (line,) = folder(f"%pipedb load g.csv --table g --replace -- {options}").lines
    assert "(id: TEXT, day: DATE, amount: REAL, rate: REAL)" in line
    sums = folder("%sql SELECT sum(amount) AS amount, sum(rate) AS rate FROM g").value
    assert sums.values.tolist() == [[1241.75, 2.5]]


def test_columns_that_need_the_same_options_share_a_note(folder, tmp_path):
    """All notes of a file fit in one line."""
    rows = "01/02/2025,1 234.5,2 000,1.5.2025,03/02/2025\n13/02/2025,7,8,31.5.2025,14/02/2025\n"
    (tmp_path / "s.csv").write_text(f"begins,a,b,other,ends\n{rows}")
    _, *notes = folder("%pipedb load s.csv --table s").lines
    options = (
        "parse_dates=['begins', 'other', 'ends'] "
        "date_format={'begins': '%d/%m/%Y', 'other': '%d.%m.%Y', 'ends': '%d/%m/%Y'}",
        "thousands=' '",
    )
    assert notes == [
        "Columns begins, other, ends were left as text because '01/02/2025' and '1.5.2025' are not ISO dates. "
        f"Add -- {options[0]} to read dates.",
        "Columns a, b were left as text because '1 234.5' has a thousands separator. "
        f"Add -- {options[1]} to read numbers.",
    ]
    (line,) = folder(f"%pipedb load s.csv --table s --replace -- {' '.join(options)}").lines
    assert "(begins: DATE, a: REAL, b: INTEGER, other: DATE, ends: DATE)" in line


def test_a_hint_with_a_choice_has_a_line_for_each(folder, tmp_path):
    (tmp_path / "d.csv").write_text("day\n01/02/2024\nNA\n03/04/2024\n")
    folder("%sql CREATE TABLE d (day DATE)")
    failed = folder.fails("%pipedb load d.csv --table d --append -- na_values=['NA']").out
    *_, hint, first, second = failed.splitlines()
    assert hint == "Hint: add one of these:"
    folder(f"%pipedb load d.csv --table d --append {first} na_values=['NA']")
    folder(f"%pipedb load d.csv --table d --append {second} na_values=['NA']")
    days = folder("%sql SELECT day FROM d WHERE day IS NOT NULL").value["day"].astype(str).tolist()
    assert days == ["2024-02-01", "2024-04-03", "2024-01-02", "2024-03-04"]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("k;n\n1;2 000\n2;999\n", "thousands=' '"),
        ("k;n\n1;2\u00a0000\n2;12\u00a0345\u00a0678\n", "thousands='\\xa0'"),
        ("k;n\n1;2\u202f000\n2;5\n", "thousands='\\u202f'"),
        ("k;n\n1;2 000\n2;0,5\n", "thousands=' ' decimal=','"),
        ("k,n\n1,2 000\n2,0.5\n", "thousands=' '"),
        ("k;n;x\n1;2 000;0,5\n2;999;1,25\n", "thousands=' ' decimal=','"),  # x has to stay a number
        ("k;n;x\n1;2\u00a0000;0.5\n2;999;1.25\n", "thousands='\\xa0'"),
        ("k,n\n1,1.234.567\n2,-3.000\n", "thousands='.'"),
        ("k;n\n1;1.234.567\n2;1,5\n", "thousands='.' decimal=','"),
        ("k,n\n1,1'234.50\n2,7\n", 'thousands="\'"'),
        ("k,n\n1,1\u2019234\n2,7\n", "thousands='\u2019'"),
    ],
)
def test_the_options_for_numbers_are_those_that_the_file_needs(folder, tmp_path, text, options):
    path = tmp_path / "n.csv"
    path.write_text(text, "utf-8")
    _, note = folder("%pipedb load n.csv --table n").lines
    assert note.endswith(f"Add -- {options} to read numbers.")
    assert len(folder(f"%pipedb load n.csv --table n --replace -- {options}").lines) == 1
    loaded = folder("%sql SELECT * FROM n").value
    parsed = dict(reader_values(options))
    sep, decimal, thousands = ";" if ";" in text else ",", parsed.get("decimal", "."), parsed["thousands"]
    for name, column in pd.read_csv(path, sep=sep, dtype=str).items():
        plain = column.str.replace(thousands, "").str.replace(decimal, ".")
        assert loaded[name].tolist() == [float(number) for number in plain]
    if thousands.isascii() and thousands != decimal:  # pandas splits others into bytes
        expected = pd.read_csv(path, sep=sep, decimal=decimal, thousands=thousands)
        assert loaded.to_numpy(float).tolist() == expected.to_numpy(float).tolist()


def test_a_column_with_marks_counts_for_the_decimal_mark_of_the_file(folder, tmp_path):
    (tmp_path / "n.csv").write_text("n;x\n2 000;0,5\n999;NA\n")
    _, *notes = folder("%pipedb load n.csv --table n").lines
    assert [note.partition("Add ")[2] for note in notes] == [
        "-- na_values=['NA'] to read missing values.", "-- thousands=' ' decimal=',' to read numbers.",
    ]  # fmt: skip
    folder("%pipedb load n.csv --table n --replace -- na_values=['NA'] thousands=' ' decimal=','")
    assert folder("%sql SELECT sum(n) AS n, sum(x) AS x FROM n").value.values.tolist() == [[2999, 0.5]]
    _, note = folder("%pipedb load n.csv --table n --replace -- na_values=['NA'] thousands=' '").lines
    assert note == "Column x was left as text because '0,5' has a decimal comma. Add -- decimal=',' to read numbers."


def reader_values(options):
    """Yield the names and values of options for a reader."""
    for name, value in re.findall(r"(\w+)=('[^']+'|\"'\")", options):
        yield name, ast.literal_eval(value)


@pytest.mark.parametrize(
    ("text", "options", "note"),
    [
        (
            "n,x\n1.234.567,0.5\n2,0.25\n",
            "",
            "'1.234.567' has a thousands separator, which is the decimal mark of other",
        ),
        ("n,x\n1.5,NA\n7,0.5\n", "decimal='.' na_values=['NA']", ""),
        ("n;x\n1 234,5;0.5\n2;0.25\n", "", "'1 234,5' has another decimal mark than other numbers"),
        ("n;x\n1,5;0.5\n", "decimal=','", "'0.5' has another decimal mark than other numbers"),
    ],
)
def test_numbers_of_two_forms_in_one_file_are_named_without_options(folder, tmp_path, text, options, note):
    """No options read both columns: those for one would make the other a text."""
    (tmp_path / "n.csv").write_text(text)
    _, *notes = folder(f"%pipedb load n.csv --table n{f' -- {options}' * bool(options)}").lines
    assert len(notes) == bool(note)
    assert note in "".join(notes)
    assert "Add --" not in "".join(notes)


@pytest.mark.parametrize(
    ("text", "column", "number", "mark", "rows"),
    [
        ("a,b\n1.234.567,1.500\n2.345.678,2.250\n", "b", "1.500", ".", [[1234567, 1500], [2345678, 2250]]),
        ("a,b\n1.234.567,1.500\n2,2250\n", "b", "1.500", ".", [[1234567, 1500], [2, 2250]]),
        ("a|b\n1,234.5|1,500\n2|22500\n", "b", "1,500", ",", [[1234.5, 1500], [2, 22500]]),
        ("b;a\n-7,185;-76,272,646.194\n216110791;1\n", "b", "-7,185", ",", [[-7185, -76272646.194], [216110791, 1]]),
    ],
)
def test_numbers_are_ambiguous_beside_proven_thousands(folder, tmp_path, text, column, number, mark, rows):
    """1.500 beside 1.234.567 would be 1.5 in silence."""
    (tmp_path / "n.csv").write_text(text)
    failed = folder.fails("%pipedb load n.csv --table n").out
    assert f"column {column} is ambiguous: the {'comma' if mark == ',' else 'point'} in {number} may" in failed
    assert f"Hint: add -- thousands={mark!r} or -- " in failed
    folder(f"%pipedb load n.csv --table n -- thousands={mark!r}")
    assert folder("%sql SELECT * FROM n").value.values.tolist() == rows


def test_marks_of_missing_values_beside_thousands_prove_them_too(folder, tmp_path):
    (tmp_path / "n.csv").write_text("a,b\n1.234.567,1.500\nNA,2.250\n")
    assert "column b is ambiguous" in folder.fails("%pipedb load n.csv --table n").out
    folder("%pipedb load n.csv --table n -- thousands='.' na_values=['NA']")
    assert folder("%sql SELECT sum(a) AS a, sum(b) AS b FROM n").value.values.tolist() == [[1234567, 3750]]


@pytest.mark.parametrize(
    ("texts", "signs", "numbers"),
    [
        (["3,20 €", "1.150,00 €", "-7,00 €"], "'€'", [3.2, 1150, -7]),
        (["$1,234.50", "($20.00)", "$5"], "'$', '(', ')'", [1234.5, -20, 5]),
        (["5%", "-3%", "0.5%"], "'%'", [5, -3, 0.5]),
        (["12,5 %", "80 %"], "'%'", [12.5, 80]),
        (["CHF 1'200.50", "CHF 3.00"], "'CHF'", [1200.5, 3]),
        (["\u22125", "7.5", "\u22120.25"], "'\u2212'", [-5, 7.5, -0.25]),
        (["1\u202f234,5\u00a0EUR", "7 EUR"], "'EUR'", [1234.5, 7]),
        (["$1,234", "$7"], "'$'", None),  # it may be 1.234
        (["-$5", "$-6", "- $7"], "'$'", [-5, -6, -7]),
    ],
)
def test_numbers_with_signs_are_named_with_their_expression_in_sql(folder, tmp_path, texts, signs, numbers):
    """sum() of '$1,234.50' is 0, and '9%' is more than '10%'."""
    pd.DataFrame({"the x": texts}).to_csv(tmp_path / "x.csv", sep="\t", index=False)
    _, note = folder("%pipedb load x.csv --table x -- sep='\\t'").lines
    assert f" has {signs} beside the number" in note
    expression = re.search(r"In SQL, (.*) is the number\.", note)
    assert (expression is None) == (numbers is None)
    if expression is not None:
        assert folder(f"%sql SELECT {expression[1]} AS n FROM x").value["n"].tolist() == numbers
    folder('%sql CREATE TABLE y ("the x" REAL)')
    failed = folder.fails("%pipedb load x.csv --table y --append -- sep='\\t'").out
    assert "y declares it REAL, " in failed
    if "would become another value" not in failed:  # a text that is a number
        assert ("insert CAST(" in failed) == (numbers is not None)


@pytest.mark.parametrize("texts", [["A12", "B7"], ["SKU 12", "SKU 7"], ["(12", "7)"], ["12 kg", "7 kg"], ["%", "$"]])
def test_codes_are_no_numbers_with_signs(folder, tmp_path, texts):
    pd.DataFrame({"x": texts}).to_csv(tmp_path / "x.csv", index=False)
    assert len(folder("%pipedb load x.csv --table x").lines) == 1


@pytest.mark.parametrize(
    ("texts", "inexact", "kind"),
    [
        (["12345678901234567890", "9007199254740993"], "12345678901234567890", "integer"),
        (["0.5", "9007199254740993"], "9007199254740993", "float"),
        (["1", "-9223372036854775809"], "-9223372036854775809", "integer"),
        (["1e400", "2.5"], "1e400", "float"),
    ],
)
def test_numbers_that_are_not_exact_are_named(folder, tmp_path, texts, inexact, kind):
    """As text, the maximum of the first is 9007199254740993."""
    path = tmp_path / "b.csv"
    pd.DataFrame({"big": texts, "id": ["0012", "7"]}).to_csv(path, index=False)
    _, note = folder("%pipedb load b.csv --table b").lines
    assert note == (
        f"Column big was left as text because '{inexact}' is not exact as a 64-bit {kind}. "
        "Add -- dtype={'big': 'float'} to read the nearest floats."
    )
    folder("%pipedb load b.csv --table b --replace -- dtype={'big': 'float'}")
    assert folder("%sql SELECT big FROM b").value["big"].tolist() == list(map(float, texts))


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        ("n\n12345678901234567890\n-\n", ["na_values=['-']", "dtype={'n': 'float'}"]),
        ("n;x\n12345678901234567890;0,5\n7;1,5\n", ["dtype={'n': 'float'}"]),  # they have no decimal mark
    ],
)
def test_numbers_that_are_not_exact_are_named_beside_marks_and_decimal_commas(folder, tmp_path, text, notes):
    (tmp_path / "b.csv").write_text(text)
    _, *found = folder("%pipedb load b.csv --table b").lines
    assert [re.search(r"Add -- (.*) to read", note)[1] for note in found] == notes
    assert len(folder(f"%pipedb load b.csv --table b --replace -- {' '.join(notes)}").lines) == 1
    assert folder("%sql SELECT max(n) AS n FROM b").value["n"].tolist() == [12345678901234567890.0]


def test_thousands_that_cannot_be_decimals_are_not_ambiguous(folder, tmp_path):
    (tmp_path / "n.csv").write_text("k;n\n1;1,234,567\n2;890\n")
    _, note = folder("%pipedb load n.csv --table n").lines
    assert note.endswith("'1,234,567' has a thousands separator. Add -- thousands=',' to read numbers.")
    folder("%pipedb load n.csv --table n --replace -- thousands=','")
    assert folder("%sql SELECT n FROM n").value["n"].tolist() == [1234567, 890]


def test_a_note_is_of_use_where_its_option_is_given(folder, tmp_path):
    (tmp_path / "n.csv").write_text("a,b\n1,?\nNA,2\n")
    _, note = folder("%pipedb load n.csv --table n -- na_values=['?']").lines
    assert "Add -- na_values=['NA'] to" in note
    folder("%pipedb load n.csv --table n --replace -- na_values=['?'] na_values=['NA']")
    assert folder("%sql SELECT sum(a) AS a, sum(b) AS b FROM n").value.values.tolist() == [[1, 2]]


def test_dates_in_several_forms_are_named(folder, tmp_path):
    """As text, '13/02/2024' is before '2024-03-01', and after '01/03/2025'."""
    for rows in ("01/31/2024\n13/02/2024", "2024-03-01\n1.2.2024", "2024-03-01\n2024-03-02 10:00\n3.4.24"):
        (tmp_path / "d.csv").write_text(f"day\n{rows}\n")
        _, note = folder("%pipedb load d.csv --table d --replace").lines
        assert note.startswith("Column day was left as text because its dates have several forms: ")
    (tmp_path / "d.csv").write_text("v\n1.10.2\n1.9.15\n")
    assert len(folder("%pipedb load d.csv --table v").lines) == 1


def test_a_blank_field_in_quotes_is_a_mark(folder, tmp_path):
    (tmp_path / "n.csv").write_text('a,p\n1,5%\n" ",n/a\n3,7%\n')
    _, note, other = folder("%pipedb load n.csv --table n").lines
    assert note.endswith("Add -- na_values=[' ', 'n/a'] to read missing values.")
    assert other.endswith("'5%' has '%' beside the number.")  # CAST makes 0.0 of 'n/a'
    _, note = folder("%pipedb load n.csv --table n --replace -- na_values=[' ', 'n/a']").lines
    assert "In SQL, CAST(replace(" in note
    assert folder("%sql SELECT avg(a) AS a FROM n").value["a"].tolist() == [2]


def test_columns_of_the_option_dtype_have_no_notes(folder, tmp_path):
    (tmp_path / "v.csv").write_text("v,w,day\n1.500.000,1,3.4.2024\n2.000.000,2,4.4.2024\n")
    options = "dtype={'v': 'str', 'day': 'str'}"
    assert len(folder(f"%pipedb load v.csv --table v -- {options}").lines) == 1


AMOUNTS = "id;day;amount\n001;31.12.2025;1.234,50\n002;1.1.2026;7,25\n"


@pytest.mark.parametrize("mode", ["--append", "--upsert id", "--replace"])
def test_texts_do_not_get_into_columns_of_numbers_and_dates(folder, tmp_path, mode):
    """SQLite would store them there as text, without a note in later cells: sum(amount) would be 8.234."""
    (tmp_path / "g.csv").write_text(AMOUNTS)
    folder("%sql CREATE TABLE g (id TEXT PRIMARY KEY, day TEXT, amount REAL)")
    failed = folder.fails(f"%pipedb load g.csv --table g {mode}").out
    assert failed.splitlines() == [
        "LOAD: column amount: g declares it REAL, but '1.234,50' has a thousands separator; nothing was changed",
        "Hint: add -- thousands='.' decimal=','",
    ]
    folder(f"%pipedb load g.csv --table g {mode} -- thousands='.' decimal=','")
    sums = folder("%sql SELECT sum(amount) AS total, min(day) AS day FROM g").value
    assert sums.values.tolist() == [[1241.75, "1.1.2026"]]


def test_the_hint_of_an_append_has_all_options_of_the_column(folder, tmp_path):
    (tmp_path / "g.csv").write_text("id,day,amount\n001,31.12.2025,7.5\n002,NA,NA\n")
    folder("%sql CREATE TABLE g (id TEXT, day DATE, amount REAL)")
    failed = folder.fails("%pipedb load g.csv --table g --append").out
    assert failed.splitlines()[-1] == "Hint: add -- na_values=['NA']"
    failed = folder.fails("%pipedb load g.csv --table g --append -- na_values=['NA']").out
    assert failed.splitlines() == [
        "LOAD: column day: g declares it DATE, but '31.12.2025' is not an ISO date; nothing was changed",
        "Hint: add -- parse_dates=['day'] date_format='%d.%m.%Y'",
    ]
    failed = folder.fails("%pipedb load g.csv --table new --types amount=REAL").out
    assert failed.splitlines()[-1] == "Hint: add -- na_values=['NA']"


def test_numbers_of_a_file_are_added_to_a_column_of_codes_with_an_option(folder, tmp_path):
    (tmp_path / "c.csv").write_text("code,n\n7,1\n12,2\n")
    folder("%sql CREATE TABLE c (code VARCHAR(9), n INTEGER); INSERT INTO c VALUES ('0012', 0)")
    failed = folder.fails("%pipedb load c.csv --table c --append").out
    assert failed.splitlines()[-1] == "Hint: add -- dtype={'code': 'str'}"
    folder("%pipedb load c.csv --table c --append -- dtype={'code': 'str'}")
    assert folder("%sql SELECT code FROM c").value["code"].tolist() == ["0012", "7", "12"]


@pytest.mark.parametrize("name", ["the: code", "a declares it INT, where column b: c"])
def test_the_hint_has_the_column_of_any_name_and_type(folder, tmp_path, name):
    (tmp_path / "c.csv").write_text(f"n;{name}\n7;0.5\n")
    (tmp_path / "a.csv").write_text(f"n;{name}\n7;1.234,5\n")
    folder(f'%sql CREATE TABLE c (n VARCHAR(9, 2), "{name}" REAL)')
    failed = folder.fails("%pipedb load c.csv --table c --append -- sep=';'").out
    assert failed.splitlines()[-1] == "Hint: add -- dtype={'n': 'str'}"
    failed = folder.fails("%pipedb load a.csv --table c --append -- sep=';' dtype={'n': 'str'}").out
    assert failed.splitlines()[-1] == "Hint: add -- thousands='.' decimal=','"
    failed = folder.fails("%pipedb load c.csv --table new --types n=TEXT -- sep=';'").out
    assert failed.splitlines()[-1] == "Hint: add -- dtype={'n': 'str'}"
    folder("%pipedb load c.csv --table new --types n=TEXT -- sep=';' dtype={'n': 'str'}")
    assert folder("%sql SELECT n FROM new").value["n"].tolist() == ["7"]


def test_texts_for_an_integer_primary_key_have_the_options_as_hint(folder, tmp_path):
    (tmp_path / "k.csv").write_text("k;n\nNA;1\n7;2\n")
    folder("%sql CREATE TABLE k (k INTEGER PRIMARY KEY, n)")
    failed = folder.fails("%pipedb load k.csv --table k --append").out
    assert failed.splitlines()[-1] == "Hint: add -- na_values=['NA']"
    folder("%pipedb load k.csv --table k --append -- na_values=['NA']")
    assert folder("%sql SELECT k FROM k").value["k"].tolist() == [1, 7]  # NULL is the next number


def test_only_files_with_such_options_have_notes_on_them(folder, tmp_path):
    (tmp_path / "n.json").write_text('[{"n": "1.234,50", "day": "31.12.2023"}]')
    assert len(folder("%pipedb load n.json --table n").lines) == 1


def test_options_of_the_reader_follow_two_dashes(folder):
    line = "%pipedb load 'my sales.csv' --table sales -- sep=';' decimal=','"
    assert folder(line).lines == ["Loaded 2 rows and 2 columns into sales (shop: TEXT, total: REAL)."]
    assert folder("%sql SELECT sum(total) AS s FROM sales").value["s"].tolist() == [17.75]
    options = "names = ['shop', 'total'], skiprows=1 sep = ';',decimal=\",\"  "
    more = f"%pipedb load 'my sales.csv' --append --table sales -- {options}"
    assert folder(more).lines[0].startswith("Loaded 2 rows and 2 columns into sales (")
    assert (
        "storage_options is not an option"
        in folder.fails("%pipedb load flights.csv --table x -- storage_options={}").out
    )
    for text, message in (
        ("", "-- requires an option for the reader, as in -- sep=';'"),
        (" ';'", "options after -- must be name=value, as in -- sep=';', not \"';'\""),
    ):
        assert message in folder.fails(f"%pipedb load flights.csv --table x --{text}").out
    folder("import pandas\nframe = pandas.DataFrame({'a': [1]})")
    refused = folder.fails("%pipedb load frame --table x -- sep=';'").out
    assert "options after -- apply to files, but frame is a variable" in refused
    assert "unknown option --" in folder.fails("%pipedb copy flights --to db -- sep=';'").out


def test_a_variable_with_that_attribute_comes_before_a_file(folder):
    folder("import types, pandas\nflights = types.SimpleNamespace(csv=pandas.DataFrame({'a': [1]}))")
    assert folder("%pipedb load flights.csv --table t").lines == ["Loaded 1 row and 1 column into t."]
    folder("flights.csv = 5")
    refused = folder.fails("%pipedb load flights.csv --table flights")
    assert "flights.csv is an int, not a DataFrame" in refused.out
    assert lines_to_type(refused) == "%pipedb load ./flights.csv --table flights"
    folder("del flights.csv")
    assert folder(lines_to_type(refused)).lines == [LINE]
    assert folder("%pipedb load flights.csv --table flights --append").lines == [LINE]


def test_a_variable_with_a_path_names_the_line(folder, tmp_path):
    folder("from pathlib import Path\nname = 'my sales.csv'; path = Path('flights.csv'); other = 'nothing.csv'")
    refused = folder.fails("%pipedb load name --table t -- sep=';'")
    assert lines_to_type(refused) == "%pipedb load \"my sales.csv\" --table t -- sep=';'"
    assert (
        lines_to_type(folder.fails("%pipedb load path --table flights")) == "%pipedb load flights.csv --table flights"
    )
    assert "other is a str, not a DataFrame" in folder.fails("%pipedb load other --table t").out


def test_the_lines_for_columns_of_a_file_that_cannot_be_stored_work(folder, tmp_path):
    nested = pl.DataFrame({"n": [1], "tags": [["a", "b"]]})
    nested.write_parquet(tmp_path / "data" / "nested.parquet")
    (tmp_path / "nested.jsonl").write_text('{"n": 1, "tags": ["a", "b"]}\n')
    (tmp_path / "nested.json").write_text('[{"n": 1, "tags": ["a", "b"]}]')
    for name in ("data/nested.parquet", "nested.jsonl", "nested.json"):
        refused = folder.fails(f"%pipedb load {name} --table t --replace").out.replace("\nHint: ", "\n")
        lines = [line for line in refused.splitlines() if " = " in line or line.startswith("%pipedb")]
        assert lines[-1] == "%pipedb load frame --table t --replace"
        folder("\n".join(lines))
        assert folder("%sql SELECT * FROM t").value.values.tolist() == [[1, '["a", "b"]']]


def test_files_that_cannot_be_read(folder):
    assert "did you mean flights.csv?" in folder.fails("%pipedb load flihgts.csv --table t").out
    assert "unsupported file format" in folder.fails("%pipedb load notes.txt --table t").out
    assert "does not exist" in folder.fails("%pipedb load nowhere/x.csv --table t").out
    refused = folder.fails("%pipedb load https://example.com/flights.csv --table t").out
    assert "load reads local files" in refused
    assert "'https://example.com/flights.csv'" in refused
    assert "name 'frame' is not defined" in folder.fails("%pipedb load frame --table t").out
    assert "--table TABLE is missing" in folder.fails("%pipedb load flights.csv").out


def test_a_file_whose_name_looks_like_an_expression(folder, tmp_path):
    (tmp_path / "flights(1).csv").write_text("a\n1\n")
    assert folder("%pipedb load flights(1).csv --table t").lines == ["Loaded 1 row and 1 column into t (a: INTEGER)."]
