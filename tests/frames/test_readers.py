from __future__ import annotations

import bz2
import csv
import datetime
import decimal
import gzip
import io
import json
import lzma
import math
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipemagic.errors import LoadError
from pipemagic.frames import delimited
from pipemagic.frames.inference import NumberFormat, as_moments, as_numbers
from pipemagic.frames.readers import is_file_name, read_file

UTC = datetime.UTC


@pytest.fixture
def read(tmp_path):
    """Write a file and read it."""

    def read(content, *options, name="a.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_file(path, options)

    return read


@pytest.fixture
def error(read):
    """Read a file that is refused; the result is the message with its hint."""

    def error(content, *options, name="a.csv"):
        with pytest.raises(LoadError) as caught:
            read(content, *options, name=name)
        return str(caught.value)

    return error


def cells(frame):
    """Return the type and the Python values of each column, None for a missing one."""
    return {name: (str(column.dtype), _values(column)) for name, column in frame.items()}


def _values(column):
    return [None if pd.isna(value) is True else getattr(value, "item", lambda v=value: v)() for value in column]


# -- types


@pytest.mark.parametrize(
    ("texts", "dtype", "values"),
    [
        (["1", "-20", "0", ""], "Int64", [1, -20, 0, None]),
        (["9223372036854775807", "-9223372036854775808", ""], "Int64", [2**63 - 1, -(2**63), None]),
        (["9007199254740993", ""], "Int64", [2**53 + 1, None]),
        (["9223372036854775808"], "string", ["9223372036854775808"]),
        (["9007199254740993", "1.5"], "string", ["9007199254740993", "1.5"]),  # 2**53 + 1 is no float
        (["0012", "7"], "string", ["0012", "7"]),
        (["-01"], "string", ["-01"]),
        (["007.5"], "string", ["007.5"]),
        (["+49151234"], "string", ["+49151234"]),
        (["1", "+2"], "string", ["1", "+2"]),
        (["12 345", "1"], "string", ["12 345", "1"]),
        ([" 12", "7 "], "Int64", [12, 7]),
        (["1.5", "+2.5", ".5", "3.", "4", ""], "Float64", [1.5, 2.5, 0.5, 3.0, 4.0, None]),
        (["1e5", "2.5E-3"], "Float64", [1e5, 2.5e-3]),
        (["0.1", "0.30000000000000004", "1.7976931348623157e308", "5e-324"], "Float64",
         [0.1, 0.1 + 0.2, sys.float_info.max, 5e-324]),
        (["1e400"], "string", ["1e400"]),
        (["1e-400"], "string", ["1e-400"]),
        (["0.0e-400", "1"], "Float64", [0.0, 1.0]),
        (["1", "inf", "-Infinity"], "Float64", [1.0, math.inf, -math.inf]),
        (["inf"], "string", ["inf"]),
        (["1.5", "nan"], "string", ["1.5", "nan"]),
        (["1", "NA", "NULL", "None"], "string", ["1", "NA", "NULL", "None"]),
        (["true", "False", "TRUE", ""], "boolean", [True, False, True, None]),
        (["yes", "no"], "string", ["yes", "no"]),
        (["t", "f"], "string", ["t", "f"]),
        (["true", "1"], "string", ["true", "1"]),
        (["1,234", "5"], "string", ["1,234", "5"]),
        (["1_000"], "string", ["1_000"]),
        (["٣"], "string", ["٣"]),
        (["0x10"], "string", ["0x10"]),
        (["05.01.2024"], "string", ["05.01.2024"]),
        (["", ""], "object", [None, None]),
    ],
)  # fmt: skip
def test_a_column_has_the_type_in_which_each_text_keeps_its_meaning(read, texts, dtype, values):
    body = "".join(f'"{text}",x\n' for text in texts)
    assert cells(read(f"v,other\n{body}"))["v"] == (dtype, values)


def test_a_zero_keeps_its_sign(read):
    assert [math.copysign(1, value) for value in read("a\n-0.0\n0.0\n").a] == [-1, 1]


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["2013-01-01", "2013-01-02"], ["2013-01-01", "2013-01-02"]),
        (["2013-01-01 05:17", "2013-01-01T05:17:00"], ["2013-01-01 05:17", "2013-01-01 05:17"]),
        (["2013-01-01 05:17:00.5", "2013-01-01"], ["2013-01-01 05:17:00.5", "2013-01-01"]),
        (["0001-01-01", "9999-12-31 23:59:59.999999"], ["0001-01-01", "9999-12-31 23:59:59.999999"]),
        (["2013-01-01 00:00:00.123456789", ""], ["2013-01-01 00:00:00.123456789", "NaT"]),
        (["2013-01-01 00:00:00.123456000"], ["2013-01-01 00:00:00.123456"]),
    ],
)
def test_iso_dates_are_moments(read, texts, values):
    frame = read("day,x\n" + "".join(f"{text},1\n" for text in texts))
    assert frame.day.dtype.kind == "M"
    np.testing.assert_array_equal(frame.day.to_numpy(), np.array(values, frame.day.dtype))


