"""Databases that are copies of another one as it was, from the command line, with a real service and its backups."""

from __future__ import annotations

import json
import time
from datetime import datetime

from served import serve
from waiting import until


def now():
    """Return the present moment as people write it: in local time, without an offset."""
    return datetime.now().isoformat(sep=" ")


def test_a_branch_from_a_backup(run, own_folder):
    with serve(own_folder):
        assert run("group", "create", "edge", "--location", "ams")[0] == 0
        run("db", "create", "flights")
        run("db", "shell", "flights", "CREATE TABLE t (a); INSERT INTO t VALUES (1), (2)")
        stopped = time.time()
    with serve(own_folder, "--backups", "3"):
        until(lambda: time.time() > stopped + 1.1)  # the times of files are exact to a second
        before = now()
        assert run("db", "shell", "flights", "DELETE FROM t")[0] == 0  # a backup is made before it
        until(lambda: list(own_folder.glob("databases/*/backups/*.sqlite")))
        code, out, err = run("db", "create", "old", "--branch-of", "flights", "--at", before)
        assert (code, out) == (0, "old\n")
        assert err.startswith(f"old has the content of flights as of {before[:19]}")
        assert run("db", "shell", "old", "SELECT a FROM t", "--mode", "csv")[1].split() == ["a", "1", "2"]
        code, _, err = run("db", "create", "older", "--branch-of", "flights", "--timestamp", "2026-01-01 10:00")
        assert code == 1
        assert "there is no backup of flights from " in err
        assert "a branch is possible at times from " in err
        assert run("db", "create", "copy", "--from-db", "flights") == (0, "copy\n", "")
        assert run("db", "shell", "copy", "SELECT count(*) FROM t", "--mode", "csv")[1].split()[1] == "0"
        assert [line.split()[-1] for line in run("db", "list")[1].splitlines()] == [
            "PARENT",
            "flights",
            "no",
            "flights",
        ]
        assert run("db", "list", "--parent", "old") == (0, run("db", "list", "--parent", "copy")[1], "")
        code, _, err = run("db", "list", "--parent", "fligths")
        assert (code, "could not find database with name fligths" in err) == (1, True)
        assert run("db", "show", "flights", "--branches") == (0, "copy\nold\n", "")
        assert f"Parent:    flights ({before[:19]}" in run("db", "show", "old")[1]
        assert [json.loads(run("db", "show", name, "--json")[1])["parent"] for name in ("old", "flights")] == [
            "flights", None,
        ]  # fmt: skip


def test_times_that_are_no_times(run):
    code, _, err = run("db", "create", "new", "--from-db", "flights", "--at", "yesterday")
    assert code == 2
    assert "'yesterday' is not a time\nHint: write it as \"2026-11-29 14:00\"" in err
    code, _, err = run("db", "create", "new", "--at", "2026-11-29 14:00")
    assert (code, err.splitlines()[-1]) == (2, "Error: --at requires --branch-of.")


def test_a_time_in_the_future(run):
    run("group", "create", "edge", "--location", "ams")
    run("db", "create", "flights")
    later = datetime.fromtimestamp(time.time() + 3600).isoformat()
    code, _, err = run("db", "create", "new", "--from-db", "flights", "--at", later)
    assert code == 1
    assert "is in the future" in err
