"""Every SQL value survives the wire exactly."""

import math
import struct
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipemagic.errors import ProtocolError
from pipemagic.hrana import messages, values
from pipemagic.hrana.values import Blob, Float, Integer, Null, Text, decode, encode


def read(wire):
    """Read a value where the wire has it: among the arguments of a statement."""
    execute = {"type": "execute", "stmt": {"sql": "SELECT ?", "args": [wire]}}
    (request,) = messages.decode_request(msgspec.json.encode({"requests": [execute]})).requests
    return request.stmt.args[0]


DECODER = msgspec.json.Decoder(values.Value)

unicode_text = st.text(st.characters(exclude_categories=["Cs"]))
sql_values = (
    st.none()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | unicode_text
    | st.binary()
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=12,
)


def over_the_wire(value):
    return decode(DECODER.decode(messages.encode(encode(value))))


def same(one, other):
    """Equal, of the same type, and for floats bit by bit."""
    if isinstance(one, float):
        return isinstance(other, float) and struct.pack("<d", one) == struct.pack("<d", other)
    return type(one) is type(other) and one == other


EXACT = [
    None, 0, -1, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 0.0, -0.0, 1.0, 0.1, 1e308, 5e-324, -5e-324,
    2.2250738585072009e-308, 1.7976931348623157e308, 9007199254740993.0, "", "\0", "a\0b", "😀", "é", "\u2028",
    "\\/\"'", "\ufeff", "\x7f\x1f", b"", b"\0", b"\xff", b"ab", b"abc", bytes(range(256)),
]  # fmt: skip


@pytest.mark.parametrize("value", EXACT, ids=repr)
def test_the_hard_values_come_back_exactly(value):
    assert same(value, over_the_wire(value))


@given(sql_values)
def test_every_value_comes_back_exactly(value):
    assert same(value, over_the_wire(value))


@given(st.integers(0, 2**64 - 1))
def test_every_double_comes_back_bit_by_bit(bits):
    number = struct.unpack("<d", struct.pack("<Q", bits))[0]
    if math.isfinite(number):
        assert same(number, over_the_wire(number))


def test_an_infinity_is_null_with_a_sign():
    assert messages.encode(encode(math.inf)) == b'{"type":"float","value":null,"sign":1}'
    assert [over_the_wire(infinity) for infinity in (math.inf, -math.inf)] == [math.inf, -math.inf]


def test_an_infinity_without_a_sign_reads_as_nan():
    assert math.isnan(decode(Float(None)))


def test_a_nan_is_null_as_in_sqlite():
    assert encode(math.nan) == Null()


def test_a_bool_is_an_integer():
    assert [encode(True), encode(False)] == [Integer("1"), Integer("0")]


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**30])
def test_an_integer_beyond_64_bits_is_refused(number):
    with pytest.raises(ProtocolError, match="does not fit in 64 bits"):
        encode(number)


@pytest.mark.parametrize("value", [[], {}, object(), 1j, {1}], ids=lambda value: type(value).__name__)
def test_a_value_without_sql_form_is_refused(value):
    with pytest.raises(ProtocolError, match="cannot convert a value of type"):
        encode(value)


@given(sql_values)
def test_messages_are_encoded_as_in_the_specification(value):
    wire = msgspec.json.decode(messages.encode(encode(value)))
    match value:
        case None:
            assert wire == {"type": "null"}
        case int():
            assert wire == {"type": "integer", "value": str(value)}
        case float():
            assert wire["type"] == "float"
            assert isinstance(wire["value"], float)
        case str():
            assert wire == {"type": "text", "value": value}
        case bytes():
            assert wire.keys() == {"type", "base64"}
            assert "=" not in wire["base64"]


@given(st.binary(), st.integers(0, 4))
def test_blobs_are_read_with_and_without_padding(data, padding):
    text = encode(data).base64 + "=" * padding
    assert decode(Blob(text)) == data


@pytest.mark.parametrize("text", ["-_-_", "A", "AB CD", "AB\nCD", "A=BC", "é", "QQ==QQ", "****"])
def test_other_base64_is_refused(text):
    with pytest.raises(ProtocolError, match="base64"):
        decode(Blob(text))


@pytest.mark.parametrize("text", ["+5", "-5", "0", "-0", "00012", "-9223372036854775808"])
def test_decimal_text_is_an_integer(text):
    assert same(int(text), decode(Integer(text)))


@pytest.mark.parametrize(
    "text",
    ["", " 5", "5 ", "5\n", "5.0", "1e3", "0x10", "1_000", "٣", "+", "--5", "9223372036854775808", "9" * 5000],
    ids=lambda text: repr(text[:12]),
)
def test_other_integers_are_refused(text):
    with pytest.raises(ProtocolError, match="is not a 64-bit integer"):
        decode(Integer(text))


def test_a_json_integer_in_a_float_is_a_float():
    assert same(3.0, decode(DECODER.decode(b'{"type":"float","value":3}')))


@pytest.mark.parametrize(
    "wire",
    [
        {"type": "integer", "value": 5},
        {"type": "integer", "value": None},
        {"type": "integer"},
        {"type": "float", "value": "1.0"},
        {"type": "float", "value": True},
        {"type": "text", "value": None},
        {"type": "text", "value": 5},
        {"type": "blob", "value": "AA"},
        {"type": "number", "value": 5},
        {"value": 5},
        {"type": None},
        [],
        "null",
        None,
        5,
    ],
    ids=repr,
)
def test_invalid_values_are_refused(wire):
    with pytest.raises(ProtocolError, match="cannot read "):
        read(wire)


@pytest.mark.parametrize(
    ("wire", "value"),
    [
        ({"type": "null", "value": "null"}, Null()),
        ({"value": "1", "type": "integer", "note": {}}, Integer("1")),
        ({"type": "float", "value": 0.5, "base64": ""}, Float(0.5)),
        ({"type": "text", "value": "x", "extra": [1]}, Text("x")),
        ({"type": "blob", "base64": "AA", "value": None}, Blob("AA")),
    ],
    ids=repr,
)
def test_unknown_keys_and_the_order_of_keys_do_not_matter(wire, value):
    assert read(wire) == value


@given(json_values)
def test_any_json_is_a_value_or_a_protocol_error(wire):
    with suppress(ProtocolError):
        decode(read(wire))


def test_half_a_surrogate_pair_is_refused_before_it_is_sent():
    with pytest.raises(ProtocolError, match="not valid Unicode"):
        messages.encode(encode("a\ud800b"))
