"""A full or read-only disk: writes report an error, no data is lost, and the other databases work."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from contextlib import closing

import apsw
import httpx
import pytest
from asgi_calls import call
from promises import Promise
from served import Database, serve
from service_calls import CLOSE, ENDLESS, Background, caller_of, execute
from small_disks import NoMounts, fill, read_only, small_disk
from waiting import until

from pipemagic.service.limits import Limits
from pipemagic.service.responses import Refused
from pipemagic.service.service import Service
from pipemagic.service.sqlite.database import INDEX_BLOCK, OpenDatabase
from pipemagic.service.transfer.upload import validate_upload

pytestmark = [
    pytest.mark.promise(Promise.DURABILITY),
    pytest.mark.skipif(sys.platform != "linux", reason="needs tmpfs and resource limits"),
]

ROW = "INSERT INTO t(b) VALUES (randomblob(20000))"
MEGABYTES = 12


@pytest.fixture
def disk(tmp_path):
    try:
        with small_disk(tmp_path / "disk", MEGABYTES) as folder:
            yield folder
    except NoMounts as reason:
        pytest.skip(f"cannot mount a small disk: {reason}; the limit of file sizes is tested all the same")


@pytest.fixture
def service(disk):
    service = Service(disk / "data")
    service.catalog.create_group("local", "default", "ams")
    yield service
    service.close()  # a second close does nothing


def count(db):
    return int(db.run("SELECT count(*) FROM t").rows()[0][0])


def manage(service, method, path, body=None):
    token = (service.folder / "platform-token").read_text().strip()
    headers = {"host": "127.0.0.1", "authorization": f"Bearer {token}"}
    response = call(
        service,
        method,
        f"/v1/organizations/local{path}",
        headers=headers,
        body=json.dumps(body).encode() if body else b"",
    )
    return response.status, json.loads(response.read())


def test_a_full_disk_fails_only_the_write(service, disk):
    db, other = caller_of(service, "one"), caller_of(service, "two")
    for caller in (db, other):
        caller.run("CREATE TABLE t(a INTEGER PRIMARY KEY, b)", ROW)
    stream = other.post(execute("BEGIN"), execute("SELECT count(*) FROM t"))
    ballast = disk / "ballast"  # deleted later to free space for the repair
    ballast.write_bytes(bytes(MEGABYTES // 3 * 1024 * 1024))
    written = 1
    for _ in range(2 * MEGABYTES * 50):
        answer = db.run(ROW)
        if answer.codes[0] != "ok":
            break
        written += 1
    assert answer.codes[0] == "SQLITE_FULL"
    assert "full" in answer.error()["message"]
    filler = fill(disk)
    assert db.run(ROW).codes[0] == "SQLITE_FULL"
    assert count(db) == written  # reading needs no space
    assert other.post(execute("SELECT count(*) FROM t"), baton=stream.baton).rows() == [["1"]]
    filler.unlink()
    ballast.unlink()
    caught_up = db.run("DELETE FROM t WHERE a > 1", "PRAGMA integrity_check")
    assert caught_up.codes[:2] == ["ok", "ok"], caught_up.body
    assert caught_up.rows(1) == [["ok"]]
    assert set(other.run(ROW).codes) == {"ok"}


def test_a_transaction_on_a_full_disk_is_rolled_back_completely(service, disk):
    db = caller_of(service, "one")
    db.run("CREATE TABLE t(a INTEGER PRIMARY KEY, b)", ROW)
    filler = fill(disk)
    answer = db.post(execute("BEGIN"), *[execute(ROW)] * 300, execute("COMMIT"), CLOSE)
    assert "SQLITE_FULL" in answer.codes
    assert answer.status == 200
    filler.unlink()
    assert count(db) in (1, 301)
    assert count(db) == 1
    assert set(db.run(ROW).codes) == {"ok"}


def test_a_service_on_a_full_disk_stops_cleanly_and_restarts(service, disk):
    databases = [caller_of(service, name) for name in ("one", "two")]
    for db in databases:
        db.run("CREATE TABLE t(a INTEGER PRIMARY KEY, b)", ROW)
    index = int(databases[0].run("SELECT 1").response()["result"]["replication_index"])
    filler = fill(disk)
    service.close()
    filler.unlink()
    again = Service(disk / "data")
    try:
        for name in ("one", "two"):
            answer = caller_of(again, name).run(ROW, "SELECT count(*) FROM t")
            assert answer.rows(1) == [["2"]]
            assert int(answer.response()["result"]["replication_index"]) > index
    finally:
        again.close()


def test_a_commit_is_kept_although_its_number_cannot_be_stored(tmp_path):
    full, written = [True], []

    def reserve(index):
        if full[0]:
            raise apsw.FullError("database or disk is full")
        written.append(index)

    database = OpenDatabase(tmp_path / "primary.sqlite", Limits(), lambda: 0.0, index=0, reserve=reserve)
    connection = database.take()
    connection.raw.execute("CREATE TABLE t(a)")
    connection.raw.execute("INSERT INTO t VALUES (1)")
    assert (database.index, written) == (2, [])
    full[0] = False
    connection.raw.execute("INSERT INTO t VALUES (2)")
    assert (database.index, written) == (3, [3 + INDEX_BLOCK])
    connection.release(connection)
    full[0] = True
    database.close()


def test_the_management_interface_reports_a_full_disk(service, disk):
    filler = fill(disk)
    for number in range(60):  # the write-ahead log has some space left
        status, body = manage(service, "POST", "/databases", {"name": f"db{number}", "group": "default"})
        if status != 200:
            break
    assert (status, body["code"]) == (507, "DISK_FULL")
    assert "the disk of the service is full: make room on it" in body["error"]
    filler.unlink()
    assert manage(service, "POST", "/databases", {"name": "late", "group": "default"})[0] == 200
    assert not any(path.name == f"db{number}" for path in (disk / "data" / "databases").glob("*"))


def test_an_upload_whose_conversion_fills_the_disk(disk):
    with closing(apsw.Connection(str(disk / "file"))) as db:
        db.execute("PRAGMA page_size = 1024; CREATE TABLE t(a); INSERT INTO t VALUES (randomblob(3000000))")
    fill(disk)
    with pytest.raises(Refused) as caught:
        validate_upload(disk / "file", lambda: False)
    assert (caught.value.status, caught.value.code) == (507, "DISK_FULL")


def names_of(service):
    return {record.name for record in service.catalog.databases("local")}


def folders_of(service):
    """Return the ids of the databases that have a folder."""
    return {path.name for path in (service.folder / "databases").glob("*")}


SEEDS = [None, {"type": "database_upload"}, {"type": "database", "name": "small"}]


@pytest.mark.parametrize("locations", [1, 2])
@pytest.mark.parametrize("seed", SEEDS, ids=["empty", "upload", "copy"])
def test_a_creation_on_a_full_disk_succeeds_or_leaves_nothing(service, disk, seed, locations):
    """Promise against anyone: a creation that was answered with an error can be repeated."""
    if locations == 2:
        service.catalog.add_location("local", "default", "nrt")
    caller_of(service, "small").run("CREATE TABLE t(a)")
    filler = fill(disk)
    statuses = []
    for number in range(150):  # the write-ahead log has some space left
        name = f"db{number}"
        body = {"name": name, "group": "default"} | ({"seed": seed} if seed else {})
        status, _ = manage(service, "POST", "/databases", body)
        statuses.append(status)
        assert (status == 200) == (name in names_of(service)), status
        assert folders_of(service) <= {record.id for record in service.catalog.databases("local")}
        if status != 200:
            break
    assert statuses[-1] == 507
    filler.unlink()
    assert manage(service, "POST", "/databases", body)[0] == 200


@pytest.mark.parametrize("seed", SEEDS, ids=["empty", "upload", "copy"])
def test_a_creation_whose_files_cannot_be_written_succeeds_or_leaves_nothing(service, disk, seed):
    service.catalog.add_location("local", "default", "nrt")
    caller_of(service, "small").run("CREATE TABLE t(a)")
    body = {"name": "new", "group": "default"} | ({"seed": seed} if seed else {})
    with read_only(disk / "data" / "databases"):
        status, _ = manage(service, "POST", "/databases", body)
    assert status == (503 if seed else 200)  # without a seed, the first use creates the file
    assert ("new" in names_of(service)) == (status == 200)
    if seed:
        assert manage(service, "POST", "/databases", body)[0] == 200
    else:
        assert set(caller_of(service, "new").run("CREATE TABLE t(a)").codes) == {"ok"}


def test_folders_of_failed_creations_are_removed_at_the_next_start(tmp_path):
    service = Service(tmp_path / "data")
    service.catalog.create_group("local", "default", "ams")
    caller_of(service, "kept").run("CREATE TABLE t(a)")
    service.catalog.create_database("local", "unused", "default")
    service.close()
    databases = tmp_path / "data" / "databases"
    for name in ("empty", "marked", "unlisted"):
        (databases / name).mkdir()
    (databases / "marked" / "awaits-upload").touch()
    (databases / "unlisted" / "primary.sqlite").write_bytes(b"x")  # of a catalog that was lost
    again = Service(tmp_path / "data")
    assert folders_of(again) == {again.catalog.database("local", "kept").id, "unlisted"}
    again.close()


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_a_service_starts_on_a_full_disk_and_reads(disk, end, capfd):
    """Promise against anyone: what is stored can be read; one line says what cannot be done."""
    with serve(disk / "data", "--port", "0") as service, service.database("one") as db:
        db.run("CREATE TABLE t(a)", "INSERT INTO t VALUES (1)")
        service.create("dropped")
        service.manage("DELETE", "/databases/dropped").raise_for_status()
        token = db.token
        service.process.send_signal(end)
        service.process.wait()
    filler = fill(disk)
    capfd.readouterr()
    with serve(disk / "data", "--port", "0") as service, Database(service.url, token) as db:
        assert db.rows("SELECT a FROM t") == [("1",)]
        with Database(service.url, token) as other:
            assert other.rows("SELECT a FROM t") == [("1",)]
        assert db.error("INSERT INTO t VALUES (2)")["code"] == "SQLITE_FULL"
        assert service.manage("GET", "/databases").json()["databases"][0]["Name"] == "one"
        assert service.manage("POST", "/databases", json={"name": "x", "group": "g"}).status_code == 507
        assert db.http.get("/dump").status_code == 507
        assert "databases are read-only until there is free space" in capfd.readouterr().err
        filler.unlink()
        until(
            lambda: "error" not in {result["type"] for result in db.post("INSERT INTO t VALUES (3)").json()["results"]}
        )
        assert db.rows("SELECT a FROM t") == [("1",), ("3",)]
        service.create("later")
        assert db.http.get("/dump").status_code == 200
        until(lambda: httpx.get(f"{service.url}/health").status_code == 200)
        until((disk / "data" / "service.json").exists)
        service.process.terminate()
        assert service.process.wait() == 0
    assert "Traceback" not in capfd.readouterr().err
    with serve(disk / "data", "--port", "0") as service, Database(service.url, token) as db:
        assert db.rows("SELECT a FROM t") == [("1",), ("3",)]


def test_a_statement_that_runs_while_a_full_disk_gets_space_ends_with_the_reason(disk):
    with closing(Service(disk / "data")) as service:
        service.catalog.create_group("local", "default", "ams")
        caller_of(service, "one").run("CREATE TABLE t(a)")
    filler = fill(disk)
    with closing(Service(disk / "data")) as service:
        db = caller_of(service, "one")
        assert db.run("INSERT INTO t VALUES (1)").codes[0] == "SQLITE_FULL"
        running = Background(db.post, execute(ENDLESS), execute("SELECT 1"))
        until(lambda: any(stream.running for stream in list(service.engine.streams._streams.values())))
        service.engine.reopen()  # the disk is still full
        assert any(stream.running for stream in list(service.engine.streams._streams.values()))
        filler.unlink()
        service.engine.reopen()
        answer = running.result()
        assert (answer.status, answer.codes, answer.baton) == (200, ["STREAM_ENDED", "STREAM_ENDED"], None)
        assert "opened for reading on a full disk" in answer.error()["message"]
        assert set(db.run("INSERT INTO t VALUES (2)").codes) == {"ok"}
        assert count(db) == 1


@pytest.mark.promise(Promise.NO_CRASH)
def test_health_reports_a_full_or_read_only_disk(disk):
    times = itertools.count(0.0, 10.0)  # beyond the time for which a result is cached
    service = Service(disk / "data", clock=lambda: next(times))

    def health():
        return call(service, "GET", "/health", headers={"host": "localhost"}).status

    try:
        assert health() == 200
        filler = fill(disk)
        assert health() == 503
        filler.unlink()
        assert health() == 200
        with read_only(service.folder):
            assert health() == 503
        assert health() == 200
    finally:
        service.close()


def test_a_database_that_cannot_be_created_on_a_full_disk_can_be_created_later(service, disk):
    db = caller_of(service, "one")  # its first use creates the file
    filler = fill(disk)
    answer = db.post(execute("SELECT 1"), CLOSE)
    assert answer.status in (200, 507), answer.body
    filler.unlink()
    assert set(db.run("CREATE TABLE t(a)").codes) == {"ok"}


def test_a_read_only_disk_refuses_writes_and_still_reads(tmp_path):
    service = Service(tmp_path / "data")
    service.catalog.create_group("local", "default", "ams")
    db, other = caller_of(service, "one"), caller_of(service, "two")
    for caller in (db, other):
        caller.run("CREATE TABLE t(a)", "INSERT INTO t VALUES (1)")
    folder = service.folder / "databases" / service.catalog.database("local", "one").id
    open_database = service.engine.databases.pop(folder.name)
    service.engine.streams.end_all(open_database)
    open_database.close()
    try:
        with read_only(folder):
            answer = db.post(execute("INSERT INTO t VALUES (2)"), CLOSE)
            assert answer.status in (200, 503), answer.body
            code = answer.codes[0] if answer.status == 200 else answer.body["code"]
            assert code in ("SQLITE_READONLY", "SQLITE_CANTOPEN", "DISK_READ_ONLY", "DISK_ERROR")
            assert set(other.run("INSERT INTO t VALUES (2)").codes) == {"ok"}
    except NoMounts as reason:
        pytest.skip(f"cannot make a folder read-only for root: {reason}")
    assert set(db.run("INSERT INTO t VALUES (3)").codes) == {"ok"}
    assert db.run("SELECT a FROM t").rows() == [["1"], ["3"]]
    service.close()


def limit_file_size():
    import resource
    import signal

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000))


def test_writes_beyond_a_limit_of_the_file_size_fail_and_the_rest_is_kept(tmp_path):
    with (
        serve(tmp_path / "data", "--port", "0", prepare=limit_file_size) as service,
        service.database("one") as db,
        service.database("two") as other,
    ):
        db.run("CREATE TABLE t(a INTEGER PRIMARY KEY, b)")
        other.run("CREATE TABLE t(a INTEGER PRIMARY KEY, b)")
        written = 0
        while (answer := db.post(ROW)).json()["results"][0]["type"] == "ok":
            written += 1
        error = answer.json()["results"][0]["error"]
        assert error["code"] in ("SQLITE_FULL", "SQLITE_IOERR")
        assert db.rows("SELECT count(*) FROM t") == [(str(written),)]
        other.run(ROW)
        assert db.rows("PRAGMA integrity_check") == [("ok",)]
        assert service.process.poll() is None
    with serve(tmp_path / "data") as service, service.database("one") as db:
        assert db.rows("SELECT count(*) FROM t") == [(str(written),)]
        db.run(ROW)


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
@pytest.mark.promise(Promise.NO_CRASH)
def test_a_data_folder_that_cannot_be_written_is_reported_at_the_start(tmp_path):
    folder = tmp_path / "data"
    with serve(folder):
        pass
    try:
        with read_only(folder):
            ended = subprocess.run(
                [sys.executable, "-m", "pipemagic", "serve", "--data", str(folder), "--port", "0"],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False,
            )  # fmt: skip
    except NoMounts as reason:
        pytest.skip(f"cannot make a folder read-only for root: {reason}")
    assert ended.returncode == 1
    assert str(folder) in ended.stderr
    assert "Traceback" not in ended.stderr
