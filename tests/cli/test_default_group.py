"""`pipemagic db create` without a group."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

CREATED = "Created group default in ams, the closest location.\n"


def group_of(run, name):
    return json.loads(run("db", "show", name, "--json")[1])["group"]


def test_default_is_created_and_then_used(run, own_folder):
    run("db", "list")  # starts the service, and says so
    assert run("db", "create", "flights") == (0, "flights\n", CREATED)
    assert run("group", "create", "edge", "--location", "nrt")[0] == 0
    assert run("db", "create", "copy", "--from-db", "flights", "--wait") == (0, "copy\n", "")
    assert group_of(run, "copy") == "default"


def test_a_copy_is_in_the_group_of_the_original(run, own_folder):
    run("group", "create", "europe", "--location", "ams")
    run("group", "create", "asia", "--location", "nrt")
    run("db", "create", "flights", "--group", "europe")
    assert run("db", "create", "copy", "--branch-of", "flights") == (0, "copy\n", "")
    assert group_of(run, "copy") == "europe"
    assert run("db", "create", "other", "--branch-of", "flights", "--group", "asia") == (0, "other\n", "")
    assert group_of(run, "other") == "asia"
    code, _, err = run("db", "create", "wrong", "--branch-of", "fligths")
    assert (code, "could not find database with name fligths" in err) == (1, True)


def test_from_a_file(run, own_folder, tmp_path):
    code, _, err = run("db", "create", "flights", "--from-file", str(tmp_path / "missing.db"))
    assert (code, CREATED in err) == (1, False)
    with closing(sqlite3.connect(tmp_path / "a.db")) as database:
        database.execute("CREATE TABLE t (a)")
    assert run("db", "create", "flights", "--from-file", str(tmp_path / "a.db")) == (0, "flights\n", CREATED)


def test_the_only_group_is_used_and_several_are_named(run, own_folder):
    run("group", "create", "europe", "--location", "ams")
    assert run("db", "create", "flights") == (0, "flights\n", "")
    assert group_of(run, "flights") == "europe"
    run("group", "create", "asia", "--location", "nrt")
    code, out, err = run("db", "create", "trains")
    assert (code, out) == (1, "")
    assert err == "Error: organization local has several groups: asia, europe\nHint: add --group asia\n"


def test_the_hint_for_an_unknown_group_names_groups_that_exist(run, own_folder):
    line = "create it with `pipemagic group create nope --location CODE`"
    assert line in run("db", "create", "flights", "--group", "nope")[2]
    run("group", "create", "asia", "--location", "nrt")
    assert f"the groups are asia; {line}" in run("db", "create", "flights", "--group", "nope")[2]
    assert "did you mean asia?" in run("db", "create", "flights", "--group", "azia")[2]
