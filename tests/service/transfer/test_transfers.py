"""Uploads, copies and exports: uploads are validated, exports are consistent, failures leave no files."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipemagic.errors import TransferError
from pipemagic.service.catalog.usage import Quotas
from pipemagic.service.limits import Limits
from pipemagic.service.responses import Refused
from pipemagic.service.transfer import endpoints, upload
from pipemagic.service.transfer.upload import prepare_upload

ROOMY_DISK, FULL_DISK = SimpleNamespace(total=10**12, free=10**11), SimpleNamespace(total=10**12, free=10**7)


def make_file(path, script="CREATE TABLE t (a); INSERT INTO t VALUES (1), ('two')", *before):
    with closing(sqlite3.connect(path)) as db:
        for pragma in before:
            db.execute(pragma)
        db.executescript(script)
    return path


def rows(path, sql="SELECT a FROM t"):
    with closing(sqlite3.connect(path)) as db:
        return db.execute(sql).fetchall()


def awaiting(courier, name="flights"):
    assert courier.create(name, type="database_upload")[0] == 200


# -- uploads


def test_a_file_becomes_a_database(courier, tmp_path):
    awaiting(courier)
    file = make_file(tmp_path / "f")
    assert courier.upload("flights", file) == (200, {})
    caller = courier.caller("flights")
    assert caller.run("SELECT a FROM t", "INSERT INTO t VALUES (3)").rows(0) == [["1"], ["two"]]
    assert caller.run("PRAGMA journal_mode").rows(0) == [["wal"]]
    assert int(caller.run("SELECT 1").response(0)["result"]["replication_index"]) > 0
    assert courier.left_over() == []


def test_statements_before_the_upload_are_refused(courier):
    awaiting(courier)
    answer = courier.caller("flights").run("SELECT 1")
    assert (answer.status, answer.body["code"]) == (409, "AWAITS_UPLOAD")
    assert "/v1/upload" in answer.body["message"]


def test_only_a_database_created_for_an_upload_accepts_one(courier, tmp_path):
    file = make_file(tmp_path / "f")
    courier.create("other")
    assert courier.upload("other", file)[0] == 409
    awaiting(courier)
    assert courier.upload("flights", file)[0] == 200
    status, body = courier.upload("flights", file)
    assert (status, "database_upload" in body["message"]) == (409, True)


def test_the_token_is_checked_before_the_body(courier, tmp_path):
    awaiting(courier)
    file = make_file(tmp_path / "f")
    assert courier.upload("flights", file, token="wrong")[0] == 401
    assert courier.upload("flights", file, token=courier.token)[0] == 401  # a platform token
    assert courier.upload("flights", file, token=courier.caller("flights", read_only=True).token)[0] == 403
    courier.create("other")
    assert courier.upload("flights", file, token=courier.caller("other").token)[0] == 409  # it names that database
    assert courier.left_over() == []


def test_a_file_that_is_not_a_database_is_refused(courier, tmp_path):
    awaiting(courier)
    file = tmp_path / "f"
    for content in (b"", b"SQLite format 3\0", b"x" * 5000, b"\x1f\x8b" + os.urandom(9000)):
        file.write_bytes(content)
        status, body = courier.upload("flights", file)
        assert (status, body["code"]) == (400, "NOT_A_DATABASE")
    assert courier.left_over() == []
    assert courier.upload("flights", make_file(tmp_path / "good"))[0] == 200  # it still waits for an upload


def test_a_damaged_database_is_refused(courier, tmp_path):
    awaiting(courier)
    script = "CREATE TABLE t (a); CREATE INDEX i ON t (a);" + "INSERT INTO t VALUES (hex(randomblob(100)));" * 300
    good = make_file(tmp_path / "f", script).read_bytes()
    broken = {
        "a page of noise": good[:8192] + bytes(4096) + good[12288:],
        "cut in the middle": good[: len(good) // 2 // 4096 * 4096],
        "a schema that is none": good.replace(b"CREATE INDEX i ON t", b"CREATE INDEX i IN t"),
    }
    for content in broken.values():
        (tmp_path / "f").write_bytes(content)
        status, body = courier.upload("flights", tmp_path / "f")
        assert (status, body["code"]) == (400, "CORRUPT_DATABASE")


HEADER_FIELDS = {  # https://sqlite.org/fileformat2.html#the_database_header
    "page size": (16, 2), "write version": (18, 1), "read version": (19, 1), "reserved space": (20, 1),
    "maximum payload fraction": (21, 1), "minimum payload fraction": (22, 1), "leaf payload fraction": (23, 1),
    "change counter": (24, 4), "page count": (28, 4), "first freelist page": (32, 4), "freelist pages": (36, 4),
    "schema cookie": (40, 4), "schema format": (44, 4), "cache size": (48, 4), "largest root page": (52, 4),
    "text encoding": (56, 4), "user version": (60, 4), "incremental vacuum": (64, 4), "application id": (68, 4),
    "reserved for expansion": (72, 4), "version-valid-for": (92, 4), "version number": (96, 4), "page type": (100, 1),
}  # fmt: skip


@pytest.mark.parametrize("field", HEADER_FIELDS)
def test_a_damaged_header_is_refused_unless_the_database_is_usable(field, courier, tmp_path, caplog):
    file, (offset, size) = tmp_path / "f", HEADER_FIELDS[field]
    script = "CREATE TABLE t (a); CREATE INDEX i ON t (a); INSERT INTO t VALUES (1), ('two')"
    good = make_file(file, script).read_bytes()
    for number, value in enumerate({0, 1, 3, 5, 255, 256**size // 2, 256**size - 2}):
        name = f"flights{number}"
        awaiting(courier, name)
        file.write_bytes(good[:offset] + value.to_bytes(size, "big") + good[offset + size :])
        status, body = courier.upload(name, file)
        if status == 200:
            caller = courier.caller(name)
            assert caller.run("SELECT a FROM t").rows(0) == [["1"], ["two"]]
            assert caller.run("INSERT INTO t VALUES (3)", "PRAGMA integrity_check").rows(1) == [["ok"]]
        else:
            assert (status, body["code"]) in {(400, "NOT_A_DATABASE"), (400, "CORRUPT_DATABASE")}, (value, body)
    assert not [record for record in caplog.records if record.exc_info]
    assert courier.left_over() == []


SLOW = "(a + " + " + ".join(["length(hex(zeroblob(400000)))"] * 20) + ")"
"""An expression that takes about 0.1 s."""


@pytest.mark.parametrize("script", [
    "CREATE TABLE t (a, CHECK ((a + 1) > 0))", "CREATE TABLE t (a, b TEXT NOT NULL AS ((a + 1)))",
    "CREATE TABLE t (a); CREATE INDEX i ON t ((a + 1))", "CREATE TABLE t (a); CREATE VIEW v AS SELECT (a + 1) FROM t",
    "CREATE TABLE t (a); CREATE INDEX i ON t (a) WHERE (a + 1) > 0",
    "CREATE TABLE t (a); CREATE TRIGGER r AFTER UPDATE ON t BEGIN SELECT (a + 1) FROM t; END",
])  # fmt: skip
def test_expressions_of_the_schema_have_a_time_limit(script, courier, tmp_path, monkeypatch):
    monkeypatch.setattr(upload, "CHECK_TIME", 0.3)
    awaiting(courier)
    file = make_file(tmp_path / "f", script)
    with closing(sqlite3.connect(file)) as db:
        db.executemany("INSERT INTO t VALUES (?)", [(number,) for number in range(1000)])
        db.execute("PRAGMA writable_schema = ON")
        db.execute("UPDATE sqlite_schema SET sql = replace(sql, '(a + 1)', ?)", (SLOW,))
        db.commit()
    status, body = courier.upload("flights", file)
    assert (status, body) == (200, {}) or (status, body["code"]) in {(400, "CHECK_TIMEOUT"), (400, "CORRUPT_DATABASE")}
    assert courier.left_over() == []


def test_rows_that_violate_a_later_constraint_are_accepted(courier, tmp_path):
    awaiting(courier)
    script = (
        "CREATE TABLE t (a, b CHECK (b > 0)); INSERT INTO t VALUES (NULL, 1); PRAGMA ignore_check_constraints = ON;"
        "UPDATE t SET b = -1; PRAGMA writable_schema = ON;"
        "UPDATE sqlite_schema SET sql = 'CREATE TABLE t (a TEXT NOT NULL, b CHECK (b > 0))';"
    )
    assert courier.upload("flights", make_file(tmp_path / "f", script))[0] == 200


FOREIGN = {
    "collation": "CREATE TABLE t(a TEXT COLLATE unicase, b); CREATE UNIQUE INDEX u ON t(a); "
    "INSERT INTO t VALUES ('Bio', 1), ('art', 2)",
    "collation of a key": "CREATE TABLE t(a TEXT PRIMARY KEY COLLATE unicase, b) WITHOUT ROWID; "
    "INSERT INTO t VALUES ('Bio', 1), ('art', 2), ('Zoo', 3), ('box', 4)",
    "function": "CREATE TABLE t(a, b); CREATE INDEX u ON t(own(a)); INSERT INTO t VALUES ('x', 1), ('y', 2)",
    "condition": "CREATE TABLE t(a, b); CREATE INDEX u ON t(a) WHERE own(b) > 1; INSERT INTO t VALUES ('x', 1)",
    "generated": "CREATE TABLE t(a, b AS (own(a)) STORED); INSERT INTO t VALUES ('x'), ('y')",
    "check": "CREATE TABLE t(a CHECK (own(a) > 0), b); INSERT INTO t VALUES ('x', 1)",
    "trigger": "CREATE TABLE t(a, b); INSERT INTO t VALUES ('x', 1); CREATE TRIGGER g AFTER INSERT ON t "
    "WHEN own(new.a) BEGIN SELECT 1; END",
}


def unicase(a, b):
    return (a.lower() > b.lower()) - (a.lower() < b.lower())


def foreign_file(path, script, *before):
    """Make a file with a program that has a collation and a function of its own."""
    with closing(sqlite3.connect(path)) as db:
        db.create_collation("unicase", unicase)
        db.create_function("own", 1, lambda value: len(str(value)) + 1, deterministic=True)
        for pragma in before:
            db.execute(pragma)
        db.executescript(script)
        db.executescript("CREATE TABLE other(x); CREATE INDEX i ON other(x); INSERT INTO other VALUES (1), (2)")
    return path


@pytest.mark.parametrize(("script", "message"), list(zip(FOREIGN.values(), [
    "unicase, in table t", "unicase, in table t", "own(), in index u on t", "own(), in index u on t",
    "own(), in table t", "own(), in table t", "own, in trigger g on t",
], strict=True)), ids=FOREIGN)  # fmt: skip
def test_a_file_with_code_of_another_program_is_accepted(script, message, courier, tmp_path):
    file = foreign_file(tmp_path / "f", script)
    awaiting(courier)
    assert courier.upload("flights", file) == (200, {})
    caller = courier.caller("flights")
    with closing(sqlite3.connect(file)) as db:
        db.create_function("own", 1, lambda value: len(str(value)) + 1, deterministic=True)
        db.create_collation("unicase", unicase)
        expected = sorted(a for (a,) in db.execute("SELECT a FROM t"))
    answer = caller.run("INSERT INTO other VALUES (3)", "SELECT a FROM t")
    assert answer.codes[0] == "ok"
    if "WITHOUT ROWID" in script:  # SQLite cannot open it
        assert "no query solution" in answer.error(1)["message"]
    else:
        assert sorted(a for (a,) in answer.rows(1)) == expected
    changed = caller.run("INSERT INTO t(a) VALUES ('new')").error()["message"]
    assert changed.rpartition(": ")[2] == message


def test_damage_in_a_file_with_code_of_another_program_is_found(courier, tmp_path):
    file = foreign_file(tmp_path / "f", FOREIGN["collation"])
    with closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA writable_schema = ON")
        db.execute("UPDATE sqlite_schema SET sql = 'CREATE INDEX i ON other(-x)' WHERE name = 'i'")
        db.commit()
    awaiting(courier)
    status, body = courier.upload("flights", file)
    assert (status, body["code"]) == (400, "CORRUPT_DATABASE")
    assert "index i" in body["message"]


def test_a_file_that_must_be_rewritten_names_the_collation(courier, tmp_path):
    file = foreign_file(tmp_path / "f", FOREIGN["collation"], "PRAGMA page_size = 1024")
    with pytest.raises(TransferError, match="cannot be rewritten: no such collation sequence: unicase") as caught:
        prepare_upload(file, tmp_path / "copy")
    assert "page_size = 4096" in caught.value.hint
    awaiting(courier)
    status, body = courier.upload("flights", file)
    assert (status, body["message"].rpartition(": ")[2]) == (400, "unicase")
    assert "damaged" not in body["message"]


@pytest.mark.parametrize("pragma", [
    "PRAGMA page_size = 512", "PRAGMA page_size = 65536", "PRAGMA auto_vacuum = FULL", "PRAGMA journal_mode = WAL",
    "PRAGMA encoding = 'UTF-16'",
])  # fmt: skip
def test_files_of_every_format_are_accepted(pragma, courier, tmp_path):
    awaiting(courier)
    assert courier.upload(
        "flights", make_file(tmp_path / "f", "CREATE TABLE t (a); INSERT INTO t VALUES ('é')", pragma)
    ) == (200, {})
    caller = courier.caller("flights")
    assert caller.run("SELECT a FROM t").rows(0) == [["é"]]
    if "encoding" not in pragma:
        assert caller.run("PRAGMA page_size", "PRAGMA auto_vacuum").rows(0) == [["4096"]]


def test_triggers_and_views_of_an_upload_do_not_run(courier, tmp_path):
    """Triggers do not fire, and functions that the schema calls cannot access files."""
    awaiting(courier)
    script = """
    CREATE TABLE t (a); CREATE TABLE log (n); INSERT INTO t VALUES (1);
    CREATE TRIGGER x AFTER INSERT ON t BEGIN INSERT INTO log VALUES (1); END;
    CREATE TRIGGER y AFTER DELETE ON t BEGIN INSERT INTO log VALUES (2); END;
    CREATE VIEW v AS SELECT load_extension('/tmp/evil.so') AS x;
    """
    assert courier.upload("flights", make_file(tmp_path / "f", script, "PRAGMA page_size = 1024"))[0] == 200
    caller = courier.caller("flights")
    assert caller.run("SELECT count(*) FROM log").rows(0) == [["0"]]
    assert caller.run("SELECT * FROM v").codes[0] in ("SQLITE_AUTH", "SQLITE_ERROR")


def test_the_size_limit(tmp_path, service, courier):
    service.engine.transfers._limits = Limits(database=20_000)
    awaiting(courier)
    file = make_file(tmp_path / "f", "CREATE TABLE t (a); INSERT INTO t VALUES (zeroblob(50000))")
    assert courier.upload("flights", file)[0] == 413  # by its declared length
    assert courier.upload("flights", file, size=0)[0] == 413  # by its actual length
    assert courier.left_over() == []


def test_an_upload_to_a_database_that_is_deleted_meanwhile(courier, tmp_path, service):
    awaiting(courier)
    token = courier.caller("flights").token
    record = service.catalog.database("local", "flights")
    file = make_file(tmp_path / "f")
    courier.call("DELETE", "/v1/organizations/local/databases/flights", courier.token)
    with pytest.raises(Refused) as caught:
        service.engine.databases.supply(record, file)
    assert caught.value.status == 404
    assert courier.upload("flights", file, token=token)[0] == 401
    assert not (courier.folder / "databases" / record.id).exists()


def test_interrupted_creations_are_cleaned_up_at_the_start(courier, reopened, service, tmp_path):
    """A creation that is not in the catalog is cleaned up; a database that waits continues to wait."""
    awaiting(courier)
    lost = courier.folder / "databases" / "0000-lost"
    service.engine.databases.place(lost.name, make_file(tmp_path / "f"))
    (courier.folder / "transfers" / "half").write_bytes(b"x")
    after = reopened()
    assert after.left_over() == []
    assert not (after.folder / "databases" / lost.name).exists()
    assert after.caller("flights").run("SELECT 1").status == 409
    assert after.upload("flights", make_file(tmp_path / "g"))[0] == 200
    assert after.caller("flights").run("SELECT a FROM t").rows(0) == [["1"], ["two"]]


def test_an_upload_that_would_fill_the_disk(courier, tmp_path, monkeypatch):
    awaiting(courier)
    file = make_file(tmp_path / "f")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: FULL_DISK)
    status, body = courier.upload("flights", file)
    assert (status, body["code"]) == (507, "DISK_FULL")
    assert courier.left_over() == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("size", [1, 1000])  # one that a buffer would take, and a larger one
def test_an_upload_to_a_full_disk(courier, tmp_path, monkeypatch, caplog, size):
    awaiting(courier)
    file = make_file(tmp_path / "f")
    content = file.read_bytes()
    file.write_bytes(content * size)
    opened = Path.open
    monkeypatch.setattr(
        Path,
        "open",
        lambda path, mode="r", *args: opened(*((Path("/dev/full"), "wb") if mode == "xb" else (path, mode)), *args),
    )
    status, body = courier.upload("flights", file)
    assert (status, body["code"]) == (507, "DISK_FULL")
    assert courier.left_over() == []
    assert [record for record in caplog.records if record.exc_info] == []
    monkeypatch.undo()
    file.write_bytes(content)
    assert courier.upload("flights", file)[0] == 200


def test_a_second_upload_of_a_database_is_refused_until_the_first_ends(courier, service, tmp_path):
    awaiting(courier)
    grant = SimpleNamespace(database=service.catalog.database("local", "flights"), read_only=False)
    file = make_file(tmp_path / "f")
    with service.engine.transfers.begin_upload(grant, 0):
        status, body = courier.upload("flights", file)
        assert (status, body["code"]) == (429, "TRANSFER_RUNNING")
    assert courier.upload("flights", file)[0] == 200


# -- copies


def test_a_copy_that_fails_leaves_no_files(courier):
    courier.create("original")
    assert courier.create("copy", type="database", name="nope")[0] == 404
    assert courier.create("original", type="database", name="original")[0] == 409
    assert courier.create("copy", type="database")[0] == 400
    assert courier.create("copy", type="database", name="original", timestamp="2024-01-01T00:00:00Z")[0] == 400
    assert courier.create("copy", type="dump", url="http://example.io")[0] == 400
    assert courier.create("copy", type="nope")[0] == 400
    assert courier.left_over() == []
    assert len(courier.service.catalog.databases("local")) == 1
    assert len(list((courier.folder / "databases").iterdir())) == 1


# -- tables that hide functions of SQLite


def test_tables_named_like_functions_of_sqlite(courier, tmp_path):
    """What hides SQLite's own tables and functions is copied, exported and altered like any other table."""
    names = [
        "pragma_table_xinfo", "pragma_table_list", "pragma_index_list", "pragma_index_xinfo", "pragma_table_info",
        "pragma_database_list", "pragma_foreign_key_list", "json_each", "generate_series", "dbstat", "sqlite",
    ]  # fmt: skip
    script = "CREATE TABLE t (a); INSERT INTO t VALUES (1);" + "".join(
        f"CREATE TABLE {name} (a, seq DEFAULT 'a', name, file); INSERT INTO {name} (a) VALUES (7);" for name in names
    )
    awaiting(courier)
    assert courier.upload("flights", make_file(tmp_path / "f", script))[0] == 200
    assert courier.create("copy", type="database", name="flights")[0] == 200
    caller = courier.caller("copy")
    assert caller.run("ALTER TABLE t ALTER COLUMN a TO a TEXT NOT NULL").codes[0] == "ok"
    assert caller.run("ALTER TABLE pragma_table_xinfo ALTER COLUMN a TO a INT").codes[0] == "ok"
    assert caller.run("PRAGMA database_list").rows(0) == [["0", "main", ""]]
    text = courier.fetch("/dump", "copy", tmp_path / "d").read_text()
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(text)
        for name in names:
            assert db.execute(f"SELECT a FROM {name}").fetchall() == [(7,)]


