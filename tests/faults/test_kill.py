"""`kill -9` at random moments: every acknowledged commit is kept, the catalog is consistent, replicas converge.

The service is killed four times, with ``pytest -m soak`` 50 times.

``PIPEMAGIC_KILL_SEED`` repeats a run; the seed is printed.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import apsw
import httpx
import pytest
from promises import Promise
from served import Database, Served, serve
from waiting import until

pytestmark = [
    pytest.mark.promise(Promise.DURABILITY),
    pytest.mark.skipif(os.name != "posix", reason="there is no kill -9 elsewhere"),
]

SEED = int(os.environ.get("PIPEMAGIC_KILL_SEED", "0")) or random.SystemRandom().randrange(1, 2**32)
LONGEST = 0.25  # seconds of writing before a kill
CONVERGE = 20.0  # seconds for a replica to catch up
NAMES = ("one", "two", "three")
SECOND_LOCATION = "fra"


class Writer(threading.Thread):
    """Write to one database in several ways, until the service stops responding.

    Row ``n`` is `sure` when its commit was acknowledged. Every manner writes its rows as a whole: those of
    one ``unit``.
    """

    def __init__(self, service: Served, name: str, token: str, first: int, sure: dict[int, int]) -> None:
        super().__init__(name=name)
        self.database = Database(service.url, token)
        self.count, self.sure = first, sure
        self.index = 0
        self.failure: str | None = None

    def run(self) -> None:
        manners = (self.single, self.transaction, self.batch, self.over_two_requests)
        try:
            with self.database:
                while True:
                    self.count += 1
                    manners[self.count % len(manners)](self.count)
        except httpx.TransportError:
            return
        except AssertionError as error:
            self.failure = str(error)

    def single(self, unit: int) -> None:
        self.acknowledge(self.database.run(insert(unit, 0)), unit, 1)

    def transaction(self, unit: int) -> None:
        self.acknowledge(self.database.run("BEGIN", insert(unit, 0), insert(unit, 1), "COMMIT"), unit, 2)

    def batch(self, unit: int) -> None:
        texts = ["BEGIN IMMEDIATE", insert(unit, 0), insert(unit, 1), insert(unit, 2), "COMMIT"]
        steps = [{"stmt": {"sql": text}} for text in texts]
        body = {"requests": [{"type": "batch", "batch": {"steps": steps}}, {"type": "close"}]}
        answer = self.database.http.post("/v3/pipeline", json=body)
        assert answer.status_code == 200, answer.text
        assert '"error"' not in answer.text, answer.text
        self.sure[unit] = 3

    def over_two_requests(self, unit: int) -> None:
        baton = self.database.run("BEGIN IMMEDIATE", insert(unit, 0), close=False)["baton"]
        self.acknowledge(self.database.run(insert(unit, 1), "COMMIT", baton=baton), unit, 2)

    def acknowledge(self, body: Any, unit: int, rows: int) -> None:
        self.sure[unit] = rows
        results = [result["response"]["result"] for result in body["results"] if "result" in result["response"]]
        self.index = max(self.index, int(results[-1]["replication_index"]))


def insert(unit: int, number: int) -> str:
    return f"INSERT INTO t VALUES ({unit}, {number}, hex(randomblob({unit % 700})))"


class Manager(threading.Thread):
    """Create and delete databases, until the service stops responding."""

    def __init__(self, service: Served, there: set[str], gone: set[str], first: int) -> None:
        super().__init__(name="manager")
        self.service, self.there, self.gone, self.count = service, there, gone, first
        self.failure: str | None = None

    def run(self) -> None:
        try:
            while True:
                self.count += 1
                self.create(f"extra-{self.count}")
                if self.count % 2:
                    self.delete(f"extra-{self.count}")
        except (httpx.TransportError, OSError):
            return
        except AssertionError as error:
            self.failure = str(error)

    def create(self, name: str) -> None:
        answer = self.service.manage("POST", "/databases", json={"name": name, "group": "g"})
        assert answer.status_code == 200, answer.text
        self.there.add(name)

    def delete(self, name: str) -> None:
        self.there.discard(name)  # unknown while the request is pending
        answer = self.service.manage("DELETE", f"/databases/{name}")
        assert answer.status_code == 200, answer.text
        self.gone.add(name)


class Play:
    """The state that is certain after all kills."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.chance = random.Random(SEED)
        self.sure: dict[str, dict[int, int]] = {name: {} for name in NAMES}
        self.index = dict.fromkeys(NAMES, 0)
        self.last = 0
        self.there: set[str] = set()
        self.gone: set[str] = set()

    def kill_once(self, *, thoroughly: bool) -> None:
        with serve(self.folder) as service:
            tokens = {name: service.token(name) for name in NAMES}
            self.check(service, tokens, thoroughly=thoroughly)
            writers = [Writer(service, name, tokens[name], self.last, self.sure[name]) for name in NAMES]
            manager = Manager(service, self.there, self.gone, self.last)
            for thread in (*writers, manager):
                thread.start()
            time.sleep(self.chance.uniform(0.01, LONGEST))
            service.process.send_signal(signal.SIGKILL)
            for thread in (*writers, manager):
                thread.join(60)
                assert not thread.is_alive()
                assert thread.failure is None, thread.failure
        self.last = max(self.last + 1, manager.count, *(writer.count for writer in writers))
        for writer in writers:
            self.index[writer.name] = max(self.index[writer.name], writer.index)

    def check(self, service: Served, tokens: dict[str, str], *, thoroughly: bool) -> None:
        for name in NAMES:
            with Database(service.url, tokens[name]) as db:
                content = db.rows("SELECT unit, count(*) FROM t GROUP BY unit")
                found = {int(unit): int(rows) for unit, rows in content}
                lost = {unit: rows for unit, rows in self.sure[name].items() if found.get(unit) != rows}
                assert not lost, f"{name} lost acknowledged rows: {lost}"
                for unit, rows in found.items():
                    assert rows == (1, 2, 3, 2)[unit % 4], f"{name} has half of the transaction {unit}"
                self.check_index(db, name)
                if thoroughly:
                    assert db.rows("PRAGMA integrity_check") == [("ok",)]
                    self.check_replicas(service, tokens[name], name, db)
        listed = {database["Name"] for database in service.manage("GET", "/databases").json()["databases"]}
        assert listed >= self.there | set(NAMES)
        assert not listed & self.gone

    def check_index(self, db: Database, name: str) -> None:
        result = db.run("SELECT 1")["results"][0]["response"]["result"]
        assert int(result["replication_index"]) >= self.index[name], f"the index of {name} went backwards"

    def check_replicas(self, service: Served, token: str, name: str, primary: Database) -> None:
        everything = "SELECT unit, number, v FROM t ORDER BY 1, 2"
        wanted = primary.rows(everything)
        hosts = replica_hosts(service, name)
        assert [host.partition("-")[0] for host in hosts] == [SECOND_LOCATION]
        for host in hosts:
            with Database(service.url, token, host) as replica:
                until(lambda copy=replica: is_created(copy), f"{host} was not created", CONVERGE)
                until(lambda copy=replica: copy.rows(everything) == wanted, f"{host} did not converge", CONVERGE)
                assert replica.rows("PRAGMA integrity_check") == [("ok",)]

    def check_files(self) -> None:
        """Check the closed folder: the catalog is valid, and files of deleted databases are removed."""
        catalog = apsw.Connection(str(self.folder / "catalog.sqlite"))
        assert catalog.pragma("integrity_check") == "ok"
        assert not list(catalog.execute("PRAGMA foreign_key_check"))
        known = {row[0] for row in catalog.execute("SELECT id FROM databases")}
        catalog.close()
        assert {path.name for path in (self.folder / "databases").iterdir()} <= known


