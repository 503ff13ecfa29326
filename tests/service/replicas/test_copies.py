"""What may happen while a replica is copied, or instead of it: commits, a full disk, an end, another copy."""

from __future__ import annotations

import errno
import math
import shutil

import apsw
import pytest
from asgi_calls import call
from replicated import Replicated
from service_calls import CLOSE, execute

from pipemagic.service.auth.tokens import Owner
from pipemagic.service.limits import Limits
from pipemagic.service.replicas import pages
from pipemagic.service.replicas.changes import ChangeLog, Stamp
from pipemagic.service.responses import Refused
from pipemagic.service.sqlite.backup import Stopped


@pytest.fixture
def one(tmp_path):
    one = Replicated(tmp_path / "data", limits=Limits(change_log=200_000))
    one.run("CREATE TABLE t(id INTEGER PRIMARY KEY, a)", "INSERT INTO t(a) VALUES ('first')")
    yield one
    one.close()


@pytest.fixture
def during(monkeypatch):
    """Have something done once, after a copy's snapshot was taken and before it is made."""
    todo, copy = [], pages.copy

    def copy_later(*arguments):
        while todo:
            todo.pop()()
        return copy(*arguments)

    monkeypatch.setattr(pages, "copy", copy_later)
    return todo.append


def replica_of(one, code="nrt"):
    return one.database.replicas[code]


def test_a_log_that_is_cut_while_a_copy_is_made_costs_another_copy(one, during):
    during(lambda: [one.run("INSERT INTO t(a) VALUES (randomblob(100000))") for _ in range(4)])
    one.location("nrt")
    one.check("nrt")


def test_a_log_that_fails_while_a_copy_is_made_costs_another_copy(one, during):
    during(lambda: one.database.followers._give_up(OSError("disk full")))
    one.location("nrt")
    one.check("nrt")


@pytest.mark.parametrize("end", ["pause", "stop"])
def test_a_copy_ends_when_it_is_not_wanted_any_more(one, during, end):
    during(one.database.stop_following if end == "stop" else lambda: one.location("nrt", "/pause"))
    if end == "stop":
        one.location("syd")
        one.follow()
        during(one.database.stop_following)
    one.location("nrt")
    one.follow()
    assert [path.name for path in one.files.glob("replicas/nrt*")] == []
    one.restart()
    one.location("nrt", "/resume")
    one.check(*one.record.locations[1:])


def test_two_copies_of_a_database_are_made_one_after_the_other(one, during, caplog):
    one.location("nrt")
    one.location("syd")
    during(lambda: one.service.placement.replicator.run_due())
    one.service.placement.replicator.run_due()
    while {replica_of(one, code).state.value for code in ("nrt", "syd")} != {"ok"}:
        one.service.placement.replicator.run_due()
    assert not [record for record in caplog.records if "copied anew" in record.message]
    one.check("nrt", "syd")


def test_a_replica_answers_while_the_disk_has_no_room_for_its_next_copy(one, during):
    one.location("nrt")
    one.follow()

    def fail():
        raise apsw.FullError("disk full")

    one.database.followers._give_up(OSError("disk full"))
    during(fail)
    one.service.placement.replicator.run_due()
    assert one.at("nrt").run("SELECT count(*) FROM t").rows() == [["1"]]
    one.run("INSERT INTO t(a) VALUES ('second')")
    while replica_of(one).index < one.database.index:
        one.service.placement.replicator.run_due()
    one.check("nrt")


def test_a_copy_that_fails_leaves_no_file(one, tmp_path):
    source = apsw.Connection(str(tmp_path / "source"))
    source.execute("CREATE TABLE t(a)")
    with pytest.raises(Stopped):
        pages.copy(source, tmp_path / "folder" / "target", 1, lambda: True)
    assert list((tmp_path / "folder").iterdir()) == []
    source.close()


def test_a_copy_that_has_no_room_is_not_begun(tmp_path, monkeypatch):
    source, usage = apsw.Connection(str(tmp_path / "source")), shutil.disk_usage(tmp_path)
    source.execute("CREATE TABLE t(a); INSERT INTO t VALUES (zeroblob(100000))")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=100_000))
    with pytest.raises(OSError, match=r"no room for a copy of 1[0-9]{2},[0-9]{3} bytes"):
        pages.copy(source, tmp_path / "folder" / "target", 1, lambda: False)
    assert list((tmp_path / "folder").iterdir()) == []
    source.close()