# -- exports


def test_the_file_and_the_text(courier, tmp_path):
    courier.create("flights")
    courier.caller("flights").run("CREATE TABLE t (a)", "INSERT INTO t VALUES (1), ('two')")
    token = courier.caller("flights").token
    assert courier.answer(courier.call("GET", "/info", token)) == (
        200, {"current_generation": 1, "snapshot": True}
    )  # fmt: skip
    assert rows(courier.fetch("/export/1", "flights", tmp_path / "f")) == [(1,), ("two",)]
    assert (tmp_path / "f").read_bytes()[18:20] == b"\x01\x01"  # a plain file, not in WAL mode
    text = courier.fetch("/dump", "flights", tmp_path / "d").read_text()
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(text)
        assert db.execute("SELECT a FROM t").fetchall() == [(1,), ("two",)]
    assert courier.call("GET", "/export/2", token).status == 404
    assert courier.call("POST", "/dump", token).status == 405
    assert courier.call("GET", "/dump", "wrong").status == 401
    assert courier.call("GET", "/v1/upload", token).status == 405
    assert courier.left_over() == []


def test_a_read_only_token_may_read_everything(courier):
    courier.create("flights")
    assert courier.call("GET", "/dump", courier.caller("flights", read_only=True).token).status == 200


def test_an_abandoned_export_leaves_no_files(courier):
    courier.create("flights")
    courier.caller("flights").run("CREATE TABLE t (a)")
    for path in ("/dump", "/export/1"):
        response = courier.call("GET", path, courier.caller("flights").token)
        assert courier.left_over() != []
        response.chunks.close()
        assert courier.left_over() == []