def test_nanoseconds_have_their_own_unit(read):
    assert str(read("a\n2013-01-01 00:00:00.123456789\n").a.dtype) == "datetime64[ns]"
    assert str(read("a\n2013-01-01 00:00:00.123456\n").a.dtype) == "datetime64[us]"


def test_moments_with_offsets_are_in_utc(read):
    frame = read("at\n2013-01-01 05:00Z\n2013-01-01 05:00:00+02:00\n2013-01-01T05:00:00.25-0330\n2013-01-01 05:00+01\n")
    assert list(frame["at"]) == [
        datetime.datetime(2013, 1, 1, 5, tzinfo=UTC),
        datetime.datetime(2013, 1, 1, 3, tzinfo=UTC),
        datetime.datetime(2013, 1, 1, 8, 30, 0, 250000, tzinfo=UTC),
        datetime.datetime(2013, 1, 1, 4, tzinfo=UTC),
    ]


@pytest.mark.parametrize(
    "texts",
    [
        ["2013-01-01 05:00Z", "2013-01-01 05:00"],  # with and without an offset
        ["2013-01-01 05:00Z", "2013-01-01"],
        ["2013-01-01", "2013-02-30"],
        ["2013-01-01", "n/a"],
        ["2013-01-01 24:00"],
        ["2013-01-01 23:59:60"],
        ["0000-01-01"],
        ["2013-1-1"],
        ["2013-01"],
        ["05:17:00"],
        ["0001-01-01 00:00+01:00"],  # year 0 in UTC
        ["9999-12-31 23:30-01:00"],
        ["2013-01-01 00:00:00.123456789", "1600-01-01"],  # one needs nanoseconds, which begin in 1677
        ["2013-01-01 05:00+25:00"],
    ],
)
def test_one_text_that_is_no_such_date_leaves_the_column_as_text(read, texts):
    frame = read("day,x\n" + "".join(f"{text},1\n" for text in texts))
    assert (str(frame.day.dtype), list(frame.day)) == ("string", texts)


@given(st.lists(st.datetimes(), min_size=1))
def test_moments_are_those_of_isoformat(moments):
    for separator in " T":
        found = as_moments([moment.isoformat(separator) for moment in moments])
        assert list(found.astype("datetime64[us]")) == [pd.Timestamp(moment).as_unit("us") for moment in moments]


# -- fields


CELL = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6) | st.text(
    "\"',;\t| \r\nab\\", max_size=6
)


@given(
    st.integers(2, 4).flatmap(lambda count: st.lists(st.lists(CELL, min_size=count, max_size=count), max_size=6)),
    st.sampled_from(",;\t|"), st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
)  # fmt: skip
def test_fields_are_those_that_the_csv_module_reads(rows, sep, end, quoting):
    written = io.StringIO(newline="")
    if any("\r" in cell for row in rows for cell in row):
        quoting = csv.QUOTE_ALL  # Python 3.11 writes \r without quotes
    writer = csv.writer(written, delimiter=sep, lineterminator=end, quoting=quoting)
    names = [f"c{place}" for place in range(len(rows[0]) if rows else 2)]
    writer.writerows([names, *rows])
    records = list(csv.reader(io.StringIO(written.getvalue(), newline=""), delimiter=sep))
    frame = delimited.read(written.getvalue(), "a.csv", {"sep": sep, "dtype": "str"})
    assert list(frame.columns) == records[0]
    found = [[None if pd.isna(cell) else cell for cell in row] for row in frame.itertuples(index=False)]
    assert found == [[cell or None for cell in record] for record in records[1:]]


VALUES = {
    "Int64": (st.integers(-(2**63), 2**63 - 1), str),
    "Float64": (st.floats(allow_nan=False, allow_infinity=False), repr),
    "boolean": (st.booleans(), str),
    "string": (st.text("ab Ö\"',;\n", min_size=1).map(lambda text: f"x{text}"), str),
    "datetime64[us]": (st.datetimes(), lambda value: value.isoformat(" ")),
}


@given(st.data())
def test_values_that_were_written_are_read(data):
    columns = {}
    for dtype, (values, _) in VALUES.items():
        columns[dtype] = data.draw(st.lists(values | st.none(), min_size=4, max_size=4))
    written = io.StringIO(newline="")
    writer = csv.writer(written)
    writer.writerow(columns)
    for row in zip(*columns.values(), strict=True):
        pairs = zip(VALUES.values(), row, strict=True)
        writer.writerow(["" if value is None else write(value) for (_, write), value in pairs])
    frame = delimited.read(written.getvalue(), "a.csv", {})
    for dtype, values in columns.items():
        assert str(frame[dtype].dtype) == (dtype if any(value is not None for value in values) else "object")
        assert [None if pd.isna(value) else value for value in frame[dtype]] == values


