"""Statements that would run for hours: each ends at the time limit. Those inside one function: `test_one_function`."""

from __future__ import annotations

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
