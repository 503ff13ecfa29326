"""Backups of databases (``serve --backups N``), and branches of a database as it was at an earlier time."""

from __future__ import annotations

import random
import shutil
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from types import SimpleNamespace

import apsw
import pytest
from account_calls import person
from service_calls import WALL_START, caller_of, new_service

from pipemagic.service import backups
from pipemagic.service.backups import INTERVAL
from pipemagic.service.embedded import EmbeddedEngine
from pipemagic.service.service import Service

LOCAL = "/v1/organizations/local"


@pytest.fixture
def most():
    return 5


@pytest.fixture
def service(tmp_path, wall, most):
    engine = partial(EmbeddedEngine, backups=most)
    with new_service(tmp_path, engine=engine, clock=wall, now=wall) as service:
        yield service


@pytest.fixture
def operator(service):
    return person(service, "local")


def rfc(moment):
    return datetime.fromtimestamp(moment, UTC).isoformat()


def unix(text):
    return datetime.fromisoformat(text).timestamp()


def seed(moment=None, name="flights"):
    return {"type": "database", "name": name, **({} if moment is None else {"timestamp": rfc(moment)})}


def branch(operator, moment, name, **fields):
    body = {"name": name, "group": "default", "seed": seed(moment), **fields}
    return operator.ok("POST", f"{LOCAL}/databases", body)["database"]


def write(db, wall, *statements, after=INTERVAL):
    """Write after some seconds, and wait for the backup that this begins."""
    wall.advance(after)
    answer = db.run(*statements)
    assert set(answer.codes) == {"ok"}, answer.body
    record = db.service.catalog.database("local", "flights")
    db.service.engine.backups.wait(record.id)


def kept(service, name="flights"):
    return service.engine.backups.of(service.catalog.database("local", name).id)


def content(service, name):
    return [row[0] for row in caller_of(service, name).run("SELECT a FROM t ORDER BY a").rows()]


def test_a_branch_has_what_the_table_held_then(service, operator, db, wall):
    """Each branch is compared with the history of the table, at its own moment."""
    chance, history = random.Random(7), []
    db.run("CREATE TABLE t (a INTEGER)")
    history.append((wall.time, []))
    for number in range(40):
        write(db, wall, f"INSERT INTO t VALUES ({number})", after=chance.choice([0.5, 60, INTERVAL, 3 * INTERVAL]))
        history.append((wall.time, content(service, "flights")))

    def state(moment):
        return next(rows for time, rows in reversed(history) if time <= moment)

    exact = 0
    for number in range(60):
        # Just before a change, between two, or at any time.
        moment = chance.choice(history)[0] + chance.choice([-0.01, 0.25, chance.uniform(0, 2 * INTERVAL)])
        if moment > wall.time or moment < kept(service)[0].since / 1000:
            status, _ = operator.refused(
                "POST", f"{LOCAL}/databases", {"name": "n", "group": "default", "seed": seed(moment)}
            )
            assert status == 400
            continue
        made = branch(operator, moment, f"b{number}")
        shown = unix(made["parent"]["branched_at"])
        assert shown <= moment
        assert content(service, f"b{number}") == state(shown)
        exact += shown == int(moment * 1000) / 1000
        if shown != int(moment * 1000) / 1000:  # no backup holds a later state
            assert not any(shown < backup.until / 1000 <= moment for backup in kept(service))
    assert exact > 5
    assert len(kept(service)) == 5