def test_quoted_fields_with_separators_and_line_ends(read):
    frame = read('a,b\r\n"x, ""y""","1\r\n2"\r\n')
    assert cells(frame) == {"a": ("string", ['x, "y"']), "b": ("string", ["1\r\n2"])}


def test_a_line_with_too_few_or_too_many_fields_is_an_error_with_its_number(error):
    assert error('a,b\n"x\ny",1\n\n1,2,3\n') == (
        "a.csv: line 5 has 3 fields, but line 1 has 2\n"
        "Hint: add -- sep=';' for another separator; put quotation marks around a field that contains the separator"
    )
    assert error("a,b\n1,2\n3\n").startswith("a.csv: line 3 has 1 field, but line 1 has 2")


def test_lines_above_the_header_are_an_error_that_names_skiprows(read, error):
    text = "Sales of 2024\na,b\n1,2\n"
    assert "add -- skiprows=1 if the header is on line 2" in error(text)
    assert cells(read(text, "skiprows=1")) == {"a": ("Int64", [1]), "b": ("Int64", [2])}


def test_a_quotation_mark_that_is_not_closed_is_an_error(read, error):
    text = 'a,b\n1,"x\n2,y\n'
    assert error(text).startswith('a.csv: line 2 has an unclosed quotation mark: "')
    assert list(read(text, "quoting=3").b) == ['"x', "y"]


def test_quotation_marks_inside_a_field_are_letters(read):
    assert list(read('a,b\n5" pipe,1\n').a) == ['5" pipe']


def test_blank_lines_are_skipped(read):
    assert cells(read("\na,b\n\n1,2\n  \n3,4\n\n")) == {"a": ("Int64", [1, 3]), "b": ("Int64", [2, 4])}


@pytest.mark.parametrize("blank", ["", "  ", "\t"])
def test_a_blank_line_of_one_column_may_be_a_missing_value(read, error, blank):
    content = f"\na\nx\n{blank}\ny\n\n"
    assert "line 4 is blank: it may be a missing value in the only column" in error(content)
    assert list(read(content, "skip_blank_lines=True").a) == ["x", "y"]
    kept = cells(read(content[1:-1], "skip_blank_lines=False"))
    assert kept == {"a": ("string", ["x", blank or None, "y"])}
    assert list(read("a\nx\n\n\n").a) == ["x"]  # behind the last row


def test_blank_lines_are_counted_behind_line_ends_in_quotes(read, error):
    assert "line 5 is blank" in error('a\n"x\n\n"\n\ny\n')
    assert list(read('a\n"x\n\n"\ny\n').a) == ["x\n\n", "y"]


def test_rows_without_any_value_are_rows(read):
    assert cells(read("a\tb\n\t\n1\t2\n", name="a.tsv")) == {"a": ("Int64", [None, 1]), "b": ("Int64", [None, 2])}


def test_a_file_without_rows_has_columns_of_no_type(read, error):
    assert cells(read("a,b\n")) == {"a": ("object", []), "b": ("object", [])}
    assert error("") == "a.csv is empty"
    assert error("\n \n") == "a.csv is empty"


# -- names


def test_a_name_is_kept_as_it_is_written(read):
    assert list(read("name, points,2B,Order ID,re\u0301gion\nx,1,2,3,4\n").columns) == [
        "name", " points", "2B", "Order ID", "re\u0301gion",
    ]  # fmt: skip


def test_names_that_sql_does_not_distinguish_are_refused(read, error):
    message = error("a,A,b\n1,2,3\n")
    assert message == "a.csv: duplicate column names: a, A\nHint: add -- header=0 names=['a', 'A_2', 'b']"
    assert list(read("a,A,b\n1,2,3\n", "header=0", "names=['a',", "'A_2',", "'b']").columns) == ["a", "A_2", "b"]


def test_columns_without_a_name(read, error):
    assert cells(read(",a\n0,5\n")) == {"index": ("Int64", [0]), "a": ("Int64", [5])}  # pandas writes its index so
    assert cells(read("a,b,\n1,2,\n")) == {"a": ("Int64", [1]), "b": ("Int64", [2])}
    assert error("a,,b\n1,2,3\n") == "a.csv: column 2 has no name\nHint: add -- header=0 names=['a', 'column2', 'b']"
    assert "column 1 has no name" in error(",index\n1,2\n")


# -- separators and decimal commas


@pytest.mark.parametrize("sep", [";", "\t", "|"])
def test_another_separator_is_detected(read, sep):
    assert cells(read(f"a{sep}b\n1{sep}x\n")) == {"a": ("Int64", [1]), "b": ("string", ["x"])}


