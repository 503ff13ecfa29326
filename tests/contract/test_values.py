"""Values in arguments and results (section 4)."""

import base64
import json
import math
import random
import struct

import pytest
from contract_wire import CLOSE, execute, value

EXACT = [
    None, 0, 1, -1, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 0.5, -0.5, 1.0, 9.0, 1e100, 1e308, 5e-324,
    1.7976931348623157e308, 9007199254740992.0,
    "", "x", "é", "日本", "😀", "\0", "a\0b", "\u2028", '"\\/\b\f\n\r\t\x1f',
    b"", b"\0", b"a", b"ab", b"abc", bytes(range(256)),
]  # fmt: skip


@pytest.mark.parametrize("python", EXACT, ids=repr)
def test_a_value_is_stored_exactly(db, python):
    db.run("CREATE TABLE t(a)")
    assert db.post(execute("INSERT INTO t VALUES (?)", python), CLOSE).codes == ["ok", "ok"]
    (row,) = db.rows("SELECT a FROM t")
    assert (type(row[0]), row[0]) == (type(python), python)


def test_minus_zero_keeps_its_sign(empty):
    (row,) = empty.post(execute("SELECT ?, -0.0", -0.0), CLOSE).rows()
    assert [math.copysign(1, number) for number in row] == [-1, -1]


def test_random_doubles_are_returned_bit_by_bit(empty):
    choose = random.Random(1)
    doubles = [struct.unpack("<d", choose.randbytes(8))[0] for _ in range(2000)]
    doubles = [number for number in doubles if math.isfinite(number)]
    (row,) = empty.post(execute("SELECT " + ",".join("?" * len(doubles)), *doubles), CLOSE).rows()
    assert row == doubles


def test_random_doubles_are_read_bit_by_bit(empty):
    """The values are SQL text with 17 digits, so that only the response is tested."""
    choose = random.Random(2)
    doubles = [choose.uniform(-1, 1) * 2.0 ** choose.randint(-60, 60) for _ in range(500)]
    terms = []
    for number in doubles:
        mantissa, exponent = math.frexp(number)
        terms.append(f"{int(mantissa * 2**53)} * pow(2.0, {exponent - 53})")
    (row,) = empty.rows("SELECT " + ",".join(terms))
    assert row == doubles


FORMS = [
    ("NULL", {"type": "null"}),
    ("42", {"type": "integer", "value": "42"}),
    ("-9223372036854775808", {"type": "integer", "value": "-9223372036854775808"}),
    ("TRUE", {"type": "integer", "value": "1"}),
    ("9.0", {"type": "float", "value": 9.0}),
    ("'é/'", {"type": "text", "value": "é/"}),
    ("x'00ff'", {"type": "blob", "base64": "AP8"}),
    ("x''", {"type": "blob", "base64": ""}),
    ("9e999", {"type": "float", "value": None}),
    ("-9e999", {"type": "float", "value": None}),
    ("9e999 - 9e999", {"type": "null"}),
]


@pytest.mark.parametrize(("sql", "wire"), FORMS, ids=[sql for sql, _ in FORMS])
def test_a_value_has_the_form_of_the_specification(empty, sql, wire):
    assert empty.post(execute(f"SELECT {sql}"), CLOSE).result()["rows"] == [[wire]]


@pytest.mark.parametrize("sql", ["9.0", "1e300", "-0.0"])
def test_a_float_is_written_with_a_point_or_an_exponent(empty, sql):
    text = empty.post(execute(f"SELECT {sql}"), CLOSE).http.text
    number = (
        text.partition('"type":"float","value":')[2].partition("}")[0]
        or text.partition('"value":')[2].partition(",")[0]
    )
    assert "." in number or "e" in number


def argument(db, wire):
    body = {"requests": [{"type": "execute", "stmt": {"sql": "SELECT typeof(?1), ?1", "args": [wire]}}, CLOSE]}
    return db.send_body(json.dumps(body).encode())


ACCEPTED = {
    "null with more": ({"type": "null", "value": "null"}, ["null", None]),
    "plus": ({"type": "integer", "value": "+5"}, ["integer", 5]),
    "zeros": ({"type": "integer", "value": "005"}, ["integer", 5]),
    "integer in a float": ({"type": "float", "value": 3}, ["real", 3.0]),
    "padded": ({"type": "blob", "base64": "AA=="}, ["blob", b"\0"]),
    "unpadded": ({"type": "blob", "base64": "AA"}, ["blob", b"\0"]),
    "slashes": ({"type": "blob", "base64": "////"}, ["blob", b"\xff\xff\xff"]),
    "order of keys": ({"value": "x", "type": "text"}, ["text", "x"]),
}


@pytest.mark.parametrize(("wire", "row"), ACCEPTED.values(), ids=ACCEPTED)
def test_an_argument_is_accepted(empty, wire, row):
    assert argument(empty, wire).rows() == [row]


NO_VALUES = {
    "integer as number": {"type": "integer", "value": 5},
    "integer null": {"type": "integer", "value": None},
    "float as text": {"type": "float", "value": "1.0"},
    "text null": {"type": "text", "value": None},
    "text missing": {"type": "text"},
    "unknown type": {"type": "bool", "value": True},
    "no type": {"value": "x"},
}


@pytest.mark.parametrize("wire", NO_VALUES.values(), ids=NO_VALUES)
def test_an_invalid_value_is_a_malformed_body(empty, wire):
    answer = argument(empty, wire)
    assert (answer.status, answer.content_type) == (400, "text/plain")


OUT_OF_FORM = {
    "integer with point": {"type": "integer", "value": "5.0"},
    "integer with blank": {"type": "integer", "value": " 5"},
    "integer too large": {"type": "integer", "value": "9223372036854775808"},
    "integer empty": {"type": "integer", "value": ""},
    "integer beyond all bounds": {"type": "integer", "value": "9" * 5000},
    "float null": {"type": "float", "value": None},
    "blob of URLs": {"type": "blob", "base64": "-_-_"},
    "blob of bad length": {"type": "blob", "base64": "A"},
    "blob with a newline": {"type": "blob", "base64": "AA\nAA"},
}


@pytest.mark.parametrize("wire", OUT_OF_FORM.values(), ids=OUT_OF_FORM)
def test_a_value_of_invalid_form_is_refused(empty, fact, wire):
    answer = argument(empty, wire)
    assert (answer.status, answer.codes if answer.status == 200 else None) == fact("a value of invalid form")


@pytest.mark.parametrize("number", [b"1e400", b"Infinity", b"NaN"])
def test_a_number_that_is_not_a_double_is_refused(empty, number):
    body = b'{"requests":[{"type":"execute","stmt":{"sql":"SELECT ?","args":[{"type":"float","value":%s}]}}]}' % number
    assert empty.send_body(body).status == 400


def test_text_that_is_not_utf8_is_an_error_of_its_statement(empty):
    answer = empty.post(execute("SELECT CAST(x'ff' AS TEXT)"), execute("SELECT 1"), CLOSE)
    assert "UTF-8" in answer.error()["message"]
    assert answer.rows(1) == [[1]]


def test_a_large_blob_is_returned(db):
    blob = random.Random(3).randbytes(2_000_000)
    answer = db.post(execute("SELECT ?", blob), CLOSE)
    assert answer.rows() == [[blob]]
    assert value(blob)["base64"] == base64.b64encode(blob).decode()