def test_the_state_before_the_change_that_was_a_mistake(service, operator, db, wall):
    db.run("CREATE TABLE t (a)", "INSERT INTO t VALUES (1), (2)")
    write(db, wall, "DELETE FROM t", after=3 * INTERVAL)
    made = branch(operator, wall.time - 1, "before")
    assert content(service, "before") == ["1", "2"]
    parent = {
        "id": service.catalog.database("local", "flights").id,
        "name": "flights",
        "branched_at": rfc(wall.time - 1),
    }
    assert made["parent"] | {"branched_at": rfc(unix(made["parent"]["branched_at"]))} == parent
    assert branch(operator, wall.time, "after")["parent"]["branched_at"]
    assert content(service, "after") == []
    write(db, wall, "INSERT INTO t VALUES (3)", after=1)  # soon after the backup: none of its own
    old = branch(operator, wall.time - 0.5, "old")
    assert unix(old["parent"]["branched_at"]) == wall.time - 1.001  # it says that it is older
    assert content(service, "old") == ["1", "2"]


def test_the_newest_backups_are_kept(service, db, wall, most):
    db.run("CREATE TABLE t (a)")
    for number in range(most + 3):
        write(db, wall, f"INSERT INTO t VALUES ({number})")
        write(db, wall, f"INSERT INTO t VALUES ({number})", after=INTERVAL / 2)
    untils = [backup.until / 1000 for backup in kept(service)]
    assert len(untils) == most
    assert all(later - earlier >= INTERVAL for earlier, later in pairwise(untils))
    assert wall.time - untils[-1] == pytest.approx(INTERVAL / 2, abs=0.01)


def test_a_transaction_that_changes_nothing_makes_no_second_backup(service, operator, db, wall):
    db.run("CREATE TABLE t (a)", "INSERT INTO t VALUES (1)")
    for _ in range(3):
        write(db, wall, "BEGIN IMMEDIATE", "ROLLBACK")
    wall.advance(5)
    moment = wall.time - 1
    write(db, wall, "BEGIN IMMEDIATE", "ROLLBACK")
    (backup,) = kept(service)
    assert backup.until == int(wall.time * 1000) - 1
    write(db, wall, "DELETE FROM t", after=1)
    assert unix(branch(operator, moment, "b")["parent"]["branched_at"]) == moment
    assert content(service, "b") == ["1"]


def test_reads_make_no_backup(service, db, wall):
    db.run("CREATE TABLE t (a)")
    write(db, wall, "SELECT * FROM t", "PRAGMA table_info(t)")
    assert kept(service) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2026-02-01 10:00", '"seed.timestamp" must be a time such as 2026-01-31T00:00:00Z'),
        ("2026-02-01T10:00:00", '"seed.timestamp" must be a time such as 2026-01-31T00:00:00Z'),
        ("yesterday", '"seed.timestamp" must be a time such as 2026-01-31T00:00:00Z'),
        (rfc(WALL_START + 5), "seed.timestamp 2026-01-31T22:53:25.000Z is in the future"),
    ],
)
def test_times_that_are_refused(operator, db, text, message):
    db.run("CREATE TABLE t (a)")
    body = {"name": "new", "group": "default", "seed": {**seed(), "timestamp": text}}
    assert operator.refused("POST", f"{LOCAL}/databases", body) == (400, message)
    assert operator.status("GET", f"{LOCAL}/databases/new") == 404


def test_a_time_before_all_backups_is_refused_with_the_range(service, operator, db, wall):
    db.run("CREATE TABLE t (a)", "INSERT INTO t VALUES (1)")
    write(db, wall, "DELETE FROM t")
    body = {"name": "new", "group": "default", "seed": seed(WALL_START - 60)}
    status, answer = operator.call("POST", f"{LOCAL}/databases", body)
    assert (status, answer["code"]) == (400, "NO_BACKUP")
    assert answer["error"] == (
        "there is no backup of flights from 2026-01-31T22:52:20.000Z or before: "
        "a branch is possible at times from 2026-01-31T22:53:20.000Z to now"
    )