def test_commas_in_a_tsv_file(read):
    assert cells(read("a,b\n1,x\n", name="a.tsv")) == {"a": ("Int64", [1]), "b": ("string", ["x"])}
    assert cells(read("a\n1,x\n", name="a.tsv")) == {"a": ("string", ["1,x"])}


def test_a_decimal_comma_is_detected(read):
    frame = read("name;price;n\nx;1,5;1\ny;-,25;2\nz;3;3\n")
    assert cells(frame) == {
        "name": ("string", ["x", "y", "z"]), "price": ("Float64", [1.5, -0.25, 3.0]), "n": ("Int64", [1, 2, 3]),
    }  # fmt: skip
    assert list(read("a;b\n1,234;x\n12,5;y\n").a) == [1.234, 12.5]


def test_a_decimal_point_is_kept_behind_another_separator(read):
    assert list(read("a;b\n1.5;x\n").a) == [1.5]


def test_two_possible_separators_are_refused(read, error):
    text = "price, net;n\n1,5;2\n"
    assert (
        error(text) == "the separator of a.csv is ambiguous: it may be ',' or ';'\nHint: add -- sep=',' or -- sep=';'"
    )
    assert cells(read(text, "sep=';'", "decimal=','")) == {"price, net": ("Float64", [1.5]), "n": ("Int64", [2])}


def test_a_comma_with_two_meanings_is_refused(read, error):
    text = "a;b\n1,234;x\n"
    assert error(text) == (
        "column a is ambiguous: the comma in 1,234 may separate decimals or thousands\n"
        "Hint: add -- decimal=',' or -- thousands=','; to keep text, add -- dtype={'a': 'str'}"
    )
    assert list(read(text, "decimal=','").a) == [1.234]
    assert list(read(text, "thousands=','").a) == [1234]
    assert list(read(text, "dtype={'a': 'str'}").a) == ["1,234"]


def test_a_decimal_comma_beside_a_decimal_point_is_refused(read, error):
    text = "a;b\n1,5;1.250\n"
    assert "column a has a decimal comma (1,5), but column b has a decimal point (1.250)" in error(text)
    assert cells(read(text, "decimal=','", "thousands='.'")) == {"a": ("Float64", [1.5]), "b": ("Int64", [1250])}
    assert cells(read(text, "dtype={'b': 'str'}")) == {"a": ("Float64", [1.5]), "b": ("string", ["1.250"])}


def test_a_decimal_comma_in_quotes_is_refused(read, error):
    text = 'a,b\n"1,5",x\n'
    assert "add -- decimal=','" in error(text)
    assert list(read(text, "decimal=','").a) == [1.5]


def test_thousands_in_quotes_stay_text(read):
    assert list(read('a,b\n"1,234",x\n').a) == ["1,234"]
    assert list(read('a,b\n"1,234",x\n"12,345,678.5",y\n', "thousands=','").a) == [1234.0, 12345678.5]
    assert list(read('a,b\n"1,23",x\n', "thousands=','").a) == ["1,23"]  # no groups of three


@pytest.mark.parametrize(
    ("text", "options", "values"),
    [
        ("a,b\n1,'x,y'\n", ['quotechar="\'"'], [1, "x,y"]),
        ('a,b\n1, "x,y"\n', ["skipinitialspace=True"], [1, "x,y"]),
        ('a,b\n1,"x\\"y"\n', [r"escapechar='\\'"], [1, 'x"y']),
        ("a,b\n1,x\\,y\n", [r"escapechar='\\'"], [1, "x,y"]),
        ('a,b\n1,"x#y" # note\n# note\n', ["comment='#'"], [1, "x#y "]),
        ("a b\n1 'x'\n", ["sep=' '"], [1, "'x'"]),
    ],
)
def test_other_marks(read, text, options, values):
    assert read(text, *options).iloc[0].tolist() == values


def test_rows_that_pandas_counts_in_another_way_are_refused(error):
    assert error("a,b\n  # note\n1,2\n", "comment='#'").startswith(
        "a.csv: pandas reads 3 rows of 2 fields, but the file has 2 rows of 2"
    )


# -- encodings and compression


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_names_the_encoding(read, encoding):
    assert cells(read("é,b\nÖ,1\n".encode(encoding))) == {"é": ("string", ["Ö"]), "b": ("Int64", [1])}


@pytest.mark.parametrize(
    ("encoding", "text", "named"),
    [
        ("latin-1", "a\n1\né\n", "byte 0xe9 on line 3\nHint: add -- encoding='latin-1'"),
        ("cp1252", "a\n1 €\n", "byte 0x80 on line 2\nHint: add -- encoding='cp1252'"),
        ("utf-16-le", "aé\n1\n", "add -- encoding='utf-16-le'"),
        ("utf-16-be", "ab\n1\n", "add -- encoding='utf-16-be'"),
    ],
)
def test_another_encoding_is_an_error_that_names_it(read, error, encoding, text, named):
    data = text.encode(encoding)
    assert named in error(data)
    assert read(data, f"encoding={encoding!r}").to_csv(index=False) == read(text).to_csv(index=False)


