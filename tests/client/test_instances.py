"""Our client and the instances of the embedded service: reads nearby, writes at the primary, nothing lost of sight."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest
from service_http import ServiceTransport

from pipemagic import errors
from pipemagic.client.database import Database
from pipemagic.hrana.messages import Execute, Stmt
from pipemagic.service.database_api import statements
from pipemagic.service.embedded import EmbeddedEngine
from pipemagic.service.service import Service


@pytest.fixture
def replica_wait() -> float:
    """How many seconds a request waits for a replica: more than a busy machine takes."""
    return 60.0


@pytest.fixture
def service(tmp_path: Path, replica_wait: float, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A service near Frankfurt, with a database whose primary is in Amsterdam."""
    monkeypatch.setattr(statements, "REPLICA_WAIT", replica_wait)
    service = Service(tmp_path / "data", partial(EmbeddedEngine, here="fra"))
    service.start()
    service.catalog.create_group("local", "default", "ams")
    service.catalog.create_database("local", "db", "default")
    yield service
    service.close()


@pytest.fixture
def database(service: Service, tmp_path: Path) -> Iterator[Database]:
    """The database, with a table and a replica in Frankfurt that has it."""
    record = service.catalog.database("local", "db")
    token = service.tokens.issue_database(record, read_only=False, expires_in=None, subject="ada")
    http = httpx.Client(transport=ServiceTransport(service))
    with http, Database("http://db-local.localhost:8080", token, http=http) as database:
        database.execute("CREATE TABLE t (a)")
        platform = {"Authorization": f"Bearer {(tmp_path / 'data' / 'platform-token').read_text().strip()}"}
        place = "http://localhost/v1/organizations/local/groups/default/locations/fra"
        assert http.post(place, headers=platform).status_code == 200
        assert http.get(f"{place}/wait", headers=platform).status_code == 200
        yield database


def test_every_read_sees_the_own_writes_and_is_answered_nearby(database: Database) -> None:
    for number in range(1, 101):
        database.execute("INSERT INTO t VALUES (?)", [number])
        with database.open_stream() as stream:
            (entry, *_) = stream.send([Execute(Stmt("SELECT count(*) FROM t"))])
            assert stream.instance == "fra"
            assert entry.response.result.rows[0][0].value == str(number)


def test_one_shot_reads_see_the_own_writes(database: Database) -> None:
    for number in range(1, 101):
        database.execute("INSERT INTO t VALUES (?)", [number])
        assert database.query("SELECT count(*) AS n FROM t")["n"].tolist() == [number]


def test_a_long_query_at_our_own_replicas_is_not_cut(database: Database) -> None:
    """They limit the wait themselves, so the client has no reason to."""
    database.execute("INSERT INTO t VALUES (1)")
    database.execute("SELECT 1")
    assert not database.replication.unbounded


@pytest.mark.parametrize("replica_wait", [2.0])
def test_a_replica_that_is_too_far_behind_is_an_error_once(database: Database, service: Service) -> None:
    replica_set = service.engine.databases.get(service.catalog.database("local", "db").id).observer
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with replica_set._working:
            entered.set()
            leave.wait(20)

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert entered.wait(20)
        database.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(errors.StatementError, match="run it again") as caught:
            database.execute("SELECT count(*) FROM t")
        assert caught.value.code == "REPLICA_BEHIND"
        assert database.execute("SELECT count(*) FROM t").rows == [(0,)]
    finally:
        leave.set()
        holder.join()
