"""Our client and the instances of the embedded service: reads nearby, writes at the primary, nothing lost of sight."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest
from service_http import ServiceTransport

import pipemagic
from pipemagic import errors
from pipemagic.client.database import Database
from pipemagic.hrana.messages import Execute, Stmt
from pipemagic.management_api.client import Management
from pipemagic.service.embedded import EmbeddedEngine
from pipemagic.service.limits import Limits
from pipemagic.service.service import Service
from pipemagic.session.session import Session


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """A service near Frankfurt, with a database whose primary is in Amsterdam."""
    service = Service(tmp_path / "data", partial(EmbeddedEngine, here="fra"), limits=Limits(replica_wait=0.3))
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


# -- a session, and a service as a process


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Address and token of the same on a service that runs as ``pipemagic serve --here fra``."""
    folder = tmp_path / "served"
    process = subprocess.Popen(
        [sys.executable, "-m", "pipemagic", "serve", "--port", "0", "--here", "fra", "--data", folder],
        env=os.environ | {"PYTHONPATH": str(Path(pipemagic.__file__).parents[1])}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        with Management(url, (folder / "platform-token").read_text().strip(), organization="local") as api:
            api.create_group("default", "ams")
            made = api.create_database("db", "default")
            token = api.create_token("db")
            with Database(made.url, token) as database:
                database.execute("CREATE TABLE t (a)")
            api.add_location("default", "fra")
            api.wait_for_location("default", "fra")
            yield made.url, str(token)
    finally:
        process.terminate()
        process.communicate(timeout=20)


def test_cells_see_what_earlier_cells_wrote_also_on_a_new_stream(served: tuple[str, str]) -> None:
    url, token = served
    with Session(environ={}) as session:
        connection = session.connect(url, token=token)
        for number in range(1, 21):
            session.run(f"INSERT INTO t VALUES ({number})")
            connection.close()
            assert session.run("SELECT count(*) AS n FROM t")["n"].tolist() == [number]
            assert connection.stream.instance == "fra"
            connection.close()
