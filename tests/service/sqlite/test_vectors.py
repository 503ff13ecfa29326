"""Vectors and Soundex: errors, bounds and random arguments. The contract suite compares values with those of sqld."""

from __future__ import annotations

import math
import struct
import time

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st
from service_calls import CLOSE, execute

from pipemagic.service.sqlite.vectors import ELSEWHERE, INDEX, MOST_DIMENSIONS

singles = st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), max_size=20)
doubles = st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=20)
anything = st.one_of(
    st.none(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.text(max_size=20), st.binary(max_size=40),
    st.text("[],.-+e0123456789 nan", max_size=20).map("[{}]".format),
)  # fmt: skip


@given(singles)
def test_a_vector_of_32_bits_is_unchanged_by_its_text(sql, numbers):
    vector = sql("SELECT vector32(?)", repr(numbers))
    assert vector == struct.pack(f"<{len(numbers)}f", *numbers)
    assert sql("SELECT vector32(vector_extract(?))", vector) == vector


@given(doubles)
def test_a_vector_of_64_bits_is_unchanged_by_its_text(sql, numbers):
    vector = sql("SELECT vector64(?)", repr(numbers))
    assert vector == struct.pack(f"<{len(numbers)}d", *numbers) + b"\2"
    assert sql("SELECT vector64(vector_extract(?))", vector) == vector


def outcome(sql, expression, *arguments):
    """Return the value of an expression, or the text of its error."""
    try:
        return sql(f"SELECT {expression}", *arguments)
    except apsw.SQLError as error:
        return str(error)


@given(anything, anything)
def test_any_arguments_have_a_value_or_an_error_of_the_statement(sql, first, second):
    for expression in ("vector_distance_cos(?1, ?2)", "vector_distance_l2(?1, ?2)"):
        distance = outcome(sql, expression, first, second)
        assert distance is None or (isinstance(distance, float) and distance >= 0) or "vector" in distance[:200]
    for expression in ("vector32(?)", "vector64(?)"):
        vector = outcome(sql, expression, first)
        assert isinstance(vector, bytes) or "vector" in vector[:200]
    assert outcome(sql, "soundex(?)", first) is None or len(outcome(sql, "soundex(?)", first)) in (0, 4)


def test_distances_of_numbers_that_are_far_apart(sql):
    query = "SELECT {}(vector64(?), vector64(?))"
    assert sql(query.format("vector_distance_l2"), "[1e200, 0]", "[-1e200, 0]") == 2e200
    assert sql(query.format("vector_distance_l2"), "[1e308, 0]", "[-1e308, 0]") == math.inf
    assert sql(query.format("vector_distance_cos"), "[1e200, 0]", "[1e200, 1]") is None
    assert sql(query.format("vector_distance_cos"), "[1e-30, 0]", "[0, 1e-30]") == 1


def test_the_longest_vector(sql):
    text = "[" + ",".join(["-1.2345678901234567e-05"] * MOST_DIMENSIONS) + "]"
    assert len(sql("SELECT vector64(?)", text)) == 8 * MOST_DIMENSIONS + 1
    assert sql("SELECT vector_distance_cos(?1, ?1)", text) == 0
    for longer in (text[:-1] + ",1]", "[" + "1" * 40 * MOST_DIMENSIONS + "]", bytes(4 * MOST_DIMENSIONS + 4)):
        with pytest.raises(apsw.SQLError, match=r"a vector has at most 65,536 numbers"):
            sql("SELECT vector32(?)", longer)


@pytest.mark.parametrize(
    "text", ["[" * 16_000_000, "[" + "," * 16_000_000 + "]", " " * 16_000_000, "[1e" + "9" * 99 + "]"]
)
def test_a_large_text_takes_little_time(sql, text):
    begins = time.thread_time()
    with pytest.raises(apsw.SQLError, match="vector"):
        sql("SELECT vector32(?)", text)
    sql("SELECT soundex(?)", text.replace("[", "a"))
    assert time.thread_time() - begins < 5  # a second at most; a loop over all characters takes longer


def test_the_sounds_of_a_long_text(sql):
    for text, code in {
        "b" + "p" * 200_000 + "h" * 200_000 + "vac": "B200", "1" * 200_000 + "Ashcraft": "A261",
        "Tym" + "W" * 200_000 + "czak": "T522", "a" * 200_000: "A000", "é" * 100_000: "",
    }.items():  # fmt: skip
        assert sql("SELECT soundex(?)", text) == code


@pytest.mark.parametrize("call", ["vector32(x)", "vector_extract(x)", "vector_distance_l2(x, x)", "soundex(x)"])
def test_text_that_is_not_utf8_is_an_error_of_the_statement(db, call):
    answer = db.post(execute(f"SELECT {call} FROM (SELECT CAST(x'ff' AS TEXT) AS x)"), CLOSE)
    assert (answer.status, answer.codes) == (200, ["SQLITE_MISMATCH", "ok"])


@pytest.mark.parametrize("name", sorted(ELSEWHERE))
def test_what_only_libsql_servers_have_is_named(db, name):
    db.run("CREATE TABLE t(v F32_BLOB(3))")
    uses = {
        "vector_top_k": "SELECT * FROM vector_top_k('near', vector32('[1]'), 3)",
        "libsql_vector_idx": "CREATE INDEX near ON t(libsql_vector_idx(v))",
    }
    message = db.post(execute(uses.get(name, f"SELECT {name}('[1]')")), CLOSE).error()["message"]
    instead = "sort by vector_distance_cos()" if name in INDEX else "use vector32() or vector64()"
    assert f"only libSQL servers have {name}; {instead}" in message


def test_vectors_may_not_be_used_in_an_index(db):
    db.run("CREATE TABLE t(v)")
    for function in ("vector32", "soundex"):
        answer = db.post(execute(f"CREATE INDEX i ON t({function}(v))"), CLOSE)
        assert "non-deterministic" in answer.error()["message"]
