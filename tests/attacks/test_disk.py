"""Inserts that would fill a database or the disk."""

from __future__ import annotations

from shutil import disk_usage

import pytest
from promises import Promise
from served import serve
from small_disks import NoMounts, small_disk

pytestmark = pytest.mark.promise(Promise.DISK)

ENDLESS_ROWS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT zeroblob(1000) FROM n"


def test_an_endless_insert_ends_at_the_size_limit_and_others_continue(tmp_path):
    with (
        serve(tmp_path / "data", "--port", "0", "--max-database-size", "4MB", command="class serve") as service,
        service.database("db") as db,
        service.database("other") as other,
    ):
        db.run("CREATE TABLE t(a)")
        error = db.error(f"INSERT INTO t {ENDLESS_ROWS}")
        assert error["code"] == "SQLITE_FULL"
        assert "the size limit of this database is 4,194,304 bytes" in error["message"]
        assert db.rows("SELECT count(*) FROM t") == [("0",)]
        other.run("CREATE TABLE t(a)", "INSERT INTO t VALUES (zeroblob(1000000))")
        assert db.error("PRAGMA max_page_count = 1000000")["code"] == "SQLITE_AUTH"
        db.run("INSERT INTO t VALUES (zeroblob(1000000))", "DELETE FROM t")


def test_an_insert_of_1_gb_that_the_disk_cannot_hold_leaves_a_reserve_for_others(tmp_path):
    try:
        with (
            small_disk(tmp_path / "disk", 200) as disk,
            serve(disk / "data", "--port", "0") as service,
            service.database("db") as db,
            service.database("other") as other,
        ):
            db.run("CREATE TABLE t(a)")
            other.run("CREATE TABLE t(a)")
            for _ in range(3):
                assert db.error(f"INSERT INTO t {ENDLESS_ROWS} LIMIT 1000000")["code"] == "SQLITE_FULL"
                assert disk_usage(disk).free > disk_usage(disk).total // 20
                other.run("INSERT INTO t VALUES (zeroblob(1000000))")
            assert db.rows("SELECT count(*) FROM t") == [("0",)]
            db.run("INSERT INTO t VALUES (1)")
    except NoMounts as reason:
        pytest.skip(f"cannot mount a small disk: {reason}")