def test_a_log_that_cannot_be_begun_anew_hurts_no_commit(one, monkeypatch):
    one.close()
    one.options = {}
    one.open()
    one.location("nrt")
    one.follow()
    create = ChangeLog.create

    def fail(*_):
        monkeypatch.setattr(ChangeLog, "create", create)
        raise OSError(errno.ENOSPC, "disk full")

    monkeypatch.setattr(ChangeLog, "create", fail)
    for _ in range(6):
        one.run("INSERT INTO t(a) VALUES (randomblob(1000000))")
        one.follow()
    assert ChangeLog.create == create  # it failed
    one.check("nrt")


def test_nobody_waits_for_a_replica_that_is_gone(one):
    one.location("nrt")
    one.follow()
    replica = replica_of(one)
    paused = replica.wait_for(10**9, math.inf)
    one.location("nrt", "/pause")
    assert paused.wait(0)
    before = replica.wait_for(10**9, math.inf)
    one.location("nrt", method="DELETE")
    after = replica.wait_for(10**9, math.inf)
    assert (before.wait(0), after.wait(0)) == (True, True)
    assert (paused.granted, before.granted, after.granted) == (False, False, False)


def test_a_stream_that_came_to_a_place_while_that_was_paused_runs_nothing(one):
    stream = one.service.streams.open(one.database, Owner("local", "id", "ada", "rw"))
    one.database.paused = True
    assert not stream.begin(interruptible=True, now=0.0)
    one.database.paused = False
    assert stream.begin(interruptible=True, now=0.0)
    one.service.streams.destroy(stream)


def test_a_database_whose_replicas_cannot_be_started_is_not_used_without_them(one, monkeypatch):
    def fail(_path):
        raise OSError(errno.EIO, "disk error")

    one.location("nrt")
    one.follow()
    one.restart()
    with monkeypatch.context() as patch:
        patch.setattr(Stamp, "of", fail)
        for _ in range(2):
            with pytest.raises(OSError, match="disk error"):
                one.database  # noqa: B018  opened
    one.check("nrt")


def test_a_new_database_is_at_all_locations_of_its_group_at_once(one):
    one.location("nrt")
    token = (one.folder / "platform-token").read_text().strip()
    assert one.at("ams").service.catalog.group("local", "g").locations == ("ams", "nrt")

    headers = {"host": "127.0.0.1", "authorization": f"Bearer {token}"}
    body = b'{"name": "y", "group": "g"}'
    assert call(one.service, "POST", "/v1/organizations/local/databases", headers=headers, body=body).status == 200
    _, answer = one.manage("GET", "/databases/y/instances")
    assert [(each["name"], each["status"]) for each in answer["instances"]] == [("ams", "ok"), ("nrt", "copying")]
    one.follow()
    _, answer = one.manage("GET", "/databases/y/instances")
    assert [(each["name"], each["status"]) for each in answer["instances"]] == [("ams", "ok"), ("nrt", "ok")]
    one.restart()  # nothing was opened yet
    _, answer = one.manage("GET", "/databases/y/instances")
    assert [(each["name"], each["status"]) for each in answer["instances"]] == [("ams", "ok"), ("nrt", "copying")]


def test_a_damaged_database_keeps_no_other_from_its_replicas(one):
    damaged = one.service.catalog.create_database("local", "a", "g")
    folder = one.folder / "databases" / damaged.id
    folder.mkdir()
    (folder / "primary.sqlite").write_bytes(b"this is no database at all" * 500)
    one.location("nrt")
    one.follow()
    assert one.at("nrt").run("SELECT count(*) FROM t").rows() == [["1"]]


def test_an_instance_is_found_below_localhost_too(tmp_path):
    one = Replicated(tmp_path / "data", domain="data.example.org")
    one.run("CREATE TABLE t(a)")
    one.location("nrt")
    one.follow()
    one.location("nrt", "/pause")
    caller = one.at()
    caller.headers = {"host": "nrt-x-local.localhost:8080"}
    refused = caller.post(execute("SELECT 1"), CLOSE)
    assert (refused.status, refused.body["code"]) == (503, "LOCATION_PAUSED")

    assert call(one.service, "GET", "/health", headers={"host": "nrt-x-local.localhost"}).status == 503
    assert call(one.service, "GET", "/health", headers={"host": "x-local.localhost"}).status == 200
    one.close()


def test_a_deleted_database_is_not_opened_for_its_replicas(one):
    record = one.record
    one.manage("DELETE", "/databases/x")
    with pytest.raises(Refused):
        one.service.databases.open(record)
    one.location("nrt")
    assert not (one.folder / "databases" / record.id).exists()
    one.service.catalog.create_database("local", "x", "g")