def test_one_export_of_a_database_at_a_time(courier):
    """Unread exports cannot fill the disk."""
    for name in ("flights", "other"):
        courier.create(name)
        courier.caller(name).run("CREATE TABLE t (a)")
    token = courier.caller("flights").token
    unread = courier.call("GET", "/export/1", token)
    for path in ("/export/1", "/dump"):
        refused = courier.call("GET", path, token)
        assert (refused.status, refused.headers["retry-after"]) == (429, "5")
        body = courier.answer(refused)[1]
        assert (body["code"], "try again" in body["message"]) == ("TRANSFER_RUNNING", True)
    assert len(courier.left_over()) == 1
    assert courier.call("GET", "/info", token).status == 200
    assert courier.call("GET", "/export/1", courier.caller("other").token).status == 200
    assert courier.create("copy", type="database", name="flights")[0] == 200
    unread.chunks.close()
    assert courier.call("GET", "/dump", token).status == 200


def test_an_export_with_a_read_only_token_does_not_keep_others_from_exporting(courier):
    """Promise against anyone: a reader cannot keep the owner of a database from a copy of it."""
    courier.create("flights")
    courier.caller("flights").run("CREATE TABLE t (a)", "INSERT INTO t VALUES (zeroblob(1000000))")
    reader, owner = (courier.caller("flights", read_only=read_only).token for read_only in (True, False))
    unread = courier.call("GET", "/export/1", reader)
    body = courier.answer(courier.call("GET", "/dump", reader))[1]
    assert (body["code"], "read-only" in body["message"]) == ("TRANSFER_RUNNING", True)
    export = courier.call("GET", "/export/1", owner)
    assert len(courier.left_over()) == 2  # and there are never more
    assert courier.call("GET", "/dump", owner).status == 429
    assert (export.status, len(export.read()) > 1_000_000) == (200, True)
    assert courier.call("GET", "/dump", owner).status == 200
    assert len(unread.read()) > 1_000_000
    assert courier.call("GET", "/dump", reader).status == 200


