"""`%pipedb status`: a server that has gone, settings that switch checks off, and the address for other programs."""

from __future__ import annotations

import re

import pytest
from sqld_server import Sqld
from started_services import end_services

from pipemagic import launcher
from pipemagic.client.database import Database
from pipemagic.errors import StatementError, TransactionLost


@pytest.fixture(params=["embedded", "sqld"])
def server(request):
    """Each of the servers."""
    return request.param


def connection_of(shell):
    return shell.ip.magics_manager.registry["PipeMagics"].session.connection("db")


def state_of(shell):
    """Return the first line of status, behind the description of the connection."""
    return shell("%pipedb status").lines[0].partition("): ")[2]


# -- a server that has gone, while a transaction is open


@pytest.fixture
def gone(request, server, shell, monkeypatch, tmp_path):
    """A shell connected as ``db`` to a server of its own, and functions that end it and start it at the same port."""
    if server == "sqld":
        sqld = Sqld(request.getfixturevalue("sqld_binary"), tmp_path / "sqld")
        made = sqld.database()
        monkeypatch.setenv("DB_TOKEN", made.token)
        shell(f"%pipedb connect {made.url} --as db --token-env DB_TOKEN")
        yield shell, sqld.close, sqld.restart
        sqld.close()
        return
    monkeypatch.setenv("PIPEMAGIC_DATA", str(tmp_path / "data"))
    shell("%pipedb connect\n%pipedb connect main --as db\n%pipedb close main")
    lease = launcher.ensure()
    yield shell, lambda: end_services(tmp_path / "data"), lambda: launcher.ensure()
    lease.close()
    end_services(tmp_path / "data")


def test_status_after_the_server_has_gone(gone):
    shell, end, _ = gone
    shell("%sql CREATE TABLE t (a)")
    shell("%sql BEGIN; INSERT INTO t VALUES (1)")
    assert "transaction open, 1 statement so far, " in shell("%pipedb status").lines[0]
    end()
    line, server = shell("%pipedb status").lines[:2]
    assert server.startswith("Server: nothing is listening at ")
    line = re.sub(r"nothing is listening at \S+( \(connection refused\))?", "GONE", line)
    assert line.endswith("current): GONE; the transaction (1 statement so far) is lost if the server has stopped")


def test_status_after_the_server_was_restarted(gone):
    shell, end, start = gone
    shell("%sql CREATE TABLE t (a)")
    shell("%sql BEGIN; INSERT INTO t VALUES (1)")
    end()
    start()
    line = shell("%pipedb status").lines[0]
    assert line.endswith("; transaction lost; continue with BEGIN, ROLLBACK or %pipedb retry"), line
    failed = shell.fails("%sql COMMIT")
    assert isinstance(failed.error, TransactionLost)
    assert "Undone:\n  BEGIN\n  INSERT INTO t VALUES (1)" in failed.out
    assert shell("%pipedb retry").lines[-1] == "Committed; 1 row affected."
    assert shell("%sql SELECT a FROM t").value["a"].tolist() == [1]


# -- settings that switch checks off

FOREIGN_KEYS = "oreign keys are not checked on this connection until PRAGMA foreign_keys = ON"


def test_foreign_keys_that_a_script_leaves_off_are_named_and_shown(db):
    db("%sql CREATE TABLE p (a INTEGER PRIMARY KEY); CREATE TABLE c (a REFERENCES p)")
    left = db("%%sql\nPRAGMA foreign_keys = OFF;\nINSERT INTO c VALUES (1)")
    assert left.lines[0] == f"F{FOREIGN_KEYS}."
    assert db("%sql INSERT INTO c VALUES (2)").lines == ["1 row affected."]  # one cell names it, not each
    assert state_of(db).endswith(f"; no transaction; f{FOREIGN_KEYS}")
    db("%sql PRAGMA foreign_keys = ON")  # as the sentence says
    assert state_of(db).endswith("; no transaction")
    assert isinstance(db.fails("%sql INSERT INTO c VALUES (3)").error, StatementError)


def test_a_script_that_switches_them_on_again_gets_no_sentence(db):
    assert "oreign keys" not in db("%sql PRAGMA foreign_keys = 0; SELECT 1; PRAGMA foreign_keys(yes)").out
    assert "oreign keys" not in db("%sql BEGIN; PRAGMA foreign_keys = OFF; COMMIT").out  # it has no effect inside
    assert "oreign keys" not in state_of(db)


def test_a_script_that_fails_names_them_with_the_error(db):
    failed = db.fails("%%sql\nPRAGMA foreign_keys = OFF;\nSELECT nope")
    assert failed.error.message.endswith(f"F{FOREIGN_KEYS}.")
    assert f"F{FOREIGN_KEYS}." in failed.out
    assert state_of(db).endswith(f"f{FOREIGN_KEYS}")


def test_a_file_is_a_script_as_well(db, tmp_path):
    (tmp_path / "off.sql").write_text("PRAGMA foreign_keys = OFF", "utf-8")
    assert f"F{FOREIGN_KEYS}." in db(f"%sql --file {tmp_path / 'off.sql'}").out