@pytest.mark.parametrize("most", [0])
def test_without_backups(service, operator, db, wall):
    db.run("CREATE TABLE t (a)", "INSERT INTO t VALUES (1)")
    write(db, wall, "DELETE FROM t")
    assert kept(service) == []
    body = {"name": "new", "group": "default", "seed": seed(WALL_START)}
    status, message = operator.refused("POST", f"{LOCAL}/databases", body)
    assert status == 400
    assert message.endswith("; this service makes no backups: run it with `pipemagic serve --backups N`")
    branch(operator, wall.time, "now")  # the present state needs no backup
    branch(operator, None, "copy")
    assert content(service, "now") == content(service, "copy") == []


def test_the_parent_in_lists(service, operator, db):
    db.run("CREATE TABLE t (a)")
    made = branch(operator, None, "copy")
    identifier = service.catalog.database("local", "flights").id
    for parent in ("flights", identifier):
        listed = operator.ok("GET", f"{LOCAL}/databases", query={"parent": parent})["databases"]
        assert [(item["Name"], item["parent"]) for item in listed] == [("copy", made["parent"])]
    assert operator.ok("GET", f"{LOCAL}/databases", query={"parent": "copy"})["databases"] == []
    assert operator.ok("GET", f"{LOCAL}/databases/flights")["database"]["parent"] is None
    operator.ok("DELETE", f"{LOCAL}/databases/flights")
    assert operator.ok("GET", f"{LOCAL}/databases/copy")["database"]["parent"] == made["parent"]  # as it was


def test_a_suspended_database_has_no_branch(operator, db, wall):
    db.run("CREATE TABLE t (a)")
    operator.ok("PATCH", f"{LOCAL}/databases/flights/configuration", {"block_reads": True})
    body = {"name": "new", "group": "default", "seed": seed(wall.time)}
    assert operator.refused("POST", f"{LOCAL}/databases", body)[0] == 403


def test_backups_survive_a_restart_and_are_deleted_with_their_database(tmp_path, wall, service, operator, db):
    db.run("CREATE TABLE t (a)", "INSERT INTO t VALUES (1)")
    write(db, wall, "DELETE FROM t")
    before = kept(service)
    assert len(before) == 1
    service.close()
    again = Service(tmp_path / "data", partial(EmbeddedEngine, backups=5), clock=wall, now=wall)
    with closing(again):
        db = caller_of(again, "flights")
        write(db, wall, "INSERT INTO t VALUES (2)", after=1)  # the last backup is a second old
        assert kept(again) == before
        operator = person(again, "local")
        branch(operator, WALL_START, "old")
        assert content(again, "old") == ["1"]
        operator.ok("DELETE", f"{LOCAL}/databases/flights")
        assert not before[0].path.parent.parent.exists()
        assert content(again, "old") == ["1"]


def test_backups_count_in_the_storage_and_give_way_to_data(service, operator, db, wall):
    def stored():
        return operator.ok("GET", f"{LOCAL}/usage")["organization"]["usage"]["storage_bytes"]

    db.run("CREATE TABLE t (a)", "INSERT INTO t VALUES (randomblob(5000000))")
    before = stored()
    write(db, wall, "INSERT INTO t VALUES (1)")
    (backup,) = kept(service)
    size = backup.path.stat().st_size
    assert size > 5_000_000
    assert stored() - before >= size
    operator.ok("PATCH", "/v1/quotas/local", {"storage_bytes": stored() + 2_000_000})
    write(db, wall, "INSERT INTO t VALUES (2)")  # another one does not fit beside the first, and so replaces it
    assert [item.until for item in kept(service)] == [int(wall.time * 1000) - 1]
    write(db, wall, "INSERT INTO t VALUES (randomblob(5000000))", after=1)
    wall.advance(10)
    service.engine.sweep()
    assert kept(service) == []  # the data needs the room
    assert set(db.run("INSERT INTO t VALUES (3)").codes) == {"ok"}
    write(db, wall, "INSERT INTO t VALUES (4)")  # no room for another one: the statement succeeds all the same
    assert kept(service) == []