def test_an_export_that_would_fill_the_disk(courier, monkeypatch):
    courier.create("flights")
    courier.caller("flights").run("CREATE TABLE t (a)")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: FULL_DISK)
    for path in ("/export/1", "/dump"):
        status, body = courier.answer(courier.call("GET", path, courier.caller("flights").token))
        assert (status, body["code"]) == (507, "DISK_FULL")
    status, body = courier.create("copy", type="database", name="flights")
    assert (status, body["code"]) == (507, "DISK_FULL")
    assert courier.left_over() == []


def test_an_export_stops_when_the_disk_becomes_full(courier, monkeypatch):
    courier.create("flights")
    courier.caller("flights").run("CREATE TABLE t (a)", "INSERT INTO t VALUES (zeroblob(10000000))")
    disks = iter([ROOMY_DISK, ROOMY_DISK])
    monkeypatch.setattr(shutil, "disk_usage", lambda _: next(disks, FULL_DISK))
    assert courier.call("GET", "/export/1", courier.caller("flights").token).status == 507
    assert courier.left_over() == []


def test_an_export_that_is_read_too_slowly_ends(courier, monkeypatch):
    courier.create("flights")
    courier.caller("flights").run("CREATE TABLE t (a)", "INSERT INTO t VALUES (zeroblob(1000000))")
    monkeypatch.setattr(endpoints, "EXPORT_TIME", 0.1)
    monkeypatch.setattr(endpoints, "SLOWEST", 10**9)
    for path in ("/export/1", "/dump"):
        response = courier.call("GET", path, courier.caller("flights").token)
        next(response.chunks)
        time.sleep(0.2)
        assert len(b"".join(response.chunks)) < 500_000
        assert courier.left_over() == []