def test_a_reopened_connection_has_them_off_again_and_a_new_one_has_not(db):
    db("%sql PRAGMA foreign_keys = OFF")
    connection_of(db).close()
    assert state_of(db) == f"no server-side connection; no transaction; f{FOREIGN_KEYS}"
    assert db("%sql PRAGMA foreign_keys").value.iloc[0, 0] == 0
    db(f"%pipedb connect {connection_of(db).database.url} --as other --token-env DB_TOKEN")
    assert db("%sql PRAGMA foreign_keys").value.iloc[0, 0] == 1
    assert db("%pipedb status --on other").lines[0].endswith("; no transaction")


def test_deferred_foreign_keys_last_until_the_transaction_ends(db):
    db("%sql CREATE TABLE p (a INTEGER PRIMARY KEY); CREATE TABLE c (a REFERENCES p)")
    deferred = "oreign keys are checked only at COMMIT, until the transaction ends"
    assert db("%sql BEGIN; PRAGMA defer_foreign_keys = ON; INSERT INTO c VALUES (1)").lines[0] == f"F{deferred}."
    assert state_of(db).endswith(f"; f{deferred}")
    db("%sql INSERT INTO p VALUES (1)")
    db("%sql COMMIT; BEGIN")
    assert deferred not in state_of(db)
    assert db("%sql PRAGMA defer_foreign_keys").value.iloc[0, 0] == 0
    db("%sql ROLLBACK")


@pytest.mark.parametrize("server", ["embedded"])
@pytest.mark.parametrize(
    ("switch", "effect", "back"),
    [
        ("ignore_check_constraints = 1", "CHECK constraints are not checked", "ignore_check_constraints = OFF"),
        ("recursive_triggers(true)", "triggers can fire themselves", "recursive_triggers = OFF"),
        ("case_sensitive_like = on", "LIKE is case-sensitive", "case_sensitive_like = OFF"),
        ("query_only = yes", "statements that write fail", "query_only = OFF"),
        ("main.reverse_unordered_selects = ON", "rows without ORDER BY are in reverse order",
         "reverse_unordered_selects = OFF"),
        ("legacy_alter_table = ON", "ALTER TABLE RENAME leaves views and triggers unchanged",
         "legacy_alter_table = OFF"),
    ],
)  # fmt: skip
def test_other_settings_that_change_what_is_right(db, switch, effect, back):
    sentence = f"{effect} on this connection until PRAGMA {back}"
    assert db(f"%sql PRAGMA {switch}").lines[0] == f"{sentence[0].upper()}{sentence[1:]}."
    assert state_of(db).endswith(f"; {sentence}")
    db(f"%sql PRAGMA {back}")
    assert state_of(db).endswith("; no transaction")


@pytest.mark.parametrize("server", ["embedded"])
def test_a_dump_that_fails_leaves_no_check_switched_off(db):
    db("%sql CREATE TABLE t (a CHECK (a > 0))")
    script = "PRAGMA foreign_keys=OFF;\nPRAGMA ignore_check_constraints=ON;\nBEGIN;\nCREATE TABLE t (a);\nCOMMIT"
    message = db.fails(f"%%sql\n{script}").error.message
    assert message.endswith(
        "Foreign keys are on again, after the script that switched them off.\n"
        "CHECK constraints are checked again, after the script that switched them off."
    )
    assert isinstance(db.fails("%sql INSERT INTO t VALUES (0)").error, StatementError)
    assert state_of(db).endswith("; no transaction")


def test_other_settings_are_not_shown(db):
    assert db("%sql PRAGMA foreign_keys = ON").lines == ["Done."]
    assert state_of(db).endswith("; no transaction")


# -- the server and its address


def test_the_version_and_the_health_of_the_server(db, server):
    assert re.fullmatch(
        rf"Server: {'sqld' if server == 'sqld' else 'pipemagic'} \S.*, healthy", db("%pipedb status").lines[1]
    )


def test_the_address_of_the_current_connection(db):
    url = connection_of(db).database.url
    assert db("%pipedb status").lines[2:] == [f"Address for other programs: {url}"]
    token = connection_of(db).database.transport.token.value.decode().removeprefix("Bearer ")
    assert token not in db("%pipedb status").out


@pytest.mark.parametrize("server", ["embedded"])
def test_the_address_of_one_of_several_connections(db):
    url = connection_of(db).database.url
    db(f"%pipedb connect {url}/ --as other --token-env DB_TOKEN")
    first, second, server, *rest = db("%pipedb status").lines
    assert [first.split()[0], second.split()[0], rest] == ["db", "other", [f"Address for other programs: {url}"]]
    assert db("%pipedb status --on db").lines[1:] == [server, *rest]
    assert db("%pipedb status --on db").lines[2:] == [f"Address for other programs: {url}"]


def test_the_address_and_the_token_of_a_database_of_the_embedded_service(shell, local_service, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shell("%pipedb connect\n%sql CREATE TABLE t AS SELECT 7 AS a")
    _, address, token = shell("%pipedb status").lines[1:]
    shell(token.removeprefix("Token for other programs: "))
    with Database(address.removeprefix("Address for other programs: "), (tmp_path / "main.token").read_text()) as other:
        assert other.execute("SELECT a FROM t").rows == [(7,)]
