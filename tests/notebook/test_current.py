"""`pipemagic.current()`: the notebook's connection for scripts and libraries."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import threading

import pandas as pd
import pytest

import pipemagic
from pipemagic import ParameterError, ReadOnlyError, SessionError, StatementError
from pipemagic.dbapi import OperationalError


@pytest.fixture(params=["embedded", "sqld"])
def server(request):
    return request.param


def session_of(shell):
    return shell.ip.magics_manager.registry["PipeMagics"].session


# -- what it is


def test_a_cell_and_a_library_name_the_same_database(db):
    here = db("import pipemagic\npipemagic.current()").value
    assert (here.name, here.read_only, here.in_transaction) == ("db", False, False)
    assert f"Address for other programs: {here.address}" in db("%pipedb status").lines
    db("%sql CREATE TABLE t AS SELECT 7 AS a")
    with pipemagic.connect(here.address, os.environ["DB_TOKEN"]) as database:
        assert database.execute("SELECT a FROM t").rows == [(7,)]


def test_its_repr_has_the_address_and_no_token(db):
    here = pipemagic.current()
    assert repr(here) == f"CurrentConnection('db', {here.address!r})"
    assert os.environ["DB_TOKEN"] not in repr(here) + repr(vars(here))


def test_a_library_that_takes_a_connection_is_told_which_one(db):
    here = pipemagic.current()
    with pytest.warns(UserWarning, match="DBAPI2"), pytest.raises(AttributeError, match="'cursor'") as caught:
        pd.read_sql("SELECT 1", here)
    assert str(caught.value).endswith("\nHint: libraries take pipemagic.current().dbapi()")
    with pytest.raises(AttributeError, match=r"no attribute 'nope'\Z"):
        _ = here.nope
    assert copy.copy(here).name == "db"


def test_a_read_only_connection(db):
    db(f"%pipedb connect {pipemagic.current().address} --as reader --token-env DB_TOKEN --read-only")
    here = pipemagic.current()
    assert here.read_only
    with pytest.raises(ReadOnlyError):
        here.query("CREATE TABLE t (a)")


def test_it_stays_the_connection_that_was_current(db):
    first = pipemagic.current()
    db("%%sql\nBEGIN;\nCREATE TABLE mine AS SELECT 1 AS a")
    db(f"%pipedb connect {first.address} --as other --token-env DB_TOKEN")
    assert (first.name, pipemagic.current().name) == ("db", "other")
    assert first.query("SELECT a FROM mine")["a"].tolist() == [1]
    db("%pipedb close db")
    with pytest.raises(SessionError, match="the connection db was closed") as caught:
        first.query("SELECT 1")
    assert caught.value.hint == "%pipedb connect db"


# -- query


def test_query_runs_where_the_cells_run(db):
    here = pipemagic.current()
    db("%%sql\nCREATE TABLE t (a, day DATE);\nBEGIN;\nINSERT INTO t VALUES (1, '2013-07-01')")
    assert here.in_transaction
    assert here.query("INSERT INTO t VALUES (:a, :day)", {"a": 2, "day": pd.Timestamp("2013-07-02")}).empty
    frame = here.query("SELECT a, day FROM t WHERE a IN :values", {"values": [1, 2]})
    assert frame["a"].tolist() == [1, 2]
    assert frame["day"].tolist() == [pd.Timestamp("2013-07-01"), pd.Timestamp("2013-07-02")]
    with pipemagic.connect(here.address, os.environ["DB_TOKEN"]) as database:
        assert database.execute("SELECT count(*) FROM t").rows == [(0,)]
    db("%sql ROLLBACK")
    assert not here.in_transaction
    assert here.query("SELECT count(*) AS n FROM t")["n"].tolist() == [0]


def test_query_has_the_errors_and_the_trace_of_a_cell(db):
    here = pipemagic.current()
    with pytest.raises(StatementError, match="no such column: nme"):
        here.query("SELECT nme FROM sqlite_master")
    with pytest.raises(ParameterError, match=":a has no value"):
        here.query("SELECT :a")
    here.query("SELECT 'in the trace'")
    assert "in the trace" in str(db("%pipedb wire last --stable").value)


def test_query_warns_of_what_a_cell_would_print(db):
    with pytest.warns(UserWarning, match=r"Column x has .* values, so its dtype is object"):
        pipemagic.current().query("SELECT 1 AS x UNION ALL SELECT 'a'")


def test_queries_of_another_thread_wait_for_cells(db):
    """A stream takes one request at a time, and refuses another one."""
    here, times, start, sums = pipemagic.current(), 50, threading.Barrier(2), []

    def run_queries():
        start.wait()
        sums.extend(here.query("SELECT sum(a) AS s FROM t")["s"][0] for _ in range(times))

    db("%sql CREATE TABLE t AS SELECT 0 AS a")
    other = threading.Thread(target=run_queries)
    other.start()
    start.wait()
    for _ in range(times):
        db("%sql INSERT INTO t VALUES (1)")
    other.join()
    assert len(sums) == times
    assert sums == sorted(sums)


# -- dbapi


def test_dbapi_runs_in_the_transaction_of_a_cell_and_leaves_it_open(db):
    db("%%sql\nCREATE TABLE t (a);\nBEGIN;\nINSERT INTO t VALUES (1)")
    connection = pipemagic.current().dbapi()
    assert connection.autocommit is True
    assert connection.in_transaction
    connection.execute("INSERT INTO t VALUES (?)", (2,))
    connection.commit()
    connection.rollback()
    connection.close()
    assert db("%sql SELECT a FROM t").value["a"].tolist() == [1, 2]
    db("%sql ROLLBACK")
    assert db("%sql SELECT a FROM t").value.empty


def test_dbapi_has_the_options_of_transactions(db):
    db("%sql CREATE TABLE t (a)")
    connection = pipemagic.current().dbapi(autocommit=False)
    connection.execute("INSERT INTO t VALUES (1)")
    connection.rollback()
    connection.execute("INSERT INTO t VALUES (2)")
    connection.commit()
    assert pipemagic.current().query("SELECT a FROM t")["a"].tolist() == [2]
    assert pipemagic.current().dbapi(isolation_level="IMMEDIATE").isolation_level == "IMMEDIATE"
    with pytest.raises(OperationalError, match="no such table: nope"):
        connection.execute("SELECT * FROM nope")


# -- without a connection


def test_a_default_connection_is_opened_as_by_a_cell(db, tmp_path):
    path = tmp_path / "token"
    path.write_text(os.environ["DB_TOKEN"])
    path.chmod(0o600)
    db(f'%pipedb connect {pipemagic.current().address} --as again --token-file "{path}"')
    db("%pipedb profiles --save mine\n%pipedb close again\n%pipedb close db\n%config PipeMagic.connection = 'mine'")
    ran = db("import pipemagic\npipemagic.current().name")
    assert ran.lines[0] == "Connected to mine."
    assert ran.value == "mine"


def test_without_a_connection_the_error_has_the_line_to_type(shell):
    failed = shell.fails("import pipemagic\npipemagic.current()")
    assert isinstance(failed.error, SessionError)
    assert failed.error.message == "no database is connected"
    assert failed.error.hint.startswith("%pipedb connect")


def test_with_connections_of_which_none_is_current_the_hint_names_one(db):
    db(f"%pipedb connect {pipemagic.current().address} --as other --token-env DB_TOKEN\n%pipedb close")
    with pytest.raises(SessionError, match="no database is connected") as caught:
        pipemagic.current()
    assert caught.value.hint == "%pipedb use db"


def test_without_the_extension_the_error_has_the_line_to_type(plain_shell):
    failed = plain_shell.fails("import pipemagic\npipemagic.current()")
    assert isinstance(failed.error, SessionError)
    assert (failed.error.message, failed.error.hint) == ("pipemagic is not loaded", "run %load_ext pipemagic")


def test_in_a_program_the_error_names_connect():
    code = "import pipemagic\ntry: pipemagic.current()\nexcept pipemagic.SessionError as error: print(error)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    assert ran.stdout.splitlines() == [
        "no notebook is running",
        "Hint: pipemagic.connect(ADDRESS, token=...) connects a program, create_engine('sqlite+pipemagic://HOST') too",
    ]
