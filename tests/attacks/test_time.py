"""Statements that would run for hours: each ends at the time limit, or 10 s later if it is inside one function."""

from __future__ import annotations

import signal
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from probes import ENDLESS
from promises import Promise
from served import serve

pytestmark = pytest.mark.promise(Promise.TIME)

NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
STATEMENTS = {
    "recursive query": ENDLESS,
    "recursive query of one number": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT max(i) FROM n",
    "cross join": "SELECT count(*) FROM t a, t b, t c, t d",
    "correlated subquery": "SELECT sum((SELECT count(*) FROM t b, t c WHERE b.i + c.i > a.i)) FROM t a",
    "update": "UPDATE t SET i = (SELECT count(*) FROM t a, t b, t c WHERE a.i + b.i + c.i > t.i)",
    "sort": f"{NUMBERS} SELECT i FROM n ORDER BY -i",
    "regular expressions": f"{NUMBERS} SELECT count(*) FROM n WHERE i REGEXP '^([12]|34)*5$'",
}
KEYS = f"SELECT json_group_object('k' || i, 1) FROM ({NUMBERS} SELECT i FROM n LIMIT 200000)"
INSIDE_ONE_FUNCTION = f"SELECT json_patch('{{}}', ({KEYS}))"
"""Compares each of 200,000 keys with all before it, without a step in between."""


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with serve(tmp_path_factory.mktemp("time") / "data", "--port", "0", "--statement-timeout", "1") as service:
        with service.database("db") as db:
            db.run("CREATE TABLE t(i)", f"INSERT INTO t {NUMBERS} SELECT i FROM n LIMIT 3000")
        yield service


@pytest.mark.parametrize("sql", STATEMENTS.values(), ids=STATEMENTS)
def test_a_statement_ends_at_the_limit_and_changes_nothing(service, sql):
    with service.database("db") as db:
        assert db.error(sql)["code"] == "STATEMENT_TIMEOUT"
        assert db.rows("SELECT count(*), min(i), max(i) FROM t") == [("3000", "1", "3000")]


def test_a_statement_inside_one_function_ends_for_its_client_and_the_service_can_stop(tmp_path):
    with (
        serve(tmp_path / "data", "--port", "0", "--statement-timeout", "1") as service,
        service.database("db") as db,
        service.database("other") as other,
        ThreadPoolExecutor(1) as pool,
    ):
        ended = pool.submit(db.error, INSIDE_ONE_FUNCTION)
        while not ended.done():
            assert other.rows("SELECT 1") == [("1",)]
        assert ended.result()["code"] == "STATEMENT_TIMEOUT"
        assert db.rows("SELECT 1") == [("1",)]
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(20) == (0 if sys.platform != "win32" else 1)
