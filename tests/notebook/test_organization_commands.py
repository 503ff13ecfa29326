"""%pipedb delete-group, delete-database, remove-location, invalidate-tokens, create-token, organizations, usage."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing

import pandas as pd
import pytest
from magic_shell import make_database

from pipemagic.client.secrets import Secret
from pipemagic.errors import (
    AuthError,
    ConfirmError,
    NotFound,
    PipemagicError,
    ServerError,
    SessionError,
    UnknownOutcome,
    UsageError,
)
from pipemagic.session.tokens import FileTarget


@pytest.fixture
def embedded(shell, local_service):
    """The shell, connected to main, with a group edge of two locations and a database flights."""
    shell("%pipedb connect\n%pipedb create-group edge --location ams\n%pipedb add-location edge nrt")
    shell("%pipedb create-database flights --group edge")
    return shell


# -- deleting


def test_delete_database_requires_confirm(embedded):
    cell = embedded.fails("%pipedb delete-database flights")
    assert isinstance(cell.error, ConfirmError)
    assert cell.out == (
        "CONFIRM: this command deletes the database flights and its contents; nothing was changed\n"
        "Hint: add --confirm to run it\n"
    )
    assert embedded("%pipedb databases").value["database"].tolist() == ["flights", "main"]
    assert embedded("%pipedb delete-database flights --confirm").lines == ["Deleted database flights."]
    assert embedded("%pipedb databases").value["database"].tolist() == ["main"]
    assert isinstance(embedded.fails("%pipedb delete-database flights --confirm").error, NotFound)


def test_suspend_and_resume(embedded):
    embedded("%pipedb connect flights\n%sql CREATE TABLE t (a)")
    cell = embedded.fails("%pipedb suspend-database flights")
    assert isinstance(cell.error, ConfirmError)
    assert "ends all statements and open transactions on the database flights, for all users" in cell.out
    assert embedded("%pipedb databases").value["status"].tolist() == ["ok", "ok"]
    embedded("%sql BEGIN\n%sql INSERT INTO t VALUES (1)")
    assert embedded("%pipedb suspend-database flights --confirm").lines == [
        "Suspended database flights. Its statements were stopped, and new ones are refused until it is resumed."
    ]
    assert embedded("%pipedb databases").value["status"].tolist() == ["suspended", "ok"]
    cell = embedded.fails("%sql COMMIT")
    assert "the database flights is suspended" in cell.out
    assert "pipemagic db resume flights" in cell.out
    assert "rolled back" in cell.out
    assert isinstance(cell.error, PipemagicError)
    assert not isinstance(cell.error, UnknownOutcome)
    cell = embedded.fails("%sql SELECT 1")
    assert (cell.error.code, "pipemagic db resume flights" in cell.out) == ("BLOCKED", True)
    assert embedded("%sql --on main SELECT 1 AS a").value["a"].tolist() == [1]
    assert embedded("%pipedb resume-database flights").lines == ["Resumed database flights."]
    assert embedded("%sql SELECT count(*) AS n FROM t").value["n"].tolist() == [0]


def test_protection_from_deletion(embedded):
    line = "%pipedb protect-database flights"
    assert embedded(line).lines == ["Database flights is protected from deletion."]
    assert embedded("%pipedb databases").value["protected"].tolist() == [True, False]
    refused = (
        "database flights is protected from deletion (delete_protection)\nHint: %pipedb unprotect-database flights"
    )
    for command in ("delete-database flights", "delete-group edge"):
        assert refused in embedded.fails(f"%pipedb {command} --confirm").out
    assert embedded("%pipedb protect-group edge").lines == ["Group edge is protected from deletion."]
    assert embedded("%pipedb groups").value["protected"].tolist() == [False, True]
    assert embedded("%pipedb unprotect-database flights").lines == ["Database flights can be deleted again."]
    cell = embedded.fails("%pipedb delete-database flights --confirm")
    assert "Hint: %pipedb unprotect-group edge removes the protection" in cell.out
    assert embedded("%pipedb unprotect-group edge").lines == ["Group edge can be deleted again."]
    assert embedded("%pipedb delete-database flights --confirm").lines == ["Deleted database flights."]


def test_audit_logs(embedded):
    embedded("%pipedb delete-database flights --confirm")
    newest = embedded("%pipedb audit-logs").value.iloc[0]
    assert newest[["author", "origin", "code", "data"]].tolist() == ["local", "cli", "db-delete", "database flights"]
    assert embedded("%pipedb audit-logs --page 1000").value.empty
    for page in ("0", "x", "-1"):
        assert "--page requires a positive integer" in embedded.fails(f"%pipedb audit-logs --page {page}").out


def test_the_connections_to_a_deleted_database_are_closed(embedded):
    embedded("%pipedb connect flights\n%pipedb connect flights --as again --read-only\n%pipedb use flights")
    assert embedded("%pipedb delete-database flights --confirm").lines == [
        "Deleted database flights.", "Closed flights: its database was deleted.",
        "Closed again: its database was deleted.",
    ]  # fmt: skip
    assert embedded("%pipedb connections").value["connection"].tolist() == ["main"]
    assert "%pipedb use main" in embedded.fails("%sql SELECT 1").out


def test_a_connection_to_another_server_stays_open(embedded, service, monkeypatch):
    url, token = make_database(service, "elsewhere")
    monkeypatch.setenv("PIPEMAGIC_TOKEN", token)
    embedded(f"%pipedb connect {url} --as flights")
    assert embedded("%pipedb delete-database flights --confirm").lines == ["Deleted database flights."]
    assert embedded("%sql SELECT 1 AS a").value["a"].tolist() == [1]


def test_invalidate_tokens_renews_those_of_open_connections(embedded):
    embedded("%pipedb connect flights\n%pipedb create-token flights --to-env FLIGHTS_TOKEN")
    cell = embedded.fails("%pipedb invalidate-tokens flights")
    assert isinstance(cell.error, ConfirmError)
    assert "this command invalidates all tokens of flights; nothing was changed" in cell.out
    assert embedded("%pipedb invalidate-tokens flights --confirm").lines == [
        "All tokens of flights are invalid.", "flights continues with a new token.",
    ]  # fmt: skip
    assert embedded("%sql SELECT 1 AS a").value["a"].tolist() == [1]
    session = embedded.ip.magics_manager.registry["PipeMagics"].session
    [url] = [database.url for database in session.organization.databases().items if database.name == "flights"]
    again = embedded.fails(f"%pipedb connect {url} --as other --token-env FLIGHTS_TOKEN")
    assert isinstance(again.error, AuthError)


def test_a_group_is_deleted_with_its_databases(embedded):
    embedded("%pipedb create-database trains --group edge\n%pipedb connect trains")
    cell = embedded.fails("%pipedb delete-group edge")
    assert "this command deletes the group edge and all its databases; nothing was changed" in cell.out
    assert embedded("%pipedb delete-group edge --confirm").lines == [
        "Deleted group edge and its databases: flights, trains.", "Closed trains: its database was deleted.",
    ]  # fmt: skip
    assert embedded("%pipedb groups").value["group"].tolist() == ["default"]
    embedded("%pipedb create-group edge --location ams")
    assert embedded("%pipedb delete-group edge --confirm").lines == ["Deleted group edge."]


def test_a_location_is_removed(embedded):
    assert embedded("%pipedb remove-location edge nrt").lines == ["Group edge is no longer in nrt; it is in ams."]
    cell = embedded.fails("%pipedb remove-location edge ams")
    assert isinstance(cell.error, ServerError)
    assert "primary" in cell.out
    assert isinstance(embedded.fails("%pipedb remove-location nope ams").error, NotFound)


# -- tokens


def test_platform_tokens_with_limits(embedded, monkeypatch):
    for name in ("A_TOKEN", "B_TOKEN", "C_TOKEN"):
        monkeypatch.setenv(name, "")  # removed after the test
        monkeypatch.delenv(name)
    assert embedded("%pipedb create-api-token deploy --to-env A_TOKEN").lines == [
        "Stored the platform token deploy for organization local in the variable A_TOKEN."
    ]
    line = "%pipedb create-api-token ci --group edge --scope read --scope db:create --to-env B_TOKEN"
    assert embedded(line).lines == [
        "Stored the platform token ci for group edge (read, db:create) in the variable B_TOKEN."
    ]
    assert embedded("%pipedb create-api-token all --unlimited --to-env C_TOKEN").lines == [
        "Stored the platform token all for all organizations in the variable C_TOKEN."
    ]
    tokens = embedded("%pipedb api-tokens").value.set_index("token")
    assert tokens["scope"].to_dict() == {"default": "all", "deploy": "local", "ci": "local/edge", "all": "all"}
    assert tokens["permissions"]["ci"] == "read, db:create"
    members = embedded("%pipedb api-tokens --members").value.set_index("token")
    assert members["owner"].to_dict() == {"deploy": "local", "ci": "local"}

    session = embedded.ip.magics_manager.registry["PipeMagics"].session
    embedded(f"%pipedb organization local --at {session.organization.api.url} --token-env B_TOKEN")
    embedded("%pipedb create-database built --group edge")
    assert embedded("%pipedb databases").value["database"].tolist() == ["built", "flights"]
    cell = embedded.fails("%pipedb connect built")
    assert isinstance(cell.error, AuthError)
    assert "the token does not have the scope db:mint-token, which this requires" in cell.out
    assert "Hint: create a platform token with the scope db:mint-token" in cell.out
    assert "requires a token of the organization" in embedded.fails("%pipedb delete-group edge --confirm").out
    embedded(f"%pipedb organization local --at {session.organization.api.url} --token-env A_TOKEN")
    assert isinstance(embedded.fails("%pipedb revoke-api-token ci").error, ConfirmError)
    cell = embedded.fails("%pipedb revoke-api-token ic --confirm")
    assert cell.lines[-1] == "Hint: %pipedb api-tokens lists the existing ones"
    cell = embedded.fails("%pipedb revoke-api-token ic --id --confirm")
    assert cell.lines[-1] == "Hint: %pipedb api-tokens --members lists the existing ones"
    assert embedded("%pipedb revoke-api-token ci --confirm").lines == ["Revoked the platform token ci."]
    own = members["id"]["deploy"]
    assert embedded(f"%pipedb revoke-api-token {own} --id --confirm").lines == [f"Revoked the platform token {own}."]
    assert isinstance(embedded.fails("%pipedb databases").error, AuthError)


def test_long_choices_are_in_the_help_and_not_in_the_usage_line(embedded):
    help_lines = embedded("%pipedb help create-api-token").lines
    assert "[--scope SCOPE]..." in help_lines[0]
    assert any("can be repeated: read, db:create, " in line for line in help_lines)


@pytest.mark.parametrize(("options", "words"), [
    ("--group edge", "a token for a group requires scopes"),
    ("--group edge --scope read db:create", "repeat the option for each value: --scope SCOPE --scope SCOPE"),
    ("--read-only", "scopes require a group\nHint: name a group, too"),
    ("--unlimited --read-only", "--read-only and --unlimited cannot be used together"),
    ("--group edge --scope raed", "--scope"),
    ("", "create-api-token requires --to-env or --to-file, because a token is never displayed"),
])  # fmt: skip
def test_limits_that_do_not_fit_together(embedded, options, words):
    target = "" if not options else "--to-env A_TOKEN"
    assert words in embedded.fails(f"%pipedb create-api-token x {options} {target}").out
    assert embedded("%pipedb api-tokens").value["token"].tolist() == ["default"]


def test_create_token_to_env(embedded, monkeypatch):
    monkeypatch.delenv("FLIGHTS_TOKEN", raising=False)
    line = "%pipedb create-token flights --expiration 7d --read-only --to-env FLIGHTS_TOKEN"
    cell = embedded(line)
    assert cell.lines == ["Stored a read-only token for flights for 7d in the variable FLIGHTS_TOKEN."]
    token = os.environ["FLIGHTS_TOKEN"]
    assert token.startswith("eyJ")
    assert token not in f"{cell.out}{cell.value}{embedded.ip.user_ns.get('Out')}"
    url = embedded.ip.magics_manager.registry["PipeMagics"].session.organization.databases().items[0].url
    embedded(f"%pipedb connect {url} --as by_token --token-env FLIGHTS_TOKEN --read-only")
    assert embedded("%sql SELECT 1 AS a").value["a"].tolist() == [1]
    cell = embedded.fails(line)
    assert cell.out == ("SESSION: the variable FLIGHTS_TOKEN is already set\nHint: --replace overwrites it\n")
    embedded(f"{line} --replace")
    monkeypatch.delenv("FLIGHTS_TOKEN")


def test_create_token_to_file(embedded, tmp_path):
    path = tmp_path / "flights token"
    line = f'%pipedb create-token flights --to-file "{path}"'
    assert embedded(line).lines == [f"Stored a token for flights that never expires in the file {path}."]
    first = path.read_text()
    assert first.startswith("eyJ")
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert f"{path} already exists\nHint: --replace" in embedded.fails(line).out
    assert path.read_text() == first
    embedded(f"{line} --replace --expiration 1d")
    assert path.read_text() != first
    assert sorted(file.name for file in tmp_path.iterdir() if "token" in file.name) == ["flights token"]
    url = embedded.ip.magics_manager.registry["PipeMagics"].session.organization.databases().items[0].url
    embedded(f'%pipedb connect {url} --as by_file --token-file "{path}"')
    assert embedded("%sql SELECT 1 AS a").value["a"].tolist() == [1]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("", "--to-env VARIABLE or --to-file PATH"),
        ("--to-env A --to-file b", "--to-env and --to-file cannot be used together"),
    ],
)
def test_a_token_is_stored_in_one_place(embedded, where, message):
    cell = embedded.fails(f"%pipedb create-token flights {where}")
    assert isinstance(cell.error, UsageError)
    assert message in cell.out


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("flights --to-env a-b", "that is not a valid name of an environment variable"),
        ("flights --to-file nowhere/x", "folder nowhere does not exist"),
        ("flights --to-file .", ". already exists\nHint: name a file in it"),
        ("flights --expiration soon --to-env A_TOKEN", "expiration"),
        ("nope --to-env A_TOKEN", "could not find database with name nope"),
    ],
)
def test_a_failed_create_token_leaves_no_file_or_variable(embedded, tmp_path, monkeypatch, line, words):
    monkeypatch.chdir(tmp_path)
    assert words in embedded.fails(f"%pipedb create-token {line}").out
    assert "A_TOKEN" not in os.environ


def test_create_token_does_not_overwrite_a_new_file(tmp_path):
    target = FileTarget(tmp_path / "token")
    target.check()
    (tmp_path / "token").write_text("mine")
    with pytest.raises(SessionError, match=r"cannot write .*: File exists"):
        target.store(Secret("other"))
    assert (tmp_path / "token").read_text() == "mine"


# -- exporting


def test_a_database_is_exported_and_imported_again(embedded, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    embedded("%pipedb connect flights\n%sql CREATE TABLE t (id INTEGER PRIMARY KEY, v BLOB)")
    embedded("%sql INSERT INTO t VALUES (1, x'00ff'), (2, 'é'), (3, 9007199254740993)")
    size = embedded("%pipedb export-database flights flights.db").lines[0]
    assert size.startswith("Wrote database flights to flights.db (")
    assert size.endswith(" kB).")
    with closing(sqlite3.connect("flights.db")) as db:
        rows = db.execute("SELECT * FROM t").fetchall()
    assert rows == [(1, b"\0\xff"), (2, "é"), (3, 2**53 + 1)]
    embedded("%pipedb export-database flights flights.sql --dump")
    assert "CREATE TABLE t (id INTEGER PRIMARY KEY, v BLOB)" in (tmp_path / "flights.sql").read_text("utf-8")
    for name, option in (("a", "--from-file flights.db"), ("b", "--from-dump flights.sql")):
        embedded(f"%pipedb create-database {name} --group edge {option}\n%pipedb connect {name}")
        assert embedded("%sql SELECT count(*) AS n, max(v) AS most, typeof(max(id)) AS kind FROM t").value["n"][0] == 3
        assert "equal: 3 rows" in repr(embedded("%pipedb diff t --to flights").value)


def test_an_export_does_not_overwrite_a_file_without_replace(embedded, tmp_path):
    path = tmp_path / "my copy.db"
    path.write_text("mine")
    line = f'%pipedb export-database flights "{path}"'
    assert embedded.fails(line).out == (
        f"SESSION: {path} already exists\nHint: choose another name, or overwrite the file with --replace\n"
    )
    assert path.read_text() == "mine"
    embedded(f"{line} --replace")
    assert path.read_bytes().startswith(b"SQLite format 3\0")
    assert list(tmp_path.glob(".pipemagic-*")) == []


def test_a_failed_export_leaves_no_file(embedded, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    assert "nope" in embedded.fails("%pipedb export-database nope x.db").out
    assert "folder nowhere does not exist" in embedded.fails("%pipedb export-database flights nowhere/x.db").out
    assert sorted(path.name for path in tmp_path.iterdir()) == before


# -- the organization


def test_organizations_and_usage(embedded):
    assert embedded("%pipedb organizations").value.to_dict("list") == {
        "organization": ["local"], "name": ["local"], "type": ["personal"], "current": [True],
    }  # fmt: skip
    cell = embedded("%pipedb usage")
    assert cell.lines == ["Organization local is on plan self-hosted."]
    frame = cell.value.set_index("resource")
    assert frame["used"][["databases", "groups", "locations"]].tolist() == [2, 2, 3]
    assert frame["limit"].isna().all()
    frame = embedded("%pipedb usage --databases").value
    assert frame.columns.tolist() == ["database", "rows_read", "rows_written", "storage_bytes"]
    assert frame["database"].tolist() == ["flights", "main"]
    assert isinstance(frame, pd.DataFrame)