def is_created(replica: Database) -> bool:
    """Return False while a new replica has no content."""
    answer = replica.post("SELECT 1")
    return answer.status_code == 200 or answer.json()["code"] != "REPLICA_NOT_READY"


def replica_hosts(service: Served, name: str) -> list[str]:
    instances = service.manage("GET", f"/databases/{name}/instances").json()["instances"]
    return [f"{instance['hostname']}:{service.port}" for instance in instances if instance["type"] == "replica"]


def prepare(folder: Path) -> None:
    with serve(folder) as service:
        for name in NAMES:
            service.create(name)
        added = service.manage("POST", f"/groups/g/locations/{SECOND_LOCATION}")
        assert added.status_code == 200, added.text
        for name in NAMES:
            with service.database(name) as db:
                db.run("CREATE TABLE t(unit, number, v, PRIMARY KEY (unit, number))")


def test_after_a_kill_an_open_transaction_is_rolled_back_and_its_baton_invalid(tmp_path: Path) -> None:
    with serve(tmp_path / "data") as service, service.database("db") as db:
        db.run("CREATE TABLE t(a)", "INSERT INTO t VALUES (1)")
        baton = db.run("BEGIN IMMEDIATE", "INSERT INTO t VALUES (2)", close=False)["baton"]
        service.process.send_signal(signal.SIGKILL)
    with serve(tmp_path / "data") as again, again.database("db") as db:
        assert again.url == service.url  # addresses outlive the process
        answer = db.post(baton=baton)
        assert (answer.status_code, answer.text) == (400, "Received an invalid baton")
        assert db.rows("SELECT a FROM t") == [("1",)]


def test_nothing_acknowledged_is_lost_by_kills(tmp_path: Path, soak: bool) -> None:
    print(f"\nPIPEMAGIC_KILL_SEED={SEED}")
    kills = 50 if soak else 4
    play = Play(tmp_path / "data")
    prepare(play.folder)
    for number in range(kills):
        play.kill_once(thoroughly=number % 10 == 9)
    with serve(play.folder) as service:
        play.check(service, {name: service.token(name) for name in NAMES}, thoroughly=True)
        service.process.send_signal(signal.SIGTERM)
        service.process.wait(20)
    play.check_files()
    units = sum(len(sure) for sure in play.sure.values())
    print(
        f"{kills} kills, {units} acknowledged transactions, {len(play.there)} databases made, {len(play.gone)} deleted"
    )
    assert units > kills