def test_backups_stay_if_without_them_there_is_no_room_for_another_one(service, operator, db, wall):
    db.run("CREATE TABLE t (a)")
    write(db, wall, "INSERT INTO t VALUES (randomblob(2000000))")
    before = kept(service)
    assert len(before) == 1
    stored = operator.ok("GET", f"{LOCAL}/usage")["organization"]["usage"]["storage_bytes"]
    operator.ok("PATCH", "/v1/quotas/local", {"storage_bytes": stored + 100_000})
    write(db, wall, "INSERT INTO t VALUES (2)")
    assert kept(service) == before


def test_a_clock_that_was_wrong(service, operator, db, wall):
    """A backup of the future, before the clock was set back, neither prevents later ones nor replaces them."""
    year = 365 * 86400
    db.run("CREATE TABLE t (a)", "INSERT INTO t VALUES (0)")
    wall.advance(year)
    write(db, wall, "INSERT INTO t VALUES (1)")
    wall.advance(-year)
    for number in (2, 3, 4, 5, 6):
        write(db, wall, f"INSERT INTO t VALUES ({number})")
    assert content(service, "flights") == [str(number) for number in range(7)]
    assert [backup.until for backup in kept(service)][-1] == int(wall.time * 1000) - 1
    made = branch(operator, wall.time - 1, "b")
    assert unix(made["parent"]["branched_at"]) == wall.time - 1
    assert content(service, "b") == [str(number) for number in range(6)]


def test_a_backup_leaves_the_reserve_of_the_disk(service, db, wall, monkeypatch):
    db.run("CREATE TABLE t (a)", "INSERT INTO t VALUES (1)")
    full = SimpleNamespace(total=2**40, free=backups.RESERVE)
    monkeypatch.setattr(backups, "shutil", SimpleNamespace(disk_usage=lambda _: full, copyfile=shutil.copyfile))
    write(db, wall, "INSERT INTO t VALUES (2)")
    assert kept(service) == []


@pytest.mark.parametrize("error", [apsw.IOError("disk I/O error"), apsw.FullError("database or disk is full")])
def test_a_backup_that_fails_leaves_no_file_and_the_statement_runs(service, db, wall, monkeypatch, error):
    def copy(_source, path, _must_end):
        path.write_bytes(b"SQLite format 3\0")
        raise error

    db.run("CREATE TABLE t (a)", "INSERT INTO t VALUES (1)")
    monkeypatch.setattr(backups, "copy_snapshot", copy)
    write(db, wall, "INSERT INTO t VALUES (2)")
    assert kept(service) == []
    assert content(service, "flights") == ["1", "2"]
    assert list(service.folder.glob("transfers/*")) == []
    monkeypatch.undo()
    write(db, wall, "INSERT INTO t VALUES (3)")
    assert len(kept(service)) == 1


def test_a_database_that_is_deleted_while_its_backup_is_made(service, operator, db, wall, monkeypatch):
    record, copy = service.catalog.database("local", "flights"), backups.copy_snapshot

    def delete_first(source, path, must_end):
        copy(source, path, must_end)
        operator.ok("DELETE", f"{LOCAL}/databases/flights")

    db.run("CREATE TABLE t (a)", "INSERT INTO t VALUES (1)")
    monkeypatch.setattr(backups, "copy_snapshot", delete_first)
    wall.advance(INTERVAL)
    db.run("INSERT INTO t VALUES (2)")
    service.engine.backups.wait(record.id)
    assert list(service.folder.glob("databases/*")) == []
    assert list(service.folder.glob("transfers/*")) == []


def test_no_read_transaction_stays(service, db, wall):
    db.run("CREATE TABLE t (a)")
    for _ in range(3):
        write(db, wall, "INSERT INTO t VALUES (1)")
    database = service.engine.databases.get(service.catalog.database("local", "flights").id)
    assert len(database.readers) == 0
    connection = database.take()
    assert not connection.raw.in_transaction
    connection.release(connection)
