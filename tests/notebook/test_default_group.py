"""`%pipedb create-database` without a group."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from pipemagic.errors import AlreadyExists, SessionError

CREATED = "Created group default in ams, the closest location."


@pytest.fixture
def embedded(shell, local_service):
    """A shell on the embedded service, with the group default."""
    shell("%pipedb connect")
    return shell


@pytest.fixture
def without_groups(embedded):
    embedded("%pipedb delete-group default --confirm")
    return embedded


@pytest.fixture
def two_groups(without_groups):
    without_groups("%pipedb create-group europe --location ams\n%pipedb create-group asia --location nrt")
    return without_groups


def groups(shell):
    return shell("%pipedb groups").value["group"].tolist()


def test_default_is_created_if_there_is_no_group(without_groups):
    assert without_groups("%pipedb create-database flights").lines == [
        CREATED, "Database flights is in group default.",
    ]  # fmt: skip
    assert without_groups("%pipedb create-database trains").lines == ["Database trains is in group default."]
    assert groups(without_groups) == ["default"]


def test_the_only_group_is_used(without_groups):
    without_groups("%pipedb create-group edge --location nrt")
    assert without_groups("%pipedb create-database flights").lines == ["Database flights is in group edge."]
    assert groups(without_groups) == ["edge"]


def test_default_precedes_other_groups(embedded):
    embedded("%pipedb create-group edge --location nrt")
    assert embedded("%pipedb create-database flights").lines == ["Database flights is in group default."]


def test_several_other_groups_are_named(two_groups):
    cell = two_groups.fails("%pipedb create-database flights")
    assert isinstance(cell.error, SessionError)
    assert cell.lines == ["SESSION: organization local has several groups: asia, europe", "Hint: add --group asia"]
    assert two_groups("%pipedb databases").value.empty
    assert two_groups("%pipedb create-database flights --group asia").lines == ["Database flights is in group asia."]
    again = "%pipedb create-database flights --if-not-exists"
    assert two_groups(again).lines == ["Database flights is in group asia."]
    assert isinstance(two_groups.fails("%pipedb create-database flights").error, AlreadyExists)


@pytest.mark.parametrize("option", ["--from-file", "--from-dump"])
def test_from_a_file(without_groups, option, tmp_path):
    file = tmp_path / "flights"
    text = "CREATE TABLE t (a); INSERT INTO t VALUES (1);"
    if option == "--from-dump":
        file.write_text(text)
    else:
        with closing(sqlite3.connect(file)) as database:
            database.executescript(text)
    line = f"%pipedb create-database flights {option} '{file}'"
    cell = without_groups.fails(line.replace(str(file), str(tmp_path / "missing")))
    assert "missing" in cell.out
    assert groups(without_groups) == []
    assert without_groups(line).lines == [CREATED, "Database flights is in group default."]
    assert without_groups(f"{line} --if-not-exists").lines == [
        "Database flights is in group default.", f"The database already existed; {file} was not loaded.",
    ]  # fmt: skip
    without_groups("%pipedb connect flights")
    assert without_groups("%sql SELECT a FROM t").value.a.tolist() == [1]


def test_the_hint_for_a_missing_database_can_be_typed(two_groups):
    hint = two_groups.fails("%pipedb connect flights").error.hint
    assert hint == "%pipedb create-database flights --group asia creates it"
    two_groups(hint.removesuffix(" creates it"))
    two_groups("%pipedb delete-group asia --confirm")
    hint = two_groups.fails("%pipedb connect flights").error.hint
    assert hint == "%pipedb create-database flights creates it"
    two_groups(hint.removesuffix(" creates it"))
    assert two_groups("%pipedb connect flights").lines[0] == "Connected to flights (embedded service)."


def test_the_lines_that_make_a_database_of_a_file_can_be_typed(two_groups, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with closing(sqlite3.connect("shop.db")) as database:
        database.execute("CREATE TABLE t (a)")
    lines = two_groups.fails("%pipedb connect shop.db").error.hint.splitlines()
    assert lines[-2:] == ["%pipedb create-database shop --group asia --from-file shop.db", "%pipedb connect shop"]
    two_groups("\n".join(lines[-2:]))
    assert two_groups("%sql SELECT count(*) AS n FROM t").value.n.tolist() == [0]
