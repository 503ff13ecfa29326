"""Short statements that build large values, many rows, large sorts or deep trees: each is an error of its statement."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from promises import Promise
from served import serve

pytestmark = pytest.mark.promise(Promise.MEMORY)

OPTIONS = ("--max-memory", "256MB", "--max-response", "8MB", "--max-body", "8MB", "--statement-timeout", "1")
CODES = {"RESPONSE_TOO_LARGE", "SQLITE_ERROR", "SQLITE_NOMEM", "SQLITE_TOOBIG", "STATEMENT_TIMEOUT"}
NUMBERS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 100000000)"
BOMBS = {
    "zeroblob": "SELECT zeroblob(2000000000)",
    "randomblob": "SELECT randomblob(2000000000)",
    "hex": "SELECT hex(zeroblob(7000000))",
    "printf": "SELECT printf('%*c', 1000000000, 'x')",
    "format": "SELECT format('%.*c', 900000000, 'x')",
    "replace": "SELECT replace(hex(zeroblob(100000)), '0', hex(zeroblob(100000)))",
    "quote": "SELECT quote(zeroblob(7000000))",
    "group_concat": f"{NUMBERS} SELECT group_concat(x, 'xxxxxxxxxx') FROM c",
    "json": f"{NUMBERS} SELECT json_group_array(x) FROM c",
    "concat": "SELECT zeroblob(7000000) || zeroblob(7000000)",
    "rows": f"{NUMBERS} SELECT x FROM c",
    "regexp": f"{NUMBERS} SELECT count(*) FROM c WHERE x REGEXP '^([12]|34)*5$'",
    "regexp_replace": f"{NUMBERS} SELECT count(regexp_replace(x, '([0-9]+)+0*$', 'y', 'g')) FROM c",
    "wide": f"SELECT {', '.join(['zeroblob(1000000)'] * 50)}",
    "nested": "SELECT " + "(" * 5000 + "1" + ")" * 5000,
    "terms": "SELECT " + " UNION SELECT ".join(["1"] * 5000),
    "sort": f"{NUMBERS} SELECT x FROM c ORDER BY random() LIMIT 1",
    "distinct": f"{NUMBERS} SELECT count(DISTINCT x) FROM c",
}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with serve(tmp_path_factory.mktemp("bombs") / "data", "--port", "0", *OPTIONS) as service:
        yield service


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_an_error_of_its_statement_and_others_continue(service, name):
    with service.database("db") as db, service.database("other") as other, ThreadPoolExecutor(1) as pool:
        other.run("CREATE TABLE IF NOT EXISTS t(a)", "INSERT INTO t VALUES (1)")
        exploded = pool.submit(db.error, BOMBS[name])
        assert other.rows("SELECT min(a) FROM t") == [("1",)]
        assert exploded.result()["code"] in CODES
        assert db.rows("SELECT 1") == [("1",)]