def test_an_unknown_encoding_and_a_nul_are_errors(error):
    assert error("a\n1\n", "encoding='nope'").startswith("unknown encoding 'nope'")
    assert error("a\nx\0y\n") == "a.csv contains a NUL character on line 2"


def _zipped(data, *names):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name in names:
            archive.writestr(name, data)
    return packed.getvalue()


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [
        ("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress),
        ("zip", lambda data: _zipped(data, "a.csv", "__MACOSX/._a.csv")),
    ],
)  # fmt: skip
def test_a_compressed_file(read, error, suffix, compress):
    name = f"a.csv.{suffix}"
    assert cells(read(compress(b"a,b\n1,x\n"), name=name)) == {"a": ("Int64", [1]), "b": ("string", ["x"])}
    assert error(b"a,b\n1,x\n", name=name).startswith(f"cannot decompress {name}: ")


def test_an_archive_of_several_files_is_refused(error):
    message = error(_zipped(b"a\n1\n", "a.csv", "b.csv"), name="a.csv.zip")
    assert message == "a.csv.zip contains 2 files (a.csv, b.csv)\nHint: unpack it and load one of them"


# -- options


@pytest.mark.parametrize(
    ("options", "values"),
    [
        (["usecols=['b']"], {"b": [1, 2]}),
        (["usecols=[0]"], {"a": ["x", "NA"]}),
        (["nrows=1"], {"a": ["x"], "b": [1]}),
        (["skipfooter=1"], {"a": ["x"], "b": [1]}),
        (["skiprows=[1]"], {"a": ["NA"], "b": [2]}),
        (["na_values='NA'"], {"a": ["x", None], "b": [1, 2]}),
        (["na_values={'b': [2]}"], {"a": ["x", "NA"], "b": [1, None]}),
        (["keep_default_na=True"], {"a": ["x", None], "b": [1, 2]}),
        (["header=None"], {"0": ["a", "x", "NA"], "1": ["b", "1", "2"]}),
        (["header=1"], {"x": ["NA"], "1": [2]}),
        (["names=['c', 'd']"], {"c": ["a", "x", "NA"], "d": ["b", "1", "2"]}),
        (["header=0", "names=['c', 'd']"], {"c": ["x", "NA"], "d": [1, 2]}),
        (["dtype='str'"], {"a": ["x", "NA"], "b": ["1", "2"]}),
        (["dtype={'b': 'float'}"], {"a": ["x", "NA"], "b": [1.0, 2.0]}),
        (["true_values=['x']", "false_values=['NA']"], {"a": [True, False], "b": [1, 2]}),
        (["comment='N'"], None),
    ],
)
def test_an_option_changes_how_a_file_is_read(read, error, options, values):
    text = "a,b\nx,1\nNA,2\n"
    if values is None:
        assert cells(read("a,b\nx,1 Note\nNo\n", *options)) == {"a": ("string", ["x"]), "b": ("Int64", [1])}
    else:
        assert {name: found for name, (_, found) in cells(read(text, *options)).items()} == values


def test_an_option_may_extend_over_several_words(read):
    assert list(read("t\na,b\nu\n1,2\n", "skiprows=[0,", "2]").columns) == ["a", "b"]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("seperator=';'", "seperator is not an option for csv files"),
        ("storage_options={}", "storage_options is not an option for csv files"),
        ("sep=;", "the value of sep must be a Python literal, not ;\nHint: write -- sep=';'"),
        ("sep=open('x')", "the value of sep must be a Python literal"),
        ("sep=", "the value of sep must be a Python literal, not empty"),
        ("sep='--'", "sep cannot be '--'\nHint: write -- sep=';'"),
        ("skiprows='2'", "skiprows cannot be '2'\nHint: write -- skiprows=2"),
        ("skiprows=-1", "skiprows must not be negative"),
        ("nrows=True", "nrows cannot be True"),
        (";", "; is not an option\nHint: write options in the form -- sep=';' skiprows=2"),
        ("usecols=['n']", "usecols: the file has no column 'n'\nHint: the columns are a, b"),
        ("dtype={'n': 'str'}", "dtype: the file has no column 'n'"),
        ("dtype='complex'", "column a: dtype 'complex' is not supported"),
        ("dtype='bool'", "column a: row 1 contains 'x', which is not bool"),
        ("names=['c']", "names has 1 name, but a.csv has 2 columns"),
        ("header=7", "header=7 is not a row number of a.csv"),
        (
            "dayfirst=True",
            "dayfirst requires parse_dates, a list of the columns with dates\nHint: add parse_dates=['a']",
        ),
        ("parse_dates=['n']", "parse_dates: the file has no column 'n'"),
        ("parse_dates=['a']", "column a: 'x' is not an ISO date"),
    ],
)
def test_a_wrong_option_is_an_error_that_shows_what_to_write(error, option, message):
    assert error("a,b\nx,1\n", option).startswith(message)


