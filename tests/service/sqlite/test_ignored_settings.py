"""Settings that init scripts begin with: they stop nothing, change nothing, and are answered as by SQLite."""

from __future__ import annotations

from contextlib import closing

import apsw
import pytest
from service_calls import CLOSE, execute

SETTINGS = [
    ("journal_mode", "WAL"), ("journal_mode", "'wal'"), ("synchronous", "NORMAL"), ("synchronous", "1"),
    ("synchronous", "FULL"), ("synchronous", '"extra"'), ("busy_timeout", "5000"), ("busy_timeout", "-1"),
    ("mmap_size", "268435456"), ("cache_size", "-2000000"), ("cache_size", "1000000"), ("temp_store", "MEMORY"),
    ("wal_autocheckpoint", "0"), ("page_size", "8192"), ("journal_size_limit", "6144000"), ("threads", "4"),
    ("locking_mode", "NORMAL"), ("auto_vacuum", "INCREMENTAL"), ("encoding", "'UTF-8'"), ("analysis_limit", "400"),
    ("cache_spill", "OFF"), ("read_uncommitted", "1"),
]  # fmt: skip
FORMS = ["PRAGMA {}={}", "pragma main . {} = {} ; -- faster", "PRAGMA {}({})", 'PRAGMA "main"."{}" ({})']


@pytest.fixture(scope="module")
def native(tmp_path_factory):
    with closing(apsw.Connection(str(tmp_path_factory.mktemp("native") / "file"))) as connection:
        yield connection


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("name", "value"), SETTINGS)
def test_a_setting_is_answered_with_the_present_value_in_sqlites_shape(db, native, name, value, form):
    sql = form.format(name, value)
    shape: list[tuple[str, ...]] = []

    def trace(cursor, *_):
        shape.append(tuple(column[0] for column in cursor.get_description()))
        return True

    cursor = native.cursor()
    cursor.exec_trace = trace
    rows = len(list(cursor.execute(sql)))
    read = f"PRAGMA {name}"
    before = db.run(read).rows()
    answers = db.post(execute("BEGIN"), execute(sql), execute("COMMIT"), execute(sql), execute(read), CLOSE)
    assert set(answers.codes) == {"ok"}
    for index in (1, 3):
        result = answers.response(index)["result"]
        assert (tuple(column["name"] for column in result["cols"]), len(result["rows"])) == (shape[0], rows)
        assert answers.rows(index) == before[:rows]
    assert answers.rows(4) == before


def test_a_script_and_a_description(db):
    script = ";".join(f"PRAGMA {name} = {value}" for name, value in SETTINGS)
    answer = db.post({"type": "sequence", "sql": f"{script}; CREATE TABLE t(a); BEGIN; {script}; COMMIT"}, CLOSE)
    assert answer.codes == ["ok", "ok"]
    assert db.run("SELECT name FROM sqlite_master").rows() == [["t"]]
    described = db.post({"type": "describe", "sql": "PRAGMA synchronous = NORMAL"}, CLOSE).response()["result"]
    assert (described["cols"], described["is_readonly"]) == ([], True)
    assert db.run("EXPLAIN PRAGMA journal_mode = WAL").status == 200


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("journal_mode", "DELETE"), ("journal_mode", "OFF"), ("journal_mode", "wal2"), ("synchronous", "OFF"),
        ("synchronous", "0"), ("synchronous", "false"), ("locking_mode", "EXCLUSIVE"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", FORMS)
def test_a_setting_that_would_weaken_durability_is_refused(db, name, value, form):
    answer = db.post(execute(form.format(name, value)), execute(f"PRAGMA {name}"), CLOSE)
    assert answer.error() == {
        "message": f"not authorized: PRAGMA {name} cannot be set to {value}: leave this line out",
        "code": "SQLITE_AUTH",
    }
    assert answer.rows(1) == db.run(f"PRAGMA {name}").rows()


def test_a_syntax_error_is_one(db):
    assert db.post(execute("PRAGMA journal_mode = WAL WAL"), CLOSE).codes[0] != "ok"
    assert db.post(execute("PRAGMA nope.journal_mode = WAL"), CLOSE).codes[0] != "ok"


def test_a_smaller_cache_is_set(db):
    answer = db.post(execute("PRAGMA cache_size = 50"), execute("PRAGMA cache_size"), CLOSE)
    assert answer.rows(1) == [["50"]]
