"""`kill -9` during writes: acknowledged transactions are complete, others are complete or absent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import httpx
import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="there is no kill -9 elsewhere")

WRITERS = 4
ORGANIZATION = "/v1/organizations/local"


@contextmanager
def service(folder):
    """Run `pipemagic serve`; return the process and its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "pipemagic", "serve", "--data", folder], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    try:
        yield process, json.loads(process.stdout.readline())["url"]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def headers_of(url, folder):
    """Create the database unless it exists; return the headers for its SQL."""
    platform = {"Authorization": f"Bearer {(folder / 'platform-token').read_text().strip()}"}
    httpx.post(f"{url}{ORGANIZATION}/groups", json={"name": "g", "location": "ams"}, headers=platform)
    httpx.post(f"{url}{ORGANIZATION}/databases", json={"name": "db", "group": "g"}, headers=platform)
    made = httpx.post(f"{url}{ORGANIZATION}/databases/db/auth/tokens", headers=platform)
    return {"Authorization": f"Bearer {made.json()['jwt']}"}


def pipeline(client, *texts, baton=None):
    requests = [{"type": "execute", "stmt": {"sql": text}} for text in texts]
    if baton is None:
        requests.append({"type": "close"})
    answer = client.post("/v2/pipeline", json={"baton": baton, "requests": requests})
    assert answer.status_code == 200, answer.text
    assert all(one["type"] == "ok" for one in answer.json()["results"]), answer.text
    return answer.json()


def rows(client, sql):
    result = pipeline(client, sql)["results"][0]["response"]["result"]
    return [tuple(cell.get("value") for cell in row) for row in result["rows"]]


class Writer(threading.Thread):
    """Inserts single rows, and sometimes two in a transaction, until the service does not respond."""

    def __init__(self, url, headers, number):
        super().__init__()
        self.url, self.headers, self.number = url, headers, number
        self.acknowledged, self.pairs, self.index = [], [], 0

    def run(self):
        with httpx.Client(base_url=self.url, headers=self.headers, timeout=20) as client:
            count = 0
            while True:
                count += 1
                row = f"({self.number}, {count})"
                pair = count % 5 == 0
                texts = [f"INSERT INTO t VALUES {row}"]
                if pair:
                    texts = ["BEGIN IMMEDIATE", *texts, f"INSERT INTO t VALUES ({self.number}, -{count})", "COMMIT"]
                try:
                    answer = pipeline(client, *texts)
                except httpx.TransportError:
                    return
                (self.pairs if pair else self.acknowledged).append(count)
                self.index = int(answer["results"][-2]["response"]["result"]["replication_index"])


def test_every_acknowledged_row_exists_after_a_kill(tmp_path, soak):
    folder, acknowledged, highest = tmp_path / "data", set(), 0
    for turn, moment in enumerate((0.3, 0.7, 0.5) if soak else (0.3,)):
        with service(folder) as (process, url):
            headers = headers_of(url, folder)
            with httpx.Client(base_url=url, headers=headers, timeout=20) as client:
                pipeline(client, "CREATE TABLE IF NOT EXISTS t(writer, n, UNIQUE (writer, n))")
                assert set(rows(client, "SELECT writer, n FROM t")) >= acknowledged
            writers = [Writer(url, headers, turn * WRITERS + number) for number in range(WRITERS)]
            for writer in writers:
                writer.start()
            while not all(len(writer.acknowledged) > 5 for writer in writers):  # at any speed of the disk
                assert all(writer.is_alive() for writer in writers)
                time.sleep(0.01)
            time.sleep(moment)
            process.send_signal(signal.SIGKILL)
            for writer in writers:
                writer.join(20)
        for writer in writers:
            acknowledged |= {(str(writer.number), str(count)) for count in writer.acknowledged}
            acknowledged |= {(str(writer.number), str(sign * count)) for count in writer.pairs for sign in (1, -1)}
            highest = max(highest, writer.index)
    assert len(acknowledged) > 5 * WRITERS
    with service(folder) as (_, url), httpx.Client(base_url=url, headers=headers_of(url, folder), timeout=20) as client:
        found = set(rows(client, "SELECT writer, n FROM t"))
        assert found >= acknowledged
        # In addition at most the pending request of each writer, and never half a transaction.
        assert len(found - acknowledged) <= 3 * WRITERS * 2
        for writer, count in found:
            assert int(count) > 0 or (writer, count[1:]) in found
            assert int(count) < 0 or int(count) % 5 or (writer, f"-{count}") in found
        assert rows(client, "PRAGMA integrity_check") == [("ok",)]
        pipeline(client, "INSERT INTO t VALUES (-1, -1)")
        (result, *_) = pipeline(client, "SELECT 1")["results"]
        assert int(result["response"]["result"]["replication_index"]) > highest


def test_after_a_kill_an_open_transaction_is_rolled_back_and_its_baton_invalid(tmp_path):
    folder = tmp_path / "data"
    with service(folder) as (process, url):
        with httpx.Client(base_url=url, headers=headers_of(url, folder)) as client:
            pipeline(client, "CREATE TABLE t(a)", "INSERT INTO t VALUES (1)")
            baton = client.post("/v2/pipeline", json={"requests": []}).json()["baton"]
            baton = pipeline(client, "BEGIN IMMEDIATE", "INSERT INTO t VALUES (2)", baton=baton)["baton"]
        process.send_signal(signal.SIGKILL)
    with service(folder) as (_, again):
        assert again == url  # addresses outlive the process
        with httpx.Client(base_url=again, headers=headers_of(again, folder)) as client:
            answer = client.post("/v2/pipeline", json={"baton": baton, "requests": []})
            assert (answer.status_code, answer.text) == (400, "Received an invalid baton")
            assert rows(client, "SELECT a FROM t") == [("1",)]