def test_did_you_mean_another_option(error):
    assert error("a\n1\n", "seperator=';'").endswith("did you mean sep?")
    assert error("a\n1\n", "nosuch=1").endswith("options are " + ", ".join(sorted(delimited.OPTIONS)))
    assert error("a\n1\n", "skiprow=1") == "skiprow is not an option for csv files\nHint: did you mean skiprows?"
    twice = "sep is specified twice\nHint: write sep=... once, with all its values"
    assert error("a\n1\n", "sep=';'", "sep=','") == twice


def test_lists_of_an_option_that_is_specified_twice_are_joined(read, error):
    """A note on a file offers na_values, dtype and parse_dates also where they are given for other columns."""
    text = "a,b,c\nNA,05.01.2024,007\n?,06.02.2024,008\n-,07.02.2024,009\n1,?,010\n"
    options = ["parse_dates=['b']", "date_format={'b': '%d.%m.%Y'}", "dtype={'c': 'str'}"]
    frame = read(text, "na_values='?'", "na_values=['NA']", "na_values=['-', 'NA']", *options, "dtype={'a': 'int'}")
    assert frame["a"].tolist() == [pd.NA] * 3 + [1]
    assert frame["b"].tolist()[0] == pd.Timestamp(2024, 1, 5)
    assert frame["c"].tolist() == ["007", "008", "009", "010"]
    for first, second in (("dtype={'a': 'str'}", "dtype={'a': 'int'}"), ("na_values={'a': 'NA'}", "na_values=['?']")):
        assert "is specified twice" in error(text, first, second)


def test_dates_of_other_forms_need_their_form(read, error):
    text = "day,x\n05.01.2024,1\n,2\n"
    fifth = pd.Timestamp(2024, 1, 5)
    assert "add dayfirst=True, or give the format of the dates: date_format='%d.%m.%Y'" in error(
        text, "parse_dates=['day']"
    )
    assert read(text, "parse_dates=['day']", "dayfirst=True").day[0] == fifth
    assert read(text, "parse_dates=['day']", "date_format='%d.%m.%Y'").day[0] == fifth
    assert read("day\n2024-01-05\n", "parse_dates=False").day[0] == "2024-01-05"
    options = ("parse_dates=['day']", "date_format='%d.%m.%Y'")
    other = read("day,at\n05.01.2024,2024-03-31T01:30:00+01:00\n,2024-03-31T01:30:00Z\n", *options)["at"]
    assert other.tolist() == [pd.Timestamp("2024-03-31T00:30Z"), pd.Timestamp("2024-03-31T01:30Z")]
    assert "order" in error("day\n01/13/2024\n", "parse_dates=['day']", "dayfirst=True")
    assert "column day" in error("day\n31.12.2024\n32.12.2024\n", "parse_dates=['day']", "dayfirst=True")


def test_a_converted_column_loses_nothing_in_silence(read, error):
    assert read("a\n0012\n", "dtype='int'").a[0] == 12
    assert "row 2 contains '1.5', which is not int" in error("a\n1\n1.5\n", "dtype='int'")
    assert "row 1 contains '9223372036854775808'" in error("a\n9223372036854775808\n", "dtype='int'")
    assert "row 1 contains 'nan'" in error("a\nnan\n", "dtype='float'")
    assert "row 1 contains '1_0'" in error("a\n1_0\n", "dtype='int'")
    assert cells(read("a,b\nFalse,1\n,2\n", "dtype={'a': 'bool'}"))["a"] == ("boolean", [False, None])


# -- JSON


def test_json_has_the_types_of_its_values(read):
    records = [
        {"n": 9007199254740993, "x": 1, "code": "0012", "ok": True, "day": "2013-01-01", "tags": ["a"], "mixed": 1},
        {"n": None, "x": 2.5, "code": "NA", "ok": None, "day": None, "tags": [], "mixed": "b", "late": 7},
    ]
    expected = {
        "n": ("Int64", [2**53 + 1, None]), "x": ("Float64", [1.0, 2.5]), "code": ("string", ["0012", "NA"]),
        "ok": ("boolean", [True, None]), "tags": ("object", [["a"], []]), "mixed": ("object", [1, "b"]),
        "late": ("Int64", [None, 7]),
    }  # fmt: skip
    lines = "\n".join(map(json.dumps, records))
    for name, text in (("a.json", json.dumps(records, indent=1)), ("a.json", lines), ("a.ndjson", f"{lines}\n\n")):
        frame = read(text, name=name)
        assert list(frame.day) == [pd.Timestamp(2013, 1, 1), pd.NaT]
        assert cells(frame.drop(columns="day")) == expected
    assert list(read('{"a": "2013-01-01"}', "convert_dates=False", name="a.jsonl").a) == ["2013-01-01"]


