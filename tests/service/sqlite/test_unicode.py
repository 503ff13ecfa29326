"""lower, upper and LIKE for the letters of all alphabets: the results of DuckDB and of SQLite, in bounded time."""

from __future__ import annotations

import sys
from contextlib import closing
from functools import partial

import apsw
import duckdb
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from replicated import Replicated
from service_calls import caller_of, new_service

from pipemagic.service.embedded import EmbeddedEngine
from pipemagic.service.service import Service
from pipemagic.service.sqlite import unicode

ENGINE = partial(EmbeddedEngine, unicode=True)
CONTROLS = "".join(map(chr, range(1, 32)))
LETTERS = "SELECT 'École' LIKE 'éco_e', lower('ÉŁΣЖ'), upper('éłςж')"
INDEXES = (
    "CREATE INDEX i ON t(lower(a))",
    "CREATE INDEX i ON t(b) WHERE a LIKE 'x%'",
    "CREATE TABLE g(a, b AS (upper(a)))",
)


@pytest.fixture(scope="module")
def sql():
    """Return the first row of a statement, which runs on a connection with these functions."""
    with closing(apsw.Connection(":memory:")) as connection:
        unicode.install(connection, lambda: False)
        yield lambda text, *arguments: next(connection.execute(text, arguments))


@pytest.fixture(scope="module")
def native():
    with closing(apsw.Connection(":memory:")) as connection:
        yield lambda text, *arguments: next(connection.execute(text, arguments))


@pytest.fixture(scope="module")
def duck():
    with duckdb.connect() as connection:
        yield connection


def test_each_letter_is_that_of_duckdb(sql, duck):
    letters = [chr(code) for code in range(1, sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
    rows = duck.execute("SELECT a, lower(a), upper(a) FROM (SELECT unnest(?) AS a)", [letters]).fetchall()
    ours = {letter: sql("SELECT lower(?1), upper(?1)", letter) for letter, *_ in rows}
    assert {letter for letter, *cases in rows if ours[letter] != tuple(cases)} == {"ß"}
    assert ours["ß"] == ("ß", "ß")  # as in Unicode's simple mappings and in PostgreSQL; DuckDB has the capital ẞ


cases = st.text("aAÉéßẞİiıЖжŁł%_\n", max_size=6)


@given(cases, cases)
@example("Straße", "STRAẞE")
@example("İ", "i")
def test_like_is_ilike_of_duckdb(sql, duck, text, pattern):
    expected = duck.execute("SELECT ?::VARCHAR ILIKE ?::VARCHAR ESCAPE ''", [text, pattern]).fetchone()
    assert bool(sql("SELECT ? LIKE ?", text, pattern)[0]) == expected[0]


values = st.one_of(
    st.none(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.text("aAbX%_!\0\1", max_size=6)
)


@given(values, values, st.sampled_from(["!", "X", "x", "%", "_", "\1", "", "ab", "X\0b", None]))
@example("xXa", "xXX%", "X")
@example(CONTROLS, f"!{CONTROLS}!", "!")
@example(f"%{CONTROLS}", f"!%{CONTROLS}", "!")
@example("50%", "50X%", "X")
@example("a", "aX", "X")
def test_like_of_ascii_is_sqlites(sql, native, text, pattern, escape):
    statement = "SELECT ?1 LIKE ?2, CASE WHEN length(?3) = 1 THEN ?1 LIKE ?2 ESCAPE ?3 END, lower(?1), upper(?1)"
    assert sql(statement, text, pattern, escape) == native(statement, text, pattern, escape)


def test_blobs_are_read_as_text(sql):
    assert sql("SELECT lower(x'c389'), x'c389' LIKE 'é', x'ff41' LIKE '_a'") == ("é", 1, 1)


def test_all_forms_of_a_letter_are_alike(sql):
    assert sql("SELECT 'ΟΔΟΣ' LIKE 'οδος', 'οδός' LIKE 'ΟΔΌΣ'") == (1, 1)


@pytest.mark.parametrize("escape", ["", "ab", "\0", "\0a"])
def test_an_escape_has_one_character(sql, escape):
    with pytest.raises(apsw.SQLError, match="ESCAPE expression must be a single character"):
        sql("SELECT 'a' LIKE 'a' ESCAPE ?", escape)


@pytest.mark.parametrize("call", ["lower(?1)", "upper(?1)", "?1 LIKE 'é'"])
def test_a_stopped_statement_ends_within_a_text(call):
    checks = iter([False, False, True])
    with closing(apsw.Connection(":memory:")) as connection:
        unicode.install(connection, lambda: next(checks))
        with pytest.raises(apsw.InterruptError):
            connection.execute(f"SELECT {call}", ("É" * 1_000_000,)).get  # noqa: B018
    assert list(checks) == []


@pytest.fixture
def db(tmp_path):
    with new_service(tmp_path, engine=ENGINE) as service:
        yield caller_of(service, "flights")


def test_a_service_has_them_if_it_is_set(db, tmp_path):
    assert db.run(LETTERS).rows() == [["1", "éłσж", "ÉŁΣЖ"]]
    with new_service(tmp_path / "other") as plain:
        assert caller_of(plain, "flights").run(LETTERS).rows() == [["0", "ÉŁΣЖ", "éłςж"]]


@pytest.mark.parametrize("statement", INDEXES)
def test_no_index_that_other_programs_would_read_wrongly(db, statement):
    db.run("CREATE TABLE t(a, b)")
    answer = db.run(statement, "ALTER TABLE t ALTER COLUMN b TO b AS (lower(a))")
    assert answer.codes == ["SQL_INPUT_ERROR", "SQL_INPUT_ERROR", "ok"]
    for place in range(2):
        assert "non-deterministic functions prohibited" in answer.error(place)["message"]
    setting = db.run("PRAGMA case_sensitive_like = ON")
    assert setting.error()["message"].endswith(
        "case_sensitive_like is not available with PIPEMAGIC_UNICODE; write GLOB"
    )
    assert db.run("SELECT 'É' LIKE 'é'").rows() == [["1"]]


@pytest.mark.parametrize("statement", INDEXES)
def test_a_database_with_such_an_index_keeps_sqlites_functions(tmp_path, statement, caplog):
    with new_service(tmp_path) as service:
        caller_of(service, "flights").run("CREATE TABLE t(a, b)", "INSERT INTO t VALUES ('É', 1)", statement)
        folder = service.folder
    with closing(Service(folder, ENGINE)) as service:
        answer = caller_of(service, "flights").run("SELECT a, lower(a) FROM t WHERE lower(a) = 'É'", LETTERS)
        assert answer.rows() == [["É", "É"]]
        assert answer.rows(1) == [["0", "ÉŁΣЖ", "éłςж"]]
        assert caller_of(service, "other").run(LETTERS).rows() == [["1", "éłσж", "ÉŁΣЖ"]]
    assert "indexes or generated columns with SQLite's lower, upper or LIKE" in caplog.text


def test_a_replica_has_those_of_its_primary(tmp_path):
    with closing(Replicated(tmp_path / "data", engine=ENGINE)) as pair:
        pair.run("CREATE TABLE t(a)", "INSERT INTO t VALUES ('É')")
        pair.location("nrt")
        pair.follow()
        assert pair.at("nrt").run("SELECT lower(a) FROM t WHERE a LIKE 'é'").rows() == [["é"]]