def test_blocks_of_a_database_apply_to_transfers(courier, service, tmp_path):
    awaiting(courier)
    token = courier.caller("flights").token
    service.catalog.configure_database("local", "flights", {"block_writes": 1})
    status, body = courier.upload("flights", make_file(tmp_path / "f"))
    assert (status, "blocked" in body["message"]) == (403, True)
    service.catalog.configure_database("local", "flights", {"block_writes": 0})
    assert courier.upload("flights", make_file(tmp_path / "g"))[0] == 200
    service.catalog.configure_database("local", "flights", {"block_reads": 1})
    for path in ("/dump", "/export/1"):
        status, body = courier.answer(courier.call("GET", path, token))
        assert (status, body["code"]) == (403, "BLOCKED")


def test_copies_count_against_the_storage_quota(courier, service):
    courier.create("original")
    courier.caller("original").run("CREATE TABLE t (a)")
    service.catalog.configure_database("local", "original", {"block_writes": 1})
    assert courier.create("copy", type="database", name="original")[0] == 200  # it is not written to
    service.catalog.usage.set_quotas("local", Quotas(storage_bytes=4096))
    status, body = courier.create("more", type="database", name="original")
    assert (status, body["code"], "(quota: 4,096)" in body["error"]) == (403, "BLOCKED", True)
    service.catalog.organizations.set_overages("local", True)
    assert courier.create("more", type="database", name="original")[0] == 200
    assert courier.left_over() == []