def test_json_numbers_are_exact(read):
    frame = read('{"big": 18446744073709551616, "mixed": 9007199254740993}\n{"mixed": 0.5}\n', name="a.jsonl")
    assert list(frame.big) == [2**64, None]
    assert list(frame.mixed) == [2**53 + 1, 0.5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1}\n{b}\n', "a.json is not valid JSON: line 2"),
        ('[{"a": 1}', "a.json is not valid JSON: line 1"),
        ('[{"a": 1}, 5]', "a.json: row 2 is not an object: 5"),
        ('{"a": {"0": 1}}', "a.json is not an array of objects\nHint: read it with pandas.read_json('a.json')"),
        ('{"a": 1, "a": 2}', "an object has the duplicate key 'a'"),
        ("[]", "a.json contains no rows"),
        ("[{}]", "a.json contains no values"),
    ],
)
def test_json_that_is_no_table_is_refused(error, text, message):
    assert error(text, name="a.json").startswith(message)


# -- Excel


def _workbook(path, rows, title="Sheet1", **more):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for name, content in {title: rows, **more}.items():
        sheet = book.create_sheet(name)
        for row in content:
            sheet.append(row)
    del book[book.sheetnames[0]]
    book.save(path)


def test_excel_cells_keep_their_types(tmp_path):
    path = tmp_path / "a.xlsx"
    noon, day = datetime.datetime(2024, 1, 31, 12), datetime.datetime(2024, 1, 31)
    _workbook(path, [
        ["code", "n", "x", "at", "day", "ok", "iso", "empty"],
        ["0012", 3, 1.5, noon, day, True, "2024-01-31", None],
        ["NA", None, 2, None, day, False, None, None],
        [None, 4.0, -0.5, noon, day, None, "x", None],
    ])  # fmt: skip
    frame = read_file(path)
    assert cells(frame.drop(columns=["at", "day"])) == {
        "code": ("string", ["0012", "NA", None]), "n": ("Int64", [3, None, 4]), "x": ("Float64", [1.5, 2.0, -0.5]),
        "ok": ("boolean", [True, False, None]), "iso": ("string", ["2024-01-31", None, "x"]),
        "empty": ("object", [None, None, None]),
    }  # fmt: skip
    assert list(frame["at"]) == [pd.Timestamp(noon), pd.NaT, pd.Timestamp(noon)]
    assert list(frame.day) == [pd.Timestamp(day)] * 3


def test_excel_sheets_and_options(tmp_path):
    path = tmp_path / "a.xlsx"
    _workbook(path, [["a", "a"], [1, 2]], Second=[["Title"], ["b", "c"], [1, "x"]])
    assert cells(read_file(path, ["sheet_name='Second'", "skiprows=1"])) == {
        "b": ("Int64", [1]), "c": ("string", ["x"]),
    }  # fmt: skip
    assert list(read_file(path, ["sheet_name=1", "skiprows=1", "usecols='B'"]).columns) == ["c"]
    for options, message in (
        ([], "a.xlsx: duplicate column names: a"),
        (["sheet_name='Secnd'"], "a.xlsx has no sheet 'Secnd'\nHint: did you mean Second?"),
        (["sheet_name=2"], "a.xlsx has no sheet 2\nHint: the sheets are Sheet1, Second"),
        (["sheet_name=None"], "sheet_name cannot be None"),
    ):
        with pytest.raises(LoadError) as caught:
            read_file(path, options)
        assert str(caught.value).startswith(message)


def test_excel_without_openpyxl_names_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    (tmp_path / "a.xlsx").write_bytes(_zipped(b"", "xl/workbook.xml"))
    with pytest.raises(LoadError, match="Excel files require openpyxl\nHint: %pip install openpyxl"):
        read_file(tmp_path / "a.xlsx")


# -- Parquet


