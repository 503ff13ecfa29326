"""Memory stays within --max-memory, and others work meanwhile.

Idle streams with pages, stored SQL, bodies whose values need many times their size, and rows of large values.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import psutil
import pytest
from promises import Promise
from served import Database, serve

pytestmark = [
    pytest.mark.promise(Promise.MEMORY),
    pytest.mark.skipif(sys.platform == "win32", reason="the figures are of Unix processes"),
]

MB = 1024 * 1024
MEMORY = 512 * MB
SLACK = 100 * MB
"""What the allocator does not return, and one value that is being converted."""
TABLE = """CREATE TABLE t AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 4000)
SELECT i, hex(zeroblob(500)) AS text FROM n"""
SCAN = "SELECT sum(length(text)) FROM t"


class Growth:
    """Measures the maximum growth of a process's resident memory."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._began, self.most = self._process.memory_info().rss, 0

    def sample(self) -> None:
        self.most = max(self.most, self._process.memory_info().rss - self._began)


@contextmanager
def growth_of(folder, *options):
    """Serve with a limit of memory; at the end, print the growth and check it."""
    with serve(folder, "--port", "0", "--max-memory", str(MEMORY), *options) as service:
        service.create("warm")
        growth = Growth(service.process.pid)
        yield service, growth
        growth.sample()
        print(f"\ngrowth: {growth.most / MB:.0f} MB of {MEMORY / MB:.0f} MB")
        assert growth.most < MEMORY + SLACK
        assert service.process.poll() is None


def outcomes(answers):
    """Count the statuses, or the codes of the first entries."""
    counts = Counter()
    for answer in answers:
        first = answer.json()["results"][0] if answer.status_code == 200 else {}
        counts[first.get("error", {}).get("code", answer.status_code)] += 1
    return counts


def others_work(service, token):
    assert httpx.get(f"{service.url}/health", timeout=30).status_code == 200
    assert service.manage("GET", "/databases").status_code == 200
    assert service.manage("POST", "/databases/warm/auth/tokens").status_code == 200
    with Database(service.url, token) as other:
        assert other.rows("SELECT 1") == [("1",)]


@pytest.mark.parametrize("text", [SCAN, "BEGIN; " + SCAN], ids=["idle", "in a transaction"])
def test_streams_that_have_read_a_table(tmp_path, text):
    with growth_of(tmp_path / "data", "--max-database-streams", "2000") as (service, growth):
        other = service.database("other").token
        with service.database("work") as work:
            work.run(TABLE)
            read_only = service.token("work", authorization="read-only")
        with Database(service.url, read_only) as reader:
            answers = []
            for number in range(1500):
                answers.append(reader.post(*text.split("; "), close=False))
                if number % 100 == 0:
                    growth.sample()
                    others_work(service, other)
        # Each holds about 200 KB in a transaction: so many do not fit, unless the first expire before the last begin.
        refused = [answer for answer in answers if answer.status_code != 200]
        assert {answer.json()["code"] for answer in refused} <= {"OUT_OF_MEMORY"}
        assert len(refused) == 0 if text == SCAN else len(refused) <= 500
        others_work(service, other)


def test_stored_sql(tmp_path):
    text = "SELECT 1 -- " + "a" * 4_000_000 + "😀"
    body = {"requests": [{"type": "store_sql", "sql_id": 1, "sql": text}]}
    with growth_of(tmp_path / "data") as (service, growth), service.database("work") as work:
        other = service.database("other").token
        content = json.dumps(body, ensure_ascii=False).encode()
        answers = [work.http.post("/v3/pipeline", content=content) for _ in range(40)]
        growth.sample()
        counts = outcomes(answers)
        assert set(counts) == {200, "SQL_STORE_TOO_LARGE"}
        assert counts[200] >= 3
        others_work(service, other)


def with_text(text):
    stmt = {"sql": "SELECT length(?)", "args": [{"type": "text", "value": text}]}
    return json.dumps({"requests": [{"type": "execute", "stmt": stmt}, {"type": "close"}]}, ensure_ascii=False).encode()


def test_sixteen_databases_send_texts_that_need_ten_times_their_size(tmp_path):
    content = with_text("a" * 4_000_000 + "😀")
    with growth_of(tmp_path / "data") as (service, growth):
        tokens = [service.database(f"student{number}").token for number in range(16)]

        def send(token):
            return httpx.post(
                f"{service.url}/v3/pipeline", content=content, headers={"authorization": f"Bearer {token}"}, timeout=60
            )

        with ThreadPoolExecutor(16) as pool:
            answers = [pool.submit(send, token) for token in tokens]
            while not all(answer.done() for answer in answers):
                growth.sample()
                others_work(service, tokens[0])
        assert outcomes(answer.result() for answer in answers) == {200: 16}


def test_one_database_sends_sixteen_texts_at_a_time_that_need_ten_times_their_size(tmp_path):
    content = with_text("a" * 8_000_000 + "😀")  # two of them have room
    with growth_of(tmp_path / "data") as (service, growth), service.database("work") as work:
        headers = {"authorization": f"Bearer {work.token}"}

        def send(_):
            return httpx.post(f"{service.url}/v3/pipeline", content=content, headers=headers, timeout=60)

        with ThreadPoolExecutor(16) as pool:
            answers = [pool.submit(send, number) for number in range(16)]
            while not all(answer.done() for answer in answers):
                growth.sample()
        assert outcomes(answer.result() for answer in answers) == {200: 16}
        others_work(service, work.token)


def test_a_body_that_never_fits(tmp_path):
    with growth_of(tmp_path / "data") as (service, _), service.database("work") as work:
        answer = work.http.post("/v3/pipeline", content=with_text("a" * 40_000_000 + "😀"))
        assert answer.status_code == 413
        assert "bytes of memory to decode" in answer.json()["error"]
        others_work(service, work.token)


WIDE = "SELECT " + ", ".join(["hex(zeroblob(5000000))"] * 12)
LAST = "WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) SELECT {} FROM n"
ROWS = {
    "one row": WIDE,
    "large rows behind small ones": LAST.format(", ".join(["hex(zeroblob(iif(i < 1990, 1, 5000000)))"] * 8)),
    "ten million values": LAST.replace("2000", "2500000").format("i, i * 1.5, i, 'x' || i"),
}


@pytest.mark.parametrize("sql", ROWS.values(), ids=ROWS)
def test_rows_that_are_large(tmp_path, sql):
    with growth_of(tmp_path / "data") as (service, growth), service.database("work") as work:
        answer = work.post(sql)
        growth.sample()
        assert outcomes([answer]).keys() <= {"RESPONSE_TOO_LARGE", "SQLITE_NOMEM"}
        with work.http.stream("POST", "/v3/cursor", json={"batch": {"steps": [{"stmt": {"sql": sql}}]}}) as cursor:
            assert cursor.status_code == 200
            for _ in cursor.iter_raw():
                growth.sample()
        others_work(service, work.token)