# -- with replicas


@pytest.fixture
def replicated(courier, service):
    """Add a location to the group; return a function that updates its replicas."""
    service.catalog.add_location("local", "default", "nrt")

    def follow():
        while service.engine.replicator.run_due():
            pass

    return follow


def at(courier, service, name, code):
    """A client of an instance."""
    caller = courier.caller(name)
    caller.headers = {"host": service.catalog.database("local", name).instances[code]}
    return caller


def test_replicas_begin_with_the_file(courier, service, replicated, tmp_path):
    awaiting(courier)
    assert courier.call("POST", "/v1/organizations/local/groups/default/locations/fra", courier.token).status == 200
    assert courier.upload("flights", make_file(tmp_path / "f"))[0] == 200
    replicated()
    for code in ("nrt", "fra"):
        assert at(courier, service, "flights", code).run("SELECT a FROM t").rows(0) == [["1"], ["two"]]
    courier.create("copy", type="database", name="flights")
    courier.caller("copy").run("INSERT INTO t VALUES (3)")
    replicated()
    assert at(courier, service, "copy", "nrt").run("SELECT count(*) FROM t").rows(0) == [["3"]]


def test_copies_exports_and_dumps_of_such_a_database(courier, tmp_path):
    """They keep what only another program can read, and texts that are not UTF-8."""
    text = "CREATE TABLE old(t); INSERT INTO old VALUES (CAST(x'5ae97a65' AS TEXT))"
    file = foreign_file(tmp_path / "f", f"{FOREIGN['collation']}; {text}")
    awaiting(courier)
    assert courier.upload("flights", file) == (200, {})
    assert courier.create("copy", type="database", name="flights")[0] == 200
    exported = courier.fetch("/export/1", "copy", tmp_path / "exported")
    made = courier.fetch("/dump", "copy", tmp_path / "dump.sql").read_text()
    query = "SELECT a, b FROM t UNION ALL SELECT hex(t), typeof(t) FROM old"
    with closing(sqlite3.connect(tmp_path / "made")) as db:
        db.create_collation("unicase", unicase)
        db.executescript(made)
        restored = db.execute(query).fetchall()
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert restored == rows(exported, query) == rows(file, query) == [("Bio", 1), ("art", 2), ("5AE97A65", "text")]