def test_parquet_has_the_types_of_arrow(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pa.table(
        {
            "n": pa.array([2**53 + 1, None], pa.int64()),
            "u": pa.array([2**64 - 1, None], pa.uint64()),
            "d": pa.array([datetime.date(2013, 1, 1), None], pa.date32()),
            "at": pa.array([1, None], pa.timestamp("ns", "UTC")),
            "t": pa.array(["0012", None], pa.large_string()),
        }
    )
    parquet.write_table(table, tmp_path / "a.parquet")
    frame = read_file(tmp_path / "a.parquet")
    assert pa.Table.from_pandas(frame, preserve_index=False).cast(table.schema).equals(table)
    assert all(isinstance(dtype, pd.ArrowDtype) for dtype in frame.dtypes)
    assert list(read_file(tmp_path / "a.parquet", ["columns=['t', 'n']"]).columns) == ["t", "n"]


def test_parquet_that_cannot_be_read(error, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    assert error(b"PAR1", name="a.parquet").startswith("a.parquet is not a valid Parquet file")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert error(b"", name="a.parquet") == "a.parquet: Parquet files require pyarrow\nHint: %pip install pyarrow"


# -- paths


def test_a_path_in_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (tmp_path / "a.csv").write_text("a\n1\n")
    assert list(read_file("~/a.csv").a) == [1]


@pytest.mark.parametrize(
    "address", ["https://example.org/data/f.csv?x=1", "s3://bucket/f.parquet", "file:///etc/x.csv"]
)
def test_an_address_is_refused(address, tmp_path):
    for path in (address, type(tmp_path)(address)):
        with pytest.raises(LoadError, match="load reads local files") as caught:
            read_file(path)
        assert "urllib.request.urlretrieve('" in caught.value.hint


def test_a_file_that_does_not_exist(tmp_path):
    (tmp_path / "flights.csv").write_text("a\n1\n")
    (tmp_path / "flights.txt").write_text("a\n1\n")
    (tmp_path / "x.db").write_text("")
    for name, message in (
        ("flighs.csv", f"did you mean {tmp_path / 'flights.csv'}?"),
        ("other.csv", "%pwd shows the current folder"),
        ("none/a.csv", f"folder {tmp_path / 'none'} does not exist"),
        ("", "is a folder"),
        ("flights.txt", "flights.txt has an unsupported file format\nHint: its name must end with .csv, .tsv, .json"),
        ("x.db", "%pipedb create-database x --from-file"),
    ):
        with pytest.raises(LoadError) as caught:
            read_file(tmp_path / name)
        assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "is_file"),
    [
        ("flights.csv", True), ("a/b.CSV.gz", True), ("x.parquet", True), ("https://example.org/", True),
        ("flights", False), ("data.flights", False), ("csv", False), (".csv", False), ("a.parquet.gz", False),
    ],
)  # fmt: skip
def test_names_of_files(name, is_file):
    assert is_file_name(name) is is_file


@pytest.mark.parametrize(
    "text", ["9007199254740993.0", "12345678901234567.89", "-12345678901234567890.5", "91234567890123460.00"]
)
def test_a_number_that_a_float_would_round_to_another_integer_stays_text(read, error, text):
    assert cells(read(f"a\n{text}\n0.5\n")) == {"a": ("string", [text, "0.5"])}
    assert f"the number {text} does not fit in a 64-bit float" in error(f'[{{"a": {text}}}]', name="a.json")


@pytest.mark.parametrize(
    "text", ["9007199254740992.0", "1e23", "1.234567890123456693e+19", "123456789.1234567890123", "-1.5e300"]
)
def test_digits_that_a_float_has_not_are_no_other_integer(read, text):
    assert cells(read(f"a\n{text}\n0.5\n")) == {"a": ("Float64", [float(text), 0.5])}
    assert cells(read(f'[{{"a": {text}}}]', name="a.json")) == {"a": ("Float64", [float(text)])}


@given(st.integers(-(10**17), 10**17), st.integers(0, 99))
def test_numbers_are_not_rounded_to_other_integers(integer, cents):
    text = f"{integer}.{cents:02}"
    numbers, exact = as_numbers([text], NumberFormat()), decimal.Decimal(text)
    assert (numbers is None) == (abs(exact) > 2**53 and exact != decimal.Decimal(float(text)))
    if numbers is not None:
        assert abs(exact - decimal.Decimal(numbers[0])) <= 0.5


@pytest.mark.parametrize("text", ["1e400", "-1e400", "1e-400"])
def test_a_number_of_json_beyond_the_range_of_floats_is_refused(error, text):
    assert f"the number {text} does not fit in a 64-bit float" in error(f'{{"a": {text}}}', name="a.jsonl")


def test_a_point_may_separate_thousands_beside_semicolons(read, error):
    content = "town;people\nA;1.234\nB;0\n"
    message = error(content)
    assert "column people is ambiguous: the point in 1.234 may separate decimals or thousands\n" in message
    assert "add -- decimal='.' or -- thousands='.'" in message
    assert list(read(content, "thousands='.'").people) == [1234, 0]
    assert list(read(content, "decimal='.'").people) == [1.234, 0.0]
    assert list(read(content, "dtype={'people': 'str'}").people) == ["1.234", "0"]
    assert list(read(content.replace("0", "0.5")).people) == [1.234, 0.5]
    assert list(read("town,people\nA,1.234\n").people) == [1.234]


def test_a_zero_beside_groups_of_thousands_does_not_prove_a_decimal_comma(read, error):
    content = "town;people\nA;1,234\nB;0\n"
    message = error(content)
    assert "column people is ambiguous: the comma in 1,234 may separate decimals or thousands\n" in message
    assert "add -- decimal=',' or -- thousands=','" in message
    assert list(read(content, "thousands=','").people) == [1234, 0]
